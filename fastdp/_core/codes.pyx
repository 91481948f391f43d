"""Column encoding and decoding kernels (csrc/codes.c). Arguments were checked one floor above."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "codes.h" nogil:
    enum: FDP_DROP
    enum: FDP_AFFINE
    enum: FDP_TABLE
    enum: FDP_SORTED
    enum: FDP_EDGES
    struct fdp_map:
        int rule
        int64_t lo
        uint64_t count
        const int64_t *ikeys
        const double *fkeys
        const uint32_t *table
        uint32_t below
        uint32_t above
        uint32_t other
        uint32_t nan
        uint32_t null
    struct fdp_bins:
        const double *lo
        const double *hi
        const double *mean
        const double *low
        const double *high
    int fdp_encode(const void *x, int type, size_t n, const fdp_map *map, const uint8_t *valid, int64_t bit0,
                   int width, void *out, uint8_t *keep)
    int fdp_lookup(const void *codes, int width, size_t n, const void *table, int size, void *out)
    int fdp_uniform(uint64_t key, uint64_t row0, size_t n, double *u)
    int fdp_draw(const void *codes, int width, size_t n, const fdp_bins *bins, int whole, double unit,
                 uint64_t key, uint64_t row0, int type, void *out)


DROP = 0xFFFFFFFF
AFFINE, TABLE, SORTED, EDGES = FDP_AFFINE, FDP_TABLE, FDP_SORTED, FDP_EDGES
TYPES = {"i1": 0, "u1": 1, "i2": 2, "u2": 3, "i4": 4, "u4": 5, "i8": 6, "u8": 7, "f4": 8, "f8": 9}


cdef void *address(array) except? NULL:
    if not array.flags.c_contiguous:
        raise ValueError("a kernel needs contiguous arrays")
    return <void *><uintptr_t>array.ctypes.data


cdef int type_of(dtype) except -1:
    return TYPES[np.dtype(dtype).str[1:]]


cdef class Map:
    """A column's rule, ready for the kernel; immutable, so threads may share it."""

    cdef fdp_map m
    cdef object owned

    def __cinit__(self, int rule, *, int64_t lo=0, uint64_t count=0, ikeys=None, fkeys=None, table=None,
                  uint32_t below=0xFFFFFFFFu, uint32_t above=0xFFFFFFFFu, uint32_t other=0xFFFFFFFFu,
                  uint32_t nan=0xFFFFFFFFu, uint32_t null=0xFFFFFFFFu):
        ikeys = np.ascontiguousarray([] if ikeys is None else ikeys, dtype=np.int64)
        fkeys = np.ascontiguousarray([] if fkeys is None else fkeys, dtype=np.float64)
        table = np.ascontiguousarray([] if table is None else table, dtype=np.uint32)
        self.owned = (ikeys, fkeys, table)
        self.m.rule = rule
        self.m.lo = lo
        self.m.count = count
        self.m.ikeys = <const int64_t *>address(ikeys)
        self.m.fkeys = <const double *>address(fkeys)
        self.m.table = <const uint32_t *>address(table)
        self.m.below, self.m.above, self.m.other = below, above, other
        self.m.nan, self.m.null = nan, null


def encode(x, Map rule not None, valid, int64_t bit0, out, keep):
    """out[i] = code of x[i]; `valid` an Arrow bitmap as uint8 array or None; `keep` uint8 or None."""
    cdef size_t n = len(out)
    cdef int type = type_of(x.dtype), width = out.dtype.itemsize, code
    cdef const void *px = address(x)
    cdef const uint8_t *pv = NULL
    if valid is not None:
        pv = <const uint8_t *>address(valid)
    cdef void *po = address(out)
    cdef uint8_t *pk = NULL if keep is None else <uint8_t *>address(keep)
    cdef const fdp_map *pm = &rule.m
    with nogil:
        code = fdp_encode(px, type, n, pm, pv, bit0, width, po, pk)
    check(code, "coding a column")


def lookup(codes, table, out):
    """out[i] = table[codes[i]]."""
    cdef size_t n = len(out)
    cdef int width = codes.dtype.itemsize, size = table.dtype.itemsize, code
    cdef const void *pc = address(codes)
    cdef const void *pt = address(table)
    cdef void *po = address(out)
    with nogil:
        code = fdp_lookup(pc, width, n, pt, size, po)
    check(code, "coding a column")


def uniform(uint64_t key, uint64_t row0, double[::1] u):
    """u[i] in [0, 1), a fixed function of (key, row0 + i)."""
    cdef size_t n = u.shape[0]
    cdef int code
    if n == 0:
        return
    with nogil:
        code = fdp_uniform(key, row0, n, &u[0])
    check(code, "coding a column")


def draw(codes, double[::1] lo, double[::1] hi, double[::1] mean, double[::1] low, double[::1] high,
         bint whole,
         double unit, uint64_t key, uint64_t row0, out):
    """Values drawn within the bins of the codes, see csrc/codes.h."""
    cdef size_t n = len(out)
    cdef int width = codes.dtype.itemsize, type = type_of(out.dtype), code
    cdef const void *pc = address(codes)
    cdef void *po = address(out)
    cdef fdp_bins bins
    bins.lo, bins.hi, bins.mean, bins.low, bins.high = &lo[0], &hi[0], &mean[0], &low[0], &high[0]
    with nogil:
        code = fdp_draw(pc, width, n, &bins, whole, unit, key, row0, type, po)
    check(code, "coding a column")

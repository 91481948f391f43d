"""Column encoding and decoding kernels (csrc/codes.c). Arguments were checked one floor above."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr

import numpy as np

from fastdp._core.arrays cimport address
from fastdp._core.status cimport FDP_ERR_MEMORY, check
from fastdp._core.team cimport Team, fdp_team, team_of


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
    struct fdp_encode_job:
        const void *x
        int type
        size_t n
        const fdp_map *map
        const uint8_t *valid
        int64_t bit0
        int width
        void *out
        uint8_t *keep
    struct fdp_joint:
        int64_t chunks
        const void **from_ "from"
        size_t *sizes
        size_t bytes
        void *to
    int fdp_join(int64_t n, fdp_joint *joints, fdp_team *team)
    uint32_t fdp_largest(const void *codes, int width, size_t n)
    int fdp_encode(const void *x, int type, size_t n, const fdp_map *map, const uint8_t *valid, int64_t bit0,
                   int width, void *out, uint8_t *keep)
    int fdp_lookup(const void *codes, int width, size_t n, const void *table, int size, void *out)
    int fdp_uniform(uint64_t key, uint64_t row0, size_t n, double *u)
    int fdp_draw(const void *codes, int width, size_t n, const fdp_bins *bins, int whole, double unit,
                 uint64_t key, uint64_t row0, int type, void *out)


DROP = 0xFFFFFFFF
AFFINE, TABLE, SORTED, EDGES = FDP_AFFINE, FDP_TABLE, FDP_SORTED, FDP_EDGES
TYPES = {"i1": 0, "u1": 1, "i2": 2, "u2": 3, "i4": 4, "u4": 5, "i8": 6, "u8": 7, "f4": 8, "f8": 9}


NUMBERS = {np.dtype(name).num: number for name, number in TYPES.items()}


cdef int type_of(array) except -1:
    number = NUMBERS.get(array.dtype.num)
    return TYPES[array.dtype.str[1:]] if number is None else number


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


def encode(jobs, columns=(), keep=None):
    """For each (x, rule, valid, bit0, out, keep): out[i] = code of x[i]; `valid` an Arrow bitmap as uint8
    array or None; `keep` uint8 or None. Returns the largest code of each of the columns (0 of an empty one)
    and whether no row of `keep` is 0. Python's lock is given back once for all: with many threads each time
    costs."""
    cdef int64_t count = len(jobs), wide = len(columns), i
    cdef int code = 0
    cdef Map own
    cdef fdp_encode_job *job = <fdp_encode_job *>malloc((count + wide + 1) * sizeof(fdp_encode_job))
    cdef const void *kept = NULL
    cdef size_t rows = 0
    cdef bint every = True
    if job == NULL:
        check(FDP_ERR_MEMORY, "coding a column")
    largest = np.zeros(wide + 1, np.uint32)
    cdef uint32_t[::1] largest_v = largest
    try:
        for i, (x, rule, valid, bit0, out, keeping) in enumerate(jobs):
            own = rule
            job[i].x, job[i].type, job[i].n, job[i].map = address(x), type_of(x), out.size, &own.m
            job[i].valid = NULL
            if valid is not None:
                job[i].valid = <const uint8_t *>address(valid)
            job[i].bit0, job[i].width, job[i].out = bit0, out.itemsize, address(out)
            job[i].keep = NULL if keeping is None else <uint8_t *>address(keeping)
        for i, out in enumerate(columns, count):
            job[i].x, job[i].n, job[i].width = address(out), out.size, out.itemsize
        if keep is not None:
            kept, rows = address(keep), len(keep)
        with nogil:
            for i in range(count):
                if code == 0:
                    code = fdp_encode(job[i].x, job[i].type, job[i].n, job[i].map, job[i].valid,
                                      job[i].bit0, job[i].width, job[i].out, job[i].keep)
            for i in range(wide):
                largest_v[i] = fdp_largest(job[count + i].x, job[count + i].width, job[count + i].n)
            every = kept == NULL or memchr(kept, 0, rows) == NULL
    finally:
        free(job)
    check(code, "coding a column")
    return largest[:wide].tolist(), every


def joined(columns, threads):
    """For each column, a list of one chunk or more: the chunks one after the other, as a new array.
    Copied by a team of threads."""
    cdef int64_t count = len(columns), every = sum(map(len, columns)), i
    cdef Team team = team_of(threads)
    cdef fdp_joint *joint = <fdp_joint *>malloc((count + 1) * sizeof(fdp_joint))
    cdef const void **from_ = <const void **>malloc((every + 1) * sizeof(void *))
    cdef size_t *sizes = <size_t *>malloc((every + 1) * sizeof(size_t))
    cdef int code = FDP_ERR_MEMORY
    made = []
    try:
        if joint != NULL and from_ != NULL and sizes != NULL:
            every = 0
            for i, chunks in enumerate(columns):
                out = np.empty(sum(map(len, chunks)), chunks[0].dtype)
                made.append(out)
                joint[i].chunks, joint[i].from_, joint[i].sizes = len(chunks), from_ + every, sizes + every
                joint[i].bytes, joint[i].to = out.nbytes, address(out)
                for chunk in chunks:
                    if chunk.dtype != out.dtype:
                        raise ValueError(f"chunks of {chunk.dtype} cannot be joined to {out.dtype}")
                    from_[every], sizes[every] = address(chunk), chunk.nbytes
                    every += 1
            with nogil:
                code = fdp_join(count, joint, team.c)
    finally:
        free(joint)
        free(from_)
        free(sizes)
    check(code, "joining columns")
    return made


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
    cdef int width = codes.dtype.itemsize, type = type_of(out), code
    cdef const void *pc = address(codes)
    cdef void *po = address(out)
    cdef fdp_bins bins
    bins.lo, bins.hi, bins.mean, bins.low, bins.high = &lo[0], &hi[0], &mean[0], &low[0], &high[0]
    with nogil:
        code = fdp_draw(pc, width, n, &bins, whole, unit, key, row0, type, po)
    check(code, "coding a column")

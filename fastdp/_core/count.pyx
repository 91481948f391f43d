"""Thin Cython over csrc/count*.c: pointers in, return codes out. Arguments are checked in engines/local.py."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np


cdef extern from "count.h" nogil:
    ctypedef struct fdp_rows:
        int64_t rows
        const void *const *column
        const uint8_t *width
        const uint32_t *user
        const uint32_t *weight
    ctypedef struct fdp_plan:
        int steps
        const int32_t *depth
        const int32_t *column
        const uint32_t *size
        const int64_t *offset
        const int64_t *cells
    int fdp_count(const fdp_rows *, const fdp_plan *, int, int64_t, int64_t, int64_t *)
    int fdp_cells(const fdp_rows *, int, const uint64_t *, int, uint64_t *)
    int fdp_sparse(int64_t, uint64_t *, int64_t *, int, int, int64_t *)
    int fdp_row_weights(const fdp_rows *, int64_t *)
    int fdp_project(int64_t, int64_t, int64_t, const int64_t *, int64_t *)


cdef int check(int code) except -1:
    if code == -1:
        raise MemoryError("not enough memory to count")
    if code != 0:
        raise RuntimeError(f"count kernel failed with code {code}")
    return 0


cdef class Rows:
    """Borrowed pointers to code columns (u8/u16/u32), an optional user index and optional weights."""

    cdef fdp_rows c
    cdef const void **pointers
    cdef uint8_t *widths
    cdef object keep

    def __cinit__(self, columns, const uint32_t[::1] user, const uint32_t[::1] weight, int64_t rows):
        cdef const uint8_t[::1] view
        cdef Py_ssize_t n = len(columns), i
        self.pointers = <const void **>malloc(sizeof(void *) * (n + 1))
        self.widths = <uint8_t *>malloc(n + 1)
        if self.pointers == NULL or self.widths == NULL:
            raise MemoryError
        self.keep = (list(columns), user, weight)
        for i in range(n):
            column = columns[i]
            if column.dtype.kind != "u" or column.itemsize > 4 or not column.flags.c_contiguous:
                raise TypeError("code columns are contiguous u8, u16 or u32")
            if column.shape[0] != rows:
                raise ValueError("code columns differ in length")
            self.pointers[i] = NULL
            self.widths[i] = column.itemsize
            if rows:
                view = column.view(np.uint8)
                self.pointers[i] = <const void *>&view[0]
        self.c.rows = rows
        self.c.column = <const void *const *>self.pointers
        self.c.width = self.widths
        self.c.user = &user[0] if user is not None and rows else NULL
        self.c.weight = &weight[0] if weight is not None and weight.shape[0] else NULL

    def __dealloc__(self):
        free(self.pointers)
        free(self.widths)


def count(
    Rows rows,
    const int32_t[::1] depth,
    const int32_t[::1] column,
    const uint32_t[::1] size,
    const int64_t[::1] offset,
    const int64_t[::1] cells,
    int threads,
    int64_t budget,
    int64_t[::1] tables,  # OUT, zero on entry
):
    cdef fdp_plan plan
    cdef int code
    plan.steps = <int>depth.shape[0]
    if plan.steps == 0 or rows.c.rows == 0:
        return
    plan.depth = &depth[0]
    plan.column = &column[0]
    plan.size = &size[0]
    plan.offset = &offset[0]
    plan.cells = &cells[0]
    with nogil:
        code = fdp_count(&rows.c, &plan, threads, budget, tables.shape[0], &tables[0])
    check(code)


def cells(Rows rows, const uint64_t[::1] size, int threads):
    """Cell number of every row over all of the columns in `rows`, in their order."""
    out = np.zeros(rows.c.rows, np.uint64)
    cdef uint64_t[::1] view = out
    cdef int code
    if rows.c.rows and size.shape[0]:
        with nogil:
            code = fdp_cells(&rows.c, <int>size.shape[0], &size[0], threads, &view[0])
        check(code)
    return out


def sparse(Rows rows, uint64_t[::1] keys, int bits, int threads):
    """Distinct keys, ascending, and the exact sums of their rows' weights. Overwrites `keys`."""
    sums = np.empty(rows.c.rows, np.int64)
    cdef int64_t[::1] view = sums
    cdef int64_t distinct = 0
    cdef int code = 0
    if rows.c.rows:
        with nogil:
            fdp_row_weights(&rows.c, &view[0])
            code = fdp_sparse(rows.c.rows, &keys[0], &view[0], bits, threads, &distinct)
        check(code)
    return np.asarray(keys)[:distinct].copy(), sums[:distinct].copy()


def project(const int64_t[::1] table, int64_t outer, int64_t middle, int64_t inner):
    """int64[outer * inner]: the table [outer, middle, inner] summed over its middle axis."""
    out = np.empty(outer * inner, np.int64)
    cdef int64_t[::1] view = out
    if out.shape[0]:
        with nogil:
            fdp_project(outer, middle, inner, &table[0], &view[0])
    return out

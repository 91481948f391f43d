"""Thin Cython over csrc/count*.c: pointers in, return codes out. Arguments are checked in
engines/local.py."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

import numpy as np

from fastdp._core.status cimport FDP_OK, check
from fastdp._core.team cimport Team, fdp_team, team_of


cdef extern from "count.h" nogil:
    ctypedef struct fdp_rows:
        int64_t rows
        const void *const *column
        const uint8_t *width
        const uint32_t *user
        const uint32_t *weight
    ctypedef struct fdp_plan:
        int cliques
        const int32_t *start
        const int32_t *column
        const uint32_t *size
        const int64_t *offset
        const int64_t *cells
    ctypedef struct fdp_projections:
        int levels
        const int32_t *first
        const int64_t *outer
        const int64_t *middle
        const int64_t *inner
        const int64_t *const *in_ "in"
        int64_t *const *out
    int fdp_count(const fdp_rows *, const fdp_plan *, fdp_team *, int64_t, int64_t, int64_t, int64_t *)
    int fdp_cells(const fdp_rows *, int, const uint64_t *, fdp_team *, uint64_t *)
    int fdp_sparse(int64_t, uint64_t *, int64_t *, int, fdp_team *, int64_t *)
    int fdp_row_weights(const fdp_rows *, int64_t *)
    int fdp_project(const fdp_projections *, fdp_team *)


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
    const int32_t[::1] start,
    const int32_t[::1] column,
    const uint32_t[::1] size,
    const int64_t[::1] offset,
    const int64_t[::1] cells,
    threads,  # a number, or a Team
    int64_t chunk,
    int64_t budget,
    int64_t[::1] tables,  # OUT
):
    """Fills `tables` with the weighted marginals of a plan's cliques (see csrc/count.h)."""
    cdef fdp_plan plan
    cdef int code
    cdef Team team = team_of(threads)
    plan.cliques = <int>offset.shape[0]
    if plan.cliques == 0 or rows.c.rows == 0:
        tables[:] = 0
        return
    plan.start = &start[0]
    plan.column = &column[0]
    plan.size = &size[0]
    plan.offset = &offset[0]
    plan.cells = &cells[0]
    with nogil:
        code = fdp_count(&rows.c, &plan, &team.c, chunk, budget, tables.shape[0], &tables[0])
    check(code, "counting rows")


def cells(Rows rows, const uint64_t[::1] size, threads):
    """Cell number of every row over all of the columns in `rows`, in their order."""
    out = np.zeros(rows.c.rows, np.uint64)
    cdef uint64_t[::1] view = out
    cdef int code
    cdef Team team = team_of(threads)
    if rows.c.rows and size.shape[0]:
        with nogil:
            code = fdp_cells(&rows.c, <int>size.shape[0], &size[0], &team.c, &view[0])
        check(code, "counting rows")
    return out


def sparse(Rows rows, uint64_t[::1] keys, int bits, threads):
    """Distinct keys, ascending, and the exact sums of their rows' weights. Overwrites `keys`."""
    sums = np.empty(rows.c.rows, np.int64)
    cdef int64_t[::1] view = sums
    cdef int64_t distinct = 0
    cdef int code
    cdef Team team = team_of(threads)
    if rows.c.rows:
        with nogil:
            code = fdp_row_weights(&rows.c, &view[0])
            if code == FDP_OK:
                code = fdp_sparse(rows.c.rows, &keys[0], &view[0], bits, &team.c, &distinct)
        check(code, "counting rows")
    return np.asarray(keys)[:distinct].copy(), sums[:distinct].copy()


def project(levels, threads):
    """Runs levels of steps (table, outer, middle, inner, out): int64[outer * inner] out becomes the table
    [outer, middle, inner] summed over its middle axis. Steps of one level are independent of each other."""
    steps = [step for level in levels for step in level]
    cdef Py_ssize_t n = len(steps), i
    cdef const int64_t[::1] table
    cdef int64_t[::1] out
    cdef int code
    cdef Team team = team_of(threads)
    if n == 0:
        return
    first = np.cumsum([0, *map(len, levels)], dtype=np.int32)
    shape = np.array([step[1:4] for step in steps], np.int64).T.copy()
    pointers = np.zeros((2, n), np.uintp)
    cdef const int32_t[::1] firsts = first
    cdef const int64_t[:, ::1] shapes = shape
    cdef uintptr_t[:, ::1] places = pointers
    for i in range(n):
        table, out = steps[i][0], steps[i][4]
        kept = shapes[0, i] * shapes[2, i]
        if table.shape[0] != kept * shapes[1, i] or out.shape[0] != kept:
            raise ValueError("a table is not of the shape it is projected from or to")
        if table.shape[0]:
            places[0, i] = <uintptr_t>&table[0]
        if out.shape[0]:
            places[1, i] = <uintptr_t>&out[0]
    cdef fdp_projections c
    c.levels = <int>(firsts.shape[0] - 1)
    c.first = &firsts[0]
    c.outer, c.middle, c.inner = &shapes[0, 0], &shapes[1, 0], &shapes[2, 0]
    c.in_ = <const int64_t *const *>&places[0, 0]
    c.out = <int64_t *const *>&places[1, 0]
    with nogil:
        code = fdp_project(&c, &team.c)
    check(code, "counting rows")

"""Thin Cython over csrc/count*.c: pointers in, return codes out. Arguments are checked in
engines/local.py."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

from itertools import accumulate

import numpy as np

from fastdp._core.arrays cimport address, kept
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
        code = fdp_count(&rows.c, &plan, team.c, chunk, budget, tables.shape[0], &tables[0])
    check(code, "counting rows")


def cells(Rows rows, const uint64_t[::1] size, threads):
    """Cell number of every row over all of the columns in `rows`, in their order."""
    out = np.zeros(rows.c.rows, np.uint64)
    cdef uint64_t[::1] view = out
    cdef int code
    cdef Team team = team_of(threads)
    if rows.c.rows and size.shape[0]:
        with nogil:
            code = fdp_cells(&rows.c, <int>size.shape[0], &size[0], team.c, &view[0])
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
                code = fdp_sparse(rows.c.rows, &keys[0], &view[0], bits, team.c, &distinct)
        check(code, "counting rows")
    return np.asarray(keys)[:distinct].copy(), sums[:distinct].copy()


cdef class Projections:
    """Levels of steps (table, axis, end, out): the table summed over its axes axis .. end - 1 goes to `out`.
    Steps of one level are independent of each other."""

    cdef fdp_projections c
    cdef list keep

    def __cinit__(self, levels):
        cdef Py_ssize_t axis, end, i, k
        steps = [step for level in levels for step in level]
        self.keep = [steps]
        numbers = np.ones((3, len(steps)), np.int64)
        places = np.zeros((2, len(steps)), np.uintp)
        cdef int64_t[:, ::1] shape = numbers
        cdef uintptr_t[:, ::1] place = places
        for i in range(len(steps)):
            table, axis, end, out = steps[i]
            for k, length in enumerate(table.shape):
                shape[(k >= axis) + (k >= end), i] *= length
            if table.dtype != np.int64 or out.dtype != np.int64:
                raise TypeError("tables are of int64")
            if out.size != shape[0, i] * shape[2, i]:
                raise ValueError("a table is not of the shape it is projected to")
            place[0, i], place[1, i] = <uintptr_t>address(table), <uintptr_t>address(out)
        self.c.levels = <int>len(levels)
        self.c.first = <const int32_t *>kept(self.keep, [0, *accumulate(map(len, levels))], np.int32)
        self.c.outer = <const int64_t *>kept(self.keep, numbers[0], np.int64)
        self.c.middle = <const int64_t *>kept(self.keep, numbers[1], np.int64)
        self.c.inner = <const int64_t *>kept(self.keep, numbers[2], np.int64)
        self.c.in_ = <const int64_t *const *>kept(self.keep, places[0], np.uintp)
        self.c.out = <int64_t *const *>kept(self.keep, places[1], np.uintp)

    def run(self, threads):
        """Runs them, level after level."""
        cdef int code
        cdef Team team = team_of(threads)
        with nogil:
            code = fdp_project(&self.c, team.c)
        check(code, "counting rows")

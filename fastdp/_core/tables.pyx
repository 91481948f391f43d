"""Whole tables of float64 by a team of threads; see csrc/tables.h. `threads`: a number, or a `Team`."""

from libc.stdint cimport int64_t

import numpy as np

from fastdp._core.arrays cimport address, fill, read, strided
from fastdp._core.status cimport check
from fastdp._core.team cimport Team, fdp_team, team_of


cdef extern from "tables.h" nogil:
    enum:
        FDP_TABLES_AXES
        FDP_TABLES_BLOCKS
    int fdp_tables_touch(int64_t, char *, fdp_team *)
    int fdp_tables_copy(int, const int64_t *, const int64_t *, const double *, fdp_team *, double *)
    int fdp_tables_outer(int64_t, int64_t, const double *, const double *, fdp_team *, double *)
    int fdp_tables_farthest(int64_t, const double *, fdp_team *, double *)
    int fdp_tables_squares(int64_t, const double *, const double *, const double *, double, fdp_team *,
                           double *)
    int fdp_tables_sums(int64_t, int64_t, const double *, double, fdp_team *, double *, double *, double *,
                        double *)


LARGE = 1 << 22
"""Bytes from which on numpy asks for large pages."""


def room(int64_t n, threads, dtype=np.float64):
    """A flat array of n numbers without values, whose memory the team has taken from the system."""
    out = np.empty(n, dtype)
    cdef Team team = team_of(threads)
    cdef char *start = <char *> address(out)
    cdef int64_t size = out.nbytes
    if size >= LARGE:
        with nogil:
            fdp_tables_touch(size, start, team.c)
    return out


def copied(table, threads, out=None):
    """A float64 table of any strides in C order: a new array, or flat in `out`."""
    cdef int64_t[FDP_TABLES_AXES] shape, stride
    cdef int axes = table.ndim, k, code
    cdef Team team = team_of(threads)
    made = np.empty(table.shape) if out is None else out
    if table.dtype != np.float64 or axes < 1 or axes > FDP_TABLES_AXES:
        raise ValueError("a table of float64 with at least one axis is copied")
    for k in range(axes):
        shape[k], stride[k] = table.shape[k], table.strides[k] // <int64_t> sizeof(double)
    cdef double *to = fill(made, table.size)
    cdef const double *start = <const double *> strided(table)
    if table.size:
        with nogil:
            code = fdp_tables_copy(axes, shape, stride, start, team.c, to)
        check(code, "a copy of a table")
    return made


def rooms(sizes, threads):
    """Flat arrays of float64 without values, side by side in one."""
    ends = np.cumsum([0, *sizes]).tolist()
    whole = room(ends[len(sizes)], threads)
    return [whole[a:b] for a, b in zip(ends, ends[1:])]


def packed(tables, threads):
    """Copies of float64 tables of any strides in C order, side by side in one array."""
    parts = rooms([table.size for table in tables], threads)
    return [copied(table, threads, part).reshape(table.shape) for table, part in zip(tables, parts)]


def outer(a, b, threads, out=None):
    """a[i] b[j], flat."""
    cdef int64_t rows = a.size, cols = b.size
    cdef Team team = team_of(threads)
    out = np.empty(rows * cols) if out is None else out
    cdef const double *left = read(a, rows)
    cdef const double *right = read(b, cols)
    cdef double *to = fill(out, rows * cols)
    cdef int code
    with nogil:
        code = fdp_tables_outer(rows, cols, left, right, team.c, to)
    check(code, "a product of tables")
    return out


def farthest(x, threads):
    """The largest |x|; infinity where one of them is not a number."""
    cdef int64_t n = x.size
    cdef Team team = team_of(threads)
    cdef const double *values = read(x, n)
    cdef double most = 0
    with nogil:
        fdp_tables_farthest(n, values, team.c, &most)
    return most


def squares(x, y, sigma, threads):
    """Sum of ((x - y) / sigma)^2; sigma: a number, or one for each entry."""
    cdef int64_t n = x.size
    cdef Team team = team_of(threads)
    cdef const double *left = read(x, n)
    cdef const double *right = read(y, n)
    cdef const double *sigmas = read(sigma, n) if np.ndim(sigma) else NULL
    cdef double one = 1.0 if np.ndim(sigma) else sigma
    cdef double sum = 0
    cdef int code
    with nogil:
        code = fdp_tables_squares(n, left, right, sigmas, one, team.c, &sum)
    check(code, "the squares of a table")
    return sum


def sums(table, double least, threads):
    """(sums by row, by column, sum of x log(max(x, least))) of a table [rows, cols]; without logarithms, and
    0 for their sum, where `least` is 0."""
    cdef int64_t rows = table.shape[0], cols = table.shape[1]
    cdef Team team = team_of(threads)
    by_row, by_col, room = (np.empty(max(1, n)) for n in (rows, cols, FDP_TABLES_BLOCKS * cols))
    cdef const double *cells = read(table, rows * cols)
    cdef double *to_row = fill(by_row, rows)
    cdef double *to_col = fill(by_col, cols)
    cdef double *space = fill(room, cols)
    cdef double logs = 0
    cdef int code
    with nogil:
        code = fdp_tables_sums(rows, cols, cells, least, team.c, space, to_row, to_col, &logs)
    check(code, "the sums of a table")
    return by_row[:rows], by_col[:cols], logs

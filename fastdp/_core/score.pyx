"""Thin Cython over csrc/score.c. Arguments are checked in metrics/."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "score.h" nogil:
    int FDP_SCORE_COLUMNS
    int fdp_score_group_rows(
        const uint32_t *, const uint8_t *const *, int64_t, int32_t, int64_t, int64_t *, uint64_t *)
    int fdp_score_grouped_pairs(
        const uint64_t *, const int64_t *, const uint64_t *, const int64_t *, int64_t, const int32_t *,
        int32_t,
        int32_t, double *)
    int fdp_score_distance(const uint32_t *, int64_t, const uint32_t *, int64_t, int64_t, double *)


def group_rows(const uint32_t[::1] group, columns, int64_t groups):
    """(start int64 [groups + 1], packed uint64 [rows]): the rows sorted by group, up to eight u8 codes in one
    word."""
    cdef const uint8_t *pointers[8]
    cdef const uint8_t[::1] column
    cdef int64_t rows = group.shape[0]
    cdef int32_t count = len(columns), i
    if count < 1 or count > FDP_SCORE_COLUMNS:
        raise ValueError("1 to 8 columns")
    for i in range(count):
        column = columns[i]
        if column.shape[0] != rows:
            raise ValueError("columns differ in length")
        pointers[i] = &column[0] if rows else NULL
    start, packed = np.empty(groups + 1, np.int64), np.empty(rows, np.uint64)
    cdef int64_t[::1] start_view = start
    cdef uint64_t[::1] packed_view = packed
    cdef const uint32_t *group_pointer = &group[0] if rows else NULL
    cdef uint64_t *packed_pointer = &packed_view[0] if rows else NULL
    cdef int code
    with nogil:
        code = fdp_score_group_rows(group_pointer, pointers, rows, count, groups, &start_view[0],
                                    packed_pointer)
    check(code, "scoring")
    return start, packed


def grouped_pairs(
    const int64_t[::1] start_a, const uint64_t[::1] packed_a, const int64_t[::1] start_b,
    const uint64_t[::1] packed_b, const int32_t[::1] sizes, int32_t threads
):
    """float64 [groups, pairs]: L1 distance of the pair's normalised counts within each group (see
    score.h)."""
    cdef int64_t groups = start_a.shape[0] - 1
    cdef int32_t columns = sizes.shape[0]
    out = np.empty((groups, columns * (columns - 1) // 2))
    cdef double[:, ::1] view = out
    cdef const uint64_t *a = &packed_a[0] if packed_a.shape[0] else NULL
    cdef const uint64_t *b = &packed_b[0] if packed_b.shape[0] else NULL
    cdef int code
    if groups == 0:
        return out
    with nogil:
        code = fdp_score_grouped_pairs(a, &start_a[0], b, &start_b[0], groups, &sizes[0], columns, threads,
                                       &view[0, 0])
    check(code, "scoring")
    return out


def distance(const uint32_t[::1] cells_a, const uint32_t[::1] cells_b, int64_t cells):
    """L1 distance of the normalised counts of two lists of cell numbers below `cells`."""
    cdef double out = 0.0
    cdef const uint32_t *a = &cells_a[0] if cells_a.shape[0] else NULL
    cdef const uint32_t *b = &cells_b[0] if cells_b.shape[0] else NULL
    cdef int64_t rows_a = cells_a.shape[0], rows_b = cells_b.shape[0]
    cdef int code
    with nogil:
        code = fdp_score_distance(a, rows_a, b, rows_b, cells, &out)
    check(code, "scoring")
    return out


ctypedef fused whole:
    signed char
    short
    int
    long long
    unsigned char
    unsigned short
    unsigned int


def mark(const whole[::1] values, int64_t low, uint8_t[::1] seen):
    """seen[v - low] = 1 for every value v; the caller made `seen` as long as the range of values."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(values.shape[0]):
            seen[<int64_t>values[i] - low] = 1


def recode(const whole[::1] values, int64_t low, const uint8_t[::1] table):
    """uint8: table[v - low] for every value v; the caller made `table` as long as the range of values."""
    out = np.empty(values.shape[0], np.uint8)
    cdef uint8_t[::1] view = out
    cdef Py_ssize_t i
    with nogil:
        for i in range(values.shape[0]):
            view[i] = table[<int64_t>values[i] - low]
    return out

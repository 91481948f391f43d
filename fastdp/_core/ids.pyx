"""Dealing rows to users; see csrc/ids.h. Arguments are checked in fastdp/ids.py."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "ids.h" nogil:
    int fdp_ids_group(const uint32_t *key, int64_t n, int64_t keys, uint64_t seed, int threads,
                      uint32_t *order, int64_t *start)
    int fdp_ids_units(const int64_t *indptr, const int64_t *counts, const uint32_t *cells,
                      const int64_t *taken, int64_t users, int64_t units, int threads, uint32_t *user,
                      uint32_t *cell)
    int fdp_ids_deal(const uint32_t *row_order, const int64_t *row_start, const uint32_t *unit_order,
                     const int64_t *unit_start, int64_t keys, const uint32_t *row, const uint32_t *unit,
                     const uint32_t *user, int threads, uint32_t *owner, uint32_t *rest_row,
                     uint32_t *rest_unit, int64_t *rest)


def group(const uint32_t[::1] key, int64_t keys, uint64_t seed, int threads=1):
    """(order, start): positions by key, each group shuffled."""
    cdef int64_t n = key.shape[0]
    order = np.empty(n, np.uint32)
    start = np.empty(keys + 1, np.int64)
    cdef uint32_t[::1] order_v = order
    cdef int64_t[::1] start_v = start
    cdef const uint32_t *key_p = &key[0] if n else NULL
    cdef uint32_t *order_p = &order_v[0] if n else NULL
    cdef int code
    with nogil:
        code = fdp_ids_group(key_p, n, keys, seed, threads, order_p, &start_v[0])
    check(code, "grouping rows by key")
    return order, start


def units(const int64_t[::1] indptr, const int64_t[::1] counts, const uint32_t[::1] cells,
          const int64_t[::1] taken, int64_t number, int threads=1):
    """(user, cell) of each of the `number` rows that the users ask for."""
    user, cell = np.empty(number, np.uint32), np.empty(number, np.uint32)
    cdef uint32_t[::1] user_v = user, cell_v = cell
    cdef int64_t users = taken.shape[0]
    cdef int code
    if number == 0 or users == 0:
        return user, cell
    with nogil:
        code = fdp_ids_units(&indptr[0], &counts[0], &cells[0], &taken[0], users, number, threads,
                             &user_v[0], &cell_v[0])
    check(code, "listing what users ask for")
    return user, cell


def deal(const uint32_t[::1] row_order, const int64_t[::1] row_start, const uint32_t[::1] unit_order,
         const int64_t[::1] unit_start, row, unit, const uint32_t[::1] user, uint32_t[::1] owner,
         int threads=1):
    """Fills owner[row]; returns (rows left over, units left over). None in place of `row` or `unit`: all of
    them, in order."""
    cdef int64_t keys = row_start.shape[0] - 1
    cdef int64_t n = row_order.shape[0], m = unit_order.shape[0]
    if n == 0 or m == 0:
        return (np.arange(n, dtype=np.uint32) if row is None else row,
                np.arange(m, dtype=np.uint32) if unit is None else unit)
    cdef const uint32_t[::1] row_v, unit_v
    cdef const uint32_t *row_p = NULL
    cdef const uint32_t *unit_p = NULL
    if row is not None:
        row_v = row
        row_p = &row_v[0]
    if unit is not None:
        unit_v = unit
        unit_p = &unit_v[0]
    rest_row = np.empty(n, np.uint32)
    rest_unit = np.empty(m, np.uint32)
    rest = np.zeros(2, np.int64)
    cdef uint32_t[::1] rest_row_v = rest_row, rest_unit_v = rest_unit
    cdef int64_t[::1] rest_v = rest
    cdef int code
    with nogil:
        code = fdp_ids_deal(&row_order[0], &row_start[0], &unit_order[0], &unit_start[0], keys, row_p,
                            unit_p, &user[0], threads, &owner[0], &rest_row_v[0], &rest_unit_v[0], &rest_v[0])
    check(code, "dealing rows to users")
    return rest_row[: rest[0]], rest_unit[: rest[1]]

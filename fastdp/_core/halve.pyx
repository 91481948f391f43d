"""One of every two rows, with balanced marginals; see csrc/halve.h."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "halve.h" nogil:
    int fdp_halve(int64_t pairs, int columns, int items, const int64_t *order, const uint32_t *codes,
                  const int32_t *start, const int32_t *column, const uint64_t *stride, const uint64_t *size,
                  const int64_t *offset, const int64_t *weight, const uint8_t *bits, int sweeps,
                  int32_t *counts, int64_t *cells, int64_t *kept)


def halve(const int64_t[::1] order, const uint32_t[:, ::1] codes, items, const uint64_t[::1] size,
          const int64_t[::1] weight, const uint8_t[::1] bits, int sweeps):
    """int64 [pairs]: the row kept of each pair, order[2 i] or order[2 i + 1]. `items`: of each a list of
    (column, stride); `size`, `weight`: of each item."""
    cdef int64_t pairs = order.shape[0] // 2
    cdef int columns = <int>codes.shape[1], n = <int>size.shape[0], code
    parts = [part for item in items for part in item]
    if not parts or pairs == 0:
        raise ValueError("halving needs rows, and items with columns")
    if len(items) != n or weight.shape[0] != n or bits.shape[0] < pairs or order.shape[0] % 2:
        raise ValueError("halving needs pairs of rows, and a size and a weight of every item")
    if not all(0 <= c < columns for c, _ in parts):
        raise ValueError("no such column")
    if np.min(order) < 0 or np.max(order) >= codes.shape[0]:
        raise ValueError("no such row")
    sizes = [int(s) for s in size]
    cdef const int32_t[::1] start = np.cumsum([0, *map(len, items)], dtype=np.int32)
    cdef const int32_t[::1] column = np.array([c for c, _ in parts], np.int32)
    cdef const uint64_t[::1] stride = np.array([s for _, s in parts], np.uint64)
    cdef const int64_t[::1] offset = np.cumsum(sizes, dtype=np.int64) - np.array(sizes, np.int64)
    cdef int32_t[::1] counts = np.zeros(sum(sizes), np.int32)
    cdef int64_t[::1] cells = np.empty(2 * n, np.int64)
    kept = np.empty(pairs, np.int64)
    cdef int64_t[::1] out = kept
    with nogil:
        code = fdp_halve(pairs, columns, n, &order[0], &codes[0, 0], &start[0], &column[0], &stride[0],
                         &size[0], &offset[0], &weight[0], &bits[0], sweeps, &counts[0], &cells[0], &out[0])
    check(code, "choosing one of every two rows")
    return kept

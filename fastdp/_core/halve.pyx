"""One of every two rows, with balanced marginals, and rows that exchange codes; see csrc/halve.h."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "halve.h" nogil:
    int fdp_halve(int64_t pairs, int columns, int items, const int64_t *order, const uint32_t *codes,
                  const int32_t *start, const int32_t *column, const uint64_t *stride, const uint64_t *size,
                  const int64_t *offset, const int64_t *weight, const uint8_t *bits, int sweeps,
                  int32_t *counts, int64_t *cells, int64_t *kept)
    void fdp_tally(int64_t rows, int columns, int items, const uint32_t *codes, const int32_t *start,
                   const int32_t *column, const uint64_t *stride, const uint64_t *size,
                   const int64_t *offset, int32_t amount, int32_t *counts)
    int fdp_exchange(int64_t groups, int columns, int own, int items, uint32_t *codes, const int64_t *order,
                     const int64_t *ends, const int32_t *other, const uint64_t *stride, const uint64_t *size,
                     const int64_t *offset, const int64_t *weight, int32_t scale, int64_t step,
                     int32_t *counts, int64_t *cells)
    int fdp_exchange_gains(int64_t rows, int columns, int own, int others, const uint64_t *key,
                           const uint8_t *groups, const int32_t *other, const double *scores, uint64_t slots,
                           uint64_t *key_of, int64_t *waiting, int64_t *one, int64_t *two, double *gains,
                           int64_t *pairs)


def exchange_gains(const uint64_t[::1] key, const uint8_t[:, ::1] groups, int own, others,
                   const double[:, ::1] scores):
    """(rows, their partners, float64 [pairs x others]): what pairs of rows with the same key gain for each of
    the `others` (columns of `groups`) by exchanging codes of the column `own`. `scores` [columns x 256]."""
    cdef int64_t rows = key.shape[0], pairs = 0
    cdef int code, columns = groups.shape[1], n = len(others)
    cdef uint64_t slots = 1 << (2 * rows + 1).bit_length()
    if rows == 0 or groups.shape[0] != rows or scores.shape[0] != columns or scores.shape[1] != 256 or n == 0 or not all(
        0 <= c < columns for c in (own, *others)
    ):
        raise ValueError("keys, groups and scores do not fit")
    cdef const int32_t[::1] other = np.array(others, np.int32)
    cdef uint64_t[::1] key_of = np.empty(slots, np.uint64)
    cdef int64_t[::1] waiting = np.full(slots, -2, np.int64)
    one, two, gains = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty((rows // 2 + 1, n))
    cdef int64_t[::1] first = one, second = two
    cdef double[:, ::1] out = gains
    with nogil:
        code = fdp_exchange_gains(rows, columns, own, n, &key[0], &groups[0, 0], &other[0], &scores[0, 0], slots,
                                  &key_of[0], &waiting[0], &first[0], &second[0], &out[0, 0], &pairs)
    check(code, "finding rows that exchange codes")
    return one[:pairs], two[:pairs], gains[:pairs]


cdef class Items:
    """Marginals over columns of codes: of each its columns, those of the smallest stride first, and its
    `weight`. `shape`: the columns' numbers of codes. Cells of an item with more than `most` share counts."""

    cdef int n, columns
    cdef object items, given
    cdef const int32_t[::1] start, column
    cdef const uint64_t[::1] stride, size
    cdef const int64_t[::1] offset, weight
    cdef readonly int64_t room

    def __init__(self, shape, items, const int64_t[::1] weight, uint64_t most):
        parts = []
        sizes = []
        for item in items:
            if not len(item) or not all(0 <= c < len(shape) for c in item):
                raise ValueError("an item needs columns, and there must be such columns")
            stride, own = 1, []
            for c in item:
                own.append((c, stride % (1 << 64)))
                stride *= shape[c]
            parts.append(own)
            sizes.append(min(stride, most))
        if not parts or weight.shape[0] != len(parts):
            raise ValueError("there must be items, and a weight of each")
        self.n, self.columns, self.items, self.weight = len(parts), len(shape), parts, weight
        self.given = shape, items, np.asarray(weight), most
        self.start = np.cumsum([0, *map(len, parts)], dtype=np.int32)
        self.column = np.array([c for own in parts for c, _ in own], np.int32)
        self.stride = np.array([s for own in parts for _, s in own], np.uint64)
        self.size = np.array(sizes, np.uint64)
        self.offset = np.cumsum(sizes, dtype=np.int64) - np.array(sizes, np.int64)
        self.room = sum(sizes)

    def __reduce__(self):
        """Items are sent to other processes, which make rows there."""
        return Items, self.given

    cdef int _rows(self, const uint32_t[:, ::1] codes, const int64_t[::1] order) except -1:
        if codes.shape[1] != self.columns:
            raise ValueError("no such column")
        if order.shape[0] == 0 or np.min(order) < 0 or np.max(order) >= codes.shape[0]:
            raise ValueError("no such row")
        return 0

    def halve(self, const int64_t[::1] order, const uint32_t[:, ::1] codes, const uint8_t[::1] bits,
              int sweeps):
        """int64 [pairs]: the row kept of each pair, order[2 i] or order[2 i + 1]."""
        cdef int64_t pairs = order.shape[0] // 2
        cdef int code
        self._rows(codes, order)
        if bits.shape[0] < pairs or order.shape[0] % 2:
            raise ValueError("halving needs pairs of rows, and a bit for each")
        cdef int32_t[::1] counts = np.zeros(self.room, np.int32)
        cdef int64_t[::1] cells = np.empty(2 * self.n, np.int64)
        kept = np.empty(pairs, np.int64)
        cdef int64_t[::1] out = kept
        with nogil:
            code = fdp_halve(pairs, self.columns, self.n, &order[0], &codes[0, 0], &self.start[0],
                             &self.column[0], &self.stride[0], &self.size[0], &self.offset[0],
                             &self.weight[0], &bits[0], sweeps, &counts[0], &cells[0], &out[0])
        check(code, "choosing one of every two rows")
        return kept

    def exchanged(self, const uint32_t[:, ::1] codes, const int64_t[::1] kept, int32_t scale, steps, names,
                  made, groups):
        """The kept rows after exchanges towards the counts of all rows / scale, by column. `made`: all
        columns of the kept rows; `names`: those of `codes`. groups(name, rows) gives (order, ends), see
        `exchange`, or None where no rows may exchange codes of that column."""
        own = np.ascontiguousarray(np.asarray(codes)[np.asarray(kept)])
        counts = np.zeros(self.room, np.int32)
        self._tally(codes, -1, counts)
        self._tally(own, scale, counts)
        for step in steps:
            for i in range(self.columns):
                found = groups(names[i], made | dict(zip(names, own.T)))
                if found is not None:
                    self.exchange(own, i, found[0], found[1], scale, step, counts)
        return {a: column.astype(made[a].dtype) for a, column in zip(names, own.T)}

    cdef int _tally(self, const uint32_t[:, ::1] codes, int32_t amount, int32_t[::1] counts) except -1:
        if codes.shape[1] != self.columns:
            raise ValueError("codes of other columns")
        if codes.shape[0]:
            with nogil:
                fdp_tally(codes.shape[0], self.columns, self.n, &codes[0, 0], &self.start[0],
                          &self.column[0], &self.stride[0], &self.size[0], &self.offset[0], amount,
                          &counts[0])
        return 0

    def exchange(self, uint32_t[:, ::1] codes, int own, const int64_t[::1] order, const int64_t[::1] ends,
                 int32_t scale, int64_t step, int32_t[::1] counts):
        """Rows of one group exchange their codes of column `own` where that brings counts, scale * (rows) -
        target, closer to 0; in place, with the counts. Only items of two columns are looked at."""
        cdef int code, n
        self._rows(codes, order)
        if counts.shape[0] != self.room or ends[ends.shape[0] - 1] != order.shape[0] or (
            np.min(np.diff(ends, prepend=0)) < 0
        ):
            raise ValueError("counts of other items, or groups of other rows")
        of = [j for j, item in enumerate(self.items) if len(item) == 2 and own in (item[0][0], item[1][0])]
        n = len(of)
        if n == 0:
            return
        ordered = [sorted(self.items[j], key=lambda part: part[0] != own) for j in of]
        cdef const int32_t[::1] other = np.array([b for _, (b, _) in ordered], np.int32)
        strides = np.array([[s, t] for (_, s), (_, t) in ordered], np.uint64)
        cdef const uint64_t[::1] stride = strides.reshape(-1)
        cdef const uint64_t[::1] size = np.asarray(self.size)[of]
        cdef const int64_t[::1] offset = np.asarray(self.offset)[of], weight = np.asarray(self.weight)[of]
        cdef int64_t[::1] cells = np.empty(4 * n, np.int64)
        with nogil:
            code = fdp_exchange(ends.shape[0], self.columns, own, n, &codes[0, 0], &order[0], &ends[0],
                                &other[0], &stride[0], &size[0], &offset[0], &weight[0], scale, step,
                                &counts[0], &cells[0])
        check(code, "exchanging codes of rows")

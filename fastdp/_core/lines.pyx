"""Text to columns of fields, one line by itself (csrc/lines.h). Arguments were checked one floor above."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free

import numpy as np

from fastdp._core.status cimport FDP_ERR_MEMORY, check


cdef extern from "lines.h" nogil:
    enum: FDP_LINES_SLACK
    enum: FDP_JSON_DEPTH
    struct fdp_dialect:
        int delimiter
        int quote
        int escape
        int newlines
        int nulls
        const int32_t *null_start
        const uint8_t *null_text
    struct fdp_text_column:
        int32_t *offset
        uint8_t *bytes
        uint8_t *valid
        int64_t nulls
    struct fdp_span:
        pass
    struct fdp_lines_result:
        int64_t rows
        int64_t wrong
        int64_t consumed
    int fdp_lines_count(const uint8_t *text, int64_t n, int64_t *lines)
    int fdp_lines_split(const uint8_t *text, int64_t n, const fdp_dialect *dialect, int fields,
                        const int32_t *column, int64_t limit, int keep_wrong, int final, fdp_span *span,
                        int columns, fdp_text_column *out, fdp_lines_result *result)
    int fdp_lines_json(const uint8_t *text, int64_t n, int64_t limit, int keep_wrong, fdp_span *span,
                       uint8_t *key, int columns, const int32_t *key_start, const uint8_t *key_text,
                       fdp_text_column *out, fdp_lines_result *result)
    int fdp_lines_whole(const int32_t *offset, const uint8_t *bytes, const uint8_t *valid, int64_t n,
                        int64_t *x, int *all)
    int fdp_lines_shortest(const int32_t *offset, const uint8_t *bytes, const uint8_t *valid, int64_t n,
                           int *all)


JSON_DEPTH = FDP_JSON_DEPTH


cdef class Texts:
    """Byte strings one after another, as a kernel takes them."""

    cdef object start, text
    cdef const int32_t *start_p
    cdef const uint8_t *text_p
    cdef readonly int count

    def __cinit__(self, items):
        cdef int32_t[::1] start_v
        cdef const uint8_t[::1] text_v
        self.count = len(items)
        self.start = np.cumsum([0, *map(len, items)]).astype(np.int32)
        self.text = np.frombuffer(b"".join(items) + b"\0", np.uint8)
        start_v, text_v = self.start, self.text
        self.start_p, self.text_p = &start_v[0], &text_v[0]


cdef class _Columns:
    """_Columns to be filled: room for every line of a text, in Arrow's layout."""

    cdef list arrays
    cdef fdp_text_column *out
    cdef int count

    def __cinit__(self, int count, int64_t lines, int64_t size):
        cdef int32_t[::1] offset_v
        cdef uint8_t[::1] bytes_v, valid_v
        self.count = count
        self.arrays = []
        self.out = <fdp_text_column *>calloc(max(count, 1), sizeof(fdp_text_column))
        if self.out == NULL:
            check(FDP_ERR_MEMORY, "reading lines")
        offsets, bits = np.empty((count, lines + 1), np.int32), (lines >> 3) + 1
        # One room for all, which is filled without giving Python's lock back.
        every = np.frombuffer(bytearray(b"\xff") * max(count * bits, 1), np.uint8)
        for i in range(count):
            offset, data, valid = offsets[i], np.empty(size + FDP_LINES_SLACK, np.uint8), every[i * bits :]
            self.arrays.append((offset, data, valid[:bits]))
            offset_v, bytes_v, valid_v = offset, data, valid
            self.out[i].offset, self.out[i].bytes, self.out[i].valid = &offset_v[0], &bytes_v[0], &valid_v[0]

    def __dealloc__(self):
        free(self.out)

    cdef list made(self, int64_t rows):
        """(offsets, bytes, validity bitmap, nulls) of each column."""
        return [
            (offset[: rows + 1], data, valid, self.out[i].nulls)
            for i, (offset, data, valid) in enumerate(self.arrays)
        ]


cdef class Dialect:
    """How a line is divided; immutable, so threads may share it. quote, escape: a byte, or -1 for none."""

    cdef fdp_dialect d
    cdef Texts nulls

    def __cinit__(self, int delimiter, int quote, int escape, bint newlines, nulls):
        self.nulls = Texts(list(nulls))
        self.d.delimiter, self.d.quote, self.d.escape, self.d.newlines = delimiter, quote, escape, newlines
        self.d.nulls = self.nulls.count
        self.d.null_start, self.d.null_text = self.nulls.start_p, self.nulls.text_p


def split(const uint8_t[::1] text, Dialect dialect not None, const int32_t[::1] column, int columns,
          int64_t limit, bint keep_wrong=False, bint final=True):
    """(columns, rows, lines of the wrong shape, bytes consumed) of delimited text; column[k] is the output of
    field k, or -1."""
    cdef int64_t n = text.shape[0], lines = 0
    cdef const uint8_t *text_p = &text[0] if n else NULL
    cdef int fields = column.shape[0], code
    cdef fdp_lines_result result
    with nogil:
        code = fdp_lines_count(text_p, n, &lines)
    check(code, "counting lines")
    out = _Columns(columns, lines, n)
    cdef fdp_text_column *out_p = (<_Columns>out).out
    cdef fdp_span *span = <fdp_span *>calloc(fields, sizeof(fdp_span))
    if span == NULL:
        check(FDP_ERR_MEMORY, "reading lines")
    with nogil:
        code = fdp_lines_split(text_p, n, &dialect.d, fields, &column[0], limit, keep_wrong, final, span,
                               columns, out_p, &result)
        free(span)
    check(code, "reading lines")
    return (<_Columns>out).made(result.rows), result.rows, result.wrong, result.consumed


def json(const uint8_t[::1] text, Texts keys not None, int64_t limit, bint keep_wrong=False):
    """(columns, rows, lines of the wrong shape) of JSON lines; a column for each key."""
    cdef int64_t n = text.shape[0], lines = 0
    cdef const uint8_t *text_p = &text[0] if n else NULL
    cdef int columns = keys.count, code
    cdef fdp_lines_result result
    with nogil:
        code = fdp_lines_count(text_p, n, &lines)
    check(code, "counting lines")
    out = _Columns(columns, lines, n)
    cdef fdp_text_column *out_p = (<_Columns>out).out
    scratch = np.empty(max(1, min(limit, n)), np.uint8)
    cdef uint8_t[::1] scratch_v = scratch
    cdef fdp_span *span = <fdp_span *>calloc(max(columns, 1), sizeof(fdp_span))
    if span == NULL:
        check(FDP_ERR_MEMORY, "reading lines")
    with nogil:
        code = fdp_lines_json(text_p, n, limit, keep_wrong, span, &scratch_v[0], columns, keys.start_p,
                              keys.text_p, out_p, &result)
        free(span)
    check(code, "reading lines")
    return (<_Columns>out).made(result.rows), result.rows, result.wrong


cdef const uint8_t *start_of(const uint8_t[::1] array) noexcept:
    """The address of the first byte; NULL of None and of an empty array."""
    if array is None or array.shape[0] == 0:
        return NULL
    return &array[0]


def whole(const int32_t[::1] offset, const uint8_t[::1] data, const uint8_t[::1] valid):
    """int64 of values that are all whole numbers of at most 18 digits (0 where null), or None. `valid`: a
    bitmap as uint8, or None."""
    cdef int64_t n = offset.shape[0] - 1
    x = np.empty(n, np.int64)
    if n == 0:
        return x
    cdef int64_t[::1] x_v = x
    cdef const uint8_t *data_p = start_of(data)
    cdef const uint8_t *valid_p = start_of(valid)
    cdef int code, all_whole
    with nogil:
        code = fdp_lines_whole(&offset[0], data_p, valid_p, n, &x_v[0], &all_whole)
    check(code, "reading whole numbers")
    return x if all_whole else None


def whole_columns(columns):
    """`whole` of several columns (offset, data, valid) of one length: (int64 of them all, one row for each;
    which of them are whole). Python's lock is given back once."""
    cdef int64_t count = len(columns), n = len(columns[0][0]) - 1 if columns else 0, i
    cdef const int32_t[::1] offset
    cdef const uint8_t[::1] data, valid
    cdef int code = 0
    x, found = np.empty((count, n), np.int64), np.zeros(count + 1, np.intc)
    cdef int64_t[:, ::1] x_v = x
    cdef int[::1] found_v = found
    cdef const int32_t **starts = <const int32_t **>calloc(count + 1, sizeof(void *))
    cdef const uint8_t **texts = <const uint8_t **>calloc(2 * count + 1, sizeof(void *))
    try:
        if starts == NULL or texts == NULL:
            check(FDP_ERR_MEMORY, "reading whole numbers")
        for i, (offset, data, valid) in enumerate(columns):
            if offset.shape[0] != n + 1:
                raise ValueError("columns of different lengths")
            starts[i], texts[2 * i], texts[2 * i + 1] = &offset[0], start_of(data), start_of(valid)
        if n > 0:
            with nogil:
                for i in range(count):
                    if code == 0:
                        code = fdp_lines_whole(starts[i], texts[2 * i], texts[2 * i + 1], n, &x_v[i, 0],
                                               &found_v[i])
    finally:
        free(starts)
        free(texts)
    check(code, "reading whole numbers")
    return x, [n == 0 or found[i] != 0 for i in range(count)]


def shortest(const int32_t[::1] offset, const uint8_t[::1] data, const uint8_t[::1] valid):
    """Whether all values are whole numbers of at most 38 digits, each written in the one shortest way."""
    cdef int64_t n = offset.shape[0] - 1
    if n <= 0:
        return True
    cdef const uint8_t *data_p = start_of(data)
    cdef const uint8_t *valid_p = start_of(valid)
    cdef int code, yes
    with nogil:
        code = fdp_lines_shortest(&offset[0], data_p, valid_p, n, &yes)
    check(code, "reading whole numbers")
    return bool(yes)

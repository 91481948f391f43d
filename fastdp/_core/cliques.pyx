"""Sums of tables over axes and products along a tree, many in one call; see csrc/cliques.h. Arguments are
checked in fastdp/model/marginals.py."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

import numpy as np

from fastdp._core.status cimport check


cdef extern from "cliques.h" nogil:
    ctypedef struct fdp_sum_step:
        int dims
        const int64_t *n
        const int64_t *stride
        int64_t cells
        int64_t row
        const double *in_ "in"
        double *out

    enum:
        FDP_VIEW_CELL
        FDP_VIEW_MAP

    ctypedef struct fdp_view:
        const int32_t *base
        const int32_t *map
        int32_t kind

    ctypedef struct fdp_carry_step:
        int64_t lines
        int64_t rows
        int64_t row
        int64_t cells
        fdp_view view
        const double *from_ "from"
        const double *step
        double *out
        const int32_t *line
        const int32_t *place

    int fdp_cliques(int64_t sums_len, const fdp_sum_step *sums, int levels, const int64_t *first,
                    const fdp_carry_step *carries, int threads)


def run(list sums, list levels, int threads):
    """sums: (table, n, stride, row, out); levels: lists of (from, step, base, offset or None, out, line,
    place), the last two None or both not. Tables are flat, contiguous float64; n and stride int64, all others
    int32. Sizes are taken from the arrays: from is [lines, rows], in this order or in that of line and place,
    step [rows, row], out [lines, cells] with lines = from.size / base.size."""
    cdef Py_ssize_t count = sum(map(len, levels)), i = 0
    cdef fdp_sum_step *s = <fdp_sum_step *>calloc(max(len(sums), 1), sizeof(fdp_sum_step))
    cdef fdp_carry_step *c = <fdp_carry_step *>calloc(max(count, 1), sizeof(fdp_carry_step))
    cdef const int64_t[::1] n, stride
    cdef const int32_t[::1] base, offset, line, place
    cdef const double[::1] table, step
    cdef double[::1] out
    cdef int code
    cdef int64_t total = len(sums)
    cdef int depth = <int>len(levels)
    firsts = np.cumsum([0, *map(len, levels)], dtype=np.int64)
    cdef const int64_t[::1] first = firsts
    if s == NULL or c == NULL:
        free(s)
        free(c)
        raise MemoryError
    try:
        for table_array, n_array, stride_array, row, out_array in sums:
            table, n, stride, out = table_array, n_array, stride_array, out_array
            s[i].dims = <int>n.shape[0]
            s[i].n = &n[0] if n.shape[0] else NULL
            s[i].stride = &stride[0] if n.shape[0] else NULL
            s[i].cells, s[i].row = out.shape[0], row
            s[i].in_, s[i].out = &table[0], &out[0]
            i += 1
        i = 0
        for level in levels:
            for from_array, step_array, base_array, offset_array, out_array, line_array, place_array in level:
                table, step, base, out = from_array, step_array, base_array, out_array
                c[i].rows = base.shape[0]
                c[i].lines = table.shape[0] // c[i].rows
                c[i].row = step.shape[0] // c[i].rows
                c[i].cells = out.shape[0] // c[i].lines
                c[i].view.base, c[i].view.kind = &base[0], FDP_VIEW_CELL
                if offset_array is not None:
                    offset = offset_array
                    c[i].view.map, c[i].view.kind = &offset[0], FDP_VIEW_MAP
                if line_array is not None:
                    line, place = line_array, place_array
                    c[i].line, c[i].place = &line[0], &place[0]
                c[i].from_, c[i].step, c[i].out = &table[0], &step[0], &out[0]
                i += 1
        with nogil:
            code = fdp_cliques(total, s, depth, &first[0], c, threads)
    finally:
        free(s)
        free(c)
    check(code, "marginals of many cliques")

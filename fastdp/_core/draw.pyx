"""Draws from groups of weighted values; see csrc/draw.h. Arguments are checked in
fastdp/mechanisms/archetypes/conditional.py."""

from libc.stdint cimport int64_t, uint32_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "draw.h" nogil:
    int fdp_draw_groups(const int64_t *start, int64_t groups, const int64_t *upto, const uint32_t *value,
                        const int64_t *group, const double *uniform, int64_t n, uint32_t *out)


def draw(const int64_t[::1] start, const int64_t[::1] upto, const uint32_t[::1] value,
         const int64_t[::1] group,
         const double[::1] uniform):
    """uint32[n]: one value of each group asked for."""
    cdef int64_t n = group.shape[0]
    if uniform.shape[0] != n or value.shape[0] != upto.shape[0] or start[start.shape[0] - 1] != upto.shape[0]:
        raise ValueError("draw: arrays of unequal length")
    out = np.empty(n, np.uint32)
    if n == 0:
        return out
    if upto.shape[0] == 0:
        raise ValueError("draw: no entries")
    cdef uint32_t[::1] out_v = out
    cdef int code
    with nogil:
        code = fdp_draw_groups(&start[0], start.shape[0] - 1, &upto[0], &value[0], &group[0], &uniform[0], n,
                               &out_v[0])
    check(code, "drawing from groups, none of which may be empty")
    return out

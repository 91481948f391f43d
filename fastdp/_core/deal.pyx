"""Dealing rows to users by nested urns; see csrc/deal.h. Arguments are checked in users/dealing.py."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "deal.h" nogil:
    ctypedef struct fdp_deal_plan:
        int64_t chunks, rows, users
        const int64_t *row_start
        const int64_t *user_start
        int64_t features, groups
        const uint32_t *codes
        const uint32_t *size
        const uint32_t *wanted
        const uint32_t *group
        const double *alpha
        uint64_t seed
    int fdp_deal(const fdp_deal_plan *, int, uint32_t *, int64_t *)


def deal(
    const int64_t[::1] row_start,
    const int64_t[::1] user_start,
    const uint32_t[:, ::1] codes,
    const uint32_t[::1] size,
    const uint32_t[::1] wanted,
    const uint32_t[::1] group,
    const double[:, ::1] alpha,
    uint64_t seed,
    int threads,
):
    """(owner uint32[rows], equal int64[groups, features])."""
    owner = np.zeros(codes.shape[1], np.uint32)
    equal = np.zeros((alpha.shape[0], alpha.shape[1]), np.int64)
    cdef uint32_t[::1] owner_view = owner
    cdef int64_t[:, ::1] equal_view = equal
    cdef fdp_deal_plan plan
    cdef int code
    if owner.size == 0 or wanted.shape[0] == 0:
        return owner, equal
    plan.chunks, plan.rows, plan.users = row_start.shape[0] - 1, codes.shape[1], wanted.shape[0]
    plan.row_start, plan.user_start = &row_start[0], &user_start[0]
    plan.features, plan.groups = codes.shape[0], alpha.shape[0]
    plan.codes, plan.size = &codes[0, 0], &size[0]
    plan.wanted, plan.group, plan.alpha = &wanted[0], &group[0], &alpha[0, 0]
    plan.seed = seed
    with nogil:
        code = fdp_deal(&plan, threads, &owner_view[0], &equal_view[0, 0])
    check(code, "dealing rows to users")
    return owner, equal

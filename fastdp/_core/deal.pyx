"""Dealing rows to users by nested urns, and in order of time; see csrc/deal.h and csrc/deal_order.h.

Arguments are checked in users/dealing.py.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "deal.h" nogil:
    ctypedef struct fdp_deal_plan:
        int64_t chunks, rows, users
        const int64_t *row_start
        const int64_t *user_start
        int64_t features, groups, candidates
        const uint32_t *codes
        const uint32_t *size
        const uint32_t *wanted
        const uint32_t *group
        const double *alpha
        int64_t levels
        const double *level
        const double *spread
        const double *cuts
        const double *scores
        uint64_t seed
    int fdp_deal(const fdp_deal_plan *, int, uint32_t *, int64_t *)

cdef extern from "deal_order.h" nogil:
    ctypedef struct fdp_order_plan:
        int64_t chunks, rows
        const int64_t *row_start
        const int64_t *user_start
        int64_t features, groups, pairs, kinds, gaps, ends, tries
        const uint32_t *codes
        const uint32_t *wanted
        const uint32_t *group
        const uint32_t *kind
        const uint32_t *time
        const uint32_t *end
        const uint32_t *this
        const uint32_t *that
        const uint32_t *keys
        const double *shift
        const uint8_t *timed
        double least
        uint64_t seed
    int fdp_order_rows(const fdp_order_plan *, int, uint32_t *, int64_t *, int64_t *, int64_t *)


def deal(
    const int64_t[::1] row_start,
    const int64_t[::1] user_start,
    const uint32_t[:, ::1] codes,
    const uint32_t[::1] size,
    const uint32_t[::1] wanted,
    const uint32_t[::1] group,
    const double[:, ::1] alpha,
    int64_t candidates,
    const double[:, ::1] level,
    const double[::1] spread,
    const double[:, ::1] cuts,
    const double[::1] scores,
    uint64_t seed,
    int threads,
    bint counted=True,
):
    """(owner uint32[rows], equal int64[groups, features], zeros unless `counted`)."""
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
    plan.candidates, plan.seed, plan.levels = candidates, seed, spread.shape[0]
    if spread.shape[0]:
        plan.level, plan.spread, plan.cuts = &level[0, 0], &spread[0], &cuts[0, 0]
    plan.scores = &scores[0]
    with nogil:
        code = fdp_deal(&plan, threads, &owner_view[0], &equal_view[0, 0] if counted else NULL)
    check(code, "dealing rows to users")
    return owner, equal


def order_rows(plan, uint32_t[::1] owner, uint64_t seed, int threads):
    """(sequence int64[rows], before, after int64[len(shift)]); `owner` is changed in place. plan: an
    object with the fields of fdp_order_plan, as `users.order.OrderPlan` has them."""
    cdef const int64_t[::1] row_start = plan.row_start, user_start = plan.user_start
    cdef const uint32_t[:, ::1] codes = plan.codes, this = plan.this, that = plan.that
    cdef const uint8_t[::1] timed = plan.timed
    cdef const uint32_t[::1] wanted = plan.wanted, group = plan.group, kind = plan.kind
    cdef const uint32_t[::1] time = plan.time, end = plan.end, keys = plan.keys
    cdef const double[::1] shift = plan.shift
    sequence = np.zeros(owner.shape[0], np.int64)
    before, after = np.zeros(shift.shape[0], np.int64), np.zeros(shift.shape[0], np.int64)
    cdef int64_t[::1] sequence_view = sequence, before_view = before, after_view = after
    cdef fdp_order_plan c
    cdef int code
    if owner.shape[0] == 0 or wanted.shape[0] == 0:
        return sequence, before, after
    c.chunks, c.rows = row_start.shape[0] - 1, owner.shape[0]
    c.row_start, c.user_start = &row_start[0], &user_start[0]
    c.features, c.groups, c.pairs = codes.shape[0], plan.groups, this.shape[0]
    c.kind, c.kinds, c.gaps, c.ends = &kind[0], plan.kinds, plan.gaps, plan.ends
    c.tries, c.least, c.seed = plan.tries, plan.least, seed
    c.codes = &codes[0, 0] if codes.shape[0] else NULL
    c.timed = &timed[0] if codes.shape[0] else NULL
    c.wanted, c.group, c.time, c.end = &wanted[0], &group[0], &time[0], &end[0]
    c.this = &this[0, 0] if this.shape[0] else NULL
    c.that = &that[0, 0] if this.shape[0] else NULL
    c.keys = &keys[0] if this.shape[0] else NULL
    c.shift = &shift[0]
    with nogil:
        code = fdp_order_rows(
            &c, threads, &owner[0], &sequence_view[0], &before_view[0], &after_view[0]
        )
    check(code, "ordering rows of users")
    return sequence, before, after

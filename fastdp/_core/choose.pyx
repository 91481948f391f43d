"""Choosing whole users from a pool; see csrc/choose.h. Arguments are checked in users/user_choice.py."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "choose.h" nogil:
    ctypedef struct fdp_choice_plan:
        int64_t users, rows, facts, columns, steps
        const uint32_t *facts_of
        const uint32_t *codes
        const double *step
        const int64_t *row_start
        const int64_t *first
        const double *target
        const double *weight
        int64_t sweeps
        uint64_t seed
    int fdp_choose(const fdp_choice_plan *, uint8_t *, double *)


def choose(
    const uint32_t[:, ::1] facts,
    const uint32_t[:, ::1] codes,
    const int64_t[::1] row_start,
    const int64_t[::1] first,
    const double[::1] target,
    const double[::1] weight,
    const double[::1] step,
    int64_t steps,
    int64_t sweeps,
    uint64_t seed,
    uint8_t[::1] chosen,
):
    """The error of each table, facts before columns; `chosen` is changed in place."""
    error = np.zeros(facts.shape[0] + codes.shape[0], np.float64)
    cdef double[::1] error_view = error
    cdef fdp_choice_plan plan
    cdef int code
    if chosen.shape[0] == 0 or error.size == 0:
        return error
    plan.users, plan.rows = chosen.shape[0], codes.shape[1]
    plan.facts, plan.columns = facts.shape[0], codes.shape[0]
    plan.facts_of = &facts[0, 0] if facts.shape[0] else NULL
    plan.codes = &codes[0, 0] if codes.shape[0] and codes.shape[1] else NULL
    plan.row_start, plan.first = &row_start[0], &first[0]
    plan.target, plan.weight = &target[0], &weight[0]
    plan.step, plan.steps = &step[0], steps
    plan.sweeps, plan.seed = sweeps, seed
    with nogil:
        code = fdp_choose(&plan, &chosen[0], &error_view[0])
    check(code, "choosing users")
    return error

"""Choosing whole users from a pool; see csrc/choose.h. Arguments are checked in users/user_choice.py."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "choose.h" nogil:
    ctypedef struct fdp_row_table:
        int64_t one, other, width
    ctypedef struct fdp_choice_plan:
        int64_t users, rows, facts, columns, steps, parts
        const uint32_t *facts_of
        const uint32_t *codes
        const fdp_row_table *of_rows
        const double *step
        const int64_t *row_start
        const int64_t *first
        const double *target
        const double *weight
        int64_t sweeps
        double least
        uint64_t seed
    int fdp_choose(const fdp_choice_plan *, int, uint8_t *, double *)
    ctypedef struct fdp_row_counts_plan:
        int64_t users, rows, tables
        const uint32_t *codes
        const fdp_row_table *of_rows
        const int64_t *row_start
        const int64_t *first
        const double *weight
    int fdp_row_counts(const fdp_row_counts_plan *, double *)
    ctypedef struct fdp_weigh_plan:
        int64_t users, cells, lines, factors
        const uint32_t *cell
        const double *value
        const int64_t *line
        const double *even
        double most
    double fdp_weigh(const fdp_weigh_plan *, const double *, double *)
    int fdp_distinct(int64_t, const int64_t *, const uint32_t *, int64_t, int64_t *)
    int fdp_equal_pairs(int64_t, const int64_t *, const uint32_t *, int64_t, int64_t *)


def choose(
    const uint32_t[:, ::1] facts,
    const uint32_t[:, ::1] codes,
    const int64_t[:, ::1] of_rows,
    const int64_t[::1] row_start,
    const int64_t[::1] first,
    const double[::1] target,
    const double[::1] weight,
    const double[::1] step,
    int64_t steps,
    int64_t sweeps,
    uint64_t seed,
    uint8_t[::1] chosen,
    double least=0.0,
    int64_t parts=1,
    int threads=1,
    double[::1] error=None,
):
    """`chosen` is changed in place. of_rows [tables of rows, 3]: the columns and width of each. error:
    of each table, facts before rows, where it is wanted."""
    cdef fdp_choice_plan plan
    cdef int code
    cdef double *to = NULL
    if error is not None:
        to = &error[0]
    if chosen.shape[0] == 0 or facts.shape[0] + of_rows.shape[0] == 0:
        return
    plan.users, plan.rows = chosen.shape[0], codes.shape[1]
    plan.facts, plan.columns = facts.shape[0], of_rows.shape[0]
    plan.of_rows = <const fdp_row_table *> &of_rows[0, 0] if of_rows.shape[0] else NULL
    plan.facts_of = &facts[0, 0] if facts.shape[0] else NULL
    plan.codes = &codes[0, 0] if codes.shape[0] and codes.shape[1] else NULL
    plan.row_start, plan.first = &row_start[0], &first[0]
    plan.target, plan.weight = &target[0], &weight[0]
    plan.step, plan.steps = &step[0], steps
    plan.sweeps, plan.least, plan.seed, plan.parts = sweeps, least, seed, parts
    with nogil:
        code = fdp_choose(&plan, threads, &chosen[0], to)
    check(code, "choosing users")


def row_counts(
    const uint32_t[:, ::1] codes,
    const int64_t[:, ::1] of_rows,
    const int64_t[::1] row_start,
    const int64_t[::1] first,
    const double[::1] weight,
):
    """float64: how much the users' weights are in each cell of tables of rows, each row once."""
    count = np.zeros(first[first.shape[0] - 1], np.float64)
    cdef double[::1] count_view = count
    cdef fdp_row_counts_plan plan
    cdef int code
    if count.size == 0 or codes.shape[1] == 0:
        return count
    plan.users, plan.rows, plan.tables = weight.shape[0], codes.shape[1], of_rows.shape[0]
    plan.codes = &codes[0, 0] if codes.shape[0] else NULL
    plan.of_rows = <const fdp_row_table *> &of_rows[0, 0]
    plan.row_start, plan.first, plan.weight = &row_start[0], &first[0], &weight[0]
    with nogil:
        code = fdp_row_counts(&plan, &count_view[0])
    check(code, "counting rows of users")
    return count


def weigh(
    const uint32_t[:, ::1] cell,
    const double[:, ::1] value,
    const int64_t[::1] line,
    const double[::1] even,
    double most,
    const double[::1] factors,
):
    """(the sum of the users' weights, the count of each cell and line); cell [users, tables], value [users,
    lines]."""
    count = np.zeros(factors.shape[0], np.float64)
    cdef double[::1] count_view = count
    cdef fdp_weigh_plan plan
    cdef double total
    if factors.shape[0] == 0 or even.shape[0] == 0:
        return float(np.sum(even)), count
    plan.users, plan.cells, plan.lines = even.shape[0], cell.shape[1], value.shape[1]
    plan.factors, plan.most, plan.even = factors.shape[0], most, &even[0]
    plan.cell = &cell[0, 0] if cell.shape[1] else NULL
    plan.value = &value[0, 0] if value.shape[1] else NULL
    plan.line = &line[0] if value.shape[1] else NULL
    with nogil:
        total = fdp_weigh(&plan, &factors[0], &count_view[0])
    return total, count


# A number of each user, by the codes of the user's rows.
ctypedef int (*of_users)(int64_t, const int64_t *, const uint32_t *, int64_t, int64_t *) noexcept nogil


cdef _each_user(
    of_users compute, const uint32_t[::1] codes, const int64_t[::1] row_start, int64_t size, what
):
    out = np.zeros(row_start.shape[0] - 1, np.int64)
    cdef int64_t[::1] out_view = out
    cdef int code
    if out.size == 0 or codes.shape[0] == 0:
        return out
    with nogil:
        code = compute(out_view.shape[0], &row_start[0], &codes[0], size, &out_view[0])
    check(code, what)
    return out


def distinct(const uint32_t[::1] codes, const int64_t[::1] row_start, int64_t size):
    """int64: how many different codes, below `size`, the rows of each user have."""
    return _each_user(fdp_distinct, codes, row_start, size, "counting different codes of users")


def equal_pairs(const uint32_t[::1] codes, const int64_t[::1] row_start, int64_t size):
    """int64: how many pairs of rows of each user have the same code, below `size`."""
    return _each_user(fdp_equal_pairs, codes, row_start, size, "counting equal rows of users")

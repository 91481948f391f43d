"""A sparse approximate inverse of the covariance of counts; see csrc/ancestors.h. Shapes are made in
fastdp/estimate/flow/functionals.py."""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from fastdp._core.arrays cimport fill, read
from fastdp._core.status cimport check
from fastdp._core.team cimport Team, fdp_team, team_of


cdef extern from "ancestors.h" nogil:
    int FDP_ANCESTORS_MOST
    ctypedef struct fdp_ancestors_shape:
        int64_t rows
        const int64_t *first
        const int32_t *column
        const uint8_t *mask
        const int64_t *parts
        const int64_t *place
    void fdp_ancestors_rows(int64_t, int64_t, const int64_t *, const int64_t *, const int64_t *,
                            const int64_t *, int64_t *, int32_t *, uint8_t *)
    void fdp_ancestors_turn(int64_t, const int64_t *, const int32_t *, int64_t *, int64_t *, int32_t *)
    int fdp_ancestors_fill(const fdp_ancestors_shape *, const double *, const double *, const double *,
                           double, double, fdp_team *, double *)
    enum:
        FDP_DIRECTION_PAIRS
    ctypedef struct fdp_sparse_rows:
        int64_t rows
        const int64_t *first
        const int32_t *column
        const double *values
    int fdp_sparse_product(const fdp_sparse_rows *, const double *, fdp_team *, double *)
    int fdp_direction(const fdp_sparse_rows *, const fdp_sparse_rows *, int64_t, const double *const *,
                      const double *const *, const double *, const double *, fdp_team *, double *, double *,
                      double *, double *)
    int64_t fdp_direction_chunks(int64_t)
    int fdp_slope(int64_t, const double *, const double *, const double *, const double *, const double *,
                  const double *, const double *, double *, double *)
    int fdp_advance(int64_t, double, const double *, const double *, double *, double *, int64_t,
                    const double *, const double *, const int64_t *, double *, double *)


MOST = FDP_ANCESTORS_MOST

def ancestors_of(const int64_t[::1] number, const int64_t[::1] begin, const int64_t[::1] width,
                 const int64_t[::1] place, int64_t cells):
    """(first, column, mask) of csrc/ancestors.h from the parts of each functional's cell, place[begin[i]] ..
    place[begin[i] + width[i] - 1]; functionals from `cells` on are remainders. number[p] is the functional
    that is entry p of the vector, or -1."""
    cdef int64_t rows = begin.shape[0]
    if rows < 1 or width.shape[0] != rows:
        raise ValueError("one beginning and one width per functional")
    first, column, mask = np.empty(rows + 1, np.int64), np.empty(1, np.int32), np.empty(1, np.uint8)
    cdef int64_t[::1] first_v = first
    cdef int32_t[::1] column_v = column
    cdef uint8_t[::1] mask_v = mask
    fdp_ancestors_rows(rows, cells, &number[0], &begin[0], &width[0], &place[0], &first_v[0], NULL, NULL)
    column, mask = np.empty(first[rows], np.int32), np.empty(first[rows], np.uint8)
    column_v, mask_v = column, mask
    fdp_ancestors_rows(rows, cells, &number[0], &begin[0], &width[0], &place[0], &first_v[0], &column_v[0],
                       &mask_v[0])
    return first, column, mask


cdef class Ancestors:
    """The factor L of an approximate inverse L' L. `first`, `column`, `mask`, `parts`, `place` as in
    csrc/ancestors.h; every row ends with itself."""

    cdef const int64_t[::1] first, parts, place
    cdef const int32_t[::1] column
    cdef int64_t[::1] t_first
    cdef int32_t[::1] t_column
    cdef const uint8_t[::1] mask
    cdef double[::1] values, t_values, between, room, part
    cdef object t_at
    cdef int64_t rows
    cdef fdp_sparse_rows factor_, turned
    cdef Team team

    def __init__(self, first, column, mask, parts, place, threads):
        self.first, self.column, self.mask, self.parts, self.place = first, column, mask, parts, place
        self.rows, self.team = len(first) - 1, team_of(threads)
        if (self.rows < 1 or first[0] != 0 or first[self.rows] != len(column) or len(mask) != len(column)
                or len(parts) != self.rows or len(place) < 1):
            raise ValueError("the shape of the ancestors does not fit together")
        self.values, self.t_values = np.zeros(len(column)), np.zeros(len(column))
        self.between = np.zeros(self.rows)
        # where the entries of a column lie
        self.t_at, self.t_column = np.empty(len(column), np.int64), np.empty(len(column), np.int32)
        self.t_first = np.empty(self.rows + 1, np.int64)
        cdef int64_t[::1] at = self.t_at
        fdp_ancestors_turn(self.rows, &self.first[0], &self.column[0], &self.t_first[0], &at[0],
                           &self.t_column[0])
        self.factor_ = fdp_sparse_rows(self.rows, &self.first[0], &self.column[0], &self.values[0])
        self.turned = fdp_sparse_rows(self.rows, &self.t_first[0], &self.t_column[0], &self.t_values[0])
        self.room = np.empty((FDP_DIRECTION_PAIRS + 3) * self.rows)
        self.part = np.empty((FDP_DIRECTION_PAIRS + 1) * fdp_direction_chunks(self.rows))

    def fill(self, const double[::1] m, const double[::1] f, const double[::1] variance, double time,
             double total):
        """L for the counts m, functionals f and the diagonal variance / time; returns its values (a view)."""
        cdef fdp_ancestors_shape shape
        cdef int code
        if f.shape[0] != self.rows or variance.shape[0] != self.rows:
            raise ValueError("one value and one variance per functional")
        shape.rows, shape.first, shape.column = self.rows, &self.first[0], &self.column[0]
        shape.mask, shape.parts, shape.place = &self.mask[0], &self.parts[0], &self.place[0]
        with nogil:
            code = fdp_ancestors_fill(&shape, &m[0], &f[0], &variance[0], time, total, self.team.c,
                                      &self.values[0])
        check(code, "the approximate inverse of the covariance")
        np.take(self.values, self.t_at, out=np.asarray(self.t_values))
        return np.asarray(self.values)

    def factor(self, const double[::1] x):
        """L x; the next call overwrites it."""
        cdef int code
        if x.shape[0] != self.rows:
            raise ValueError("one number per functional")
        with nogil:
            code = fdp_sparse_product(&self.factor_, &x[0], self.team.c, &self.between[0])
        check(code, "a product with the approximate inverse")
        return np.asarray(self.between)

    def solve(self, const double[::1] x):
        """L' L x, a new array."""
        cdef int code
        self.factor(x)
        out = np.empty(self.rows)
        cdef double[::1] view = out
        with nogil:
            code = fdp_sparse_product(&self.turned, &self.between[0], self.team.c, &view[0])
        check(code, "a product with the approximate inverse")
        return out

    def direction(self, pairs, slope, soft):
        """- (estimate of the inverse Hessian) slope, by L-BFGS around this inverse, and its product with the
        slope. A pair (step, change) of a change of multipliers and that of the slope but for `soft` times
        the step; the newest is last."""
        cdef const double *s[FDP_DIRECTION_PAIRS]
        cdef const double *change[FDP_DIRECTION_PAIRS]
        cdef int64_t n = len(pairs), i
        cdef double descent = 0
        cdef int code
        if n > FDP_DIRECTION_PAIRS:
            raise ValueError(f"at most {FDP_DIRECTION_PAIRS} pairs")
        for i, (step, moved) in enumerate(pairs):
            s[i], change[i] = read(step, self.rows), read(moved, self.rows)
        way = np.empty(self.rows)
        cdef double *to = fill(way, self.rows)
        cdef const double *diagonal = read(soft, self.rows)
        cdef const double *here = read(slope, self.rows)
        with nogil:
            code = fdp_direction(&self.factor_, &self.turned, n, s, change, diagonal, here, self.team.c,
                                 &self.room[0], &self.part[0], to, &descent)
        check(code, "a direction of L-BFGS")
        return way, descent


def slope_at(target, variance, f, soft, at, pull, way):
    """target - f + soft (at - pull), its product with `way`, and the sums of its squares and of those of
    f - target, each over the variance."""
    cdef int64_t n = target.size
    cdef double[3] sums
    out = np.empty(n)
    cdef const double *p[7]
    for i, array in enumerate((target, variance, f, soft, at, pull, way)):
        p[<int> i] = read(array, n)
    fdp_slope(n, p[0], p[1], p[2], p[3], p[4], p[5], p[6], fill(out, n), sums)
    return out, sums[0], sums[1], sums[2]


def advance(double step, way, at, change, before, const int64_t[::1] active, delta):
    """(step * way, at + step * way, before + step * change); the last also goes into delta[active], whose
    entries the caller has checked."""
    cdef int64_t n = way.size, k = active.shape[0]
    moved, to, changed = np.empty(n), np.empty(n), np.empty(k)
    cdef const double *p[4]
    p[0], p[1], p[2], p[3] = read(way, n), read(at, n), read(change, k), read(before, k)
    cdef double *out = fill(delta, 1)
    if k and not 0 <= active[0] <= active[k - 1] < delta.size:
        raise ValueError("active entries are ascending places in the vector")
    fdp_advance(n, step, p[0], p[1], fill(moved, n), fill(to, n), k, p[2], p[3],
                &active[0] if k else NULL, fill(changed, k), out)
    return moved, to, changed


cdef class SparseRows:
    """A matrix in compressed rows (scipy.sparse.csr_array), multiplied by a team of threads; each row is
    added up in order, so results do not depend on their number."""

    cdef const int64_t[::1] first
    cdef const int32_t[::1] column
    cdef const double[::1] values
    cdef fdp_sparse_rows c
    cdef readonly int64_t rows, cols

    def __init__(self, matrix):
        self.rows, self.cols = matrix.shape
        self.first = np.ascontiguousarray(matrix.indptr, np.int64)
        self.column = np.ascontiguousarray(matrix.indices if matrix.nnz else [0], np.int32)
        self.values = np.ascontiguousarray(matrix.data if matrix.nnz else [0.0], np.float64)
        self.c = fdp_sparse_rows(self.rows, &self.first[0], &self.column[0], &self.values[0])

    def product(self, const double[::1] x, threads):
        """The matrix times x, a new array."""
        cdef Team team = team_of(threads)
        cdef int code
        out = np.zeros(max(1, self.rows))
        cdef double[::1] view = out
        if x.shape[0] != self.cols:
            raise ValueError("one number per column")
        if self.rows and self.cols:
            with nogil:
                code = fdp_sparse_product(&self.c, &x[0], team.c, &view[0])
            check(code, "a product with the measured rows")
        return out[: self.rows]

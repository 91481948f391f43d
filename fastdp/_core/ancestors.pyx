"""A sparse approximate inverse of the covariance of counts; see csrc/ancestors.h. Shapes are made in
fastdp/estimate/flow/functionals.py."""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

cimport numpy as cnp
from fastdp._core.arrays cimport fill, read
from fastdp._core.status cimport check
from fastdp._core.team cimport Team, fdp_team, team_of

cnp.import_array()


cdef extern from "ancestors.h" nogil:
    int FDP_ANCESTORS_MOST
    ctypedef struct fdp_ancestors_shape:
        int64_t rows
        const int64_t *first
        const int32_t *column
        const uint8_t *mask
        const int64_t *parts
        const int64_t *place
    int fdp_ancestors_fill(const fdp_ancestors_shape *, const double *, const double *, const double *,
                           double, double, fdp_team *, double *)
    int fdp_ancestors_product(int64_t, const int64_t *, const int32_t *, const int64_t *, const double *,
                              const double *, fdp_team *, double *)
    int fdp_pairs_before(int64_t, int64_t, const double *const *, const double *const *, const double *,
                         double *, double *, double *)
    int fdp_pairs_after(int64_t, int64_t, const double *const *, const double *const *, const double *,
                        const double *, const double *, double *)


MOST = FDP_ANCESTORS_MOST

cdef enum:
    PAIRS = 32


cdef class Ancestors:
    """The factor L of an approximate inverse L' L. `first`, `column`, `mask`, `parts`, `place` as in
    csrc/ancestors.h; every row ends with itself."""

    cdef const int64_t[::1] first, parts, place, t_first, t_at
    cdef const int32_t[::1] column, t_column
    cdef const uint8_t[::1] mask
    cdef double[::1] values, between
    cdef int64_t rows
    cdef Team team

    def __init__(self, first, column, mask, parts, place, threads):
        self.first, self.column, self.mask, self.parts, self.place = first, column, mask, parts, place
        self.rows, self.team = len(first) - 1, team_of(threads)
        if (self.rows < 1 or first[0] != 0 or first[self.rows] != len(column) or len(mask) != len(column)
                or len(parts) != self.rows or len(place) < 1):
            raise ValueError("the shape of the ancestors does not fit together")
        self.values, self.between = np.zeros(len(column)), np.zeros(self.rows)
        # where the entries of a column lie
        order = np.argsort(column, kind="stable")
        row = np.repeat(np.arange(self.rows, dtype=np.int32), np.diff(first))
        self.t_at, self.t_column = order, np.ascontiguousarray(row[order])
        ends = np.cumsum(np.bincount(column, minlength=self.rows))
        self.t_first = np.concatenate([[0], ends]).astype(np.int64)

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
            code = fdp_ancestors_fill(&shape, &m[0], &f[0], &variance[0], time, total, &self.team.c,
                                      &self.values[0])
        check(code, "the approximate inverse of the covariance")
        return np.asarray(self.values)

    def factor(self, const double[::1] x):
        """L x; the next call overwrites it."""
        cdef int code
        if x.shape[0] != self.rows:
            raise ValueError("one number per functional")
        with nogil:
            code = fdp_ancestors_product(self.rows, &self.first[0], &self.column[0], NULL, &self.values[0],
                                         &x[0], &self.team.c, &self.between[0])
        check(code, "a product with the approximate inverse")
        return np.asarray(self.between)

    def solve(self, const double[::1] x):
        """L' L x, a new array."""
        cdef int code
        self.factor(x)
        out = np.empty(self.rows)
        cdef double[::1] view = out
        with nogil:
            code = fdp_ancestors_product(self.rows, &self.t_first[0], &self.t_column[0], &self.t_at[0],
                                         &self.values[0], &self.between[0], &self.team.c, &view[0])
        check(code, "a product with the approximate inverse")
        return out

    def direction(self, pairs, slope, soft):
        """- (estimate of the inverse Hessian) slope, by L-BFGS around this inverse. A pair (step, change) of
        a change of multipliers and that of the slope but for `soft` times the step; the newest is last."""
        cdef const double *s[PAIRS]
        cdef const double *change[PAIRS]
        cdef double sy[PAIRS]
        cdef double share[PAIRS]
        cdef int64_t n = len(pairs), newest = -1, i
        if n > PAIRS:
            raise ValueError(f"at most {PAIRS} pairs")
        for i, (step, moved) in enumerate(pairs):
            s[i], change[i] = read(step, self.rows), read(moved, self.rows)
        q = slope.copy()
        cdef const double *diagonal = read(soft, self.rows)
        cdef double *to = fill(q, self.rows)
        with nogil:
            fdp_pairs_before(self.rows, n, s, change, diagonal, to, sy, share)
        way = self.solve(q)
        for i in range(n):
            newest = i if sy[i] > 0 else newest
        if newest >= 0:
            step, moved = pairs[newest]
            half = self.factor(moved + soft * step)
            way *= sy[newest] / float(np.einsum("i,i->", half, half))
        to = fill(way, self.rows)
        with nogil:
            fdp_pairs_after(self.rows, n, s, change, diagonal, sy, share, to)
        return np.negative(way, out=way)


cdef class SparseRows:
    """A matrix in compressed rows (scipy.sparse.csr_array), multiplied by a team of threads; each row is
    added up in order, so results do not depend on their number."""

    cdef const int64_t[::1] first
    cdef const int32_t[::1] column
    cdef const double[::1] values
    cdef readonly int64_t rows, cols

    def __init__(self, matrix):
        self.rows, self.cols = matrix.shape
        self.first = np.ascontiguousarray(matrix.indptr, np.int64)
        self.column = np.ascontiguousarray(matrix.indices if matrix.nnz else [0], np.int32)
        self.values = np.ascontiguousarray(matrix.data if matrix.nnz else [0.0], np.float64)

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
                code = fdp_ancestors_product(self.rows, &self.first[0], &self.column[0], NULL,
                                             &self.values[0], &x[0], &team.c, &view[0])
            check(code, "a product with the measured rows")
        return out[: self.rows]

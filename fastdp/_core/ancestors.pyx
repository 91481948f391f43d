"""A sparse approximate inverse of the covariance of counts; see csrc/ancestors.h. Shapes are made in
fastdp/estimate/flow/functionals.py."""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

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
    int fdp_ancestors_fill(const fdp_ancestors_shape *, const double *, const double *, const double *,
                           double, double, fdp_team *, double *)
    int fdp_ancestors_product(int64_t, const int64_t *, const int32_t *, const int64_t *, const double *,
                              const double *, fdp_team *, double *)


MOST = FDP_ANCESTORS_MOST


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


cdef class SparseRows:
    """A matrix in compressed rows (scipy.sparse.csr_array), multiplied by a team of threads; each row is added up in order, so results do not depend on their number."""

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

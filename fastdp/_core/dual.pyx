"""The dual of estimation from whole marginals; see csrc/dual.h for its form. `Dual` owns the problem and its
work space."""

from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

cimport numpy as cnp
from fastdp._core.arrays cimport fill, kept
from fastdp._core.status cimport check
from fastdp._core.team cimport Team, fdp_team, team_of

cdef extern from "dual.h" nogil:
    ctypedef struct fdp_view:
        const int32_t *base
        const int32_t *map
        int32_t kind
    ctypedef struct fdp_dual_span:
        pass
    ctypedef struct fdp_dual_item:
        pass
    ctypedef struct fdp_dual_piece:
        pass
    ctypedef struct fdp_dual_feed:
        pass
    ctypedef struct fdp_dual_fold:
        pass
    ctypedef struct fdp_dual_link:
        fdp_view view
        int64_t at
        const fdp_dual_span *spans
        double sign
    ctypedef struct fdp_dual_region:
        int64_t rows
        int64_t cols
        int64_t cell
        int64_t lanes
        double sigma
        const double *sigmas
        int64_t n_links
        const fdp_dual_link *links
    ctypedef struct fdp_dual:
        int64_t size
        int64_t edges
        int64_t cells
        int64_t n_regions
        int64_t n_items
        int64_t n_pieces
        const fdp_dual_region *regions
        const fdp_dual_item *items
        const fdp_dual_piece *pieces
        const fdp_dual_feed *feeds
        int64_t n_folds
        const fdp_dual_fold *folds
        const double *scale
        const double *rhs
        const double *y
        const double *inverse
    ctypedef struct fdp_dual_work:
        float *slope
        double *edge_u
        double *edge_d
        double *sums
        double *vectors
        double *dots
    int fdp_dual_evaluate(const fdp_dual *, const double *, const double *, const double *, fdp_team *,
                          const fdp_dual_work *, double *, double *, double *, double *)
    int fdp_dual_solve(const fdp_dual *, const double *, const double *, double, int64_t, fdp_team *,
                       const fdp_dual_work *, double *, int64_t *)
    int fdp_dual_probe(const fdp_dual *, uint64_t, fdp_team *, const fdp_dual_work *, double *)
    int fdp_dual_answer(const fdp_dual *, const double *, const fdp_dual_work *, double *)

cnp.import_array()

cdef class Dual:
    """A problem as `estimate.dual.dual_plan` cuts it, and the constraints' right sides (float64 [P]).
    `threads`: a number, or a `Team`. `y` and `inverse` (1 / centre; float64, all cells, in sigma) may be
    written to between calls."""

    cdef fdp_dual at, product
    cdef fdp_dual_work work, product_work
    cdef list keep
    cdef readonly Team team
    cdef readonly int64_t size, cells, products
    cdef readonly int n_regions
    cdef readonly object inverse, y, offsets, diagonal

    def __cinit__(self, plan, rhs, threads):
        self.keep, self.team, self.products = [], team_of(threads), 0
        self.n_regions, self.size = len(plan.evaluate.tables), len(rhs)
        self.offsets = plan.evaluate.cells
        self._cut(&self.at, &self.work, plan.evaluate)
        self._cut(&self.product, &self.product_work, plan.product)
        self.cells = self.at.cells
        self.at.n_folds = len(plan.folds)
        self.at.folds = <const fdp_dual_fold *> kept(self.keep, plan.folds, np.int64)
        self.at.scale = <const double *> kept(self.keep, plan.scale, np.float64)
        self.at.rhs = <const double *> kept(self.keep, rhs, np.float64)
        answers = [np.asarray(table.y, np.float64).reshape(-1) for table in plan.evaluate.tables]
        self.y = np.concatenate(answers or [np.zeros(0)])
        self.inverse = np.ones(self.cells)
        self.at.y = <const double *> kept(self.keep, self.y, np.float64)
        self.at.inverse = <const double *> kept(self.keep, self.inverse, np.float64)
        self.work.slope = <float *> kept(self.keep, np.zeros(plan.slopes, np.float32), np.float32)
        self.product_work.slope = self.work.slope
        self.work.edge_d = <double *> kept(self.keep, np.zeros(plan.evaluate.edges), np.float64)
        self.product_work.vectors = <double *> kept(self.keep, np.zeros(3 * self.size), np.float64)
        self.diagonal = np.zeros(max(1, self.size))

    cdef int _cut(self, fdp_dual *out, fdp_dual_work *work, plan) except -1:
        """The regions of one way through them, and its room; `plan.cells` are their offsets."""
        cdef int64_t k, l = 0
        n = len(plan.tables)
        cdef fdp_dual_region *regions = <fdp_dual_region *> kept(
            self.keep, np.zeros(max(1, n) * sizeof(fdp_dual_region), np.uint8), np.uint8)
        cdef fdp_dual_link *links = <fdp_dual_link *> kept(
            self.keep, np.zeros(max(1, len(plan.spans)) * sizeof(fdp_dual_link), np.uint8), np.uint8)
        for k, table in enumerate(plan.tables):
            r = &regions[k]
            r.rows, r.cols, r.cell, r.lanes = table.rows, table.cols, plan.cells[k], plan.lanes[k]
            if np.ndim(table.sigma):
                r.sigmas = <const double *> kept(self.keep, table.sigma, np.float64)
            else:
                r.sigma = table.sigma
            r.n_links, r.links = len(table.links), &links[l]
            for link in table.links:
                self._link(&links[l], link, plan.spans[l])
                l += 1
        out.size, out.edges, out.n_regions, out.regions = self.size, plan.edges, n, regions
        out.cells = sum(table.rows * table.cols for table in plan.tables)
        out.n_items, out.n_pieces = len(plan.items), len(plan.pieces)
        out.items = <const fdp_dual_item *> kept(self.keep, plan.items, np.int64)
        out.pieces = <const fdp_dual_piece *> kept(self.keep, plan.pieces, np.int64)
        out.feeds = <const fdp_dual_feed *> kept(self.keep, plan.feeds, np.int64)
        work.edge_u = <double *> kept(self.keep, np.zeros(plan.edges), np.float64)
        work.sums = <double *> kept(self.keep, np.zeros(2 * len(plan.items)), np.float64)
        work.dots = <double *> kept(self.keep, np.zeros(2 * len(plan.pieces)), np.float64)
        return 0

    cdef int _link(self, fdp_dual_link *out, link, spans) except -1:
        out.at, out.sign = link.at, link.sign
        out.spans = <const fdp_dual_span *> kept(self.keep, spans, np.int64)
        if link.base is not None:
            out.view.base = <const int32_t *> kept(self.keep, link.base, np.int32)
        if isinstance(link.along, str):
            out.view.kind = {"row": 0, "cell": 1}[link.along]
        else:
            out.view.kind, out.view.map = 2, <const int32_t *> kept(self.keep, link.along, np.int32)
        return 0

    def evaluate(self, const double[::1] x, const double[::1] tau, const double[::1] kappa, cells=None):
        """(gradient, sums [regions, 2]); fills `diagonal`, and `cells` (float64, in rows) where given."""
        g, sums = np.zeros(max(1, self.size)), np.zeros((max(1, self.n_regions), 2))
        cdef double[::1] gradient = g, diagonal = self.diagonal
        cdef double[:, ::1] totals = sums
        cdef double *u = fill(cells, self.cells) if cells is not None else NULL
        cdef int code
        with nogil:
            code = fdp_dual_evaluate(&self.at, &x[0], &tau[0], &kappa[0], &self.team.c, &self.work,
                                     &gradient[0], &diagonal[0], &totals[0, 0], u)
        check(code, "the dual")
        return g[: self.size], sums

    def solve(self, const double[::1] b, double tol, int64_t most):
        """H^-1 b at the last evaluation, by at most so many products (counted in `products`)."""
        out = np.zeros(max(1, self.size))
        cdef double[::1] filled = out, diagonal = self.diagonal
        cdef int64_t products = 0
        cdef int code
        with nogil:
            code = fdp_dual_solve(&self.product, &b[0], &diagonal[0], tol, most, &self.team.c, &self.product_work,
                                  &filled[0], &products)
        check(code, "a step of the dual")
        self.products += products
        return out[: self.size]

    def probe(self, uint64_t seed, double tol, int64_t most):
        """Per region: the part of the divergence of u / sigma by y that goes through the multipliers,
        estimated with one vector of random signs and one solve."""
        b, out = np.zeros(max(1, self.size)), np.zeros(max(1, self.n_regions))
        cdef double[::1] right = b, filled = out
        cdef int code
        with nogil:
            code = fdp_dual_probe(&self.at, seed, &self.team.c, &self.work, &right[0])
        check(code, "the divergence of the dual")
        cdef const double[::1] x = np.ascontiguousarray(-self.solve(b, tol, most))
        if self.size:
            with nogil:
                code = fdp_dual_answer(&self.at, &x[0], &self.work, &filled[0])
            check(code, "the divergence of the dual")
        return out[: self.n_regions]

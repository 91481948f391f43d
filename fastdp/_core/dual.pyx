"""The dual of estimation from whole marginals; see csrc/dual.h for its form. `Dual` owns the problem and its
work space."""

from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np

from fastdp._core.arrays cimport address, fill, kept, read
from fastdp._core.status cimport check
from fastdp._core.tables import room
from fastdp._core.team cimport Team, fdp_team, team_of

cdef extern from "dual.h" nogil:
    const int64_t FDP_DUAL_TOTALS
    ctypedef struct fdp_view:
        const int32_t *base
        const int32_t *map
        int32_t kind
    ctypedef struct fdp_span:
        pass
    ctypedef struct fdp_dual_item:
        pass
    ctypedef struct fdp_dual_piece:
        pass
    ctypedef struct fdp_dual_feed:
        pass
    ctypedef struct fdp_dual_fold:
        pass
    ctypedef struct fdp_dual_segment:
        pass
    ctypedef struct fdp_dual_layer:
        pass
    ctypedef struct fdp_dual_bundle:
        pass
    ctypedef struct fdp_dual_strand:
        pass
    ctypedef struct fdp_dual_blocks:
        int64_t codes
        int64_t parts
        int64_t n_totals
        fdp_dual_segment *segments
        fdp_dual_layer *layers
        fdp_dual_bundle *bundles
        fdp_dual_strand *strands
        int32_t *line_of
        int64_t *totals
        int64_t *sides
        int64_t stride
        double *room
        double *sums
    ctypedef struct fdp_dual_link:
        fdp_view view
        int64_t at
        int64_t size
        const fdp_span *spans
        double sign
        int32_t again
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
    int fdp_dual_evaluate(const fdp_dual *, const double *, const double *, double, const double *,
                          const double *, fdp_team *, const fdp_dual_work *, double *, double *, double *,
                          double *, double *, float *, double *)
    int fdp_dual_solve(const fdp_dual *, const double *, double, const double *, double, int64_t, fdp_team *,
                       const fdp_dual_work *, double *, int64_t *, double *)
    int fdp_dual_find_blocks(const fdp_dual *, int64_t, fdp_dual_blocks *)
    int fdp_dual_solve_blocks(const fdp_dual *, const fdp_dual_blocks *, const double *, double, const double *,
                              double, int64_t, fdp_team *, const float *, const double *, double *,
                              double *, int64_t *, double *)
    int fdp_dual_probe(const fdp_dual *, uint64_t, fdp_team *, const fdp_dual_work *, double *)
    int fdp_dual_answer(const fdp_dual *, const double *, fdp_team *, const fdp_dual_work *, double *)
    int fdp_dual_centre(const fdp_dual *, int64_t, const double *, const double *, const uint8_t *,
                        fdp_team *, double *, double *)
    int fdp_dual_gram(const fdp_dual *, int64_t, const float *, fdp_team *, double *, double *)
    int fdp_dual_mixture(int64_t, const double *, const double *, double *)
    int fdp_dual_mix(const fdp_dual *, int64_t, const float *, const double *, fdp_team *, double *, double *)


cdef class Dual:
    """A problem as `estimate.dual.dual_plan` cuts it, and the constraints' right sides (float64 [P]).
    `threads`: a number, or a `Team`. `y` and `inverse` (1 / centre; float64, all cells, in sigma) have no
    values before `centre`, and may be written to between calls. After an evaluation: `gradient`, `diagonal` of the Hessian, the `worst`
    violation of a constraint, in standard errors of its own side, their root mean square `rms`, and what of
    the gradient is `along` the last `step`. `n_blocks`: those of the Hessian; 0: products go by lanes."""

    cdef fdp_dual at, product
    cdef fdp_dual_work work, product_work
    cdef fdp_dual_blocks blocks
    cdef double *ahead
    cdef list keep
    cdef readonly Team team
    cdef readonly int64_t size, cells, products, n_blocks
    cdef readonly int n_regions
    cdef readonly double worst, rms, along
    cdef readonly object inverse, y, offsets, diagonal, gradient, way

    def __cinit__(self, plan, rhs, threads):
        self.keep, self.team, self.products, self.ahead = [], team_of(threads), 0, NULL
        self.n_regions, self.size, self.offsets = len(plan.tables), len(rhs), plan.cells
        self._tables(&self.at, plan.tables, plan.cells)
        self._tables(&self.product, plan.inner, plan.inner_cells)
        self._lanes(&self.at, &self.work, plan.lanes)
        self.cells = self.at.cells
        self.at.n_folds = len(plan.folds)
        self.at.folds = <const fdp_dual_fold *> kept(self.keep, plan.folds, np.int64)
        self.at.scale = <const double *> kept(self.keep, plan.scale, np.float64)
        self.at.rhs = <const double *> kept(self.keep, rhs, np.float64)
        self.y, self.inverse = (room(max(1, self.cells), self.team) for _ in range(2))
        self.at.y = <const double *> kept(self.keep, self.y, np.float64)
        self.at.inverse = <const double *> kept(self.keep, self.inverse, np.float64)
        self.work.slope = <float *> kept(self.keep, room(plan.slopes, self.team, np.float32), np.float32)
        self.product_work.slope = self.work.slope
        self.work.edge_d = <double *> kept(self.keep, np.empty(plan.lanes.edges), np.float64)
        self._blocks(plan.inner, plan.lane_cells)
        if not self.n_blocks:
            self._lanes(&self.product, &self.product_work, plan.inner_lanes())
            self.product_work.vectors = <double *> kept(self.keep, np.empty(5 * self.size), np.float64)
        self.diagonal, self.gradient, self.way = (np.zeros(max(1, self.size)) for _ in range(3))

    cdef int _tables(self, fdp_dual *out, tables, cells) except -1:
        """The regions of one way through them; `cells` are their offsets."""
        cdef int64_t k, l = 0
        n, links_of = len(tables), sum(len(table.links) for table in tables)
        cdef fdp_dual_region *regions = <fdp_dual_region *> self._room(n * sizeof(fdp_dual_region))
        cdef fdp_dual_link *links = <fdp_dual_link *> self._room(links_of * sizeof(fdp_dual_link))
        for k, table in enumerate(tables):
            r = &regions[k]
            r.rows, r.cols, r.cell, r.lanes, r.sigmas = table.rows, table.cols, cells[k], 0, NULL
            if np.ndim(table.sigma):
                r.sigmas = <const double *> kept(self.keep, table.sigma, np.float64)
            else:
                r.sigma = table.sigma
            r.n_links, r.links = len(table.links), &links[l]
            for link in table.links:
                self._link(&links[l], link)
                l += 1
        out.size, out.n_regions, out.regions = self.size, n, regions
        out.cells = sum(table.rows * table.cols for table in tables)
        return 0

    cdef int _lanes(self, fdp_dual *out, fdp_dual_work *work, cut) except -1:
        """How they are cut, and room for that."""
        cdef fdp_dual_region *regions = <fdp_dual_region *> out.regions
        cdef fdp_dual_link *links = <fdp_dual_link *> regions[0].links
        cdef int64_t k
        for k in range(out.n_regions):
            regions[k].lanes = cut.lanes[k]
        for k, spans in enumerate(cut.spans):
            links[k].spans = <const fdp_span *> kept(self.keep, spans, np.int64)
        out.edges, out.n_items, out.n_pieces = cut.edges, len(cut.items), len(cut.pieces)
        out.items = <const fdp_dual_item *> kept(self.keep, cut.items, np.int64)
        out.pieces = <const fdp_dual_piece *> kept(self.keep, cut.pieces, np.int64)
        out.feeds = <const fdp_dual_feed *> kept(self.keep, cut.feeds, np.int64)
        work.edge_u = <double *> kept(self.keep, np.empty(cut.edges), np.float64)
        work.sums = <double *> kept(self.keep, np.zeros(2 * len(cut.items)), np.float64)
        work.dots = <double *> kept(self.keep, np.zeros(3 * len(cut.pieces)), np.float64)
        return 0

    cdef int _blocks(self, tables, int64_t lane_cells) except -1:
        """The blocks of products, if any, and room for them."""
        cdef fdp_dual_blocks *k = &self.blocks
        links = sum(len(table.links) for table in tables)
        k.segments = <fdp_dual_segment *> self._room(links * sizeof(fdp_dual_segment))
        k.layers = <fdp_dual_layer *> self._room(len(tables) * sizeof(fdp_dual_layer))
        k.bundles = <fdp_dual_bundle *> self._room(links * sizeof(fdp_dual_bundle))
        k.strands = <fdp_dual_strand *> self._room(links * sizeof(fdp_dual_strand))
        k.line_of = <int32_t *> self._room(sum(table.rows * len(table.links) for table in tables) * sizeof(int32_t))
        k.totals = <int64_t *> self._room(links * sizeof(int64_t))
        k.sides = <int64_t *> self._room(FDP_DUAL_TOTALS * len(tables) * sizeof(int64_t))
        if not fdp_dual_find_blocks(&self.product, lane_cells, k):
            return 0
        self.n_blocks = k.codes * k.parts
        k.room = <double *> self._room(self.n_blocks * k.stride * sizeof(double))
        k.sums = <double *> self._room(self.n_blocks * (2 + k.n_totals) * sizeof(double))
        return 0

    cdef void *_room(self, size_t size) except NULL:
        return kept(self.keep, room(max(<size_t> 1, size), self.team, np.uint8), np.uint8)

    cdef int _link(self, fdp_dual_link *out, link) except -1:
        out.at, out.size, out.sign = link.at, link.size, link.sign
        out.again = 0 if link.same is None else link.same + 1
        out.view.base, out.view.map = NULL, NULL
        if link.base is not None:
            out.view.base = <const int32_t *> kept(self.keep, link.base, np.int32)
        if isinstance(link.along, str):
            out.view.kind = {"row": 0, "cell": 1}[link.along]
        else:
            out.view.kind, out.view.map = 2, <const int32_t *> kept(self.keep, link.along, np.int32)
        return 0

    def evaluate(self, x, const double[::1] tau, const double[::1] kappa, cells=None, ahead=None):
        """The sums [regions, 2] (see csrc/dual.h) at x; fills `cells` where given (float64: in rows, float32:
        in sigma). `ahead` (length, out): at x + length times the last `step`, which goes to `out`."""
        sums = np.zeros((max(1, self.n_regions), 2))
        cdef double[:, ::1] totals = sums
        cdef const double *start = read(x, self.size)
        cdef double *g = fill(self.gradient, self.size)
        cdef double *diagonal = fill(self.diagonal, self.size)
        cdef double *u = NULL
        cdef float *seen = NULL
        cdef double *to = NULL
        cdef const double *way = NULL
        cdef double length = 0
        cdef double[3] state
        cdef int code
        if cells is not None and cells.size < self.cells:
            raise ValueError("the dual fills one number for every cell")
        if cells is not None and cells.dtype == np.float32:
            seen = <float *> address(cells)
        elif cells is not None:
            u = fill(cells, self.cells)
        if ahead is not None:
            length, to, way = ahead[0], fill(ahead[1], self.size), read(self.way, self.size)
            if length == 1 and to == self.ahead: # `step` went there
                start, to = to, NULL
        self.ahead = NULL
        with nogil:
            code = fdp_dual_evaluate(&self.at, start, way, length, &tau[0], &kappa[0], self.team.c,
                                     &self.work, to, g, diagonal, &totals[0, 0], u, seen, state)
        check(code, "the dual")
        self.worst, self.rms, self.along = state[0], sqrt(state[1] / max(1, self.size)), state[2]
        return sums

    def solve(self, b, double tol, int64_t most, double sign=1.0, out=None, x=None, ahead=None):
        """sign * H^-1 b at the last evaluation, by at most so many products (counted in `products`). By blocks,
        x and it go to `ahead`, where given."""
        out = np.zeros(max(1, self.size)) if out is None else out
        cdef const double *start = read(out if x is None else x, self.size)
        cdef double *to = NULL if ahead is None else fill(ahead, self.size)
        cdef const double *right = read(b, self.size)
        cdef const double *diagonal = read(self.diagonal, self.size)
        cdef double *filled = fill(out, self.size)
        cdef int64_t products = 0
        cdef int code
        with nogil:
            if self.n_blocks:
                code = fdp_dual_solve_blocks(&self.product, &self.blocks, right, sign, diagonal, tol, most,
                                             self.team.c, self.work.slope, start, filled, to, &products,
                                             &self.along)
            else:
                code = fdp_dual_solve(&self.product, right, sign, diagonal, tol, most, self.team.c,
                                      &self.product_work, filled, &products, &self.along)
        check(code, "a step of the dual")
        self.products += products
        self.ahead = to if self.n_blocks else NULL
        return out[: self.size]

    def step(self, double tol, int64_t most, x, ahead):
        """Newton's step from the last evaluation, at x: fills `way`; returns what of the gradient lies along it.
        `ahead` is for the evaluation after a step of length 1."""
        self.solve(self.gradient, tol, most, -1.0, self.way, x, ahead)
        return self.along

    def probe(self, uint64_t seed, double tol, int64_t most):
        """Per region: the part of the divergence of u / sigma by y that goes through the multipliers,
        estimated with one vector of random signs and one solve."""
        b, out, through = (np.zeros(max(1, n)) for n in (self.size, self.n_regions, self.size))
        cdef double *right = fill(b, self.size)
        cdef double *filled = fill(out, self.n_regions)
        cdef const double *x = read(through, self.size)
        cdef int code
        with nogil:
            code = fdp_dual_probe(&self.at, seed, self.team.c, &self.work, right)
        check(code, "the divergence of the dual")
        self.solve(b, tol, most, -1.0, through)
        if self.size:
            with nogil:
                code = fdp_dual_answer(&self.at, x, self.team.c, &self.work, filled)
            check(code, "the divergence of the dual")
        return out[: self.n_regions]

    def centre(self, int64_t region, table, given, possible=None):
        """Gives a region its answers `given` and its centre `table`, both in rows; `possible`: bool per cell
        or None, all of them."""
        cdef int64_t cells = self.at.regions[region].rows * self.at.regions[region].cols
        table, given = (np.ascontiguousarray(t, np.float64).reshape(-1) for t in (table, given))
        mask = None if possible is None else np.ascontiguousarray(possible, np.uint8).reshape(-1)
        cdef const double *centre = read(table, cells)
        cdef const double *answers = read(given, cells)
        cdef const uint8_t *some = <const uint8_t *> address(mask) if mask is not None else NULL
        cdef double *y = fill(self.y, self.cells)
        cdef double *inverse = fill(self.inverse, self.cells)
        cdef int code
        if mask is not None and mask.size != cells:
            raise ValueError("a mask has one bool for every cell of its region")
        with nogil:
            code = fdp_dual_centre(&self.at, region, centre, answers, some, self.team.c, y, inverse)
        check(code, "the centre of a region")

    def gram(self, const float[:, ::1] seen):
        """[regions, n, n]: products of the gaps between answers and n candidates [n, cells], in sigma."""
        cdef int64_t n = seen.shape[0]
        room, out = np.empty((max(1, self.at.n_items), n, n)), np.zeros((max(1, self.n_regions), n, n))
        cdef double[:, :, ::1] part = room, whole = out
        cdef int code
        if seen.shape[1] != self.cells:
            raise ValueError("a candidate has one number for every cell")
        with nogil:
            code = fdp_dual_gram(&self.at, n, &seen[0, 0], self.team.c, &part[0, 0, 0], &whole[0, 0, 0])
        check(code, "the candidates of the dual")
        return out

    def mix(self, const float[:, ::1] seen, const double[:, ::1] weights):
        """Makes mixtures [regions, n] of n candidates [n, cells] the answers and centres of all regions."""
        cdef double *y = fill(self.y, self.cells)
        cdef double *inverse = fill(self.inverse, self.cells)
        cdef int code
        cdef Py_ssize_t n = seen.shape[0]
        if seen.shape[1] != self.cells or weights.shape[1] != n or weights.shape[0] != self.n_regions:
            raise ValueError("a mixture has one weight for every candidate and region")
        with nogil:
            code = fdp_dual_mix(&self.at, n, &seen[0, 0], &weights[0, 0], self.team.c, y, inverse)
        check(code, "the candidates of the dual")


def mixture(const double[:, :, ::1] gram, const double[:, ::1] gain):
    """Weights w >= 0 that add up to 1 and make w' gram w + 2 gain' w least, for every problem of a stack."""
    cdef int64_t n = gain.shape[1], i
    out = np.empty((gain.shape[0], n))
    cdef double[:, ::1] weights = out
    if gram.shape[0] != gain.shape[0] or gram.shape[1] != n or gram.shape[2] != n:
        raise ValueError("a mixture has one product for every two candidates")
    for i in range(gain.shape[0]):
        check(fdp_dual_mixture(n, &gram[i, 0, 0], &gain[i, 0], &weights[i, 0]), "a mixture of candidates")
    return out

"""The dual of estimation from whole marginals; see csrc/dual.h for the law. `Dual` owns the problem and its
work space."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

cimport numpy as cnp
from fastdp._core.arrays cimport fill, kept
from fastdp._core.status cimport check
from fastdp._core.team cimport Team, fdp_team, team_of

cdef extern from "dual.h" nogil:
    ctypedef struct fdp_dual_link:
        int64_t at
        int64_t size
        int64_t edge
        const int32_t *base
        const int32_t *map
        int32_t kind
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
    ctypedef struct fdp_dual_piece:
        int64_t at
        int64_t size
        int64_t first_edge
        int64_t n_edges
    ctypedef struct fdp_dual:
        int64_t size
        int64_t edges
        int64_t n_regions
        int64_t n_items
        int64_t n_pieces
        const fdp_dual_region *regions
        const int64_t *item_region
        const int64_t *item_lane
        const fdp_dual_piece *pieces
        const int64_t *edge_at
        const double *edge_sign
        const double *rhs
        const double *y
        const double *inverse
    ctypedef struct fdp_dual_work:
        double *slope
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

LANE_CELLS = 16384
"""Cells of a region's lane, about: the unit of work of a thread."""

PIECE = 4096
"""Multipliers worked on at a time."""


cdef class Dual:
    """Regions, their links, and the constraints' right sides.

    regions: one tuple (rows, cols, y, sigma, links) each; y float64 of rows * cols, in units of sigma; sigma
    a number or an array of the same size; links: tuples (at, size, sign, base, along): `base` int32 per row
    or None, `along` "row", "cell", or an int32 map per column. rhs: float64 [P]. `threads`: a number, or a
    `Team`. `y` and `inverse` (1 / centre; float64, all cells, in sigma) may be written to between calls."""

    cdef fdp_dual at
    cdef fdp_dual_region *regions
    cdef fdp_dual_link *links
    cdef fdp_dual_piece *pieces
    cdef fdp_dual_work work
    cdef list keep
    cdef readonly Team team
    cdef readonly int64_t size, cells, products
    cdef readonly int n_regions
    cdef readonly object inverse, y, offsets, diagonal

    def __cinit__(self, regions, rhs, threads):
        cdef int64_t k, l = 0, cell = 0, edge = 0, lane
        self.keep, self.team, self.products = [], team_of(threads), 0
        self.n_regions, self.size = len(regions), len(rhs)
        n_links = sum(len(region[4]) for region in regions)
        self.regions = <fdp_dual_region *> calloc(max(1, self.n_regions), sizeof(fdp_dual_region))
        self.links = <fdp_dual_link *> calloc(max(1, n_links), sizeof(fdp_dual_link))
        if not (self.regions and self.links):
            raise MemoryError("no memory for the dual")
        items, feeds, offsets = [], {}, [0]
        for k, (rows, cols, y, sigma, links) in enumerate(regions):
            r = &self.regions[k]
            r.rows, r.cols, r.cell = rows, cols, cell
            r.lanes = max(1, min(rows, (rows * cols) // LANE_CELLS))
            if np.ndim(sigma):
                r.sigmas = <const double *> kept(self.keep, sigma, np.float64)
            else:
                r.sigma = sigma
            r.n_links, r.links = len(links), &self.links[l]
            items += [(k, lane) for lane in range(r.lanes)]
            for at, size, sign, base, along in links:
                link = &self.links[l]
                link.at, link.size, link.sign, link.edge = at, size, sign, edge
                if base is not None:
                    link.base = <const int32_t *> kept(self.keep, base, np.int32)
                if isinstance(along, str):
                    link.kind = {"row": 0, "cell": 1}[along]
                else:
                    link.kind, link.map = 2, <const int32_t *> kept(self.keep, along, np.int32)
                for lane in range(r.lanes):
                    feeds.setdefault((at, size), []).append((edge + lane * size, sign))
                edge += size * r.lanes
                l += 1
            cell += rows * cols
            offsets.append(cell)
        self.cells, self.offsets = cell, np.array(offsets)
        edge_at, edge_sign, pieces = [], [], []
        for (at, size), fed in feeds.items():
            for start in range(0, size, PIECE):
                pieces.append((at + start, min(PIECE, size - start), len(edge_at), len(fed)))
                edge_at += [e + start for e, _ in fed]
                edge_sign += [s for _, s in fed]
        self.pieces = <fdp_dual_piece *> calloc(max(1, len(pieces)), sizeof(fdp_dual_piece))
        if not self.pieces:
            raise MemoryError("no memory for the dual")
        for k, piece in enumerate(pieces):
            p = &self.pieces[k]
            p.at, p.size, p.first_edge, p.n_edges = piece
        self.at.size, self.at.edges, self.at.n_regions = self.size, edge, self.n_regions
        self.at.n_items, self.at.n_pieces = len(items), len(pieces)
        self.at.regions, self.at.pieces = self.regions, self.pieces
        self.at.item_region = <const int64_t *> kept(self.keep, [i for i, _ in items], np.int64)
        self.at.item_lane = <const int64_t *> kept(self.keep, [i for _, i in items], np.int64)
        self.at.edge_at = <const int64_t *> kept(self.keep, edge_at, np.int64)
        self.at.edge_sign = <const double *> kept(self.keep, edge_sign, np.float64)
        self.at.rhs = <const double *> kept(self.keep, rhs, np.float64)
        answers = [np.asarray(region[2], np.float64).reshape(-1) for region in regions]
        self.y = np.concatenate(answers or [np.zeros(0)])
        self.inverse = np.ones(self.cells)
        self.at.y = <const double *> kept(self.keep, self.y, np.float64)
        self.at.inverse = <const double *> kept(self.keep, self.inverse, np.float64)
        self.work.slope = <double *> kept(self.keep, np.zeros(self.cells), np.float64)
        self.work.edge_u = <double *> kept(self.keep, np.zeros(edge), np.float64)
        self.work.edge_d = <double *> kept(self.keep, np.zeros(edge), np.float64)
        self.work.sums = <double *> kept(self.keep, np.zeros(2 * len(items)), np.float64)
        self.work.vectors = <double *> kept(self.keep, np.zeros(4 * self.size), np.float64)
        self.work.dots = <double *> kept(self.keep, np.zeros(2 * len(pieces)), np.float64)
        self.diagonal = np.zeros(max(1, self.size))

    def __dealloc__(self):
        free(self.regions)
        free(self.links)
        free(self.pieces)

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
            code = fdp_dual_solve(&self.at, &b[0], &diagonal[0], tol, most, &self.team.c, &self.work,
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

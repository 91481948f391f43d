"""Belief propagation on a planned tree; see csrc/infer.h for the method. `Engine` owns the plan and work space."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

import numpy as np

cdef extern from "infer.h" nogil:
    int FDP_MAX_DIMS
    int FDP_ERR_IMPOSSIBLE
    ctypedef struct fdp_link:
        int64_t at
        int64_t size
        const int32_t *base
        int32_t nd
        int32_t shared
        int64_t *n
        int64_t *ts
    ctypedef struct fdp_node:
        int64_t rows
        int64_t cells
        int64_t table
        int64_t row_at
        int64_t separator
        int32_t own
        int32_t lanes
        int64_t own_at
        const int64_t *own_row
        const int32_t *own_cell
        const int64_t *lane_at
        int64_t n_links
        const fdp_link *links
        int64_t lane_buffer
        int64_t buffer_at
    ctypedef struct fdp_fold:
        int64_t host_at
        fdp_link link
    ctypedef struct fdp_nest:
        int64_t at
        int64_t size
        int64_t first_fold
        int64_t n_folds
    ctypedef struct fdp_stage:
        int64_t first_node
        int64_t n_nodes
        int64_t first_nest
        int64_t n_nests
        int64_t first_item
        int64_t n_items
        int64_t first_link
        int64_t n_links
        int32_t large
    ctypedef struct fdp_tree:
        int64_t size
        int64_t shared
        int32_t large
        int64_t n_stages
        const fdp_stage *stages
        const fdp_node *nodes
        const fdp_nest *nests
        const fdp_fold *folds
        const int64_t *item_node
        const int64_t *item_lane
        const int64_t *link_node
        const int64_t *link_number
    int fdp_infer_f64(const fdp_tree *, const double *, double, int, double *, double *, double *, double *, double,
                      double *, double *, double *, double *)
    int fdp_infer_f32(const fdp_tree *, const double *, double, int, double *, float *, double *, double *, double *,
                      double, float *, float *, double *, double *)
    int fdp_step(int64_t, double, const double *, double, const double *, const double *, const double *, int, double *)
    int fdp_arrive(int64_t, const double *, const double *, const double *, const double *, const double *,
                   const double *, int, double *, double *, double *)
    int fdp_blend(int64_t, double, const double *, const double *, int, double *, double *)
    int fdp_average_f64(int64_t, double, const double *, int, double *)
    int fdp_average_f32(int64_t, double, const float *, int, float *)


cdef class Engine:
    """A planned tree. The plan's arrays are kept alive here; `tables` and vectors belong to the caller."""

    cdef fdp_tree tree
    cdef fdp_node *nodes
    cdef fdp_fold *folds
    cdef fdp_link *links
    cdef fdp_nest *nests
    cdef fdp_stage *stages
    cdef list keep
    cdef int threads
    cdef object up, up32, rowsum, message, buffer
    cdef readonly int64_t size, cells

    def __cinit__(self, plan, int threads):
        cdef int64_t i, k = 0, s = 0, nest = 0, buffer_most = 1, buffer_at
        cdef int64_t n_links = sum(len(node.links) for node in plan.nodes)
        cdef int64_t n_nests = sum(len(node.nests) for node in plan.nodes)
        self.keep = []
        self.threads = threads
        self.nodes = <fdp_node *> calloc(max(1, len(plan.nodes)), sizeof(fdp_node))
        self.folds = <fdp_fold *> calloc(max(1, len(plan.folds)), sizeof(fdp_fold))
        self.links = <fdp_link *> calloc(max(1, n_links), sizeof(fdp_link))
        self.nests = <fdp_nest *> calloc(max(1, n_nests), sizeof(fdp_nest))
        self.stages = <fdp_stage *> calloc(max(1, len(plan.stages)), sizeof(fdp_stage))
        if not (self.nodes and self.folds and self.links and self.nests and self.stages):
            raise MemoryError("no memory for the inference plan")
        for i, (host_at, link) in enumerate(plan.folds):
            self.folds[i].host_at = host_at
            self._fill(&self.folds[i].link, link)
        items, pairs = [], []
        i = 0
        for s, stage in enumerate(plan.stages):
            out = &self.stages[s]
            out.first_node, out.n_nodes = i, len(stage)
            out.first_nest, out.first_item, out.first_link = nest, len(items), len(pairs)
            out.large = sum(node.rows * node.cells for node in stage) > 65536
            buffer_at = 0
            for node in stage:
                self._node(&self.nodes[i], node, &self.links[k])
                self.nodes[i].buffer_at = buffer_at
                buffer_at += self.nodes[i].lane_buffer * self.nodes[i].lanes
                k += len(node.links)
                items += [(i, lane) for lane in range(self.nodes[i].lanes)]
                pairs += [(i, number) for number in range(len(node.links))]
                for at, size, first, count in node.nests:
                    self.nests[nest].at, self.nests[nest].size = at, size
                    self.nests[nest].first_fold, self.nests[nest].n_folds = first, count
                    nest += 1
                i += 1
            buffer_most = max(buffer_most, buffer_at)
            out.n_nests, out.n_items, out.n_links = (
                nest - out.first_nest, len(items) - out.first_item, len(pairs) - out.first_link)
        self.tree.size = self.size = plan.size
        self.tree.shared = plan.shared
        self.tree.large = any(self.stages[s].large for s in range(len(plan.stages)))
        self.cells = plan.cells
        self.tree.n_stages = len(plan.stages)
        self.tree.stages, self.tree.nodes = self.stages, self.nodes
        self.tree.nests, self.tree.folds = self.nests, self.folds
        self.tree.item_node = <const int64_t *> self._ptr([node for node, _ in items], np.int64)
        self.tree.item_lane = <const int64_t *> self._ptr([lane for _, lane in items], np.int64)
        self.tree.link_node = <const int64_t *> self._ptr([node for node, _ in pairs], np.int64)
        self.tree.link_number = <const int64_t *> self._ptr([number for _, number in pairs], np.int64)
        self.up = np.empty(max(1, plan.shared))
        self.up32 = None
        self.rowsum = np.empty(max(1, plan.rows))
        self.message = np.empty(max(1, plan.rows))
        self.buffer = np.empty(buffer_most)

    cdef int _node(self, fdp_node *c, node, fdp_link *links) except -1:
        cdef int64_t k = 0
        c.rows, c.cells, c.table, c.row_at = node.rows, node.cells, node.table, node.row_at
        c.separator, c.own, c.lanes, c.own_at = node.separator, node.own, len(node.lane_at) - 1, node.own_at
        c.lane_at = <const int64_t *> self._ptr(node.lane_at, np.int64)
        if node.own == 2:
            c.own_row = <const int64_t *> self._ptr(node.own_row, np.int64)
            c.own_cell = <const int32_t *> self._ptr(node.own_cell, np.int32)
        c.n_links = len(node.links)
        c.links = links
        c.lane_buffer = 0
        for k, link in enumerate(node.links):
            self._fill(&links[k], link)
            if link.shared and c.lanes > 1:
                c.lane_buffer += link.size
        return 0

    def __dealloc__(self):
        free(self.nodes)
        free(self.folds)
        free(self.links)
        free(self.nests)
        free(self.stages)

    cdef void *_ptr(self, values, dtype) except? NULL:
        array = np.ascontiguousarray(values, dtype)
        if array.size == 0:
            array = np.zeros(1, dtype)
        self.keep.append(array)
        cdef const unsigned char[:] view = array.reshape(-1).view(np.uint8)
        return <void *> &view[0]

    cdef int _fill(self, fdp_link *out, link) except -1:
        cdef int d
        out.at, out.size, out.nd, out.shared = link.at, link.size, len(link.n), link.shared
        out.base = NULL
        if link.base is not None:
            out.base = <const int32_t *> self._ptr(link.base, np.int32)
        for d in range(out.nd):
            out.n[d] = link.n[d]
            out.ts[d] = link.ts[d]
        return 0

    def infer(self, const double[::1] theta, double total, tables, double[::1] m, double weight=0.0, average=None):
        """Fills `tables` (float64 or float32) and `m`; returns log Z, or None where nothing is possible. With a weight,
        `average` first takes in what the tables held: (1 - weight) average + weight tables."""
        cdef double log_z = 0
        cdef double[::1] up = self.up, rowsum = self.rowsum, message = self.message, buffer = self.buffer
        cdef double[::1] t64, a64
        cdef float[::1] t32, a32, up32
        cdef int code
        if average is None:
            average, weight = tables, 0.0
        if tables.dtype == np.float64:
            t64, a64 = tables, average
            with nogil:
                code = fdp_infer_f64(&self.tree, &theta[0], total, self.threads, &up[0], &rowsum[0], &message[0],
                                     &buffer[0], weight, &t64[0], &a64[0], &m[0], &log_z)
        else:
            if self.up32 is None:
                self.up32 = np.empty(max(1, self.tree.shared), np.float32)
            t32, a32, up32 = tables, average, self.up32
            with nogil:
                code = fdp_infer_f32(&self.tree, &theta[0], total, self.threads, &up[0], &up32[0], &rowsum[0],
                                     &message[0], &buffer[0], weight, &t32[0], &a32[0], &m[0], &log_z)
        return None if code == FDP_ERR_IMPOSSIBLE else log_z


def step(double a, const double[::1] dx, double b, const double[::1] dz, const double[::1] w,
         const double[::1] theta, double[::1] out, int threads):
    """out = theta - w (a dx + b dz)."""
    cdef int64_t n = w.shape[0]
    if n:
        with nogil:
            fdp_step(n, a, &dx[0], b, &dz[0], &w[0], &theta[0], threads, &out[0])


def arrive(const double[::1] m, const double[::1] t, const double[::1] dz, const double[::1] w,
           const double[::1] theta_new, const double[::1] theta, double[::1] out, int threads):
    """out = m - t; returns (sum of (theta_new - theta) (out - dz) / 2, sum of w (out - dz)^2 / 2)."""
    cdef double distance = 0, curvature = 0
    cdef int64_t n = w.shape[0]
    if n:
        with nogil:
            fdp_arrive(n, &m[0], &t[0], &dz[0], &w[0], &theta_new[0], &theta[0], threads, &out[0], &distance,
                       &curvature)
    return distance, curvature


def blend(double a, const double[::1] new, const double[::1] w, double[::1] d, int threads):
    """d = a new + (1 - a) d in place; returns the sum of w d^2 / 2."""
    cdef double loss = 0
    cdef int64_t n = w.shape[0]
    if n:
        with nogil:
            fdp_blend(n, a, &new[0], &w[0], threads, &d[0], &loss)
    return loss


def average(double a, x, y, int threads):
    """y = a x + (1 - a) y in place; float64 or float32, both alike."""
    cdef double[::1] y64
    cdef const double[::1] x64
    cdef float[::1] y32
    cdef const float[::1] x32
    cdef int64_t n = x.shape[0]
    if not n:
        return
    if x.dtype == np.float64:
        x64, y64 = x, y
        with nogil:
            fdp_average_f64(n, a, &x64[0], threads, &y64[0])
    else:
        x32, y32 = x, y
        with nogil:
            fdp_average_f32(n, a, &x32[0], threads, &y32[0])

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
        int64_t first_nest
        int64_t pull
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
    int FDP_PULL_ROW
    int FDP_PULL_SUM
    ctypedef struct fdp_pull:
        int64_t row_at
        const void *target
        const void *weight
        double precision
    ctypedef struct fdp_state:
        void *cells
        double *rowsum
        double *m
    ctypedef struct fdp_work:
        double *up
        void *ratio
        double *message
        double *buffer
        double *reach
        double *rows
        double *items
    int fdp_infer_f64(const fdp_tree *, const double *, double, int, const fdp_work *, const fdp_state *, double *)
    int fdp_infer_f32(const fdp_tree *, const double *, double, int, const fdp_work *, const fdp_state *, double *)
    int fdp_adopt_f64(const fdp_tree *, double, int, const fdp_work *, const fdp_state *)
    int fdp_adopt_f32(const fdp_tree *, double, int, const fdp_work *, const fdp_state *)
    int fdp_settle_f64(const fdp_tree *, double, int, const fdp_state *)
    int fdp_settle_f32(const fdp_tree *, double, int, const fdp_state *)
    int fdp_move_f64(const fdp_tree *, const fdp_pull *, int64_t, const double *, double, double, double, int,
                     const fdp_work *, const fdp_state *, double, double *, const fdp_state *, double *, int *, double *)
    int fdp_move_f32(const fdp_tree *, const fdp_pull *, int64_t, const double *, double, double, double, int,
                     const fdp_work *, const fdp_state *, double, float *, const fdp_state *, double *, int *, double *)
    int fdp_step(int64_t, double, const double *, double, const double *, const double *, int, double *)
    int fdp_arrive(int64_t, const double *, const double *, const double *, const double *, const double *, int,
                   double *, double *, double *)
    int fdp_blend(int64_t, double, const double *, const double *, int, double *, double *)
    int fdp_average_f64(int64_t, double, const double *, int, double *)
    int fdp_average_f32(int64_t, double, const float *, int, float *)


cdef class State:
    """A distribution on the tree (csrc/infer.h): cells of all nodes, each row up to a factor, the rows' sums, and the
    vector of marginals `m`. After `Engine.settle` the cells are the tables."""

    cdef readonly object cells, rowsum, m
    cdef fdp_state at

    def __init__(self, cells, rowsum, m):
        self.cells, self.rowsum, self.m = cells, rowsum, m
        self.at.cells, self.at.rowsum, self.at.m = _address(cells), <double *> _address(rowsum), <double *> _address(m)


cdef void *_address(array) except? NULL:
    """Where a contiguous array that somebody keeps alive begins; NULL for an empty one."""
    cdef const unsigned char[::1] view = array.reshape(-1).view(np.uint8)
    return <void *> &view[0] if view.shape[0] else NULL


cdef class Engine:
    """A planned tree, for tables of one dtype. `pulls` holds, for each pulled node of the plan in order, the targets of its
    cells (dtype) and their precision (one number, or an array of the dtype). The plan's arrays are kept alive here;
    `tables` and vectors belong to the caller."""

    cdef fdp_tree tree
    cdef fdp_node *nodes
    cdef fdp_fold *folds
    cdef fdp_link *links
    cdef fdp_nest *nests
    cdef fdp_stage *stages
    cdef fdp_pull *pulls
    cdef fdp_work work
    cdef list keep
    cdef int threads, single
    cdef int64_t n_pulls, rows
    cdef readonly int64_t size, cells
    cdef readonly object dtype

    def __cinit__(self, plan, int threads, dtype=np.float64, pulls=()):
        cdef int64_t i, k = 0, s = 0, nest = 0, buffer_most = 1, buffer_at
        cdef int64_t n_links = sum(len(node.links) for node in plan.nodes)
        cdef int64_t n_nests = sum(len(node.nests) for node in plan.nodes)
        self.keep = []
        self.threads = threads
        self.dtype = np.dtype(dtype)
        self.single = self.dtype == np.float32
        self.n_pulls, self.rows = len(pulls), max(1, plan.rows)
        self.pulls = <fdp_pull *> calloc(max(1, self.n_pulls), sizeof(fdp_pull))
        self.nodes = <fdp_node *> calloc(max(1, len(plan.nodes)), sizeof(fdp_node))
        self.folds = <fdp_fold *> calloc(max(1, len(plan.folds)), sizeof(fdp_fold))
        self.links = <fdp_link *> calloc(max(1, n_links), sizeof(fdp_link))
        self.nests = <fdp_nest *> calloc(max(1, n_nests), sizeof(fdp_nest))
        self.stages = <fdp_stage *> calloc(max(1, len(plan.stages)), sizeof(fdp_stage))
        if not (self.nodes and self.folds and self.links and self.nests and self.stages and self.pulls):
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
                self.nodes[i].first_nest = nest
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
        row_at = 0
        for k, (node, (target, precision)) in enumerate(zip(plan.pulled, pulls)):
            self.pulls[k].row_at = row_at
            self.pulls[k].target = self._ptr(target, self.dtype)
            if np.ndim(precision):
                self.pulls[k].weight = self._ptr(precision, self.dtype)
            else:
                self.pulls[k].precision = precision
            row_at += node.rows
        self.work.up = <double *> self._ptr(np.empty(plan.shared), np.float64)
        self.work.ratio = self._ptr(np.empty(plan.shared, self.dtype), self.dtype)
        self.work.message = <double *> self._ptr(np.empty(plan.rows), np.float64)
        self.work.buffer = <double *> self._ptr(np.empty(buffer_most), np.float64)
        self.work.reach = <double *> self._ptr(np.zeros(n_nests), np.float64)
        self.work.rows = <double *> self._ptr(np.empty(row_at * FDP_PULL_ROW), np.float64)
        self.work.items = <double *> self._ptr(np.zeros(len(items) * (FDP_PULL_SUM + 1)), np.float64)

    cdef int _node(self, fdp_node *c, node, fdp_link *links) except -1:
        cdef int64_t k = 0
        c.rows, c.cells, c.table, c.row_at = node.rows, node.cells, node.table, node.row_at
        c.separator, c.own, c.lanes, c.own_at = node.separator, node.own, len(node.lane_at) - 1, node.own_at
        c.lane_at = <const int64_t *> self._ptr(node.lane_at, np.int64)
        if node.own == 2:
            c.own_row = <const int64_t *> self._ptr(node.own_row, np.int64)
            c.own_cell = <const int32_t *> self._ptr(node.own_cell, np.int32)
        c.pull = node.pull
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
        free(self.pulls)

    cdef void *_ptr(self, values, dtype) except? NULL:
        array = np.ascontiguousarray(values, dtype)
        if array.size == 0:
            array = np.zeros(1, dtype)
        self.keep.append(array)
        return _address(array)

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

    def state(self, tables=None):
        """A state to fill, or one whose cells are given (then call `adopt`)."""
        cells = np.empty(self.cells, self.dtype) if tables is None else tables
        return State(cells, np.empty(self.rows), np.empty(max(1, self.size)))

    def infer(self, const double[::1] theta, double total, tables, double[::1] m):
        """Fills `tables` and `m` with the marginals at potentials theta; returns log Z, or None where nothing is possible."""
        cdef double log_z = 0
        cdef int code
        cdef State state = State(tables, np.empty(self.rows), np.asarray(m))
        with nogil:
            if self.single:
                code = fdp_infer_f32(&self.tree, &theta[0], total, self.threads, &self.work, &state.at, &log_z)
                if code == 0:
                    fdp_settle_f32(&self.tree, total, self.threads, &state.at)
            else:
                code = fdp_infer_f64(&self.tree, &theta[0], total, self.threads, &self.work, &state.at, &log_z)
                if code == 0:
                    fdp_settle_f64(&self.tree, total, self.threads, &state.at)
        return None if code == FDP_ERR_IMPOSSIBLE else log_z

    def adopt(self, State state, double total):
        """Row sums and marginals of a state whose cells are true."""
        with nogil:
            if self.single:
                fdp_adopt_f32(&self.tree, total, self.threads, &self.work, &state.at)
            else:
                fdp_adopt_f64(&self.tree, total, self.threads, &self.work, &state.at)

    def settle(self, State state, double total):
        """Makes the state's cells true."""
        with nogil:
            if self.single:
                fdp_settle_f32(&self.tree, total, self.threads, &state.at)
            else:
                fdp_settle_f64(&self.tree, total, self.threads, &state.at)

    def move(self, State z, x, double weight, const double[::1] delta, double size, double mix, double total, State out,
             double[:, ::1] sums):
        """One step from z to `out`; x takes in z first, with `weight`. Returns (log of the change of Z, whether the step was
        too long for the tables' precision). Laws and `sums` as in csrc/infer.h."""
        cdef double log_z = 0
        cdef int far = 0
        cdef double *found = &sums[0, 0] if self.n_pulls else NULL
        cdef void *mean = _address(x)
        with nogil:
            if self.single:
                fdp_move_f32(&self.tree, self.pulls, self.n_pulls, &delta[0], size, mix, total, self.threads, &self.work,
                             &z.at, weight, <float *> mean, &out.at, found, &far, &log_z)
            else:
                fdp_move_f64(&self.tree, self.pulls, self.n_pulls, &delta[0], size, mix, total, self.threads, &self.work,
                             &z.at, weight, <double *> mean, &out.at, found, &far, &log_z)
        return log_z, bool(far)


def step(double a, const double[::1] dx, double b, const double[::1] dz, const double[::1] w, double[::1] out,
         int threads):
    """out = -w (a dx + b dz)."""
    cdef int64_t n = w.shape[0]
    if n:
        with nogil:
            fdp_step(n, a, &dx[0], b, &dz[0], &w[0], threads, &out[0])


def arrive(const double[::1] m, const double[::1] t, const double[::1] dz, const double[::1] w,
           const double[::1] delta, double[::1] out, int threads):
    """out = m - t; returns (sum of delta (out - dz) / 2, sum of w (out - dz)^2 / 2)."""
    cdef double distance = 0, curvature = 0
    cdef int64_t n = w.shape[0]
    if n:
        with nogil:
            fdp_arrive(n, &m[0], &t[0], &dz[0], &w[0], &delta[0], threads, &out[0], &distance, &curvature)
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

"""Belief propagation on a planned tree; see csrc/infer.h for the method. `Engine` owns the plan and work
space."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

import numpy as np

from fastdp._core.arrays cimport address, fill, kept, read
from fastdp._core.status cimport FDP_ERR_IMPOSSIBLE, check
from fastdp._core.team cimport Team, fdp_team, team_of


cdef class State:
    """A distribution on the tree (csrc/infer.h): cells of all nodes, each row up to a factor, the rows' sums,
    and the vector of marginals `m`. After `Engine.normalise` the cells are the tables."""

    cdef readonly object cells, rowsum, m
    cdef fdp_state at

    def __init__(self, cells, rowsum, m):
        self.cells, self.rowsum, self.m = cells, rowsum, m
        self.at.cells, self.at.rowsum, self.at.m = address(cells), fill(rowsum, 0), fill(m, 0)


cdef class Engine:
    """A planned tree, for tables of one dtype. `targets` holds, for each direct node of the plan in order,
    the targets of its cells (dtype) and their precision (one number, or an array of the dtype). `threads`: a
    number, or a `Team`, which several engines may share. The plan's arrays are kept alive here; tables and
    vectors belong to the caller."""

    cdef fdp_tree tree
    cdef fdp_node *nodes
    cdef fdp_fold *folds
    cdef fdp_link *links
    cdef fdp_target *targets
    cdef fdp_work work
    cdef list keep
    cdef int single
    cdef int64_t n_targets, rows
    cdef readonly int64_t size, cells
    cdef readonly object dtype
    cdef readonly Team team

    def __cinit__(self, plan, threads, dtype=np.float64, targets=()):
        cdef int64_t i, k = 0
        schedule = plan.schedule
        lists = schedule.lists
        self.keep = []
        self.team = team_of(threads)
        self.dtype = np.dtype(dtype)
        self.single = self.dtype == np.float32
        self.n_targets, self.rows = len(targets), max(1, plan.rows)
        self.targets = <fdp_target *> calloc(max(1, self.n_targets), sizeof(fdp_target))
        self.nodes = <fdp_node *> calloc(max(1, len(schedule.nodes)), sizeof(fdp_node))
        self.folds = <fdp_fold *> calloc(max(1, len(plan.folds)), sizeof(fdp_fold))
        self.links = <fdp_link *> calloc(max(1, len(schedule.hosted)), sizeof(fdp_link))
        if not (self.nodes and self.folds and self.links and self.targets):
            raise MemoryError("not enough memory for the plan of inference")
        for i, (host_at, link) in enumerate(plan.folds):
            self.folds[i].host_at = host_at
            self._link(&self.folds[i].link, link)
        for i, node in enumerate(schedule.nodes):
            self._node(&self.nodes[i], node)
        self.tree.size, self.tree.shared, self.tree.large = plan.size, plan.shared, schedule.large
        self.size, self.cells = plan.size, plan.cells
        self.tree.n_stages = len(schedule.stages)
        self.tree.n_up, self.tree.n_down = len(lists["up"]), len(lists["down"])
        self.tree.n_early, self.tree.n_copies = schedule.early, len(lists["copies"])
        self.tree.n_hosted = len(schedule.hosted)
        self.tree.nodes, self.tree.folds = self.nodes, self.folds
        self.tree.stages = <const fdp_stage *> kept(self.keep, schedule.stages, np.int64)
        self.tree.hosted = <const fdp_hosted *> kept(self.keep, schedule.hosted, np.int64)
        self.tree.up = <const fdp_slice *> kept(self.keep, lists["up"], np.int64)
        self.tree.down = <const fdp_slice *> kept(self.keep, lists["down"], np.int64)
        self.tree.ratios = <const fdp_piece *> kept(self.keep, lists["ratios"], np.int64)
        self.tree.deliveries = <const fdp_piece *> kept(self.keep, lists["deliveries"], np.int64)
        self.tree.gathers = <const fdp_piece *> kept(self.keep, lists["gathers"], np.int64)
        self.tree.plain = <const fdp_piece *> kept(self.keep, lists["plain"], np.int64)
        self.tree.sums = <const fdp_piece *> kept(self.keep, lists["sums"], np.int64)
        self.tree.copies = <const fdp_piece *> kept(self.keep, lists["copies"], np.int64)
        row_at = 0
        for k, (node, (target, precision)) in enumerate(zip(plan.direct, targets)):
            self.targets[k].row_at = row_at
            self.targets[k].target = kept(self.keep, target, self.dtype)
            if np.ndim(precision):
                self.targets[k].weight = kept(self.keep, precision, self.dtype)
            else:
                self.targets[k].precision = precision
            row_at += node.rows
        self.work.up = <double *> kept(self.keep, np.empty(plan.shared), np.float64)
        self.work.ratio = kept(self.keep, np.empty(plan.shared, self.dtype), self.dtype)
        self.work.message = <double *> kept(self.keep, np.empty(plan.rows), np.float64)
        self.work.buffer = <double *> kept(self.keep, np.empty(schedule.buffer), np.float64)
        self.work.reach = <double *> kept(self.keep, np.zeros(len(schedule.hosted)), np.float64)
        self.work.rows = <double *> kept(self.keep, np.empty(row_at * FDP_DIRECT_ROW), np.float64)
        up = self.tree.n_up * (FDP_DIRECT_SUM + 1)
        self.work.up_sums = <double *> kept(self.keep, np.zeros(up), np.float64)
        self.work.down_sums = <double *> kept(self.keep, np.zeros(self.tree.n_down * 2), np.float64)
        self.work.parts = <double *> kept(self.keep, np.zeros(len(lists["ratios"]) * 3), np.float64)

    cdef int _node(self, fdp_node *c, node) except -1:
        cdef int64_t k = 0
        c.rows, c.cells, c.table, c.row_at = node.rows, node.cells, node.table, node.row_at
        c.separator, c.local, c.local_at, c.direct = node.separator, node.local, node.local_at, node.direct
        c.lanes, c.lane_buffer, c.buffer_at = node.lanes, node.lane_buffer, node.buffer_at
        if node.local == FDP_LOCAL_SPARSE:
            c.local_row = <const int64_t *> kept(self.keep, node.local_row, np.int64)
            c.local_cell = <const int32_t *> kept(self.keep, node.local_cell, np.int32)
        c.first_hosted, c.n_links = node.first_hosted, len(node.links)
        c.links = &self.links[node.first_hosted]
        for k, link in enumerate(node.links):
            self._link(&self.links[node.first_hosted + k], link)
        return 0

    def __dealloc__(self):
        free(self.nodes)
        free(self.folds)
        free(self.links)
        free(self.targets)

    cdef int _link(self, fdp_link *out, link) except -1:
        cdef int d
        if len(link.n) > FDP_MAX_DIMS:  # never, where every dimension has two values or more
            raise ValueError(f"a table of {len(link.n)} merged dimensions, of at most {FDP_MAX_DIMS}")
        if link.size > 2**31 - 1:
            raise OverflowError(f"a marginal inside a clique has {link.size} cells, and may have 2^31 - 1")
        out.at, out.size, out.nd, out.shared = link.at, link.size, len(link.n), link.shared
        out.base = NULL
        if link.base is not None:
            out.base = <const int32_t *> kept(self.keep, link.base, np.int32)
        for d in range(out.nd):
            out.n[d] = link.n[d]
            out.ts[d] = link.ts[d]
        return 0

    def state(self, tables=None):
        """A state to fill, or one whose cells are given (then call `adopt`)."""
        cells = np.empty(self.cells, self.dtype) if tables is None else tables
        return State(cells, np.empty(self.rows), np.empty(max(1, self.size)))

    def infer(self, theta, double total, tables, m):
        """Fills `tables` and `m` with the marginals at potentials theta; returns log Z, or None where nothing
        is possible."""
        cdef double log_z = 0
        cdef int code
        cdef State state = State(tables, np.empty(self.rows), m)
        cdef const double *potentials = read(theta, self.size)
        cdef fdp_team *team = self.team.c
        with nogil:
            if self.single:
                code = fdp_infer_f32(&self.tree, potentials, total, team, &self.work, &state.at, &log_z)
            else:
                code = fdp_infer_f64(&self.tree, potentials, total, team, &self.work, &state.at, &log_z)
        if code == FDP_ERR_IMPOSSIBLE:
            return None
        check(code, "inference")
        self.normalise(state, total)
        return log_z

    def adopt(self, State state, double total):
        """Row sums and marginals of a state whose cells are true."""
        cdef int code
        cdef fdp_team *team = self.team.c
        with nogil:
            if self.single:
                code = fdp_adopt_f32(&self.tree, total, team, &self.work, &state.at)
            else:
                code = fdp_adopt_f64(&self.tree, total, team, &self.work, &state.at)
        check(code, "the marginals of given tables")

    def normalise(self, State state, double total):
        """Makes the state's cells true."""
        cdef int code
        cdef fdp_team *team = self.team.c
        with nogil:
            if self.single:
                code = fdp_normalise_f32(&self.tree, total, team, &self.work, &state.at)
            else:
                code = fdp_normalise_f64(&self.tree, total, team, &self.work, &state.at)
        check(code, "scaling tables")

    def move(self, State z, x, double weight, delta, double size, double mix, double total, State out, sums):
        """One step from z to `out`; x takes in z first, with `weight`. Returns (log of the change of Z,
        whether the step was too long for the tables' precision). Laws and `sums` as in csrc/infer.h."""
        cdef double log_z = 0
        cdef int far = 0, code
        cdef double *totals = fill(sums, self.n_targets * FDP_DIRECT_SUM)
        cdef const double *change = read(delta, self.size)
        cdef void *mean = address(x)
        cdef fdp_team *team = self.team.c
        with nogil:
            if self.single:
                code = fdp_move_f32(&self.tree, self.targets, self.n_targets, change, size, mix, total, team,
                                    &self.work, &z.at, weight, <float *> mean, &out.at, totals, &far, &log_z)
            else:
                code = fdp_move_f64(&self.tree, self.targets, self.n_targets, change, size, mix, total, team,
                                    &self.work, &z.at, weight, <double *> mean, &out.at, totals, &far, &log_z)
        check(code, "a step")
        return log_z, bool(far)


def step(double a, dx, double b, dz, w, out, threads):
    """out = -w (a dx + b dz)."""
    cdef int64_t n = w.size
    cdef Team team = team_of(threads)
    cdef const double *x = read(dx, n)
    cdef const double *z = read(dz, n)
    cdef const double *weight = read(w, n)
    cdef double *to = fill(out, n)
    cdef int code
    if n:
        with nogil:
            code = fdp_step(n, a, x, b, z, weight, team.c, to)
        check(code, "a step")


def arrive(m, t, dz, w, delta, out, threads):
    """out = m - t; returns (sum of delta (out - dz) / 2, sum of w (out - dz)^2 / 2)."""
    cdef double distance = 0, curvature = 0
    cdef int64_t n = w.size
    cdef Team team = team_of(threads)
    cdef const double *marginal = read(m, n)
    cdef const double *target = read(t, n)
    cdef const double *z = read(dz, n)
    cdef const double *weight = read(w, n)
    cdef const double *change = read(delta, n)
    cdef double *to = fill(out, n)
    cdef int code
    if n:
        with nogil:
            code = fdp_arrive(n, marginal, target, z, weight, change, team.c, to, &distance, &curvature)
        check(code, "a step")
    return distance, curvature


def blend(double a, new, w, d, threads):
    """d = a new + (1 - a) d in place; returns the sum of w d^2 / 2."""
    cdef double loss = 0
    cdef int64_t n = w.size
    cdef Team team = team_of(threads)
    cdef const double *newest = read(new, n)
    cdef const double *weight = read(w, n)
    cdef double *to = fill(d, n)
    cdef int code
    if n:
        with nogil:
            code = fdp_blend(n, a, newest, weight, team.c, to, &loss)
        check(code, "a step")
    return loss


def average(double a, x, y, threads):
    """y = a x + (1 - a) y in place; float64 or float32, both alike."""
    cdef int64_t n = x.size
    cdef Team team = team_of(threads)
    cdef void *newest = address(x)
    cdef void *to = address(y)
    cdef bint single = x.dtype == np.float32
    cdef int code
    if x.dtype != y.dtype or y.size < n or not (single or x.dtype == np.float64):
        raise ValueError("tables to be averaged are alike in length, and both float64 or both float32")
    with nogil:
        if single:
            code = fdp_average_f32(n, a, <const float *> newest, team.c, <float *> to)
        else:
            code = fdp_average_f64(n, a, <const double *> newest, team.c, <double *> to)
    check(code, "averaging tables")

"""Raking along a junction tree; see csrc/rake.h. `Tour` is a list of steps over tables that it keeps
alive."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

import numpy as np

from fastdp._core.arrays cimport address, fill, read
from fastdp._core.status cimport check
from fastdp._core.team cimport Team, fdp_team, team_of

cdef extern from "rake.h" nogil:
    enum:
        FDP_RAKE_MULTIPLY
        FDP_RAKE_TARGET
        FDP_RAKE_SEPARATOR
        FDP_RAKE_WHOLE
        FDP_RAKE_PIECE
    ctypedef struct fdp_view:
        const int32_t *base
        const int32_t *map
        int32_t kind
    ctypedef struct fdp_span:
        int64_t edge
        int64_t from_ "from"
        int64_t size
    ctypedef struct fdp_rake_step:
        double *cells
        int64_t rows
        int64_t cols
        fdp_view multiply
        const double *by
        int32_t rule
        fdp_view project
        int64_t size
        int64_t lanes
        const fdp_span *spans
        double *goal
        double least
        double weight
        double *ratio
        int64_t sum_at
    int fdp_rake_run(int64_t, const fdp_rake_step *, fdp_team *, double *, double *)

LANE_CELLS = 4096
"""Cells of a lane where nothing is added up."""

ALONG_KINDS = {"row": 0, "cell": 1, "map": 2}


cdef class View:
    """Where the cells of a table of rows x cols lie in a marginal of `size` entries: `base` int32 per row or
    None, `along` "row", "cell" or an int32 map per column. `spans` int64 [lanes, 3]: where the sums of every
    lane of rows lie, the first entry that they reach and how many (`dual_plan.lanes_of`). `whole`: the
    marginal is the table itself."""

    cdef readonly int64_t rows, cols, size, lanes, room
    cdef readonly bint whole
    cdef readonly object ratio, spans
    cdef fdp_view at
    cdef int32_t[::1] base, map

    def __init__(self, int64_t rows, int64_t cols, int64_t size, base, along, spans):
        self.rows, self.cols, self.size = rows, cols, size
        self.at.base = self.at.map = NULL
        if base is not None:
            if len(base) != rows:
                raise ValueError("one base per row")
            self.base = base
            self.at.base = &self.base[0]
        if isinstance(along, str):
            self.at.kind = ALONG_KINDS[along]
        else:
            if len(along) != cols:
                raise ValueError("one entry of the map per column")
            self.map, self.at.kind = along, ALONG_KINDS["map"]
            self.at.map = &self.map[0]
        reach = (int(np.max(base)) if base is not None else 0)
        reach += {"row": 0, "cell": cols - 1}[along] if isinstance(along, str) else int(np.max(along))
        if reach >= size or (base is not None and np.min(base) < 0):
            raise ValueError("a view leaves its marginal")
        self.spans = np.ascontiguousarray(spans, np.int64)
        self.lanes, self.room = len(spans), int(self.spans[:, 2].sum())
        if self.lanes < 1 or self.spans[:, 1].min() < 0 or (self.spans[:, 1] + self.spans[:, 2]).max() > size:
            raise ValueError("a lane leaves its marginal")
        self.whole = size == rows * cols and isinstance(along, str) and along == "cell"
        self.whole = self.whole and (rows == 1 or np.array_equal(base, np.arange(0, size, cols)))
        self.ratio = np.empty(size)  # a step fills it before another multiplies by it


cdef class Tour:
    """Steps (cells, multiply, project, goal, to, least, weight): `cells` a flat float64 table; `multiply` and
    `project` views of it or None; `goal` float64: the target's table, or with `to` (the neighbour's view) the
    separator as it stands. A target that is `whole` leaves no ratios."""

    cdef fdp_rake_step *steps
    cdef int64_t n
    cdef list keep
    cdef object work, squares
    cdef readonly Team team

    def __cinit__(self, steps, threads):
        cdef fdp_rake_step *s
        cdef View multiply, project, to
        cdef int64_t space = 1, sums = 0
        self.n, self.team, self.keep = len(steps), team_of(threads), []
        self.steps = <fdp_rake_step *> calloc(max(1, self.n), sizeof(fdp_rake_step))
        if not self.steps:
            raise MemoryError("not enough memory for raking")
        for i, (table, given, wanted, aim, there, least, weight) in enumerate(steps):
            s, multiply, project, to = &self.steps[i], given, wanted, there
            view = project if project is not None else multiply
            if view is None or table.size != view.rows * view.cols:
                raise ValueError("a step's table and view do not fit together")
            s.cells, s.rows, s.cols = fill(table, table.size), view.rows, view.cols
            s.lanes = max(1, min(view.rows, table.size // LANE_CELLS))
            if multiply is not None:
                if multiply.rows != view.rows or multiply.cols != view.cols:
                    raise ValueError("a step's views are of different tables")
                s.multiply, s.by = multiply.at, read(multiply.ratio, multiply.size)
            self.keep.append((table, given, wanted, aim, there))
            if project is None:
                s.rule = FDP_RAKE_MULTIPLY
                continue
            out = (to if to is not None else project)
            if aim.size != project.size or out.size != project.size:
                raise ValueError("a step's goal and view do not fit together")
            s.goal, s.least, s.weight, s.sum_at = fill(aim, aim.size), least, weight, sums
            if project.whole and to is None:
                s.rule = FDP_RAKE_WHOLE
                sums += s.lanes
                continue
            s.rule = FDP_RAKE_SEPARATOR if to is not None else FDP_RAKE_TARGET
            s.project, s.size, s.lanes = project.at, project.size, project.lanes
            s.spans = <const fdp_span *> address(project.spans)
            s.ratio = fill(out.ratio, out.size)
            if to is None:
                sums += (project.size + FDP_RAKE_PIECE - 1) // FDP_RAKE_PIECE
            space = max(space, project.room)
        self.work, self.squares = np.empty(space), np.zeros(max(1, sums))

    def __dealloc__(self):
        free(self.steps)

    def run(self):
        """All steps; returns the sum of ((target - marginal) * weight)^2 over the targets, each as it was
        when it was reached."""
        cdef double *work = fill(self.work, 1)
        cdef double *squares = fill(self.squares, 1)
        cdef int code
        with nogil:
            code = fdp_rake_run(self.n, self.steps, self.team.c, work, squares)
        check(code, "raking")
        return float(np.sum(self.squares))

"""Fits by mirror descent, from a start or from independence. Where the noise level ends the fit,
marginals are fitted order by order (order: number of attributes)."""

import numpy as np
from msgspec.structs import replace

from ..._core.infer import Engine
from ...model.graphical_model import nodes_of
from ...model.layout import make_plan
from ..fit_options import Options
from ..linear_rows import direct
from ..lower import lower
from ..solver import Clock, Solution
from ..task import Task, errors_of, single
from .optimisers import DescentState, Stop, accelerated, mirror_descent

STAGED_CELLS = 1 << 25
"""A fit goes order by order only if its junction tree has at most this many cells, since a start
costs memory of its own."""

OPTIMISERS = {"auto": accelerated, "dual": accelerated, "accelerated": accelerated}
OPTIMISERS["mirror-descent"] = mirror_descent


class DescentSolver:
    """Mirror descent from the task's start, or from independence. "risk" and "refined" are "noise"
    here."""

    methods = ("auto", "accelerated", "mirror-descent")
    takes = "any measurements"

    def applies(self, task: Task, options: Options) -> bool:
        return True

    def plan(self, task: Task, options: Options) -> tuple[Task, Options]:
        if options.stop in ("risk", "refined"):
            options = replace(options, stop="noise")
        return task, options

    def run(self, plan: tuple[Task, Options], clock: Clock) -> Solution:
        """Where the noise ends the fit, all orders but the highest are first fitted to their noise
        level."""
        task, options = plan
        if options.stop == "noise" and task.warm_start is None and task.tree.cells <= STAGED_CELLS:
            stage = replace(options, slack=0.0, tables="float64")
            start = None
            for k in sorted({len(m.clique) for m in task.measurements})[:-1]:
                low = [m for m in task.measurements if len(m.clique) <= k]
                first = task.with_only(low, start, options.max_cells)
                start = descend(first, stage, clock).report(first, clock)
            if start is not None:
                task = task.with_only(task.measurements, start, options.max_cells)
        return descend(task, options, clock)


def descend(
    task: Task, options: Options, clock: Clock, tables: np.ndarray | None = None
) -> Solution:
    """One descent: from the task's start, or from node tables of a plan of its tree (float64; not
    kept)."""
    measured_whole = direct(task.parts) - {frozenset(clique) for clique in task.zeros}
    layout = make_plan(task.domain, task.tree, task.used(), measured_whole)
    dtype = np.dtype(options.tables)
    quadratic = lower(layout, task.parts, dtype)
    tables = task.start(layout, quadratic) if tables is None else tables
    tables = single(tables) if dtype == np.float32 else tables
    targets = [(aim.target, aim.precision) for aim in quadratic.targets]
    engine = Engine(layout, task.team, dtype, targets)
    descent = DescentState(engine, quadratic, tables, task.total, task.team, clock.calls)
    del tables
    stop = Stop(options.stop, quadratic, options.small, options.calls, options.slack, options.flow)
    loss, ended = OPTIMISERS[options.method](descent, stop, clock)
    clock.calls = descent.calls
    nodes = nodes_of(layout, descent.tables())
    errors = errors_of(layout, quadratic)
    return Solution(nodes, loss, descent.calls, ended, errors)

"""The dual as a strategy: for measurements of whole marginals (each single cell, or each bin of
merged codes)."""

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..._core.tables import squares
from ...model.graphical_model import nodes_of
from ...model.layout import Plan, make_plan
from ..descent.descent_solver import descend
from ..fit_options import Options
from ..solver import Clock, Solution
from ..task import Task, single
from .local_consistency import closed_form, fit_tables
from .raking import CliqueTables, Frame, merge_codes
from .region_graph import Regions, make_regions

MEASURED_CELLS = 1 << 24
"""Above so many measured cells the candidates' tables would outweigh the model's."""

TREE_CELLS = 1 << 25
"""Above so many cells a junction tree that has to be raked costs more memory than mirror descent
does."""

PASSES = 100
"""Oracle calls of a whole fit. Mirror descent gets what raking left of them: where cliques are not
measured themselves, it brings in what goes around loops. Errors at epsilon 10, where calls end the
descent, fall by less than 1 % from 40 calls to 80."""
LAST_STEPS = 10
"""The fewest oracle calls that this descent gets."""
LAST_TIME = 0.04
"""The descent also ends after this much time of its flow, in units of sigma: a cell of 25 sigma has
then relaxed to 1/e of its distance. It matters where noise is large and steps are long. Tried on
pairs of adult, the Massachusetts table and a generated one at epsilon 1: true errors are least
between 0.03 and 0.2. At 0.5 they are up to a tenth larger."""


class DualPlan(Struct, frozen=True):
    """The regions of a task, the squares that the noise explains, and the model to begin with, if
    any."""

    task: Task
    options: Options
    problem: Regions
    constant: float
    bound: float
    frame: Frame
    start: CliqueTables | None


class DualSolver:
    """Newton's method on the multipliers of marginals that regions share."""

    methods = ("auto", "dual")
    takes = (
        'measurements of whole marginals with stop="noise", "risk" or, where the cliques are'
        ' measured themselves, "tol", and no iters'
    )

    def applies(self, task: Task, options: Options) -> bool:
        return options.stop in ("noise", "risk", "refined", "tol") and options.iters is None

    def plan(self, task: Task, options: Options) -> DualPlan | None:
        options = replace(options, stop="risk") if options.stop == "refined" else options
        problem = make_regions(task.domain, task.measurements, task.team)
        if problem is None or sum(r.cells for r in problem.regions) > MEASURED_CELLS:
            return None
        closed = _closed(task, problem)
        if (task.tree.cells > TREE_CELLS or options.stop == "tol") and not closed:
            return None
        rows = sum(r.rows for r in problem.regions)
        constant = sum(r.constant for r in problem.regions)
        bound = rows + options.slack * math.sqrt(2 * rows) - 2 * constant
        frame = Frame(task.domain, task.tree, task.team, problem.partitions.first)
        start = None
        if task.warm_start is not None or (task.zeros and not closed):
            start = _cliques(task, frame, make_plan(task.domain, task.tree, task.used()))
        return DualPlan(
            task=task,
            options=options,
            problem=problem,
            constant=constant,
            bound=bound,
            frame=frame,
            start=start,
        )

    def run(self, plan: DualPlan, clock: Clock) -> Solution:
        task = plan.task
        options = plan.options
        problem = plan.problem

        def tick(calls: int, loss: float) -> None:
            clock.tick(calls, loss + plan.constant)

        estimate = fit_tables(
            plan.frame,
            problem,
            task.total,
            rule=options.stop,
            bound=plan.bound,
            threads=task.team,
            tick=tick,
            zeros=task.zeros,
            start=plan.start,
            prior=task.warm_start is not None,
        )
        layout = make_plan(task.domain, task.tree, {})
        tables = estimate.cliques.lay(layout)
        if not estimate.closed:
            return _descend_on(plan, estimate.passes, tables, clock)
        loss = _loss(estimate.cliques, problem) + plan.constant
        clock.tick(estimate.passes, loss)
        nodes = nodes_of(layout, tables if options.tables == "float64" else single(tables))
        reached = {"risk": "least risk", "noise": "noise level"}.get(options.stop, "tolerance")
        ended = reached if estimate.reached else "tolerance"
        return Solution(nodes, loss, estimate.passes, ended, _errors(problem))


def _closed(task: Task, problem: Regions) -> bool:
    if task.warm_start is not None:
        return False
    inside = all(any(set(c) <= set(r.clique) for r in problem.regions) for c in task.zeros)
    return inside and closed_form(task.tree, problem) is not None


def _descend_on(plan: DualPlan, passes: int, tables: np.ndarray, clock: Clock) -> Solution:
    """The end of a fit whose tables raking brought near: see PASSES."""
    clock.calls = passes
    if plan.options.stop == "noise":
        return descend(plan.task, plan.options, clock, tables)
    calls = max(PASSES, passes + LAST_STEPS)
    last = replace(plan.options, stop="iters", iters=calls, flow=LAST_TIME * _unit(plan.problem))
    return replace(descend(plan.task, last, clock, tables), ended="least risk")


def _unit(problem: Regions) -> float:
    """The noise of a cell: its median over the measured cells."""
    return float(
        np.median(np.concatenate([np.broadcast_to(r.sigma, r.y.shape) for r in problem.regions]))
    )


def _cliques(task: Task, frame: Frame, plan: Plan) -> CliqueTables:
    """The start of a fit as tables of the cliques."""
    laid = task.start(plan, None)
    tables = []
    for k, clique in enumerate(task.tree.cliques):
        node = next(n for n in plan.nodes if set(n.axes) == set(clique))
        cube = laid[node.table : node.table + node.rows * node.cells].reshape(
            task.domain.shape(node.axes)
        )
        tables.append(frame.laid(k, cube, node.axes))
    return CliqueTables(frame, tables)


def _loss(cliques: CliqueTables, problem: Regions) -> float:
    """1/2 sum ((table - y) / sigma)^2 over the regions."""
    loss = 0.0
    for r in problem.regions:
        table = merge_codes(cliques.marginal(r.clique), problem.partitions.maps(r))
        loss += 0.5 * squares(table.reshape(-1), r.y, r.sigma, cliques.frame.threads)
    return loss


def _errors(problem: Regions) -> dict[tuple[str, ...], np.ndarray]:
    """Standard error of every cell that was measured separately, per measured clique."""
    whole = [r for r in problem.regions if all(p == 0 for _, p in r.names)]
    return {r.clique: np.broadcast_to(r.sigma, r.y.shape) for r in whole}

"""The dual as a strategy: for measurements of whole marginals (each cell by itself, or each bin of merged
codes)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...model.adjust import dot
from ...model.graphical_model import Model
from ...model.layout import Plan, make_plan
from ..descent.descent_solver import descend_from
from ..descent.optimisers import Clock
from ..fit_options import Options
from ..task import Task, single
from .local_consistency import closed_form, estimate
from .raking import CliqueTables, Frame, merged
from .region_graph import Regions, make_regions

MEASURED_CELLS = 1 << 24
"""Above so many measured cells the candidates' tables would outweigh the model's."""

TREE_CELLS = 1 << 25
"""Above so many cells a junction tree that has to be raked costs more memory than mirror descent does."""

PASSES, LAST_STEPS, LAST_TIME = 100, 10, 0.04
"""The end of a fit after raking, where the cliques are not measured themselves: mirror descent brings in what
goes around loops, with what is left of so many passes, at least so many calls. Where the noise is large steps
are long: it ends after so much time of its flow in units of sigma (a cell of 25 sigma has relaxed to 1/e of
its distance then). The true errors of adult's pairs, of the Massachusetts table and of a generated one at
epsilon 1 are least between 0.03 and 0.2 and rise by up to a tenth at 0.5; at epsilon 10 calls end first, and
errors fall by less than 1 % from 40 calls to 80."""


def regions_of(task: Task, options: Options) -> Regions | None:
    """The problem of the dual, where it applies: answers about whole marginals, a rule that says how closely
    to follow them."""
    if options.stop not in ("noise", "risk", "tol") or options.iters is not None:
        return None
    problem = make_regions(task.domain, task.measurements)
    if problem is None or sum(r.cells for r in problem.regions) > MEASURED_CELLS:
        return None
    if task.tree.cells > TREE_CELLS or options.stop == "tol":
        return problem if _closed(task, problem) else None
    return problem


def _closed(task: Task, problem: Regions) -> bool:
    if task.warm_start is not None:
        return False
    inside = all(any(set(c) <= set(r.clique) for r in problem.regions) for c in task.zeros)
    return inside and closed_form(task.tree, problem) is not None


def fit_whole(task: Task, options: Options, clock: Clock, problem: Regions) -> Model:
    rows = sum(r.rows for r in problem.regions)
    constant = sum(r.constant for r in problem.regions)
    bound = rows + options.slack * math.sqrt(2 * rows) - 2 * constant
    frame, start, prior = Frame(task.domain, task.tree, task.team), None, task.warm_start is not None
    if prior or (task.zeros and not _closed(task, problem)):
        start = _cliques(task, frame, make_plan(task.domain, task.tree, task.used()))
    tick = lambda calls, loss: clock.tick(calls, loss + constant)  # noqa: E731
    estimated = estimate(
        frame, problem, task.total, options.stop, bound, task.team, tick, task.zeros, start, prior
    )
    plan = make_plan(task.domain, task.tree, {})
    tables = estimated.cliques.lay(plan)
    if not estimated.closed:
        clock.calls = estimated.passes
        calls = max(PASSES, estimated.passes + LAST_STEPS)
        last = replace(options, stop="iters", iters=calls, flow=LAST_TIME * _unit(problem))
        last = options if options.stop == "noise" else last
        model = descend_from(task, last, clock, tables)
        ended = model.ended if options.stop == "noise" else "least risk"
        return Model(
            task.domain,
            model.nodes,
            total=task.total,
            loss=model.loss,
            iterations=model.iterations,
            ended=ended,
            trace=model.trace,
            measured=model.errors,
        )
    loss = _loss(estimated.cliques, problem) + constant
    clock.tick(estimated.passes, loss)
    ended = {"risk": "least risk", "noise": "noise level", "tol": "tolerance"}[options.stop]
    return Model.from_plan(
        plan,
        tables if options.tables == "float64" else single(tables),
        total=task.total,
        loss=loss,
        iterations=estimated.passes,
        ended=ended if estimated.reached else "tolerance",
        trace=clock.trace,
        measured=_errors(problem),
    )


def _unit(problem: Regions) -> float:
    """The noise of a cell: its median over the measured cells."""
    return float(np.median(np.concatenate([np.broadcast_to(r.sigma, r.y.shape) for r in problem.regions])))


def _cliques(task: Task, frame: Frame, plan: Plan) -> CliqueTables:
    """The start of a fit as tables of the cliques."""
    laid = task.start(plan, None)
    tables = []
    for k, clique in enumerate(task.tree.cliques):
        node = next(n for n in plan.nodes if set(n.axes) == set(clique))
        cube = laid[node.table : node.table + node.rows * node.cells].reshape(task.domain.shape(node.axes))
        tables.append(frame.laid(k, cube, node.axes))
    return CliqueTables(frame, tables)


def _loss(cliques: CliqueTables, problem: Regions) -> float:
    """1/2 sum ((table - y) / sigma)^2 over the regions."""
    loss = 0.0
    for r in problem.regions:
        numbers = dict(r.names)
        bins = [problem.partitions.bins[a][numbers[a]] if numbers[a] else None for a in r.clique]
        gap = (merged(cliques.marginal(r.clique), bins).reshape(-1) - r.y) / r.sigma
        loss += 0.5 * dot(gap, gap)
    return loss


def _errors(problem: Regions) -> dict[tuple[str, ...], np.ndarray]:
    """Standard error of every cell measured by itself, per measured clique."""
    return {
        r.clique: np.broadcast_to(r.sigma, r.y.shape)
        for r in problem.regions
        if all(p == 0 for _, p in r.names)
    }

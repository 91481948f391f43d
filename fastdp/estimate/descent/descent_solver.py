"""Fits by mirror descent, from a start or from independence. Where the noise level ends the fit, marginals
are fitted order by order (order: number of attributes)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._core.infer import Engine
from ...measurement import Measurement
from ...model.layout import make_plan
from ..fit_options import Options
from ..linear_rows import check, direct
from ..lower import lower
from ..solver import Clock, Solution, nodes_of
from ..task import Task, errors_of, single
from .optimisers import SPREAD, DescentState, Stop, accelerated, mirror_descent

STAGED_CELLS = 1 << 25
"""A fit goes order by order only if its junction tree has at most this many cells, since a start costs memory
of its own."""

STAGES = {"noise": None, "risk": 1}
"""By stopping rule: how many of the lowest orders of marginals are fitted in stages of their own, each to its
noise level, before all measurements are fitted; None: all orders but the highest."""

OPTIMISERS = {"auto": accelerated, "dual": accelerated, "accelerated": accelerated}
OPTIMISERS["mirror-descent"] = mirror_descent


def perturb(m: Any, number: int) -> Measurement:
    """The measurement with random signs times SPREAD sigma added; the signs are fixed by its number. Nothing
    private: it only probes how a fit answers to noise."""
    signs = 2.0 * np.random.Generator(np.random.Philox(number)).integers(0, 2, m.values.size) - 1
    return Measurement(m.clique, m.values + SPREAD * np.asarray(m.sigma) * signs, m.sigma, m.query)


@dataclass(frozen=True)
class Stages:
    """A fit that fits marginals of the first `orders` by themselves, each to its noise level, before all."""

    task: Task
    options: Options
    orders: list[int]


class DescentSolver:
    """Mirror descent from the task's start, or from independence."""

    methods = ("auto", "accelerated", "mirror-descent")
    takes = "any measurements"

    def applies(self, task: Task, options: Options) -> bool:
        return True

    def plan(self, task: Task, options: Options) -> Stages:
        options = replace(options, stop="risk") if options.stop == "refined" else options
        orders: list[int] = []
        if options.stop in STAGES and task.warm_start is None and task.tree.cells <= STAGED_CELLS:
            orders = sorted({len(m.clique) for m in task.measurements})[:-1][: STAGES[options.stop]]
        return Stages(task, options, orders)

    def run(self, plan: Stages, clock: Clock) -> Solution:
        task, options, start = plan.task, plan.options, None
        stage = replace(options, stop="noise", slack=0.0, tables="float64")
        for k in plan.orders:
            low = [m for m in task.measurements if len(m.clique) <= k]
            first = task.with_only(low, start, options.max_cells)
            start = descend(first, stage, clock).report(first, clock)
        if start is not None:
            task = task.with_only(task.measurements, start, options.max_cells)
        return descend(task, options, clock)


def descend(task: Task, options: Options, clock: Clock, tables: np.ndarray | None = None) -> Solution:
    """One descent: from the task's start, or from node tables of a plan of its tree (float64; not kept)."""
    measured_whole = direct(task.parts) - {frozenset(clique) for clique in task.zeros}
    layout = make_plan(
        task.domain, task.tree, task.used(), set() if options.stop == "risk" else measured_whole
    )
    dtype = np.dtype(options.tables)
    quadratic = lower(layout, task.parts, dtype)
    tables = task.start(layout, quadratic) if tables is None else tables
    tables = single(tables) if dtype == np.float32 else tables
    targets = [(aim.target, aim.precision) for aim in quadratic.targets]
    engine, probe = Engine(layout, task.team, dtype, targets), None
    if options.stop == "risk":
        answers = [perturb(m, i) for i, m in enumerate(task.measurements)]
        quick = Engine(layout, task.team, np.float32)  # precise enough, and lighter on the caches
        perturbed = lower(layout, check(task.domain, answers), dtype)
        probe = DescentState(quick, perturbed, single(tables), task.total, task.team, averages=False)
    descent = DescentState(engine, quadratic, tables, task.total, task.team, clock.calls, probe)
    del tables
    stop = Stop(options.stop, quadratic, options.small, options.calls, options.slack, probe, options.flow)
    result = OPTIMISERS[options.method](descent, stop, clock)
    return Solution(
        nodes_of(layout, result.tables),
        result.loss,
        result.iterations,
        result.ended,
        errors_of(layout, quadratic),
    )

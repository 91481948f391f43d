"""Fits by mirror descent, from a start or from independence. Where the noise level ends the fit, marginals
are fitted order by order (order: number of attributes)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.infer import Engine
from ...measurement import Measurement
from ...model.graphical_model import Model
from ...model.layout import make_plan
from ..fit_options import Options
from ..linear_rows import check, direct
from ..lower import lower
from ..task import Task, errors_of, single
from .optimisers import SPREAD, Clock, DescentState, Stop, accelerated, mirror_descent

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


def descend(task: Task, options: Options, clock: Clock) -> Model:
    """The model by mirror descent. Stages before the last one fit fewer measurements to their noise level."""
    if options.stop in STAGES and task.warm_start is None and task.tree.cells <= STAGED_CELLS:
        stage = replace(options, stop="noise", slack=0.0, tables="float64")
        orders = sorted({len(m.clique) for m in task.measurements})
        start = None
        for k in orders[:-1][: STAGES[options.stop]]:
            low = [m for m in task.measurements if len(m.clique) <= k]
            start = descend_from(task.with_only(low, start, options.max_cells), stage, clock)
        if start is not None:
            task = task.with_only(task.measurements, start, options.max_cells)
    return descend_from(task, options, clock)


def descend_from(task: Task, options: Options, clock: Clock, tables: np.ndarray | None = None) -> Model:
    """One descent: from the task's start, or from node tables of a plan of its tree (float64; not kept)."""
    measured_whole = direct(task.parts) - {frozenset(clique) for clique in task.zeros}
    plan = make_plan(task.domain, task.tree, task.used(), set() if options.stop == "risk" else measured_whole)
    dtype = np.dtype(options.tables)
    quadratic = lower(plan, task.parts, dtype)
    tables = task.start(plan, quadratic) if tables is None else tables
    tables = single(tables) if dtype == np.float32 else tables
    targets = [(aim.target, aim.precision) for aim in quadratic.targets]
    engine, probe = Engine(plan, task.team, dtype, targets), None
    if options.stop == "risk":
        answers = [perturb(m, i) for i, m in enumerate(task.measurements)]
        quick = Engine(
            plan, task.team, np.float32
        )  # a probe needs no more precision, and shares the caches with the fit
        perturbed = lower(plan, check(task.domain, answers), dtype)
        probe = DescentState(quick, perturbed, single(tables), task.total, task.team, averages=False)
    descent = DescentState(engine, quadratic, tables, task.total, task.team, clock.calls, probe)
    del tables
    stop = Stop(options.stop, quadratic, options.small, options.calls, options.slack, probe, options.flow)
    fitted = OPTIMISERS[options.method](descent, stop, clock)
    return Model.from_plan(
        plan,
        fitted.tables,
        total=task.total,
        loss=fitted.loss,
        iterations=fitted.iterations,
        ended=fitted.ended,
        trace=clock.trace,
        measured=errors_of(plan, quadratic),
    )

"""A fit in two strokes: pairs where the expected error is least, everything finer where the noise explains
the rest.

One stop cannot serve both. The error of the marginals that were measured well, single attributes and pairs
above all, is least somewhat below the noise level: the fit has to follow its answers closely, and Stein's
estimate says how closely (`Stop`, "risk"). But on the way there it also follows the noise of thousands of
small cells, and whatever was too small to be measured is bent along; that is best left as smooth as an early
stop leaves it ("noise"). So both are fitted, and the smooth one is moved, by the least change that does it,
to the pairs of the other. Those come from one model and contradict nothing, so there is no noise to fit on
the way. What it brings: bench/stopping.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..measurement import Measurement
from .adjust import dot
from .model import Model
from .optimise import Clock
from .options import Options
from .parts import as_query
from .task import Task

PAIRS = 2
STEPS = 140
"""Calls that move the smooth fit to the other's pairs."""


def two_stage(
    fit: Callable[[Task, Options, Clock], Model], task: Task, options: Options, clock: Clock
) -> Model:
    """See above; `fit` is `estimate.estimated`, and the loss is that of the measurements, as always."""
    low = {frozenset(m.clique): m.clique for m in task.measurements if len(m.clique) <= PAIRS}
    if not any(len(m.clique) > PAIRS for m in task.measurements):
        return fit(task, replace(options, stop="risk"), clock)
    smooth = fit(task, replace(options, stop="noise"), clock)
    if not low:
        return smooth
    close = fit(task, replace(options, stop="risk"), clock)
    sigma = {
        key: min(float(np.min(m.sigma)) for m in task.measurements if frozenset(m.clique) == key)
        for key in low
    }
    pairs = [
        Measurement(clique, np.ascontiguousarray(close.marginal(clique)).reshape(-1), sigma[key])
        for key, clique in low.items()
    ]
    last = replace(options, stop="iters", iters=clock.calls + STEPS, tol=None)
    moved = fit(task.with_only(pairs, smooth, options.max_cells), last, clock)
    return Model(
        task.domain,
        moved.nodes,
        total=task.total,
        loss=sum(_loss(moved, m) for m in task.measurements),
        iterations=clock.calls,
        ended="noise level, pairs at least risk",
        trace=clock.trace,
        measured=smooth.errors,
    )


def _loss(model: Model, m: Any) -> float:
    query = as_query(m.query, model.domain.cells(m.clique))
    gap = (query.product(np.ascontiguousarray(model.marginal(m.clique)).reshape(-1)) - m.values) / m.sigma
    return 0.5 * dot(gap, gap)

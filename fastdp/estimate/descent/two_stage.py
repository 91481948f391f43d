"""A fit in two stages: pairs from a fit that stops at the least expected error, everything finer from a fit
that stops at the noise level.

No single stopping rule suits both. The error of the marginals that were measured well, mostly single
attributes and pairs, is least somewhat below the noise level: the fit must follow their answers closely, and
Stein's estimate says how closely (`Stop`, "risk"). But a fit that goes so far also follows the noise of
thousands of small cells and distorts what was too small to be measured; there the smoother result of an early
stop ("noise") is better. So both models are fitted, and the smooth one is moved, by the least change in
relative entropy, to the pairs of the other. These pairs come from one model, so they are consistent and there
is no noise to fit. The gain is measured by bench/stopping.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...measurement import Measurement
from ...model.adjust import dot
from ...model.graphical_model import Model
from ...queries import as_query
from ..fit_options import Options
from ..task import Task
from .optimisers import Clock

PAIRS = 2
STEPS = 140
"""Oracle calls that move the smooth model to the pairs of the other model."""


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

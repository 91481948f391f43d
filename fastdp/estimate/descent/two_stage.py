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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...measurement import Measurement
from ...model.adjust import dot
from ...model.graphical_model import Model
from ...queries import as_query
from ..fit_options import Options
from ..solver import Clock, Solution
from ..task import Task

PAIRS = 2
STEPS = 140
"""Oracle calls that move the smooth model to the pairs of the other model."""


Fit = Callable[[Task, Options, Clock], Solution]


@dataclass(frozen=True)
class TwoStageSolver:
    """See above; `fit` solves a task by whichever solver takes it."""

    fit: Fit
    methods = ("auto", "accelerated", "mirror-descent")
    takes = 'stop="refined"'

    def applies(self, task: Task, options: Options) -> bool:
        return options.stop == "refined"

    def plan(self, task: Task, options: Options) -> tuple[Task, Options]:
        return task, options

    def run(self, plan: tuple[Task, Options], clock: Clock) -> Solution:
        task, options = plan
        low = {frozenset(m.clique): m.clique for m in task.measurements if len(m.clique) <= PAIRS}
        if not any(len(m.clique) > PAIRS for m in task.measurements):
            return self.fit(task, replace(options, stop="risk"), clock)
        smooth = self.fit(task, replace(options, stop="noise"), clock)
        if not low:
            return smooth
        close = self.fit(task, replace(options, stop="risk"), clock).report(task, clock)
        sigma = {
            key: min(float(np.min(m.sigma)) for m in task.measurements if frozenset(m.clique) == key)
            for key in low
        }
        pairs = [
            Measurement(clique, np.ascontiguousarray(close.marginal(clique)).reshape(-1), sigma[key])
            for key, clique in low.items()
        ]
        last = replace(options, stop="iters", iters=clock.calls + STEPS, tol=None)
        start = smooth.report(task, clock)
        solution = self.fit(task.with_only(pairs, start, options.max_cells), last, clock)
        moved = solution.report(task, clock)
        return replace(
            solution,
            loss=sum(_loss(moved, m) for m in task.measurements),
            iterations=clock.calls,
            ended="noise level, pairs at least risk",
            errors=smooth.errors,
        )


def _loss(model: Model, m: Any) -> float:
    query = as_query(m.query, model.domain.cells(m.clique))
    gap = (query.product(np.ascontiguousarray(model.marginal(m.clique)).reshape(-1)) - m.values) / m.sigma
    return 0.5 * dot(gap, gap)

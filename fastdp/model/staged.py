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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..domain import Domain
from ..measurement import Measurement
from .lower import as_query
from .model import Model
from .optimise import SPREAD

PAIRS = 2
STEPS = 140
"""Calls that move the smooth fit to the other's pairs."""

SHORT, LONG = 100, 400
"""Where the noise level takes fewer calls, the answers say little, and pairs that follow theirs closely bend
the rest: on a million trips at epsilon 1 (57 calls) that cost 0.013 of the k-marginal score for 0.004 of
pickup-dropoff. Where it takes more, cells stand far above their noise and little is left to refine: at
epsilon 10 on ten million, 0.0003 for three times the work."""


def perturb(m: Any, number: int) -> Measurement:
    """The measurement with random signs times SPREAD sigma added; the signs are fixed by its number. Nothing
    private: it only probes how a fit answers to noise."""
    signs = 2.0 * np.random.Generator(np.random.Philox(number)).integers(0, 2, m.values.size) - 1
    return Measurement(m.clique, m.values + SPREAD * np.asarray(m.sigma) * signs, m.sigma, m.query)


def two_stage(
    fit: Callable[..., Model], domain: Domain, measurements: Sequence[Any], total: float, **options
) -> Model:
    """See above; `fit` is `model.fit`, and the loss is that of the measurements, as always."""
    low = {frozenset(m.clique): m.clique for m in measurements if len(m.clique) <= PAIRS}
    finer = any(len(m.clique) > PAIRS for m in measurements)
    smooth = fit(domain, measurements, total, stop="noise", **options) if finer else None
    if smooth is not None and not (low and SHORT <= smooth.iterations <= LONG):
        return smooth
    close = fit(domain, measurements, total, stop="risk", **options)
    if smooth is None:
        return close
    sigma = {
        key: min(float(np.min(m.sigma)) for m in measurements if frozenset(m.clique) == key) for key in low
    }
    pairs = [
        Measurement(clique, np.ascontiguousarray(close.marginal(clique)).reshape(-1), sigma[key])
        for key, clique in low.items()
    ]
    options |= {"warm_start": smooth, "iters": STEPS, "tol": None}
    moved = fit(domain, pairs, total, stop="iters", **options)
    return Model(
        domain,
        moved.nodes,
        total=total,
        loss=sum(_loss(moved, m) for m in measurements),
        iterations=close.iterations + smooth.iterations + moved.iterations,
        ended="noise level, pairs at least risk",
        trace=smooth.trace,
        measured=smooth.errors,
    )


def _loss(model: Model, m: Any) -> float:
    query = as_query(m.query, model.domain.cells(m.clique))
    gap = (query.product(np.ascontiguousarray(model.marginal(m.clique)).reshape(-1)) - m.values) / m.sigma
    return 0.5 * float(gap @ gap)

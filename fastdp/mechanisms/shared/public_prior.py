"""Public tables as priors of a model: the statistics. Nothing here calls the session; everything is
a function of public counts and released answers.

*Averaged with an answer.* Let a marginal have the noisy answer y. A public table p of k cells,
scaled to the noisy total, counts as a second measurement of it. Its variance per cell is what |y -
p|^2 / (k - 2) leaves above the noise. It is at least the variance of drawing both tables from one
population. The average is James and Stein's estimate, whose expected squared error is below that of
y whatever p is. But the fit knows cells near 0 better than their noise says, and a wrong p pulls
them away. So p is not used where y is closer to a table of equal cells. All 1-ways of more than two
values are averaged in this way.

*In place of an answer.* For larger marginals the *prior* is made of the public table. The table is
raked to the sums that the model has, and moved towards the model's own table as far as its number
of rows calls for. The session releases how far the private marginal is from the model and how far
from the prior (`prior_screening`). Where the prior is closer (`assess_public_prior`), it enters the
fit with an error of that distance. It is measured as well, unless it is better than an answer would
be. Otherwise the marginal is treated as if there were no public data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from msgspec import Struct

from ...domain import Clique, Columns, Tables, batches
from ...measurement import Measurement
from ...significance import centre_and_spread, drawn_towards, spread_beyond_noise
from ..base import Public
from .one_ways import NOISE, averaged, estimate_total

SWEEPS = 12
"""Passes of raking over the axes of a public table."""
LABEL = "public"


class PublicPrior(Struct, frozen=True, eq=False):
    """A public `table` of `clique`, in rows, over the codes of the model. `per_row` is the number
    of private rows that one public row stands for."""

    clique: Clique
    table: np.ndarray
    per_row: float

    def apart(self, estimate: np.ndarray) -> float:
        """L1 distance from the model's estimate, in rows."""
        return float(np.abs(self.table - estimate.reshape(self.table.shape)).sum())

    def measurement(
        self, distance: float, answers: Sequence[Measurement] = ()
    ) -> Measurement | None:
        """The prior as a measurement. Where the clique has `answers`, its error is estimated from
        them (`prior_as_measurement`; None if they contradict it). Else it is that of this L1
        `distance` (rows), but at least the error of drawing both tables from one population."""
        flat = self.table.reshape(-1)
        same = _finest(answers, flat.size)
        if same and same[0].values.size > 2:
            answer = reduce(lambda a, b: averaged([a], [b])[0], same)
            return prior_as_measurement(answer, flat, self.per_row, same[0].query)
        spread = np.sqrt(flat + self.per_row)
        scale = max(distance / (NOISE * float(spread.sum())), math.sqrt(1 + self.per_row))
        return Measurement(self.clique, flat, scale * spread, label=LABEL)


def _finest(answers: Sequence[Measurement], cells: int) -> list[Measurement]:
    """Answers of one clique that are sums over the same groups of its `cells`. If answers have several
    groupings, the one with the most groups counts, or the first of these."""
    if not answers:
        return []
    most = max(m.values.size for m in answers)
    finest = [m for m in answers if m.values.size == most]
    marks = np.sqrt(np.arange(1.0, cells + 1))  # sums of no two different groups are the same
    asked = [marks if m.query is None else m.query.product(marks) for m in finest]
    return [m for m, sums in zip(finest, asked) if np.array_equal(sums, asked[0])]


class PriorAssessment(Struct, frozen=True):
    """What a prior `explained` of the model's distance from the truth, and the `distance` that is
    left (L1, rows)."""

    explained: float
    distance: float


class PublicMarginals:
    """Marginals of public data as priors; `rows` is how many public rows there are, at least 1.

    A run adds a column about users to the model of its rows. Public data does not have it: marginals
    with such a column have no prior."""

    def __init__(self, public: Public, rows: int):
        self._public = public
        self.rows = rows
        self._known = frozenset(public.schema.domain)

    @classmethod
    def of(cls, public: Public | None) -> PublicMarginals | None:
        """None without public data, or where it has no rows."""
        if public is None:
            return None
        name = next(iter(public.schema.domain))
        rows = int(public.marginals([(name,)])[name,].sum())
        return cls(public, rows) if rows else None

    def ones(self, ones: Sequence[Measurement]) -> list[Measurement]:
        """Noisy 1-ways averaged with the public ones, each as far as the two agree."""
        total = estimate_total(ones)
        if total <= 0:
            return list(ones)
        counts = self._public.marginals([m.clique for m in ones if self._has(m.clique)])
        r = total / self.rows
        out = []
        for m in ones:
            prior = None
            if m.clique in counts and m.values.size > 2:
                prior = prior_as_measurement(m, r * counts[m.clique].reshape(-1), r)
            out.append(m if prior is None else averaged([m], [prior])[0])
        return out

    def priors(self, estimates: Tables, recode: Columns) -> dict[Clique, PublicPrior]:
        """The prior of every clique whose columns public data has, given the model's estimate of it
        (rows, over recoded columns)."""
        out = {}
        cliques = [c for c, e in estimates.items() if self._has(c) and e.sum() > 0]
        recode = {name: codes for name, codes in recode.items() if name in self._known}
        for first, last in batches([estimates[c].size for c in cliques], 1 << 22):
            for clique, counts in self._public.marginals(cliques[first:last], recode).items():
                estimate = np.asarray(estimates[clique], np.float64).reshape(counts.shape)
                total = float(estimate.sum())
                raked = raked_to(counts + estimate / total, estimate)
                out[clique] = PublicPrior(
                    clique, drawn_to_model(raked, estimate, self.rows), total / self.rows
                )
        return out

    def _has(self, clique: Clique) -> bool:
        """Whether public data has all columns of the clique."""
        return self._known.issuperset(clique)


def prior_as_measurement(
    answer: Measurement, public: np.ndarray, per_row: float, query: Any = None
) -> Measurement | None:
    """A public table as a second measurement of a marginal of more than 2 values (see the module's
    text); None if the answer is closer to a table of equal cells. `query`: the query of the answer,
    where values were grouped; each cell then has the error of its group."""
    asked = public if query is None else query.product(public)
    away = answer.values - asked
    if np.square(away).sum() > np.square(answer.values - asked.mean()).sum():
        return None
    error = spread_beyond_noise(away, answer.variances, lost=2)
    drawn = (1 + per_row) * (public + per_row)
    return Measurement(answer.clique, public, np.sqrt(np.maximum(error, drawn)), label=LABEL)


def raked_to(table: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """The table scaled in turn to the estimate's sums over each axis (iterative proportional
    fitting)."""
    wanted = [estimate.sum(axis=k, keepdims=True) for k in range(estimate.ndim)]
    out = table * (estimate.sum() / table.sum())
    for _ in range(SWEEPS):
        for k, sums in enumerate(wanted):
            now = out.sum(axis=k, keepdims=True)
            out = out * np.divide(sums, now, out=np.zeros_like(sums), where=now > 0)
    return out


def drawn_to_model(table: np.ndarray, estimate: np.ndarray, rows: int) -> np.ndarray:
    """A public table of so many `rows`, drawn towards the model's estimate as far as chance explains
    what is between them. Chance gives the shares p of a table a variance of (1 - sum of p^2) / rows in
    all. (Fienberg and Holland's pseudo-Bayes estimate.)"""
    total = float(table.sum())
    p, q = table / total, estimate / estimate.sum()
    chance = (1 - float(np.square(p).sum())) / rows / p.size
    return total * drawn_towards(q.reshape(-1), p.reshape(-1), chance).reshape(p.shape)


def assess_public_prior(
    to_model: Sequence[float],
    to_prior: Sequence[float | None],
    apart: Sequence[float],
    noise: Sequence[float],
) -> list[PriorAssessment | None]:
    """For each prior a `PriorAssessment` if it is expected to be closer to the truth than the model,
    else None. Given are noisy distances of the truth to both, each with standard deviation `noise`
    (None: not released). `apart` is how far prior and model are from each other.

    Prior i explains f_i = (to_model_i - to_prior_i) / apart_i, which without noise lies in [-1, 1].
    Each f_i is drawn towards the mean of all as far as noise explains its distance from it. So
    priors with noisy f_i are judged mostly by the mean of all, others by their own f_i."""
    gap = np.asarray(apart, np.float64)
    far = np.asarray(to_model, np.float64)
    asked = np.array([d is not None for d in to_prior], bool)
    near = np.array(
        [m if d is None else d for m, d in zip(to_model, to_prior, strict=True)], np.float64
    )
    if not asked.any():
        return [None] * len(to_model)
    f = (far - near) / gap
    variances = np.where(asked, 2 * np.square(np.asarray(noise, np.float64) / gap), np.inf)
    mean, spread = centre_and_spread(f[asked], variances[asked])
    best = np.minimum(1.0, drawn_towards(mean, f, variances, spread))
    explained = gap * best
    left = np.where(asked, (far + near - explained) / 2, far - explained)
    pairs = zip(explained.tolist(), left.tolist())
    return [PriorAssessment(e, max(0.0, d)) if e > 0 else None for e, d in pairs]

"""Public data as a start of the model: marginals that it explains need no budget; where noisy distances say
that it misleads, it is not used.

What is computed here depends on public counts and released answers alone; the only release that is asked of
the session is a vector of distances (docs/privacy-distances.md).

*Beside an answer.* A public table p of k cells, scaled to the noisy total, stands beside a noisy answer y of
the same marginal as a measurement whose variance per cell is what |y - p|^2 / (k - 2) leaves above the noise,
and at least what drawing both tables from one population leaves. Their average is James and Stein's estimate,
whose expected squared error is below that of y whatever p is. Cells near 0 the fit knows better than their
noise says, though, and pulling them to a wrong p costs; so p is left out where y is closer to a table of
equal cells. All 1-ways of more than two values are averaged in this way.

*In place of an answer.* For larger marginals the public table is raked to the sums that the model has, and
moved towards the model's own table as far as its number of rows calls for: its *start*. The session releases
how far the private marginal is from the model and how far from the start. Where the start is closer
(`judged`), it enters the fit with an error of that distance, and is measured besides unless it is better than
an answer would be; otherwise the marginal is treated as if there were no public data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ...domain import Clique, batches
from ...measurement import Measurement
from .looks import Candidate, candidates
from .merged import NOISE, averaged
from .tree import estimate_total, part_mu

if TYPE_CHECKING:
    from ...release.gateway import Session
    from ..base import Public

# Constants, chosen on adult and ma2019 at epsilon 0.1 and 1 (docs/public.md).
BELIEF = 1.0
"""A start is believed if the part of its distance from the model that it explains (f in `judged`) is above
this many standard errors,"""
LEAST_EXPLAINED = 0.2
"""and this part itself is above this value."""
LEAST_APART, LEAST_PART = 1.0, 0.02
"""The distance of the private marginal from a start is released only if start and model are apart by at least
LEAST_APART standard deviations of the look and by at least a share LEAST_PART of all rows. Starts nearer to
the model, down to `LEAST_USED`, are judged by the results of the others."""
LEAST_USED = 0.2
FIT_LEAVES = 0.5
"""About this part of the error of an answer's noise is left by the fit. A start with a larger error than that
is measured besides, as if there were no public data."""
SWEEPS = 12
LABEL = "public"


@dataclass(frozen=True, eq=False)
class Start:
    """A public `table` of `clique` (in rows, over the codes of the model), and `per_row`, the number of
    private rows that one public row stands for."""

    clique: Clique
    table: np.ndarray
    per_row: float

    def apart(self, estimate: np.ndarray) -> float:
        """L1 distance from the model's estimate, in rows."""
        return float(np.abs(self.table - estimate.reshape(self.table.shape)).sum())

    def measurement(self, distance: float, answers: Sequence[Measurement] = ()) -> Measurement | None:
        """The start as a measurement. Where the clique has `answers`, its error is estimated from them
        (`beside`; None if they contradict it); else it is that of this L1 `distance` (rows), but at least the
        error of drawing both tables from one population."""
        flat = self.table.reshape(-1)
        if answers and answers[0].values.size > 2:
            answer = reduce(lambda a, b: averaged([a], [b])[0], answers)
            return beside(answer, flat, self.per_row, answers[0].query)
        spread = np.sqrt(flat + self.per_row)
        scale = max(distance / (NOISE * float(spread.sum())), math.sqrt(1 + self.per_row))
        return Measurement(self.clique, flat, scale * spread, label=LABEL)


@dataclass(frozen=True)
class Judgement:
    """What a start `explained` of the model's distance from the truth, and the `distance` that is left (L1,
    rows)."""

    explained: float
    distance: float


class PublicStart:
    """Public marginals as starts of a model; `rows` is how many public rows there are, at least 1."""

    def __init__(self, public: Public, rows: int):
        self._public, self.rows = public, rows

    @classmethod
    def of(cls, public: Public | None) -> PublicStart | None:
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
        counts, r = self._public.marginals([m.clique for m in ones]), total / self.rows
        out = []
        for m in ones:
            start = beside(m, r * counts[m.clique].reshape(-1), r) if m.values.size > 2 else None
            out.append(m if start is None else averaged([m], [start])[0])
        return out

    def tables(
        self, estimates: Mapping[Clique, np.ndarray], recode: Mapping[str, np.ndarray]
    ) -> dict[Clique, Start]:
        """The start of every clique, given the model's estimate of it (rows, over recoded columns)."""
        out, cliques = {}, [c for c, e in estimates.items() if e.sum() > 0]
        for first, last in batches([estimates[c].size for c in cliques], 1 << 22):
            for clique, counts in self._public.marginals(cliques[first:last], recode).items():
                estimate = np.asarray(estimates[clique], np.float64).reshape(counts.shape)
                total = float(estimate.sum())
                raked = raked_to(counts + estimate / total, estimate)
                out[clique] = Start(clique, shrunk(raked, estimate, self.rows), total / self.rows)
        return out


class Starts:
    """Starts beside a model that grows: what was released of them, and which ones are `taken` into the
    fit."""

    def __init__(self, source: PublicStart, session: Session, recode: Mapping[str, np.ndarray]):
        self._source, self._session, self._recode = source, session, recode
        self._looked = False
        self._asked: dict[Clique, tuple[Start, float | None]] = {}
        self._believed: dict[Clique, tuple[Start, float]] = {}
        self.taken: dict[Clique, tuple[Start, float]] = {}
        self.refused: set[Clique] = set()

    def look(
        self,
        estimates: Mapping[Clique, np.ndarray],
        weight: Mapping[Clique, float],
        noise: float,
        share: float,
        label: str,
    ) -> float:
        """Releases, after a look that cost `share` of mu^2, how far the private marginals are from their
        starts, with the same `noise` (standard deviation of weight times distance, in rows). Returns the
        share of mu^2 that this cost, at most `share`.

        The first call asks for pairs, later ones for larger marginals all of whose pairs are taken."""
        fresh = {
            c: e
            for c, e in estimates.items()
            if (len(c) == 2 and not self._looked)
            or (len(c) > 2 and c not in self._asked and all(p in self.taken for p in combinations(c, 2)))
        }
        self._looked = True
        starts = self._source.tables(fresh, self._recode)
        apart = {c: weight[c] * s.apart(fresh[c]) for c, s in starts.items()}
        worth = {c: weight[c] * LEAST_PART * float(fresh[c].sum()) for c in starts}
        cliques = [c for c in starts if apart[c] > max(LEAST_APART * noise, worth[c])]
        self._asked |= {c: (s, None) for c, s in starts.items() if apart[c] > LEAST_USED * noise}
        if not cliques:
            return 0.0
        took = share * _squares(weight[c] for c in cliques) / _squares(weight[c] for c in estimates)
        look = self._session.distances(
            cliques,
            {c: starts[c].table for c in cliques},
            mu=part_mu(self._session, took),
            label=label,
            weights=[weight[c] for c in cliques],
            recode=self._recode,
        )
        self._asked |= {c: (starts[c], float(d)) for c, d in zip(cliques, look.values)}
        return took

    def improved(
        self,
        scored: Sequence[Candidate],
        estimates: Mapping[Clique, np.ndarray],
        noise: float,
        sigma: float,
        total: float,
    ) -> list[Candidate]:
        """The candidates; one whose start is believed has its distance from that start in place of the
        distance from the model, and the distance that the start explains. It `rests` on the start if that is
        better than an answer at noise `sigma` would be after the fit."""
        offered = []
        for c in scored:
            if c.clique in self._asked and c.clique not in self.taken:
                start, distance = self._asked[c.clique]
                apart = start.apart(estimates[c.clique])
                if c.weight * apart > LEAST_USED * noise:
                    offered.append((c, start, distance, apart))
        judgements = judged(
            [c.distance for c, _, _, _ in offered],
            [distance for _, _, distance, _ in offered],
            [apart for _, _, _, apart in offered],
            [noise / c.weight for c, _, _, _ in offered],
        )
        self._believed, out = {}, {c.clique: c for c in scored}
        for (c, start, _, _), judgement in zip(offered, judgements):
            if judgement is None:
                self.refused.add(c.clique)
                continue
            self._believed[c.clique] = start, judgement.distance
            left, table = [judgement.distance], {c.clique: start.table}
            (nearer,) = candidates([c.clique], table, left, sigma, total, {c.clique: c.weight})
            better = nearer.distance <= FIT_LEAVES * NOISE * sigma * nearer.cells
            out[c.clique] = replace(nearer, explained=judgement.explained, rests=better)
        return list(out.values())

    def take(self, cliques: Sequence[Clique]) -> None:
        """Takes into the fit the starts of those of the cliques whose start is believed."""
        self.taken |= {c: self._believed[c] for c in cliques if c in self._believed}
        self.refused -= set(self.taken)

    def measurements(self, measured: Sequence[Measurement]) -> list[Measurement]:
        """The starts that were taken, as measurements for the fit, to be added to `measured`."""
        answers: dict[Clique, list[Measurement]] = {}
        for m in measured:
            answers.setdefault(m.clique, []).append(m)
        starts = [start.measurement(d, answers.get(c, ())) for c, (start, d) in self.taken.items()]
        return [m for m in starts if m is not None]

    def describe(self, measured: Sequence[Measurement]) -> dict[str, Any]:
        """For the statement: marginals that rest on public data alone, on public data and private answers,
        and how many starts were judged and not believed."""
        answered = {m.clique for m in measured}
        return {
            "rested": [list(c) for c in self.taken if c not in answered],
            "beside": [list(c) for c in self.taken if c in answered],
            "refused": len(self.refused),
        }

    def notes(self, measured: Sequence[Measurement]) -> tuple[str, ...]:
        """The content of `describe` as a sentence."""
        used = self.describe(measured)
        alone, both, wrong = len(used["rested"]), len(used["beside"]), used["refused"]
        return (
            f"public data: {alone} marginals of the model rest on it alone, {both} on it and on private "
            f"answers; {wrong} more were not found to be right, and left out",
        )


def beside(answer: Measurement, public: np.ndarray, per_row: float, query: Any = None) -> Measurement | None:
    """A public table as a measurement beside an answer of more than 2 values (see the module's text); None if
    the answer is closer to a table of equal cells. `query`: the query of the answer, where values were
    grouped; each cell then has the error of its group."""
    seen = public if query is None else query.product(public)
    gap = float(np.square(answer.values - seen).sum()) / (seen.size - 2)
    if gap * (seen.size - 2) > float(np.square(answer.values - seen.mean()).sum()):
        return None
    error = max(0.0, gap - float(np.mean(answer.variances)))
    drawn = (1 + per_row) * (public + per_row)
    return Measurement(answer.clique, public, np.sqrt(np.maximum(error, drawn)), label=LABEL)


def raked_to(table: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """The table scaled in turn to the estimate's sums over each axis (iterative proportional fitting)."""
    wanted = [estimate.sum(axis=k, keepdims=True) for k in range(estimate.ndim)]
    out = table * (estimate.sum() / table.sum())
    for _ in range(SWEEPS):
        for k, sums in enumerate(wanted):
            now = out.sum(axis=k, keepdims=True)
            out = out * np.divide(sums, now, out=np.zeros_like(sums), where=now > 0)
    return out


def shrunk(table: np.ndarray, estimate: np.ndarray, rows: int) -> np.ndarray:
    """Fienberg and Holland's pseudo-Bayes estimate: as if K rows of `estimate` had been seen beside the
    `rows` of `table`, K being the variance of a draw over the squared gap that such a draw does not
    explain."""
    p, q = table / table.sum(), estimate / estimate.sum()
    spread = 1 - float(np.square(p).sum())
    gap = float(np.square(p - q).sum()) - spread / rows
    if gap <= 0:
        return estimate
    weight = rows / (rows + spread / gap)
    return weight * table + (1 - weight) * estimate


def judged(
    to_model: Sequence[float],
    to_start: Sequence[float | None],
    apart: Sequence[float],
    noise: Sequence[float],
) -> list[Judgement | None]:
    """For each start a `Judgement` if it is believed to be closer to the truth than the model, else None;
    from noisy distances of the truth to both (each with standard deviation `noise`; None: not released) and
    from how far start and model are `apart`.

    Start i explains f_i = (to_model_i - to_start_i) / apart_i, which without noise lies in [-1, 1]. The f_i
    are modelled as draws around a common mean, with a spread estimated from them (DerSimonian and Laird), so
    that starts with noisy f_i are judged mostly by the mean of all, others by their own f_i."""
    gap, far = np.asarray(apart, np.float64), np.asarray(to_model, np.float64)
    asked = np.array([d is not None for d in to_start], bool)
    near = np.array([m if d is None else d for m, d in zip(to_model, to_start, strict=True)], np.float64)
    w = np.where(asked, np.square(gap / np.asarray(noise, np.float64)) / 2, 0.0)  # 1 / variance of f
    whole = float(w.sum())
    if not whole > 0:
        return [None] * len(to_model)
    f = (far - near) / gap
    mean = float(w @ f) / whole
    free = whole - float(w @ w) / whole
    excess = float(w @ np.square(f - mean)) - (int(asked.sum()) - 1)
    spread = max(0.0, excess / free) if free > 1e-9 * whole else 0.0
    pull = 1 / max(spread, 1e-12)
    best = np.minimum(1.0, (w * f + pull * mean) / (w + pull))
    doubt = 1 / np.sqrt(w + pull) + (pull / (w + pull)) / math.sqrt(whole)
    explained = gap * best
    left = np.where(asked, (far + near - explained) / 2, far - explained)
    return [
        Judgement(e, max(0.0, d)) if b > max(BELIEF * t, LEAST_EXPLAINED) else None
        for e, d, b, t in zip(explained.tolist(), left.tolist(), best.tolist(), doubt.tolist())
    ]


def _squares(weights: Iterable[float]) -> float:
    return math.fsum(w * w for w in weights)

"""Tables whose columns have two values: all pairs and triples are measured, by one number each.

Give the two values of every column the signs 1 and -1, and its further codes (nulls, values outside the
domain), whose rows noise hides, the sign 0. The *contrast* of a set of columns is the number of
rows whose signs have the product 1, less the number of the others. What a pair says beyond its columns
is one contrast, and what a triple says beyond its pairs is one as well. One user changes a contrast by
at most the clip, as a distance from the model. So it costs no more to know all contrasts than to screen
all distances. Its noise has a quarter of the variance that a table of a pair gives it at the same price,
and an eighth for a triple. Nothing has to be chosen, and no edge of a tree is missing.

1. *Pairs.* All their contrasts, for CONTRASTS of what is left.
2. *Triples.* All their contrasts, for as much, unless pairs are noise, and a triple of which two columns
   determine the third might be as well, if noise takes LIKELY standard errors off it. They are compared with
   a model of the pairs.
3. *Shrinkage.* How far contrasts are from what a model without them says is taken for its mean given all
   others of their kind (`significance.posterior_moments`), in parts of the largest that their columns allow.
   Where noise explains all of it, it is what chance gives: N rows of independent columns have correlations of
   variance 1 / N.
4. *Factors.* If all columns follow few hidden ones, the matrix of the pairs' contrasts, less what independent
   columns have, is one of few factors but for noise. Then what is shrunk is the rest. Stein's estimate says
   whether that is better (`Contrasts.risk`).
5. *The rest* is divided among columns, pairs and triples such that the square roots of their expected errors
   add up to least (`division`). Then all is shrunk again.
6. *Fit* of one clique of all columns to these. Then rows get further codes (`further_codes`).

Everything but the contrasts is a function of released numbers and public facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..._util.threads import resolve
from ...division import CONTRASTS, least_error
from ...domain import Clique, Domain
from ...measurement import Measurement
from ...model.graphical_model import Model
from ...model.marginals import marginals
from ...release.gateway import Session
from ...schema import Schema
from ...significance import LIKELY, posterior_moments, stands_out
from ..base import Job
from ..plans import Outline, Planned, PlannedStep
from ..shared.merged_codes import Merged
from ..shared.one_ways import independent, ones_step, part_mu
from .beyond_independence import noise_alone
from .further_codes import FurtherCodes, have_two_values
from .hidden_factors import GRID, of_factors

LEAST_COLUMNS = 3
MOST_WORK = 1 << 24
"""The most cells of the model times sets that it is fitted to. A fit looks at all of them some hundred
times: a run on 16 columns takes five processor seconds. More than 16 columns are left to the tree."""
POWER = 0.25
"""Expected squared errors of columns, pairs and triples are added in this power. With 1/2 the errors
themselves would be added, of which those of columns are least; with nearly 0 a percent of each would count
alike. Between the two neither is lost by much (docs/research/cliquetree.md; `python -m bench.tune --set
mechanisms.cliquetree.two_valued.POWER=.5 --tables classes flags traits xor3`)."""
SIGNS = (1, -1)
"""The signs of the two values of each column, which are its first two merged codes."""
PROBES = 4
"""How often all values are moved for an estimate of a risk. It adds up over all pairs, so few will do."""
UNKNOWN = 1e3
"""Noise of the codes that a contrast says nothing about, in that of the contrast."""


class GrowingTable(Protocol):
    """What is read of the tree before its first batch."""

    session: Session
    job: Job
    config: Any
    merged: Merged
    workload: Any
    priors: Any
    dependent: Any


def possible(count: int) -> bool:
    """Whether so many columns can be served: three or more, and a model that is fitted in seconds."""
    work = (1 << min(count, 64)) * count * (count - 1) // 2
    return count >= LEAST_COLUMNS and work <= MOST_WORK


def planned_for(schema: Schema) -> bool:
    """Whether all columns of a schema have two values, besides nulls and values outside their domain."""
    sizes = schema.modelled
    two = all(
        n == 2 or (a in schema.columns and schema.columns[a].base == 2) for a, n in sizes.items()
    )
    return two and possible(len(sizes)) and not schema.constraints


def planned(outline: Outline, domain: Domain, first: float) -> Outline:
    """The plan with contrasts in place of screening rounds and batches. `first`: the share
    of the first 1-ways. What the first contrasts decide is not known: the rest is divided evenly."""
    chosen = [
        s for s in outline.steps if s.label in ("1-ways", "batches") or "screening" in s.label
    ]
    share = math.fsum(s.share for s in chosen) - first
    rest = share * (1 - 2 * CONTRASTS) / 3
    label = "contrasts of columns"
    columns = [Planned((a,), rest / len(domain), 1, note=label, contrast=True) for a in domain]
    steps = [ones_step(domain, first), PlannedStep(label, rest, tuple(columns))]
    for size, name, clique in ((2, "pairs", ("any", "pair")), (3, "triples", ("any",) * 3)):
        count = math.comb(len(domain), size)
        own = CONTRASTS * share + rest
        label = f"contrasts of {name}"
        line = Planned(clique, own / count, 1, count, label, averaged=False, contrast=True)
        steps.append(PlannedStep(label, own, (line,)))
    kept = [s for s in outline.steps if s not in chosen]
    note = (
        "all columns have two values, so nothing is chosen: one number of each column, pair and triple is"
        " measured. First releases say how the contrasts' share is divided; the plan takes it to be even."
        " Columns with nulls or other values that stand out of noise are measured as other tables are"
    )
    return replace(outline, steps=(*kept, *steps), notes=(note,))


def names_of(state: GrowingTable) -> list[str]:
    """The columns with two values; none where the table has others, or some of which noise hides all values,
    or where the run favours some sets, starts from public data, or keeps constraints."""
    merged = state.merged
    wide = [a for a, n in merged.domain.items() if n > 1]
    if any(merged.domain[a] < 2 <= n for a, n in merged.compression.full.items()):
        return []
    favours = state.workload.items or state.config.important.names_rows
    other = favours or state.priors is not None or state.dependent
    schema = state.session.schema
    if other or schema.constraints or any(a not in schema.columns for a in wide):
        return []
    small = possible(len(wide)) and 1 << len(wide) <= state.config.limit
    return wide if small and have_two_values(merged, wide) else []


class Contrasts(Struct):
    """All sets of some size. `values` with variance `variance`, by all that is released; `expected`:
    what a model without them says; `scale`: how far each is from that where its columns determine each
    other, in rows; `chance`: the mean square of parts of `scale` that chance gives. `known`: whether they
    differ from what is expected by more than noise; `means`: each, given all others, and `errors`: the
    variances of what is true around these."""

    sets: list[Clique]
    values: np.ndarray
    expected: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    scale: np.ndarray
    chance: float
    variance: float = math.inf
    known: bool = False

    @classmethod
    def of(cls, merged: Merged, names: Sequence[str], size: int) -> Contrasts:
        sets: list[Clique] = list(combinations(names, size))
        none = np.zeros(len(sets))
        out = cls(sets, none, none, none, none, none, 1 / max(merged.fitted_total, 1.0))
        out.scale_by(merged)
        out.errors = out.chance * np.square(out.scale)
        return out

    def scale_by(self, merged: Merged) -> None:
        """Set the scale by single columns."""
        total = merged.fitted_total
        columns = {a for c in self.sets for a in c}
        parts = {a: np.maximum(merged.ones_shape[a][:2] / total, self.chance) for a in columns}
        sd = [math.prod(2 * math.sqrt(parts[a][0] * parts[a][1]) for a in c) for c in self.sets]
        self.scale = total * np.array(sd)

    def add(self, values: np.ndarray, variance: float) -> None:
        weight = 1.0 if math.isinf(self.variance) else self.variance / (self.variance + variance)
        self.values = self.values + weight * (values - self.values)
        self.variance = 1 / (1 / self.variance + 1 / variance)

    def compare(self, expected: np.ndarray) -> None:
        """Set what a model says, and what the contrasts are given that."""
        self.expected = expected
        away = self.values - expected
        by_chance = self.chance * np.square(self.scale)
        least = by_chance * self.variance / (by_chance + self.variance)
        self.known = not noise_alone(np.square(away) / self.variance, np.ones(len(away)))
        if not self.known:
            self.means = expected + away * by_chance / (by_chance + self.variance)
            self.errors = least
            return
        found, errors = self.alone(away)
        if len(self.sets[0]) == 2 and self.risk(self.by_factors) < self.risk(self.alone):
            found, errors = self.by_factors(away)
        self.means = expected + found
        self.errors = np.maximum(errors, least)

    def alone(self, away: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(means, variances) of contrasts that were found this far from what is expected: each has a
        part of its scale, of one distribution."""
        noise = math.sqrt(self.variance) / self.scale
        means, variances = posterior_moments(away / self.scale, noise, -1.0, 1.0)
        return means * self.scale, variances * np.square(self.scale)

    def by_factors(self, away: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of pairs, if they are what few factors of the columns say, and parts beyond it. All
        noise tells of few numbers then. What factors say is a multiple of a small part of the noise, so
        that last bits of eigenvectors do not matter."""
        d = len({a for c in self.sets for a in c})
        upper = np.triu_indices(d, 1)  # the order of `combinations`
        matrix = np.zeros((d, d))
        matrix[upper] = away
        noise = math.sqrt(self.variance)
        smooth, factors = of_factors(matrix + matrix.T, noise)
        centre = np.round(smooth[upper] / noise * GRID) * (noise / GRID)
        numbers = min(d * factors - factors * (factors - 1) / 2, len(self.sets))
        means, variances = self.alone(away - centre)
        of_numbers = self.variance * numbers / len(self.sets)
        return centre + means, np.minimum(variances + of_numbers, self.variance)

    def risk(self, means: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> float:
        """Stein's estimate of the squared error of these means, but for a constant. How far they follow
        noise is found by moving all values, up or down by half of its standard deviation."""
        away = self.values - self.expected
        rng = np.random.default_rng(0)  # decides nothing but which values are moved up together
        follows = 0.0
        for _ in range(PROBES):
            step = rng.choice([-0.5, 0.5], len(away)) * math.sqrt(self.variance)
            follows += float(step @ (means(away + step)[0] - means(away - step)[0])) / PROBES
        return float(np.sum(np.square(means(away)[0] - away))) + 4 * follows

    def left(self, precision: float) -> float:
        """The expected squared error with so much more precision."""
        return float(np.mean(self.errors / (1 + self.errors * precision)))


class TwoValuedTable:
    """One table's single columns, contrasts and models."""

    def __init__(self, state: GrowingTable, names: Sequence[str]):
        self.state = state
        self.names = names
        self.merged = state.merged
        self.further = FurtherCodes.of(state.merged, names)
        self.columns = Contrasts.of(self.merged, names, 1)
        self.pairs = Contrasts.of(self.merged, names, 2)
        self.triples: Contrasts | None = None
        session = state.session
        self.unit = (part_mu(session, 1.0) / session.clip) ** 2
        self.room = (MOST_WORK >> len(names)) - len(self.pairs.sets)

    def spend(self, share: float) -> None:
        """Release contrasts for this share of mu^2."""
        first = CONTRASTS * share
        share -= first
        self.measure(self.pairs, first, "contrasts of pairs")
        self.pairs.compare(self.independent())
        triples = Contrasts.of(self.merged, self.names, 3)
        noise = math.sqrt(len(triples.sets) / (first * self.unit))
        largest = float(np.mean(triples.scale)) / noise
        seen = stands_out(largest - LIKELY, len(triples.sets))
        if self.pairs.known or seen:
            share -= first
            self.triples = triples
            self.measure(self.triples, first, "contrasts of triples")
            self.triples.compare(self.by(self.fitted(self.of_pairs()), self.triples.sets))
        for_columns, for_pairs, for_triples = self.division(share)
        if for_columns:
            self.measure(self.columns, for_columns * share, "contrasts of columns")
            self.merged = self.merged.with_sums(self.of_columns())
            for kind in (self.pairs, self.triples):
                if kind is not None:
                    kind.scale_by(self.merged)
        if for_pairs:
            self.measure(self.pairs, for_pairs * share, "contrasts of pairs again")
        if for_triples and self.triples is not None:
            self.measure(self.triples, for_triples * share, "contrasts of triples again")

    def measure(self, kind: Contrasts, share: float, label: str) -> None:
        """Release all contrasts of a kind for a share of mu^2."""
        session = self.state.session
        signs = {a: self.signs(a)[self.merged.compression.code_map(a)] for a in self.names}
        mu = part_mu(session, share)
        released = session.contrasts(kind.sets, signs, mu=mu, label=label)
        kind.add(released.values, float(released.sigma[0]) ** 2)

    def signs(self, name: str) -> np.ndarray:
        """The sign of each merged code."""
        return np.append(SIGNS, np.zeros(self.merged.domain[name] - 2, np.int64))

    def of_columns(self) -> list[Measurement]:
        """1-ways with the released contrasts, by the estimate of the number of rows. Their noise is such
        that a contrast has its own."""
        sigma = math.sqrt(self.columns.variance / 2)
        out = []
        for (a,), value in zip(self.columns.sets, self.columns.values):
            further = self.further.parts[a] * self.merged.total
            half = (self.merged.total - further.sum()) / 2
            rows = np.append(half + np.array(SIGNS) * (value / 2), further)
            errors = np.append([sigma, sigma], np.full(further.size, UNKNOWN * sigma))
            out.append(Measurement((a,), rows, errors))
        return out

    @property
    def released(self) -> dict[Clique, tuple[float, float]]:
        """The contrasts with their standard errors, by set."""
        kinds = [k for k in (self.columns, self.pairs, self.triples) if k is not None]
        return {
            c: (float(value), math.sqrt(kind.variance))
            for kind in kinds
            if math.isfinite(kind.variance)
            for c, value in zip(kind.sets, kind.values)
        }

    def division(self, share: float) -> tuple[float, ...]:
        """The parts of the rest for columns, pairs and triples. Squared errors of contrasts add up: a
        pair has those of two columns and its own, a triple those of three columns, three pairs and its
        own. The square roots of the errors of columns, pairs and triples are added (POWER)."""
        own = [
            float(np.sum(m.variances[:2])) for m in self.merged.ones if m.clique[0] in self.names
        ]
        ones = 1 / float(np.mean(own))
        whole = share * self.unit
        each = whole / len(self.names), whole / len(self.pairs.sets)
        three = self.triples

        def error(columns: float, pairs: float, triples: float) -> float:
            v = 1 / (ones + each[0] * columns)
            r = self.pairs.left(each[1] * pairs)
            total = v**POWER + (2 * v + r) ** POWER
            if three is not None:
                s = three.left(whole / len(three.sets) * triples)
                total += (3 * v + 3 * r + s) ** POWER
            return total

        return least_error(error, (True, True, three is not None))

    def independent(self) -> np.ndarray:
        """Contrasts of pairs if columns were independent."""
        return self.contrasts_of(self.without_pairs(), self.pairs.sets)

    def without_pairs(self) -> dict[Clique, np.ndarray]:
        """Tables of the two values of pairs if columns were independent."""
        total = self.merged.fitted_total
        return independent(self.pairs.sets, {a: self.two_values(a) for a in self.names}, total)

    def two_values(self, name: str) -> np.ndarray:
        """All rows, by a column's two values."""
        total = self.merged.fitted_total
        rows = self.merged.ones_shape[name][:2] + total * self.columns.chance
        return rows * (total / rows.sum())

    def contrasts_of(
        self, tables: Mapping[Clique, np.ndarray], sets: Sequence[Clique]
    ) -> np.ndarray:
        """Contrasts, in rows of the run, of tables of two values, in rows of the model."""
        return self.further.without(sets) * [
            float(np.sum(product(len(c)) * tables[c])) for c in sets
        ]

    def by(self, model: Model, sets: Sequence[Clique]) -> np.ndarray:
        """Contrasts by a model."""
        return self.contrasts_of(self.tables(model, sets), sets)

    def tables(self, model: Model, sets: Sequence[Clique]) -> dict[Clique, np.ndarray]:
        return marginals(model, sets, resolve(self.state.job.threads))

    def of_pairs(self) -> list[Measurement]:
        """Tables of all pairs with the means of their contrasts."""
        self.pairs.compare(self.independent())
        return self.shifted(self.pairs, self.without_pairs())

    def shifted(self, kind: Contrasts, tables: Mapping[Clique, np.ndarray]) -> list[Measurement]:
        """Tables that differ from these in the contrast alone, which is its mean. Their noise is such
        that a contrast has its own; what else they say is what the tables say."""
        sets = kind.sets
        parts = self.further.without(sets)
        change = (kind.means - self.contrasts_of(tables, sets)) / parts
        sigma = math.sqrt(kind.variance) / parts
        sign = product(len(sets[0]))
        return [
            Measurement(
                c,
                (tables[c] + sign * (more / sign.size)).reshape(-1),
                error / math.sqrt(sign.size),
                label="contrast",
            )
            for c, more, error in zip(sets, change, sigma)
        ]

    def model(self) -> Model:
        """The finished model. Of triples it has those that differ most from a model of the pairs."""
        told = self.of_pairs()
        model = self.fitted(told)
        kind = self.triples
        if kind is None:
            return model
        kind.compare(self.by(model, kind.sets))
        if not kind.known:
            return model
        away = np.abs(kind.means - kind.expected)
        chosen = set(np.argsort(-away, kind="stable")[: self.room].tolist())
        tables = self.tables(model, kind.sets)
        told += [m for i, m in enumerate(self.shifted(kind, tables)) if i in chosen]
        return self.fitted(told)

    def fitted(self, told: Sequence[Measurement]) -> Model:
        """The model of the two values of each column, in all rows, by these tables and single columns.
        What they say is shrunk already, so the fit may end where noise does."""
        merged = self.merged
        domain = Domain({a: min(n, 2) for a, n in merged.domain.items()})
        ones = [self.further.left_out(m) for m in merged.ones]
        total = merged.fitted_total
        model = self.state.job.fit(domain, [*ones, *told], total=total, stop="noise")
        for columns in [c for c in model.errors if len(c) > 1]:  # no release is about these cells
            del model.errors[columns]
        return model

    def finished(self) -> tuple[Model, Merged]:
        """The finished model, and the codes that it has."""
        return self.further.added(self.model(), self.merged)


def product(count: int) -> np.ndarray:
    """The sign of each cell of so many columns."""
    out = np.ones((), np.int64)
    for _ in range(count):
        out = np.multiply.outer(out, SIGNS)
    return out

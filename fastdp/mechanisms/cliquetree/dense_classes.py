"""Dense tables without an order: when hidden classes take the place of the tree, and what they measure.

`Look` is a release of the contrasts of all pairs of columns, for signs of their codes. A contrast has the
noise of one cell of a pair's table. With random signs, its square beyond what the tree or independent
columns say is on average the squared distance of the whole table. So one number a pair says how far off
the tree is (`of_tree`), and few large eigenvalues of all of them how much few classes would explain. What
classes leave is known beforehand, because the noise of the tables of all pairs is (`forecast`).

`ClassTable` measures the tables of all pairs, and fits classes to them (`hidden_classes`).
Everything here is a function of released numbers and public facts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...domain import Clique, Domain
from ...measurement import Measurement, Request
from ...model.graphical_model import Model, Node
from ...release.gateway import Session
from ..shared.code_compression import Compression
from ..shared.merged_codes import Merged
from ..shared.one_ways import averaged, part_mu
from .hidden_classes import Blocks, fitted, loadings, raked, squares_left
from .hidden_factors import of_factors

ENOUGH = 4
"""Each number of a column's factors is told by at least so many contrasts. With fewer, factors follow any
contrasts (six columns of gapminder have two)."""
MOST_CODES = 512
"""Codes of all columns together, so that the two fits take seconds: each takes 50 eigenvalue decompositions
of a matrix of this size. Tables with more stay with the tree."""
FIRST_PART = 0.25
"""The part of the batch that classes get before their distances from all pairs are released."""


class Columns(Protocol):
    """What is read of a dense table: its columns, and what hangs on them (`dense_tables.DenseTable`)."""

    state: Any
    merged: Merged
    names: list[str]
    pairs: list[Clique]
    hidden: str

    def hanging(self, merged: Merged) -> list[Node]: ...


class Forecast(Struct, frozen=True):
    """Squared distances of all pairs, by their contrasts: what `classes` would leave and what the `tree`
    leaves; the standard `error` that noise gives either; and the number of `factors`."""

    classes: float
    tree: float
    error: float
    factors: int

    def better(self, errors: float, to_come: float) -> bool:
        """Whether classes are nearer, by so many standard errors, than the tree will be: `to_come` times as
        far as it is. What noise adds to both is the same. A tree that will be as near as sampling
        alone cannot be beaten."""
        part = to_come**2
        return to_come > 0 and self.classes + errors * (1 - part) * self.error < part * self.tree


class Look:
    """Contrasts of all pairs. `signs`: of each column's codes; `contrasts`: per row, [columns, columns];
    `noise`: their standard error."""

    def __init__(
        self,
        merged: Merged,
        signs: Mapping[str, np.ndarray],
        contrasts: np.ndarray,
        noise: float,
    ):
        self.merged = merged
        self.signs = signs
        self.contrasts = contrasts
        self.noise = noise
        self.names = list(signs)
        self.pairs = list(combinations(self.names, 2))

    @classmethod
    def released(
        cls,
        session: Session,
        merged: Merged,
        signs: Mapping[str, np.ndarray],
        share: float,
        label: str,
    ) -> Look:
        """For a share of mu^2."""
        pairs = list(combinations(signs, 2))
        total = merged.fitted_total
        found = session.contrasts(pairs, signs, mu=part_mu(session, share), label=label)
        contrasts = _symmetric(found.values / total, len(signs))
        return cls(merged, signs, contrasts, float(found.sigma[0]) / total)

    def of(self, names: Sequence[str]) -> Look:
        """The same for these of the columns."""
        number = [self.names.index(a) for a in names]
        contrasts = self.contrasts[np.ix_(number, number)]
        return Look(self.merged, {a: self.signs[a] for a in names}, contrasts, self.noise)

    def forecast(self, tree: Mapping[Clique, np.ndarray], noise: float, free: int) -> Forecast:
        """What is left by classes whose tables have this `noise` in a cell, as a part of the rows, and by
        the tree, which has these tables. `free`: numbers of all columns beside their sums.

        An eigenvalue v of signal and noise comes from one of (v + sqrt(v^2 - 4 b^2)) / 2 of the signal,
        b = sqrt(d) noise."""
        d = len(self.names)
        off = ~np.eye(d, dtype=bool)
        mean = np.array([self.mean(a) @ self.merged.ones_shape[a] for a in self.names])
        mean = mean / self.merged.fitted_total
        away = np.where(off, self.contrasts - np.outer(mean, mean), 0.0)
        by_noise = len(self.pairs) * self.noise**2
        apart = float(np.square(away).sum()) / 2 - by_noise
        model = _symmetric(np.array([self.by_tree(tree[p], p) for p in self.pairs]), d)
        of_tree = float(np.square(self.contrasts - model).sum()) / 2 - by_noise
        smooth, _ = of_factors(away, self.noise)
        values, vectors = np.linalg.eigh(np.where(off, away, smooth))
        edge = math.sqrt(d) * self.noise
        vectors = vectors[:, values > 2 * edge]
        values = values[values > 2 * edge]
        true = (values + np.sqrt(values**2 - 4 * edge**2)) / 2
        explained = float(np.square(((vectors * true) @ vectors.T)[off]).sum()) / 2
        lost = squares_left(true, math.sqrt(free) * noise) / max(float(true @ true), 1e-300)
        left = max(0.0, apart - explained) + lost * explained
        error = math.sqrt(
            2 * len(self.pairs) * self.noise**4 + 4 * self.noise**2 * max(0.0, of_tree)
        )
        return Forecast(left, of_tree, error, len(values))

    def mean(self, name: str) -> np.ndarray:
        """The mean sign of each merged code."""
        codes = self.merged.compression.code_map(name)
        rows = np.maximum(self.merged.shape[name], 0.0) + 1e-9
        return np.bincount(codes, rows * self.signs[name]) / np.bincount(codes, rows)

    def by_tree(self, table: np.ndarray, pair: Clique) -> float:
        a, b = map(self.mean, pair)
        return float(a @ table @ b) / max(float(table.sum()), 1e-9)


def _symmetric(numbers: np.ndarray, d: int) -> np.ndarray:
    """A number for each pair as a matrix, with 0 on its diagonal."""
    out = np.zeros((d, d))
    out[np.triu_indices(d, 1)] = numbers
    return out + out.T


def random_signs(merged: Merged, name: str, number: int) -> np.ndarray:
    """-1 for merged codes with about half of the rows, and 1 for the others, by a fixed random order."""
    rows = np.maximum(merged.ones_shape[name], 0.0)
    order = np.argsort(np.random.Philox(key=number).random_raw(len(rows)))
    below = np.cumsum(rows[order]) - rows[order] / 2 < rows.sum() / 2
    signs = np.empty(len(rows), np.int64)
    signs[order] = np.where(below, -1, 1)
    return signs[merged.compression.code_map(name)]


class ClassTable:
    """Tables of all pairs of columns, and classes that fit them. `table`: these columns."""

    def __init__(self, table: Columns):
        self.table = table
        self.state = table.state
        self.merged = table.merged
        self.blocks = Blocks([table.merged.domain[a] for a in table.names])
        self.answers: list[Measurement] = []
        self.loadings = np.zeros((0, 0))
        self.weights = np.ones(1)

    def look(self, share: float) -> Look:
        """Contrasts of all pairs by random signs."""
        signs = {a: random_signs(self.merged, a, i) for i, a in enumerate(self.table.names)}
        session = self.state.session
        return Look.released(session, self.merged, signs, share, "contrasts of hidden classes")

    def forecast(self, look: Look, tree: Mapping[Clique, np.ndarray], share: float) -> Forecast:
        """What classes would leave that get this share of mu^2."""
        session = self.state.session
        each = session.clip / part_mu(session, share / len(look.pairs))
        noise = each / self.merged.fitted_total
        return look.of(self.table.names).forecast(tree, noise, self.blocks.free)

    def to_come(self, part: float) -> float:
        """How far off classes are with all of a share, compared with now, when `part` of it is spent."""
        noise = float(np.mean(self.answers[0].sigma)) / self.merged.fitted_total
        edge = math.sqrt(self.blocks.free) * noise
        kept = np.maximum(np.linalg.eigvalsh(self.loadings.T @ self.loadings), 0.0)
        true = (kept + np.sqrt(kept**2 + 4 * edge**2)) / 2
        now = squares_left(true, edge)
        return math.sqrt(squares_left(true, edge * math.sqrt(part)) / now) if now > 0 else 1.0

    def worth(self, forecast: Forecast, errors: float, to_come: float) -> bool:
        """Whether few classes are foreseen to be better than the tree, by so many standard errors (see
        `Forecast.better`)."""
        few = 0 < ENOUGH * forecast.factors < len(self.table.names)
        return few and len(self.blocks.own) <= MOST_CODES and forecast.better(errors, to_come)

    def measure(self, share: float, label: str) -> None:
        """Release the tables of all pairs for a share of mu^2, average them with those before, and fit."""
        session = self.state.session
        each = part_mu(session, share / len(self.table.pairs))
        requests = [Request(p, each) for p in self.table.pairs]
        new = session.measure(requests, label, recode=self.state.merged.codes)
        self.merged = self.merged.with_sums(new)
        self.answers = averaged(self.answers, new) if self.answers else list(new)
        self.fit()

    def fit(self) -> None:
        names = self.table.names
        total = self.merged.fitted_total
        rows = [np.maximum(self.merged.ones_shape[a], 0.0) for a in names]
        ones = np.concatenate([r / max(float(r.sum()), 1e-300) for r in rows])
        place = {a: self.blocks.of(i) for i, a in enumerate(names)}
        tables = np.zeros((len(ones), len(ones)))
        for m in self.answers:
            a, b = (place[name] for name in m.clique)
            table = m.values.reshape(a.stop - a.start, -1) / total
            tables[a, b], tables[b, a] = table, table.T
        noise = float(np.mean(self.answers[0].sigma)) / total
        self.loadings = loadings(self.blocks, tables, ones, noise)
        self.weights, shares = fitted(self.blocks, self.loadings, ones)
        self.shares = {a: raked(shares[s], self.weights, ones[s]) for a, s in place.items()}

    def model(self) -> Model:
        """The model of hidden classes by the tables so far."""
        hidden = self.table.hidden
        rows = self.weights * self.merged.fitted_total
        nodes = [Node((), (hidden,), rows.reshape(1, -1))]
        nodes += [Node((hidden,), (a,), self.shares[a].T * rows[:, None]) for a in self.shares]
        nodes += self.table.hanging(self.merged)
        sizes = {a: self.merged.domain[a] for a in self.state.session.domain}
        domain = Domain({**sizes, hidden: len(rows)})
        model = Model(domain, nodes, total=self.merged.fitted_total, ended="hidden classes")
        model.hidden = (hidden,)
        return model

    def with_classes(self) -> Merged:
        """The merged codes with the hidden column."""
        before = self.merged
        hidden = self.table.hidden
        full = Domain({**before.compression.full, hidden: len(self.weights)})
        return replace(
            before,
            compression=Compression(full, dict(before.codes)),
            shape={**before.shape, hidden: self.weights * before.total},
            merged_for_size={},
            ones=(),
        )

"""Estimation problems with a known table behind them, for `bench.fits`: codes, noisy measurements,
true error.

The noise is numpy's, so nothing here is private; the accounting is that of the package (squares of
mu add up, delta 1e-9, every row its own user). A problem is what `mst` would hand to the estimator
(1-ways, rare values merged, the maximum spanning tree of the true pairs) or a set of marginals
whose junction tree has cliques larger than any of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

import fastdp
from fastdp.domain import Clique, Domain
from fastdp.privacy.gdp import mu_from
from fastdp.queries import Binned

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DELTA = 1e-9
SHARES = (0.25, 0.125, 0.625)
RARE = 3.0
PAIR_CELLS = 1_000_000
MOST_CODES = 400


@dataclass(frozen=True)
class Table:
    """Codes of a table, `repeat` times over."""

    domain: Domain
    codes: np.ndarray  # int64 [rows, attributes]
    repeat: int = 1

    @property
    def rows(self) -> int:
        return len(self.codes) * self.repeat

    def marginal(self, clique: Sequence[str]) -> np.ndarray:
        """Counts, float64, flat."""
        names = list(self.domain)
        index = np.zeros(len(self.codes), np.int64)
        for a in clique:
            index = index * self.domain[a] + self.codes[:, names.index(a)]
        return np.bincount(index, minlength=self.domain.cells(clique)) * float(self.repeat)


@dataclass(frozen=True)
class Problem:
    name: str
    table: Table
    measurements: list[fastdp.Measurement]
    cliques: list[Clique]  # measured, two attributes or more

    def errors(self, model) -> dict[str, float]:
        """Mean total variation x 1000 of the measured cliques, of 2-ways and of 3-ways (fixed
        samples of at most 100, 30)."""
        rng = np.random.default_rng(7)
        names = list(self.table.domain)
        pairs = list(combinations(names, 2))
        triples = list(combinations(names, 3))
        small = [c for c in triples if self.table.domain.cells(c) <= 300_000]
        groups = {
            "measured": self.cliques,
            "2-way": [pairs[i] for i in rng.permutation(len(pairs))[:100]],
            "3-way": [small[i] for i in rng.permutation(len(small))[:30]],
        }
        return {name: 1000 * self._distance(model, cliques) for name, cliques in groups.items()}

    def _distance(self, model, cliques) -> float:
        gaps = []
        for clique in cliques:
            p = self.table.marginal(clique)
            q = np.asarray(model.marginal(clique)).reshape(-1)
            gaps.append(0.5 * np.abs(p / p.sum() - q / q.sum()).sum())
        return float(np.mean(gaps)) if gaps else math.nan


def massachusetts(repeat: int = 1) -> Table:
    """24 columns, codes taken from the file; columns with more values than MOST_CODES in 64
    quantiles."""
    import polars as pl

    frame = pl.read_csv(DATA / "acs-ma" / "ma2019.csv", infer_schema_length=0)
    columns = []
    sizes = {}
    for name in frame.columns:
        values = frame[name].to_numpy()
        distinct, codes = np.unique(values.astype(str), return_inverse=True)
        if distinct.size > MOST_CODES:
            numbers = np.array(
                [float(v) if v not in ("", "N") else -1.0 for v in values.astype(str)]
            )
            edges = np.unique(np.quantile(numbers, np.linspace(0, 1, 65)))
            codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, edges.size - 2)
            distinct = edges[1:]
        columns.append(codes.astype(np.int64))
        sizes[name] = distinct.size
    return Table(Domain(sizes), np.stack(columns, 1), repeat)


def adult() -> Table:
    import polars as pl

    domain = json.loads((DATA / "adult" / "adult-domain.json").read_text())
    frame = pl.read_csv(DATA / "adult" / "adult.csv")
    return Table(Domain(domain), frame.select(list(domain)).to_numpy().astype(np.int64))


def following(rows: int = 200_000, columns: int = 14, seed: int = 0) -> Table:
    """A generated table whose columns follow from each other: each is a function of one before it,
    but for 3 % of the rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 3, 5, 8, 12, 20, 30, 60], columns)
    sizes[0] = 60
    codes = np.empty((rows, columns), np.int64)
    weights = 1 / np.arange(1, sizes[0] + 1) ** 1.2
    codes[:, 0] = rng.choice(sizes[0], rows, p=weights / weights.sum())
    for j in range(1, columns):
        parent = int(rng.integers(max(0, j - 3), j))
        image = rng.integers(0, sizes[j], sizes[parent])
        codes[:, j] = np.where(
            rng.random(rows) < 0.97, image[codes[:, parent]], rng.integers(0, sizes[j], rows)
        )
    return Table(Domain({f"c{j}": int(n) for j, n in enumerate(sizes)}), codes)


def binary(rows: int = 22_000, columns: int = 16, seed: int = 0) -> Table:
    """Binary columns that lean on eight hidden kinds of rows, as answers of a survey do."""
    rng = np.random.default_rng(seed)
    lean = rng.beta(0.4, 0.8, size=(8, columns))
    kind = rng.choice(8, rows, p=rng.dirichlet(np.ones(8)))
    return Table(
        Domain({f"b{j}": 2 for j in range(columns)}),
        (rng.random((rows, columns)) < lean[kind]).astype(np.int64),
    )


def classes(rows: int = 60_000, seed: int = 5) -> Table:
    """Columns of 2 to 30 values that depend on one of twelve hidden classes: every pair says
    something about every other."""
    rng = np.random.default_rng(seed)
    sizes = [2, 3, 5, 8, 12, 20, 30, 6, 4, 9, 15, 2]
    hidden = rng.choice(12, rows, p=rng.dirichlet(np.ones(12)))
    columns = []
    for n in sizes:
        law = rng.gamma(0.4, size=(12, n)) + 1e-3
        law = np.cumsum(law / law.sum(1, keepdims=True), 1)
        columns.append(np.minimum((law[hidden] < rng.random(rows)[:, None]).sum(1), n - 1))
    return Table(
        Domain({f"l{j}": n for j, n in enumerate(sizes)}), np.stack(columns, 1).astype(np.int64)
    )


def wide_column(rows: int = 136_000, seed: int = 0) -> Table:
    """Nine columns about one of 147 categories."""
    rng = np.random.default_rng(seed)
    sizes = [147, 45, 3, 9, 40, 6, 90, 5, 60]
    weights = rng.gamma(0.5, size=147)
    first = rng.choice(147, rows, p=weights / weights.sum())
    columns = [first]
    for n in sizes[1:]:
        law = rng.gamma(0.15, size=(147, n)) + 1e-4
        law = np.cumsum(law / law.sum(1, keepdims=True), 1)
        columns.append(np.minimum((law[first] < rng.random(rows)[:, None]).sum(1), n - 1))
    return Table(
        Domain({f"w{j}": n for j, n in enumerate(sizes)}), np.stack(columns, 1).astype(np.int64)
    )


def _noisy(rng, values: np.ndarray, sigma: float) -> np.ndarray:
    return values + sigma * rng.normal(size=values.size)


def _dependence(table: Table, ones: dict[str, np.ndarray]) -> dict[Clique, float]:
    """L1 distance of every pair from independence (true counts: the choice is not what is measured
    here)."""
    out = {}
    for a, b in combinations(table.domain, 2):
        if table.domain.cells((a, b)) <= PAIR_CELLS:
            p = np.outer(ones[a], ones[b]).reshape(-1) / table.rows
            out[a, b] = float(np.abs(table.marginal((a, b)) - p).sum())
    return out


def _spanning(names, weight: dict[Clique, float]) -> list[Clique]:
    group = {a: {a} for a in names}
    tree = []
    for a, b in sorted(weight, key=lambda p: -weight[p]):
        if group[a] is not group[b]:
            tree.append((a, b))
            group[a] |= group[b]
            for c in group[b]:
                group[c] = group[a]
    return tree


def tree_problem(name: str, table: Table, epsilon: float, seed: int, merge: bool = True) -> Problem:
    """What `mst` measures: 1-ways, then the pairs of a spanning tree with rare values merged."""
    rng = np.random.default_rng(1000 * seed + 17)
    mu = mu_from(epsilon, DELTA)
    d = len(table.domain)
    sigma_1 = math.sqrt(d / SHARES[0]) / mu
    sigma_2 = math.sqrt((d - 1) / SHARES[2]) / mu
    truth = {a: table.marginal((a,)) for a in table.domain}
    tree = _spanning(list(table.domain), _dependence(table, truth))
    seen = []
    bins = {}
    for a in table.domain:
        y = _noisy(rng, truth[a], sigma_1)
        seen.append(fastdp.Measurement((a,), y, sigma_1))
        keep = y >= RARE * sigma_1
        bins[a] = np.where(keep, np.cumsum(keep) - 1, keep.sum())
    for pair in tree:
        if merge:
            query = Binned(table.domain.shape(pair), [bins[a].tolist() for a in pair])
        else:
            query = None
        counts = table.marginal(pair)
        counts = query.product(counts) if query is not None else counts
        seen.append(fastdp.Measurement(pair, _noisy(rng, counts, sigma_2), sigma_2, query))
    return Problem(f"{name}, epsilon {epsilon:g}", table, seen, tree)


def marginal_problem(
    name: str, table: Table, epsilon: float, seed: int, cliques: list[Clique]
) -> Problem:
    """1-ways with 0.2 of the budget, the given cliques with the rest, all alike."""
    rng = np.random.default_rng(1000 * seed + 29)
    mu = mu_from(epsilon, DELTA)
    d = len(table.domain)
    sigma_1 = math.sqrt(d / 0.2) / mu
    sigma_k = math.sqrt(len(cliques) / 0.8) / mu
    seen = [
        fastdp.Measurement((a,), _noisy(rng, table.marginal((a,)), sigma_1), sigma_1)
        for a in table.domain
    ]
    seen += [
        fastdp.Measurement(c, _noisy(rng, table.marginal(c), sigma_k), sigma_k) for c in cliques
    ]
    return Problem(f"{name}, epsilon {epsilon:g}", table, seen, list(cliques))


def strongest(table: Table, pairs: int, cells: int) -> list[Clique]:
    """The pairs furthest from independence that keep the junction tree within `cells`."""
    from fastdp.model.junction_tree import junction_tree

    ones = {a: table.marginal((a,)) for a in table.domain}
    weight = _dependence(table, ones)
    kept: list[Clique] = _spanning(list(table.domain), weight)
    for pair in sorted(weight, key=lambda p: -weight[p]):
        if len(kept) == pairs:
            break
        if pair not in kept and junction_tree(table.domain, [*kept, pair], 2**60).cells <= cells:
            kept.append(pair)
    return kept

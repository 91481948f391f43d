"""Scores in the manner of the 2018 synthetic data challenge (1940 census), for any table.

There are three parts, each 0..1. `three_way`: 1 minus the mean total variation of a hundred random
3-way marginals. `conjunctions`: how close the shares of rows that meet random conditions are in both
tables. `income`: how close the inequality of wages by city and the pay gap between the sexes are.
The marginals and conditions are drawn with our own seed, so these scores are comparable with each
other but not with the contest's results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._util.lazy import pa
from .. import kmarginal
from ..compare import Comparison
from ..inputs import Pair
from ..metric import metric

TRIPLES = 100
"""Sets of three columns whose marginals are compared."""
TESTS = 300
"""Random selections of rows whose shares are compared."""
TAKES_PART = 0.1
"""Probability that a column takes part in such a selection."""
FLOOR = 1e-6  # shares below FLOOR are replaced by FLOOR, so that their logarithm is finite
NO_WAGE = 999_998  # from here on, INCWAGE of the census states why there is no wage
INCOME = ("INCWAGE", "CITY", "SEX")


def score(
    pair: Pair,
    truth: pa.Table | None = None,
    synthetic: pa.Table | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
) -> dict[str, Any]:
    """Keys: `three_way`, `conjunctions`, `income` (None unless both tables are given as values and
    have the columns INCWAGE, CITY and SEX), and `score`, the mean of those that are not None."""
    three = kmarginal.score(pair, 3, limit=TRIPLES, seed=seed, threads=threads)
    parts: dict[str, float | None] = {"three_way": 1.0 - three["mean_variation"], "income": None}
    parts["conjunctions"] = conjunctions(pair, seed=seed)
    if truth is not None and synthetic is not None:
        if all(set(INCOME) <= set(t.column_names) for t in (truth, synthetic)):
            parts["income"] = income(truth, synthetic)
    scored = [v for v in parts.values() if v is not None]
    about = {"tests": TESTS, "triples": three["marginals"], "seed": seed}
    return {"score": float(np.mean(scored)), **parts, **about}


def conjunctions(pair: Pair, *, seed: int = 0) -> float:
    """max(0, 1 - rms(ln q - ln p) / ln 1000) over random conditions. p is the share of rows of the
    truth that meet the condition, and q the same share of the synthetic table.

    A condition is about a random set of columns: each column is in it with probability 0.1, and the
    set has at least one. For each of these columns, a row must have one of a random set (of random
    size) of the values that occur in the truth. For an ordered column this set is a random
    interval.
    """
    if 0 in pair.rows:
        return float(pair.rows[0] == pair.rows[1])
    rng = np.random.default_rng(seed)
    occurring = {
        n: np.flatnonzero(np.bincount(pair.truth[n], minlength=pair.sizes[n])) for n in pair.names
    }
    errors = np.empty(TESTS)
    for t in range(TESTS):
        chosen = np.flatnonzero(rng.random(len(pair.names)) < TAKES_PART)
        if len(chosen) == 0:
            chosen = rng.integers(0, len(pair.names), 1)
        conditions = {pair.names[c]: _allowed(pair, pair.names[c], occurring, rng) for c in chosen}
        sides = zip((pair.truth, pair.synthetic), pair.rows)
        p, q = (max(FLOOR, _share(codes, conditions, rows)) for codes, rows in sides)
        errors[t] = np.log(q) - np.log(p)
    return float(max(0.0, 1.0 - np.sqrt((errors**2).mean()) / np.log(1000.0)))


def _allowed(pair: Pair, name: str, occurring: dict, rng: np.random.Generator) -> np.ndarray:
    values = occurring[name]
    count = int(rng.integers(1, len(values) + 1))
    allowed = np.zeros(pair.sizes[name], dtype=bool)
    if pair.ordered.get(name):
        start = int(rng.integers(0, len(values) - count + 1))
        allowed[values[start] : values[start + count - 1] + 1] = True
    else:
        allowed[rng.choice(values, count, replace=False)] = True
    return allowed


def _share(codes: dict[str, np.ndarray], conditions: dict[str, np.ndarray], rows: int) -> float:
    """Share of rows that meet every condition. The condition that allows the smallest part of its
    codes comes first. Each later one is tested only on the rows that met those before it."""
    order = sorted(conditions, key=lambda n: conditions[n].mean())
    left = np.flatnonzero(conditions[order[0]][codes[order[0]]])
    for name in order[1:]:
        left = left[conditions[name][codes[name][left]]]
    return len(left) / rows


def income(truth: pa.Table, synthetic: pa.Table) -> float:
    """1 - (e1 + e2) / 2 over the cities of the truth. e1 is the rms difference between both tables'
    Gini coefficients of positive wages in a city. e2 is the mean difference between both tables'
    ranks of a city by pay gap (ratio of the sexes' mean wages), divided by the largest possible
    rank."""
    sides = [_inequality(t) for t in (truth, synthetic)]
    cities = sorted(sides[0])
    if not cities:
        return float(not sides[1])
    lost = (0.0, 1.0)
    gini, gap = (
        np.array([[side.get(c, lost)[k] for c in cities] for side in sides]) for k in (0, 1)
    )
    first = float(np.sqrt(((gini[0] - gini[1]) ** 2).mean()))
    ranks = np.argsort(np.argsort(gap, axis=1, kind="stable"), axis=1)
    second = float(np.abs(ranks[0] - ranks[1]).mean() / max(1, len(cities) - 1))
    return 1.0 - 0.5 * (first + second)


def _inequality(table: pa.Table) -> dict[Any, tuple[float, float]]:
    """City -> (Gini coefficient of wages, women's mean wage over men's)."""
    wage, city, sex = (table[c].to_numpy().astype(np.int64) for c in INCOME)
    paid = (wage > 0) & (wage < NO_WAGE)
    wage = wage[paid]
    city = city[paid]
    sex = sex[paid]
    out = {}
    for place in np.unique(city):
        wages = np.sort(wage[city == place]).astype(np.float64)
        n = len(wages)
        gini = float((2.0 * np.arange(1, n + 1) - n - 1.0) @ wages / (n * wages.sum()))
        means = [wage[(city == place) & (sex == s)] for s in (1, 2)]
        ratio = float(means[1].mean() / means[0].mean()) if all(len(m) for m in means) else 1.0
        out[int(place)] = (gini, ratio)
    return out


@metric("nist2018", rank=12)
def of_tables(comparison: Comparison) -> dict[str, Any]:
    truth = None
    synthetic = None
    if comparison.in_values:
        truth = comparison.truth
        synthetic = comparison.synthetic
    return score(
        comparison.pair,
        truth,
        synthetic,
        seed=comparison.seed,
        threads=comparison.threads,
    )

"""Simulated households and their persons: two linked tables.

A household has a type, which decides its persons: one head, at most one spouse, children at least 16 years
younger than the youngest parent, and others who share. Nobody under 16 works; income is the sum of what the
persons earn; regions differ in tenure, types and income.
"""

from __future__ import annotations

import numpy as np

from fastdp.simulate._draw import check_int

from .._util.lazy import pa

REGIONS = ("centre", "north", "south", "east", "west", "coast")
TYPES = ("single", "couple", "family", "lone parent", "shared")
TENURES = ("owned", "rented", "social")
RELATIONS = ("head", "spouse", "child", "other")
EDUCATION = ("none", "school", "vocational", "university")
_WORLD = 1789


def households(rows: int, seed: int = 0) -> dict[str, pa.Table]:
    """`rows` households and their persons, as two tables: "households" (household_id, region, type, tenure,
    income) and "persons" (household_id, relation, age, sex, education, works). Equal arguments give equal
    tables."""
    rows = check_int("rows", rows, 0, 5_000_000)
    rng = np.random.default_rng((check_int("seed", seed, 0, 2**63 - 1), 0x4053))
    world = np.random.default_rng(_WORLD)
    region = rng.choice(len(REGIONS), rows, p=[0.3, 0.2, 0.15, 0.15, 0.12, 0.08])
    kind = _pick(world.dirichlet([9.0, 7.0, 8.0, 3.0, 2.0], len(REGIONS))[region], rng)
    old = np.array([52, 58, 42, 40, 29])[kind]
    head = np.clip(np.rint(rng.normal(old, np.array([20, 15, 8, 8, 7])[kind])), 18, 95).astype(int)
    head = np.maximum(head, np.where((kind == 2) | (kind == 3), 20, 18))

    spouse = ((kind == 1) | (kind == 2)).astype(int)
    children = np.where(kind == 2, 1 + rng.binomial(3, 0.3, rows), 0)
    children = np.where(kind == 3, 1 + rng.binomial(2, 0.25, rows), children)
    others = np.where(kind == 4, 1 + rng.poisson(1.2, rows), rng.random(rows) < 0.03).astype(int)
    size = 1 + spouse + children + others

    own = np.repeat(np.arange(rows), size)
    place = np.arange(len(own)) - np.repeat(np.cumsum(size) - size, size)
    ends = np.stack([np.ones(rows, int), 1 + spouse, 1 + spouse + children])[:, own]
    relation = (place >= ends).sum(axis=0)
    partner = np.clip(np.rint(head + rng.normal(-1, 4, rows)), 18, 95).astype(int)
    youngest = np.where(spouse == 1, np.minimum(head, partner), head)[own]
    gap = 16 + rng.gamma(6, 2.0, len(own)).astype(int)
    age = np.select(
        [relation == 0, relation == 1, relation == 2],
        [head[own], partner[own], np.clip(youngest - gap, 0, 40)],
        np.clip(np.rint(rng.normal(np.where(kind[own] == 4, 28, 68), 9)), 18, 95).astype(int),
    )
    age = np.where(relation == 2, np.minimum(age, np.maximum(youngest - 16, 0)), age).astype(np.int64)
    sex, head_of = rng.integers(0, 2, len(own)), np.searchsorted(own, own)
    sex = np.where((relation == 1) & (rng.random(len(own)) < 0.95), 1 - sex[head_of], sex)

    learnt = world.dirichlet([2.0, 6.0, 6.0, 5.0], len(REGIONS))[region[own]]
    education = np.where(age < 16, 0, np.where(age < 19, 1, _pick(learnt, rng)))
    chance = np.select([age < 16, age < 25, age < 65], [0.0, 0.5, 0.72 + 0.06 * education], 0.06)
    works = rng.random(len(own)) < chance
    wage = works * (14 + 9 * education + 4 * (region[own] == 0)) * rng.lognormal(0, 0.35, len(own))
    income = np.bincount(own, wage, rows) + rng.gamma(2, 5, rows)
    rich = 1 / (1 + np.exp(-(income - 45) / 15))
    tenure = np.where(rng.random(rows) < 0.15 + 0.6 * rich, 0, 1 + (rng.random(rows) < 0.4 - 0.3 * rich))

    order = rng.permutation(len(own))
    ids = rng.permutation(10 * rows + 10)[:rows] + 1
    texts = {"relation": RELATIONS, "sex": ["F", "M"], "education": EDUCATION}
    coded = {"relation": relation, "age": age, "sex": sex, "education": education, "works": works}
    values = {n: np.array(texts[n])[c] if n in texts else c for n, c in coded.items()}
    parents = {"household_id": ids, "region": np.array(REGIONS)[region], "type": np.array(TYPES)[kind]}
    parents |= {"tenure": np.array(TENURES)[tenure], "income": np.rint(income * 1000).astype(np.int64)}
    persons = {"household_id": ids[own][order]} | {k: v[order] for k, v in values.items()}
    return {"households": pa.table(parents), "persons": pa.table(persons)}


def _pick(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw per row of weights that add up to 1."""
    ends = np.cumsum(weights, axis=1)
    return (rng.random(len(ends))[:, None] > ends).sum(axis=1).clip(0, weights.shape[1] - 1)

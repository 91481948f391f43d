"""Simulated households and their persons: two linked tables.

A household has a type, which decides its persons. There is one head and at most one spouse.
Children are at least 16 years younger than the youngest parent, and others may share the household.
Nobody under 16 works; income is the sum of what the persons earn; regions differ in tenure, types
and income.
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
_WORLD = 1789  # the seed of what all tables share: kinds of households by region
SINGLE, COUPLE, FAMILY, LONE_PARENT, SHARED = range(len(TYPES))
HEAD, SPOUSE, CHILD, OTHER = range(len(RELATIONS))


def households(rows: int, seed: int = 0) -> dict[str, pa.Table]:
    """`rows` households and their persons, as two tables: "households" (household_id, region, type,
    tenure, income) and "persons" (household_id, relation, age, sex, education, works). Equal
    arguments give equal tables."""
    rows = check_int("rows", rows, 0, 5_000_000)
    rng = np.random.default_rng((check_int("seed", seed, 0, 2**63 - 1), 0x4053))
    world = np.random.default_rng(_WORLD)
    region = rng.choice(len(REGIONS), rows, p=[0.3, 0.2, 0.15, 0.15, 0.12, 0.08])
    kind = _pick(world.dirichlet([9.0, 7.0, 8.0, 3.0, 2.0], len(REGIONS))[region], rng)
    of, relation, age = _members(kind, rng)
    sex = rng.integers(0, 2, len(of))
    sex_of_head = sex[np.searchsorted(of, of)]
    sex = np.where((relation == SPOUSE) & (rng.random(len(of)) < 0.95), 1 - sex_of_head, sex)

    learnt = world.dirichlet([2.0, 6.0, 6.0, 5.0], len(REGIONS))[region[of]]
    education = np.where(age < 16, 0, np.where(age < 19, 1, _pick(learnt, rng)))
    chance = np.select([age < 16, age < 25, age < 65], [0.0, 0.5, 0.72 + 0.06 * education], 0.06)
    works = rng.random(len(of)) < chance
    wage = works * (14 + 9 * education + 4 * (region[of] == 0)) * rng.lognormal(0, 0.35, len(of))
    income = np.bincount(of, wage, rows) + rng.gamma(2, 5, rows)
    rich = 1 / (1 + np.exp(-(income - 45) / 15))
    owns = rng.random(rows) < 0.15 + 0.6 * rich
    tenure = np.where(owns, 0, 1 + (rng.random(rows) < 0.4 - 0.3 * rich))

    order = rng.permutation(len(of))
    ids = rng.permutation(10 * rows + 10)[:rows] + 1
    parents = {
        "household_id": ids,
        "region": np.array(REGIONS)[region],
        "type": np.array(TYPES)[kind],
        "tenure": np.array(TENURES)[tenure],
        "income": np.rint(income * 1000).astype(np.int64),
    }
    persons = {
        "household_id": ids[of],
        "relation": np.array(RELATIONS)[relation],
        "age": age,
        "sex": np.array(["F", "M"])[sex],
        "education": np.array(EDUCATION)[education],
        "works": works,
    }
    return {
        "households": pa.table(parents),
        "persons": pa.table({name: values[order] for name, values in persons.items()}),
    }


def _members(
    kind: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each person the household's number, the relation and the age; heads come first, then
    spouses."""
    rows = len(kind)
    head = _adult(
        rng.normal(np.array([52, 58, 42, 40, 29])[kind], np.array([20, 15, 8, 8, 7])[kind])
    )
    head = np.maximum(head, np.where((kind == FAMILY) | (kind == LONE_PARENT), 20, 18))
    spouses = ((kind == COUPLE) | (kind == FAMILY)).astype(int)
    children = np.where(kind == FAMILY, 1 + rng.binomial(3, 0.3, rows), 0)
    children = np.where(kind == LONE_PARENT, 1 + rng.binomial(2, 0.25, rows), children)
    others = np.where(kind == SHARED, 1 + rng.poisson(1.2, rows), rng.random(rows) < 0.03).astype(
        int
    )

    size = 1 + spouses + children + others
    of = np.repeat(np.arange(rows), size)
    place = np.arange(len(of)) - np.repeat(np.cumsum(size) - size, size)
    ends = np.stack([np.ones(rows, int), 1 + spouses, 1 + spouses + children])
    relation = (place >= ends[:, of]).sum(axis=0)

    spouse = _adult(head + rng.normal(-1, 4, rows))
    parent = np.where(spouses == 1, np.minimum(head, spouse), head)[of]  # the youngest
    child = np.clip(parent - 16 - rng.gamma(6, 2.0, len(of)).astype(int), 0, 40)
    other = _adult(rng.normal(np.where(kind[of] == SHARED, 28, 68), 9))
    by_relation = [head[of], spouse[of], child, other]
    return of, relation, np.choose(relation, by_relation).astype(np.int64)


def _adult(age: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(age), 18, 95).astype(int)


def _pick(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw per row of weights that add up to 1."""
    ends = np.cumsum(weights, axis=1)
    return (rng.random(len(ends))[:, None] > ends).sum(axis=1).clip(0, weights.shape[1] - 1)

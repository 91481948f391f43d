"""Sums by group from two releases: direction hats, then capped sums by group.

A user with the vector y over groups adds hat weights of |y| times y / |y| (`DirectionHats`), and
then y cut to the length C (`CappedGroups`). Of each group both are linear in the same masses, so a
group is estimated as in `sums`. Each group has its own last measured corner. The shape of its tail
is drawn towards that of all groups together. Groups of which too little is visible are withheld:
of them only the capped sum is given, which is exactly Gaussian.
"""

import numpy as np
from msgspec import Struct

from . import tail_posterior as tails
from .sum_estimates import HIDDEN, Draws, Interval, Masses, busiest, chosen_cap, linear, lower_end

LEAST_SHARE = 0.3
"""A group's mass at the start is at least this part of the noise, so that its logarithm exists."""
DRAWS = 1000


class Column(Struct, frozen=True, eq=False):
    """Masses of one group and sign, with the law fitted to them. `size`: its visible users."""

    c: np.ndarray
    size: float
    measured: int
    full: np.ndarray
    masses: np.ndarray
    chance: np.ndarray


class GroupLook(Struct, frozen=True, eq=False):
    """What direction hats show. `columns[sign][group]`; `at`: of all groups together; `bends`: the
    last corner that all groups together measure; `cap`: of the capped sums that are to follow."""

    corners: np.ndarray
    s: float
    at: tails.Visible
    bends: int
    columns: list[list[Column]]
    given: np.ndarray
    cap: int


def look(
    values: np.ndarray,
    s: float,
    corners: np.ndarray,
    groups: int,
    signed: bool,
    whole: float,
) -> GroupLook:
    """Read the answers of `DirectionHats`; arguments as of `sums.look`."""
    corners = np.asarray(corners, np.float64)
    c = values.reshape(len(corners), 1 + signed, groups)
    pool = c[:, 0].sum(1)
    noise = s * np.sqrt(groups)
    at = tails.visible(pool, noise)
    upto = min(at.last + 1, len(corners) - 1)
    masses, chance = tails.law(pool, noise, upto, at, tails.levels(pool, noise, at))
    full = tails.with_visible(
        tails.expected(pool, masses, chance, at), pool, noise, max(at.last, at.alone)
    )
    least = max(at.start, min(1, len(corners) - 1))
    bends = tails.measured_corner(full, whole * np.sqrt(groups), corners, least, at.alone)
    shape = (len(tails.SLOPES), len(tails.CURVES), -1)
    prior = np.log(np.maximum(chance.reshape(shape).sum(-1), 1e-12))
    pooled = max(float(pool[: at.last + 1].sum()), 1e-9)
    columns = []
    for sign in range(1 + signed):
        sides = [
            _column(c[:, sign, g], s, whole, corners, at, prior, pool, pooled, groups)
            for g in range(groups)
        ]
        columns.append(sides)
    sizes = np.array([column.size for column in columns[0]])
    clear = bool(pool[max(at.start - 1, 0) : at.last + 1].max() >= tails.MODE * noise)
    given = (sizes >= tails.NEED * s) & clear
    shown = [x.measured for x, there in zip(columns[0], given) if there]
    typical = int(np.median(shown)) if shown else min(x.measured for x in columns[0])
    cap = min(chosen_cap(full, corners, bends), int(corners[typical]))
    if not clear:
        cap = int(corners[busiest(pool)])
    return GroupLook(corners, s, at, bends, columns, given, cap)


def _column(
    c: np.ndarray,
    s: float,
    whole: float,
    corners: np.ndarray,
    at: tails.Visible,
    prior: np.ndarray,
    pool: np.ndarray,
    pooled: float,
    groups: int,
) -> Column:
    size = float(c[: at.last + 1].sum())
    share = max(size, s * np.sqrt(at.last + 1)) / pooled
    level = np.log(max(share * max(float(pool[at.start]), 0.0), LEAST_SHARE * s))
    grid = level + np.linspace(-1.2, 1.2, 17)
    upto = min(at.last + 1, len(c) - 1)
    masses, chance = tails.law(c, s, upto, at, grid, prior)
    single = np.flatnonzero(c > tails.FAR_ALONE * s)
    alone = max(tails.isolated(c, s, at.last, groups), int(single[-1]) if len(single) else -1)
    full = tails.with_visible(tails.expected(c, masses, chance, at), c, s, max(at.last, alone))
    measured = tails.measured_corner(full, whole, corners, at.start, alone)
    masses, chance = tails.law(c, s, measured, at, grid, prior)
    return Column(c, size, measured, full, masses, chance)


def total(
    seen: GroupLook,
    group: int,
    rng: np.random.Generator,
    capped: tuple[float, float] | None = None,
) -> Draws:
    """Draws of the sum of one group. `capped`: its capped sum and the noise of it."""
    masses = Masses(float(seen.cap))
    for sign, columns in zip((1, -1), seen.columns):
        column = columns[group]
        tail = _tail(seen, column, seen.columns[0][group], rng)
        masses.add(sign, column.c, column.full, seen.corners, tail)
    draws = masses.draws(seen.s, capped, rng)
    if len(seen.columns) == 2:
        return draws
    column = seen.columns[0][group]
    least = lower_end(
        column.c, seen.s, seen.corners, column.measured, seen.cap, masses.inside, capped
    )
    return Draws(draws.values, draws.weight, least, draws.cluster)


def exact(seen: GroupLook, group: int, capped: tuple[float, float]) -> Interval:
    """The sum of one group where nobody's vector is longer than the last corner: no model."""
    c = np.concatenate([columns[group].c for columns in seen.columns])
    t = np.concatenate([sign * seen.corners for sign in (1, -1)[: len(seen.columns)]])
    return linear(c, t, seen.s, seen.cap, capped)


def _tail(seen: GroupLook, column: Column, above: Column, rng: np.random.Generator) -> tails.Tail:
    """The tail of a group: its own, or of users below zero that noise hides like that above zero,
    in proportion to how many of them there may be."""
    s, t = seen.s, seen.corners
    if column is above or column.size >= tails.NEED * s:
        return tails.draw(
            column.c,
            s,
            column.measured,
            seen.at,
            column.masses,
            column.chance,
            t,
            rng,
            draws=DRAWS,
            bends=seen.bends,
        )
    measured = max(above.measured - HIDDEN, 1)
    k = measured + 1
    users = max(above.size, 1.0)
    there = max(float(column.c[:k].sum()), 0.0) / users
    hidden = s * np.sqrt(k) / users * np.abs(rng.standard_normal(DRAWS))
    few = rng.poisson(np.minimum((there + hidden)[:, None] * above.full[None, k:], 1e6))
    return tails.Tail(measured, few, tails.amounts(few, t[k:], rng), np.zeros(DRAWS))

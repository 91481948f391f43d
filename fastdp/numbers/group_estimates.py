"""Sums by group from two releases: direction hats at all corners, then at a few.

A user with the vector y over groups adds hat weights of |y| times y / |y| (`DirectionHats`). Then it
adds them again at a few corners: the cap C, and the amount X that nobody is taken to exceed
(`hidden_users`). These give the sum with y cut to the length C, and a total with the noise of X
alone. Of each group all are linear in the same masses, so a group is estimated as in `sums`. Each
group has its own last measured corner. The shape of its tail is drawn towards that of all groups
together. Groups of which too little is visible are withheld: of them only the capped sum is given,
which is exactly Gaussian.
"""

import math

import msgspec
import numpy as np
from msgspec import Struct

from . import hidden_users, tail_posterior as tails
from .declared import Declared
from .hidden_users import Ends, Z
from .sum_estimates import (
    HIDDEN,
    Draws,
    Interval,
    Masses,
    busiest,
    chosen_cap,
    corners_up_to,
    normal,
    side_reach,
)

LEAST_SHARE = 0.3
"""A group's mass at the start is at least this part of the noise, so that its logarithm exists."""
DRAWS = 1000
"""Draws of the groups' tails from which intervals are taken."""


class Column(Struct, frozen=True, eq=False):
    """Masses of one group and sign. `size`: its visible users. Where they are enough for a law:
    `measured`, its last measured corner, `full`, the masses that the law expects, and `grid`, of the
    law's log masses at the start. Else noise alone is seen, and nobody is expected."""

    c: np.ndarray
    size: float
    measured: int
    full: np.ndarray
    grid: np.ndarray


class GroupLook(Struct, frozen=True, eq=False):
    """What direction hats show of a sum by group.

    `columns[sign][group]`: of each group. `at`: of all groups together. `bends`: the last corner that all
    groups together measure. `given`: the groups whose users stand out. `cap`: of the capped sums that are to
    follow. `heavy`: the tail of all groups may be one whose sum is infinite. `full`: expected masses of all
    groups, of `pooled` users. `prior`: of the shape of a group's tail. `most`: what a user of each group has
    at most, if it is to be covered."""

    corners: np.ndarray
    s: float
    at: tails.Visible
    bends: int
    columns: list[list[Column]]
    given: np.ndarray
    cap: int
    heavy: bool
    full: np.ndarray
    pooled: float
    prior: np.ndarray
    most: np.ndarray


def look(
    values: np.ndarray,
    s: float,
    corners: np.ndarray,
    groups: int,
    signed: bool,
    whole: float,
    allowed: float | None = None,
    known: float = 0.0,
    likely: float | None = None,
) -> GroupLook:
    """Read the answers of `DirectionHats`; arguments as of `sums.look`. `known`: an amount that users
    have of whom another release shows signs."""
    corners = np.asarray(corners, np.float64)
    c = values.reshape(len(corners), 1 + signed, groups)
    pool = c[:, 0].sum(1)
    noise = s * np.sqrt(groups)
    at, masses, chance, infinite = tails.seen_law(pool, noise)
    full = tails.with_visible(
        tails.expected(pool, masses, chance, at), pool, noise, max(at.last, at.alone)
    )
    least = max(at.start, min(1, len(corners) - 1))
    bends = tails.measured_corner(full, whole * np.sqrt(groups), corners, least, at.alone)
    shape = (len(tails.SLOPES), len(tails.CURVES), -1)
    prior = np.log(np.maximum(chance.reshape(shape).sum(-1), 1e-12))
    pooled = max(float(pool[: at.last + 1].sum()), 1e-9)
    clear = bool(pool[at.mode : at.last + 1].max() >= tails.MODE * noise)
    heavy = clear and infinite > tails.INFINITE
    sizes = c[: at.last + 1].sum(0)
    there = (sizes >= tails.NEED * s) & clear & (not heavy)

    def column(sign: int, g: int, law: bool) -> Column:
        own = c[:, sign, g]
        if not law:
            return Column(own, float(sizes[sign, g]), 0, np.zeros(len(own)), np.zeros(0))
        return _column(own, s, whole, corners, at, prior, pool, pooled, groups)

    columns = [
        [column(sign, g, bool(there[sign, g])) for g in range(groups)] for sign in range(1 + signed)
    ]
    given = there[0]
    shown = [x.measured for x, one in zip(columns[0], given) if one]
    if not shown:
        middle = int(np.argsort(sizes[0], kind="stable")[groups // 2])
        shown = [column(0, middle, law=True).measured]
    typical = int(np.median(shown))
    cap = min(chosen_cap(full, corners, bends), int(corners[typical]))
    if not clear:
        cap = int(corners[busiest(pool[: corners_up_to(corners, likely)])])
    full = tails.at_least_as_seen(full, pool, at)
    reach = _most(full * _shares(columns, s, pooled)[:, None], corners, Z * whole, at)
    reach = [max(m, _signs(pool, noise, corners, at, m), known) for m in reach]
    last = float(corners[max(at.last, at.alone)])
    alike = np.minimum(_alike(np.array(reach), given), corners[-1])
    most = np.array([hidden_users.within(m, allowed, last) for m in alike.tolist()])
    return GroupLook(
        corners=corners,
        s=s,
        at=at,
        bends=bends,
        columns=columns,
        given=given,
        cap=cap,
        heavy=heavy,
        full=full,
        pooled=pooled,
        prior=prior,
        most=most,
    )


def testable(seen: GroupLook, facts: Declared) -> float | None:
    """The largest claim of groups that are given, if users may have more: not where a maximum is
    declared, nor where the schema allows no more."""
    if facts.maximum is not None or not seen.given.any():
        return None
    claim = float(seen.most[seen.given].max())
    most = min(float(seen.corners[-1]), math.inf if facts.allowed is None else facts.allowed)
    return claim if claim < most else None


def with_claims(seen: GroupLook, times: float, allowed: float | None) -> GroupLook:
    """Claims so many times as large; infinite: no group is given."""
    if times == 1.0:
        return seen
    if math.isinf(times):
        return msgspec.structs.replace(seen, given=np.zeros_like(seen.given))
    last = float(seen.corners[max(seen.at.last, seen.at.alone)])
    most = np.minimum(seen.most * times, seen.corners[-1])
    most = np.array([hidden_users.within(m, allowed, last) for m in most.tolist()])
    return msgspec.structs.replace(seen, most=most)


def _shares(columns: list[list[Column]], s: float, pooled: float) -> np.ndarray:
    """The part of all users that each group has."""
    sizes = np.array([[column.size for column in side] for side in columns])
    return np.asarray(np.maximum(sizes.max(0), 2 * s) / pooled)


def _most(masses: np.ndarray, corners: np.ndarray, hidden: float, at: tails.Visible) -> list[float]:
    """What a user of each group has at most, if amounts are spread as those of all groups together:
    users far above all others are visible there first. `masses[group]`: expected ones; `hidden`: so
    many users cannot be told from none."""
    mean = hidden_users.mean_of(masses[0], corners, max(at.last, at.alone))
    mean *= hidden_users.GROUP_MEANS
    times = hidden_users.GROUP_TIMES
    return [hidden_users.most_of_a_user(own, corners, hidden, times, mean) for own in masses]


def _signs(
    pool: np.ndarray, noise: float, corners: np.ndarray, at: tails.Visible, most: float
) -> float:
    """The amount that users have of whom all groups together show signs, up to `SIGNS` times the
    most; 0 without signs."""
    upto = int(np.searchsorted(corners, hidden_users.SIGNS * most, "right"))
    signs = tails.suspected(pool[:upto], noise, max(at.last, at.alone))
    if signs < 0:
        return 0.0
    return float(corners[min(signs + hidden_users.SPREAD, len(corners) - 1)])


def _alike(most: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The most of the median group that is given, or some octaves more or less. Groups that are about
    equal have the same, so that second hats need few corners."""
    shown = most[given] if given.any() else most
    typical = hidden_users.nearest_round(float(np.median(shown)))
    return np.asarray(typical * 2.0 ** np.round(np.log2(most / typical)))


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
    masses, chance, _ = tails.law(c, s, upto, at, grid, prior)
    single = np.flatnonzero(c > tails.FAR_ALONE * s)
    alone = max(tails.isolated(c, s, at.last, groups), int(single[-1]) if len(single) else -1)
    full = tails.with_visible(tails.expected(c, masses, chance, at), c, s, max(at.last, alone))
    measured = tails.measured_corner(full, whole, corners, at.start, alone)
    return Column(c, size, measured, full, grid)


class Again(Struct, frozen=True, eq=False):
    """Direction hats at a few corners: `values[corner, sign, group]`, with noise s."""

    corners: tuple[int, ...]
    values: np.ndarray
    s: float

    def capped(self, group: int, cap: int) -> tuple[float, float]:
        """(The sum of one group with every user cut to the length `cap`, its noise). Weights of the
        corners from the cap on add up to 1 for users above it, so the sum is exact."""
        cut = np.minimum(np.array(self.corners, np.float64), cap)
        signs = np.array([1.0, -1.0])[: self.values.shape[1]]
        noise = self.s * math.sqrt(len(signs) * float(cut @ cut))
        return float(cut @ self.values[:, :, group] @ signs), noise

    def masses(self, group: int) -> hidden_users.Masses:
        corners = np.array(self.corners, np.float64)
        return hidden_users.Masses(corners, self.values[:, :, group].T, self.s)


def corners_again(seen: GroupLook, largest: float | None) -> tuple[int, ...]:
    """Corners of the second hats: the cap, what users have at most in each group that is given, and
    the largest amount where it is known. Every further corner adds noise to capped sums."""
    most = {int(m) for m in seen.most[seen.given].tolist()}
    last = set() if largest is None else {int(largest)}
    return tuple(sorted({1, seen.cap} | most | last))


def total(
    seen: GroupLook,
    group: int,
    rng: np.random.Generator,
    capped: tuple[float, float] | None = None,
    again: hidden_users.Masses | None = None,
) -> Draws:
    """Draws of the sum of one group. `capped`: its capped sum and the noise of it; `again`: the
    release it comes from."""
    masses = Masses(float(seen.cap))
    for sign, columns in zip((1, -1), seen.columns):
        column = columns[group]
        tail = _tail(seen, column, seen.columns[0][group], float(seen.most[group]), rng)
        masses.add(sign, column.c, seen.s, column.full, seen.corners, tail)
    values, weight = masses.draws(capped, rng)
    releases = [_first(seen, group)] + ([] if again is None else [again])
    most = float(seen.most[group])
    above = seen.columns[0][group]
    reach = []
    for column in (side[group] for side in seen.columns):
        measured = column.measured if len(column.grid) else above.measured
        reach.append(side_reach(column.c, measured, seen.s, seen.corners, most))
    ends = Ends(reach, releases)
    return Draws(values, weight, ends.low(), ends.high())


def _first(seen: GroupLook, group: int) -> hidden_users.Masses:
    """The first hats of one group."""
    masses = np.array([side[group].c for side in seen.columns])
    return hidden_users.Masses(seen.corners, masses, seen.s)


def exact(seen: GroupLook, group: int, again: hidden_users.Masses, most: float) -> Interval:
    """The sum of one group where nobody's vector is longer than `most`: no model."""
    releases = [_first(seen, group), again]
    return normal(*hidden_users.best_sum(len(seen.columns), releases, most))


def _tail(
    seen: GroupLook, column: Column, above: Column, most: float, rng: np.random.Generator
) -> tails.Tail:
    """The tail of a group: its own, or of users below zero that noise hides like that above zero,
    in proportion to how many of them there may be."""
    s = seen.s
    t = seen.corners
    if column is above or len(column.grid):
        masses, chance, _ = tails.law(
            column.c, s, column.measured, seen.at, column.grid, seen.prior
        )
        return tails.draw(
            column.c,
            s,
            column.measured,
            seen.at,
            masses,
            chance,
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
    reach = t[k:] <= max(most, float(t[min(k, len(t) - 1)]))  # a claim ends the law of hidden users
    few = rng.poisson(np.minimum((there + hidden)[:, None] * (above.full[k:] * reach), 1e6))
    return tails.Tail(measured, few, tails.amounts(few, t[k:], rng), np.zeros(DRAWS))

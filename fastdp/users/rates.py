"""Agreement rates from released sums, and what they say about each column: constant, repeated or free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..measurement import Measurement

GROUPS = (2, 4, 16, 64, 256, 1024)
"""Groups of users, by their number of rows, whose rates are released (a single row agrees with nothing)."""

# Chosen on flights, Chicago trips and simulated trips (docs/guide/users.md).
LEAST_LIFT, SHRUNK_LIFT = 0.02, 0.01
"""Users repeat something if the lift of a column, (agreement - chance) / (1 - chance), is above LEAST_LIFT
and above twice its standard error. Then all columns are repeated whose lift, shrunk by its noise, is above
SHRUNK_LIFT."""
CONSTANT, LEAST_CONSTANT, CONSTANT_LIFT = 0.985, 0.85, 0.8
"""A column is constant if its agreement is above CONSTANT less two standard errors and above LEAST_CONSTANT,
and its lift above CONSTANT_LIFT by two standard errors."""
MOST_AVOIDED = 0.75
"""A column is avoided if its agreement is below this part of chance by two standard errors (chosen on panels
of patients and workers, docs/research/users.md)."""
MOST_PAIRS, MOST_NEAR, WIDTHS = 24, 10, (4, 16, 64, 256)
"""Pairs of columns and groups of neighbouring codes whose agreement is asked for; how many of the latter, and
how many codes a group has (at most a half of all)."""
SPREAD, LEAST_SPREAD = 0.5, 0.02
"""Standard deviation that is expected between the rates of neighbouring groups: this part of the column's
lift, at least LEAST_SPREAD (chosen on the seven tables of `bench.users`, at epsilon 1, 3 and 10)."""


Feature = tuple[str, str | int]
"""A pair of columns, or a column and how many neighbouring codes count as one (`userkeys.Agreement`)."""
Declared = Mapping[str, str]
NOTHING: Declared = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Rates:
    """`overall`: the agreement of each column, the mean over users with two rows or more, with its standard
    `error`; `by_group` [groups, columns]: the same by `GROUPS`, drawn towards each other. `together`:
    how often two rows agree in both columns of each of `pairs`, with the standard error `pairs_error`."""

    columns: tuple[str, ...]
    overall: np.ndarray
    error: float
    by_group: np.ndarray
    pairs: tuple[Feature, ...] = ()
    together: np.ndarray = field(default_factory=lambda: np.empty(0))
    pairs_error: float = 0.0

    def with_pairs(self, pairs: Sequence[Feature], overall: Measurement) -> Rates:
        """These rates, and those of pairs of columns from their release."""
        users = max(float(overall.values[-1]), 1.0)
        mean = np.clip((1 + overall.values[:-1] / users) / 2, 0.0, 1.0)
        error = float(np.max(overall.sigma)) / users / 2
        return replace(self, pairs=tuple(pairs), together=mean, pairs_error=error)


def rates_of(
    columns: Sequence[str], overall: Measurement, by_group: Measurement, by_chance: np.ndarray, sizes=None
) -> Rates:
    """Rates from the two releases of `userkeys.Agreement` over these columns, each a feature of its own, and
    a `Histogram` of rows per user, which says better how many users there are. A user adds 2 a - 1. The rates
    of groups are those of least squares, where neighbours are expected to differ by SPREAD of the lift."""
    sums, sigma = overall.values[:-1], float(np.max(overall.sigma))
    grouped, noise = by_group.values.reshape(len(GROUPS), -1), float(np.max(by_group.sigma))
    there, variance = grouped[:, -1], np.full(len(GROUPS), noise**2)
    if sizes is not None:
        group = np.searchsorted(GROUPS, sizes.edges, "right")  # 0: users with one row
        counted = np.bincount(group, sizes.values, len(GROUPS) + 1)[1:]
        doubt = np.maximum(np.bincount(group, minlength=len(GROUPS) + 1)[1:] * sizes.sigma**2, 1e-6)
        there = (there * doubt + counted * variance) / (doubt + variance)
        variance = doubt * variance / (doubt + variance)
    part = sigma**2 / (sigma**2 + variance.sum())
    users = max(float((1 - part) * overall.values[-1] + part * there.sum()), 1.0)
    there, steps = np.maximum(there, 0.0), np.eye(len(GROUPS) - 1, len(GROUPS))
    error = sigma * float(np.sqrt(2 - part)) / users / 2  # of a rate near 0 or 1, the largest
    mean, steps = np.clip((1 + sums / users) / 2, 0.0, 1.0), (steps - np.roll(steps, 1, axis=1)) / 2
    spread = np.maximum(LEAST_SPREAD, SPREAD * shrunk(mean - by_chance, error))
    found = np.concatenate([grouped[:, :-1] / noise, sums[None] / sigma, np.zeros((len(steps), len(sums)))])
    seen = np.concatenate([np.diag(there) / noise, there[None] / sigma])
    own = [
        np.linalg.lstsq(np.append(seen, steps / s, axis=0), y, rcond=None)[0] for s, y in zip(spread, found.T)
    ]
    return Rates(tuple(columns), mean, error, np.clip((1 + np.array(own).T) / 2, 0.0, 1.0))


@dataclass(frozen=True)
class Roles:
    """What the columns are for a user: `constant` columns have one value per user, `repeated` ones recur more
    often than by chance (most often first), `avoided` ones more seldom (such as the year of a panel); all
    others are free. `following`: columns that follow from a constant one, and so are constant too."""

    constant: tuple[str, ...]
    repeated: tuple[str, ...]
    avoided: tuple[str, ...] = ()
    following: tuple[str, ...] = ()

    @property
    def dealt(self) -> tuple[str, ...]:
        """The columns by which rows are dealt."""
        return self.repeated + self.avoided


def chance(codes: Mapping[str, np.ndarray], columns: Sequence[str]) -> np.ndarray:
    """How often two random rows agree in each column."""
    shares = (np.bincount(codes[name]) / max(len(codes[name]), 1) for name in columns)
    return np.array([float(share @ share) for share in shares])


def chance_of(ones: Sequence[Measurement]) -> dict[str, float]:
    """The same from noisy 1-ways: squares of the counts less what noise adds to them on average."""
    ones = [m for m in ones if len(m.clique) == 1]
    total = float(np.median([m.values.sum() for m in ones])) if ones else 0.0
    found = {m.clique[0]: float(np.square(m.values).sum() - m.variances.sum()) for m in ones}
    return {name: float(np.clip(x / max(total, 1.0) ** 2, 0.0, 1.0)) for name, x in found.items()}


def roles(
    rates: Rates, by_chance: np.ndarray, never_constant=(), declared: Declared = NOTHING, following=NOTHING
) -> Roles:
    """Roles from released rates. `never_constant`: columns that take part in constraints, whose values cannot
    be exchanged one by one. `declared`: column to what the schema says of it ("constant", "repeated" or
    "free"), whatever the rates say. `following`: column to the one that it follows from."""
    room = np.maximum(1 - by_chance, 1e-9)
    lift, doubt = (rates.overall - by_chance) / room, 2 * rates.error / room
    fixed = rates.overall > max(LEAST_CONSTANT, CONSTANT - 2 * rates.error)
    fixed &= lift - doubt > CONSTANT_LIFT
    found = [n for n, yes in zip(rates.columns, fixed) if yes and n not in (*never_constant, *declared)]
    constant = (*(n for n, role in declared.items() if role == "constant"), *found)
    again = shrunk(lift, doubt / 2) > SHRUNK_LIFT
    again &= bool(constant) or bool((lift > np.maximum(LEAST_LIFT, doubt)).any())
    again |= np.array([declared.get(n) == "repeated" for n in rates.columns], bool)
    order = np.argsort(urn(rates.overall, by_chance), kind="stable")
    follow = tuple(b for b, a in following.items() if a in constant)
    repeated = [rates.columns[i] for i in order if again[i] and rates.columns[i] not in (*constant, *follow)]
    seldom = rates.overall + 2 * rates.error < MOST_AVOIDED * by_chance
    avoided = [n for n, yes in zip(rates.columns, seldom) if yes and n not in (*constant, *repeated)]
    return Roles(constant, tuple(repeated), tuple(avoided), follow)


def shrunk(lift: np.ndarray, error: np.ndarray | float) -> np.ndarray:
    """Lifts drawn towards 0 by their noise (positive part of James and Stein)."""
    return np.sign(lift) * np.maximum(np.abs(lift) - np.square(error) / np.maximum(np.abs(lift), 1e-9), 0.0)


def pairs_to_ask(roles: Roles, ordered: Mapping[str, int], columns: Sequence[str]) -> tuple[Feature, ...]:
    """What users may repeat beyond single values, at most MOST_PAIRS: neighbouring values of columns with so
    many ordered codes, such as days of one season, by WIDTHS, at most MOST_NEAR; and pairs of columns, such
    as date and hour: the two columns that recur most, each with all others that are not constant. Nothing
    where rows are not dealt by their values."""
    first = roles.repeated[:2]
    known = (*roles.repeated, *roles.constant, *roles.following)
    others = [*roles.repeated, *(n for n in columns if n not in known)]
    near: list[Feature] = [(n, w) for n in others for w in WIDTHS if ordered.get(n, 0) > 2 * w]
    found: dict = {tuple(sorted((a, b))): (a, b) for b, a in product(others, first) if a != b}
    asked = (*near[:MOST_NEAR], *found.values())[:MOST_PAIRS]
    return asked if roles.constant or roles.dealt else ()


def urn(rate: np.ndarray | float, by_chance: np.ndarray | float) -> np.ndarray:
    """The parameter alpha of a Polya urn for this rate of agreement: two of its draws agree with probability
    (1 + alpha chance) / (1 + alpha)."""
    gap = np.maximum(np.asarray(rate) - by_chance, 1e-3)
    return np.clip((1 - np.asarray(rate)) / gap, 1e-2, 1e4)

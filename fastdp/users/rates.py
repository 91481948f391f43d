"""Agreement rates from released sums, and what they say about each column: constant, repeated or free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..measurement import Measurement

GROUPS = (2, 4, 16, 64, 256, 1024)
"""Groups of users, by their number of rows, whose rates are released (a single row agrees with nothing)."""

# Chosen on flights, Chicago trips and simulated trips (docs/users.md).
LEAST_LIFT = 0.02
"""A column is repeated if its lift, (agreement - chance) / (1 - chance), is above this and above twice its
standard error."""
CONSTANT, LEAST_CONSTANT, CONSTANT_LIFT = 0.985, 0.85, 0.8
"""A column is constant if its agreement is above CONSTANT less two standard errors and above LEAST_CONSTANT,
and its lift above CONSTANT_LIFT by two standard errors."""
SPREAD = 0.1
"""Standard deviation that is expected between the rates of groups: rates of groups are drawn towards the
overall rate, the more the noisier they are."""


@dataclass(frozen=True, eq=False)
class Rates:
    """`overall`: the agreement of each column, the mean over users with two rows or more, with its standard
    `error`; `by_group` [groups, columns]: the same by `GROUPS`, drawn towards the overall rates."""

    columns: tuple[str, ...]
    overall: np.ndarray
    error: float
    by_group: np.ndarray


def rates_of(columns: Sequence[str], overall: Measurement, by_group: Measurement) -> Rates:
    """Rates from the two releases of `userkeys.Agreement` over these columns, each a feature of its own."""
    count = len(columns)
    sums, sigma = overall.values, float(np.max(overall.sigma))
    users = max(float(sums[count]), 1.0)
    mean = np.clip(sums[:count] / users, 0.0, 1.0)
    grouped, noise = by_group.values.reshape(len(GROUPS), count + 1), float(np.max(by_group.sigma))
    there = np.maximum(grouped[:, count:], 1.0)
    weight = 1 / (1 + (noise / there / SPREAD) ** 2)
    own = np.clip(grouped[:, :count] / there, 0.0, 1.0)
    return Rates(tuple(columns), mean, sigma / users, weight * own + (1 - weight) * mean)


@dataclass(frozen=True)
class Roles:
    """What the columns are for a user: `constant` columns have one value per user, `repeated` ones recur more
    often than by chance (most often first), all others are free."""

    constant: tuple[str, ...]
    repeated: tuple[str, ...]


def chance(codes: Mapping[str, np.ndarray], columns: Sequence[str]) -> np.ndarray:
    """How often two random rows agree in each column."""
    out = []
    for name in columns:
        share = np.bincount(codes[name]) / max(len(codes[name]), 1)
        out.append(float(share @ share))
    return np.array(out)


def roles(
    rates: Rates, by_chance: np.ndarray, never_constant: Sequence[str] = (), declared: Sequence[str] = ()
) -> Roles:
    """Roles from released rates. `never_constant`: columns that take part in constraints, whose values cannot
    be exchanged one by one. `declared`: columns that are constant whatever the rates say."""
    room = np.maximum(1 - by_chance, 1e-9)
    lift, doubt = (rates.overall - by_chance) / room, 2 * rates.error / room
    fixed = rates.overall > max(LEAST_CONSTANT, CONSTANT - 2 * rates.error)
    fixed &= lift - doubt > CONSTANT_LIFT
    constant = tuple(
        n for n, yes in zip(rates.columns, fixed) if n in declared or (yes and n not in never_constant)
    )
    again = lift > np.maximum(LEAST_LIFT, doubt)
    order = np.argsort(urn(rates.overall, by_chance), kind="stable")
    repeated = [rates.columns[i] for i in order if again[i] and rates.columns[i] not in constant]
    return Roles(constant, tuple(repeated))


def urn(rate: np.ndarray | float, by_chance: np.ndarray | float) -> np.ndarray:
    """The parameter alpha of a Polya urn for this rate of agreement: two of its draws agree with probability
    (1 + alpha chance) / (1 + alpha)."""
    gap = np.maximum(np.asarray(rate) - by_chance, 1e-3)
    return np.clip((1 - np.asarray(rate)) / gap, 1e-2, 1e4)

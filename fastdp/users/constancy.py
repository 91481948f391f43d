"""Which columns have one value per user, by the number of users whose rows disagree.

A rate of agreement hardly tells a constant from a column whose commonest value is frequent: two rows
agree often in both. All rows of a user with many rows agree in a constant only. So users are counted
whose rows do not all agree (`userkeys.Disagreement`), and a column is constant if they are few.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from ..significance import LIKELY
from .rates import rows_of_several

if TYPE_CHECKING:
    from ..measurement import Measurement
    from .people import Histogram
    from .rates import Rates

EXCEPTIONS = 0.05
"""Share of users with two rows or more that may disagree in a constant column: who moved, and slips.
As a repeated column, such a column would give most users several values."""
MAYBE = 0.9
"""Columns with a smaller rate of agreement, by LIKELY standard errors and a half, are not constant."""
LIFT = 0.8
"""Users repeat a column of this lift, (agreement - chance) / (1 - chance), but it is not constant."""
SLIPS = 0.985
"""A column is constant without a test if its rate is surely above SLIPS and its lift above LIFT: many
users may have a slip among their rows, but hardly any row is one."""
LEAST = 0.85
"""Where noise allows no test, a rate may be below SLIPS by the noise, but not below LEAST."""
PRECISION = 0.01
"""No smaller standard error of a share of users is asked for."""


def disagreeing_if_repeated(by_chance: np.ndarray, sizes: Histogram | None) -> np.ndarray:
    """The share of users with two rows or more whose rows would disagree in a column of lift LIFT,
    by each column's chance that two rows agree. If two rows agree with probability a, then R rows
    agree with probability sum p^R <= (sum p^2)^(R / 2) = a^(R / 2), p being what a user's rows are
    drawn from. `sizes`: rows per user."""
    rows, users = rows_of_several(sizes)
    pair = LIFT + (1 - LIFT) * np.clip(by_chance, 0.0, 1.0)
    return 1 - np.power.outer(pair, rows / 2) @ (users / users.sum())


def constant_by_rate(
    rates: Rates, by_chance: np.ndarray, without: Collection[str] = (), sure: bool = False
) -> tuple[str, ...]:
    """Columns whose rate of agreement and lift are those of a constant, as far as noise tells; or
    surely, so that rows which differ are slips."""
    room = np.maximum(1 - by_chance, 1e-9)
    doubt = LIKELY * rates.error
    found = (rates.overall - doubt - by_chance) / room > LIFT
    found &= rates.overall > (SLIPS + doubt if sure else np.maximum(LEAST, SLIPS - doubt))
    return tuple(n for n, yes in zip(rates.columns, found) if yes and n not in without)


def columns_to_test(
    rates: Rates,
    by_chance: np.ndarray,
    different: np.ndarray,
    mu: float,
    without: Collection[str],
) -> tuple[str, ...]:
    """Columns whose rates allow that they are constant, likely ones first. There are as many as a
    release with this mu can test: the two outcomes lie 2 LIKELY standard errors apart. `different`: see
    `disagreeing_if_repeated`."""
    likely = rates.overall > MAYBE - (LIKELY + 0.5) * rates.error
    order = np.argsort(by_chance - rates.overall, kind="stable")
    names = [i for i in order if likely[i] and rates.columns[i] not in without]
    for count in range(len(names), 0, -1):
        error = standard_error(rates, np.sqrt(count + 1) / mu)
        tested = [i for i in names if 2 * LIKELY * error <= different[i]]
        if len(tested) >= count:
            return tuple(rates.columns[i] for i in tested[:count])
    return ()


def standard_error(rates: Rates, sigma: float) -> float:
    """Of the share of disagreeing users, by a release with this noise."""
    known = 1 / np.hypot(1 / sigma, 1 / max(rates.users_error, 1e-9))
    return float(np.hypot(sigma, known) / 2 / max(rates.users, 1.0))


def share_needed(rates: Rates, columns: int, mu: float) -> float:
    """The share of mu^2 at which so many columns are tested with a standard error of PRECISION."""
    sigma = 2 * max(rates.users, 1.0) * PRECISION
    return (columns + 1) / (sigma * mu) ** 2


def constancy_test(
    columns: tuple[str, ...], answers: Measurement, rates: Rates, different: np.ndarray
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(constant columns, columns that are surely not), by a release of `Disagreement(columns)`. In
    a constant, the share of users whose rows disagree is not surely above EXCEPTIONS. It is surely
    below that of a column that users only repeat."""
    sigma = float(np.max(answers.sigma))
    trust = sigma**2 / (sigma**2 + rates.users_error**2)
    users = max(1.0, trust * rates.users + (1 - trust) * float(answers.values[-1]))
    share = (1 + answers.values[:-1] / users) / 2
    doubt = LIKELY * standard_error(rates, sigma)
    place = [rates.columns.index(name) for name in columns]
    many = share - doubt > EXCEPTIONS
    few = ~many & (share + doubt <= different[place])
    passed = tuple(name for name, yes in zip(columns, few) if yes)
    return passed, tuple(name for name, yes in zip(columns, many) if yes)

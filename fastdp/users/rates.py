"""Agreement rates from released sums, and what they say about each column: constant, repeated or
free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ..rows_per_user import RowsPosterior
from ..significance import LIKELY, drawn_towards, stand_out_together
from .group_rates import differences, likeliest_step, rates_by_group

if TYPE_CHECKING:
    from ..measurement import Measurement
    from .people import Histogram

GROUPS = (2, 4, 16, 64, 256, 1024)
"""Groups of users, by their number of rows, whose rates are released (a single row agrees with
nothing)."""

MOST_AVOIDED = 0.75
"""A column is avoided if its agreement is below this part of chance by two standard errors (`python
-m bench.users_without "avoided values" --tables courses renewals --seeds 700 705`: without it distinct values
of students who take each course once are .055 off in place of .027, sums of subscribers .021 in place of
.011)."""
MOST_PAIRS = 24
"""Pairs of columns, and groups of neighbouring codes, whose agreement is asked for, at most."""
MOST_NEAR = 10
"""Groups of neighbouring codes among them, at most."""
WIDTHS = (4, 16, 64, 256)
"""Codes of a group of neighbours; at most a half of all codes."""
HABITS = 0.5
"""Users repeat something where chance alone makes lifts as large in less than this part of tables: where they
are larger than is likely. Lifts are drawn to chance by their errors, so that a habit which is not there costs
little, and one that is missed much (`python -m bench.users --tables tiny strangers --epsilon 1 --seeds 9840
9864 --sources order --set users.rates.HABITS=0.05`: equal values of 300 people .471 in place of .433 ± .013;
where nobody repeats anything, no measure moves by two standard errors)."""


Feature = tuple[str, str | int]
"""A pair of columns, or a column and how many neighbouring codes count as one
(`userkeys.Agreement`)."""
Declared = Mapping[str, str]
NOTHING: Declared = MappingProxyType({})


class Rates(Struct, frozen=True, eq=False):
    """`overall`: the agreement of each column, the mean over users with two rows or more, with its
    standard `error`; `by_group` [groups, columns]: the same by `GROUPS`, drawn towards each other.
    `scatter`: how far from chance the agreement of these users lies if they repeat nothing
    (`scatter`).
    `together`: how often two rows agree in both columns of each of `pairs`, with the standard error
    `pairs_error`. `users`: how many have two rows or more, if known, with the standard error
    `users_error`."""

    columns: tuple[str, ...]
    overall: np.ndarray
    error: np.ndarray
    by_group: np.ndarray
    pairs: tuple[Feature, ...] = ()
    together: np.ndarray = field(default_factory=lambda: np.empty(0))
    pairs_error: float = 0.0
    users: float = 0.0
    users_error: float = 0.0
    scatter: np.ndarray | float = 0.0

    @property
    def doubt(self) -> np.ndarray:
        """The standard error of agreement beyond chance: of the release, and of so many users."""
        return np.hypot(self.error, self.scatter)

    def with_pairs(self, pairs: Sequence[Feature], overall: Measurement) -> Rates:
        """These rates, and those of pairs of columns from their release."""
        users = self.users or max(float(overall.values[-1]), 1.0)
        mean = np.clip((1 + overall.values[:-1] / users) / 2, 0.0, 1.0)
        error = float(np.max(overall.sigma)) / users / 2
        return replace(self, pairs=tuple(pairs), together=mean, pairs_error=error)


def rates_of(
    columns: Sequence[str],
    overall: Measurement,
    by_chance: Chance,
    sizes: Histogram | None = None,
    by_group: tuple[Sequence[str], Measurement] | None = None,
    clip: float = np.inf,
) -> Rates:
    """Rates from a release of `userkeys.Agreement` over these columns, each a feature of its own. A
    histogram of rows per user says better how many users there are; a release by group over some
    columns is used where there is one. A user adds 2 a - 1. Rates of groups are those of least
    squares, where lifts of neighbouring groups are expected to be alike unless the release says that they
    are not; their mean is the overall rate. Other columns have one rate for all groups. Chance is known from
    at most `clip` rows of a user."""
    sums = overall.values[:-1]
    sigma = float(np.max(overall.sigma))
    asked: Sequence[str] = ()
    there = np.zeros(len(GROUPS))
    weights = np.full(len(GROUPS), 1e-12)
    if by_group is not None:
        asked = by_group[0]
        noise = float(np.max(by_group[1].sigma))
        grouped = by_group[1].values.reshape(len(GROUPS), -1)
        there = there + grouped[:, -1] / noise**2
        weights = weights + noise**-2
    if sizes is not None:
        group = np.searchsorted(GROUPS, sizes.edges, "right")  # 0: users with one row
        bins = np.maximum(np.bincount(group, minlength=len(GROUPS) + 1)[1:], 1e-6) * sizes.sigma**2
        there = there + np.bincount(group, sizes.values, len(GROUPS) + 1)[1:] / bins
        weights = weights + 1 / bins
    doubt = 1 / weights
    there = there * doubt
    part = sigma**2 / (sigma**2 + doubt.sum())
    missing = float(overall.values[-1]) - there.sum()
    users = max(there.sum() + (1 - part) * missing, 1.0)
    there = np.maximum(there + doubt / doubt.sum() * (1 - part) * missing, 0.0)
    mean = np.clip((1 + sums / users) / 2, 0.0, 1.0)
    error = np.sqrt(1 + np.square(2 * mean - 1) * (1 - part)) * sigma / users / 2
    own = np.tile(mean, (len(GROUPS), 1))
    two = by_chance.two
    for i, f in enumerate(map(columns.index, asked if there.any() else ())):
        lift = mean[f] - two[f]
        noises = np.sqrt(noise**2 + np.square(2 * mean[f] - 1) * doubt) / 2
        seen = np.array([*np.diag(there / noises), there / users / error[f]])
        by_size = ((grouped[:, i] + there) / 2 - two[f] * there) / noises
        found = np.append(by_size, lift / error[f])
        own[:, f] = rates_by_group(seen, found + seen.sum(axis=1) * two[f], two[f])
        alike = differences(len(GROUPS)) / likeliest_step(seen, found)
        spread = np.linalg.pinv(np.append(seen, alike, axis=0))
        of_user = there / max(there.sum(), 1.0)
        mean[f] = two[f] + of_user @ spread[:, : len(found)] @ found
        error[f] = np.linalg.norm(of_user @ spread)
    return Rates(
        tuple(columns),
        np.clip(mean, 0.0, 1.0),
        error,
        np.clip(own, 0.0, 1.0),
        users=users,
        users_error=float(np.sqrt(part * doubt.sum())),
        scatter=scatter(by_chance, users, sizes, clip),
    )


class Chance(Struct, frozen=True, eq=False):
    """How often `two` and `three` random rows agree in each of `columns`; `error`: the standard error
    of `two` by noise; `rows`: how many rows that is known from."""

    columns: tuple[str, ...]
    two: np.ndarray
    three: np.ndarray
    error: np.ndarray
    rows: float

    def of(self, columns: Sequence[str]) -> Chance:
        """The same of some columns."""
        at = [self.columns.index(name) for name in columns]
        return Chance(tuple(columns), self.two[at], self.three[at], self.error[at], self.rows)


def rows_of_several(sizes: Histogram | None) -> tuple[np.ndarray, np.ndarray]:
    """(number of rows, users with so many) of users with two rows or more, up to the last bin that
    stands out; without a histogram two rows each."""
    if sizes is not None:
        found = RowsPosterior.of(sizes.edges, sizes.values, sizes.sigma, sizes.edges[-1])
        points = np.array(found.points(tail=False))
        several = points[:, points[0] > 1]
        if several[1].any():
            return several[0], several[1]
    return np.array([2.0]), np.ones(1)


def scatter(by_chance: Chance, users: float, sizes: Histogram | None, clip: float) -> np.ndarray:
    """The standard error of `users`' agreement less chance if rows do not depend on their users.

    The share c of pairs that agree in R rows is a U-statistic (Hoeffding). Its variance is 4 v / R by
    which values came up, and 2 w / (R (R - 1)) by the pairs that they came in. Here 2 v + w = c (1 - c)
    is the variance of one pair, and v the chance that three rows agree less c^2. What changes with the
    values changes chance likewise, by the rows that were counted (`clip` of a user at most). Noise in
    chance is added."""
    c = by_chance.two
    pair = c * (1 - c)
    v = np.clip(by_chance.three - c * c, 0.0, pair / 2)
    rows, often = rows_of_several(sizes)
    part = often / often.sum()
    likewise = 2 * part @ np.minimum(1.0, clip / rows) - 1
    known = 0.0 if sizes is None else users / max(by_chance.rows, 1.0) * likewise
    values = 4 * v * max(float(part @ (1 / rows)) - max(known, 0.0), 0.0)
    pairs = 2 * (pair - 2 * v) * (part @ (1 / (rows * (rows - 1))))
    return np.sqrt((values + pairs) / users + np.square(by_chance.error))


class Roles(Struct, frozen=True):
    """What the columns are for a user: `constant` columns have one value per user. `repeated` ones
    recur more often than by chance, most often first; `avoided` ones more seldom (such as the year
    of a panel). All others are free. `following`: columns that follow from a constant one, and so
    are constant too."""

    constant: tuple[str, ...]
    repeated: tuple[str, ...]
    avoided: tuple[str, ...] = ()
    following: tuple[str, ...] = ()

    @property
    def dealt(self) -> tuple[str, ...]:
        """The columns by which rows are dealt."""
        return self.repeated + self.avoided


def chance(codes: Mapping[str, np.ndarray], columns: Sequence[str]) -> Chance:
    """How often random rows agree in each column."""
    rows = len(codes[columns[0]]) if columns else 0
    shares = [np.bincount(codes[name]) / max(rows, 1) for name in columns]
    two, three = (np.array([float((share**k).sum()) for share in shares]) for k in (2, 3))
    return Chance(tuple(columns), two, three, np.zeros(len(columns)), rows)


def chance_of(ones: Sequence[Measurement]) -> Chance:
    """The same from noisy 1-ways: powers of the counts less what noise adds to them on average."""
    ones = [m for m in ones if len(m.clique) == 1]
    total = max(float(np.median([m.values.sum() for m in ones])) if ones else 0.0, 1.0)
    squares = [float((np.square(m.values) - m.variances).sum()) for m in ones]
    cubes = [float((m.values**3 - 3 * m.variances * m.values).sum()) for m in ones]
    noise = [
        float(m.variances @ np.maximum(4 * np.square(m.values) - 2 * m.variances, 2 * m.variances))
        for m in ones
    ]
    return Chance(
        tuple(m.clique[0] for m in ones),
        np.clip(np.array(squares) / total**2, 0.0, 1.0),
        np.clip(np.array(cubes) / total**3, 0.0, 1.0),
        np.sqrt(noise) / total**2,
        total,
    )


def roles(
    rates: Rates,
    by_chance: np.ndarray,
    found: Sequence[str] = (),
    declared: Declared = NOTHING,
    following=NOTHING,
) -> Roles:
    """Roles from released rates. Users repeat something if they have constants or if the lifts of all
    columns together are above 0; then what is above chance by its error is repeated. `found`: columns
    that are constant by a release of their own (`constancy`). `declared`: column to what the schema says
    of it ("constant", "repeated" or "free"), whatever the rates say. `following`: column to the one that
    it follows from."""
    room = np.maximum(1 - by_chance, 1e-9)
    lift = (rates.overall - by_chance) / room
    error = np.maximum(rates.doubt, 1e-9) / room
    constant = (*(n for n, role in declared.items() if role == "constant"), *found)
    again = shrunk(lift, error) > 0
    again &= bool(constant) or stand_out_together(lift / error, HABITS)
    again |= np.array([declared.get(n) == "repeated" for n in rates.columns], bool)
    order = np.argsort(urn(rates.overall, by_chance), kind="stable")
    follow = tuple(b for b, a in following.items() if a in constant)
    repeated = [
        rates.columns[i] for i in order if again[i] and rates.columns[i] not in (*constant, *follow)
    ]
    seldom = rates.overall + LIKELY * rates.doubt < MOST_AVOIDED * by_chance
    avoided = [
        n for n, yes in zip(rates.columns, seldom) if yes and n not in (*constant, *repeated)
    ]
    return Roles(constant, tuple(repeated), tuple(avoided), follow)


def may_repeat(roles: Roles, rates: Rates, by_chance: np.ndarray) -> tuple[str, ...]:
    """Where users repeat or avoid something, the columns that they may repeat or avoid. These are
    all but constant ones and those whose rate is below chance by two standard errors."""
    likely = rates.overall + LIKELY * rates.doubt > by_chance
    known = (*roles.constant, *roles.following)
    found = [
        n for n, yes in zip(rates.columns, likely) if (yes or n in roles.dealt) and n not in known
    ]
    return tuple(found) if roles.constant or roles.dealt else ()


def shrunk(lift: np.ndarray, error: np.ndarray | float) -> np.ndarray:
    """Lifts drawn towards 0 by their noise, each by itself: its spread is what its square has beyond
    noise (positive part of James and Stein)."""
    noise = np.square(error)
    return drawn_towards(0.0, lift, noise, np.maximum(np.square(lift) - noise, 0.0))


def pairs_to_ask(
    roles: Roles,
    ordered: Mapping[str, int],
    columns: Sequence[str],
    numbers: Sequence[str] = (),
) -> tuple[Feature, ...]:
    """What users may repeat beyond single values, at most MOST_PAIRS; nothing where rows are not dealt
    by their values.

    First neighbouring values of columns with so many ordered codes, such as days of one season, by
    WIDTHS; at most MOST_NEAR of them. Columns of `numbers` come first. Then pairs of columns, such as
    date and hour: the two columns that recur most, each with all others that are not constant."""
    first = roles.repeated[:2]
    known = (*roles.repeated, *roles.constant, *roles.following)
    others = [*roles.repeated, *(n for n in columns if n not in known)]
    first_asked = [*(n for n in numbers if n in others), *(n for n in others if n not in numbers)]
    near: list[Feature] = [(n, w) for n in first_asked for w in WIDTHS if ordered.get(n, 0) > 2 * w]
    found: dict = {tuple(sorted((a, b))): (a, b) for b, a in product(others, first) if a != b}
    asked = (*near[:MOST_NEAR], *found.values())[:MOST_PAIRS]
    return asked if roles.constant or roles.dealt else ()


def urn(rate: np.ndarray | float, by_chance: np.ndarray | float) -> np.ndarray:
    """The parameter alpha of a Polya urn for this rate of agreement. Two of its draws agree with
    probability (1 + alpha chance) / (1 + alpha)."""
    gap = np.maximum(np.asarray(rate) - by_chance, 1e-3)
    return np.clip((1 - np.asarray(rate)) / gap, 1e-2, 1e4)

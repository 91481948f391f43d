"""Synthetic users: how many rows they have, by released histograms, and which constants, by the
model of a released table of users."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

from ..rows_per_user import RowsPosterior, last_users, mean_rows, places
from ..significance import SURE, Z95

Codes = Mapping[str, np.ndarray]
Groups = tuple[str, tuple[int, ...]]
"""A column of groups of users by their number of rows ("": none), and the groups' lower edges."""
ALL: Groups = "", (1,)
OCTAVE = (1.0, 1.25, 1.5, 1.75)
"""Bins of rows per user start at these multiples of powers of 2; they divide the bins of the
histogram by which clips are chosen (`privacy.clip.size_edges`)."""
CROWDED = 4.0
"""A bin of that histogram is divided into single numbers of rows where each of them would have
CROWDED standard errors of users or more, if all had the same: panels have one number of rows for
all users."""
MOST_GROUPS = 8
"""Groups of rows per user in the table of users."""
LEAST_LOST = 0.05
"""Groups of users remove the bias of clipping from the model of rows. Where the clip leaves out less
than this share of the rows, their noise costs more. Of nine tables at epsilon 1 and 10 this decides
for courses at 10 alone: columns across are .0230 with it and .0252 ± .0005 without, the commonest
value of a user .149 and .158 ± .001 (`python -m bench.users_without "a least loss for groups"
--tables courses --epsilon 10`)."""


def size_bins(
    bound: int, coarse: Histogram | None = None, sigma: float = 0.0, periods: int = 1
) -> tuple[int, ...]:
    """Lower edges of bins of rows per user up to the public bound, of which users will be counted
    with the standard error `sigma`. A row for each of the `periods` that the schema knows is a bin of
    its own: who comes in all of them is one kind of user."""
    powers = [1 << k for k in range(max(1, int(bound).bit_length()))]
    edges = {p * m for p in powers for m in OCTAVE if (p * m).is_integer() and p * m <= bound}
    if coarse is not None:
        for low, high, users in zip(coarse.edges, [*coarse.edges[1:], bound + 1], coarse.values):
            edges.update(range(low, high) if users > CROWDED * sigma * (high - low) else ())
    edges.update(e for e in (periods, periods + 1) if e <= bound)
    return tuple(sorted(map(int, edges)))


class Histogram(Struct, frozen=True, eq=False):
    """Noisy numbers of users in bins of rows per user (lower `edges`), each with standard error
    `sigma`."""

    edges: tuple[int, ...]
    values: np.ndarray
    sigma: float


def piles_up(fine: Histogram, rows: int, bound: int) -> bool:
    """Whether surely more users have just so many rows than a row less, or more."""
    if rows < 2 or rows not in fine.edges:
        return False
    width = np.diff([*fine.edges, bound + 1])
    at = fine.edges.index(rows)
    beside = [i for i in (at - 1, at + 1) if i < len(width)]
    more = fine.values[at] - fine.values[beside] / width[beside]
    return bool((more > SURE * fine.sigma * np.sqrt(1 + 1.0 / width[beside] ** 2)).all())


class RowCount(Struct, frozen=True, eq=False):
    """A noisy number of rows, of each user at most `most`, in units of `most` rows."""

    most: int
    value: float
    sigma: float


def rows_limit(coarse: Histogram, bound: int) -> int:
    """The `most` of a `RowCount`: the most rows of users who are there for sure."""
    last = max(last_users(coarse.values, coarse.sigma, coarse.edges, bound), 0)
    return int([*coarse.edges[1:], bound + 1][last] - 1)


def row_groups(coarse: Histogram, bound: int, clip: int, least: float) -> tuple[int, ...]:
    """Lower edges of groups of users by rows, by which the rows' model may tell rows apart. They
    are near the clip times powers of 2, and the clip over 4 and 16. Each has `least` rows or more,
    of a user at most the clip; where no two have, half as many, or a quarter. One group where the
    clip leaves out less than LEAST_LOST of the rows."""
    last = max(last_users(coarse.values, coarse.sigma, coarse.edges, bound), 0)
    sizes = mean_rows(coarse.edges, bound)
    users = np.maximum(coarse.values, 0.0)
    weight = np.minimum(sizes, clip) * users
    if weight[: last + 1].sum() > (1 - LEAST_LOST) * (sizes * users)[: last + 1].sum():
        return (1,)
    starts = [clip / 16, clip / 4, *(clip * 2.0**k for k in range(40) if clip * 2.0**k < bound)]
    allowed = {next((e for e in coarse.edges if e > start), 0) for start in starts}
    for enough in (least, least / 2, least / 4):
        cuts = []
        above = 0.0
        for b in range(last, 0, -1):
            above += float(weight[b])
            if coarse.edges[b] in allowed and above >= enough <= weight[:b].sum():
                cuts.append(coarse.edges[b])
                above = 0.0
        if cuts:
            return (1, *reversed(cuts))
    return (1,)


class Sizes(Struct, frozen=True, eq=False):
    """How many synthetic users have how many rows.

    `users`: how many users each bin has (>= 0), 0 beyond the bins in which users may be by their noise.
    `rows`: the number of rows. `error`: its standard error, as far as users stand out of noise. `interval`:
    where it lies with probability 0.95, if no user has more than `bound` rows. `seen_interval`: the same for
    the number of rows, of each user at most `most`. `limit`: the most rows of a synthetic user, who has one
    for each period."""

    edges: tuple[int, ...]
    bound: int
    users: np.ndarray
    rows: float
    error: float
    most: int = 1
    interval: tuple[int, int] = (0, 0)
    seen_interval: tuple[int, int] = (0, 0)
    limit: float = math.inf

    def rows_by(
        self, groups: tuple[int, ...], edges: tuple[int, ...], most: float = math.inf
    ) -> np.ndarray:
        """Rows, of each user at most `most`, by the groups of users that start at `groups` and at
        `edges`."""
        one, other = (np.searchsorted(e, self.edges, "right") - 1 for e in (groups, edges))
        out = np.zeros((len(groups), len(edges)))
        np.add.at(
            out,
            (one, other),
            self.users * np.minimum(mean_rows(self.edges, self.bound), min(most, self.limit)),
        )
        return out

    def groups(self, least: float) -> tuple[int, ...]:
        """Lower edges of groups of about as many users each, at least `least`; at most
        MOST_GROUPS."""
        count = int(np.clip(self.users.sum() / max(least, 1e-9), 1, MOST_GROUPS))
        parts = np.arange(1, count) / count * self.users.sum()
        cuts = np.searchsorted(np.cumsum(self.users), parts) + 1
        return (1, *(self.edges[i] for i in np.unique(cuts) if i < len(self.edges)))

    @property
    def most_rows(self) -> int:
        """The most rows that a user can have."""
        last = int(np.flatnonzero(self.users > 0).max(initial=0))
        return [*self.edges, self.bound + 1][last + 1] - 1

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Numbers of rows of so many users, inside a bin as `rows_per_user` says."""
        ends = np.append(0.0, np.cumsum(self.users))
        at = generator.random(count) * ends[-1]
        bins = np.clip(np.searchsorted(ends, at, "right") - 1, 0, len(self.users) - 1)
        place = (at - ends[bins]) / np.maximum(self.users[bins], 1e-300)
        limits = np.append(self.edges[1:], self.bound + 1)
        rows = places(bins, np.array(self.edges), limits, np.clip(place, 0.0, 1 - 1e-12))
        return np.clip(rows, 1, int(min(self.most_rows, self.limit)))


def sizes_of(fine: Histogram, coarse: Histogram | None, count: RowCount, bound: int) -> Sizes:
    """Rows per user by all that was released about them, combined by least squares into one
    posterior (`rows_per_user`). The number of rows is between the users' rows and the count, to which
    users beyond its limit are added (`_weighed`). Its interval does without those who do not stand out.
    """
    bins = len(fine.edges)
    means = mean_rows(fine.edges, bound)
    inverse = np.eye(bins) / fine.sigma**2
    right = fine.values / fine.sigma**2
    if coarse is not None:
        sums = np.zeros((len(coarse.edges), bins))
        sums[np.searchsorted(coarse.edges, fine.edges, "right") - 1, np.arange(bins)] = 1.0
        inverse = inverse + sums.T @ sums / coarse.sigma**2
        right = right + sums.T @ coarse.values / coarse.sigma**2
    upto = mean_rows(fine.edges, bound, count.most) / (count.most * count.sigma)
    counted = upto, count.value / count.sigma
    found = RowsPosterior.from_evidence(fine.edges, inverse, right, bound, counted=counted)
    users = found.by_bin()
    seen = bool(users.any())
    users = users if seen else np.eye(1, bins)[0]
    most = max(count.most, found.most)
    certain = np.arange(bins) <= max(found.last, 0)
    beyond = np.maximum(means - count.most, 0.0)

    def total(weight: np.ndarray) -> tuple[float, float]:
        rows = count.most * count.value + float(weight @ found.values)
        doubt = math.sqrt(max(float(weight @ found.spread @ weight), 0.0))
        return rows, math.hypot(count.most * count.sigma, doubt)

    rows, error = total(np.where(certain, beyond, 0.0))
    high = []
    for limit in (most, bound):
        # users of all bins, where they do not stand out at the upper end of their bin
        ends = np.minimum(np.where(certain, means, found.ends), limit)
        rows_there, doubt = total(np.maximum(ends - count.most, 0.0))
        high.append(max(rows + Z95 * error, rows_there + Z95 * doubt))
    low = max(0, int(rows - Z95 * error))
    rows += float(np.where(certain, 0.0, users) @ beyond)
    rows = max(low, _weighed(rows, error, float(users @ means)) if seen else rows, 1.0)
    intervals = [(low, math.ceil(max(end, rows))) for end in (max(high), high[0])]
    return Sizes(fine.edges, bound, users, rows, error, int(most), intervals[0], intervals[1])


def _weighed(counted: float, error: float, by_users: float) -> float:
    """The number of rows, by a count with its standard error and by rows per user times users: each
    weighs by its precision. Of the second it is known only that it is of the right size: its error
    counts as large as itself. So a count far above its noise is the number of rows."""
    return by_users + by_users**2 / (by_users**2 + error**2) * (counted - by_users)


class People(Struct, frozen=True, eq=False):
    """`table`: users drawn from the model of the table of users, by group: the codes of their
    constants. `group`: the group of each, by number of rows, with the lower edges `groups`."""

    sizes: Sizes
    groups: tuple[int, ...] = (1,)
    group: np.ndarray = field(default_factory=lambda: np.empty(0))
    table: Codes = field(default_factory=dict)

    @classmethod
    def of(cls, sizes: Sizes, groups: tuple[int, ...], name: str, drawn: Codes) -> People:
        """Users with the rows per user of `sizes`, whose constants are those of the users in
        `drawn`, which have their groups in column `name`."""
        order = np.argsort(drawn[name], kind="stable")
        table = {column: codes[order] for column, codes in drawn.items() if column != name}
        return cls(sizes, groups, drawn[name][order].astype(np.int64), table)

    def draw(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Rows of each of the users whose rows add up to `rows`; the last may have fewer rows than
        it was drawn with."""
        found = [np.empty(0, np.int64)]
        have = 0
        mean = self.sizes.rows_by((1,), (1,)).sum() / self.sizes.users.sum()
        while have < rows:
            sizes = self.sizes.draw(min(1 << 20, int(1.1 * (rows - have) / mean) + 256), generator)
            found.append(sizes[: int(np.searchsorted(np.cumsum(sizes), rows - have)) + 1])
            have += int(found[-1].sum())
        found[-1][-1:] -= have - rows
        return np.concatenate(found)

    def constants(self, rows: np.ndarray, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """The codes of the constant columns of users with so many rows."""
        starts = np.searchsorted(self.group, np.arange(len(self.groups) + 1))
        group = np.searchsorted(self.groups, rows, "right") - 1
        low, high = starts[group], starts[group + 1]
        at = low + (generator.random(len(rows)) * (high - low)).astype(np.int64)
        return {n: codes[np.minimum(at, len(codes) - 1)] for n, codes in self.table.items()}

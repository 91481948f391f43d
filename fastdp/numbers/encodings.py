"""Encodings: what one user adds to a released vector, in whole numbers, with a proved L2 norm.

An encoding turns the values of each user into an integer vector and adds the vectors up. A user's
vector depends on that user's values and on public facts alone. So adding or removing one user
changes the sum by one such vector, whose L2 norm is at most the root of `sensitivity2`, in grid
units. Every division rounds towards zero, which cannot raise a norm. No float decides a sum.
Proofs: docs/explain/numbers.md.

Sums are int64 and associative: engines may add them up in any order, over any partitions.
"""

import hashlib
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec
import numpy as np

from ..errors import UsageError
from .encoding import ClampedSums, Encoding
from .user_values import UserValues

UNIT_BITS = 24
UNIT = 1 << UNIT_BITS
"""Grid units of 1. A user's vector has a norm of about 2^24 units, so 2^38 users fit into 63 bits.
"""
LARGEST = 1 << 50
"""Every reading of a user's values saturates here, so no product below leaves 63 bits."""
LARGEST_SHIFT = 10
MOST_GROUPS = 1 << 20
MOST_WEIGHT = 1 << 31
BLOCK = 1 << 15
"""Users that are encoded at once."""
HALF = 1 << 38
"""A distance between corners is cut to 38 bits before it is multiplied by UNIT."""

Of = Literal["value", "weight", "residual"]


class UserEncoding(Encoding, frozen=True, kw_only=True, tag=True):
    """Base of the encodings. Adding or removing one user changes `add_up` by a vector of L2 norm at
    most `sqrt(sensitivity2)` grid units; `unit` of them are 1 of an answer."""

    @property
    def unit(self) -> float:
        return float(UNIT)

    @property
    def sensitivity2(self) -> int:
        return UNIT * UNIT

    @property
    def norm2(self) -> float:
        """The squared sensitivity of the answers. Exact: its factors are powers of two and a whole
        number below 2^53."""
        return self.sensitivity2 / self.unit**2

    def add_up(self, values: UserValues) -> np.ndarray:
        """int64[size]: the sum of the users' vectors, block after block, so that work stays in the
        cache."""
        out = np.zeros(self.size, np.int64)
        users = len(values.offsets) - 1
        for start in range(0, users, BLOCK):
            out += self.block(_some_users(values, start, min(users, start + BLOCK)))
        return out

    def block(self, values: UserValues) -> np.ndarray:
        """int64[size]: the sum of the vectors of a few users."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """All public facts, as plain values."""
        return {"encoding": type(self).__name__} | msgspec.to_builtins(self)

    def digest(self) -> str:
        """SHA-256 of the public facts, the same in every process."""
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()


class Users(UserEncoding, frozen=True, kw_only=True):
    """The number of users; each adds 1."""

    @property
    def size(self) -> int:
        return 1

    def block(self, values: UserValues) -> np.ndarray:
        return np.array([(len(values.offsets) - 1) * UNIT], np.int64)


class Centred(UserEncoding, frozen=True, kw_only=True):
    """A predicate of users: 1/2 of a user for whom it holds, -1/2 of another. Sensitivity 1/2."""

    @property
    def size(self) -> int:
        return 1

    @property
    def sensitivity2(self) -> int:
        return (UNIT // 2) ** 2

    def block(self, values: UserValues) -> np.ndarray:
        users = len(values.offsets) - 1
        first, _ = _firsts(values)
        holds = int(np.count_nonzero(values.value[first] > 0))
        return np.array([(2 * holds - users) * (UNIT // 2)], np.int64)


class GroupCounts(UserEncoding, frozen=True, kw_only=True):
    """Users by group: a user adds 1 to each group in which it has an entry with a value above 0, to
    at most `most` of them (those of least number). Sensitivity sqrt(most)."""

    groups: int
    most: int

    def __post_init__(self):
        if not 1 <= self.most <= self.groups <= MOST_GROUPS:
            raise UsageError(f"expected 1 <= most <= groups <= {MOST_GROUPS}")

    @property
    def size(self) -> int:
        return self.groups

    @property
    def sensitivity2(self) -> int:
        return self.most * UNIT * UNIT

    def block(self, values: UserValues) -> np.ndarray:
        kept = _first_entries(values, values.value > 0, self.groups, self.most)
        return np.bincount(values.group[kept], minlength=self.groups).astype(np.int64) * UNIT


class CentredGroups(UserEncoding, frozen=True, kw_only=True):
    """A predicate of users by group. In each group in which a user has an entry, in at most `most`
    of them (those of least number), it adds 1/2 where the predicate holds and -1/2 elsewhere, and
    1/2 to the number of users of the group. Sensitivity sqrt(most / 2). Answers have the shape (2,
    groups)."""

    groups: int
    most: int

    def __post_init__(self):
        if not 1 <= self.most <= self.groups <= MOST_GROUPS:
            raise UsageError(f"expected 1 <= most <= groups <= {MOST_GROUPS}")

    @property
    def size(self) -> int:
        return 2 * self.groups

    @property
    def sensitivity2(self) -> int:
        return 2 * self.most * (UNIT // 2) ** 2

    def block(self, values: UserValues) -> np.ndarray:
        kept = _first_entries(values, np.ones(len(values.group), bool), self.groups, self.most)
        group = values.group[kept]
        holds = np.bincount(group[values.value[kept] > 0], minlength=self.groups)
        there = np.bincount(group, minlength=self.groups)
        return np.concatenate([2 * holds - there, there]).astype(np.int64) * (UNIT // 2)


class GroupsPerUser(UserEncoding, frozen=True, kw_only=True):
    """Users by the number of their groups with a value above 0: bin i holds numbers of at least
    edges[i - 1] and below edges[i]. A user is in one bin: sensitivity 1."""

    edges: tuple[int, ...]

    def __post_init__(self):
        _ascending(self.edges)

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def block(self, values: UserValues) -> np.ndarray:
        before = np.concatenate([[0], np.cumsum(values.value > 0)])
        counts = np.diff(before[values.offsets])
        bins = np.searchsorted(np.array(self.edges, np.int64), counts, "right")
        return np.bincount(bins, minlength=self.size).astype(np.int64) * UNIT


class Histogram(UserEncoding, frozen=True, kw_only=True):
    """Users by value: bin i holds values of at least edges[i - 1] and below edges[i]; the first and
    the last bin are open. A user is in one bin, or has no entry: sensitivity 1."""

    edges: tuple[int, ...]

    def __post_init__(self):
        _ascending(self.edges)

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def block(self, values: UserValues) -> np.ndarray:
        first, _ = _firsts(values)
        bins = np.searchsorted(np.array(self.edges, np.int64), values.value[first], "right")
        return np.bincount(bins, minlength=self.size).astype(np.int64) * UNIT


class Reading(UserEncoding, frozen=True, kw_only=True):
    """An encoding of one number per entry: its value, its weight, or the residual value * 2^shift -
    rough * weight. `rough` and `shift` are public: they follow from released numbers. Unsigned:
    what lies below zero counts as zero."""

    of: Of = "value"
    signed: bool = False
    rough: int = 0
    shift: int = 0

    def __post_init__(self):
        if not 0 <= self.shift <= LARGEST_SHIFT or abs(self.rough) > LARGEST:
            raise UsageError("residual: expected a shift of 0 to 10 and a rough mean below 2^50")

    def read(self, values: UserValues, chosen: Any = slice(None)) -> np.ndarray:
        """int64 of each (chosen) entry, saturated at LARGEST."""
        if self.of == "weight":
            return np.clip(values.weight[chosen], 0, MOST_WEIGHT)
        low = -LARGEST if self.signed else 0
        if self.of == "value":
            return np.clip(values.value[chosen], low, LARGEST)
        most = min(MOST_WEIGHT, (1 << 61) // max(1, abs(self.rough)))
        value = np.clip(values.value[chosen], -LARGEST, LARGEST) << self.shift
        return np.clip(value - self.rough * np.clip(values.weight[chosen], 0, most), low, LARGEST)


class CappedSum(Reading, frozen=True, kw_only=True):
    """The sum over users of the reading, cut off at `cap` (signed: also at -cap). Sensitivity cap.

    Amounts are whole multiples of 1 / unit, about cap / 2^24: rounded towards zero. The cap itself
    has at most 24 significant bits, so it is such a multiple (`rounded_cap`)."""

    cap: int

    def __post_init__(self):
        super().__post_init__()
        _check_cap(self.cap)

    @property
    def size(self) -> int:
        return 1

    @property
    def unit(self) -> float:
        return 2.0 ** (UNIT_BITS - self.cap.bit_length())

    @property
    def sensitivity2(self) -> int:
        return _scaled(self.cap, self.cap) ** 2

    def block(self, values: UserValues) -> np.ndarray:
        first, _ = _firsts(values)
        amount = np.clip(self.read(values, first), -self.cap, self.cap)
        scaled = _scaled(np.abs(amount), self.cap)
        return np.array([np.sum(np.where(amount < 0, -scaled, scaled))], np.int64)


class Hats(Reading, frozen=True, kw_only=True):
    """Hat weights: a user between two public corners adds 1 - o to the lower and o to the upper, o
    being how far along it is. Sensitivity 1, whatever the value.

    Corners are 0 and `corners` (ascending, above 0); signed: also their negatives. Numbers of an
    answer are ordered from the least corner to the largest. A user beyond the last corner is put
    there; a user without an entry is at 0."""

    corners: tuple[int, ...]

    def __post_init__(self):
        super().__post_init__()
        _check_corners(self.corners)

    @property
    def size(self) -> int:
        return len(self.corners) * (1 + self.signed) + 1

    def block(self, values: UserValues) -> np.ndarray:
        first, holders = _firsts(values)
        x = self.read(values, first)
        at, lower, upper = hat_weights(np.abs(x), self.corners)
        zero = len(self.corners) if self.signed else 0
        side = np.where(x < 0, -1, 1)
        out = _added(zero + side * at, lower, self.size)
        out += _added(zero + side * (at + 1), upper, self.size)
        out[zero] += (len(values.offsets) - 1 - holders) * UNIT
        return out


class Aimed(msgspec.Struct, frozen=True, eq=False):
    """Vectors of users over groups, cut to a few bits: of each user `norm`, at least the L2 norm,
    and its number of entries; of each entry its column, its absolute value `length`, and
    `direction`: length / norm of UNIT, rounded towards zero. So the squares of a user's directions
    add up to at most UNIT^2, and the norm of its lengths is at most `norm`."""

    norm: np.ndarray
    entries: np.ndarray
    column: np.ndarray
    length: np.ndarray
    direction: np.ndarray


class Grouped(Reading, frozen=True, kw_only=True):
    """An encoding of a user's vector over public groups."""

    groups: int

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.groups <= MOST_GROUPS:
            raise UsageError(f"groups: expected 1 to {MOST_GROUPS}")

    def aim(self, values: UserValues) -> Aimed:
        """Norms and directions; entries of 0 are left out, and users without others."""
        _check_groups(values, self.groups)
        y = self.read(values)
        filled = np.flatnonzero(y)
        y = y[filled]
        owner = np.repeat(np.arange(len(values.offsets) - 1), np.diff(values.offsets))[filled]
        column = values.group[filled].astype(np.int64) + self.groups * (y < 0)
        first = np.ones(len(y), bool)
        first[1:] = owner[1:] != owner[:-1]
        starts = np.flatnonzero(first)
        entries = np.diff(np.append(starts, len(y)))
        if not len(y):
            return Aimed(starts, entries, column, y, y)
        # Entries are cut to as many bits as let the squares of all groups add up.
        bits = min(UNIT_BITS, (62 - self.groups.bit_length()) // 2)
        cut = np.maximum(_bit_length(np.maximum.reduceat(np.abs(y), starts)) - bits, 0)
        z = np.abs(y) >> np.repeat(cut, entries)
        norm = ceil_root(np.add.reduceat(z * z, starts))
        direction = z * UNIT // np.repeat(norm, entries)
        return Aimed(norm << cut, entries, column, z << np.repeat(cut, entries), direction)


class DirectionHats(Grouped, frozen=True, kw_only=True):
    """Hats for sums by group: hat weights of the norm of the user's vector y, times y / |y|.
    Sensitivity 1 for any number of groups.

    Answers have the shape (corners, groups), signed: (corners, 2, groups) with what is above zero
    first and what is below zero (its absolute values) second."""

    corners: tuple[int, ...]

    def __post_init__(self):
        super().__post_init__()
        _check_corners(self.corners)
        if self.corners[0] != 1:
            raise UsageError("expected corners from 1")

    @property
    def columns(self) -> int:
        return self.groups * (1 + self.signed)

    @property
    def size(self) -> int:
        return len(self.corners) * self.columns

    def block(self, values: UserValues) -> np.ndarray:
        aimed = self.aim(values)
        at, lower, upper = hat_weights(aimed.norm, self.corners)
        out = np.zeros(self.size, np.int64)
        for corner, weight in ((at, lower), (at + 1, upper)):
            add = (np.repeat(weight, aimed.entries) * aimed.direction) >> UNIT_BITS
            row = np.repeat(corner, aimed.entries) - 1
            there = row >= 0  # a norm of 1 or more never has weight at the corner 0
            place = row[there] * self.columns + aimed.column[there]
            out += _added(place, add[there], self.size)
        return out


class CappedGroups(Grouped, frozen=True, kw_only=True):
    """Sums by group of the reading: a user's vector y over groups is cut to the length `cap`, that
    is y * min(1, cap / |y|). Sensitivity cap for any number of groups. Grid and cap as of
    `CappedSum`; below zero and above are added up."""

    cap: int

    def __post_init__(self):
        super().__post_init__()
        _check_cap(self.cap)

    @property
    def size(self) -> int:
        return self.groups

    @property
    def unit(self) -> float:
        return 2.0 ** (UNIT_BITS - self.cap.bit_length())

    @property
    def sensitivity2(self) -> int:
        return _scaled(self.cap, self.cap) ** 2

    def block(self, values: UserValues) -> np.ndarray:
        aimed = self.aim(values)
        short = np.repeat(aimed.norm <= self.cap, aimed.entries)
        whole = _scaled(np.where(short, aimed.length, 0), self.cap)
        cut = (aimed.direction * _scaled(self.cap, self.cap)) >> UNIT_BITS
        add = np.where(short, whole, cut)
        below = aimed.column >= self.groups
        group = aimed.column - self.groups * below
        out = _added(group[~below], add[~below], self.size)
        return out - _added(group[below], add[below], self.size)


def hat_weights(x: np.ndarray, corners: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(number of the corner at or below x, weight of it, weight of the next) of every x >= 0, in
    units; corner 0 is 0. Both weights are rounded towards zero, so their squares add up to at most
    UNIT^2: with o = (x - a) / (b - a) they are at most 1 - o and o of UNIT."""
    grid = np.array([0, *corners], np.int64)
    x = np.minimum(x, grid[-1])
    at = np.minimum(np.searchsorted(grid, x, "right") - 1, len(grid) - 2)
    width = np.diff(grid)
    cut = np.maximum(_bit_length(width) - HALF.bit_length() + 1, 0)
    whole = ((width - 1) >> cut) + 1  # rounded up
    cut, whole = cut[at], whole[at]
    lower = (((grid[at + 1] - x) >> cut) << UNIT_BITS) // whole
    upper = (((x - grid[at]) >> cut) << UNIT_BITS) // whole
    return at, lower, upper


def ceil_root(squares: np.ndarray) -> np.ndarray:
    """The least whole number whose square is at least each of these, which are below 2^62. The
    float is a first guess only: whole numbers decide."""
    root = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    root -= root * root > squares
    root += (root + 1) * (root + 1) <= squares
    return root + (root * root < squares)


def octaves(top: int, least: int = 1) -> tuple[int, ...]:
    """Public corners: powers of two from `least` on, the last one `top`."""
    powers = []
    corner = least
    while corner < top:
        powers.append(corner)
        corner *= 2
    return (*powers, top)


def rounded_cap(cap: int) -> int:
    """The cap rounded down to 24 significant bits."""
    spare = max(0, cap.bit_length() - UNIT_BITS)
    return cap >> spare << spare


def _scaled(amount: Any, cap: int) -> Any:
    """An amount of at most `cap` in grid units, rounded towards zero."""
    spare = UNIT_BITS - cap.bit_length()
    return amount << spare if spare >= 0 else amount >> -spare


def _some_users(values: UserValues, start: int, stop: int) -> UserValues:
    """The values of users start to stop - 1."""
    offsets = values.offsets[start : stop + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    return UserValues(
        offsets - offsets[0], values.group[entries], values.value[entries], values.weight[entries]
    )


def _firsts(values: UserValues) -> tuple[np.ndarray, int]:
    """(the first entry of every user that has one, the number of these users). Further entries of a
    number without groups do not count, so that a user has one place."""
    starts = values.offsets[:-1][np.diff(values.offsets) > 0]
    return starts, len(starts)


def _first_entries(values: UserValues, counts: np.ndarray, groups: int, most: int) -> np.ndarray:
    """Which entries count: of each user the first `most` of those that `counts` names."""
    _check_groups(values, groups)
    before = np.concatenate([[0], np.cumsum(counts)])
    rank = before[1:] - np.repeat(before[values.offsets[:-1]], np.diff(values.offsets))
    return np.flatnonzero(counts & (rank <= most))


def _added(where: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """int64[size]: exact sums of int64 weights by place. `np.bincount` adds floats; each half of a
    weight has 12 bits, so sums of up to 2^41 of them are exact in 53 bits."""
    low = np.bincount(where, (weights & 0xFFF).astype(np.float64), size)
    high = np.bincount(where, (weights >> 12).astype(np.float64), size)
    return low.astype(np.int64) + (high.astype(np.int64) << 12)


def _bit_length(x: np.ndarray) -> np.ndarray:
    """Bits of whole numbers from 0 to 2^53."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _check_cap(cap: int) -> None:
    if not 1 <= cap <= LARGEST or rounded_cap(cap) != cap:
        raise UsageError(f"cap: expected 1 to 2^50 with 24 significant bits, got {cap}")


def _check_corners(corners: Sequence[int]) -> None:
    _ascending(corners)
    if not corners or corners[0] < 1 or corners[-1] > LARGEST:
        raise UsageError("corners: expected whole numbers from 1 to 2^50")


def _ascending(edges: Sequence[int]) -> None:
    if any(b <= a for a, b in pairwise(edges)):
        raise UsageError("expected ascending whole numbers")


def _check_groups(values: UserValues, groups: int) -> None:
    """Each (user, group) has at most one entry, in order: two of them would add up."""
    group = values.group
    if len(group) and not (group.min() >= 0 and group.max() < groups):
        raise UsageError("a group lies outside the public groups")
    follows = np.ones(len(group) + 1, bool)
    follows[values.offsets] = False  # the first entry of a user follows none of its own
    if (np.diff(group) <= 0)[follows[1:-1]].any():
        raise UsageError("a user's groups must ascend, each at most once")


PROVED: tuple[type[UserEncoding], ...] = (
    Users,
    Centred,
    GroupCounts,
    CentredGroups,
    GroupsPerUser,
    Histogram,
    CappedSum,
    CappedGroups,
    Hats,
    DirectionHats,
)
"""The only classes that a session counts by, and no subclasses of them: their norms are proved."""
ENCODINGS: tuple[type[Encoding], ...] = (ClampedSums, *PROVED)
"""The classes that engines know by name."""

"""Encodings of users' amounts: capped sums and hats, in all and by group."""

from typing import Any, Literal

import msgspec
import numpy as np

from ..errors import UsageError
from . import encoding_grid as grid
from .encoding_grid import LARGEST, LARGEST_SHIFT, MOST_GROUPS, MOST_WEIGHT, UNIT, UNIT_BITS
from .user_encoding import UserEncoding
from .user_values import UserValues

Of = Literal["value", "weight", "residual"]


class Reading(UserEncoding, frozen=True, kw_only=True):
    """An encoding of one number per entry: its value, its weight, or the residual value * 2^shift -
    rough * weight. `rough` and `shift` are public: they follow from released numbers. Unsigned:
    what lies below zero counts as zero.

    Of residuals, `largest` is the declared maximum to which a value is cut before its residual is taken (by
    group: of the L2 norm of a user's values). `refunds`: values below zero count as such, not as zero."""

    of: Of = "value"
    signed: bool = False
    rough: int = 0
    shift: int = 0
    largest: int = LARGEST
    refunds: bool = True

    def __post_init__(self):
        if not 0 <= self.shift <= LARGEST_SHIFT or abs(self.rough) > LARGEST:
            raise UsageError("residual: expected a shift of 0 to 10 and a rough mean below 2^50")
        if not 0 < self.largest <= LARGEST:
            raise UsageError("residual: expected a largest value of 1 to 2^50")

    def read(self, values: UserValues, chosen: Any = slice(None)) -> np.ndarray:
        """int64 of each (chosen) entry, saturated at LARGEST."""
        if self.of == "weight":
            return np.clip(values.weight[chosen], 0, MOST_WEIGHT)
        low = -LARGEST if self.signed else 0
        if self.of == "value":
            return np.clip(values.value[chosen], low, LARGEST)
        most = min(MOST_WEIGHT, (1 << 61) // max(1, abs(self.rough)))
        below = -self.largest if self.refunds else 0
        value = np.clip(values.value[chosen], below, self.largest) << self.shift
        return np.clip(value - self.rough * np.clip(values.weight[chosen], 0, most), low, LARGEST)


class CappedSum(Reading, frozen=True, kw_only=True):
    """The sum over users of the reading, cut off at `cap` (signed: also at -cap). Sensitivity cap.

    Amounts are whole multiples of 1 / unit, about cap / 2^24: rounded towards zero. The cap itself
    has at most 24 significant bits, so it is such a multiple (`rounded_cap`)."""

    cap: int

    def __post_init__(self):
        super().__post_init__()
        grid.check_cap(self.cap)

    @property
    def size(self) -> int:
        return 1

    @property
    def unit(self) -> float:
        return 2.0 ** (UNIT_BITS - self.cap.bit_length())

    @property
    def sensitivity2(self) -> int:
        return grid.scaled(self.cap, self.cap) ** 2

    def block(self, values: UserValues) -> np.ndarray:
        first, _ = grid.firsts(values)
        amount = np.clip(self.read(values, first), -self.cap, self.cap)
        scaled = grid.scaled(np.abs(amount), self.cap)
        return np.array([np.sum(np.where(amount < 0, -scaled, scaled))], np.int64)


class Hats(Reading, frozen=True, kw_only=True):
    """Hat weights: a user between two public corners adds 1 - o to the lower and o to the upper.
    Here o is how far along it is. Sensitivity 1, whatever the value.

    Corners are 0 and `corners` (ascending, above 0); signed: also their negatives. Numbers of an
    answer are ordered from the least corner to the largest. A user beyond the last corner is put
    there; a user without an entry is at 0."""

    corners: tuple[int, ...]

    def __post_init__(self):
        super().__post_init__()
        grid.check_corners(self.corners)

    @property
    def size(self) -> int:
        return len(self.corners) * (1 + self.signed) + 1

    def block(self, values: UserValues) -> np.ndarray:
        first, holders = grid.firsts(values)
        x = self.read(values, first)
        at, lower, upper = grid.hat_weights(np.abs(x), self.corners)
        zero = len(self.corners) if self.signed else 0
        side = np.where(x < 0, -1, 1)
        out = grid.added(zero + side * at, lower, self.size)
        out += grid.added(zero + side * (at + 1), upper, self.size)
        out[zero] += (len(values.offsets) - 1 - holders) * UNIT
        return out


class Aimed(msgspec.Struct, frozen=True, eq=False):
    """Vectors of users over groups, cut to a few bits.

    Of each user: `norm`, at least the L2 norm, and its number of entries. Of each entry: its column, its
    absolute value `length`, and `direction`, length / norm of UNIT, rounded towards zero. So the squares of
    a user's directions add up to at most UNIT^2, and the norm of its lengths is at most `norm`."""

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

    def _within(self, values: UserValues) -> UserValues:
        """The values with each user's vector cut to the declared length, before residuals. An entry
        is one number of one user in any case, so no norm depends on it."""
        if self.of != "residual" or self.largest == LARGEST:
            return values
        value = np.clip(values.value, -LARGEST if self.refunds else 0, LARGEST)
        plain = msgspec.structs.replace(values, value=value)
        aimed = Grouped(groups=self.groups, signed=True).aim(plain)
        filled = np.flatnonzero(value)
        long = np.repeat(aimed.norm > self.largest, aimed.entries)
        spare = max(0, self.largest.bit_length() - UNIT_BITS)
        cut = aimed.direction[long] * (self.largest >> spare) >> UNIT_BITS - spare
        value[filled[long]] = np.sign(value[filled[long]]) * cut
        return msgspec.structs.replace(values, value=value)

    def aim(self, values: UserValues) -> Aimed:
        """Norms and directions; entries of 0 are left out, and users without others."""
        grid.check_groups(values, self.groups)
        y = self.read(self._within(values))
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
        cut = np.maximum(grid.bit_length(np.maximum.reduceat(np.abs(y), starts)) - bits, 0)
        z = np.abs(y) >> np.repeat(cut, entries)
        norm = grid.ceil_root(np.add.reduceat(z * z, starts))
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
        grid.check_corners(self.corners)
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
        at, lower, upper = grid.hat_weights(aimed.norm, self.corners)
        out = np.zeros(self.size, np.int64)
        for corner, weight in ((at, lower), (at + 1, upper)):
            add = (np.repeat(weight, aimed.entries) * aimed.direction) >> UNIT_BITS
            row = np.repeat(corner, aimed.entries) - 1
            there = row >= 0  # a norm of 1 or more never has weight at the corner 0
            place = row[there] * self.columns + aimed.column[there]
            out += grid.added(place, add[there], self.size)
        return out


class CappedGroups(Grouped, frozen=True, kw_only=True):
    """Sums by group of the reading. A user's vector y over groups is cut to the length `cap`: it
    becomes y * min(1, cap / |y|). Sensitivity cap for any number of groups. Grid and cap as of
    `CappedSum`; below zero and above are added up."""

    cap: int

    def __post_init__(self):
        super().__post_init__()
        grid.check_cap(self.cap)

    @property
    def size(self) -> int:
        return self.groups

    @property
    def unit(self) -> float:
        return 2.0 ** (UNIT_BITS - self.cap.bit_length())

    @property
    def sensitivity2(self) -> int:
        return grid.scaled(self.cap, self.cap) ** 2

    def block(self, values: UserValues) -> np.ndarray:
        aimed = self.aim(values)
        short = np.repeat(aimed.norm <= self.cap, aimed.entries)
        whole = grid.scaled(np.where(short, aimed.length, 0), self.cap)
        cut = (aimed.direction * grid.scaled(self.cap, self.cap)) >> UNIT_BITS
        add = np.where(short, whole, cut)
        below = aimed.column >= self.groups
        group = aimed.column - self.groups * below
        out = grid.added(group[~below], add[~below], self.size)
        return out - grid.added(group[below], add[below], self.size)


class VectorLengths(Grouped, frozen=True, kw_only=True):
    """Users by the length of their vectors over groups: bin i holds lengths of at least
    edges[i - 1] and below edges[i]; who has no entry has the length 0. A user is in one bin:
    sensitivity 1."""

    edges: tuple[int, ...]

    def __post_init__(self):
        super().__post_init__()
        grid.check_corners(self.edges)

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def block(self, values: UserValues) -> np.ndarray:
        norm = self.aim(values).norm
        bins = np.searchsorted(np.array(self.edges, np.int64), norm, "right")
        out = np.bincount(bins, minlength=self.size)
        out[0] += len(values.offsets) - 1 - len(norm)
        return out.astype(np.int64) * UNIT

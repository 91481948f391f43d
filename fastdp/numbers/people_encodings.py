"""Encodings that count users: all, those for whom something holds, by group, and by value."""

import numpy as np

from ..errors import UsageError
from . import encoding_grid as grid
from .encoding_grid import MOST_GROUPS, UNIT
from .user_encoding import UserEncoding
from .user_values import UserValues


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
        first, _ = grid.firsts(values)
        holds = int(np.count_nonzero(values.value[first] > 0))
        return np.array([(2 * holds - users) * (UNIT // 2)], np.int64)


class InGroups(UserEncoding, frozen=True, kw_only=True):
    """Base of encodings by group in which a user counts in at most `most` groups."""

    groups: int
    most: int

    def __post_init__(self):
        if not 1 <= self.most <= self.groups <= MOST_GROUPS:
            raise UsageError(f"expected 1 <= most <= groups <= {MOST_GROUPS}")


class GroupCounts(InGroups, frozen=True, kw_only=True):
    """Users by group. A user adds 1 to each group in which it has an entry with a value above 0. At
    most `most` groups count, those of least number. Sensitivity sqrt(most)."""

    @property
    def size(self) -> int:
        return self.groups

    @property
    def sensitivity2(self) -> int:
        return self.most * UNIT * UNIT

    def block(self, values: UserValues) -> np.ndarray:
        kept = grid.first_entries(values, values.value > 0, self.groups, self.most)
        return np.bincount(values.group[kept], minlength=self.groups).astype(np.int64) * UNIT


class CentredGroups(InGroups, frozen=True, kw_only=True):
    """A predicate of users by group. In each of its groups a user adds 1/2 where the predicate holds
    and -1/2 elsewhere. It adds 1/2 to the number of users of the group too. At most `most` groups
    count, those of least number. Sensitivity sqrt(most / 2). Answers have the shape (2,
    groups)."""

    @property
    def size(self) -> int:
        return 2 * self.groups

    @property
    def sensitivity2(self) -> int:
        return 2 * self.most * (UNIT // 2) ** 2

    def block(self, values: UserValues) -> np.ndarray:
        kept = grid.first_entries(values, np.ones(len(values.group), bool), self.groups, self.most)
        group = values.group[kept]
        holds = np.bincount(group[values.value[kept] > 0], minlength=self.groups)
        there = np.bincount(group, minlength=self.groups)
        return np.concatenate([2 * holds - there, there]).astype(np.int64) * (UNIT // 2)


class GroupsPerUser(UserEncoding, frozen=True, kw_only=True):
    """Users by the number of their groups with a value above 0: bin i holds numbers of at least
    edges[i - 1] and below edges[i]. A user is in one bin: sensitivity 1."""

    edges: tuple[int, ...]

    def __post_init__(self):
        grid.check_ascending(self.edges)

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
        grid.check_ascending(self.edges)

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def block(self, values: UserValues) -> np.ndarray:
        first, _ = grid.firsts(values)
        bins = np.searchsorted(np.array(self.edges, np.int64), values.value[first], "right")
        return np.bincount(bins, minlength=self.size).astype(np.int64) * UNIT

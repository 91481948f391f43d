"""User keys: declarative descriptions of histograms of users.

A key maps one user's rows to keys of a public set. It says what is counted; `engines` does it. A key
holds public facts only. Whatever the rows, each user adds at most 1 to each of at most `cap` keys.
With `Agreement` and `Disagreement` a user adds between -1 and 1, and with `Succession` a vector of L2
norm at most the root of its `numbers`. Anything random is a hash of the user's id value and the
content of that user's rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from .domain import Domain
from .errors import UsageError, is_whole

UNITS = 1 << 20
"""Shares are counted in whole units of 2^-20, rounded down for each user."""
MOST_ROWS = 1 << 40
"""The largest bound of `RowsUpTo`: 2^20 times as much fits in 64 bits."""

MOST_CODES = 1 << 20
"""The most codes of a pair of columns in `Succession`."""


TIE_BITS = 30
"""Bits of the numbers from which tie numbers are made (docs/explain/ties.md)."""


def tie_blocks(domain: Domain, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The columns in order, in blocks of at most 2^30 cells or of one column. Numbers of a row's cells
    over the blocks, in C order, are the words of its tie number."""
    blocks: list[tuple[str, ...]] = []
    for name in columns:
        if blocks and domain.cells((*blocks[-1], name)) <= 1 << TIE_BITS:
            blocks[-1] = (*blocks[-1], name)
        else:
            blocks.append((name,))
    return blocks


def _whole(name: str, value) -> int:
    """The value as an int; UsageError unless it is a whole number of at least 1."""
    if not is_whole(value, 1):
        raise UsageError(f"{name} must be a whole number >= 1, got {value!r}")
    return int(value)


def ascending(name: str, values, least: int) -> np.ndarray:
    """Read-only int64; UsageError unless the values are whole numbers >= `least` that ascend."""
    numbers = np.asarray(values)
    array = np.array(numbers, np.int64)
    ascending = array.ndim == 1 and (np.diff(array) > 0).all() and (array[:1] >= least).all()
    if not ascending or (array != numbers).any():
        raise UsageError(f"{name} must be whole numbers >= {least} in strictly ascending order")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class UserKey:
    """Base of all keys."""

    units: ClassVar[int] = 1
    """How many of the engine's integers make one user."""

    @property
    def domain_columns(self) -> tuple[str, ...]:
        """The columns whose codes the key looks at."""
        return ()

    @property
    def size(self) -> int:
        """Number of keys."""
        raise NotImplementedError

    def bind(self, domain: Domain) -> UserKey:
        """The key with the numbers of codes of its columns filled in; SchemaError if a column is
        unknown."""
        return self

    def digest(self) -> str:
        """SHA-256 of what the key says, the same in every process."""
        state = hashlib.sha256(type(self).__name__.encode())
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, np.ndarray):
                value = hashlib.sha256(value.tobytes()).hexdigest()
            state.update(json.dumps([item.name, value]).encode())
        return state.hexdigest()


def lower_edges(values, least: int) -> tuple[int, ...]:
    """Edges of groups by rows per user, checked as by `ascending`; at least one."""
    edges = ascending("edges", values, least)
    if not len(edges):
        raise UsageError("edges: expected at least one")
    return tuple(int(e) for e in edges)


@dataclass(frozen=True, eq=False)
class RowsPerUser(UserKey):
    """Key i: users with edges[i] <= R < edges[i+1] rows; the last bin is open; R < edges[0] is not
    counted."""

    edges: tuple[int, ...]

    def __post_init__(self):
        object.__setattr__(self, "edges", lower_edges(self.edges, 1))

    @property
    def size(self) -> int:
        return len(self.edges)


@dataclass(frozen=True, eq=False)
class RowsUpTo(UserKey):
    """One key: the number of rows, of each user at most `most`. A user with R rows adds floor(2^20
    min(R, most) / most) units, so at most 1; the sum times `most` is a number of rows."""

    most: int

    units: ClassVar[int] = UNITS
    size: ClassVar[int] = 1

    def __post_init__(self):
        if _whole("most", self.most) > MOST_ROWS:
            raise UsageError(f"most must be at most {MOST_ROWS}, got {self.most}")


@dataclass(frozen=True, eq=False)
class WithoutId(UserKey):
    """One key: the number of rows whose user id is null, in units of `together` rows (a power of
    2).

    These rows have no user, so the unit of privacy says nothing of them: it has to be chosen. Here
    a unit is any `together` rows without an id. Adding or removing at most so many changes the
    count of rows by at most `together`, which is 1 of what is released. Adding or removing one user
    with an id changes it by 0.
    """

    together: int

    size: ClassVar[int] = 1

    def __post_init__(self):
        if _whole("together", self.together) > UNITS or self.together & (self.together - 1):
            raise UsageError(f"together must be a power of 2, at most {UNITS}, got {self.together}")

    @property
    def units(self) -> int:  # type: ignore[override]
        return self.together


@dataclass(frozen=True, eq=False)
class _OverColumns(UserKey):
    """Base of keys over the cells of some columns. `shape`: their numbers of codes, once bound."""

    columns: tuple[str, ...]

    @property
    def domain_columns(self) -> tuple[str, ...]:
        return self.columns

    def _cells(self) -> int:
        """Number of cells over the columns; UsageError before `bind`."""
        shape = getattr(self, "shape", None)
        if shape is None:
            raise UsageError(
                f"{type(self).__name__}: its size depends on the domain; call bind(domain) first"
            )
        return int(np.prod(np.array(shape, object)))

    def bind(self, domain: Domain) -> UserKey:
        columns = domain.check(self.columns)
        shape = domain.shape(columns)
        if getattr(self, "shape", None) not in (None, shape):
            raise UsageError(f"{type(self).__name__}: it is bound to a different domain")
        if domain.cells(columns) >= 1 << 62:
            raise UsageError(
                f"{type(self).__name__}: {columns!r} have over 2^62 cells; use fewer columns"
            )
        return replace(self, shape=shape)  # type: ignore[call-arg]  # every subclass has it


@dataclass(frozen=True, eq=False)
class MostCommon(_OverColumns):
    """A user's most common cell over `columns` (cells numbered in C order), or most common
    `labels[cell]`.

    labels: an integer for every cell, the keys being 0..keys-1; a negative label is not counted.
    Ties are broken by a hash of the user's id value and the key.
    """

    labels: np.ndarray | None = None
    keys: int | None = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self):
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.labels is None:
            return
        labels = np.array(self.labels, np.int64).ravel()
        most = max(1, int(labels.max(initial=-1)) + 1)
        keys = most if self.keys is None else _whole("keys", self.keys)
        if labels.max(initial=-1) >= keys:
            raise UsageError(f"labels must be below keys = {keys}")
        labels.flags.writeable = False
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "keys", keys)
        if self.shape is not None and len(labels) != self._cells():
            raise UsageError(
                f"labels: expected one for each of the {self._cells()} cells, got {len(labels)}"
            )

    @property
    def size(self) -> int:
        return self._cells() if self.labels is None else int(self.keys or 0)


@dataclass(frozen=True, eq=False)
class Groups(_OverColumns):
    """Cells (group over `columns`, T): how many users have exactly T rows in the group.

    Cells are numbered group * t_max + (T - 1), groups in C order over the columns. A user with more
    than t_max rows in a group is in its last cell, T = t_max. cells: the sorted numbers of those
    cells that exist (public); others are not counted, and the cap of groups per user applies after
    this restriction. Key i is cells[i].
    """

    t_max: int
    cells: np.ndarray | None = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self):
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "t_max", _whole("t_max", self.t_max))
        if self.shape is not None and self._cells() * self.t_max >= 1 << 62:
            raise UsageError("Groups: more than 2^62 cells; use fewer columns")
        if self.cells is not None:
            cells = ascending("cells", self.cells, 0)
            if self.shape is not None and len(cells) and cells[-1] >= self._cells() * self.t_max:
                raise UsageError("Groups: a cell number is outside the grid of columns and T")
            object.__setattr__(self, "cells", cells)

    @property
    def size(self) -> int:
        return self._cells() * self.t_max if self.cells is None else len(self.cells)


@dataclass(frozen=True, eq=False)
class Agreement(UserKey):
    """How often two rows of one user agree, summed over users, by rows per user.

    A feature is a tuple of columns; two rows agree in it if they agree in all its columns. With a
    width w as its last item, they agree if their cells over these columns (for one column: codes)
    // w do.

    A user with R rows is in the group g with edges[g] <= R < edges[g + 1]. The last group is open;
    a user with fewer than edges[0] rows is not counted. Let a be the share of agreeing pairs among
    the R (R - 1) / 2 pairs of its rows. The user adds to its group 2 floor(2^20 a) - 2^20 for each
    feature, and 2^20 for itself. So all its numbers lie between -1 and 1. Their noise is half of
    what numbers between 0 and 1 would need for the same shares. Keys are numbered g * (features +
    1) + feature, the user's own 1 last.
    """

    features: tuple[tuple[str | int, ...], ...]
    edges: tuple[int, ...] = (2,)

    units: ClassVar[int] = UNITS

    def __post_init__(self):
        object.__setattr__(self, "features", tuple(tuple(f) for f in self.features))
        object.__setattr__(self, "edges", lower_edges(self.edges, 2))
        if not self.features or not all(self.split(feature)[0] for feature in self.features):
            raise UsageError("features: expected at least one, each with at least one column")

    @staticmethod
    def split(feature: tuple[str | int, ...]) -> tuple[tuple[str, ...], int]:
        """The columns of a feature, and its width (1: single cells)."""
        if not feature or isinstance(feature[-1], str):
            return feature, 1  # type: ignore[return-value]
        return feature[:-1], _whole("width", feature[-1])  # type: ignore[return-value]

    @property
    def domain_columns(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(name for feature in self.features for name in self.split(feature)[0])
        )

    @property
    def size(self) -> int:
        return len(self.edges) * self.numbers

    @property
    def numbers(self) -> int:
        """To how many keys one user adds a number between -1 and 1."""
        return len(self.features) + 1

    def bind(self, domain: Domain) -> Agreement:
        for columns, _ in map(self.split, self.features):
            if domain.cells(domain.check(columns)) >= 1 << 62:
                raise UsageError(
                    f"Agreement: {columns!r} has more than 2^62 cells; use fewer columns"
                )
        return self


@dataclass(frozen=True, eq=False)
class Disagreement(UserKey):
    """Users whose rows do not all have the same code, column by column, less those whose rows do.

    A user with two rows or more adds 1 for each of `columns` in which two of its rows differ. It
    adds -1 for each in which all are equal. It adds 1 for itself (the last key). A user with one
    row adds nothing. So one user adds at most `numbers` whole numbers of -1 or 1, however many rows
    it has.
    """

    columns: tuple[str, ...]

    def __post_init__(self):
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise UsageError("columns: expected at least one, and none twice")

    @property
    def domain_columns(self) -> tuple[str, ...]:
        return self.columns

    @property
    def size(self) -> int:
        return self.numbers

    @property
    def numbers(self) -> int:
        """To how many keys one user adds -1 or 1."""
        return len(self.columns) + 1

    def bind(self, domain: Domain) -> Disagreement:
        domain.check(self.columns)
        return self


@dataclass(frozen=True, eq=False)
class Succession(UserKey):
    """How a user's rows follow each other, summed over users.

    A user's R rows are put in order of the codes of `order`, most significant first. Ties go by a
    hash of its id value and the codes of all columns of the key. It is in the group g with
    edges[g] <= R < edges[g + 1]; the last group is open. It adds, in units of 2^-20:

    near : for each of `pairs` (x, y), 2 floor(2^20 a) - 2^20 in its group, numbered pair after pair. a
        is the share of its R - 1 pairs of successive rows of which x of the first is y of the second
    users : 2^20 in its group
    any : as near, of all R (R - 1) ordered pairs of rows, where x and y differ; only where R >= 2
    gaps : floor(2^20 share) of its R - 1 gaps in each bin; only where R >= 2. A gap is the difference
        of the rows' numbers in C order over `order`. Bin 0 holds 0, bin b holds 2^(b - 1) to 2^b - 1,
        the last one all above
    first, last : 2^20 in the bin of its first and its last row: the codes of order[0] in `ends` equal
        parts

    Sensitivity: adding a user adds this vector and changes nobody else's. It is in one group, so
    near, any and users are at most pairs + any + 1 numbers between -1 and 1 that are not 0. The
    gaps' shares are not negative and their sum is at most 1, so their L2 norm is at most 1. First
    and last have the norm 1 each. So the L2 norm is at most the root of `numbers`, whatever the
    rows. A user with two equal rows has just this norm.
    """

    order: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    gaps: int
    ends: int
    edges: tuple[int, ...] = (2,)

    units: ClassVar[int] = UNITS

    def __post_init__(self):
        object.__setattr__(self, "order", tuple(self.order))
        object.__setattr__(self, "pairs", tuple((x, y) for x, y in self.pairs))
        object.__setattr__(self, "edges", lower_edges(self.edges, 2))
        _whole("gaps", self.gaps)
        _whole("ends", self.ends)

    @property
    def domain_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.order, *(name for pair in self.pairs for name in pair))))

    @property
    def lengths(self) -> dict[str, int]:
        """The parts of the vector in their order, and how many keys each has."""
        across = sum(x != y for x, y in self.pairs)
        parts = {"near": len(self.pairs) * len(self.edges), "users": len(self.edges), "any": across}
        return parts | {"gaps": self.gaps, "first": self.ends, "last": self.ends}

    @property
    def size(self) -> int:
        return sum(self.lengths.values())

    @property
    def numbers(self) -> int:
        """The square of the L2 norm of what one user adds, at most."""
        return len(self.pairs) + self.lengths["any"] + 4

    def parts(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Name of each part to its numbers."""
        return dict(
            zip(self.lengths, np.split(values, np.cumsum(list(self.lengths.values()))[:-1]))
        )

    def bind(self, domain: Domain) -> Succession:
        if not self.order or domain.cells(domain.check(self.order)) >= 1 << 62:
            raise UsageError(f"Succession: between 1 and 2^62 cells over the order {self.order!r}")
        for x, y in self.pairs:
            if (
                domain[domain.check((x,))[0]] != domain[domain.check((y,))[0]]
                or domain[x] > MOST_CODES
            ):
                raise UsageError(
                    f"Succession: {x!r} and {y!r} need the same codes, at most {MOST_CODES}"
                )
        if self.ends > domain[self.order[0]]:
            raise UsageError(
                f"Succession: {self.order[0]!r} has fewer codes than ends = {self.ends}"
            )
        return self


KEYS = (RowsPerUser, RowsUpTo, WithoutId, MostCommon, Groups, Agreement, Disagreement, Succession)
"""The only classes of keys that a session counts by, and no subclasses of them: their sensitivity is
proved."""

"""User keys: declarative maps from one user's rows to keys of a public set, for histograms of users.

A key says what is counted; `engines` does it. Each user adds at most 1 to each of at most `cap` keys,
whatever the rows, and anything random is a hash of the user's id value and the content of that user's rows.
Keys hold public facts only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace

import numpy as np

from .domain import Domain
from .errors import UsageError, is_whole


def _whole(name: str, value) -> int:
    if not is_whole(value, 1):
        raise UsageError(f"{name} must be a whole number >= 1, got {value!r}")
    return int(value)


def _ascending(name: str, values, least: int) -> np.ndarray:
    numbers = np.asarray(values)
    array = np.array(numbers, np.int64)
    if (
        array.ndim != 1
        or (array != numbers).any()
        or (len(array) and array[0] < least)
        or (np.diff(array) <= 0).any()
    ):
        raise UsageError(f"{name} must be whole numbers >= {least} in strictly ascending order")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class UserKey:
    """Base of all keys."""

    @property
    def domain_columns(self) -> tuple[str, ...]:
        """The columns whose codes the key looks at."""
        return ()

    @property
    def size(self) -> int:
        """Number of keys."""
        raise NotImplementedError

    def bind(self, domain: Domain) -> UserKey:
        """The key with the numbers of codes of its columns filled in; SchemaError where a column is
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


@dataclass(frozen=True, eq=False)
class RowsPerUser(UserKey):
    """Key i: users with edges[i] <= R < edges[i+1] rows; the last bin is open; R < edges[0] is not
    counted."""

    edges: tuple[int, ...]

    def __post_init__(self):
        edges = _ascending("edges", self.edges, 1)
        if not len(edges):
            raise UsageError("edges must have at least one entry")
        object.__setattr__(self, "edges", tuple(int(e) for e in edges))

    @property
    def size(self) -> int:
        return len(self.edges)


@dataclass(frozen=True, eq=False)
class _OverColumns(UserKey):
    columns: tuple[str, ...]

    @property
    def domain_columns(self) -> tuple[str, ...]:
        return self.columns

    def _grid(self) -> int:
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
            raise UsageError(f"{type(self).__name__}: made for another domain")
        if domain.cells(columns) >= 1 << 62:
            raise UsageError(f"{type(self).__name__}: more than 2^62 cells over {columns!r}")
        return replace(self, shape=shape)  # type: ignore[call-arg]  # every subclass has it


@dataclass(frozen=True, eq=False)
class MostCommon(_OverColumns):
    """A user's most common cell over `columns` (cells numbered in C order), or most common `labels[cell]`.

    labels: an integer for every cell, the keys being 0..keys-1; a negative label is not counted. Ties are
    broken by a hash of the user's id value and the key.
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
        if self.shape is not None and len(labels) != self._grid():
            raise UsageError(f"labels: one for each of the {self._grid()} cells, got {len(labels)}")

    @property
    def size(self) -> int:
        return self._grid() if self.labels is None else int(self.keys or 0)


@dataclass(frozen=True, eq=False)
class Groups(_OverColumns):
    """Cells (group over `columns`, T): how many users have exactly T rows in the group.

    Cells are numbered group * t_max + (T - 1), groups in C order over the columns. A user with more than
    t_max rows in a group is in its last cell, T = t_max. cells: the sorted numbers of those cells that exist
    (public); others are not counted, and the cap of groups per user applies after this restriction. Key i is
    cells[i].
    """

    t_max: int
    cells: np.ndarray | None = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self):
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "t_max", _whole("t_max", self.t_max))
        if self.shape is not None and self._grid() * self.t_max >= 1 << 62:
            raise UsageError("Groups: more than 2^62 cells")
        if self.cells is not None:
            cells = _ascending("cells", self.cells, 0)
            if self.shape is not None and len(cells) and cells[-1] >= self._grid() * self.t_max:
                raise UsageError("Groups: a cell number lies outside the grid of columns and T")
            object.__setattr__(self, "cells", cells)

    @property
    def size(self) -> int:
        return self._grid() * self.t_max if self.cells is None else len(self.cells)

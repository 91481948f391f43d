"""Which cells are asked about: groups of codes and T, from public data widened in time, or the
whole public grid.

Groups are flat cell numbers over the columns in C order, as `userkeys.Groups` numbers them, always
sorted. Cells are group * t_max + T - 1. Nothing here is private, and nothing is as large as the
grid unless the grid is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ...domain import Clique
from ...errors import DataError, UsageError
from ...schema import Schema
from ...userkeys import Groups
from ..base import Public

MAX_GRID = 1 << 25
"""Cells of a whole grid at most: each of them is asked about and answered with noise."""


class Cells(Struct, frozen=True, eq=False):
    """The query set: `columns` with their numbers of codes, and the sorted cells (None: all of the
    grid)."""

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    t_max: int
    cells: np.ndarray | None = None

    @property
    def grid(self) -> int:
        return math.prod(self.shape)

    @property
    def key(self) -> Groups:
        return Groups(self.columns, self.t_max, self.cells)

    def groups(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(sorted groups, for every cell the position of its group, for every cell its T)."""
        if self.cells is None:
            groups = np.arange(self.grid)
            return (
                groups,
                np.repeat(groups, self.t_max),
                np.tile(np.arange(1, self.t_max + 1), self.grid),
            )
        group, t = np.divmod(self.cells, self.t_max)
        first = starts(group)
        return group[first], np.cumsum(first) - 1, t + 1

    def people(self) -> Cells:
        """The same groups, whatever T: how many users have any row in each."""
        if self.t_max == 1:
            return self
        return Cells(self.columns, self.shape, 1, None if self.cells is None else self.groups()[0])


def starts(ordered: np.ndarray) -> np.ndarray:
    """Where a sorted array's value differs from the one before."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def distinct(values: np.ndarray) -> np.ndarray:
    """The different values, ascending (by sorting: numpy.unique hashes, which is slower here)."""
    ordered = np.sort(values)
    return ordered[starts(ordered)]


def codes_of(groups: np.ndarray, shape: Sequence[int]) -> list[np.ndarray]:
    """The code of every group in every column."""
    return list(np.unravel_index(groups, tuple(shape))) if len(groups) else [groups for _ in shape]


def project(groups: np.ndarray, columns: Sequence[str], shape: Sequence[int], onto: Sequence[str]):
    """(the distinct groups over the columns `onto`, for every group the position of its own among
    them)."""
    codes = dict(zip(columns, codes_of(groups, shape), strict=True))
    sizes = tuple(shape[columns.index(c)] for c in onto)
    flat = np.zeros(len(groups), np.int64)
    for name, size in zip(onto, sizes, strict=True):
        flat = flat * size + codes[name]
    return np.unique(flat, return_inverse=True)


def whole_grid(columns: Sequence[str], shape: Sequence[int], t_max: int) -> Cells:
    """Every cell of the public grid, T up to t_max (which stands for "or more")."""
    cells = math.prod(shape) * t_max
    if cells > MAX_GRID:
        raise UsageError(
            f"usercounts: the grid has {cells} cells, the limit is {MAX_GRID}; give public "
            "data, which selects cells, or group by fewer columns"
        )
    return Cells(tuple(columns), tuple(shape), t_max)


def from_public(
    public: Public,
    schema: Schema,
    columns: Sequence[str],
    *,
    year: str | None,
    month: str | None,
    months: int,
    repeats: Sequence[int],
    t_max: int | None,
) -> Cells:
    """The cells seen in public data, the same in the `months` before and after, and all of these
    with T in `repeats`.

    T above `t_max` counts as t_max (None: the largest T seen or in `repeats`).
    """
    shape = schema.domain.shape(tuple(columns))
    groups, seen = _seen(public, schema, tuple(columns))
    if not len(groups):
        raise DataError(
            "public=: no row of the public data fits the schema, so no cell could be "
            "selected; check its columns and values"
        )
    top = int(max(*repeats, seen.max())) if t_max is None else t_max
    pairs = distinct(groups * top + np.minimum(seen, top) - 1)
    pairs = _widen(pairs, top, shape, columns, month_shifts(schema, columns, year, month, months))
    wide = distinct(pairs // top)
    always = [wide * top + t - 1 for t in sorted(set(repeats)) if t <= top]
    return Cells(tuple(columns), shape, top, distinct(np.concatenate([pairs, *always])))


def public_people(
    public: Public, schema: Schema, columns: Clique, groups: np.ndarray
) -> np.ndarray:
    """How many people of the public data have rows in each of the sorted groups."""
    seen, _ = _seen(public, schema, columns)
    place = np.minimum(np.searchsorted(groups, seen), max(0, len(groups) - 1))
    there = groups[place] == seen if len(groups) else np.zeros(len(seen), bool)
    return np.bincount(place[there], minlength=len(groups)).astype(np.float64)


def _seen(public: Public, schema: Schema, columns: Clique) -> tuple[np.ndarray, np.ndarray]:
    """Groups of the public users and how many rows they have in them (with repetitions)."""
    if schema.domain.cells(columns) >= 1 << 32:
        raise UsageError("usercounts: the public data has more than 2^32 groups; use fewer columns")
    if schema.user is None:
        groups = np.flatnonzero(public.marginals([columns])[columns])
        return groups, np.ones(len(groups), np.int64)
    habits = public.habits(columns)
    return habits.cells.astype(np.int64), habits.counts


def _widen(
    pairs, t_max: int, shape, columns: Sequence[str], shifts: Mapping[tuple[str, ...], np.ndarray]
):
    """`pairs` together with their copies in the months around; `shifts[time columns]` is as in
    `month_shifts`."""
    for time, table in shifts.items():
        groups, t = np.divmod(pairs, t_max)
        codes = dict(zip(columns, codes_of(groups, shape), strict=True))
        sizes = [shape[columns.index(c)] for c in time]
        now = np.ravel_multi_index([codes[c] for c in time], sizes)
        parts = [pairs]
        for moved in table:
            there = moved[now] >= 0
            new = np.unravel_index(moved[now][there], sizes)
            at = {c: v[there] for c, v in codes.items()} | dict(zip(time, new, strict=True))
            parts.append(np.ravel_multi_index([at[c] for c in columns], shape) * t_max + t[there])
        pairs = distinct(np.concatenate(parts))
    return pairs


def month_shifts(
    schema: Schema, columns: Sequence[str], year: str | None, month: str | None, months: int
) -> dict[tuple[str, ...], np.ndarray]:
    """{time columns: int64 [2 * months, cells of the time columns]}: the time cell so many months
    away, -1 where the schema has none. With a year column months run on into the next year; without
    one December is followed by January.
    """
    if month not in columns or months == 0 or month is None:
        return {}
    number = _whole_values(schema, month)
    wrong = [v for v in number.values() if not 1 <= v <= 12]
    if wrong:
        raise UsageError(f"column {month!r}: expected months from 1 to 12, got {wrong[0]}")
    time = (year, month) if year is not None and year in columns else (month,)
    sizes = [schema.domain[c] for c in time]
    years = _whole_values(schema, time[0]) if len(time) == 2 else {0: 0}
    at = {12 * y + m - 1: i * sizes[-1] + j for i, y in years.items() for j, m in number.items()}
    table = np.full((2 * months, math.prod(sizes)), -1, np.int64)
    steps = [d for d in range(-months, months + 1) if d]
    for row, d in enumerate(steps):
        for when, cell in at.items():
            moved = when + d if len(time) == 2 else (when + d) % 12
            table[row, cell] = at.get(moved, -1)
    return {time: table}


def _whole_values(schema: Schema, name: str) -> dict[int, int]:
    """Code -> whole number of a column of years or months (codes of null and overflow have
    none)."""
    values = schema.columns[name].whole_values()
    if values is None:
        raise UsageError(
            f"column {name!r}: expected years and months as whole numbers, as a list or a range"
        )
    return dict(enumerate(values))

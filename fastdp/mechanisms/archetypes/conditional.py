"""Public conditional distributions p(column | other columns), as counts of public rows. For
combinations that do not occur in the public data, conditionals on fewer columns are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...domain import Clique, Columns

DENSE = 1 << 24
"""For conditions with at most this many cells, groups are found by a lookup table (4 bytes per
cell), for others by binary search."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Counts of values by group, one group per condition that occurs. `keys` (int64, ascending) are
    the cell numbers of the conditions. The entries of group g are start[g]:start[g + 1] of `values`
    (uint32) and `counts` (int64, > 0)."""

    keys: np.ndarray
    start: np.ndarray
    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, cells: np.ndarray, counts: np.ndarray, width: int) -> Groups:
        """From cells numbered condition * width + value, ascending, and their counts."""
        keep = counts > 0
        cells = cells[keep].astype(np.int64)
        counts = counts[keep].astype(np.int64)
        condition, value = np.divmod(cells, width)
        keys, first = np.unique(condition, return_index=True)
        return cls(
            keys, np.append(first, cells.size).astype(np.int64), value.astype(np.uint32), counts
        )

    @cached_property
    def running_sums(self) -> np.ndarray:
        """Running sums of the counts within each group."""
        total = np.cumsum(self.counts)
        before = np.append(0, total)[self.start[:-1]]
        return total - np.repeat(before, np.diff(self.start))

    def draw(self, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One value for each entry of `group` (group numbers, not keys), drawn in proportion to the
        counts."""
        from ..._core import draw

        wanted = np.ascontiguousarray(group, np.int64)
        return draw.draw(
            self.start, self.running_sums, self.values, wanted, rng.random(wanted.shape)
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "keys": self.keys,
            "start": self.start,
            "values": self.values,
            "counts": self.counts,
        }


@dataclass(frozen=True, eq=False)
class Link:
    """One column of the chain. `levels` are the sets of columns that it is conditioned on, tried in
    order, and `tables` the counts for each. The last level is (), no condition."""

    target: str
    levels: tuple[Clique, ...]
    shapes: tuple[tuple[int, ...], ...]
    tables: tuple[Groups, ...]

    @cached_property
    def all_levels(self) -> Groups:
        """The groups of all levels concatenated, so that one call can draw rows of different
        levels."""
        ends = np.cumsum([0, *(t.values.size for t in self.tables)])
        start = [t.start[:-1] + at for t, at in zip(self.tables, ends)]
        starts = np.concatenate([*start, ends[-1:]]).astype(np.int64)
        keys, values, counts = map(
            np.concatenate, zip(*((t.keys, t.values, t.counts) for t in self.tables))
        )
        return Groups(keys, starts, values, counts)

    @cached_property
    def groups_of_cells(self) -> tuple[np.ndarray | None, ...]:
        """For each level: the group number in `all_levels` of every cell, -1 if the cell does not occur
        in the public data; None if the level has more than DENSE cells."""
        out: list[np.ndarray | None] = []
        at = 0
        for shape, table in zip(self.shapes, self.tables):
            cells = int(np.prod(shape, dtype=np.int64))
            place = None
            if cells <= DENSE:
                place = np.full(cells, -1, np.int32)
                place[table.keys] = np.arange(at, at + table.keys.size, dtype=np.int32)
            out.append(place)
            at += table.keys.size
        return tuple(out)

    def draw(self, codes: Columns, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the column's code for each row, given the codes of the columns that were drawn
        before."""
        group = np.full(rows, -1, np.int64)
        todo: np.ndarray | slice = slice(None)
        at = 0
        for level, shape, table, place in zip(
            self.levels, self.shapes, self.tables, self.groups_of_cells
        ):
            cell = cells_of(codes, level, shape, todo, rows)
            if place is not None:
                number = place[cell].astype(np.int64)
            else:
                spot = np.minimum(np.searchsorted(table.keys, cell), table.keys.size - 1)
                number = np.where(table.keys[spot] == cell, spot + at, -1)
            group[todo] = number
            todo = np.flatnonzero(group < 0) if isinstance(todo, slice) else todo[number < 0]
            at += table.keys.size
            if todo.size == 0:
                break
        return self.all_levels.draw(group, rng)


def cells_of(
    codes: Columns, names: Sequence[str], shape: Sequence[int], rows, total: int
) -> np.ndarray:
    """Cell number (int64) over these columns of each selected row; 0 if there are no columns."""
    cell = np.zeros(total if isinstance(rows, slice) else rows.shape[0], np.int64)
    for name, n in zip(names, shape):
        cell *= n
        cell += codes[name][rows]
    return cell

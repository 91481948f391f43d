"""Tables of a pool's rows: how many of them are in each cell over one column or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from .people import Codes

Columns = tuple[str, ...]


class RowTables(Struct, frozen=True, eq=False):
    """Tables of rows, which are not written out: a kernel finds the cell of a row in each (`fdp_row_table`,
    csrc/choose.h).

    codes : uint32 [columns, rows]
    of_rows : int64 [tables, 3], the columns of each table, -1 for none, and the codes of the second
    sizes : the cells of each table
    """

    codes: np.ndarray
    of_rows: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, codes: Codes, tables: Sequence[Columns], sizes: Mapping[str, int]) -> RowTables:
        """Tables over no column, one or two, with so many codes each."""
        names = list(dict.fromkeys(name for columns in tables for name in columns))
        numbers = {name: i for i, name in enumerate(names)}
        rows = len(next(iter(codes.values())))
        stacked = np.empty((len(names), rows), np.uint32)
        for name, i in numbers.items():
            stacked[i] = codes[name]
        of_rows = np.full((len(tables), 3), -1, np.int64)
        for i, columns in enumerate(tables):
            of_rows[i, : len(columns)] = [numbers[name] for name in columns]
            of_rows[i, 2] = sizes[columns[-1]] if columns else 1
        cells = [np.prod([sizes[name] for name in columns], dtype=np.int64) for columns in tables]
        return cls(stacked, of_rows, np.array(cells, np.int64))

    def counts(
        self, start: np.ndarray, weight: np.ndarray, tables: slice = slice(None)
    ) -> list[np.ndarray]:
        """For each of the `tables` the sums of the weights of rows in its cells. Each row of user u, from
        start[u] to start[u + 1] - 1, counts weight[u]."""
        from .._core import choose as core

        first = np.append(0, np.cumsum(self.sizes[tables]))
        of_rows = np.ascontiguousarray(self.of_rows[tables])
        counted = core.row_counts(self.codes, of_rows, start, first, weight)
        return np.split(counted, first[1:-1])

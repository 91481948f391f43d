"""Histograms as rows: tidy (one row per cell that counts), as events, and in the challenge's wide
layout."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from ..._util.lazy import pa
from ...codec.decode import decode
from ...schema import Schema
from .group_cells import codes_of

MAX_WIDE = 1 << 24
"""The most numbers of a table (kinds by blocks) that is held whole: 128 MB."""


class Histogram(Struct, frozen=True, eq=False):
    """Counts above 0 of sorted groups over `columns`."""

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    groups: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, columns, shape, groups: np.ndarray, counts: np.ndarray) -> Histogram:
        some = counts > 0
        return cls(tuple(columns), tuple(shape), groups[some], counts[some].astype(np.int64))

    def codes(self, rows: np.ndarray | slice) -> dict[str, np.ndarray]:
        return dict(zip(self.columns, codes_of(self.groups[rows], self.shape), strict=True))


class _Rows:
    shard_rows = 1 << 20

    def __init__(self, histogram: Histogram):
        self.histogram = histogram
        self.columns = histogram.columns
        self.total = len(histogram.groups)


class TidyRows(_Rows):
    """One row per group, `counts(i)` with the codes of shard i."""

    def _part(self, i: int) -> slice:
        return slice(i * self.shard_rows, (i + 1) * self.shard_rows)

    def shard(self, i: int) -> dict[str, np.ndarray]:
        return self.histogram.codes(self._part(i))

    def counts(self, i: int) -> np.ndarray:
        return self.histogram.counts[self._part(i)]


class EventRows(_Rows):
    """As many rows as the histogram counts, group by group."""

    def __init__(self, histogram: Histogram):
        super().__init__(histogram)
        self._ends = np.cumsum(histogram.counts)
        self.total = int(self._ends[-1]) if len(self._ends) else 0

    def shard(self, i: int) -> dict[str, np.ndarray]:
        start = i * self.shard_rows
        rows = np.arange(start, min(self.total, start + self.shard_rows))
        return self.histogram.codes(np.searchsorted(self._ends, rows, side="right"))


def wide(schema: Schema, histogram: Histogram, epsilon: float) -> pa.Table | None:
    """epsilon, the columns but the last, then one column per value of the last. There is one row
    for every combination of the others, also where nothing is counted. None if that would be more
    than `MAX_WIDE` numbers."""

    *others, kind = histogram.columns
    blocks = math.prod(histogram.shape[:-1])
    kinds = histogram.shape[-1]
    if blocks * kinds > MAX_WIDE or not others:
        return None
    table = np.zeros((blocks, kinds), np.int64)
    table.reshape(-1)[histogram.groups] = histogram.counts
    codes = dict(zip(others, codes_of(np.arange(blocks), histogram.shape[:-1]), strict=True))
    left = decode(schema.select(others), codes, 0)
    columns = {"epsilon": pa.array(np.full(blocks, float(epsilon)))}
    named = [c for c in others if c in left.column_names]
    columns |= {name: left[name] for name in dict.fromkeys([*named, *left.column_names])}
    columns |= {name: pa.array(table[:, i]) for i, name in enumerate(value_names(schema, kind))}
    return pa.table(columns)


def value_names(schema: Schema, name: str) -> list[str]:
    """A text for each code of a column: the value as it is in the data, not its name."""
    column = schema.columns[name]
    values, _ = column.shown_values()
    return [str(value) for value in values] + column.labels()[column.base :]

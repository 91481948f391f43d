"""Marginals at a coarser resolution: neighbouring codes of a column share a group.

A pair of columns with many codes each has so many cells that its noise exceeds what the pair would
tell. The same pair over fewer groups of neighbouring codes may still be worth measuring. The number
of groups is chosen such that the noise of a pair of grouped columns costs a fixed part of all rows.
Groups hold about equally many rows by the noisy 1-ways. A grouped marginal is a partition of the
rows like the plain one and has the same sensitivity. So has its distance from the model
(docs/explain/distances.md). Everything here is a function of released numbers and public facts."""

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...domain import Clique, Domain
from ...measurement import Measurement
from ...queries import Binned
from ...schema import Schema
from ..shared.code_compression import Compression, numberless
from ..shared.code_partitions import LEAST_GROUPS, MOST_GROUPS, composed, first_codes
from ..shared.merged_codes import Merged
from ..shared.one_ways import NOISE

GROUPED_COST = 0.037
"""The noise of a pair of grouped columns costs about this part of all rows (L1): some 10 groups on
adult at epsilon 1. Chosen on adult, a generated table of 32-bin columns and 30,000 rows of flights.
"""
LEAST_CODES = 1.5
"""Columns with fewer codes than this many per group are not grouped."""


def group_count(total: float, sigma: float) -> int:
    """Groups per column such that noise of `sigma` in all cells of a pair costs `GROUPED_COST` of
    the rows."""
    count = math.sqrt(GROUPED_COST * max(total, 0.0) / (NOISE * max(sigma, 1e-12)))
    return min(MOST_GROUPS, max(LEAST_GROUPS, round(count)))


def ordered(merged: Merged, schema: Schema) -> dict[str, np.ndarray]:
    """For every column with an order, the merged codes that have no place in it. They are those of
    rare values, unless these are merged with their neighbours, of nulls and of values outside the
    domain."""
    out = {}
    for a, column in schema.columns.items():
        if a in merged.domain and not column.is_text:
            codes = merged.compression.code_map(a)
            out[a] = (np.bincount(codes) > 1) & (a not in merged.neighbours)
            out[a][codes[column.base :]] = True
    return out


def blank_codes(merged: Merged, schema: Schema) -> dict[str, np.ndarray]:
    """Of every column that has an order, the merged codes of nulls and of values outside the
    domain: they share no group with numbers. A code that holds both (of a column that the model
    leaves out) counts as numbers."""
    out = {}
    for a, column in schema.columns.items():
        if a in merged.domain and not column.is_text:
            codes = merged.compression.code_map(a)
            out[a] = np.bincount(codes, ~numberless(column)) == 0
    return out


def group_maps(
    merged: Merged,
    alone: Mapping[str, np.ndarray],
    count: int,
    blank: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Merged code -> group, of every ordered column that has enough codes. `alone`: see `ordered`;
    `blank`: see `blank_codes`."""
    enough = [a for a, apart in alone.items() if apart.size >= LEAST_CODES * count]
    groups = {a: neighbour_groups(merged.ones_shape[a], alone[a], count, blank[a]) for a in enough}
    return {a: g for a, g in groups.items() if g.max() + 1 < g.size}


def neighbour_groups(
    rows: np.ndarray, alone: np.ndarray, count: int, blank: np.ndarray | None = None
) -> np.ndarray:
    """Code -> group: about `count` groups of neighbouring codes with equally many rows. A code
    without neighbours (`alone`) has a group of its own if it holds more than half as many rows as a
    group. Otherwise it joins the last group. Codes without a number (`blank`, a part of `alone`)
    join a group of their own instead."""
    rows = np.maximum(np.asarray(rows, np.float64), 0)
    body = np.flatnonzero(~alone)
    mass = max(float(rows[body].sum()), 1e-9)
    middle = (np.cumsum(rows[body]) - rows[body] / 2) / mass
    groups = np.full(rows.size, count - 1, np.int64)
    groups[body] = np.minimum((middle * count).astype(np.int64), count - 1)
    if blank is not None:
        groups[blank] = count
    for i, code in enumerate(np.flatnonzero(alone & (rows > 0.5 * mass / count))):
        groups[code] = count + 1 + i
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


class ModelCodes(Struct, frozen=True, eq=False, dict=True):
    """The codes that the model has. As long as all marginals of a column are measured over groups,
    the column is in the model over these `groups` (merged code -> group). Rows inside a group
    follow the 1-way in either case, and a smaller model has room for more marginals."""

    merged: Merged
    groups: Mapping[str, np.ndarray]

    @cached_property
    def domain(self) -> Domain:
        return self.merged.domain.recoded(self.groups)

    def measurement(self, m: Measurement) -> Measurement:
        """A measurement over merged codes as one over the model's; of columns over groups there are
        1-ways and marginals over groups."""
        if not any(a in self.groups for a in m.clique):
            return m
        if m.query is None:
            return Compression(self.merged.domain, self.groups).measurement(m)
        shape = self.domain.shape(m.clique)
        maps = [
            codes[first_codes(self.groups[a])] if a in self.groups else codes
            for a, codes in zip(m.clique, m.query.maps)
        ]
        fine = all(np.array_equal(codes, np.arange(n)) for codes, n in zip(maps, shape))
        query = None if fine else Binned(shape, maps)
        return Measurement(m.clique, m.values, m.sigma, query, label=m.label)

    def expanded(self, clique: Clique, table: np.ndarray) -> np.ndarray:
        """The model's marginal over merged codes."""
        out = np.asarray(table).reshape(self.domain.shape(clique))
        for i, a in enumerate(clique):
            if a in self.groups:
                rows = self.merged.ones_shape[a] + 1e-9
                groups = self.groups[a]
                within = (rows / np.bincount(groups, rows)[groups]).reshape(
                    -1, *[1] * (out.ndim - i - 1)
                )
                out = np.take(out, groups, axis=i) * within
        return out

    def final(self) -> Merged:
        """The model's codes as merged codes of the schema's."""
        merged = self.merged
        compression = Compression(merged.compression.full, composed(merged.codes, self.groups))
        return replace(
            merged, compression=compression, ones=tuple(map(self.measurement, merged.ones))
        )

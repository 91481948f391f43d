"""The partition of a column whose bounds are to be found, and the schema by which partitions are
counted. Also an engine that reads nothing before it counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise

import numpy as np

from ..engines import Counter
from ..schema import Schema, dtypes
from ..schema.columns import OWN_CODE, Column, Policy
from ..schema.derived import Derived
from ..schema.kinds.categorical import Categorical
from ..schema.kinds.numeric import Numeric
from ..schema.kinds.places import Places
from ..schema.pending import Pending
from .cells import Line, Span
from .domaincosts import CELL_NOISE, CROWDED, MOST_CELLS
from .noisy_cells import occupied_cells, reconciled_counts

Opener = Callable[[Schema], AbstractContextManager["Counter"]]
"""Opens an engine over the run's source, read by a schema."""


class Grid:
    """A column's partition and its noisy counts, in rows."""

    def __init__(self, edges: np.ndarray, before: Grid | None = None, span: Span | None = None):
        self.edges = edges
        self.before = before
        self.span = span
        self.counts = np.zeros(len(edges) - 1)
        self.sigma = 1.0
        self.nulls = 0.0
        self.digits: int | None = None

    def take(self, counts: np.ndarray, sigma: float, nulls: float) -> None:
        """Store the noisy counts of the cells, reconciled with those of the partition before."""
        self.counts = np.array(counts, np.float64)
        self.sigma = sigma
        self.nulls = nulls
        if self.before is not None:
            b = self.before
            self.counts = reconciled_counts(
                b.edges, b.counts, b.sigma, self.edges, self.counts, sigma
            )
            self.before = None

    def outside(self, bins: Sequence[float]) -> tuple[float, float]:
        """(share of the rows outside the bins, its standard error), by the counts of the last
        partition: all, where no cell ever stood out of the noise and the bins are a guess."""
        out = (self.edges[1:] <= bins[0]) | (self.edges[:-1] >= bins[-1])
        if out.any() and self.span is None and not occupied_cells(self.counts, self.sigma).any():
            return 1.0, 0.0
        total = max(float(self.counts.sum()), self.sigma)
        share = min(1.0, max(0.0, float(self.counts[out].sum()) / total))
        return share, self.sigma * math.sqrt(max(1, int(out.sum()))) / total

    def middle(self, bins: Sequence[float]) -> float:
        """The lower edge of the bin in which the counts of the last partition reach half of their
        sum."""
        upto = np.cumsum(np.maximum(self.counts, 0.0))
        cell = int(np.searchsorted(upto, upto[-1] / 2))
        at = int(np.searchsorted(bins, self.edges[cell], "right")) - 1
        return float(bins[min(max(at, 0), len(bins) - 2)])

    def on_grain(self, line: Line) -> Line:
        """The line of the numbers with `self.digits` digits after the point; moves the partition
        onto it. The same line where the digits were not counted."""
        if self.digits is None:
            return line
        line, self.edges, self.counts = line.grained(self.edges, self.counts, self.digits)
        return line

    def crowded(self, line: Line) -> bool:
        """Whether a cell of more than one value holds more than a share CROWDED of the rows. One
        more partition is then worth its cost."""
        wide = [math.isfinite(b - a) and line.after(float(a)) < b for a, b in pairwise(self.edges)]
        return bool((self.counts[wide] > CROWDED * self.counts.sum()).any())

    def refined(self, line: Line, bins: int, gain: float) -> Grid:
        """The next partition. `gain`: the next round's share of mu^2 divided by this round's
        share."""
        enough = CELL_NOISE * self.sigma / math.sqrt(gain)
        cells = min(max(float(self.counts.sum()) / enough, bins), MOST_CELLS * bins)
        edges, span = line.refine(self.edges, self.counts, self.sigma, int(cells), bins, self.span)
        return Grid(edges, self, span)


def line_of(column: Pending) -> Line:
    """The values that a column whose bounds are to be found may have."""
    return Line(column.dtype, column.low, column.high, column.whole, reach=column.measured)


def digits_name(column: str) -> str:
    """The name of the code column that holds the digits after the point of `column`."""
    return f"{column}\0digits"


def provisional(
    asked: Schema,
    columns: Mapping[str, Pending],
    partitions: Mapping[str, np.ndarray],
    digits: Mapping[str, str] | None = None,
) -> Schema:
    """The schema by which the partitions are counted. Codes of a column: the cells of its
    partition, values outside, nulls. `digits`: the columns that also get a code column of their
    digits after the point. Rows are dropped by the user column's policy alone."""
    fields: dict[str, Column] = {}
    for name, of in (digits or {}).items():
        column = columns[of]
        fields[name] = Places(name=name, source=column.source, dtype=column.dtype)
    for name, edges in partitions.items():
        column = columns[name]
        fields[name] = Numeric(
            name=name,
            source=column.source,
            dtype=column.dtype,
            nan=column.nan,
            edges=tuple(float(e) for e in edges),
            null=OWN_CODE,
            overflow=OWN_CODE,
        )
    return with_fields(asked, fields)


def listed(column: Pending, values: Sequence[int | str] = ()) -> Categorical:
    """The column with these values; other values and nulls have codes of their own. Without values,
    one code for all."""
    only: int | str = "" if dtypes.family(column.dtype) == "string" else 0
    return Categorical(
        name=column.name,
        source=column.source,
        dtype=column.dtype,
        values=tuple(values) or (only,),
        overflow=OWN_CODE if values else Policy("value", only),
    )


def with_fields(asked: Schema, fields: Mapping[str, Column | Derived]) -> Schema:
    """A schema of the columns `fields`, with the user column, the periods and the dialect of the
    schema `asked`."""
    return Schema(
        fields=dict(fields),
        user=asked.user,
        max_rows_per_user=asked.max_rows_per_user,
        null_user=asked.null_user,
        user_dtype=asked.user_dtype,
        name=asked.name,
        dialect=asked.dialect,
        period=asked.period,
    )


class LaterEngine:
    """An engine that reads its source only when it first counts, so that a resumed run whose
    answers are stored reads nothing."""

    def __init__(self, schema: Schema, open_engine: Opener):
        self.schema = schema
        self._open = open_engine
        self._stack = ExitStack()
        self._engine: Counter | None = None

    @property
    def has_users(self) -> bool:
        return self.schema.user is not None

    def _opened(self) -> Counter:
        if self._engine is None:
            self._engine = self._stack.enter_context(self._open(self.schema))
        return self._engine

    def marginals(self, cliques, clip, **more):
        return self._opened().marginals(cliques, clip, **more)

    def user_histogram(self, key, cap):
        return self._opened().user_histogram(key, cap)

    def user_sums(self, plan):
        return self._opened().user_sums(plan)

    def close(self) -> None:
        self._stack.close()
        self._engine = None

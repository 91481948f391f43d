"""Where synthetic rows lie inside bins whose means nobody stated or released.

Rows that are spread evenly over the bins of a tail add up to a tenth more than the true ones, since most
lie near the inner edges. The released counts of neighbouring bins say about how rows fall off
(`answers.bin_means`), and `run.answer` takes sums by that. So synthetic rows are drawn with the same
means. It is post-processing of released counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._util.lazy import pa
from ..answers.best_linear import estimate
from ..answers.bin_means import bin_means
from ..answers.evidence import Marginal, code_maps, marginals_of
from ..answers.values import numbers_of
from ..measurement import Measurement
from ..schema import Schema
from ..schema.columns import Column


def with_placed_means(
    schema: Schema, measurements: Sequence[Measurement], tables: Mapping[str, pa.Table]
) -> Schema:
    """The schema by which rows are written: with the means of bins that their neighbours show, in
    columns of numbers of which it says nothing. The same schema where there is no such column."""
    named = [
        n for n in schema.modelled if n in schema.columns and _open_to_means(schema.columns[n])
    ]
    if not named:
        return schema
    entries = schema.to_plain()["columns"]
    marginals = marginals_of(measurements, schema.modelled, code_maps(tables.get("codes")))
    found = {name: _means(schema.columns[name], marginals) for name in named}
    placed = {
        name: {**entries[name], "means": means.tolist()}
        for name, means in found.items()
        if means is not None
    }
    return schema.finished(placed) if placed else schema


def _open_to_means(column: Column) -> bool:
    """Whether the column has bins of numbers, and nothing says where rows lie in them."""
    says_nothing = getattr(column, "means", "") is None
    if not (column.binned and says_nothing) or column.temporal or column.in_bins is None:
        return False
    return column.base > 1 and column.in_bins.tail is None and column.in_bins.lower_tail is None


def _means(column: Column, marginals: Sequence[Marginal]) -> np.ndarray | None:
    """The means of the column's bins; None where its codes were not counted one by one, or a bin has no
    end, or no number."""
    table = estimate(marginals, (column.name,))
    if table is None or table.known is not None or table.x.size != column.size:
        return None
    numbers = numbers_of(column)
    assert column.in_bins is not None
    edges = np.array(column.in_bins.edges)
    low = np.maximum(numbers.low[: column.base], edges[:-1])
    high = np.minimum(numbers.high[: column.base], edges[1:])
    # A bin between two numbers of a column with digits has none of its own.
    if not (np.isfinite(high - low) & (low <= high)).all():
        return None
    (codes,) = table.maps
    rows = table.x[codes][: column.base]
    noise = float(np.sqrt(np.median(table.cell_variances())))
    return np.clip(bin_means(low, high, rows, noise), low, high)

"""Synthetic rows under a condition: rows of the model are drawn, and those that match are kept
until there are enough; or rows of a folder are chosen at random among those that match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .._util.arrow import takeable, with_types, without_views
from .._util.lazy import pa, pc
from ..errors import RunError, UsageError, did_you_mean
from .output import Output, spawned_seeds

FIRST_ATTEMPT_ROWS = 1 << 16
"""The fewest rows of the first attempt."""
MOST_ROWS_WITHOUT_MATCH = 1 << 21
"""Rows of the last attempt while no row matches: the value may not occur at all. Some seconds of
drawing."""
MOST_ROWS = 1 << 28
"""Rows of the last attempt once a row has matched. Minutes of drawing."""
SPARE = 1.3
"""Rows drawn beyond the number expected to hold enough matches."""


def matching_rows(output: Output, n: int, where: Mapping[str, Any], seed: int) -> pa.Table:
    """n rows of the output's model that match `where`: a column to a value, a list of values, a
    range (low, high) with low <= value < high, or None for null. RunError if too few rows match."""

    kind = output.arrow_schema()
    if not n:
        return kind.empty_table()
    total = max(FIRST_ATTEMPT_ROWS, 4 * n)
    attempt = 0
    while True:
        found = 0
        kept = []
        (own,) = spawned_seeds(seed, 1, (attempt,))
        for table in output.again(total, own).tables():
            kept.append(table.filter(_matches(table, where)))
            found += kept[-1].num_rows
            if found >= n:
                return pa.concat_tables(kept).slice(0, n)
        if total >= (MOST_ROWS if found else MOST_ROWS_WITHOUT_MATCH):
            raise RunError(
                f"where: only {found:,} of {total:,} rows match, but {n:,} were requested; "
                "request fewer rows, or use a wider condition"
            )
        expected = int(SPARE * n * total / found) if found else 0
        total = min(MOST_ROWS, max(4 * total, expected))
        attempt += 1


def stored_rows(rows: Iterable[pa.Table], n: int, where: Mapping[str, Any], seed: int) -> pa.Table:
    """n of these rows that match `where`, at random and each at most once. RunError if too few
    match."""
    kept = []
    types = None
    for part in rows:
        types = part.schema
        plain = without_views(part)
        kept.append(plain.filter(_matches(plain, where)))
    table = pa.concat_tables(kept)
    if table.num_rows < n:
        raise RunError(
            f"the folder has {table.num_rows:,} matching rows, but {n:,} were requested; request"
            " fewer rows, use a wider condition, or make a run with more rows (rows=)"
        )
    chosen = table.take(np.random.default_rng(seed).permutation(table.num_rows)[:n])
    return chosen if types is None else with_types(chosen, types)


def _matches(table: pa.Table, where: Mapping[str, Any]) -> pa.ChunkedArray:
    """bool per row: whether it meets every condition. A null meets none but `None`."""
    mask: Any = pa.chunked_array([np.ones(table.num_rows, bool)])
    for name, condition in where.items():
        if name not in table.column_names:
            raise UsageError(
                f"where: there is no column {name!r}{did_you_mean(name, table.column_names)}"
            )
        column = takeable(table[name])
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        try:
            one = _condition(column, condition)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            raise UsageError(
                f"where: column {name!r} holds {column.type}, which {condition!r} cannot "
                "match; give a value, a list of values or a range (low, high)"
            ) from None
        mask = pc.and_(mask, pc.fill_null(one, False))
    return mask


def _condition(column: pa.ChunkedArray, condition: Any) -> pa.ChunkedArray:
    """bool per row: whether its value meets one condition of `matching_rows`."""
    if condition is None:
        return pc.is_null(column)
    if isinstance(condition, tuple):
        low, high = condition
        if low is None:
            above = pc.is_valid(column)
        else:
            above = pc.greater_equal(column, pa.scalar(low, column.type))
        if high is None:
            return above
        return pc.and_(above, pc.less(column, pa.scalar(high, column.type)))
    values = list(condition) if isinstance(condition, list | set | frozenset) else [condition]
    return pc.is_in(column, pa.array(values, column.type))

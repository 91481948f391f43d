"""Rows of a run that match conditions: of a run without a model, and as a check of drawn rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from .._util.arrow import takeable, with_types, without_views
from .._util.lazy import pa, pc
from ..errors import RunError, UsageError, did_you_mean


def stored_rows(rows: Iterable[pa.Table], n: int, where: Mapping[str, Any], seed: int) -> pa.Table:
    """n of these rows that match `where`, at random and each at most once. RunError if too few
    match."""
    kept = []
    types = None
    for part in rows:
        types = part.schema
        plain = without_views(part)
        kept.append(plain.filter(matches(plain, where)))
    table = pa.concat_tables(kept)
    if table.num_rows < n:
        raise RunError(
            f"the folder has {table.num_rows:,} matching rows, but {n:,} were requested; request"
            " fewer rows, use a wider condition, or make a run with more rows (rows=)"
        )
    chosen = table.take(np.random.default_rng(seed).permutation(table.num_rows)[:n])
    return chosen if types is None else with_types(chosen, types)


def matches(table: pa.Table, where: Mapping[str, Any]) -> pa.ChunkedArray:
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
    """bool per row: whether its value meets one condition."""
    if pa.types.is_temporal(column.type):
        condition = _times(condition)
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


def _times(condition: Any) -> Any:
    """A condition whose texts are ISO dates or times, as dates and times."""
    if isinstance(condition, tuple | list | set | frozenset):
        return type(condition)(_times(value) for value in condition)
    if not isinstance(condition, str):
        return condition
    try:
        return datetime.fromisoformat(condition)
    except ValueError:
        raise UsageError(
            f"where: {condition!r} is not a date or time; write 2026-03-31 or 2026-03-31T08:00"
        ) from None

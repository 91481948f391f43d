"""Codes to values: the reverse of the encoder, with numbers drawn inside their bins.

Every random number is a fixed function of (seed, column, row). So any slice of rows decodes to the
same values alone as within the whole, whatever the threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._util.arrow import of_numpy
from .._util.lazy import pa
from .._util.threads import each, resolve
from ..domain import Columns
from ..errors import UsageError
from ..schema import Schema
from ..schema.constraints import ordered_columns
from ..schema.derived import Derived, shift_parts, shifts_per_day
from ..schema.epoch import DAY_SECONDS
from ..schema.expression import Expression
from .code_values import stored_per_number
from .decode_columns import (
    arrow_array,
    decode_table,
    inside,
    rebuilt,
    seconds_of,
    shift_values,
    values,
    written,
)
from .draws import numbers_in_bins, uniform
from .ordered import Item, OrderGroup
from .possible import compiled_constraints
from .violations import numbers_of

_CHUNK = 1 << 18
"""Rows that each of several threads decodes at a time."""
_ALONE = 1 << 20
"""Rows decoded at a time if there is one thread. With fewer, 16 threads that each write a shard
would wait for Python's lock more often."""


def decode(
    schema: Schema,
    codes: Mapping[str, np.ndarray],
    seed: int,
    offset: int = 0,
    *,
    outputs: bool = False,
    threads: int | None = None,
    pinned: Mapping[str, np.ndarray] | None = None,
) -> pa.Table:
    """Values of the coded columns, in the schema's order, under their source names and output
    types. Row i is row `offset + i` of the whole table: it depends on (seed, offset + i) and its
    codes only. A derived field is rebuilt if `codes` has all its parts; else its parts are written.

    outputs: append the schema's extra columns (day of the week, hour of the day drawn within the
    shift). pinned: for some fields, numbers (times in seconds) that the caller will write over the
    decoded ones; nan: none. Columns that constraints tie to such a field follow these numbers.
    """
    columns = {name: _checked(schema, name, array) for name, array in codes.items()}
    rows = {len(array) for array in columns.values()}
    if len(rows) != 1:
        raise UsageError("codes: expected at least one column, and columns of equal length")
    if offset < 0:
        raise UsageError(f"offset: expected a row number >= 0, got {offset}")
    total = rows.pop()
    threads = resolve(threads)
    size = _CHUNK if threads > 1 else _ALONE
    starts = range(0, total, size) if total else [0]

    def chunk(start: int) -> pa.RecordBatch:
        part = {name: array[start : start + size] for name, array in columns.items()}
        own = {name: array[start : start + size] for name, array in (pinned or {}).items()}
        return _decode_rows(schema, part, seed, offset + start, outputs, own)

    return pa.Table.from_batches(each(chunk, starts, threads))


def _checked(schema: Schema, name: str, array: Any) -> np.ndarray:
    """The column as contiguous codes of its own type; UsageError if it is not a column of codes."""
    if name not in schema.columns:
        raise UsageError(
            f"codes: the schema has no column {name!r}; it has {', '.join(schema.columns)}"
        )
    column = schema.columns[name]
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in "ui":
        raise UsageError(f"codes of {name!r}: expected a 1-D array of whole numbers")
    if len(array) and not (array.min() >= 0 and array.max() < column.size):
        raise UsageError(f"codes of {name!r}: expected codes in 0..{column.size - 1}")
    return np.ascontiguousarray(array, dtype=column.code_dtype)


def _decode_rows(
    schema: Schema,
    codes: Columns,
    seed: int,
    row: int,
    outputs: bool,
    pinned: Mapping[str, np.ndarray],
) -> pa.RecordBatch:
    """`decode` of one chunk, whose first row is number `row` of the whole table."""
    codes = {
        name: inside(schema.columns[name], column, seed, row) for name, column in codes.items()
    }
    settled = _settled_numbers(schema, codes, seed, row, pinned)
    computed = compiled_constraints(schema).computed if schema.constraints else {}
    out = _Written()
    for item in schema.fields.values():
        have = [part for part in item.parts if part.name in codes]
        numbers = settled.get(item.name)
        follows = computed.get(item.name)
        if not have and follows is not None and all(c in codes for c in follows.columns):
            # a place among the others; its values are computed below
            out.add(item.source, of_numpy(np.zeros(len(codes[follows.columns[0]]))))
        elif have and not isinstance(item, Derived):
            out.add(item.source, values(schema, item, codes[item.name], seed, row, numbers))
        elif isinstance(item, Derived) and len(have) == len(item.parts) and item.output == "value":
            whole = [codes[part.name] for part in have]
            out.add(item.source, rebuilt(item, whole, seed, row, numbers))
        else:
            for part in have:
                out.add(part.name, values(schema, part, codes[part.name], seed, row))
    _compute(schema, computed, codes, pinned, out)
    if outputs:
        _add_outputs(schema, codes, seed, row, out)
    return pa.RecordBatch.from_arrays(out.arrays, names=out.names)


@dataclass
class _Written:
    """The written columns in order. Two may have one name, that of the source column of both."""

    names: list[str] = field(default_factory=list)
    arrays: list[pa.Array] = field(default_factory=list)

    def add(self, name: str, array: pa.Array) -> None:
        self.names.append(name)
        self.arrays.append(array)


def _settled_numbers(
    schema: Schema,
    codes: dict[str, np.ndarray],
    seed: int,
    row: int,
    pinned: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The numbers that constraints on orders and tables prescribe, by column."""
    settled: dict[str, np.ndarray] = {}
    if not schema.constraints:
        return settled
    compiled = compiled_constraints(schema)
    for group in compiled.orders:
        if all(c in codes for item in group.items for c in item.columns):
            settled |= _settled(schema, group, codes, seed, row, pinned)
    for follows in compiled.follows:
        if follows.numbers is not None and all(s in codes for s in follows.sources):
            settled[follows.column] = follows.written(codes)  # type: ignore[assignment]  # it has numbers
    return settled


def _compute(
    schema: Schema,
    computed: Mapping[str, Expression],
    codes: dict[str, np.ndarray],
    pinned: Mapping[str, np.ndarray],
    out: _Written,
) -> None:
    """Fill in the columns that an expression of other columns' written values gives."""
    for name, expression in computed.items():
        own = schema.fields[name]
        if own.source in out.names and not any(c in codes for c in ordered_columns(schema, name)):
            used = {n: schema.fields[n] for n in expression.operands}
            given = {
                n: numbers_of(field, out.arrays[out.names.index(field.source)])
                for n, field in used.items()
            }
            for n in given.keys() & pinned.keys():
                given[n] = np.where(np.isnan(pinned[n]), given[n], pinned[n])
            out.arrays[out.names.index(own.source)] = written(own, expression.of_rows(given))


def _add_outputs(
    schema: Schema, codes: dict[str, np.ndarray], seed: int, row: int, out: _Written
) -> None:
    """Add the schema's extra columns, which follow from shifts of the week."""
    for extra in schema.outputs.values():
        if extra.of not in codes:
            continue
        shift = codes[extra.of]
        base = schema.columns[extra.of].base
        weekly = shift_values(schema.columns[extra.of])[np.minimum(shift, base - 1)]
        u = None
        if extra.part == "hour":
            u = uniform(seed, extra.name, "hour", row, len(shift))
        drawn = shift_parts(weekly, extra.part, u, shifts_per_day(base) or 1)
        out.add(extra.name, arrow_array(drawn, shift >= base, extra.dtype))


def _settled(
    schema: Schema,
    group: OrderGroup,
    codes: dict[str, np.ndarray],
    seed: int,
    row: int,
    pinned: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The numbers to write for the columns of an `order` constraint (float64: values; times in
    seconds)."""

    def draw(item: Item, attempt: int) -> np.ndarray:
        stream = f"order {attempt}" if attempt else ""
        field = schema.fields[item.name]
        if isinstance(field, Derived):
            seconds = seconds_of(field, [codes[c] for c in item.columns], seed, row, stream)
            return (
                seconds // DAY_SECONDS * DAY_SECONDS if item.step == DAY_SECONDS else seconds
            ).astype(np.float64)
        bins = decode_table(schema, field).bins
        assert bins is not None and field.in_bins is not None
        drawn = numbers_in_bins(field.in_bins, bins, codes[field.name], seed, row, stream)
        return drawn / stored_per_number(field)

    return group.settle(codes, draw, pinned)

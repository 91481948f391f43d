"""Rows that break a schema's constraints: in codes, and in values as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from .._util.lazy import pa, pc
from ..domain import Columns
from ..schema import Schema, dtypes
from ..schema.bins import digits, on_grid
from ..schema.constraints import columns_of, ordered_columns
from ..schema.derived import Derived
from ..schema.epoch import DAY_SECONDS
from ..schema.expression import Expression
from ..schema.fields import Field
from .code_values import as_numbers
from .encode import encode_batch
from .maps import Source
from .ordered import Item
from .possible import compiled_constraints


def broken_codes(schema: Schema, codes: Columns) -> list[int]:
    """Numbers (from 0) of the constraints that some row of codes breaks, among those whose columns
    are all in `codes`. Order of values within bins is not checked here: it is decided when values
    are drawn."""
    return [n for n, count in count_broken_codes(schema, codes).items() if count]


def count_broken_codes(schema: Schema, codes: Columns) -> dict[int, int]:
    """How many rows of codes break each constraint (by number, from 0) whose columns are all in
    `codes`."""
    if not schema.constraints:
        return {}
    return {n: int(np.count_nonzero(rows)) for n, rows in sorted(_breaking(schema, codes).items())}


def rows_with_broken_codes(schema: Schema, codes: Columns) -> np.ndarray:
    """The rows of codes that break a constraint whose columns are all in `codes`."""
    broken = _breaking(schema, codes).values() if schema.constraints else ()
    return np.flatnonzero(np.logical_or.reduce(list(broken))) if broken else np.empty(0, np.int64)


def count_violations(schema: Schema, batch: pa.RecordBatch | pa.Table) -> dict[int, int]:
    """How many rows of a table of values break each constraint (by number, from 0) whose columns it
    has. Rows that the schema drops do not count; nulls and values outside the domain break nothing.
    """
    have = set(batch.schema.names)
    present = [field for field in schema.fields.values() if field.source in have]
    if not schema.constraints or not present:
        return {}
    codes, keep = encode_batch(schema, batch, present)
    broken = _breaking(schema, codes)
    none = np.zeros(batch.num_rows, bool)
    for breaking in (_out_of_order, _other_written, _other_computed):
        for number, rows in breaking(schema, codes, batch):
            broken[number] = broken.get(number, none) | rows
    if keep is not None:
        broken = {n: rows & keep for n, rows in broken.items()}
    return {n: int(np.count_nonzero(rows)) for n, rows in sorted(broken.items())}


Breaking = Iterator[tuple[int, np.ndarray]]
"""(number of a constraint, which rows break it) for constraints that codes alone do not decide."""


def _out_of_order(schema: Schema, codes: Columns, batch: pa.RecordBatch | pa.Table) -> Breaking:
    """Rows whose values are not in the order that a constraint states."""
    for group in compiled_constraints(schema).orders:
        if not all(c in codes for item in group.items for c in item.columns):
            continue
        values = [_numbers(schema, item, codes, batch) for item in group.items]
        for number in group.numbers:
            constraint = schema.constraints[number]
            above = np.greater_equal if constraint.strict else np.greater
            at = [i for i, item in enumerate(group.items) if item.name in constraint.order]
            rows = np.zeros(batch.num_rows, bool)
            for a, b in product(at, at):
                if a in group.before[b]:
                    rows |= above(values[a], values[b])
            yield number, rows


def _other_written(schema: Schema, codes: Columns, batch: pa.RecordBatch | pa.Table) -> Breaking:
    """Rows with another number than the one that follows from their codes. Where nothing follows,
    that number is nan and does not differ."""
    numbers = {c.column: number for number, c in enumerate(schema.constraints)}
    for item in compiled_constraints(schema).follows:
        if item.numbers is None or not all(c in codes for c in (*item.sources, item.column)):
            continue
        array = batch.column(schema.fields[item.column].source)
        values = pc.cast(array, "float64", safe=False).to_numpy(zero_copy_only=False)
        yield numbers[item.column], np.abs(item.written(codes) - values) > 1e-6 * np.abs(values)


def _other_computed(schema: Schema, codes: Columns, batch: pa.RecordBatch | pa.Table) -> Breaking:
    """Rows with another number than the one that is computed from their values."""
    numbers = {c.column: number for number, c in enumerate(schema.constraints)}
    for name, expression in compiled_constraints(schema).computed.items():
        if all(c in codes for c in (*ordered_columns(schema, name), *expression.columns)):
            yield numbers[name], _other_number(schema, name, expression, codes, batch)


def _breaking(schema: Schema, codes: Columns) -> dict[int, np.ndarray]:
    """bool per row, by constraint number: whether the row breaks the constraint by its codes
    alone."""
    facts = compiled_constraints(schema)
    rows = len(next(iter(codes.values()))) if codes else 0
    out: dict[int, np.ndarray] = {}

    def add(numbers: tuple[int, ...], clique: tuple[str, ...], broken: np.ndarray) -> None:
        for n in numbers:
            constraint = schema.constraints[n]
            if not constraint.order or set(clique) <= set(columns_of(schema, constraint)):
                out[n] = out.get(n, np.zeros(rows, bool)) | broken

    for mask in facts.masks:
        if all(c in codes for c in mask.clique):
            add(mask.numbers, mask.clique, mask.impossible[tuple(codes[c] for c in mask.clique)])
    for item in facts.derived:
        if item.column in codes and all(s in codes for s in item.sources):
            number = next(i for i, c in enumerate(schema.constraints) if c.column == item.column)
            add((number,), (*item.sources, item.column), item.codes(codes) != codes[item.column])
    return out


def _other_number(
    schema: Schema, name: str, expression: Expression, codes: Columns, batch
) -> np.ndarray:
    """bool per row: whether a number differs from the one that it is computed as. The tolerance is
    half a unit of its last digit (of floats, a relative 1e-9). Nulls and values outside a domain
    never do."""
    own = schema.fields[name]
    columns = (*ordered_columns(schema, name), *expression.columns)
    inside = [codes[c] < schema.columns[c].base for c in columns]
    fields = {n: schema.fields[n] for n in (name, *expression.operands)}
    given = {n: numbers_of(field, _array(batch, field)) for n, field in fields.items()}
    wanted = expression.of_rows(given)
    if own.calendar:
        return np.logical_and.reduce(inside) & (
            np.floor(wanted / _unit(own)) != given[name] // _unit(own)
        )
    bins = own.in_bins
    slack = 0.5 * 10.0 ** -digits(bins) if bins is not None and on_grid(bins) else 0.0
    gap = np.abs(wanted - given[name])
    return np.logical_and.reduce(inside) & (gap > slack + 1e-9 * np.maximum(1, np.abs(wanted)))


def _unit(field: Field) -> int:
    return DAY_SECONDS if dtypes.family(field.dtype) == "date" else 1


def numbers_of(field: Field, array: pa.Array) -> np.ndarray:
    """A column of written values as float64 numbers; times as seconds on the local clock; nan for
    nulls."""
    if not isinstance(field, Derived) or not field.calendar:
        return as_numbers(field, array)
    source = Source.of(field.dtype, array.type)
    assert source is not None
    seconds, good, null = source.as_integers(array, field)
    return np.where(good & ~null, seconds, np.nan)


def _array(batch, column: Field) -> pa.Array:
    array = batch.column(column.source)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _numbers(schema: Schema, item: Item, codes: Columns, batch) -> np.ndarray:
    """The numbers of one item of an `order` constraint, nan for nulls and values outside the
    domain."""
    low, _ = item.ends(codes)
    if item.fixed:
        return low
    field = schema.fields[item.name]
    return np.where(np.isnan(low), np.nan, numbers_of(field, _array(batch, field)))

"""Values to codes: Arrow columns in, the smallest unsigned codes out, by the public schema.

No value raises: what lies outside a column's domain goes where its overflow policy says, nulls
where the null policy says. Wrong *types* raise a DataError before any work. Everything here may run
in several threads at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._core import codes as core
from .._util.arrow import decoded
from .._util.lazy import pa, pc
from ..errors import DataError, did_you_mean
from ..schema import dtypes
from ..schema.coding import Range
from ..schema.columns import Column
from ..schema.derived import Derived, Split
from ..schema.kind_of_text import as_number
from ..schema.schema import Field, Schema
from .maps import Source, can_occur, decimal_codes, dictionary_map, number_map, wide
from .policy import nan_code, null_code, other_code
from .text import text_codes

MOST_UNITS = 1 << 22
"""The longest table by which hours are split into parts. It only affects speed."""
FEW_UNITS = 10_000
"""A table of this many hours is always made; a longer one only where it has at most four hours for
each row. It only affects speed."""


def source_columns(schema: Schema) -> list[str]:
    """Names of the source columns that the code columns are read from; without the user column."""
    return list(dict.fromkeys(item.source for item in schema.fields.values()))


def type_problems(fields: Iterable[Field], source: pa.Schema) -> list[str]:
    """What is wrong with names and types of a source, a sentence for each column."""
    problems = []
    for item in fields:
        places = source.get_all_field_indices(item.source)
        if not places:
            problems.append(
                f"column {item.source!r} is missing{did_you_mean(item.source, source.names)}"
            )
        elif len(places) > 1:
            problems.append(
                f"column {item.source!r} occurs {len(places)} times; column names must differ"
            )
        else:
            try:
                _source_of(item, source.field(places[0]).type)
            except DataError as error:
                problems.append(str(error))
    return problems


def _source_of(item: Field, kind: pa.DataType) -> Source:
    """How values of this Arrow type are read as the field's; DataError if they cannot be."""
    source = Source.of(item.dtype, kind)
    if source is None:
        how = "cast it, or change the schema"
        raise DataError(f"column {item.source!r} is {kind}, not {item.kind} ({item.dtype}); {how}")
    named = item.overflow.action == "value"  # every value outside the list is read as a listed one
    if isinstance(item, Column) and not named and not can_occur(item, source):
        how = (
            f"none of the values that the schema lists ({item.dtype}); correct the list, or cast it"
        )
        raise DataError(f"column {item.source!r} is {kind}, which can hold {how}")
    return source


def encode_batch(
    schema: Schema, batch: Any, fields: Iterable[Field] | None = None
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Codes of a record batch or table, and which rows to keep (None: all of them).

    Each array is C-contiguous and of its column's `code_dtype`; a row not to be kept has code 0 if
    the policy dropped it. `batch` is a pyarrow RecordBatch or Table, or anything with
    `__arrow_c_stream__`. `fields`: those of the schema that are read; None: all. DataError names
    the columns that the batch lacks, has twice, or has in a type from which the schema's type
    cannot be read.
    """

    if not isinstance(batch, pa.RecordBatch | pa.Table):
        batch = pa.table(batch)
    fields = list(schema.fields.values() if fields is None else fields)
    if problems := type_problems(fields, batch.schema):
        raise DataError("; ".join(problems))
    rows = batch.num_rows
    drops = any("drop" in (c.null.action, c.overflow.action) for item in fields for c in item.parts)
    # Filled under Python's lock, unlike `np.ones`.
    keep = np.frombuffer(bytearray(b"\1") * rows, np.uint8) if drops else None
    out: dict[str, np.ndarray] = {}
    jobs: list[core.Job | None] = []
    for item in fields:
        for column in item.parts:
            out[column.name] = np.empty(rows, dtype=column.code_dtype)
        data = batch.column(item.source)
        start = 0
        for chunk in data.chunks if isinstance(data, pa.ChunkedArray) else [data]:
            rows_of = slice(start, start + len(chunk))
            start += len(chunk)
            if len(chunk):
                parts = {c.name: out[c.name][rows_of] for c in item.parts}
                jobs.append(
                    _encode(schema, item, chunk, parts, None if keep is None else keep[rows_of])
                )
    most, every = core.encode([job for job in jobs if job is not None], list(out.values()), keep)
    for name, largest in zip(out, most):
        # The kernels index by code without a bounds check; this check makes that safe.
        if largest >= schema.columns[name].size:
            raise RuntimeError(f"column {name!r}: the encoder made a code outside its domain")
    mask = None if keep is None or every else keep.view(bool)
    return {name: out[name] for name in schema.columns if name in out}, mask


def _encode(
    schema: Schema,
    item: Field,
    array: pa.Array,
    out: dict[str, np.ndarray],
    keep: np.ndarray | None,
) -> core.Job | None:
    """Codes a chunk of a column, or returns the job of the kernel that does."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_null(array.type):
        for column in item.parts:
            _fill(out[column.name], keep, np.ones(len(array), dtype=bool), null_code(column))
        return None
    if isinstance(item, Derived):
        _encode_derived(item, array, out, keep)
        return None
    array = _exact(array)
    source = _source_of(item, array.type)
    if item.encodes_numbers:
        _encode_numbers(item, source, array, out[item.name])
        return None
    if item.coding is None:
        if not pa.types.is_dictionary(array.type) and source.form != "text":
            array = array.dictionary_encode()
    elif source.form not in ("text", "dictionary"):
        x, valid, bit0 = _buffers(source.plain(array))
        # The kernel counts in 64 bits, and whole numbers alone are in its ranges.
        fraction = isinstance(item.coding, Range) and source.form == "decimal" and source.kind.scale
        if source.form == "decimal" and (fraction or wide(array, x).size):
            if array.type.bit_width < 128:  # Arrow does not dictionary-encode narrow decimals
                array = array.cast(pa.decimal128(38, array.type.scale))
            array = array.dictionary_encode()
    if source.form in ("text", "dictionary") or pa.types.is_dictionary(array.type):
        indices, table = _dictionary(item, source, array)
        rule = dictionary_map(item, table)
        x, valid, bit0 = _buffers(indices)
    else:
        key = (item.name, source)
        cache = schema.__dict__.setdefault("_encode_maps", {})
        rule = cache[key] = cache.get(key) or number_map(item, source)
    return x, rule, valid, bit0, out[item.name], keep


def _encode_numbers(item: Column, source: Source, array: pa.Array, out: np.ndarray) -> None:
    """Codes of a kind that encodes floats; texts and dictionaries by the numbers they spell."""

    if pa.types.is_dictionary(array.type):
        array = _exact(decoded(array))
        source = _source_of(item, array.type)
    if source.form == "text":
        numbers = [as_number(t) for t in source.binary(array).to_pylist()]
        out[:] = item.codes_of_numbers(
            np.array([np.nan if n is None else n for n in numbers], np.float64)
        )
        return
    x, valid, _ = _buffers(source.plain(array))
    if source.form == "decimal":
        inexact = (x >= 1 << 53) | (x <= -(1 << 53))  # as floats
        if valid is not None:  # anything may lie under a null
            inexact &= ~np.asarray(array.is_null())
        rows = np.flatnonzero(inexact)
        x = x / 10.0 ** max(array.type.scale, 0)
        x[rows] = [float(number) for number in array.take(pa.array(rows)).to_pylist()]
    out[:] = item.codes_of_numbers(x if x.dtype.kind == "f" else x.astype(np.float64))
    if valid is not None:
        out[np.asarray(array.is_null())] = item.base


def _dictionary(item: Column, source: Source, array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Indices into distinct values, and the code (or DROP) of each of those."""

    if not pa.types.is_dictionary(array.type):
        array = source.binary(array).dictionary_encode()
    values = _exact(array.dictionary)
    inner = _source_of(item, values.type)
    if inner.form == "text":
        table = text_codes(item, inner.binary(values).to_pylist())
    elif item.coding is None:
        table = np.array([_own_code(item, value) for value in values.to_pylist()], dtype=np.uint32)
    elif inner.form == "decimal":
        table = np.array(decimal_codes(item, inner, values.to_pylist()), dtype=np.uint32)
    else:
        table = np.empty(len(values), dtype=np.uint32)
        if len(values):
            x, valid, bit0 = _buffers(inner.plain(values))
            core.encode([(x, number_map(item, inner), valid, bit0, table, None)])
    return array.indices, table


def _own_code(item: Column, value: Any) -> int:
    """The code of one value, or DROP, by the kind's own way."""
    if value is None:
        return null_code(item)
    if value != value:
        return nan_code(item)
    code = item.code_of(value)
    return other_code(item) if code is None else code


def _exact(array: pa.Array) -> pa.Array:
    """Numbers beyond int64, which the kernel does not read, as decimals."""
    beyond = (
        pa.types.is_uint64(array.type) and (pc.max(array).as_py() or 0) > np.iinfo(np.int64).max
    )
    return array.cast(pa.decimal128(38, 0)) if beyond else array


def _buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None, int]:
    """A primitive array as numpy values, validity bitmap and the bit of its first row."""
    valid, data = array.buffers()[:2]
    dtype: np.dtype = np.dtype(dtypes.machine_dtype(array.type))
    if data is None or not len(array):
        return np.zeros(len(array), dtype=dtype), None, 0
    x = np.frombuffer(data, dtype=dtype, count=array.offset + len(array))[array.offset :]
    if valid is None or array.null_count == 0:
        return x, None, 0
    return x, np.frombuffer(valid, dtype=np.uint8), array.offset


def _fill(out: np.ndarray, keep: np.ndarray | None, where: np.ndarray, code: int) -> None:
    """Give the rows `where` this code; DROP gives code 0, and the row is not kept."""
    out[where] = 0 if code == core.DROP else code
    if code == core.DROP and keep is not None:
        keep[where] = 0


def _encode_derived(
    item: Derived, array: pa.Array, out: dict[str, np.ndarray], keep: np.ndarray | None
) -> None:
    """Codes of all columns that the field's values are split into."""
    values, good, null = _source_of(item, array.type).as_integers(array, item)
    if item.split_unit > 1:
        codes, inside = _split_units(item, values, good & ~null)
    else:
        codes, inside = item.split(np.where(good & ~null, values, 0))
    good &= inside
    for column, own in zip(item.parts, codes):
        target = out[column.name]
        np.copyto(target, own, casting="unsafe")
        if not good.all():
            _fill(target, keep, ~good & ~null, other_code(column))
        if null.any():
            _fill(target, keep, null, null_code(column))


def _split_units(item: Derived, values: np.ndarray, good: np.ndarray) -> Split:
    """The same as `item.split`, by a table over the units that occur (of times, hours), within
    which no part changes."""
    units = values // item.split_unit
    if not good.all():
        units[~good] = units[good][0] if good.any() else 0
    low = int(units.min()) if len(units) else 0
    high = int(units.max()) if len(units) else 0
    if high - low > min(MOST_UNITS, 4 * len(units) + FEW_UNITS):
        return item.split(units * item.split_unit)
    tables, inside = item.split(np.arange(low, high + 1) * item.split_unit)
    units -= low
    return [t.astype(np.uint32)[units] for t in tables], inside[units]

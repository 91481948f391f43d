"""The values of a column read as keys: texts or whole numbers, batch by batch, beside their users.

What a value becomes never depends on another value, and no value raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._util.arrow import decoded
from .._util.lazy import pa, pc
from ..errors import DataError
from ..schema import Schema, dtypes
from ..schema.kind_of_text import as_number
from ..tables import idvalues, reading, textvalues
from ..tables.parts import Part
from ..tables.row_periods import row_periods, taking_part
from ..tables.sources.source import open_parts


def key_batches(
    source: Any, schema: Schema, name: str, dtype: str, places: int | None = None
) -> Iterator[tuple[pa.Array, pa.Array | None, np.ndarray | None]]:
    """Batches of (values, user ids or None, numbers of the rows' periods or None). Rows without a
    value are left out, rows without a user where the schema drops them, and rows of periods that do
    not take part."""
    period = schema.period
    wanted = [name] if schema.user is None else [name, schema.user]
    wanted += [] if period is None or period.of in wanted else [period.of]
    for part in open_parts(source, schema.dialect):
        _check(part, wanted, name, dtype, places)
        for unit in reading.guarded(part.where, part.units(wanted, schema.user)):
            for batch in reading.guarded(part.where, unit()):
                keys = keys_of(idvalues.normal(batch.column(name)), dtype, places)
                keep = keys.is_valid()
                ids = None
                if schema.user is not None:
                    ids = idvalues.normal(batch.column(schema.user), schema.user_dtype)
                    has_id = idvalues.has_id(ids) if schema.null_user == "drop" else None
                    keep = keep if has_id is None else pc.and_(keep, pa.array(has_id))
                numbers = None
                if period is not None:
                    numbers = row_periods(batch.column(period.of), period)
                    inside = taking_part(numbers, period)
                    keep = keep if inside is None else pc.and_(keep, pa.array(inside))
                    numbers = numbers[keep.to_numpy(zero_copy_only=False)]
                yield keys.filter(keep), None if ids is None else ids.filter(keep), numbers


def keys_of(array: pa.Array, dtype: str, places: int | None = None) -> pa.Array:
    """Values as text (large_string) or whole numbers (int64); null if a value is neither. Bytes
    that are not UTF-8 are not text: their rows have no listed value, as when they are encoded. No
    value raises, and what one of them becomes never depends on the others. `places`: numbers with
    at most so many decimals, as whole numbers of units of the last one."""
    t = pa.types
    if t.is_dictionary(array.type):
        array = decoded(array)
    kind = array.type
    if t.is_string(kind) or t.is_large_string(kind):
        array = array.cast(pa.large_binary())
    elif t.is_fixed_size_binary(kind):
        array = array.cast(pa.large_binary())
    binary = t.is_binary(array.type) or t.is_large_binary(array.type)
    if places is not None:
        if binary:
            coded = array.dictionary_encode()
            numbers = pa.array(
                [as_number(text) for text in coded.dictionary.to_pylist()], pa.float64()
            )
            array = numbers.take(coded.indices)
        return _units(array.cast(pa.float64(), safe=False), dtype, places)
    if dtypes.family(dtype) == "string":
        return textvalues.to_text(array, mended=False) if binary else array.cast(pa.large_string())
    if binary:
        texts = textvalues.to_text(idvalues.normal(array, "int64"))
        whole = pc.match_substring_regex(texts, r"^-?[0-9]{1,18}$")
        return pc.if_else(whole, texts, pa.scalar(None, texts.type)).cast(pa.int64())
    if t.is_floating(kind):
        array = array.cast(pa.float64())
        whole = pc.and_(pc.equal(array, pc.floor(array)), pc.less(pc.abs(array), 2.0**53))
        array = pc.if_else(whole, array, pa.scalar(None, array.type))
    elif t.is_uint64(kind):
        array = pc.if_else(
            pc.less_equal(array, pa.scalar((1 << 63) - 1, kind)), array, pa.scalar(None, kind)
        )
    return array.cast(pa.int64())


def _units(array: pa.Array, dtype: str, places: int) -> pa.Array:
    """Floats as whole numbers of 10^-places; null if a float is not the nearest one to such a
    number."""
    values = array.to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        units = np.rint(values * 10.0**places)
        near = (units / 10.0**places).astype(
            np.float32 if dtype == "float32" else np.float64
        ) == values
        kept = near & (np.abs(units) < 2.0**53)
    return pa.array(np.where(kept, units, 0).astype(np.int64), mask=~kept)


def _check(part: Part, wanted: list[str], name: str, dtype: str, places: int | None) -> None:
    """Check names and types of the source's columns, before any row is read."""
    for column in wanted:
        if part.times(column) != 1:
            raise DataError(f"{part.where}: column {column!r} is missing, or occurs more than once")
    kind = pa.binary() if part.is_text(name) else part.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_decimal(kind):
        raise DataError(f"{part.where}: column {name!r} is {kind}; cast it to {dtype}")
    try:
        keys_of(idvalues.normal(pa.nulls(0, kind)), dtype, places)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise DataError(f"{part.where}: column {name!r} does not hold {dtype}") from None

"""The values of one column for its codes, as Arrow arrays of the column's type."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from .._core import codes as core
from .._util.arrow import of_numpy, of_texts
from .._util.lazy import pa, pc
from ..schema import Schema, dtypes
from ..schema.bins import Bins, bins_of, digits, on_grid
from ..schema.coding import Listed, Range
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.epoch import DAY_SECONDS, per_unit, since_1970
from ..schema.fields import Field
from .code_values import drawn_overflow, stored_per_number
from .draws import empty_numbers, numbers_in_bins, uniform

_LISTED = 1 << 20
"""Ranges of up to this many codes are decoded by a table, longer ones by a sum."""


def inside(column: Column, codes: np.ndarray, seed: int, row: int) -> np.ndarray:
    """The codes, with the code of values outside the domain replaced by a uniform draw from the
    domain's values (or bins). This is done if the column has neither a null code nor a value
    written in their place. So a column without nulls is written without nulls."""
    overflow = drawn_overflow(column)
    if overflow is None:
        return codes
    outside = codes == overflow
    if not outside.any():
        return codes
    drawn = np.floor(uniform(seed, column.name, "overflow", row, len(codes)) * column.base)
    return np.where(outside, np.minimum(drawn, column.base - 1).astype(codes.dtype), codes)


def decode_table(schema: Schema, column: Column) -> DecodeTable:
    """The column's table, made once for a schema."""
    cache = schema.__dict__.setdefault("_decode_tables", {})
    if column.name not in cache:
        cache[column.name] = DecodeTable(column)
    return cache[column.name]


def values(
    schema: Schema,
    column: Column,
    codes: np.ndarray,
    seed: int,
    row: int,
    numbers: np.ndarray | None = None,
) -> pa.Array:
    """The values of a column's codes; row 0 is row `row` of the whole table. numbers: those to
    write for a column of bins (times in seconds), where constraints have settled them."""
    coding = column.coding
    if coding is None:
        return _own_values(column, codes, seed, row)
    if isinstance(coding, Range) and column.size > _LISTED:
        whole = np.where(codes < column.base, codes, 0) + np.int64(coding.first)
        whole *= 10 ** dtypes.decimal_scale(column.dtype)
        return arrow_array(whole, codes >= column.base, column.dtype)
    book = decode_table(schema, column)
    null = None if book.never_null else _looked_up(codes, book.null).view(bool)
    if book.bins is not None and column.in_bins is not None:
        if numbers is None:
            raw = numbers_in_bins(column.in_bins, book.bins, codes, seed, row)
        elif column.temporal:
            raw = _stored_times(column.dtype, np.rint(np.nan_to_num(numbers)).astype(np.int64))
        else:
            raw = empty_numbers(column.in_bins, len(codes))
            scaled = np.nan_to_num(numbers) * stored_per_number(column)
            np.copyto(raw, np.rint(scaled) if raw.dtype.kind in "iu" else scaled, casting="unsafe")
        return arrow_array(raw, null, column.dtype)
    if book.texts is not None:
        index = of_numpy(_looked_up(codes, book.table), null, pa.int32())
        coded = pa.DictionaryArray.from_arrays(index, book.texts)
        kind = dtypes.arrow(column.dtype)
        return coded if pa.types.is_dictionary(kind) else coded.cast(book.texts.type).cast(kind)
    return arrow_array(_looked_up(codes, book.table), null, column.dtype)


def _own_values(column: Column, codes: np.ndarray, seed: int, row: int) -> pa.Array:
    """The values of a kind that draws them by itself; null where a code stands for no value."""
    null = codes >= column.base
    inside = np.where(null, 0, codes).astype(np.int64)
    rows = len(codes)
    drawn = column.draw(inside, lambda purpose: uniform(seed, column.name, purpose, row, rows))
    listed = pa.array(drawn, mask=null) if isinstance(drawn, np.ndarray) else _nulled(drawn, null)
    return listed.cast(dtypes.arrow(column.dtype))


def _nulled(values: Sequence[Any], null: np.ndarray) -> pa.Array:
    return pa.array([None if gone else value for value, gone in zip(values, null)])


def _looked_up(codes: np.ndarray, table: np.ndarray) -> np.ndarray:
    out = np.empty(len(codes), dtype=table.dtype)
    core.lookup(codes, table, out)
    return out


class DecodeTable:
    """What a column's codes decode to: a table of values or texts, or bins to draw in."""

    def __init__(self, column: Column):
        self.null = np.zeros(column.size, dtype=np.uint8)
        if column.null_code is not None:
            self.null[column.null_code] = 1
        self.bins: Bins | None = None
        self.texts: pa.Array | None = None
        self.table = np.zeros(0, dtype=np.int64)
        if column.in_bins is not None:
            self.bins, without = bins_of(column.in_bins)
            self.null[without] = 1
        else:
            self._listed(column)
        self.never_null = not self.null.any()

    def _listed(self, column: Column) -> None:
        """A table of the values that codes stand for; codes beyond them decode to `other`."""
        extra = column.size - column.base
        if column.overflow_code is not None and not column.writes_overflow:
            self.null[column.overflow_code] = 1
        coding = column.coding
        if isinstance(coding, Listed):
            values = list(coding.values)
            values += [values[0] if coding.other is None else coding.other] * extra
            if dtypes.family(column.dtype) == "string":
                number = {text: i for i, text in enumerate(dict.fromkeys(str(v) for v in values))}
                self.texts = _texts(list(number), column.dtype)
                self.table = np.array([number[str(v)] for v in values], dtype=np.int32)
            else:
                self.table = _machine(values, column.dtype)
            return
        if not isinstance(coding, Range):
            return
        numbers = np.arange(column.base, dtype=np.int64) + coding.first
        self.table = np.concatenate([numbers, np.full(extra, coding.first)])
        if dtypes.family(column.dtype) == "decimal":
            self.table *= 10 ** dtypes.decimal_scale(column.dtype)
        if dtypes.family(column.dtype) in ("int", "float"):
            self.table = self.table.astype(dtypes.machine_dtype(dtypes.arrow(column.dtype)))


def _texts(values: list[str], dtype: str) -> pa.Array:
    """The listed texts; views and dictionaries are made from plain strings."""
    kind = dtypes.arrow(dtype)
    plain = pa.types.is_dictionary(kind) or pa.types.is_string_view(kind)
    made = of_texts(values)
    return made if plain else made.cast(kind)


def _machine(values: list[Any], dtype: str) -> np.ndarray:
    """Listed values as the numbers that Arrow stores for them."""
    family = dtypes.family(dtype)
    if family in ("int", "float"):
        return np.array(values, dtype=dtypes.machine_dtype(dtypes.arrow(dtype)))
    if family == "bool":
        return np.array(values, dtype=np.uint8)
    if family == "decimal":
        scale = dtypes.decimal_scale(dtype)
        return np.array([int(Decimal(v).scaleb(scale)) for v in values], dtype=np.int64)
    kind = dtypes.arrow(dtype)
    if family == "date":
        days = np.array(values, dtype="datetime64[D]")
        if dtype == "date32":
            return days.astype(np.int32)
        return days.astype("datetime64[ms]").view(np.int64)
    return np.array([since_1970(v, kind.unit, kind.tz) for v in values], dtype=np.int64)


def written(column: Field, numbers: np.ndarray) -> pa.Array:
    """Numbers as a column of bins or a field of times writes them; nan as null."""
    null = np.isnan(numbers)
    numbers = np.nan_to_num(numbers)
    bins = column.in_bins
    if bins is None:
        return _times(column, np.floor(numbers).astype(np.int64), null)
    scale = 10.0 ** digits(bins)
    numbers = np.rint(numbers * scale) / scale if on_grid(bins) else numbers
    stored = numbers * stored_per_number(column)
    return arrow_array(
        stored if dtypes.family(column.dtype) == "float" else np.rint(stored), null, column.dtype
    )


def shift_values(column: Column) -> np.ndarray:
    """The number of the shift in the week, from 0, behind each code of a shift column."""
    listed = column.coding.values if isinstance(column.coding, Listed) else range(column.base)
    return np.array([int(v) for v in listed], dtype=np.int64)


def seconds_of(
    item: Derived, parts: list[np.ndarray], seed: int, row: int, stream: str = ""
) -> np.ndarray:
    """The values of a derived field (times in seconds); arbitrary where it is null. `stream`: names
    another random stream, for a further draw."""
    whole = [
        np.where(codes < p.base, codes, 0).astype(np.int64) for p, codes in zip(item.parts, parts)
    ]
    rows = len(parts[0])
    stream = f" {stream}" if stream else ""
    return item.join(whole, lambda purpose: uniform(seed, item.name, purpose + stream, row, rows))


def rebuilt(
    item: Derived, parts: list[np.ndarray], seed: int, row: int, numbers: np.ndarray | None = None
) -> pa.Array:
    """The values of a derived field by codes of all its parts; null where any part has no value."""
    null = np.any(
        [codes >= part.base for part, codes in zip(item.parts, parts, strict=True)], axis=0
    )
    drawn = seconds_of(item, parts, seed, row) if numbers is None else np.where(null, 0, numbers)
    return _times(item, drawn.astype(np.int64), null)


def _times(item: Field, values: np.ndarray, null: np.ndarray) -> pa.Array:
    """Values of a derived field (times in seconds on the local clock) as it writes them."""
    if not item.temporal:
        return arrow_array(values, null, item.dtype)
    kind = dtypes.arrow(item.dtype)
    stored = _stored_times(item.dtype, values)
    if getattr(kind, "tz", None) is None:
        return arrow_array(stored, null, item.dtype)
    local = arrow_array(stored, null, f"timestamp[{kind.unit}]")
    return pc.assume_timezone(local, kind.tz, ambiguous="earliest", nonexistent="latest")


def _stored_times(dtype: str, seconds: np.ndarray) -> np.ndarray:
    day = DAY_SECONDS if dtypes.family(dtype) == "date" else 1
    return seconds // day * per_unit(dtype)


def arrow_array(values: np.ndarray, null: np.ndarray | None, dtype: str) -> pa.Array:
    """Numbers as an Arrow array of an output type, nulls where `null`."""
    kind = dtypes.arrow(dtype)
    family = dtypes.family(dtype)
    if family == "string":
        return of_numpy(values, null).cast(kind)
    if family == "bool":
        return of_numpy(np.ascontiguousarray(values, np.uint8), null, pa.uint8()).cast(kind)
    if family != "decimal":
        as_integers = f"i{kind.bit_width // 8}" if family in ("date", "timestamp") else ""
        values = np.ascontiguousarray(values, as_integers or dtypes.machine_dtype(kind))
    elif values.ndim == 1:
        low = np.ascontiguousarray(values, np.int64)
        values = np.stack([low, low >> 63], axis=1)
    return of_numpy(values, null, kind)

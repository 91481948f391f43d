"""Codes to values: the reverse of the encoder, with numbers drawn inside their bins.

Every random number is a fixed function of (seed, column, row). So any slice of rows decodes to the
same values alone as within the whole, whatever the threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from .._core import codes as core
from .._util.arrow import of_numpy, of_texts
from .._util.lazy import pa, pc
from .._util.threads import each, resolve
from ..domain import Columns
from ..errors import UsageError
from ..schema import Schema, dtypes
from ..schema.columns import Categorical, Column, Integer, Numeric
from ..schema.constraints import ordered_columns
from ..schema.derived import Derived, Timestamp, shift_parts, shifts_per_day
from ..schema.epoch import per_unit, since_1970
from .bins import Bins, bins_of, digits, on_grid
from .code_values import drawn_overflow, stored_per_number
from .ordered import Item, OrderGroup
from .possible import compiled_constraints
from .violations import numbers_of

_CHUNK = 1 << 18
"""Rows that each of several threads decodes at a time."""
_ALONE = 1 << 20
"""Rows that one thread decodes at a time. With fewer, 16 threads that each write a shard would wait
for Python's lock more often."""
_LISTED = 1 << 20
"""Ranges of up to this many codes are decoded by a table, longer ones by a sum."""


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
    types. `pinned`: numbers of fields (times in seconds) that constraints must respect, nan where
    none is given; the caller writes them.

    Row i is row `offset + i` of the whole table: it depends on (seed, offset + i) and its codes
    only. A derived field is rebuilt where `codes` has all its parts, else its parts are written as
    they are. With `outputs`, the schema's extra columns (day of the week, hour of the day drawn
    within the shift) follow.
    """
    columns = {name: _checked(schema, name, array) for name, array in codes.items()}
    rows = {len(array) for array in columns.values()}
    if len(rows) != 1:
        raise UsageError("codes: expected at least one column, and columns of equal length")
    if offset < 0:
        raise UsageError(f"offset: expected a row number >= 0, got {offset}")
    total, threads = rows.pop(), resolve(threads)
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


def stream_key(seed: int, column: str, purpose: str = "") -> int:
    """The 64-bit key of a column's random stream."""
    text = f"fastdp decode\x00{seed}\x00{column}\x00{purpose}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _uniform(seed: int, column: str, purpose: str, row: int, count: int) -> np.ndarray:
    u = np.empty(count, dtype=np.float64)
    core.uniform(stream_key(seed, column, purpose), row, u)
    return u


def _inside(column: Column, codes: np.ndarray, seed: int, row: int) -> np.ndarray:
    """The codes, with the code of values outside the domain replaced by a uniform draw from the
    domain's values (or bins). This is done if the column has neither a null code nor a value
    written in their place. So a column without nulls is written without nulls."""
    overflow = drawn_overflow(column)
    if overflow is None:
        return codes
    outside = codes == overflow
    if not outside.any():
        return codes
    drawn = np.floor(_uniform(seed, column.name, "overflow", row, len(codes)) * column.base)
    return np.where(outside, np.minimum(drawn, column.base - 1).astype(codes.dtype), codes)


def _decode_rows(
    schema: Schema,
    codes: Columns,
    seed: int,
    row: int,
    outputs: bool,
    pinned: Mapping[str, np.ndarray],
) -> pa.RecordBatch:
    names: list[str] = []
    arrays: list[pa.Array] = []

    def add(name: str, array: pa.Array) -> None:
        names.append(name)
        arrays.append(array)

    codes = {
        name: _inside(schema.columns[name], column, seed, row) for name, column in codes.items()
    }
    settled: dict[str, np.ndarray] = {}
    for group in compiled_constraints(schema).orders if schema.constraints else ():
        if all(c in codes for item in group.items for c in item.columns):
            settled |= _settled(schema, group, codes, seed, row, pinned)
    for follows in compiled_constraints(schema).follows if schema.constraints else ():
        if follows.numbers is not None and all(s in codes for s in follows.sources):
            settled[follows.column] = follows.written(codes)  # type: ignore[assignment]  # it has numbers
    computed = compiled_constraints(schema).computed if schema.constraints else {}
    for item in schema.fields.values():
        have = [part for part in item.parts if part.name in codes]
        numbers = settled.get(item.name)
        if (
            not have
            and item.name in computed
            and all(c in codes for c in computed[item.name].columns)
        ):
            add(item.source, of_numpy(np.zeros(len(codes[computed[item.name].columns[0]]))))
        elif have and not isinstance(item, Derived):
            add(item.source, _values(schema, item, codes[item.name], seed, row, numbers))
        elif isinstance(item, Derived) and len(have) == len(item.parts) and item.output == "value":
            add(item.source, _rebuilt(item, [codes[p.name] for p in have], seed, row, numbers))
        else:
            for part in have:
                add(part.name, _values(schema, part, codes[part.name], seed, row))
    for name, expression in computed.items():
        field = schema.fields[name]
        if field.source in names and not any(c in codes for c in ordered_columns(schema, name)):
            used = {n: schema.fields[n] for n in expression.operands}
            given = {n: numbers_of(own, arrays[names.index(own.source)]) for n, own in used.items()}
            for n in given.keys() & pinned.keys():
                given[n] = np.where(np.isnan(pinned[n]), given[n], pinned[n])
            arrays[names.index(field.source)] = _written(field, expression.of_rows(given))
    if outputs:
        for extra in schema.outputs.values():
            if extra.of in codes:
                shift = codes[extra.of]
                base = schema.columns[extra.of].base
                values = _shift_values(schema.columns[extra.of])[np.minimum(shift, base - 1)]
                if extra.part == "hour":
                    u = _uniform(seed, extra.name, "hour", row, len(shift))
                else:
                    u = None
                drawn = shift_parts(values, extra.part, u, shifts_per_day(base) or 1)
                add(extra.name, _array(drawn, shift >= base, extra.dtype))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _written(column: Any, numbers: np.ndarray) -> pa.Array:
    """Numbers as a column or timestamp field writes them; nan as null."""
    null = np.isnan(numbers)
    numbers = np.nan_to_num(numbers)
    if isinstance(column, Timestamp):
        return _times(column, np.floor(numbers).astype(np.int64), null)
    scale = 10.0 ** digits(column)
    numbers = np.rint(numbers * scale) / scale if on_grid(column) else numbers
    stored = numbers * stored_per_number(column)
    return _array(
        stored if dtypes.family(column.dtype) == "float" else np.rint(stored), null, column.dtype
    )


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
        if isinstance(field, Timestamp):
            seconds = _seconds(field, [codes[c] for c in item.columns], seed, row, stream)
            return (seconds // 86_400 * 86_400 if item.step == 86_400 else seconds).astype(
                np.float64
            )
        assert isinstance(field, Numeric)
        bins = _decode_table(schema, field).bins
        assert bins is not None
        return _numbers(field, bins, codes[field.name], seed, row, stream) / stored_per_number(
            field
        )

    return group.settle(codes, draw, pinned)


def _shift_values(column: Column) -> np.ndarray:
    """The number of the shift in the week, from 0, behind each code of a shift column."""
    listed = column.values if isinstance(column, Categorical) else range(column.base)
    return np.array([int(v) for v in listed], dtype=np.int64)


def _array(values: np.ndarray, null: np.ndarray | None, dtype: str) -> pa.Array:
    """Numbers as an Arrow array of an output type, nulls where `null`."""
    kind = dtypes.arrow(dtype)
    family = dtypes.family(dtype)
    if family == "string":
        return of_numpy(values, null).cast(kind)
    if family == "bool":
        return of_numpy(np.ascontiguousarray(values, np.uint8), null, pa.uint8()).cast(kind)
    if family != "decimal":
        timely = f"i{kind.bit_width // 8}" if family in ("date", "timestamp") else ""
        values = np.ascontiguousarray(values, timely or dtypes.machine_dtype(kind))
    elif values.ndim == 1:
        low = np.ascontiguousarray(values, np.int64)
        values = np.stack([low, low >> 63], axis=1)
    return of_numpy(values, null, kind)


def _seconds(
    item: Derived, parts: list[np.ndarray], seed: int, row: int, stream: str = ""
) -> np.ndarray:
    """The values of a derived field (times in seconds); arbitrary where it is null. `stream`: names
    another random stream, for a further draw."""
    whole = [
        np.where(codes < p.base, codes, 0).astype(np.int64) for p, codes in zip(item.parts, parts)
    ]
    rows = len(parts[0])
    stream = f" {stream}" if stream else ""
    return item.join(whole, lambda purpose: _uniform(seed, item.name, purpose + stream, row, rows))


def _rebuilt(
    item: Derived, parts: list[np.ndarray], seed: int, row: int, numbers: np.ndarray | None = None
) -> pa.Array:
    null = np.any(
        [codes >= part.base for part, codes in zip(item.parts, parts, strict=True)], axis=0
    )
    drawn = _seconds(item, parts, seed, row) if numbers is None else np.where(null, 0, numbers)
    return _times(item, drawn.astype(np.int64), null)


def _times(item: Derived, values: np.ndarray, null: np.ndarray) -> pa.Array:
    """Values of a derived field (times in seconds on the local clock) as it writes them."""
    if not isinstance(item, Timestamp):
        return _array(values, null, item.dtype)
    kind = dtypes.arrow(item.dtype)
    stored = _stored_times(item.dtype, values)
    if getattr(kind, "tz", None) is None:
        return _array(stored, null, item.dtype)
    local = _array(stored, null, f"timestamp[{kind.unit}]")
    return pc.assume_timezone(local, kind.tz, ambiguous="earliest", nonexistent="latest")


def _stored_times(dtype: str, seconds: np.ndarray) -> np.ndarray:
    day = 86_400 if dtypes.family(dtype) == "date" else 1
    return seconds // day * per_unit(dtype)


def _decode_table(schema: Schema, column: Column) -> DecodeTable:
    cache = schema.__dict__.setdefault("_decode_tables", {})
    if column.name not in cache:
        cache[column.name] = DecodeTable(column)
    return cache[column.name]


def _values(
    schema: Schema,
    column: Column,
    codes: np.ndarray,
    seed: int,
    row: int,
    numbers: np.ndarray | None = None,
) -> pa.Array:
    if isinstance(column, Integer) and column.size > _LISTED:
        values = np.where(codes < column.base, codes, 0) + np.int64(column.min)
        values *= 10 ** dtypes.decimal_scale(column.dtype)
        return _array(values, codes >= column.base, column.dtype)
    book = _decode_table(schema, column)
    null = None if book.never_null else _looked_up(codes, book.null).view(bool)
    if book.bins is not None and isinstance(column, Numeric):
        if numbers is None:
            raw = _numbers(column, book.bins, codes, seed, row)
        elif column.timely:
            raw = _stored_times(column.dtype, np.rint(np.nan_to_num(numbers)).astype(np.int64))
        else:
            raw = _empty_numbers(column, len(codes))
            scaled = np.nan_to_num(numbers) * stored_per_number(column)
            np.copyto(raw, np.rint(scaled) if raw.dtype.kind in "iu" else scaled, casting="unsafe")
        return _array(raw, null, column.dtype)
    if book.texts is not None:
        index = of_numpy(_looked_up(codes, book.table), null, pa.int32())
        coded = pa.DictionaryArray.from_arrays(index, book.texts)
        kind = dtypes.arrow(column.dtype)
        return coded if pa.types.is_dictionary(kind) else coded.cast(book.texts.type).cast(kind)
    return _array(_looked_up(codes, book.table), null, column.dtype)


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
        if isinstance(column, Numeric):
            self.bins, without = bins_of(column)
            self.null[without] = 1
        else:
            self._listed(column)
        self.never_null = not self.null.any()

    def _listed(self, column: Column) -> None:
        extra = column.size - column.base
        other = column.other if isinstance(column, Categorical) else None
        if column.overflow_code is not None and other is None:
            self.null[column.overflow_code] = 1
        if isinstance(column, Categorical):
            values = list(column.values)
            values += [values[0] if other is None else other] * extra
        else:
            first = column.min if isinstance(column, Integer) else getattr(column, "first", 0)
            numbers = np.arange(column.base, dtype=np.int64) + first
            self.table = np.concatenate([numbers, np.full(extra, first)])
            if dtypes.family(column.dtype) == "decimal":
                self.table *= 10 ** dtypes.decimal_scale(column.dtype)
            if dtypes.family(column.dtype) in ("int", "float"):
                self.table = self.table.astype(dtypes.machine_dtype(dtypes.arrow(column.dtype)))
            return
        if dtypes.family(column.dtype) == "string":
            number = {text: i for i, text in enumerate(dict.fromkeys(str(v) for v in values))}
            self.texts = _texts(list(number), column.dtype)
            self.table = np.array([number[str(v)] for v in values], dtype=np.int32)
            return
        self.table = _machine(values, column.dtype)


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


def _empty_numbers(column: Numeric, rows: int) -> np.ndarray:
    family = dtypes.family(column.dtype)
    if family in ("int", "float"):
        return np.empty(rows, dtype=dtypes.machine_dtype(dtypes.arrow(column.dtype)))
    return np.empty(rows, dtype=np.int64 if column.whole or family == "decimal" else np.float64)


def _numbers(
    column: Numeric, bins: Bins, codes: np.ndarray, seed: int, row: int, stream=""
) -> np.ndarray:
    """`_raw_numbers` of the column's own random stream; in the rows that share their rank with
    another column (`rank`), of that column's stream."""
    own = _raw_numbers(column, bins, codes, stream_key(seed, column.name, stream), row)
    if column.rank is None:
        return own
    like = _raw_numbers(column, bins, codes, stream_key(seed, column.rank.like, stream), row)
    shared = _uniform(seed, column.name, "rank", row, len(codes)) < column.rank.share
    return np.where(shared if own.ndim == 1 else shared[:, None], like, own)


def _raw_numbers(column: Numeric, bins: Bins, codes: np.ndarray, key: int, row: int) -> np.ndarray:
    """Numbers drawn in their bins as Arrow stores them; decimals in units of their last digit, and
    as two words each where 64 bits may not hold them."""
    family = dtypes.family(column.dtype)
    more = 10 ** (dtypes.decimal_scale(column.dtype) - digits(column)) if family == "decimal" else 1
    if bins.base is not None and bins.near is not None:
        drawn = np.empty(len(codes))
        _draw(bins.near, codes, 1.0, key, row, drawn)
        if family == "decimal":
            exact = ((bins.base[c] + int(x)) * more for c, x in zip(codes.tolist(), drawn.tolist()))
            words = b"".join(number.to_bytes(16, "little", signed=True) for number in exact)
            return np.frombuffer(words, "<i8").reshape(-1, 2)
        # Modulo 2^64: a bin may be wider than int64, the sum is not.
        drawn = np.where(np.abs(drawn) < 2.0**63, drawn, drawn - np.copysign(2.0**64, drawn))
        start = np.array([base % (1 << 64) for base in bins.base], np.uint64)
        return (start[codes] + drawn.astype(np.int64).view(np.uint64)).view(
            f"{column.dtype[:-2]}64"
        )
    out = _empty_numbers(column, len(codes))
    unit = 1.0 if family == "decimal" else bins.unit
    if bins.grids:
        np.copyto(out, _on_grids(bins, codes, key, row) / unit, casting="unsafe")
    else:
        _draw(bins, codes, unit, key, row, out)
    if family == "decimal":
        out *= more
    elif column.timely:
        out *= per_unit(column.dtype)
    return out


def _on_grids(bins: Bins, codes: np.ndarray, key: int, row: int) -> np.ndarray:
    """Numbers in units of the last digit, of which each grid has its part."""
    out = np.empty(len(codes))
    choice = np.empty(len(codes))
    _draw(bins, codes, 1.0, key, row, out)
    core.uniform(stream_key(key, "", "grid"), row, choice)
    chosen = np.zeros(len(codes), bool)
    drawn = np.empty(len(codes))
    for grid in bins.grids:
        here = ~chosen & (choice < grid.below[codes])
        if here.any():
            _draw(grid.bins, codes, 1.0, key, row, drawn)
            out[here] = grid.at + grid.step * drawn[here]
        chosen |= here
    return out


def _draw(bins: Bins, codes: np.ndarray, unit: float, key: int, row: int, out: np.ndarray) -> None:
    core.draw(
        codes, bins.lo, bins.hi, bins.mean, bins.low, bins.high, bins.whole, unit, key, row, out
    )

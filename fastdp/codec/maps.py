"""What the encoder prepares per column and source type. It says which forms of values can be read
as which kind of column, and makes the kernel's map from values to codes."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .._core import codes as core
from .._util.arrow import of_numpy
from .._util.lazy import pa, pc
from ..schema import dtypes
from ..schema.coding import Listed
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.epoch import DAY_MILLISECONDS, DAY_SECONDS, UNITS
from ..schema.kinds.categorical import OTHER
from .policy import null_code, other_code
from .rules import Form, as_number, kernel_map, rule_of
from .text import parsed

_I64 = np.iinfo(np.int64)
# Years 1 to 9999, in seconds: what Arrow's calendar functions accept.
_CALENDAR = (-62_135_596_800, 253_402_300_799)


class Source(Form, frozen=True):
    """A source column's physical form, and how its values are read in it."""

    @staticmethod
    @lru_cache(maxsize=256)
    def of(dtype: str, kind: pa.DataType) -> Source | None:
        """How a column of this own type is read from a source type; None if it cannot be."""

        t = pa.types
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        target = dtypes.family(dtype)
        if t.is_dictionary(kind):
            inner = Source.of(dtype, kind.value_type)
            return None if inner is None else Source("dictionary", target, dtype, kind)
        texts = (t.is_string, t.is_large_string, t.is_binary, t.is_large_binary)
        views = (t.is_string_view, t.is_binary_view, t.is_fixed_size_binary)
        if t.is_null(kind) or any(is_text(kind) for is_text in (*texts, *views)):
            return Source("text", target, dtype, kind)
        temporal = t.is_date(kind) or t.is_timestamp(kind)
        if target in ("date", "timestamp"):
            return Source("time", target, dtype, kind) if temporal else None
        if t.is_integer(kind) or t.is_boolean(kind):
            return Source("whole", target, dtype, kind)
        if t.is_floating(kind):
            return Source("float", target, dtype, kind)
        if t.is_decimal(kind):
            return Source("text" if target == "string" else "decimal", target, dtype, kind)
        return Source("text", target, dtype, kind) if temporal and target == "string" else None

    def plain(self, array: pa.Array) -> pa.Array:
        """The array as machine numbers: integers, floats, unscaled decimals or times since 1970."""

        if pa.types.is_boolean(array.type):
            return array.cast(pa.uint8())
        if self.form == "float":
            return array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
        if self.form == "decimal":
            return _unscaled(array)
        if self.form == "time":
            own = dtypes.arrow(self.dtype)
            if pa.types.is_date(own):
                return _local_days(array, 1 if own.bit_width == 32 else DAY_MILLISECONDS)
            return _times(array, own)
        return array

    def binary(self, array: pa.Array) -> pa.Array:
        """Texts as bytes; other values as the bytes of their usual text. Bytes need not be
        UTF-8. Only what has offsets of 32 bits keeps them: from views, which may show one long text
        many times, Arrow makes offsets that overflow."""

        t = pa.types
        if t.is_decimal(array.type) or t.is_temporal(array.type) or t.is_null(array.type):
            array = array.cast(pa.string())
        small = t.is_string(array.type) or t.is_binary(array.type)
        return array.cast(pa.binary() if small else pa.large_binary())

    def as_integers(
        self, array: pa.Array, item: Derived
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values for a derived field (whole numbers, or seconds on the local clock), which of them
        can be read, and which are null."""

        if self.form in ("text", "dictionary"):
            if not pa.types.is_dictionary(array.type):
                array = self.binary(array).dictionary_encode()
            inner = Source.of(self.dtype, array.dictionary.type)
            assert inner is not None, "the source's type was checked with its dictionary's"
            if inner.form == "text":
                values, good, null = parsed(item, inner.binary(array.dictionary).to_pylist())
            else:
                values, good, null = inner.as_integers(array.dictionary, item)
            empty = np.asarray(array.indices.is_null())
            if not len(values):
                return np.zeros(len(array), np.int64), ~empty, empty
            at = np.asarray(array.indices.fill_null(0))
            return values[at], good[at] | empty, null[at] | empty
        null = np.asarray(array.is_null())
        if self.form == "time":
            values, bad = local_seconds(array, zone_of(item.dtype))
            return values, ~bad, null
        x = np.asarray(self.plain(array).fill_null(0))
        good = np.ones(len(x), dtype=bool)
        if self.form == "float":
            null |= np.isnan(x)
            good = (x >= -(2.0**63)) & (x < 2.0**63) & (x == np.floor(x))
            x = np.where(good, x, 0)
        elif self.form == "decimal":
            one_by_one = wide(array, x) if self.kind.scale >= 0 else np.flatnonzero(~null)
            if self.kind.scale > 18:  # int64 holds no whole number but 0 in units of 10^-19
                x, rest = np.zeros_like(x), x
            else:
                x, rest = np.divmod(x, 10 ** max(self.kind.scale, 0))
            good = rest == 0
            for row in one_by_one:
                number = array[int(row)].as_py()
                x[row] = min(max(int(number), _I64.min), _I64.max)
                good[row] = number == int(x[row])
        elif x.dtype == np.uint64:
            good = x <= np.uint64(_I64.max)
        return x.astype(np.int64), good | null, null


def zone_of(dtype: str) -> str | None:
    """The zone of a type of times; None if it has none."""
    return getattr(dtypes.arrow(dtype), "tz", None)


def _unscaled(array: pa.Array) -> pa.Array:
    """A decimal column as int64 multiples of its last digit; numbers beyond int64 become its
    nearest end. A number may have more digits than its type declares."""
    size = array.type.bit_width // 64
    count = (array.offset + len(array)) * max(size, 1)
    data: np.ndarray = np.frombuffer(array.buffers()[1], np.int64 if size else np.int32, count)
    words = data.reshape(-1, max(size, 1))[array.offset :]
    low = words[:, 0].astype(np.int64)
    high = words[:, -1]
    fits = (words[:, 1:] == (low >> 63)[:, None]).all(axis=1)
    values = np.where(fits, low, np.where(high < 0, _I64.min, _I64.max))
    return of_numpy(values, np.asarray(array.is_null()) if array.null_count else None)


def _local_days(array: pa.Array, unit: int) -> pa.Array:
    """Local days since 1970 times `unit`; times beyond the calendar, which no list of values can
    hold, become the nearest end of int64."""

    seconds, bad = local_seconds(array, None)
    ends = np.where(_passed(array)[0] > 0, _I64.max, _I64.min)
    days = np.where(bad, ends, seconds // DAY_SECONDS * unit)
    return of_numpy(days, np.asarray(array.is_null()) if array.null_count else None)


def _passed(array: pa.Array) -> tuple[np.ndarray, np.ndarray, int]:
    """Whole seconds since 1970 of dates and times, what is left of each in units of its type (0 or
    more), and units per second."""

    kind = array.type
    if pa.types.is_date(kind):
        small = kind.bit_width == 32
        days = np.asarray(array.view(pa.int32() if small else pa.int64()).fill_null(0)).astype(
            np.int64
        )
        seconds = (days if small else days // DAY_MILLISECONDS) * DAY_SECONDS
        return seconds, np.zeros_like(seconds), 1
    raw = np.asarray(array.view(pa.int64()).fill_null(0))
    unit = UNITS[kind.unit]
    seconds = raw // unit
    return seconds, raw - seconds * unit, unit


def local_seconds(array: pa.Array, tz: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since 1970 on the local clock, and which rows lie beyond the calendar. A source with
    a zone is read on the clock of `tz` (its own where None); one without a zone is local already.
    """

    seconds = _passed(array)[0]
    bad = (seconds < _CALENDAR[0]) | (seconds > _CALENDAR[1])
    seconds[bad] = 0
    own = getattr(array.type, "tz", None)
    return (seconds if own is None else _on_clock(seconds, pa.timestamp("s", tz or own), None)), bad


def _on_clock(seconds: np.ndarray, kind: pa.DataType, tz: str | None) -> np.ndarray:
    """Seconds since 1970 of a type on another clock. They go from a zone to its local clock (`tz`
    None), or from a local clock to the zone `tz`."""

    times = of_numpy(seconds).view(kind)
    if tz is None:
        return np.array(pc.local_timestamp(times).view(pa.int64()))
    zoned = pc.assume_timezone(times, tz, ambiguous="earliest", nonexistent="latest")
    return np.array(zoned.view(pa.int64()))


def _times(array: pa.Array, own: pa.DataType) -> pa.Array:
    """Dates and times as int64 in the unit and zone of the column's own type, rounded down. Times
    beyond it become the nearest end of int64. Times without a zone are taken as local times of the
    zone."""

    tz = getattr(array.type, "tz", None)
    if (own.tz is None) == (tz is None) and getattr(array.type, "unit", "") == own.unit:
        return array.view(pa.int64())
    seconds, rest, unit = _passed(array)
    if (own.tz is None) != (tz is None):
        inside = (seconds >= _CALENDAR[0]) & (seconds <= _CALENDAR[1])
        seconds[inside] = _on_clock(seconds[inside], pa.timestamp("s", tz), own.tz)
    target = UNITS[own.unit]
    rest = rest * target // unit
    first, last = _I64.min // target, _I64.max // target
    above = (seconds > last) | ((seconds == last) & (rest > _I64.max - last * target))
    below = (seconds < first) | ((seconds == first) & (rest < _I64.min - first * target))
    values = np.where(above, _I64.max, np.where(below, _I64.min, seconds * target + rest))
    return of_numpy(values, np.asarray(array.is_null()) if array.null_count else None)


def wide(array: pa.Array, x: np.ndarray) -> np.ndarray:
    """The rows of a decimal array whose numbers are not 64-bit multiples of its last digit. `x` is
    as `plain` has them, with the nearest end of int64 there."""
    rows = np.flatnonzero((x == _I64.min) | (x == _I64.max))
    return rows[~np.asarray(array.is_null())[rows]] if rows.size else rows


def decimal_codes(column: Column, source: Source, numbers: Sequence[Decimal | None]) -> list[int]:
    """The code of each number, or DROP: what the kernel's map would give if it had more bits."""
    rule = rule_of(column, source)
    scale = Fraction(10) ** source.kind.scale
    return [rule.code(None if n is None else int(Fraction(n) * scale)) for n in numbers]


def dictionary_map(column: Column, table: np.ndarray) -> core.Map:
    """The kernel's map from indices into distinct values to codes; `table[i]` is the code of value
    i."""
    return core.Map(
        core.TABLE,
        count=len(table),
        table=table,
        other=other_code(column),
        null=null_code(column),
    )


def number_map(column: Column, source: Source) -> core.Map:
    """The kernel's map from machine numbers in the source's form to codes."""
    return kernel_map(rule_of(column, source))


def can_occur(column: Column, source: Source) -> bool:
    """Whether a listed value can occur in a source of this type at all: integers never match a list
    of words. "(other)" alone is the list of a private domain in which nothing was found, and stands
    for every value. The answer depends on the schema and the type alone, both public, and not on
    rows."""
    if source.form == "dictionary":
        inner = Source.of(source.dtype, source.kind.value_type)
        return inner is not None and can_occur(column, inner)
    coding = column.coding
    if source.form == "text" or not isinstance(coding, Listed):
        return True
    return [*coding.values] == [OTHER] or any(
        as_number(value, source) is not None for value in coding.values
    )

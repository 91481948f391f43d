"""Parses text as values, for sources that have only text (CSV, Hive folders), by the schema's
types; types are never guessed.

Text that is not a value of its column's type becomes null and follows the column's null policy.
Whole numbers too large for 64 bits are outside the domain. The value of one text never depends on
other texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from .._core import lines
from .._util.lazy import pa, pl
from .._util.muted import muted
from ..schema import dtypes

_CLOCKS = ("%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M")
_TIMES = (*(f"{clock}:%S%.f" for clock in _CLOCKS), *_CLOCKS, "%m/%d/%Y %I:%M:%S %p")
_ZONED = tuple(f"{clock}{rest}%#z" for clock in _CLOCKS for rest in (":%S%.f", ""))
_FARTHEST = 8_200_000_000_000_000_000
"""Microseconds: about 259,800 years."""
_TRUE = ("true", "t", "1", "yes", "y")
_FALSE = ("false", "f", "0", "no", "n")


def utf8(text: bytes) -> str | None:
    """The text of UTF-8 bytes; None if they are not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def to_text(raw: pa.Array, mended: bool = True) -> pa.Array:
    """Binary as UTF-8; bytes that are not UTF-8 become the replacement character, or null unless
    `mended`."""
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        read = partial(str, encoding="utf-8", errors="replace") if mended else utf8
        return pa.array(
            [None if b is None else read(b) for b in raw.to_pylist()], pa.large_string()
        )


def parse(raw: pa.Array, dtype: str) -> pa.Array:
    """Parse texts as values of a type (`dtypes`); each value depends on its text alone. A text that
    is not a value of the type does not raise an error.

    If a text in an integer column is not an integer, the column is returned as text: as floats,
    integers beyond 2^53 would change. Columns of text are returned as bytes, which need not be
    UTF-8.
    """

    family = dtypes.family(dtype)
    if family == "int" and (numbers := _all_whole(raw)) is not None:
        return numbers
    if family == "string":
        return raw.cast(pa.large_binary())
    with muted():
        return _parse(
            pl.Series(pl.from_arrow(to_text(raw))).str.strip_chars(), family, dtype
        ).to_arrow()


def parse_columns(raw: Mapping[str, pa.Array], types: Mapping[str, str]) -> dict[str, pa.Array]:
    """`parse` of columns of one length. Columns of whole numbers are read together, since every
    call gives Python's lock back and has to wait for it."""

    whole = [
        name for name in raw if dtypes.family(types[name]) == "int" and not raw[name].null_count
    ]
    buffers = {name: found for name in whole if (found := buffers_of(raw[name])) is not None}
    numbers, every = lines.whole_columns(list(buffers.values()))
    joint = pa.Array.from_buffers(pa.int64(), numbers.size, [None, pa.py_buffer(numbers)])
    rows = numbers.shape[1]
    out = {name: joint.slice(k * rows, rows) for k, name in enumerate(buffers) if every[k]}
    return out | {name: parse(raw[name], types[name]) for name in raw if name not in out}


def buffers_of(raw: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | None:
    """Offsets, bytes and validity bitmap (None: all are valid) of a binary array whose bitmap
    begins at a byte; else None."""

    if not pa.types.is_binary(raw.type) or not len(raw) or raw.offset % 8:
        return None
    valid, offset, data = raw.buffers()
    starts = np.frombuffer(offset, np.int32, count=len(raw) + 1, offset=4 * raw.offset)
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if not raw.null_count:
        return starts, content, None
    return starts, content, np.frombuffer(valid, np.uint8, offset=raw.offset // 8)


def _all_whole(raw: pa.Array) -> pa.Array | None:
    """The int64 values of texts that are all whole numbers of at most 18 digits, else None."""

    buffers = buffers_of(raw)
    if buffers is None:
        return None
    starts, content, bitmap = buffers
    numbers = lines.whole(starts, content, bitmap)
    if numbers is None:
        return None
    valid = None if bitmap is None else pa.py_buffer(bitmap)
    return pa.Array.from_buffers(
        pa.int64(), len(raw), [valid, pa.py_buffer(numbers)], raw.null_count
    )


def _parse(text: pl.Series, family: str, dtype: str) -> pl.Series:
    """Texts as values of a type; null where a text is not one."""
    if family == "int":
        whole = text.cast(pl.Int64, strict=False)
        if not (whole.is_null() & text.is_not_null()).any():
            return whole
        return text.set(text.cast(pl.Float64, strict=False).is_null(), None)
    if family == "float":
        return text.cast(pl.Float64, strict=False)
    if family == "decimal":
        return text.cast(pl.Decimal(38, dtypes.decimal_scale(dtype)), strict=False)
    if family == "bool":
        low = text.str.to_lowercase()
        yes, no = low.is_in(_TRUE), low.is_in(_FALSE)
        return pl.select(pl.when(yes).then(True).when(no).then(False).otherwise(None)).to_series()
    text = text.str.replace(r"^(\d{4})/(\d{2})/(\d{2})", "${1}-${2}-${3}")
    zone = dtype.partition("tz=")[2].rstrip("]")
    if not zone:  # the clock as written, as for texts of other sources
        text = text.str.replace(r"(:\d{2}(?:\.\d+)?)\s*(?:Z|[+-]\d{2}(:?\d{2})?)$", "${1}")
    dates = text.str.strptime(pl.Date, "%Y-%m-%d", strict=False, exact=True).cast(pl.Datetime("us"))
    times = _first_read(dates, pl.Datetime("us"), text, _TIMES)
    if zone:
        # Polars cannot convert times further from 1970 than _FARTHEST. Such times are outside every
        # domain, and so is the limit.
        times = times.to_physical().clip(-_FARTHEST, _FARTHEST).cast(pl.Datetime("us"))
        if (fixed := dtypes.zone(zone).utcoffset(None)) is not None:
            times = times - fixed
            zone = "UTC"
        local = times.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        local = local.dt.convert_time_zone("UTC")
        return _first_read(local, pl.Datetime("us", "UTC"), text, _ZONED).dt.convert_time_zone(zone)
    return times


def _first_read(
    times: pl.Series, kind: pl.Datetime, text: pl.Series, forms: Sequence[str]
) -> pl.Series:
    """The times; where they are null, the texts read by the first of the forms that fits."""
    for form in forms:
        if not (times.is_null() & text.is_not_null()).any():
            break
        times = times.zip_with(times.is_not_null(), text.str.strptime(kind, form, strict=False))
    return times

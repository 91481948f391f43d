"""Texts to codes: a text is parsed by the type of its column. Each distinct text is parsed once."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from ..schema import dtypes
from ..schema.columns import Categorical, Column, Integer, Numeric
from ..schema.derived import Derived
from ..schema.epoch import EPOCH, since_1970
from ..schema.kind_of_text import (
    DATE,
    NUMBER,
    TEXT,
    TIME,
    VALUE_KINDS,
    WHOLE,
    ZONED,
    TextKind,
    is_missing,
)
from .policy import ends, nan_code, null_code, other_code


def as_number(text: bytes | None) -> float | None:
    """The number that a text spells, as a float; None if it spells none, or is null."""
    number = None if text is None else _number(text)
    return None if number is None else float(number)


def _number(text: bytes) -> float | int | None:
    """The number a text spells, None if it spells none."""
    if b"_" in text:
        return None
    try:
        number = int(text)
        return number if abs(number) < 1 << 64 else math.copysign(math.inf, number)
    except (ValueError, OverflowError):
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _moment(text: bytes) -> datetime | None:
    """The ISO date or time that a text spells, also with slashes in its date; None if it spells
    none."""
    try:
        spelt = text.decode().strip()
        return datetime.fromisoformat(spelt.replace("/", "-", 2) if spelt[4:8:3] == "//" else spelt)
    except ValueError:
        return None


def _listed_moment(column: Column, text: bytes) -> int | str | None:
    """The text in the form in which the column's list is compared: a day, or a point in time."""
    moment = _moment(text)
    if moment is None:
        return None
    if dtypes.family(column.dtype) == "date":
        return moment.date().isoformat()
    own = dtypes.arrow(column.dtype)
    try:
        return since_1970(moment.isoformat(), own.unit, own.tz)
    except OverflowError:
        return None


_TRUTH = {b"true": True, b"false": False, b"1": True, b"0": False, b"1.0": True, b"0.0": False}


def text_codes(column: Column, texts: Sequence[bytes | None]) -> np.ndarray:
    """Codes (or DROP) of distinct texts, by the column's own type."""
    null = null_code(column)
    code = _text_rule(column)
    return np.array([null if text is None else code(text) for text in texts], dtype=np.uint32)


def text_kind(text: bytes) -> str:
    """The kind of a text that is not missing. Whole numbers with leading zeros are text: they are
    ids or postal codes more often than amounts."""
    text = text.strip()
    number = _number(text)
    if number is not None and math.isfinite(number):
        digits = text.lstrip(b"+-")
        if isinstance(number, int):
            return TEXT if digits[:1] == b"0" and len(digits) > 1 else WHOLE
        return NUMBER
    moment = _moment(text)
    if moment is None:
        return TEXT
    if len(text) <= 10:
        return DATE
    if moment.tzinfo is None:
        return TIME
    return ZONED


def _text_rule(column: Column) -> Callable[[bytes], int]:
    kind = dtypes.family(column.dtype)
    other = other_code(column)
    null = null_code(column)
    if isinstance(column, TextKind):
        return lambda text: null if is_missing(text) else VALUE_KINDS.index(text_kind(text))
    if isinstance(column, Categorical) and kind == "string":
        code_of = {str(v).encode(): code for code, v in enumerate(column.values)}
        return lambda text: code_of.get(text, other)
    if kind in ("date", "timestamp") and isinstance(column, Numeric):
        return _time_rule(column)
    if kind in ("date", "timestamp"):
        assert isinstance(column, Categorical)
        listed = {
            _listed_moment(column, str(v).encode()): code for code, v in enumerate(column.values)
        }
        listed.pop(None, None)
        return lambda text: (
            null if is_missing(text) else listed.get(_listed_moment(column, text), other)
        )
    low, high = ends(column)

    def number(text: bytes) -> int:
        value: Any
        if kind == "bool":
            value = _TRUTH.get(text.strip().lower())
        elif kind == "decimal" and isinstance(column, Categorical):
            value = text.decode(errors="replace").strip()
        else:
            value = _number(text)
        if isinstance(value, float) and value != value:
            return nan_code(column)
        if value is None and is_missing(text):
            return null
        code = None if value is None else _code_of(column, value)
        if (
            code is None
            and isinstance(value, int | float)
            and isinstance(column, Integer | Numeric)
        ):
            first = column.min if isinstance(column, Integer) else column.edges[0]
            last = column.max if isinstance(column, Integer) else column.edges[-1]
            if value < first:
                return low
            if value >= last:
                return high
            return other
        return other if code is None else code

    return number


def _time_rule(column: Numeric) -> Callable[[bytes], int]:
    """The function from a text that spells a date or time to its bin's code; a fraction of a
    second counts as the second it lies in."""
    (low, high), other, null = ends(column), other_code(column), null_code(column)
    day = dtypes.family(column.dtype) == "date"
    tz = getattr(dtypes.arrow(column.dtype), "tz", None)

    def code(text: bytes) -> int:
        moment = _moment(text)
        if moment is None:
            return null if is_missing(text) else other
        try:
            passed = since_1970(moment.date().isoformat() if day else moment.isoformat(), "s", tz)
        except OverflowError:
            return other
        value = passed // 86_400 if day else passed
        inside = column.code_of(value)
        if inside is not None:
            return inside
        if value < column.edges[0]:
            return low
        return high

    return code


def _code_of(column: Column, value: Any) -> int | None:
    if isinstance(column, Numeric) and value == math.inf and math.isinf(column.edges[-1]):
        return column.base - 1
    if value in (math.inf, -math.inf) and not isinstance(column, Numeric):
        return None
    return column.code_of(value)


def local_moment(text: bytes, tz: str | None) -> int | None:
    """Seconds since 1970 on the local clock that a text spells."""
    moment = _moment(text)
    if moment is None:
        return None
    try:
        if moment.tzinfo is not None and tz is not None:
            moment = moment.astimezone(dtypes.zone(tz))
    except OverflowError:
        return None
    return int((moment.replace(tzinfo=None) - EPOCH).total_seconds() // 1)


def parsed(
    item: Derived, texts: Sequence[bytes | None]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct texts as values of a derived field; which can be read, which are null."""
    values = np.zeros(len(texts), dtype=np.int64)
    good = np.ones(len(texts), dtype=bool)
    null = np.zeros(len(texts), dtype=bool)
    timely = dtypes.family(item.dtype) in ("date", "timestamp")
    for i, text in enumerate(texts):
        if text is None or is_missing(text):
            null[i] = True
        elif timely:
            seconds = local_moment(text, getattr(dtypes.arrow(item.dtype), "tz", None))
            good[i] = seconds is not None
            values[i] = seconds or 0
        else:
            number = _number(text)
            null[i] = isinstance(number, float) and number != number
            fits = number is not None and abs(number) <= 1 << 62 and number % 1 == 0
            good[i] = bool(fits) or null[i]
            values[i] = int(number) if fits and number is not None else 0
    return values, good, null

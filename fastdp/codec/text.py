"""Texts to codes: a text is parsed by the type of its column. Each distinct text is parsed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..schema import dtypes
from ..schema.coding import Bins, Listed, Range
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.epoch import DAY_SECONDS, EPOCH, since_1970
from ..schema.kind_of_text import is_missing, moment_of_text, number_of_text
from .policy import ends, nan_code, null_code, other_code


def _listed_moment(column: Column, text: bytes) -> int | str | None:
    """The text in the form in which the column's list is compared: a day, or a point in time."""
    moment = moment_of_text(text)
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


def _text_rule(column: Column) -> Callable[[bytes], int]:
    """The function from a text that is not null to its code or DROP."""
    coding = column.coding
    if coding is None:
        return _own_rule(column)
    if isinstance(coding, Listed):
        return _list_rule(column, coding)
    if isinstance(coding, Bins) and coding.temporal:
        return _time_rule(column, coding)
    return _number_rule(column, coding)


def _own_rule(column: Column) -> Callable[[bytes], int]:
    """Of a kind that encodes texts by itself."""
    other = other_code(column)
    null = null_code(column)
    nan = nan_code(column)

    def code(text: bytes) -> int:
        if column.blank_is_null and is_missing(text):
            return nan if text.strip().lower() == b"nan" else null
        own = column.code_of_text(text)
        return other if own is None else own

    return code


def _list_rule(column: Column, coding: Listed) -> Callable[[bytes], int]:
    """Of listed values: texts as they are, moments and truth by what they mean, others as
    numbers."""
    family = dtypes.family(column.dtype)
    other = other_code(column)
    null = null_code(column)
    if family == "string":
        code_of = {str(v).encode(): code for code, v in enumerate(coding.values)}
        return lambda text: code_of.get(text, other)
    if family in ("date", "timestamp"):
        listed = {
            _listed_moment(column, str(v).encode()): code for code, v in enumerate(coding.values)
        }
        listed.pop(None, None)
        return lambda text: (
            null if is_missing(text) else listed.get(_listed_moment(column, text), other)
        )

    def spelt(text: bytes) -> Any:
        if family == "bool":
            return _TRUTH.get(text.strip().lower())
        if family == "decimal":
            return text.decode(errors="replace").strip()
        return number_of_text(text)

    def code(text: bytes) -> int:
        value = spelt(text)
        if isinstance(value, float) and value != value:
            return nan_code(column)
        if value is None and is_missing(text):
            return null
        known = value is not None and value not in (math.inf, -math.inf)
        own = column.code_of(value) if known else None
        return other if own is None else own

    return code


def _number_rule(column: Column, coding: Range | Bins) -> Callable[[bytes], int]:
    """Of numbers in a range or in bins."""
    other = other_code(column)
    null = null_code(column)
    nan = nan_code(column)
    low, high = ends(column)
    if isinstance(coding, Range):
        first: float = coding.first
        last: float = coding.first + coding.count - 1
        open_end = False
    else:
        first = coding.edges[0]
        last = coding.edges[-1]
        open_end = math.isinf(last)

    def code(text: bytes) -> int:
        value = number_of_text(text)
        if value is None:
            return null if is_missing(text) else other
        if value != value:
            return nan
        if value == math.inf and open_end:
            return column.base - 1
        inside = column.code_of(value)
        if inside is not None:
            return inside
        if value < first:
            return low
        return high if value >= last else other

    return code


def _time_rule(column: Column, coding: Bins) -> Callable[[bytes], int]:
    """The function from a text that spells a date or time to its bin's code. A fraction of a second
    counts as the second it lies in."""
    low, high = ends(column)
    other = other_code(column)
    null = null_code(column)
    day = dtypes.family(column.dtype) == "date"
    tz = getattr(dtypes.arrow(column.dtype), "tz", None)

    def code(text: bytes) -> int:
        moment = moment_of_text(text)
        if moment is None:
            return null if is_missing(text) else other
        try:
            passed = since_1970(moment.date().isoformat() if day else moment.isoformat(), "s", tz)
        except OverflowError:
            return other
        value = passed // DAY_SECONDS if day else passed
        inside = column.code_of(value)
        if inside is not None:
            return inside
        if value < coding.edges[0]:
            return low
        return high

    return code


def local_moment(text: bytes, tz: str | None) -> int | None:
    """Seconds since 1970 on the local clock that a text spells."""
    moment = moment_of_text(text)
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
    temporal = dtypes.family(item.dtype) in ("date", "timestamp")
    for i, text in enumerate(texts):
        if text is None or is_missing(text):
            null[i] = True
        elif temporal:
            seconds = local_moment(text, getattr(dtypes.arrow(item.dtype), "tz", None))
            good[i] = seconds is not None
            values[i] = seconds or 0
        else:
            number = number_of_text(text)
            null[i] = isinstance(number, float) and number != number
            fits = number is not None and abs(number) <= 1 << 62 and number % 1 == 0
            good[i] = bool(fits) or null[i]
            values[i] = int(number) if fits and number is not None else 0
    return values, good, null

"""Values of the schema's columns: the value behind each code, the codes that a condition selects,
and the number that a code stands for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.lazy import pa
from ..errors import UsageError
from ..schema import dtypes, epoch
from ..schema.columns import Column
from ..schema.within_bin import after, unit_of

OTHER = "values outside the schema"
MISSING = "missing values"


class After(Struct, frozen=True):
    """The end of a range right after a number: `> 20` starts there, and `<= 20` ends there."""

    number: float


class Selection(Struct, frozen=True, eq=False):
    """Which codes of a column a condition selects: `sure` (all rows of the code), `touched` (some
    may be), and `part`, the expected part of the code's rows."""

    sure: np.ndarray
    touched: np.ndarray
    part: np.ndarray

    @property
    def everything(self) -> bool:
        return bool(self.sure.all())


def values_of(column: Column) -> pa.Array:
    """The value of every code as an Arrow array: numbers and texts as in the data, a bin as its
    label. The code of missing values is null. The code of values outside the schema is "(other)"
    where texts do not list that word themselves, else null."""
    listed, dtype = column.shown_values()
    kind = dtypes.arrow(dtype)
    kind = getattr(kind, "value_type", kind)
    if column.overflow_code is not None:
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        listed.append("(other)" if text and "(other)" not in listed else None)
    if column.null_code is not None:
        listed.append(None)
    return pa.array(listed, kind)


def remark(column: Column, code: int) -> str:
    """What a code stands for, where its value does not say it."""
    if code == column.overflow_code:
        return f"{column.name}: {OTHER}"
    if column.overflow.action == "clamp" and code in (0, column.base - 1):
        return f"{column.name}: values beyond the bounds are counted here"
    return f"{column.name}: {MISSING}" if code == column.null_code else ""


def select(column: Column, condition: Any) -> Selection:
    """The codes that a condition selects. It is a value, a list of values, a Python `range`, or a
    range (low, high) with low <= value < high (None: no limit). UsageError names the column and
    what it takes."""
    part = np.zeros(column.size)
    touched, sure = np.zeros((2, column.size), bool)
    if isinstance(condition, range):
        if condition.step != 1:
            raise UsageError(
                f"where, column {column.name!r}: the range must have step 1, got {condition!r}"
            )
        condition = (condition.start, condition.stop)
    condition = _whole_day(column, condition)
    if isinstance(condition, tuple):
        if len(condition) != 2:
            raise UsageError(
                f"where, column {column.name!r}: expected (low, high), got {condition!r}"
            )
        for code, (low, high) in enumerate(_spans(column)):
            part[code], sure[code], touched[code] = _inside(
                low, high, *number_limits(column, condition)
            )
        return Selection(sure, touched, part)
    several = isinstance(condition, Iterable) and not isinstance(condition, str | bytes)
    for value in condition if several else [condition]:
        code = _code(column, value)
        sure[code] = touched[code] = True
        part[code] = 1.0
    return Selection(sure, touched, part)


def _whole_day(column: Column, condition: Any) -> Any:
    """A single date of a column of times in bins as the range of that day; else the condition."""
    if not (column.binned and column.temporal) or isinstance(condition, datetime):
        return condition
    try:
        day = date.fromisoformat(condition) if isinstance(condition, str) else condition
    except ValueError:
        return condition
    if not isinstance(day, date):
        return condition
    return (day, day + timedelta(days=1))


def _code(column: Column, value: Any) -> int:
    if value is None and column.null_code is not None:
        return column.null_code
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):  # what rows of a column of bytes hold; a schema lists texts
        value = value.decode(errors="surrogateescape")
    # One of the values of a code would not be the code, where it stands for several.
    code = None if value is None or column.covers_many else column.code_of(value)
    if code is None:
        labels = column.labels()
        code = labels.index(str(value)) if labels.count(str(value)) == 1 else None
        if code is None and not column.binned:  # as people type it: true for True, card for Card
            typed = str(value).casefold()
            alike = [i for i, label in enumerate(labels) if label.casefold() == typed]
            code = alike[0] if len(alike) == 1 else None
    if code is None:
        takes = ", ".join(repr(t) for t in column.labels()[:6]) + (
            ", ..." if column.size > 6 else ""
        )
        raise UsageError(
            f"where, column {column.name!r}: {value!r} is not one of its values ({takes})"
            f"{_what_to_pass(column, value)}"
        )
    return code


def _what_to_pass(column: Column, value: Any) -> str:
    """What selects a value that was counted together with others; "" where this is not why it was
    refused."""
    if column.binned:
        return "; for a span of numbers pass a range (low, high)"
    try:
        among = column.code_of(value) if column.covers_many and value is not None else None
    except (TypeError, ValueError):  # not of the column's type
        return ""
    if among is None:
        return ""
    return f"; it was counted together with others as {column.label(among)!r}"


def number_limits(column: Column, condition: tuple[Any, Any]) -> tuple[float, float]:
    """The ends of a range as numbers (times in seconds); infinite where it has none."""
    out = []
    for value, missing in zip(condition, (-math.inf, math.inf), strict=True):
        if value is None:
            out.append(missing)
        elif isinstance(value, After) and not column.temporal:
            whole, decimals = (getattr(column, name, None) for name in ("whole", "digits"))
            unit = unit_of(column.dtype, bool(whole), decimals)
            out.append(after(float(value.number), column.dtype, unit))
        elif column.binned and column.temporal and isinstance(value, str | date):
            try:
                out.append(float(epoch.coarse(str(value), column.dtype)))
            except ValueError:
                raise UsageError(
                    f"where, column {column.name!r}: {value!r} is not an ISO date"
                ) from None
        elif isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise UsageError(
                f"where, column {column.name!r}: the bounds must be numbers, got {value!r}"
            )
        else:
            out.append(float(value))
    return out[0], out[1]


def _spans(column: Column) -> list[tuple[float, float]]:
    """(lowest, end) of the numbers of each code; (nan, nan) where it has none. A single number has
    its own span."""
    if column.in_bins is not None:
        spans = list(pairwise(column.in_bins.edges))
        return spans + [(math.nan, math.nan)] * (column.size - column.base)
    return [(x, x) for x in numbers_of(column).middle]


def _inside(low: float, high: float, start: float, end: float) -> tuple[float, bool, bool]:
    """(part of the span that lies in [start, end), whether all of it does, whether any of it
    does)."""
    if math.isnan(low):
        return 0.0, False, False
    if low == high:
        inside = start <= low < end
        return float(inside), inside, inside
    if start <= low and high <= end:
        return 1.0, True, True
    common = min(high, end) - max(low, start)
    if common <= 0:
        return 0.0, False, False
    return (common / (high - low) if math.isfinite(high - low) else 0.5), False, True


class Numbers(Struct, frozen=True, eq=False):
    """For each code the number it stands for (`middle`) and the least and largest mean that its
    rows may have (`low`, `high`). They are nan in codes without a number, and infinite in open bins
    without a limit."""

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray

    @property
    def valid(self) -> np.ndarray:
        return ~np.isnan(self.middle)


def numbers_of(column: Column) -> Numbers:
    """Raise UsageError if the column does not hold numbers."""
    numbers = column.code_numbers()
    if numbers is None:
        raise UsageError(f"column {column.name!r}: expected numbers, but its kind is {column.kind}")
    low, middle, high = (
        np.pad(x, (0, column.size - column.base), constant_values=math.nan) for x in numbers
    )
    return Numbers(low, middle, high)

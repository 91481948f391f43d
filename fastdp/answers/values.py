"""Values of the schema's columns: the value behind each code, the codes that a condition selects,
and the number that a code stands for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.lazy import pa
from ..codec.bins import bins_of
from ..errors import UsageError
from ..schema import dtypes, epoch
from ..schema.columns import Categorical, Column, Integer, Numeric, Part

OTHER = "values outside the schema"
MISSING = "missing values"
NUMBERS = ("int", "float", "decimal", "bool")


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
    label. The code of missing values is null, the code of values outside the schema is "(other)" or
    null."""
    if isinstance(column, Categorical):
        kind = dtypes.arrow(column.dtype)
        kind = getattr(kind, "value_type", kind)
        if dtypes.family(column.dtype) in ("date", "timestamp", "decimal"):
            listed: list[Any] = [str(v) for v in column.values]
            kind = pa.string()
        else:
            listed = list(column.values)
    elif isinstance(column, Integer):
        listed, kind = list(range(column.min, column.max + 1)), pa.int64()
    elif isinstance(column, Part) and column.texts is None:
        listed, kind = list(range(column.first, column.first + column.count)), pa.int64()
    else:
        listed, kind = column.base_labels(), pa.string()
    if column.overflow_code is not None:
        listed.append(
            "(other)" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None
        )
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
    """The codes that a condition selects: a value, a list of values, a range (low, high) with low
    <= value < high (None: no limit), or a Python `range`. UsageError names the column and what it
    takes."""
    part, (touched, sure) = np.zeros(column.size), np.zeros((2, column.size), bool)
    if isinstance(condition, range):
        if condition.step != 1:
            raise UsageError(
                f"where, column {column.name!r}: the range must have step 1, got {condition!r}"
            )
        condition = (condition.start, condition.stop)
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


def _code(column: Column, value: Any) -> int:
    if value is None and column.null_code is not None:
        return column.null_code
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):  # what rows of a column of bytes hold; a schema lists texts
        value = value.decode(errors="surrogateescape")
    code = None if value is None else column.code_of(value)
    if isinstance(column, Numeric):
        code = None  # a bin holds many values: one of them would not be the bin
    if code is None:
        labels = column.labels()
        code = labels.index(str(value)) if labels.count(str(value)) == 1 else None
    if code is None:
        takes = ", ".join(repr(t) for t in column.labels()[:6]) + (
            ", ..." if column.size > 6 else ""
        )
        more = (
            "; for a span of numbers pass a range (low, high)"
            if isinstance(column, Numeric)
            else ""
        )
        raise UsageError(
            f"where, column {column.name!r}: {value!r} is not one of its values ({takes}){more}"
        )
    return code


def number_limits(column: Column, condition: tuple[Any, Any]) -> tuple[float, float]:
    """The ends of a range as numbers (times in seconds); infinite where it has none."""
    out = []
    for value, missing in zip(condition, (-math.inf, math.inf), strict=True):
        if value is None:
            out.append(missing)
        elif isinstance(column, Numeric) and column.timely and isinstance(value, str | date):
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
    if isinstance(column, Numeric):
        spans = [(column.edges[i], column.edges[i + 1]) for i in range(column.base)]
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
    rows may have (`low`, `high`); nan in codes without a number, infinite in open bins without a
    limit."""

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray

    @property
    def valid(self) -> np.ndarray:
        return ~np.isnan(self.middle)


def numbers_of(column: Column) -> Numbers:
    """Raise UsageError if the column does not hold numbers."""
    blank = [math.nan] * (column.size - column.base)
    if isinstance(column, Numeric) and not column.timely:
        return _bin_numbers(column, blank)
    if isinstance(column, Integer):
        listed = [float(v) for v in range(column.min, column.max + 1)]
    elif isinstance(column, Part) and column.texts is None:
        listed = [float(v) for v in range(column.first, column.first + column.count)]
    elif isinstance(column, Categorical) and dtypes.family(column.dtype) in NUMBERS:
        listed = [float(v) for v in column.values]
    else:
        raise UsageError(f"column {column.name!r}: expected numbers, but its kind is {column.kind}")
    numbers = np.array([*listed, *blank])
    return Numbers(numbers, numbers, numbers)


def _bin_numbers(column: Numeric, blank: list[float]) -> Numbers:
    bins, _ = bins_of(column)
    n, unit = column.base, bins.unit
    low, high, mean = bins.low[:n] / unit, bins.high[:n] / unit, bins.mean[:n] / unit
    start, end = bins.lo[:n] / unit, bins.hi[:n] / unit
    last = (end - 1 / unit) if bins.whole else end
    middle = np.where(mean == 0, (start + last) / 2, np.where(mean > 0, start + mean, end + mean))
    middle = np.clip(
        np.array(column.means) if isinstance(column.means, tuple) else middle, low, high
    )
    for code, tail in ((0, column.lower_tail), (n - 1, column.tail)):
        if (
            tail is not None
            and math.isinf(column.edges[0 if code == 0 else -1])
            and tail.mean is not None
        ):
            # Public knowledge says how far the tail reaches: twice its mean is the allowance.
            if code == 0:
                low[0] = max(low[0], end[0] - 2 * tail.mean)
            else:
                high[-1] = min(high[-1], start[-1] + 2 * tail.mean)
    limited = _limited(column)
    low = np.where(limited[0], low, -math.inf)
    high = np.where(limited[1], high, math.inf)
    return Numbers(*(np.array([*x, *blank]) for x in (low, middle, high)))


def _limited(column: Numeric) -> tuple[np.ndarray, np.ndarray]:
    """Whether public knowledge limits each bin from below and from above."""
    below, above = np.ones(column.base, bool), np.ones(column.base, bool)
    below[0] = (
        math.isfinite(column.edges[0]) or column.min is not None or column.lower_tail is not None
    )
    above[-1] = math.isfinite(column.edges[-1]) or column.max is not None or column.tail is not None
    return below, above

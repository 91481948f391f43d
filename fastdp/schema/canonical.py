"""Values that a schema lists, in the canonical form of their type."""

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from . import dtypes
from .within_bin import fail

Scalar = int | float | str | bool


def canonical_value(column: str, where: str, value: Any, dtype: str) -> Scalar:
    """A listed value in the canonical form of its type: int, float, str or bool; dates and decimals
    as str."""
    kind = dtypes.family(dtype)
    try:
        return _CANONICAL[kind](value, dtype)
    except (ValueError, TypeError, ArithmeticError):
        raise fail(
            column, where, f"expected {_EXPECTED[kind]} (dtype is {dtype}), got {value!r}"
        ) from None


def _text(value: Any, dtype: str) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _time(value: Any, dtype: str) -> str:
    parsed = datetime.fromisoformat(value.isoformat() if isinstance(value, date) else str(value))
    return parsed.date().isoformat() if dtypes.family(dtype) == "date" else parsed.isoformat()


def _decimal(value: Any, dtype: str) -> str:
    number = Decimal(str(value))
    scale = dtypes.decimal_scale(dtype)
    units = number.scaleb(scale)
    if not number.is_finite() or units != units.to_integral_value():
        raise InvalidOperation
    if abs(units) >= min(10 ** dtypes.decimal_precision(dtype), 1 << 63):
        raise InvalidOperation
    return format(number.quantize(Decimal(1).scaleb(-scale)), "f")


def _bool(value: Any, dtype: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _number(value: Any, dtype: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    if dtypes.family(dtype) != "int":
        return float(value)
    low, high = dtypes.int_range(dtype)
    if value != math.floor(value) or not low <= value <= min(high, (1 << 63) - 1):
        raise ValueError
    return int(value)


_CANONICAL: dict[str, Callable[[Any, str], Scalar]] = {
    "string": _text,
    "date": _time,
    "timestamp": _time,
    "decimal": _decimal,
    "bool": _bool,
    "int": _number,
    "float": _number,
}
_EXPECTED = {
    "string": "text in quotes",
    "date": "an ISO date",
    "timestamp": "an ISO time",
    "decimal": "a decimal that fits",
    "bool": "true or false",
    "int": "a whole number that fits",
    "float": "a finite number",
}

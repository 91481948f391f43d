"""Exact numbers of a field: how values of a source column are read as whole numbers of a public step.

Codes of a numeric column are bins. Sums need the numbers themselves: an amount is a whole number of
steps (0.01 for a column with two digits), a date is a number of days, a time is a number of seconds
on the local clock. The step follows from the schema alone.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from msgspec import Struct

from . import dtypes
from .columns import Categorical, Integer, Numeric
from .derived import Timestamp, Transform
from .fields import Field
from .pending import Pending
from .within_bin import unit_of

LARGEST = 1 << 40
"""Values are cut off at so many steps: sums of 2^22 of them fit in 64 bits."""
MISSING = -(1 << 63)
"""What a null is read as."""
DIGITS = 2
"""Decimals of a column of floats that states no `digits`."""
MOST_DIGITS = 9
_ROOM = 1 << 30
"""Public bounds of a column are at most so many steps: values beyond them have room."""
_FINE = 10_000
"""Without `digits`, public bounds of a column are at least so many steps."""


class Amount(Struct, frozen=True):
    """kind: "number", "date" (days) or "time" (seconds); places: decimals of the step; unsigned:
    whether the schema says that no value is below zero."""

    name: str
    source: str
    dtype: str
    kind: str
    places: int = 0
    unsigned: bool = False

    @property
    def step(self) -> Decimal:
        return Decimal(1).scaleb(-self.places)


def amount_of(field: Field | Any) -> Amount | None:
    """How the exact numbers of a field are read; None if its values are not numbers or times."""
    family = dtypes.family(field.dtype)
    if isinstance(field, Timestamp):
        kind = "date" if family == "date" or field.step == 86_400 else "time"
        return _amount(field, kind)
    if family in ("date", "timestamp"):
        return _amount(field, "date" if family == "date" else "time")
    if isinstance(field, Categorical):
        plain = family in ("int", "float", "decimal")
        return _amount(field, "number", *_places(field)) if plain else None
    if isinstance(field, Pending):
        plain = field.wanted in ("integer", "numeric") or family in ("int", "float", "decimal")
        return _amount(field, "number", *_places(field)) if plain else None
    if isinstance(field, Integer | Numeric | Transform):
        return _amount(field, "number", *_places(field))
    return None


def _amount(field: Any, kind: str, places: int = 0, unsigned: bool = False) -> Amount:
    return Amount(field.name, field.source, field.dtype, kind, places, unsigned)


def _places(field: Any) -> tuple[int, bool]:
    """(decimals of the step, whether the schema says that no value is below zero)."""
    bounds, whole, digits = _public_bounds(field)
    unsigned = (bool(bounds) and min(bounds) >= 0) or field.dtype.startswith("uint")
    finite = max((abs(b) for b in bounds if math.isfinite(b)), default=0.0)
    unit = unit_of(field.dtype, whole, digits)
    if unit is not None:
        places = min(max(-int(unit.as_tuple().exponent), 0), MOST_DIGITS)
    else:
        places = DIGITS
        while finite and finite * 10**places < _FINE and places < MOST_DIGITS:
            places += 1
    while places and finite * 10**places > _ROOM:
        places -= 1
    return places, unsigned


def _public_bounds(field: Any) -> tuple[list[float], bool, int | None]:
    """(bounds on the values that the schema states, whether they are whole, their decimals)."""
    if isinstance(field, Integer):
        return [field.min, field.max], True, None
    if isinstance(field, Numeric):
        low = field.edges[0] if field.min is None else field.min
        high = field.edges[-1] if field.max is None else field.max
        inner = [e for e in field.edges if math.isfinite(e)]
        return [low, high, *inner], field.whole, field.digits
    if isinstance(field, Pending):
        bounds = [b for b in (field.low, field.high) if b is not None]
        bounds = bounds if field.low is not None else [-math.inf, *bounds]
        whole = field.wanted == "integer" or bool(field.stated.get("whole"))
        return bounds, whole, field.stated.get("digits")
    if isinstance(field, Categorical):
        values = [float(v) for v in field.values if not isinstance(v, bool)]
        return [-math.inf, *values] if values else [], False, None
    return [], True, None

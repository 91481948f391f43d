"""Exact numbers of a field: how values of a source column are read as whole numbers of a public step.

Codes of a numeric column are bins. Sums need the numbers themselves. An amount is a whole number of
steps (0.01 for a column with two digits). A date is a number of days, a time is a number of seconds
on the local clock. The step follows from the schema alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from . import dtypes
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


def amount_of_times(column: Any) -> Amount:
    """Exact numbers of a column of dates or times: days, or seconds."""
    return plain_amount(column, "date" if dtypes.family(column.dtype) == "date" else "time")


def plain_amount(column: Any, kind: str, places: int = 0, unsigned: bool = False) -> Amount:
    """An amount with the column's names and type."""
    return Amount(column.name, column.source, column.dtype, kind, places, unsigned)


def amount_of_numbers(
    column: Any, bounds: Sequence[float] = (), whole: bool = False, digits: int | None = None
) -> Amount:
    """Exact numbers of a column of numbers. bounds: what the schema says of the values' size; minus
    infinity where it does not say how small they may be. digits: their decimals, if stated."""
    unsigned = (bool(bounds) and min(bounds) >= 0) or column.dtype.startswith("uint")
    finite = max((abs(b) for b in bounds if math.isfinite(b)), default=0.0)
    unit = unit_of(column.dtype, whole, digits)
    if unit is not None:
        places = min(max(-int(unit.as_tuple().exponent), 0), MOST_DIGITS)
    else:
        places = DIGITS
        while finite and finite * 10**places < _FINE and places < MOST_DIGITS:
            places += 1
    while places and finite * 10**places > _ROOM:
        places -= 1
    return plain_amount(column, "number", places, unsigned)

"""Periods of time, as parts of the unit of privacy: days, weeks, months or years of a time column.

    unit = { kind = "user-period", period = "month", of = "time", zone = "Europe/Paris" }

Everything here is public. `tables.row_periods` says in which period a row is, and
docs/explain/user-periods.md proves what the unit means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from msgspec import Struct

from ..errors import SchemaError, UsageError
from . import dtypes

LENGTHS = ("day", "week", "month", "year")
NO_TIME = "none"
"""The name of the period of a user's rows that have no valid time."""
NO_TIME_CODE = -(1 << 62)
KIND = "user-period"
KEYS = ("kind", "period", "of", "zone", "dtype", "only")
_FORMS = {"day": "2026-03-31", "week": "2026-W14", "month": "2026-03", "year": "2026"}
_NAMES = {
    "day": re.compile(r"(\d{4})-(\d{2})-(\d{2})"),
    "week": re.compile(r"(\d{4})-W(\d{2})"),
    "month": re.compile(r"(\d{4})-(\d{2})"),
    "year": re.compile(r"(\d{4})"),
}
_EPOCH = date(1970, 1, 1).toordinal()
MONDAY = 3
"""Days from the Monday before 1 January 1970, a Thursday."""


class Period(Struct, frozen=True):
    """How rows of a user fall into periods.

    length: "day", "week" (from Monday), "month" or "year". of: the source column that has the time.
    zone: the public, fixed time zone whose calendar counts; a time without a zone is taken as its
    clock shows it. dtype: the type by which texts are read as times, whatever the columns of the
    schema say; by default times of the zone. only: the name of the one period whose rows take part;
    None: all.
    """

    length: str
    of: str
    zone: str = "UTC"
    dtype: str = ""
    only: str | None = None

    @classmethod
    def parse(cls, plain: Any) -> Period:
        """The period of a unit `{ kind = "user-period", period = ..., of = ... }`; SchemaError
        names the field."""
        if not isinstance(plain, Mapping) or plain.get("kind") != KIND:
            raise SchemaError(
                f'unit: expected {{ kind = "{KIND}", period = "month", of = "COLUMN" }}; '
                "users, rows and events need no unit in the schema"
            )
        for key in plain:
            if key not in KEYS:
                raise SchemaError(f"unit, field {key!r}: unknown field; expected {', '.join(KEYS)}")
        given = {key: plain[key] for key in KEYS[2:] if plain.get(key) is not None}
        for key, value in given.items():
            if not isinstance(value, str) or not value:
                raise SchemaError(f"unit, field {key!r}: expected a text, got {value!r}")
        if "of" not in given:
            raise SchemaError("unit, field 'of': missing; name the column of dates or times")
        return cls(plain.get("period", ""), **given).checked()

    def checked(self) -> Period:
        """The period, complete; SchemaError if a field is wrong."""
        if self.length not in LENGTHS:
            raise SchemaError(
                f"unit, field 'period': expected one of {', '.join(LENGTHS)}, got {self.length!r}"
            )
        try:
            dtypes.zone(self.zone)
        except (ValueError, KeyError, OSError):
            raise SchemaError(
                f"unit, field 'zone': there is no time zone {self.zone!r}; give a name such as "
                "Europe/Paris, or an offset such as +01:00"
            ) from None
        dtype = dtypes.canonical(self.dtype or f"timestamp[us, tz={self.zone}]")
        if dtype is None or dtypes.family(dtype) not in ("date", "timestamp"):
            raise SchemaError(
                f"unit, field 'dtype': {self.dtype!r} is not a type of dates or times"
            )
        if self.only is not None:
            code_of(self.length, self.only)
        return Period(self.length, self.of, self.zone, dtype, self.only)

    def during(self, only: str | None) -> Period:
        """The same with the rows of one period alone; None: of all periods."""
        return Period(self.length, self.of, self.zone, self.dtype, only).checked()

    def to_plain(self) -> dict[str, str]:
        """The unit as the schema's document has it."""
        plain = {"kind": KIND, "period": self.length, "of": self.of, "zone": self.zone}
        plain["dtype"] = self.dtype
        return plain if self.only is None else plain | {"only": self.only}


def code_of(length: str, name: str) -> int:
    """The number of a period by its name, such as "2026-03" of months; UsageError for others."""
    if name == NO_TIME:
        return NO_TIME_CODE
    found = _NAMES[length].fullmatch(name) if isinstance(name, str) else None
    try:
        if found is None:
            raise ValueError
        numbers = [int(text) for text in found.groups()]
        if length == "year":
            return date(numbers[0], 1, 1).year - 1970
        if length == "month":
            first = date(numbers[0], numbers[1], 1)
            return 12 * (first.year - 1970) + first.month - 1
        if length == "week":
            monday = date.fromisocalendar(numbers[0], numbers[1], 1)
            return (monday.toordinal() - _EPOCH + MONDAY) // 7
        return date(numbers[0], numbers[1], numbers[2]).toordinal() - _EPOCH
    except ValueError:
        raise UsageError(
            f"period: expected a {length} such as {_FORMS[length]!r}, or {NO_TIME!r} for rows "
            f"without a valid time, got {name!r}"
        ) from None


def name_of(length: str, code: int) -> str:
    """The name of a period by its number."""
    if code == NO_TIME_CODE:
        return NO_TIME
    if length == "year":
        return f"{1970 + code:04d}"
    if length == "month":
        return f"{1970 + code // 12:04d}-{code % 12 + 1:02d}"
    if length == "week":
        year, week, _ = (date.fromordinal(_EPOCH) + timedelta(days=7 * code - MONDAY)).isocalendar()
        return f"{year:04d}-W{week:02d}"
    return date.fromordinal(_EPOCH + code).isoformat()

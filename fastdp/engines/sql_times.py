"""Codes of dates and times as SQL expressions: bins of times, parts of the calendar, steps of the clock."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from .._util.lazy import pa
from ..codec.policy import null_code, other_code
from ..codec.rules import Rule
from ..schema import dtypes
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.epoch import DAY_MILLISECONDS, DAY_SECONDS, UNITS
from ..schema.kinds.timestamp import Timestamp
from .sql_expressions import as_bins, plain_code, search
from .sql_field import FieldCodes

FIRST_SECOND = -62_135_596_800
LAST_SECOND = 253_402_300_799
"""First second of the year 1 and last of 9999, in seconds since 1970, as in `codec.maps`."""
MOMENT_RANGE = {"ns": (-(1 << 63) + 1, (1 << 63) - 1)}
"""Times that a literal of a unit can hold, where these are fewer than the calendar's."""


class TimeCodes(FieldCodes):
    """Writes codes of a field of dates or times."""

    def _check_clock(self, own: pa.DataType) -> None:
        """Times with a zone are compared with those alone, as points in time."""
        zone = getattr(self.kind, "tz", None)
        if (zone is None) != (getattr(own, "tz", None) is None):
            raise self.refused(f"{self.source.dtype} on another clock")

    def _time_key(self, seconds: Fraction) -> str:
        """Whether x is at least a time, in seconds since 1970; compared in the source's own type."""
        if pa.types.is_date(self.kind):
            return f"{self.x} >= {self.dialect.day(math.ceil(seconds / DAY_SECONDS))}"
        unit = self.kind.unit
        ticks = math.ceil(seconds * UNITS[unit])
        least, most = MOMENT_RANGE.get(unit, (ticks, ticks))
        if ticks > most:
            return "(1 = 0)"
        if ticks < least:
            return "(1 = 1)"
        zoned = self.kind.tz is not None
        return f"{self.x} >= {self.dialect.moment(ticks, unit, zoned)}"

    def column(self, x: str, column: Column, rule: Rule) -> str:
        """The code of a time by its rule: bins or listed times."""
        own = dtypes.arrow(column.dtype)
        self._check_clock(own)
        if pa.types.is_date64(self.kind):
            raise self.refused(f"{self.source.dtype}")
        if pa.types.is_date(own):
            per_second = Fraction(1, DAY_SECONDS) if own.bit_width == 32 else Fraction(1000)
            one = 1 if own.bit_width == 32 else DAY_MILLISECONDS
        else:
            per_second = Fraction(UNITS[own.unit])
            one = 1
        self.made.values[self.x] = x
        codes = [plain_code(code) for code in rule.codes]
        keys: Sequence[int] = rule.keys
        if rule.way == "list":
            keys, codes = as_bins(rule, one)
        found = search(lambda key: self._time_key(Fraction(key) / per_second), keys, codes)
        return f"CASE WHEN {self.x} IS NULL THEN {plain_code(rule.null)} ELSE {found} END"

    def _clock(self, x: str, first: int, last: int) -> tuple[str, str]:
        """(whether a time lies in first <= seconds < last, its seconds since the year 1). Counted from
        there, no number is negative. Where it lies outside, the seconds are those of 1970."""
        if self.source.form != "time" or getattr(self.kind, "tz", None) is not None:
            raise self.refused("calendar parts")
        if pa.types.is_date64(self.kind):
            raise self.refused("calendar parts")
        d = self.dialect
        safe = f"{self.x}g"
        self.made.values[self.x] = x
        inside = f"{self._time_key(Fraction(first))} AND NOT {self._time_key(Fraction(last))}"
        dated = pa.types.is_date(self.kind)
        zero = d.day(0) if dated else d.moment(0, self.kind.unit, False)
        moment = f"(CASE WHEN {inside} THEN {self.x} ELSE {zero} END)"
        seconds = (
            f"{d.days(moment)} * {DAY_SECONDS}" if dated else d.seconds(moment, self.kind.unit)
        )
        self.made.guards[safe] = f"{seconds} + {-FIRST_SECOND}"
        return inside, safe

    def calendar(self, x: str, item: Timestamp) -> dict[str, str]:
        """As `Timestamp.split`, in whole numbers that are not negative."""
        d = self.dialect
        first = FIRST_SECOND
        last = LAST_SECOND + 1
        if {"year", "date"} & set(item.names):
            first = max(first, item.span[0] * DAY_SECONDS)
            last = min(last, (item.span[1] + 1) * DAY_SECONDS)
        inside, safe = self._clock(x, first, last)
        # Day 0 of the year 1 was a Monday.
        from_year_1 = -FIRST_SECOND // DAY_SECONDS
        day = d.divided(safe, DAY_SECONDS)
        hour = d.divided(d.remainder(safe, DAY_SECONDS), 3600)
        monday = 0 if item.week_start == "monday" else 1
        weekday = d.remainder(f"{day} + {monday}", 7)
        since_1970 = f"({day} - {from_year_1})"
        minutes = d.divided(d.remainder(safe, 3600), 60)
        codes: dict[str, Callable[[], str]] = {
            "shift": lambda: f"{weekday} * 3 + {d.divided(hour, 8)}",
            "hour": lambda: hour,
            "minute": lambda: d.divided(minutes, max(item.step // 60, 1)),
            "day_of_week": lambda: weekday,
            "day": lambda: f"{d.civil(since_1970, 'day')} - 1",
            "month": lambda: f"{d.civil(since_1970, 'month')} - 1",
            "year": lambda: f"{d.civil(since_1970, 'year')} - {item.years[0]}",
            "date": lambda: f"{since_1970} - {d.integer(item.span[0])}",
        }
        out = {}
        for column, part in zip(item.parts, item.names, strict=True):
            null = plain_code(null_code(column))
            other = plain_code(other_code(column))
            cases = f"WHEN {self.x} IS NULL THEN {null} WHEN NOT ({inside}) THEN {other}"
            out[column.name] = f"CASE {cases} ELSE {codes[part]()} END"
        return out

    def step(self, x: str, item: Derived) -> dict[str, str]:
        """Which of the grids of the clock a time lies on."""
        (column,) = item.parts
        inside, seconds = self._clock(x, FIRST_SECOND, LAST_SECOND + 1)
        null = plain_code(null_code(column))
        other = plain_code(other_code(column))
        grids = " ".join(
            f"WHEN {self.dialect.remainder(seconds, step)} = 0 THEN {code}"
            for code, step in enumerate(item.clock_steps)
        )
        outside = f"WHEN {self.x} IS NULL THEN {null} WHEN NOT ({inside}) THEN {other}"
        return {column.name: f"CASE {outside} {grids} END"}

"""Points in time that are modelled as parts of the calendar and the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...errors import SchemaError
from .. import dtypes, epoch
from ..amounts import Amount, plain_amount
from ..columns import FoundEdges, Part, Uniform, fail
from ..derived import SHIFTS_PER_DAY, Derived, Split, shift_parts
from ..epoch import DAY_SECONDS
from ..kind_registry import kind
from ..within_bin import without_none

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PARTS = ("shift", "hour", "minute", "day_of_week", "day", "month", "year", "date")
SIGNIFICANCE = ("year", "month", "day", "date", "shift", "hour", "minute")
"""Parts in the order of time, longest first; within a date, shifts of the week are in order."""
DAYS_LISTED = 370
"""A span of at most this many days is modelled by its dates, a longer one by year, month, day of
the week."""
FIRST_OF_2020 = 18_262
FIRST_OF_2021 = 18_628
"""Days from 1970 to 2020 and 2021: the year with which a run is planned whose span is to be found."""
_SHIFT_HOURS = 24 // SHIFTS_PER_DAY


@kind("timestamp")
@dataclass(frozen=True, kw_only=True)
class Timestamp(Derived):
    """A point in time, encoded as parts of its local time; values are seconds since 1970 on the
    local clock.

    `shift` is the 8-hour shift of the week, 3 * day_of_week + hour // 8, in 0..20. `minute`, which
    needs `hour`, is the minute of the hour, on the grid of `step` where that is minutes. Days count
    from Monday, or from Sunday with `week_start = "sunday"`. `min` and `max` (dates, inclusive) are
    the public span that decoded times are drawn from. Times outside it overflow where `year` or
    `date` is a part.
    """

    options: ClassVar[tuple[str, ...]] = ("parts", "min", "max", "step", "week_start", "output")
    calendar: ClassVar[bool] = True
    finds: ClassVar[str] = "edges"
    kept_options: ClassVar[tuple[str, ...]] = ("parts", "step", "week_start", "output")
    private_type: ClassVar[str] = "timestamp[us]"
    names: Mapping[str, str] = field(default_factory=dict)
    min: str | None = None
    max: str | None = None
    step: int = 1
    week_start: str = "monday"

    def __post_init__(self) -> None:
        super().__post_init__()
        if dtypes.family(self.dtype) not in ("timestamp", "date"):
            raise fail(self.name, "dtype", f"expected a timestamp or date type, got {self.dtype}")
        if not self.names:
            raise fail(self.name, "parts", f"name at least one of {', '.join(PARTS)}")
        for part in self.names:
            if part not in PARTS:
                raise fail(self.name, "parts", f"expected one of {', '.join(PARTS)}, got {part!r}")
        spanned = self.min is not None and self.max is not None
        if spanned and self.span[1] < self.span[0]:
            raise fail(self.name, "max", f"{self.max} is before min = {self.min}")
        if not spanned and ({"year", "date"} & set(self.names) or self.output != "parts"):
            raise fail(
                self.name,
                "min",
                (
                    "min and max (dates) are missing; give both, or set output = 'parts' without "
                    "year or date"
                ),
            )
        first, last = epoch.day_range(self.dtype)
        if spanned and not first <= self.span[0] <= self.span[1] <= last:
            days = f"{epoch.text_of(first, 'date32')} to {epoch.text_of(last, 'date32')}"
            raise fail(self.name, "min", f"{self.dtype} holds only days from {days}; choose others")
        if self.step != DAY_SECONDS and (self.step < 1 or 3600 % self.step):
            raise fail(
                self.name, "step", "the grid in seconds must divide an hour, or be 86400 (midnight)"
            )
        if "minute" in self.names and self.step % 60 and 60 % self.step:
            raise fail(
                self.name,
                "step",
                "with the part 'minute' the grid must divide a minute, or be whole minutes",
            )
        if self.step == DAY_SECONDS and {"hour", "shift"} & set(self.names):
            raise fail(
                self.name, "step", "a grid of 86400 (midnight) has no part 'hour' or 'shift'"
            )
        if "minute" in self.names and "hour" not in self.names:
            raise fail(self.name, "parts", "'minute' (of the hour) needs 'hour'")
        if "day" in self.names and not {"year", "month"} <= set(self.names):
            raise fail(self.name, "parts", "'day' (of the month) needs 'year' and 'month'")
        object.__setattr__(self, "parts", tuple(self._make(p, n) for p, n in self.names.items()))

    @property
    def span(self) -> tuple[int, int]:
        """First and last day of the public span, as days since 1970."""
        first, last = np.datetime64(self.min, "D"), np.datetime64(self.max, "D")
        return int(first.astype(np.int64)), int(last.astype(np.int64))

    @property
    def _minutes(self) -> int:
        """Minutes between two codes of the part `minute`."""
        return max(self.step // 60, 1)

    @property
    def years(self) -> tuple[int, int]:
        return int(str(self.min)[:4]), int(str(self.max)[:4])

    def _make(self, part: str, name: str) -> Part:
        numbered = {"hour": (24, 0), "month": (12, 1), "day": (31, 1)}
        if part == "year":
            numbered["year"] = self.years[1] - self.years[0] + 1, self.years[0]
        if part in numbered:
            return self._part(name, part, numbered[part][0], first=numbered[part][1])
        texts: Sequence[str] = DAYS if self.week_start == "monday" else (DAYS[6], *DAYS[:6])
        if part == "shift":
            hours = range(0, 24, _SHIFT_HOURS)
            texts = [f"{d} {h:02d}-{h + _SHIFT_HOURS:02d}h" for d in texts for h in hours]
        elif part == "minute":
            texts = [f":{m:02d}" for m in range(0, 60, self._minutes)]
        elif part == "date":
            days = np.arange(self.span[0], self.span[1] + 1).astype("datetime64[D]")
            texts = np.datetime_as_string(days).tolist()
        return self._part(name, part, len(texts), texts=tuple(texts), dates=part == "date")

    def _weekday(self, day: np.ndarray) -> np.ndarray:
        return (day + (3 if self.week_start == "monday" else 4)) % 7

    def split(self, values: np.ndarray) -> Split:
        day = values // DAY_SECONDS
        hour = (values - day * DAY_SECONDS) // 3600
        good = np.ones(len(values), dtype=bool)
        if {"year", "date"} & set(self.names):
            good = (day >= self.span[0]) & (day <= self.span[1])
            day = np.where(good, day, self.span[0])

        def months() -> np.ndarray:
            return day.astype("datetime64[D]").astype("datetime64[M]")

        codes = {
            "shift": lambda: self._weekday(day) * SHIFTS_PER_DAY + hour // _SHIFT_HOURS,
            "hour": lambda: hour,
            "minute": lambda: values % 3600 // 60 // self._minutes,
            "day_of_week": lambda: self._weekday(day),
            "day": lambda: day - months().astype("datetime64[D]").astype(np.int64),
            "month": lambda: months().astype(np.int64) % 12,
            "year": lambda: months().astype(np.int64) // 12 + 1970 - self.years[0],
            "date": lambda: day - self.span[0],
        }
        return [codes[part]() for part in self.names], good

    def _days(self, year: Any, month: Any, whole: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """First and last day of a year, or of a month of it (0..11; None: the whole year), within
        the span unless `whole`. The last is before the first where they do not meet."""
        first = (year + (self.years[0] - 1970)) * 12 + (0 if month is None else month)
        ends = np.asarray([first, first + (12 if month is None else 1)]).astype("datetime64[M]")
        start, end = ends.astype("datetime64[D]").astype(np.int64)
        if whole:
            return start, end - 1
        return np.maximum(start, self.span[0]), np.minimum(end - 1, self.span[1])

    def _every(self, first: Any, last: Any, weekday: Any) -> tuple[Any, int, Any]:
        """Days from first to last, all or those of a weekday (None: all), as (start, step, how
        many)."""
        if weekday is None:
            return first, 1, np.maximum(last - first + 1, 0)
        start = first + (weekday - self._weekday(first)) % 7
        return start, 7, np.maximum((last - start) // 7 + 1, 0)

    @cached_property
    def _years_of_months(self) -> tuple[np.ndarray, np.ndarray]:
        """For parts with a month but no year: days of the span in each month of each year, of a
        weekday if the parts have one. Also the sums of all that come before it; keys x years, flat.
        """
        year = np.arange(self.years[1] - self.years[0] + 1)[:, None, None]
        weekday = np.arange(7) if {"shift", "day_of_week"} & set(self.names) else None
        first, last = self._days(year, np.arange(12)[:, None])
        count = self._every(first, last, weekday)[2].transpose(1, 2, 0).ravel()
        return count, np.cumsum(count) - count

    def _drawn_days(self, have: Mapping[str, np.ndarray], u: np.ndarray) -> np.ndarray:
        """A day for each row, uniform over the days of the span that have the row's year, month and
        weekday. If there are none, it is uniform over those of its weekday, or over the span. The
        cost does not depend on the length of the span."""
        weekday = have.get(
            "day_of_week", have["shift"] // SHIFTS_PER_DAY if "shift" in have else None
        )
        year = have.get("year")
        month = have.get("month")
        if year is None and month is not None:
            count, before = self._years_of_months
            years = self.years[1] - self.years[0] + 1
            key = (month if weekday is None else month * 7 + weekday) * years
            total = np.append(before, count.sum())
            n = total[key + years] - total[key]
            k = total[key] + np.minimum((u * n).astype(np.int64), n - 1)
            place = np.searchsorted(before, k, side="right") - 1
            start, step, _ = self._every(*self._days(place % years, month), weekday)
            day = start + step * (k - before[place])
        else:
            first, last = self.span if year is None else self._days(year, month)
            start, step, n = self._every(
                np.full(len(u), first) if year is None else first, last, weekday
            )
            day = start + step * np.minimum((u * n).astype(np.int64), n - 1)
            if "day" in have:  # the 31st of a short month is its last day
                n = np.maximum(last - first + 1, 0)
                day = np.clip(self._days(year, month, whole=True)[0] + have["day"], first, last)
        for fewer in (weekday, None):
            if (n > 0).all():
                break
            start, step, more = self._every(np.full(len(u), self.span[0]), self.span[1], fewer)
            again = start + step * np.minimum((u * more).astype(np.int64), more - 1)
            day = np.where(n > 0, day, again)
            n = np.maximum(n, more)
        return day

    def join(self, parts: Sequence[np.ndarray], uniform: Uniform) -> np.ndarray:
        have = {p: np.asarray(a, dtype=np.int64) for p, a in zip(self.names, parts, strict=True)}
        if "date" in have:
            day = have["date"] + self.span[0]
        else:
            day = self._drawn_days(have, uniform("day"))
        if self.step == DAY_SECONDS:
            return day * DAY_SECONDS
        if "hour" in have:
            hour = have["hour"]
        elif "shift" in have:
            hour = shift_parts(have["shift"], "hour", uniform("hour"))
        else:
            hour = np.minimum((uniform("hour") * 24).astype(np.int64), 23)
        slots = 3600 // self.step // (60 // self._minutes if "minute" in have else 1)
        second = np.minimum((uniform("second") * slots).astype(np.int64), slots - 1) * self.step
        second += have.get("minute", 0) * self._minutes * 60
        return day * DAY_SECONDS + hour * 3600 + second

    def _own_plain(self) -> dict[str, Any]:
        span = without_none(parts=dict(self.names), min=self.min, max=self.max)
        return span | {"step": self.step, "week_start": self.week_start, "output": self.output}

    @classmethod
    def from_entry(cls, entry: Any, common: dict[str, Any]) -> Timestamp:
        parts = entry.plain.get("parts")
        if isinstance(parts, list | tuple):
            parts = {str(p): f"{entry.name}_{p}" for p in parts}
        if not isinstance(parts, Mapping) or not all(isinstance(v, str) for v in parts.values()):
            raise fail(
                entry.name, "parts", "expected a list of parts, or a table from part to name"
            )
        low = entry.date("min")
        high = entry.date("max")
        output = "parts" if low is None or high is None else "value"
        return cls(
            **common,
            output=entry.choice("output", output, ("value", "parts")),
            min=low,
            max=high,
            week_start=entry.choice("week_start", "monday", ("monday", "sunday")),
            dtype=entry.dtype("timestamp[us]"),
            names=dict(parts),
            step=entry.whole("step", 1) or 0,
        )

    @property
    def moment_step(self) -> int:
        return self.step

    @property
    def one_interval(self) -> bool:
        return "date" in self.names

    @property
    def split_unit(self) -> int:
        """No part changes within an hour except `minute`."""
        return 60 if "minute" in self.names else 3600

    def order_columns(self) -> tuple[str, ...]:
        parts = set(self.names)
        if "date" not in parts and not {"year", "month", "day"} <= parts:
            raise SchemaError(
                f"user, field 'order': the parts of {self.name!r} do not say on which day a time "
                "lies; give it the part 'date', or year, month and day"
            )
        # one year orders nothing, and months of several years would be in order before their dates
        one_year = self.years[0] == self.years[1]
        left_out = "year" if one_year else "month" if "year" not in parts else ""
        return tuple(self.names[p] for p in SIGNIFICANCE if p in parts and p != left_out)

    def group_columns(self) -> tuple[str, ...]:
        """The parts that say on which day, or in which month, longest first. Where there are none,
        those that say when in a week."""
        days = [part for part in SIGNIFICANCE[:4] if part in self.names]
        week = [part for part in ("shift", "day_of_week", "hour") if part in self.names]
        if "date" in days:
            days = ["date"]
        return tuple(self.names[part] for part in days or week)

    def tied_parts(self) -> list[Part]:
        """Each hour and minute occurs on every day, unless shifts of the week are parts."""
        free = () if "shift" in self.names else ("hour", "minute")
        return [part for part in self.parts if part.part not in free]

    def possible_parts(self, parts: Sequence[Part]) -> np.ndarray:
        first, last = self.span
        split, good = self.split(np.arange(first * 24, (last + 1) * 24) * 3600)
        possible = np.zeros([part.base for part in parts], bool)
        possible[tuple(split[self.parts.index(part)][good] for part in parts)] = True
        return possible

    def outside(self) -> tuple[list[Part], np.ndarray] | None:
        """Months of the first and of the last year that lie outside the span."""
        parts = [part for part in self.parts if part.part in ("year", "month")]
        if len(parts) < 2 or "date" in self.names:
            return None
        year = np.arange(self.years[1] - self.years[0] + 1)[:, None]
        first, last = self._days(year, np.arange(12))
        mask = last < first
        if parts[0].part == "month":
            mask = mask.T
        return (parts, mask) if mask.any() else None

    def calendar_column(self, part: str) -> tuple[str, str] | None:
        """(code column, part to compute from its values; "" for the values themselves) of a part
        of the calendar; None if its parts do not tell."""
        if part in self.names:
            return self.names[part], ""
        if part != "hour" and "date" in self.names:
            return self.names["date"], part
        return None

    def amount(self) -> Amount:
        days = dtypes.family(self.dtype) == "date" or self.step == DAY_SECONDS
        return plain_amount(self, "date" if days else "time")

    def public_range(self) -> tuple[float, float] | None:
        if self.min is None or self.max is None:
            return None
        first, last = self.span
        if self.amount().kind == "date":
            return first, last
        return first * DAY_SECONDS, (last + 1) * DAY_SECONDS - 1

    @classmethod
    def check_private(cls, column: Any) -> None:
        if dtypes.family(column.dtype) not in ("timestamp", "date"):
            raise fail(
                column.name, "dtype", f"expected a timestamp or date type, got {column.dtype}"
            )

    @classmethod
    def edges_entry(cls, column: Any, found: FoundEdges) -> dict[str, Any]:
        """The table of a span of time from the first to the last edge."""
        ends = found.edges[0], max(found.edges[-1] - 1, found.edges[0])
        first, last = (epoch.local_day(int(edge), column.dtype) for edge in ends)
        parts = column.stated.get("parts")
        if parts is None:
            parts = ["date"] if last - first < DAYS_LISTED else ["year", "month", "day_of_week"]
            if dtypes.family(column.dtype) != "date" and column.stated.get("step") != DAY_SECONDS:
                parts.append("hour")
        return column.finished(
            "timestamp",
            "code" if found.nulls else "drop",
            "code",
            parts=parts,
            min=epoch.text_of(first, "date32"),
            max=epoch.text_of(last, "date32"),
        )

    @classmethod
    def stand_in_entry(cls, column: Any) -> dict[str, Any]:
        day = 1 if dtypes.family(column.dtype) == "date" else DAY_SECONDS
        return cls.edges_entry(column, FoundEdges([FIRST_OF_2020 * day, FIRST_OF_2021 * day]))

"""Groups of times that are counted in parts: `by pickup`, `by month(pickup)`.

A field that is counted in parts has no column of its own name. Named alone, it stands for the parts
that say when a row was, in the order of time. `PART(FIELD)` is the part's own column where the
schema counts it. Otherwise it is a group of days, and each of them is a condition on dates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
from msgspec import Struct

from ..errors import UsageError, did_you_mean
from ..schema import Schema
from ..schema.columns import Part
from ..schema.derived import Derived
from .part_dates import FIRST, part_selections

MOST_GROUPS = 400
"""The most groups of days: a year of dates. Each is an answer of its own."""
OTHER_NAMES = {"weekday": "day_of_week", "day": "date"}
"""What people call a part that the schema does not have by this name."""
DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LABELS: dict[str, Callable[[date], str]] = {
    "year": lambda day: f"{day.year:04d}",
    "quarter": lambda day: f"{day.year:04d}-Q{(day.month + 2) // 3}",
    "month": lambda day: f"{day.year:04d}-{day.month:02d}",
    "date": lambda day: day.isoformat(),
    "day_of_week": lambda day: DAY_NAMES[day.weekday()],
}
"""By part: the text of the group that a day is in."""
_PART_OF = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*")


class DayGroups(Struct, frozen=True, eq=False):
    """Days of a field's public span in groups. `name`: as it was asked for; `days`: the days of each
    group, by its text."""

    name: str
    field: str
    days: dict[str, list[date]]


def groups_of(schema: Schema, by: Sequence[str] | str) -> list[str | DayGroups]:
    """What each name of `by` means: a column of the schema, several, or groups of days. A name that
    is neither is left as it is."""
    out: list[str | DayGroups] = []
    for name in (by,) if isinstance(by, str) else by:
        out += _named(schema, name)
    return out


def _named(schema: Schema, name: Any) -> Sequence[str | DayGroups]:
    if not isinstance(name, str) or name in schema.columns:
        return (name,)
    field = schema.fields.get(name)
    if isinstance(field, Derived):
        return field.group_columns()
    match = _PART_OF.fullmatch(name)
    if match is None:
        return (name,)
    counted = part_column(schema, name)
    if counted is not None:
        return (counted,)
    field = schema.fields.get(match[2])
    part = match[1].lower()
    if field is None and OTHER_NAMES.get(part, part) not in LABELS:
        return (name,)  # a fact about users, such as last(month)
    if field is None:
        more = did_you_mean(match[2], schema.fields)
        raise UsageError(f"by: {name!r}: the schema has no column {match[2]!r}{more}")
    parts = {one.part: one.name for one in field.parts if isinstance(one, Part)}
    label = LABELS.get(OTHER_NAMES.get(part, part))
    if not field.calendar or label is None or getattr(field, "min", None) is None:
        raise UsageError(f"by: {name!r}: {_why_not(field, parts)}")
    groups = _day_groups(name, field, label)
    if not _said_by_parts(field, groups):
        raise UsageError(f"by: {name!r}: {_why_not(field, parts)}")
    return (groups,)


def with_parts_named(schema: Schema, where: Mapping[str, Any] | None) -> dict[str, Any]:
    """Conditions in which `month(pickup)` is the column that the schema counts months in, or else the days
    of the months that are named: by a text such as "2025-03", a list of these, or a range (low, high)."""
    out: dict[str, Any] = {}
    for name, condition in (where or {}).items():
        (meant,) = _named(schema, name) if _is_part(schema, name) else (name,)
        key = meant.field if isinstance(meant, DayGroups) else meant
        if key in out:
            raise UsageError(f"where: {name!r} and another condition are both about {key!r}")
        out[key] = _days_of(meant, condition) if isinstance(meant, DayGroups) else condition
    return out


def _is_part(schema: Schema, name: Any) -> bool:
    match = (
        _PART_OF.fullmatch(name) if isinstance(name, str) and name not in schema.columns else None
    )
    return match is not None and match[2] in schema.fields


def _days_of(groups: DayGroups, condition: Any) -> list[date]:
    """The days of the groups that a condition names; UsageError if it names none, or one that is not."""
    texts = list(groups.days)
    if isinstance(condition, tuple) and len(condition) == 2:
        low, high = (None if end is None else str(end) for end in condition)
        named = [t for t in texts if (low is None or t >= low) and (high is None or t < high)]
    else:
        several = isinstance(condition, Iterable) and not isinstance(condition, str)
        named = [str(one) for one in (condition if several else [condition])]
    unknown = [text for text in named if text not in groups.days]
    if unknown or not named:
        found = repr(unknown[0]) if unknown else "none"
        raise UsageError(
            f"where: {groups.name!r}: expected groups such as {texts[0]!r} up to {texts[-1]!r}, got {found}"
        )
    return [day for text in named for day in groups.days[text]]


def part_column(schema: Schema, name: str) -> str | None:
    """The column in which the schema counts `month(pickup)`; None if there is none."""
    match = _PART_OF.fullmatch(name)
    field = None if match is None else schema.fields.get(match[2])
    if match is None or field is None:
        return None
    part = match[1].lower()
    counted = {one.part: one.name for one in field.parts if isinstance(one, Part)}
    return counted.get(part, counted.get(OTHER_NAMES.get(part, part)))


def _said_by_parts(field: Any, groups: DayGroups) -> bool:
    """Whether the field's parts say of every row in which group its day is."""
    try:
        found = [part_selections(field, days) for days in groups.days.values()]
    except UsageError:  # some days are too small a part of what the parts select
        return False
    selections = [selection for parts in found for selection in parts.values()]
    return all(np.array_equal(one.sure, one.touched) for one in selections)


def _day_groups(name: str, field: Any, label: Callable[[date], str]) -> DayGroups:
    first, last = field.span
    days: dict[str, list[date]] = {}
    for number in range(first, last + 1):
        day = FIRST + timedelta(days=number)
        days.setdefault(label(day), []).append(day)
    if len(days) > MOST_GROUPS:
        raise UsageError(
            f"by: {name!r} would be {len(days):,} groups, the limit is {MOST_GROUPS}; ask for longer"
            f" periods, such as month({field.name}), or for a range of dates with where"
        )
    order = sorted(days, key=DAY_NAMES.index) if set(days) <= set(DAY_NAMES) else list(days)
    return DayGroups(name, field.name, {text: days[text] for text in order})


def _why_not(field: Any, counted: dict[str, str]) -> str:
    if not counted:
        return (
            f"{field.name!r} is not counted in parts; use its values, or a range of them in where"
        )
    typed = [f"{part}({field.name})" for part in counted if not part.isdigit()]
    return f"expected {' or '.join(typed or counted.values())}, which the schema counts"

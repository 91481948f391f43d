"""Dates as conditions on times that are counted in parts of the calendar.

A date, or a range of dates, is a set of hours of the column's public span. Each part selects the
codes that these hours have. Where the parts together select other hours too, only some of the rows
with their codes are meant. The coarsest way to say so is one part of which not all rows count.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

import numpy as np

from ..errors import UsageError
from ..schema.columns import Column
from ..schema.epoch import DAY_SECONDS
from .values import Selection

HOUR = 3600
"""Seconds of each."""
FIRST = date(1970, 1, 1)
LEAST_PART = 1 / 6
"""The least part of the selected hours that a condition must have: one day of a weekday in a month
has 1/5 or 1/4 of them. Below it, an answer would be a guess."""


def part_selections(field: Any, condition: Any) -> dict[str, Selection]:
    """The condition on a time as conditions on its parts, by their names. It is a date, a list of
    dates, or (low, high) with low <= date < high; dates may be ISO texts."""
    parts: list[Column] = list(field.parts)
    if getattr(field, "min", None) is None or getattr(field, "max", None) is None:
        raise UsageError(_refused(field, "its parts do not say which day it is"))
    first, last = field.span
    days = np.arange(first, last + 1)
    wanted = np.repeat(chosen_days(field, condition, days), 24)
    hours = (days[:, None] * DAY_SECONDS + np.arange(24) * HOUR).reshape(-1)
    codes, _ = field.split(hours)
    own = [np.bincount(c[wanted], minlength=p.size) > 0 for c, p in zip(codes, parts)]
    reached = np.logical_and.reduce([chosen[c] for chosen, c in zip(own, codes)])
    share = float(wanted.sum() / max(reached.sum(), 1))
    if wanted.any() and share < LEAST_PART:
        raise UsageError(_refused(field, "its parts cannot say these dates together"))
    narrow = [i for i, (chosen, c) in enumerate(zip(own, codes)) if not chosen[c].all()]
    found = {parts[i].name: _selection(own[i], 1.0) for i in narrow}
    if not narrow:
        name = parts[0].name
        every = np.ones(parts[0].size, bool)
        return {name: _selection(every, share)} if share < 1 else {}
    if share < 1:
        finest = max(narrow, key=lambda i: len(np.unique(codes[i])) / max(own[i].sum(), 1))
        found[parts[finest].name] = _selection(own[finest], share)
    return found


def _selection(chosen: np.ndarray, share: float) -> Selection:
    none = np.zeros(len(chosen), bool)
    return Selection(chosen if share == 1 else none, chosen, chosen * share)


def chosen_days(field: Any, condition: Any, days: np.ndarray) -> np.ndarray:
    """Which days of the span the condition names."""
    if isinstance(condition, tuple):
        if len(condition) != 2:
            raise UsageError(
                f"where, column {field.name!r}: expected (low, high), got {condition!r}"
            )
        low, high = (None if end is None else _day(field, end) for end in condition)
        return (days >= (days[0] if low is None else low)) & (
            days < (days[-1] + 1 if high is None else high)
        )
    several = isinstance(condition, Iterable) and not isinstance(condition, str | bytes)
    wanted = [_day(field, value) for value in (condition if several else [condition])]
    outside = [day for day in wanted if not days[0] <= day <= days[-1]]
    if outside:
        raise UsageError(
            f"where, column {field.name!r}: expected dates from {field.min} to {field.max}"
        )
    return np.isin(days, wanted)


def _day(field: Any, value: Any) -> int:
    """Days since 1970 of a date."""
    try:
        found = date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, date) or isinstance(found, datetime):
        raise UsageError(_refused(field, f"expected a date such as 2026-03-31, got {value!r}"))
    return (found - FIRST).days


def _refused(field: Any, why: str) -> str:
    names = " or ".join(part.name for part in field.parts)
    return f"where: {field.name!r} is counted in parts, and {why}; use {names} instead"

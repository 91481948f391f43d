"""Names of facts about users in questions: which fact a name means, and why there is none of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError, did_you_mean
from ..schema import Schema
from ..schema.derived import Derived
from .part_dates import part_selections
from .part_groups import part_column
from .people_facts import PeopleFacts

_FACT = re.compile(r"\s*(\w+)\s*\((.+)\)\s*", re.S)
_VALUE = re.compile(r"\s*(mean|sum)\s*\((.+)\)\s*", re.S)
NO_TABLE = (
    "the run made no table about its users, since they are too few for the noise or since users"
    " repeat nothing"
)

Where = Mapping[str, Any] | None


def in_facts(
    rows: Schema, facts: PeopleFacts, of: str, by: Sequence[str] | str, where: Where
) -> tuple[str, Sequence[str] | str, Where]:
    """The question by the names of the facts that a run released. UsageError if one is missing.

    rows: the schema of the run. A time that is counted in parts is known by the part that has its
    dates, or by one that is named: `first(day)` is the fact `first(day_date)`, and `first(month(day))`
    is `first(day_month)`.
    """

    def name(asked: Any, place: str) -> Any:
        if not isinstance(asked, str):
            return asked
        found = _same_fact(asked, rows, facts.schema)
        if found is None:
            raise UsageError(f"{place}: {_why_not(asked, rows, facts)}")
        return found

    value = _VALUE.fullmatch(of) if isinstance(of, str) else None
    if value is not None:
        of = f"{value[1]}({name(value[2].strip(), 'of')})"
    by = name(by, "by") if isinstance(by, str) else [name(one, "by") for one in by]
    if isinstance(where, Mapping):
        named = {one: name(one, "where") for one in where}
        where = {own: _days(one, own, where[one], rows, facts.schema) for one, own in named.items()}
    return of, by, where


def _days(asked: Any, own: str, condition: Any, rows: Schema, facts: Schema) -> Any:
    """A condition on dates of a fact of a time in parts, as the list of its days."""
    if asked == own:
        return condition
    match = _FACT.fullmatch(asked)
    field = None if match is None else rows.fields.get(match[2].strip())
    if field is None:
        return condition
    part = facts.columns[own]
    found = part_selections(field, condition)
    days = next((one.sure for one in found.values()), np.arange(part.size) < part.base)
    return [label for label, chosen in zip(part.labels(), days) if chosen]


def _same_fact(asked: str, rows: Schema, facts: Schema) -> str | None:
    if asked in facts.columns:
        return asked
    match = _FACT.fullmatch(asked)
    if match is None:
        return None
    inside = match[2].strip()
    field = rows.fields.get(inside)
    parts = field.group_columns() if isinstance(field, Derived) else [part_column(rows, inside)]
    own = f"{match[1]}({parts[0]})"
    return own if len(parts) == 1 and own in facts.columns else None


def _why_not(asked: str, rows: Schema, facts: PeopleFacts) -> str:
    if not facts.tabled:
        return f"the run released no {asked!r} of users; {NO_TABLE}"
    if asked in rows.columns or asked in rows.fields:
        about = (
            f"{asked!r} is no fact about users that the run released: it found no constant of it"
        )
    else:
        about = f"the run released no {asked!r} of users"
    return about + did_you_mean(asked, facts.schema.columns)

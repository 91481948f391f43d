"""Answers of `run.answer` from numbers that were asked for before the run, and the question to add
where an answer is too wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

from .._util.lazy import pa
from ..errors import FastdpError
from ..numbers import language
from ..numbers.measure_numbers import check_numbers
from ..numbers.typed import check
from ..schema import Schema

LEVEL = 0.95
"""The level of the intervals of numbers."""
WIDE = 0.2
"""An interval whose half is more than this part of its estimate is too wide to print."""
ASKED = "asked for before the run"


def question_of(of: str, by: Sequence[str] | str, where: Mapping[str, Any] | None) -> str | None:
    """The question in the language of numbers; None if it cannot be said there."""
    names = [by] if isinstance(by, str) else list(by)
    head = {"count": "count of rows", "share": None}.get(of, of)
    if head is None:
        return None
    conditions = [_condition(name, value) for name, value in (where or {}).items()]
    if any(condition is None for condition in conditions):
        return None
    text = head
    if conditions:
        text += " where " + " and ".join(str(condition) for condition in conditions)
    if names:
        text += " by " + ", ".join(f"`{name}`" for name in names)
    try:
        return language.render(language.parse(text))
    except FastdpError:
        return None


def _condition(name: str, value: Any) -> str | None:
    def constant(one: Any) -> str:
        plain = isinstance(one, int | float) and not isinstance(one, bool)
        return repr(one) if plain else "'" + str(one).replace("'", "''") + "'"

    if isinstance(value, tuple) and len(value) == 2:
        if any(end is None for end in value):
            return None
        return f"`{name}` >= {constant(value[0])} and `{name}` < {constant(value[1])}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        listed = ", ".join(constant(one) for one in value)
        return f"`{name}` in ({listed})" if listed else None
    return None if value is None else f"`{name}` = {constant(value)}"


def with_numbers(answer: pa.Table, numbers: pa.Table | None, question: str | None) -> pa.Table:
    """The answer with the figures of numbers that ask the same, where they were given."""
    if numbers is None or question is None:
        return answer
    found = [row for row in numbers.to_pylist() if _asks(row["number"]) == question]
    if not found or any(name not in answer.column_names for name in ("estimate", "note")):
        return answer
    by = list(language.parse(question).by)
    by_group = {tuple(row[name] for name in by): row for row in found}
    rows, z = answer.to_pylist(), NormalDist().inv_cdf((1 + LEVEL) / 2)
    for row in rows:
        key = tuple("(null)" if row[name] is None else str(row[name]) for name in by)
        number = by_group.get(key)
        if number is None or number["estimate"] is None:
            continue
        error = (number["high"] - number["low"]) / 2 / z
        parts = dict.fromkeys(("clipping", "bins", "model", "sampling"), 0.0)
        own = {name: number[name] for name in ("estimate", "low", "high")}
        note = f"{ASKED}; {number['note']}" if number["note"] else ASKED
        own |= {"error": error, "noise": error, "basis": "measured", "note": note}
        row |= {name: value for name, value in (parts | own).items() if name in row}
    return pa.Table.from_pylist(rows, answer.schema)


def _asks(text: str) -> str | None:
    try:
        return language.render(language.parse(text))
    except FastdpError:
        return None


def with_advice(
    answer: pa.Table, numbers: pa.Table | None, question: str | None, schema: Schema
) -> pa.Table:
    """The answer, with a note on rows that are too wide to use: which number to ask for next time."""
    if question is None or not question.startswith(("sum", "mean")):
        return answer
    if numbers is not None and question in map(_asks, numbers["number"].to_pylist()):
        return answer
    try:
        check_numbers([check(question, schema)])
    except FastdpError:  # it cannot be asked beforehand
        return answer
    rows, advised = answer.to_pylist(), False
    for row in rows:
        low, high, middle = row["low"], row["high"], row["estimate"]
        known = low is not None and high is not None and middle is not None
        if known and (high - low) / 2 <= WIDE * abs(middle):
            continue
        advice = f"too wide to print: add {question!r} to numbers= before the next run"
        row["note"] = f"{row['note']}; {advice}" if row.get("note") else advice
        advised = True
    return pa.Table.from_pylist(rows, answer.schema) if advised else answer

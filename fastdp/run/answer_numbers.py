"""Answers of `run.answer` from numbers that were asked for before the run, and the question to add
where an answer is too wide."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from statistics import NormalDist
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .._util.lazy import pa
from ..answers.values import After
from ..errors import FastdpError
from ..numbers import language, number_text
from ..numbers.allocation import default_share
from ..numbers.asked_people import FEW_GROUPS
from ..numbers.measure_numbers import check_numbers
from ..numbers.number_nodes import Aggregate, Column as ColumnOf, Comparison, Constant, Node
from ..numbers.typed import TypedNumber, check, with_parts
from ..schema import Schema
from ..schema.columns import Column

LEVEL = 0.95
"""The level of the intervals of numbers."""
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
WIDE = 0.2
"""An interval whose half is more than this part of its estimate is too wide to print."""
ASKED = "asked for before the run"


PERIODS = {"active": "distinct"}
"""Facts about users that numbers call otherwise."""
WHOLE = ("rows", "active(", "distinct(")
"""How the names of facts begin that are whole numbers."""
FACT = re.compile(r"(\w+)\((.+)\)", re.S)


def question_of(
    of: str,
    by: Sequence[str] | str,
    where: Mapping[str, Any] | None,
    users: bool = False,
) -> str | None:
    """The question in the language of numbers; None if it cannot be said there. Shares of groups
    cannot: in numbers a share by groups is of the group. users: `of` is of users, and names are
    facts about them."""
    names = [by] if isinstance(by, str) else list(by)
    whom = "users" if users else "rows"
    if of == "share" and (names or not where):
        return None
    head = of
    if of in ("count", "share"):
        head = f"{of} of {whom}"
    elif users:
        match = FACT.fullmatch(of)
        head = "" if match is None else f"{match[1]}({_named(match[2], users)}) per user"
    pairs = [(_named(name, users), value) for name, value in (where or {}).items()]
    conditions = [_condition(name, value) for name, value in pairs]
    if not head or any(condition is None for condition in conditions):
        return None
    text = head
    if conditions:
        text += " where " + " and ".join(str(condition) for condition in conditions)
    if names:
        text += " by " + ", ".join(_named(name, users) for name in names)
    try:
        return number_text.render(language.parse(text))
    except FastdpError:
        return None


def advised_question(
    of: str,
    by: Sequence[str] | str,
    where: Mapping[str, Any] | None,
    users: bool = False,
) -> str | None:
    """The number to ask for in place of this answer; for shares of groups the count by groups."""
    return question_of("count" if of == "share" and by else of, by, where, users)


def _named(name: str, users: bool) -> str:
    """A column, or a fact about users, in the language of numbers."""
    if users and name == "rows":
        return name
    match = FACT.fullmatch(name) if users else None
    if match is None:
        return f"`{name}`"
    return f"{PERIODS.get(match[1], match[1])}(`{match[2]}`)"


def _condition(name: str, value: Any) -> str | None:
    """A condition on what `_named` gave."""

    def constant(one: Any) -> str:
        plain = isinstance(one, int | float) and not isinstance(one, bool)
        return repr(one) if plain else "'" + str(one).replace("'", "''") + "'"

    if isinstance(value, tuple) and len(value) == 2:
        ends = [
            f"{name} {right_after} {constant(end.number)}"
            if isinstance(end, After)
            else f"{name} {at} {constant(end)}"
            for end, at, right_after in zip(value, (">=", "<"), (">", "<="), strict=True)
            if end is not None
        ]
        return " and ".join(ends) or None
    if isinstance(value, Sequence) and not isinstance(value, str):
        listed = ", ".join(constant(one) for one in value)
        return f"{name} in ({listed})" if listed else None
    return None if value is None else f"{name} = {constant(value)}"


def line_questions(
    of: str,
    by: Sequence[str] | str,
    where: Mapping[str, Any] | None,
    facts: Schema,
    answer: pa.Table,
) -> list[str | None] | None:
    """The question of each line of an answer about users by a number, such as `rows`. Numbers have
    no such groups, so the line's bin becomes a condition. None if `by` names no number. facts: the
    table about users, by whose bins it is grouped."""
    names = [by] if isinstance(by, str) else list(by)
    numbers = [name for name in names if name in facts.columns and facts.columns[name].binned]
    if not numbers:
        return None
    rest = [name for name in names if name not in numbers]
    bins = {name: bins_by_label(facts.columns[name]) for name in numbers}
    out = []
    for row in answer.to_pylist():
        found = {name: bins[name].get(row[name]) for name in numbers}
        known = all(one is not None for one in found.values())
        also = dict(where or {}) | found
        out.append(advised_question(of, rest, also, True) if known else None)
    return out


def example_question(
    of: str, by: Sequence[str] | str, where: Mapping[str, Any] | None
) -> str | None:
    """A question for one line of an answer about users by whole numbers, where the run has no bins
    of these."""
    names = [by] if isinstance(by, str) else list(by)
    whole = [name for name in names if name.startswith(WHOLE)]
    rest = [name for name in names if name not in whole]
    return advised_question(of, rest, dict(where or {}) | dict.fromkeys(whole, 1), True)


def bins_by_label(column: Column) -> dict[str, Any]:
    """The condition of each bin of a fact, by its label: a number, or a range (low, high). The last
    bin of a fact has no upper end."""
    assert column.in_bins is not None
    edges = column.in_bins.edges
    last = len(edges) - 2
    found: dict[str, Any] = {}
    for i, (label, (low, high)) in enumerate(zip(column.labels(), pairwise(edges))):
        single = column.dtype == "int64" and high == low + 1
        found[label] = (_plain(low), None if i == last else _plain(high))
        if single and i < last:
            found[label] = _plain(low)
    return found


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else float(number)


Questions = str | None | Sequence[str | None]
"""The question of an answer in the language of numbers, or of each of its lines."""


def _by_line(questions: Questions, lines: int) -> list[str | None]:
    if questions is None or isinstance(questions, str):
        return [questions] * lines
    return list(questions)


def with_numbers(
    answer: pa.Table,
    numbers: pa.Table | None,
    questions: Questions,
    schema: Schema,
    claimed: bool = False,
) -> pa.Table:
    """The answer with the figures of numbers that ask the same, where they were given. Where both have
    nothing but Gaussian noise, which is independent, they are combined by precision. Else the number is
    given, unless its interval is `APART` times as wide as the answer's own: which of two intervals is given
    then depends on widths that noise hardly moves. An own interval that assumes how rows go on where
    nobody sees them does not take the place of a number; the note says it. `claimed`: the answer's own
    interval assumes no more than the number's, so that it does."""
    asked = _by_line(questions, answer.num_rows)
    if numbers is None or not any(asked):
        return answer
    if any(name not in answer.column_names for name in ("estimate", "note")):
        return answer
    known = {question: _figures(numbers, question, schema) for question in set(asked) if question}
    rows = answer.to_pylist()
    replaced = False
    for row, question in zip(rows, asked, strict=True):
        by, by_group = known.get(question or "", ([], {}))
        if any(name not in row for name in by):
            continue
        key = tuple("(null)" if row[name] is None else str(row[name]) for name in by)
        number = by_group.get(key)
        if number is None or number["estimate"] is None:
            continue
        replaced = True
        narrower = _much_narrower(row, number)
        if narrower and (claimed or _assumes_nothing(row)):
            asked_for = f"{ASKED}: {number['low']:,.6g} to {number['high']:,.6g}, which is wider"
            row["note"] = "; ".join(filter(None, (row["note"], asked_for)))
            continue
        figures = _of_number(row, number)
        if narrower:
            own = f"{row['low']:,.6g} to {row['high']:,.6g}"
            figures["note"] += (
                f"; the run's own counts say {own}, where nothing is hidden by noise or bins"
            )
        row |= {name: value for name, value in figures.items() if name in row}
    return pa.Table.from_pylist(rows, answer.schema) if replaced else answer


APART = 3.0
"""As `asked_sums.EXACT`: the narrower of two intervals is more often wrong, so it has to be much narrower."""
PARTS = ("clipping", "bins", "model", "sampling")
"""Parts of an error that are no noise."""


def _of_number(row: Mapping[str, Any], number: Mapping[str, Any]) -> dict[str, Any]:
    """A row of an answer with the figures of a number, or with both."""
    figures = {name: number[name] for name in ("estimate", "low", "high")}
    error = (number["high"] - number["low"]) / 2 / Z
    note = f"{ASKED}; {number['note']}" if number["note"] else ASKED
    if _of_noise_alone(row) and _symmetric(number):
        parts = [1 / error**2, 1 / row["error"] ** 2]
        error = 1 / math.sqrt(sum(parts))
        estimate = error**2 * (parts[0] * number["estimate"] + parts[1] * row["estimate"])
        figures = {"estimate": estimate, "low": estimate - Z * error, "high": estimate + Z * error}
        note = "; ".join((f"{ASKED}, and what the run released besides", *note.split("; ")[1:]))
    figures |= {"error": error, "noise": error, "basis": "measured", "note": note}
    return dict.fromkeys(PARTS, 0.0) | figures


def _of_noise_alone(row: Mapping[str, Any]) -> bool:
    """Whether a row of an answer has the interval of Gaussian noise, which no bound has cut."""
    if (
        row.get("basis") != "measured"
        or any(row.get(part) for part in PARTS)
        or not row.get("error")
    ):
        return False
    return _symmetric(row) and math.isclose(
        row["high"] - row["low"], 2 * Z * row["error"], rel_tol=1e-6
    )


def _symmetric(found: Mapping[str, Any]) -> bool:
    """Whether both ends are as far from the estimate, which is more than 0 away from its bounds."""
    ends = (found["estimate"] - found["low"], found["high"] - found["estimate"])
    return min(ends) > 0 and math.isclose(*ends, rel_tol=1e-6)


def _much_narrower(row: Mapping[str, Any], number: Mapping[str, Any]) -> bool:
    """Whether the interval of the answer itself is much narrower than that of a number."""
    if row.get("basis") == "unknown" or row["high"] is None or row["low"] is None:
        return False
    return APART * (row["high"] - row["low"]) < number["high"] - number["low"]


def _assumes_nothing(row: Mapping[str, Any]) -> bool:
    """Whether the interval of an answer rests on no assumption: of rows that a clip leaves out, a tail is
    assumed, where a number says what noise may hide."""
    return (
        row.get("basis") in ("measured", "bound")
        and not row.get("clipping")
        and not row.get("model")
    )


def from_numbers(
    numbers: pa.Table | None, question: str | None, schema: Schema
) -> tuple[pa.Table, tuple[str, ...]] | None:
    """An answer of numbers alone, and the columns of its groups; None if no number asks the question, or all
    of it is withheld."""
    question = None if question is None else asks(question, schema)
    if numbers is None or question is None:
        return None
    by, by_group = _figures(numbers, question, schema)
    empty = {"estimate": None, "low": None, "high": None, "basis": "unknown"} | dict.fromkeys(
        PARTS[:3]
    )
    rows = []
    for key, number in by_group.items():
        row = dict(zip(by, key)) | empty | {"error": None, "noise": None, "note": number["note"]}
        rows.append(row if number["estimate"] is None else row | _of_number(row, number))
    if all(row["estimate"] is None for row in rows):
        return None
    shown = (*by, "estimate", "error", "low", "high", "basis", "noise", *PARTS[:3], "note")
    return pa.table({name: [row[name] for row in rows] for name in shown}), tuple(by)


def _figures(
    numbers: pa.Table, question: str, schema: Schema
) -> tuple[list[str], dict[tuple, dict[str, Any]]]:
    """(columns of an answer that name the groups of a question, its rows of numbers by group)."""
    asked = language.parse(question)
    found = [row for row in numbers.to_pylist() if asks(row["number"], schema) == question]
    by = [f"{pick}({name})" if pick else name for name, pick in zip(asked.by, asked.pick)]
    return by, {tuple(row[name] for name in asked.by): row for row in found}


def asks(text: str, schema: Schema) -> str | None:
    """The question in one spelling, in which `month(date)` is the column that the schema counts
    months in, and `rows > 1` is `rows >= 2`; None if it cannot be asked."""
    try:
        number = with_parts(language.parse(text), schema)
        return number_text.render(_in_whole_numbers(number, schema))
    except FastdpError:
        return None


SAME_END = {">": ">=", "<=": "<"}
"""Comparisons with a whole number, and those with the next one that say the same."""
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _in_whole_numbers(item: Any, schema: Schema) -> Any:
    """A number or a part of it, with ranges of whole numbers written as `x >= a` and `x < b`."""
    if isinstance(item, tuple):
        return tuple(_in_whole_numbers(one, schema) for one in item)
    if not isinstance(item, Struct):
        return item
    made = {name: _in_whole_numbers(getattr(item, name), schema) for name in item.__struct_fields__}
    if isinstance(item, Comparison):
        left, right, op = made["left"], made["right"], item.op
        if isinstance(left, Constant):
            left, right, op = right, left, MIRRORED.get(op, op)
        if op in SAME_END and _is_whole(left, schema) and _is_whole(right, schema):
            op, right = SAME_END[op], replace(right, value=right.value + 1)
        made |= {"left": left, "right": right, "op": op}
    return replace(item, **made)


def _is_whole(node: Node, schema: Schema) -> bool:
    """Whether a value is a whole number for every user or row."""
    if isinstance(node, Constant):
        return isinstance(node.value, Decimal) and node.value % 1 == 0 and not node.unit
    if isinstance(node, Aggregate):
        return node.function in ("rows", "distinct")
    return (
        isinstance(node, ColumnOf)
        and node.name in schema.columns
        and (schema.columns[node.name].dtype or "").startswith(("int", "uint"))
    )


def hint_of(questions: Sequence[str | None], numbers: pa.Table | None, schema: Schema) -> str:
    """What to add to the error of an answer that the run has no facts for: where it is, or which
    number to ask for. Of several numbers, the first that can be asked. Empty if none can."""
    there = (text for text in questions if text is not None and _can_be_asked(text, schema))
    question = asks(next(there, ""), schema)
    if question is None:
        return ""
    known = [] if numbers is None else numbers["number"].to_pylist()
    if question in (asks(text, schema) for text in known):
        return f"; run.numbers has {question!r}"
    return f"; add {question!r} to numbers= before the next run"


def _can_be_asked(question: str, schema: Schema) -> bool:
    try:
        check_numbers([check(question, schema)])
    except FastdpError:
        return False
    return True


def with_advice(
    answer: pa.Table,
    numbers: pa.Table | None,
    questions: Questions,
    schema: Schema,
    mu: float | None = None,
) -> pa.Table:
    """The answer, with a note on rows that are too wide to use: which number to ask for next time.
    mu: of the run. A count by groups is advised only where it would be narrower than the answer. A
    group of few rows is not too wide if its interval is narrow beside an average group."""
    asked = _by_line(questions, answer.num_rows)
    known = [] if numbers is None else numbers["number"].to_pylist()
    there = {asks(text, schema) for text in known}
    typed = {
        question: check(question, schema)
        for question in set(asked) - there - {None}
        if question is not None and _can_be_asked(question, schema)
    }
    would = {question: _count_width(number, mu) for question, number in typed.items()}
    rows = answer.to_pylist()
    average = sum(abs(row["estimate"] or 0.0) for row in rows) / max(len(rows), 1)
    advised = False
    for row, question in zip(rows, asked, strict=True):
        if question not in would:
            continue
        low = row["low"]
        high = row["high"]
        middle = row["estimate"]
        known = low is not None and high is not None and middle is not None
        counted = typed[question].aggregate == "count"
        size = max(abs(middle or 0.0), average if counted else 0.0)
        if known and (high - low) / 2 <= max(WIDE * size, would[question]):
            continue
        advice = f"too wide to print: add {question!r} to numbers= before the next run"
        row["note"] = f"{row['note']}; {advice}" if row.get("note") else advice
        advised = True
    return pa.Table.from_pylist(rows, answer.schema) if advised else answer


def with_share_note(answer: pa.Table, whom: str) -> pa.Table:
    """The answer with a note that its shares are of all `whom`: numbers by groups are of the group."""
    rows = answer.to_pylist()
    for row in rows:
        row["note"] = "; ".join(
            filter(None, (row["note"], f"shares of all {whom}, not of a group"))
        )
    return pa.Table.from_pylist(rows, answer.schema)


def _count_width(number: TypedNumber, mu: float | None) -> float:
    """The half-width that a count would have at least as a number with its default share, in rows or
    users. 0 for what is no count. A user adds 1 or more, so noise is at least
    that of 1."""
    if number.aggregate != "count" or mu is None:
        return 0.0
    share = default_share([number])
    groups = 1 if number.one_group else min(number.groups, FEW_GROUPS)
    return NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(groups / share) / mu

"""Answers to questions about rows, in the schema's values, each with an interval and what its error
is made of.

`groups` estimates what a question asks of each group of cells. `answer_lines` gives every value its
line of the group that it lies in. `answer_table` makes intervals and notes of the lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np

from .._util.arrow import of_texts
from .._util.lazy import pa
from ..errors import UsageError
from .answer_lines import Lines, compared_lines, numbers_of_lines
from .answer_table import BOUND, answer_table
from .cell_layout import Layout
from .facts import MOST_CELLS, Facts
from .groups import COMPUTE
from .part_dates import FIRST, chosen_days
from .part_groups import DayGroups, groups_of, with_parts_named
from .question import Question, question


def answer(
    facts: Facts,
    of: str = "count",
    by: Sequence[str] | str = (),
    where: Mapping[str, Any] | None = None,
    level: float = 0.95,
    *,
    simultaneous: bool = False,
    minus: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
    population: bool = False,
    basis: str | None = None,
) -> pa.Table:
    """The table that `fastdp.Run.answer` describes."""
    names = groups_of(facts.schema, by)
    where = with_parts_named(facts.schema, where)
    options: dict[str, Any] = {
        "minus": minus,
        "over": over,
        "population": population,
        "basis": basis,
        "simultaneous": simultaneous,
    }
    for place, one in enumerate(names):
        if isinstance(one, DayGroups):
            rest = [other.name if isinstance(other, DayGroups) else other for other in names]
            return _by_days(
                facts=facts,
                of=of,
                by=rest,
                place=place,
                groups=one,
                where=where,
                level=level,
                options=options,
            )
    by = [name for name in names if isinstance(name, str)]
    _check_options(level, basis)
    asked = question(facts.schema, of, by, where)
    _check_cells(facts, asked)
    table = facts.table(asked.columns) or facts.guessed(asked.columns)
    layout = Layout(facts, asked, table, basis == BOUND)
    groups = COMPUTE[asked.kind](layout)
    lines = Lines.of(layout)
    numbers = numbers_of_lines(layout, groups, lines)
    if minus is not None and over is not None:
        raise UsageError("minus, over: give one of them, not both")
    compared = minus is not None or over is not None
    if compared:
        numbers = compared_lines(layout, groups, lines, numbers, minus, over)
    return answer_table(
        a=layout,
        lines=lines,
        n=numbers,
        level=float(level),
        jointly=simultaneous,
        population=population,
        compared=compared,
        unit=1.0 if over is not None else layout.unit,
    )


def _check_options(level: float, basis: str | None) -> None:
    if basis not in (None, BOUND):
        raise UsageError(f"basis: expected 'bound' or nothing, got {basis!r}")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise UsageError(f"level: expected a number between 0 and 1, got {level!r}")


def _check_cells(facts: Facts, asked: Question) -> None:
    """Raise UsageError if the answer, or the table that it is read from, has too many cells."""
    sizes = facts.schema.modelled
    rows = math.prod(sizes[c.name] for c in asked.by)
    merged = math.prod(facts.merged_size(a) for a in asked.columns)
    if max(rows, merged) > MOST_CELLS:
        cells = f"{max(rows, merged):,} cells, the limit is {MOST_CELLS:,}"
        raise UsageError(
            f"columns {', '.join(asked.columns)}: the answer would have {cells}; use fewer columns"
        )


def _by_days(
    facts: Facts,
    of: str,
    by: list[str],
    place: int,
    groups: DayGroups,
    where: Mapping[str, Any] | None,
    level: float,
    options: Mapping[str, Any],
) -> pa.Table:
    """The answer by groups of days, which are at `place` of `by`. Each group is an answer of its
    own, under the condition that a row's day is one of the group's."""
    if options["minus"] is not None or options["over"] is not None:
        raise UsageError(
            f"minus, over: groups of {groups.name} are several answers and have no common error; "
            f"compare parts that the schema counts"
        )
    rest = by[:place] + by[place + 1 :]
    where = dict(where or {})
    days = _days_where(facts, groups, where.pop(groups.field, None))
    if options["simultaneous"]:
        level = 1 - (1 - level) / len(days)
    tables = []
    for text, of_group in days.items():
        found = answer(facts, of, rest, where | {groups.field: of_group}, level, **options)
        column = of_texts([text] * found.num_rows)
        tables.append(found.add_column(place, groups.name, column))
    return pa.concat_tables(tables)


def _days_where(facts: Facts, groups: DayGroups, condition: Any) -> dict[str, list[date]]:
    """The groups' days that a condition on the same field leaves, of groups that it leaves any."""
    if condition is None:
        return groups.days
    field: Any = facts.schema.fields[groups.field]
    first, last = field.span
    span = np.arange(first, last + 1)
    chosen = chosen_days(field, condition, span)
    kept = {FIRST + timedelta(days=int(number)) for number in span[chosen]}
    left = {text: [day for day in days if day in kept] for text, days in groups.days.items()}
    left = {text: days for text, days in left.items() if days}
    if not left:
        raise UsageError(f"where, column {groups.field!r}: no day of its span is selected")
    return left

"""A question: a number per group of rows, read from arguments or from one line of text.

count | share | mean(COLUMN) | sum(COLUMN)
[by COLUMN, COLUMN]  [where COLUMN = VALUE and COLUMN in LOW..HIGH]

A column whose name holds words or signs of these stands in backticks, and such a value in quotes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ..errors import UsageError, did_you_mean
from ..schema import Schema
from ..schema.columns import Column
from ..schema.constraints import ordered_columns, sources_of
from ..schema.derived import Derived
from .part_dates import part_selections
from .values import After, Selection, select

_OF = re.compile(r"^\s*(count|share|mean|sum)\s*(?:\(\s*(.*?)\s*\))?\s*$")
FORMS = (
    "COLUMN = VALUE, COLUMN in A, B, COLUMN in LOW..HIGH (either end may be left out), or COLUMN with"
    " >=, >, < or <= and a number"
)
_CONDITION = re.compile(r"^\s*(.+?)\s*(>=|<=|>|<|(?<!!)==?|\bin\b)\s*(.+?)\s*$")
_QUOTED = re.compile(r"""`[^`]+`|(?<![^\s=<>,])('(?:[^']|'')*'|"(?:[^"]|"")*")(?=\s|,|$)""")
"""A column's name between backticks, or a whole value between quotes, which are doubled inside it."""
_HELD = re.compile("\0([0-9]+)\0")
_TEXT = re.compile(r"^(?P<of>.+?)(?:\s+by\s+(?P<by>.+?))?(?:\s+where\s+(?P<where>.+))?$", re.S)


class Question(Struct, frozen=True, eq=False):
    """`kind` of number, of the numbers in column `value` (mean and sum), per combination of the
    columns `by`, among the rows that `where` selects."""

    kind: str
    value: Column | None
    by: tuple[Column, ...]
    where: Mapping[str, Selection] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the answer depends on: those of `by`, those of `where` that select only
        some rows, and the one of numbers."""
        names = [c.name for c in self.by]
        names += [name for name, s in self.where.items() if name not in names and not s.everything]
        if self.value is not None and self.value.name not in names:
            names.append(self.value.name)
        return tuple(names)


def question(
    schema: Schema, of: str, by: Sequence[str] | str, where: Mapping[str, Any] | None
) -> Question:
    """The question in terms of the schema; UsageError says what is wrong with it."""
    match = _OF.match(of) if isinstance(of, str) else None
    if match is None:
        raise UsageError(
            f"of: expected 'count', 'share', 'mean(COLUMN)' or 'sum(COLUMN)', got {of!r}; other numbers,"
            " such as 'median(sum(x)) per user', are asked for before a run (numbers=)"
        )
    kind = match[1]
    name = match[2] if match[2] in schema.columns else _bare(match[2] or "")
    if (kind in ("mean", "sum")) != bool(name):
        raise UsageError(
            f"of: {kind} takes {'a' if kind in ('mean', 'sum') else 'no'} column, got {of!r}"
        )
    names = (by,) if isinstance(by, str) else tuple(by)
    if len(set(names)) != len(names):
        raise UsageError(f"by: a column is named twice in {names!r}; name each column once")
    columns = tuple(_column(schema, n, "by") for n in names)
    value = _column(schema, name, "of") if name else None
    if value is not None and value.name in names:
        raise UsageError(
            f"of: column {value.name!r} is also in `by`, so it is constant; remove it from one"
        )
    if where is not None and not isinstance(where, Mapping):
        raise UsageError(
            f"where: expected a mapping from column to value, list or range, got {where!r}"
        )
    selected: dict[str, Selection] = {}
    for own, condition in (where or {}).items():
        for part, selection in _selected(schema, own, condition).items():
            if part in selected:
                raise UsageError(f"where: {part!r} is part of {own!r}; name one of them")
            selected[part] = selection
    return Question(kind, value, columns, selected)


def _selected(schema: Schema, name: Any, condition: Any) -> dict[str, Selection]:
    """What one condition selects, by column: dates of a time that is counted in parts are
    conditions on its parts."""
    field = schema.fields.get(name) if isinstance(name, str) else None
    if isinstance(field, Derived) and field.calendar and name not in schema.columns:
        return part_selections(field, condition)
    return {name: select(_column(schema, name, "where"), condition)}


def _column(schema: Schema, name: Any, where: str) -> Column:
    field = schema.fields.get(name) if isinstance(name, str) else None
    if isinstance(field, Derived):
        parts = [p.name for p in field.parts]
        if name not in parts:
            raise UsageError(
                f"{where}: {name!r} is counted in parts; use {' or '.join(parts)} instead"
            )
    if name not in schema.columns:
        more = did_you_mean(name, schema.columns) if isinstance(name, str) else ""
        raise UsageError(f"{where}: the schema has no column {name!r}{more}")
    if name not in schema.modelled:
        counted = ", ".join(_counted_sources(schema, name))
        raise UsageError(
            f"{where}: {name!r} is computed and not counted; ask about its sources, {counted}"
        )
    return schema.columns[name]


def _counted_sources(schema: Schema, name: str) -> list[str]:
    """The columns of the model that a column is computed from, directly or through other computed
    ones."""
    if name in schema.modelled:
        return [name]
    rules = [
        c for c in schema.constraints if c.column and name in ordered_columns(schema, c.column)
    ]
    sources = [source for rule in rules for source in sources_of(schema, rule)]
    return list(
        dict.fromkeys(counted for source in sources for counted in _counted_sources(schema, source))
    )


def parsed(text: str) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """(of, by, where) of one line, for the command line: "mean(fare) by company where payment =
    Card"."""
    masked, quoted = _masked(text.strip())
    match = _TEXT.match(masked)
    if match is None:
        raise UsageError(f"expected COUNT [by COLUMNS] [where CONDITIONS], got {text!r}")
    names = (_unmasked(name.strip(), quoted) for name in (match["by"] or "").split(","))
    by = tuple(_bare(name) for name in names if name)
    where = match["where"]
    return (
        _unmasked(match["of"], quoted),
        by,
        conditions(None if where is None else _unmasked(where, quoted)),
    )


def _masked(text: str) -> tuple[str, list[str]]:
    """A line in which a place holder stands for all that is quoted, so that it can be divided at
    words and signs; what is quoted, in order."""
    quoted: list[str] = []

    def place_holder(found: re.Match[str]) -> str:
        quoted.append(found[0])
        return f"\0{len(quoted) - 1}\0"

    return _QUOTED.sub(place_holder, text.replace("\0", " ")), quoted


def _unmasked(text: str, quoted: Sequence[str]) -> str:
    return _HELD.sub(lambda found: quoted[int(found[1])], text)


def _bare(name: str) -> str:
    """The name of a column without the backticks around it."""
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] == "`" else name


def conditions(text: str | None) -> dict[str, Any]:
    """`where` of a line, for the command line: "payment = Card and hour in 6..9". A column may have
    two ends: "age >= 18 and age < 65"."""
    where: dict[str, Any] = {}
    ends: dict[str, list[Any]] = {}
    masked, quoted = _masked(text or "")
    for part in re.split(r"\s+and\s+", masked) if masked else ():
        found = _CONDITION.match(part)
        if found is None:
            raise UsageError(f"where: expected {FORMS}, got {_unmasked(part, quoted)!r}")
        name, sign, text_of = found.groups()
        name = _bare(_unmasked(name, quoted))
        side = {"<": 1, ">": 0}.get(sign[0])
        free = name in ends and side is not None and ends[name][side] is None
        if name in where and not free:
            raise UsageError(f"where: {name!r} has two conditions; write one: {FORMS}")
        if side is None:
            where[name] = _span(text_of, quoted) if sign == "in" else _value(text_of, quoted)
            continue
        both = ends.setdefault(name, [None, None])
        both[side] = _end(sign, _value(text_of, quoted))
        where[name] = tuple(both)
    return where


def _end(sign: str, value: Any) -> Any:
    """The end of a range: it holds its start and not its end, so `>` and `<=` are right after."""
    if sign in (">=", "<"):
        return value
    if not isinstance(value, int | float):
        raise UsageError(f"where: {sign} takes a number, got {value!r}; of dates write >= or <")
    return After(value)


def _span(text: str, quoted: Sequence[str]) -> Any:
    low, dots, high = text.partition("..")
    if not dots:
        return [_value(v.strip(), quoted) for v in text.split(",")]
    return (
        _value(low.strip(), quoted) if low.strip() else None,
        _value(high.strip(), quoted) if high.strip() else None,
    )


def _value(text: str, quoted: Sequence[str]) -> Any:
    text = _unmasked(text, quoted)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace(text[0] * 2, text[0])
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text == "null" else text

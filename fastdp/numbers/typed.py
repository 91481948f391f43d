"""Types of numbers: what a question means under a public schema, and whether it can be measured.

Everything here follows from the question and the schema, so all errors come before any charge and
before data is read. Values are whole numbers of public units: amounts in decimal steps, dates in
days, times in seconds on the local clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from decimal import Decimal
from functools import cached_property
from itertools import product
from typing import Any

from msgspec import Struct, structs

from ..errors import UsageError, did_you_mean
from ..schema import Schema, epoch
from ..schema.amounts import Amount
from ..schema.columns import Column as CodeColumn, Part
from . import language
from .language import (
    DURATIONS,
    Aggregate,
    Arithmetic,
    Column,
    Comparison,
    Constant,
    Logical,
    Membership,
    Missing,
    Node,
    Not,
    Number,
)

MOST_GROUPS = 1 << 14
SMALLEST_UNIT = Decimal("1e-9")
DAY = 86_400
NUMERIC = ("number", "days", "seconds")
"""Kinds of values that can be added up: plain numbers, and durations."""
POINTS = ("date", "time")
ONE = Decimal(1)


class Type(Struct, frozen=True):
    """kind: number, days, seconds (durations), date, time (points), category, truth or text; unit:
    what a whole number 1 stands for; level: "row", "user" or "constant"; signed: whether values
    below zero can occur; column: of a category."""

    kind: str
    level: str
    unit: Decimal = ONE
    signed: bool = True
    column: str = ""


class TypedNumber(Struct, frozen=True, eq=False, dict=True):
    """A question with its public facts.

    kind: "truth" (values 0 and 1), "count", "number", "days" or "seconds"; unit: what a whole
    number 1 of a user's value stands for; signed: whether values below zero can occur by the
    schema; amounts: the fields that are read as exact numbers; one_group: whether each user is in
    one group at most; private: fields whose values the run finds.
    """

    number: Number
    schema: Schema
    kind: str
    unit: Decimal
    signed: bool
    one_group: bool
    amounts: tuple[str, ...]
    private: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.number.text or language.render(self.number)

    @property
    def aggregate(self) -> str:
        return self.number.aggregate

    @property
    def of(self) -> str:
        return self.number.of

    @property
    def q(self) -> Decimal | None:
        return self.number.q

    @property
    def by(self) -> tuple[str, ...]:
        return self.number.by

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of codes of each `by` column."""
        return tuple(self.schema.columns[name].size for name in self.by)

    @property
    def groups(self) -> int:
        """The number of public groups; 1 without `by`."""
        return math.prod(self.shape)

    def labels(self) -> list[tuple[str, ...]]:
        """For each group, the text of each `by` column; in C order over the codes."""
        return list(product(*(self.schema.columns[name].labels() for name in self.by)))

    def canonical(self) -> str:
        """The question in the grammar's own spelling: equal questions have equal texts."""
        return language.render(language.parse(self.text))


class Types:
    """Infers the types of the parts of one number."""

    def __init__(self, number: Number, schema: Schema, private: Collection[str] = ()):
        self.number, self.schema, self.private = number, schema, frozenset(private)
        self.amounts: dict[str, Amount] = {}

    def fail(self, node: Any, why: str) -> UsageError:
        return language.error(self.number.text, getattr(node, "at", 0), why)

    def column(self, node: Column) -> Type:
        """The type of a column's value in one row."""
        name = node.name
        if name in self.schema.fields:
            field = self.schema.fields[name]
            amount = field.amount()
            if amount is not None:
                self.amounts[name] = amount
                kind, unit = amount.kind, amount.step
                return Type(kind, "row", unit, not amount.unsigned, name)
            return Type("category", "row", column=name)
        part = self.schema.columns.get(name)
        if part is None:
            known = dict.fromkeys([*self.schema.columns, *self.schema.fields])
            meant = did_you_mean(name, known)
            listed = f"; it has {', '.join(list(known)[:20])}" if not meant else ""
            raise self.fail(node, f"the schema has no column {name!r}{meant}{listed}")
        if isinstance(part, Part) and part.texts is None:
            return Type("number", "row", ONE, part.first < 0, name)
        return Type("category", "row", column=name)

    def of(self, node: Node) -> Type:
        """The type of a node; UsageError where its parts do not fit."""
        match node:
            case Column():
                return self.column(node)
            case Constant(value=str()):
                return Type("text", "constant")
            case Constant(value=value, unit=unit):
                return self.constant(node, Decimal(value), unit)
            case Aggregate():
                return self.aggregate(node)
            case Arithmetic():
                return self.arithmetic(node)
            case Comparison(left=left, right=right):
                a, b = self.comparable(node, left, right)
                return Type("truth", _level(a, b), signed=False)
            case Membership(operand=operand, values=values):
                types = [self.comparable(node, operand, value)[0] for value in values]
                return Type("truth", _level(*types), signed=False)
            case Missing(operand=operand):
                inner = self.of(operand)
                if inner.kind == "truth":
                    raise self.fail(node, "a condition is never null; compare a value with null")
                return Type("truth", inner.level, signed=False)
            case Logical(items=items):
                return Type("truth", _level(*map(self.truth, items)), signed=False)
            case Not(item=item):
                return self.truth(item)
        raise TypeError(type(node).__name__)

    def constant(self, node: Node, value: Decimal, unit: str) -> Type:
        if unit:
            if (value * DURATIONS[unit]) % 1:
                raise self.fail(node, "durations must be whole seconds")
            return Type("seconds", "constant", ONE, value < 0)
        exponent = int(value.normalize().as_tuple().exponent)
        step = ONE.scaleb(min(exponent, 0))
        if step < SMALLEST_UNIT or abs(value) / step > 1 << 40:
            raise self.fail(node, "the number has too many digits; the limit is about 12")
        return Type("number", "constant", step, value < 0)

    def truth(self, node: Node) -> Type:
        found = self.of(node)
        if found.kind != "truth":
            is_bool = found.kind == "category" and self._is_bool(found.column)
            hint = f"; write {found.column} = true" if is_bool else ", such as rows > 1"
            raise self.fail(node, f"expected a condition{hint}")
        return found

    def _is_bool(self, name: str) -> bool:
        column = self.schema.columns.get(name)
        return column is not None and column.dtype == "bool"

    def aggregate(self, node: Aggregate) -> Type:
        function, argument = node.function, node.argument
        if argument is None:
            return Type("number", "user", ONE, False)
        if function == "any":
            if self.truth(argument).level != "row" or _aggregates(argument):
                raise self.fail(node, "any() takes a condition on rows, such as any(amount > 5)")
            return Type("truth", "user", signed=False)
        if _aggregates(argument):
            raise self.fail(node, f"{function}() aggregates rows, and has a value of a user inside")
        inner = self.of(argument)
        if inner.level != "row":
            raise self.fail(node, f"{function}() takes a column of rows, not values of users")
        if function == "distinct":
            return Type("number", "user", ONE, False)
        if function in ("first", "last"):
            if not self.schema.order and inner.kind == "category":
                raise self.fail(
                    node,
                    f"{function}() of {inner.column!r} needs an order of rows; set order in the "
                    "schema's [user], or use any()",
                )
            for name in self.schema.order:
                self.column(Column(name))
            return Type(inner.kind, "user", inner.unit, inner.signed, inner.column)
        if inner.kind not in NUMERIC and not (inner.kind in POINTS and function in ("min", "max")):
            raise self.fail(
                node,
                f"{function}() needs numbers, got {_said(inner)}; use first(), last() or any()",
            )
        return Type(inner.kind, "user", inner.unit, inner.signed)

    def arithmetic(self, node: Arithmetic) -> Type:
        a, b = self.of(node.left), self.of(node.right)
        level = _level(a, b)
        bad = self.fail(node, f"cannot compute {_said(a)} {node.op} {_said(b)}")
        if node.op == "*":
            if "number" not in (a.kind, b.kind) or not {a.kind, b.kind} <= set(NUMERIC):
                raise bad
            kind = b.kind if a.kind == "number" else a.kind
            unit = a.unit * b.unit
            if unit < SMALLEST_UNIT:
                raise self.fail(node, "the product has too many decimals; round a column (digits)")
            return Type(kind, level, unit, a.signed or b.signed)
        unit = min(a.unit, b.unit)
        signed = True if node.op == "-" else a.signed or b.signed
        if a.kind in POINTS and b.kind in POINTS and node.op == "-" and a.kind == b.kind:
            kind = "days" if a.kind == "date" else "seconds"
            return Type(kind, level, ONE, not self.ordered(node))
        if a.kind in POINTS and b.kind in ("days", "seconds"):
            self.duration_fits(node, a, b)
            return Type(a.kind, level)
        if a.kind == b.kind and a.kind in NUMERIC:
            return Type(a.kind, level, unit, signed and not self.ordered(node))
        if {a.kind, b.kind} == {"days", "seconds"}:
            self.duration_fits(node, a, b)
            return Type("days", level, ONE, signed)
        raise bad

    def ordered(self, node: Arithmetic) -> bool:
        """Whether a difference cannot be negative: `max(x) - min(x)`, or `last(x) - first(x)` where
        the rows are in the order of x."""
        match language.unplaced(node):
            case Arithmetic("-", Aggregate(late, Column() as a), Aggregate(early, Column() as b)):
                leads = not self.schema.order or self.schema.order[0] == a.name
                pairs = {("max", "min")} | ({("last", "first")} if leads else set())
                return a == b and (late, early) in pairs
        return False

    def duration_fits(self, node: Any, a: Type, b: Type) -> None:
        """A duration beside dates or days must be whole days."""
        if "seconds" not in (a.kind, b.kind) or {a.kind, b.kind} & {"time"}:
            return
        constants = [n for n in (node.left, node.right) if isinstance(n, Constant) and n.unit]
        if not constants or seconds_of(constants[0]) % DAY:
            raise self.fail(node, "dates differ by whole days: write the duration in days or weeks")

    def comparable(self, node: Any, left: Node, right: Node) -> tuple[Type, Type]:
        """The types of two values that may be compared; a text takes the type of the other."""
        a, b = self.of(left), self.of(right)
        if b.kind == "text" and a.kind != "text":
            return a, self.text(node, right, a)
        if a.kind == "text" and b.kind != "text":
            return self.text(node, left, b), b
        same = a.kind == b.kind and a.kind in (*NUMERIC, *POINTS)
        if {a.kind, b.kind} == {"days", "seconds"}:
            pair = Arithmetic("-", left, right, getattr(node, "at", 0))
            self.duration_fits(pair, a, b)
            return a, b
        if not same:
            hint = ""
            if {a.kind, b.kind} in ({"days", "number"}, {"seconds", "number"}):
                hint = "; write a duration with its unit, such as 30 days"
            raise self.fail(node, f"cannot compare {_said(a)} with {_said(b)}{hint}")
        return a, b

    def text(self, node: Any, constant: Node, other: Type) -> Type:
        """The type that a text has beside another value; UsageError if it is no value of it."""
        text = str(getattr(constant, "value", ""))
        if other.kind in POINTS:
            if point(text, other.kind) is None:
                raise self.fail(constant, f"{text!r} is not a date or time such as '2024-02-01'")
            return Type(other.kind, "constant")
        if other.kind == "category":
            if isinstance(node, Comparison) and node.op not in ("=", "!="):
                raise self.fail(node, f"values of {other.column!r} have no order; use = or in")
            known = other.column in self.private or code_of(self.schema, other.column, text) >= 0
            if not known:
                labels = self.schema.columns[other.column].base_labels()
                raise self.fail(
                    constant, f"{other.column!r} has no value {text!r}{did_you_mean(text, labels)}"
                )
            return Type("category", "constant", column=other.column)
        raise self.fail(constant, f"cannot compare {_said(other)} with the text {text!r}")


def _aggregates(node: Node) -> bool:
    return any(isinstance(inside, Aggregate) for inside in nodes(node))


def _level(*types: Type) -> str:
    levels = {t.level for t in types}
    return next((level for level in ("row", "user") if level in levels), "constant")


def _said(found: Type) -> str:
    words = {"category": f"values of {found.column!r}", "truth": "a condition", "text": "a text"}
    words |= {"date": "a date", "time": "a time", "days": "a duration", "seconds": "a duration"}
    return words.get(found.kind, "a number")


def seconds_of(constant: Constant) -> int:
    """A duration in seconds."""
    return int(Decimal(constant.value) * DURATIONS[constant.unit])


def point(text: str, kind: str) -> int | None:
    """Days (dates) or seconds (times) since 1970 that a text spells; None if it spells none."""
    try:
        passed = epoch.since_1970(text, "s", None)
    except (ValueError, OverflowError):
        return None
    return passed // DAY if kind == "date" else passed


def code_of(schema: Schema, name: str, text: str) -> int:
    """The code of a value, given as text, of a column; -1 if it has none."""
    column = schema.columns[name]
    truths = {"true": True, "false": False} if column.dtype == "bool" else {}
    code = column.code_of(truths.get(text.lower(), text))
    if code is None:
        labels = column.labels()
        code = labels.index(text) if text in labels else None
    return -1 if code is None else code


def nodes(node: Node | None) -> Iterator[Node]:
    """A node and all nodes inside it."""
    if node is None:
        return
    yield node
    for name in node.__struct_fields__:
        value = getattr(node, name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Struct):
                yield from nodes(inner)  # type: ignore[arg-type]


def check(number: Number | str, schema: Schema, private: Collection[str] = ()) -> TypedNumber:
    """The number under a schema; UsageError says what does not fit, and where in its text.

    private: columns whose values the run finds, of which no list is public yet.
    """
    if isinstance(number, str):
        number = language.parse(number)
    number = _with_parts(number, schema)
    types = Types(number, schema, private)
    found = _of_rows(types, number) if number.of == "rows" else _of_users(types, number)
    if number.where is not None:
        level = types.truth(number.where).level
        if number.of == "users" and level == "row":
            _user_columns(types, number.where)
    one_group = _check_groups(types, number)
    amounts = tuple(sorted(types.amounts))
    return TypedNumber(
        number, schema, found.kind, found.unit, found.signed, one_group, amounts, tuple(private)
    )


PART_OF = re.compile(r"(\w+)\((.+)\)")
"""A group such as month(date)."""


def _with_parts(number: Number, schema: Schema) -> Number:
    """The number with month(date) after `by` in place as the column that the schema counts months
    in."""
    names = []
    for name in number.by:
        match = None if name in schema.columns else PART_OF.fullmatch(name)
        names.append(name if match is None else _part_column(number, schema, match[1], match[2]))
    if len(set(names)) < len(names):
        raise UsageError(f"number {number.text!r}: a column stands twice after 'by'")
    return structs.replace(number, by=tuple(names))


def _part_column(number: Number, schema: Schema, part: str, name: str) -> str:
    field = schema.fields.get(name)
    counted = () if field is None else field.parts
    parts = {one.part: one.name for one in counted if isinstance(one, Part)}
    if part in parts:
        return parts[part]
    if field is None:
        why = f"there is no column {name!r}{did_you_mean(name, schema.fields)}"
    elif not parts:
        why = f"{name!r} is not counted in parts; give the schema a timestamp with parts"
    else:
        why = (
            f"the schema counts no {part} of {name!r}; it counts {', '.join(parts)}. Add {part} to "
            f"its parts"
        )
    raise UsageError(f"number {number.text!r}: {part}({name}) after 'by': {why}")


def _of_rows(types: Types, number: Number) -> Type:
    if number.aggregate == "count":
        return Type("count", "row", ONE, False)
    if number.aggregate == "share":
        return Type("truth", "row", ONE, False)
    assert number.value is not None
    found = types.of(number.value)
    per_user = "add 'per user' to aggregate values of users"
    if _aggregates(number.value):
        raise types.fail(number.value, f"this is a value of a user: {per_user}")
    if found.level == "constant":
        raise types.fail(number.value, "expected a column, got a constant")
    if number.aggregate == "quantile":
        raise types.fail(
            number.value,
            "quantiles are measured of users: aggregate rows first, as in "
            f"median(sum({language.render_node(number.value)})) per user",
        )
    if found.kind not in NUMERIC:
        raise types.fail(number.value, f"{number.aggregate}() needs numbers, got {_said(found)}")
    return found


def _of_users(types: Types, number: Number) -> Type:
    if number.aggregate in ("count", "share"):
        return Type("truth", "user", ONE, False)
    assert number.value is not None
    found = types.of(number.value)
    if found.kind == "truth":
        raise types.fail(number.value, "a condition has no sum: ask for 'share of users where ...'")
    if found.level == "constant":
        raise types.fail(number.value, "expected a value of a user, got a constant")
    if found.level == "row":
        _user_columns(types, number.value)
    if found.kind not in NUMERIC:
        raise types.fail(number.value, f"{number.aggregate}() needs numbers, got {_said(found)}")
    return found


def _user_columns(types: Types, node: Node) -> None:
    """A column in a number of users must be one that is constant for each user, or stand inside an
    aggregate."""
    inside = {id(n) for a in nodes(node) if isinstance(a, Aggregate) for n in nodes(a.argument)}
    for bare in nodes(node):
        if isinstance(bare, Column) and id(bare) not in inside and not is_constant(types, bare):
            name = bare.name
            raise types.fail(
                bare,
                f"{name!r} has a value in each row, and the number is of users: aggregate it, as "
                f"in first({name}), sum({name}) or any({name} = ...), or declare it user = "
                "'constant' in the schema",
            )
    for name in types.schema.order:  # of a column that is not constant after all, the first counts
        types.column(Column(name))


def is_constant(types: Types, column: Column) -> bool:
    """Whether the schema declares that a column has one value for each user."""
    name = column.name
    found: Any = types.schema.fields.get(name) or types.schema.columns.get(name)
    return types.schema.user is None or getattr(found, "user", None) == "constant"


def _check_groups(types: Types, number: Number) -> bool:
    """Check the columns after `by`; whether each user is in one group at most."""
    schema, cells, one = types.schema, 1, True
    for name, pick in zip(number.by, number.pick, strict=True):
        column: CodeColumn | None = schema.columns.get(name)
        if column is None:
            field = schema.fields.get(name)
            parts = [] if field is None else [part.name for part in field.parts]
            hint = f"; its columns are {', '.join(parts)}" if parts else ""
            hint = hint or did_you_mean(name, schema.columns)
            raise UsageError(
                f"number {number.text!r}: there is no column {name!r} to group by{hint}"
            )
        if pick and number.of == "rows":
            raise UsageError(
                f"number {number.text!r}: {pick}({name}) groups users, and the number is of rows"
            )
        if pick and not schema.order and not is_constant(types, Column(name)):
            raise UsageError(
                f"number {number.text!r}: {pick}({name}) needs an order of rows; set order in the "
                "schema's [user]"
            )
        one = one and (bool(pick) or is_constant(types, Column(name)))
        cells *= column.size
    if cells > MOST_GROUPS:
        raise UsageError(
            f"number {number.text!r}: it has {cells} groups, the limit is {MOST_GROUPS}; group by "
            "fewer columns, or by coarser ones"
        )
    if any(number.pick) or (number.of == "users" and number.by):
        for name in schema.order:
            types.column(Column(name))
    return one or schema.user is None


def columns_of(number: TypedNumber) -> tuple[str, ...]:
    """The code columns that a number reads; fields in `amounts` are read as exact numbers."""
    asked = number.number
    inside = [node for part in (asked.value, asked.where) for node in nodes(part)]
    named = [node.name for node in inside if isinstance(node, Column)]
    names = dict.fromkeys([*named, *asked.by, *number.schema.order])
    return tuple(name for name in names if name in number.schema.columns)

"""Types of the parts of a number under a public schema: units, signs, and what can be compared."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..errors import UsageError, did_you_mean
from ..schema import Schema, epoch
from ..schema.amounts import Amount
from ..schema.columns import Part
from ..schema.epoch import DAY_SECONDS
from .number_nodes import (
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
    error,
    nodes,
    unplaced,
)

SMALLEST_UNIT = Decimal("1e-9")
NUMERIC = ("number", "days", "seconds")
"""Kinds of values that can be added up: plain numbers, and durations."""
POINTS = ("date", "time")
ONE = Decimal(1)


class Type(Struct, frozen=True):
    """What an expression gives.

    kind : number, days, seconds (durations), date, time (points), category, truth or text
    unit : what a whole number 1 stands for
    level : "row", "user" or "constant"
    signed : whether values below zero can occur
    column : of a category
    """

    kind: str
    level: str
    unit: Decimal = ONE
    signed: bool = True
    column: str = ""


class Types:
    """Infers the types of the parts of one number."""

    def __init__(self, number: Number, schema: Schema, private: Collection[str] = ()):
        self.number = number
        self.schema = schema
        self.private = frozenset(private)
        self.not_negative = _not_negative(number.where)
        self.amounts: dict[str, Amount] = {}

    def fail(self, node: Any, why: str) -> UsageError:
        return error(self.number.text, getattr(node, "at", 0), why)

    def column(self, node: Column) -> Type:
        """The type of a column's value in one row."""
        name = node.name
        if name in self.schema.fields:
            field = self.schema.fields[name]
            amount = field.amount()
            if amount is not None:
                self.amounts[name] = amount
                kind = amount.kind
                unit = amount.step
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
        found = self._of(node)
        if found.signed and self.not_negative and unplaced(node) in self.not_negative:
            return replace(found, signed=False)
        return found

    def _of(self, node: Node) -> Type:
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
            if self.truth(argument).level != "row" or has_aggregates(argument):
                raise self.fail(node, "any() takes a condition on rows, such as any(amount > 5)")
            return Type("truth", "user", signed=False)
        if has_aggregates(argument):
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
                f"{function}() needs numbers, got {said(inner)}; use first(), last() or any()",
            )
        return Type(inner.kind, "user", inner.unit, inner.signed)

    def arithmetic(self, node: Arithmetic) -> Type:
        a, b = self.of(node.left), self.of(node.right)
        level = _level(a, b)
        bad = self.fail(node, f"cannot compute {said(a)} {node.op} {said(b)}")
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
        match unplaced(node):
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
        if not constants or seconds_of(constants[0]) % DAY_SECONDS:
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
            raise self.fail(node, f"cannot compare {said(a)} with {said(b)}{hint}")
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
        raise self.fail(constant, f"cannot compare {said(other)} with the text {text!r}")


def _not_negative(where: Node | None) -> list[Node]:
    """Values that are not below zero wherever a condition holds: x where x > 0, -x where x < 0."""
    together = where.items if isinstance(where, Logical) and where.op == "and" else (where,)
    found = []
    for one in together:
        match one:
            case Comparison(op, value, Constant(Decimal() as end)):
                pass
            case Comparison(op, Constant(Decimal() as end), value):
                op = op.translate(MIRRORED)
            case _:
                continue
        if end >= 0 and op in (">", ">=", "="):
            found.append(unplaced(value))
        if end <= 0 and op in ("<", "<=", "="):
            found.append(unplaced(Arithmetic("*", Constant(Decimal(-1)), value)))
    return found


MIRRORED = str.maketrans("<>", "><")


def has_aggregates(node: Node) -> bool:
    return any(isinstance(inside, Aggregate) for inside in nodes(node))


def _level(*types: Type) -> str:
    levels = {t.level for t in types}
    return next((level for level in ("row", "user") if level in levels), "constant")


def said(found: Type) -> str:
    words = {
        "category": f"values of {found.column!r}",
        "truth": "a condition",
        "text": "a text",
        "date": "a date",
        "time": "a time",
        "days": "a duration",
        "seconds": "a duration",
    }
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
    return passed // DAY_SECONDS if kind == "date" else passed


def code_of(schema: Schema, name: str, text: str) -> int:
    """The code of a value, given as text, of a column; -1 if it has none."""
    column = schema.columns[name]
    truths = {"true": True, "false": False} if column.dtype == "bool" else {}
    code = None if column.covers_many else column.code_of(truths.get(text.lower(), text))
    if code is None:
        labels = column.labels()
        code = labels.index(text) if text in labels else None
    return -1 if code is None else code

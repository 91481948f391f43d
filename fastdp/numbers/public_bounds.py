"""What the schema lets a user have in a number: interval arithmetic over its public bounds.

A user has at most `max_rows` rows (without a user column: one). A column of whole numbers lies
between its `min` and `max`, a column of numbers where both are stated, dates between the first and
the last day. Nothing is cut off at these bounds: they end claims about users whom noise hides.
"""

from __future__ import annotations

import math
from decimal import Decimal

from ..schema.columns import Part
from ..schema.epoch import DAY_SECONDS
from .number_nodes import Aggregate, Arithmetic, Column, Constant, Node
from .number_types import POINTS, Types, seconds_of
from .typed import TypedNumber

LARGEST = 1 << 40
"""Bounds of more units say nothing: values saturate here."""

Range = tuple[Decimal, Decimal]
"""The least and the largest value, in the unit of the kind: 1, days or seconds."""


def most_rows(number: TypedNumber) -> int | None:
    """Rows that a user has at most; None where the run finds a part of its schema."""
    if number.private:
        return None
    return 1 if number.schema.user is None else number.schema.max_rows_per_user


def most_of_user(number: TypedNumber, edges: bool = False) -> int | None:
    """What a user has at most in a number, of either sign, in whole units; by group: the length of
    the vector of what it has. None: the schema has no bound. edges: take those of bins as bounds,
    which they are not, but where the owner thinks that values lie."""
    rows = most_rows(number)
    if number.of == "users":
        most = _of_users(number, rows, edges)
    elif rows is None:
        return None
    elif number.aggregate in ("count", "share"):
        most = Decimal(rows)
    else:
        assert number.number.value is not None
        row = _Bounds(number, rows, edges).of(number.number.value)
        most = None if row is None else rows * max(abs(end) for end in row)
    if most is None:
        return None
    units = math.ceil(most / number.unit)
    return units if 1 <= units <= LARGEST else None


def _of_users(number: TypedNumber, rows: int | None, edges: bool) -> Decimal | None:
    """The same for a number of users. In many groups a user has as much in each of them at most."""
    if number.number.value is None:
        return None
    found = None if number.private else _Bounds(number, rows, edges).of(number.number.value)
    if found is None:
        return None
    most = max(abs(end) for end in found)
    if number.one_group or not number.by:
        return most
    groups = number.groups if rows is None else min(number.groups, rows)
    return most * Decimal(groups).sqrt()


class _Bounds:
    """Ranges of the parts of one number."""

    def __init__(self, number: TypedNumber, rows: int | None, edges: bool):
        self.types = Types(number.number, number.schema)
        self.schema = number.schema
        self.rows = rows
        self.edges = edges

    def of(self, node: Node) -> Range | None:
        """The range of a value; None if it has no public bounds."""
        match node:
            case Column(name=name):
                return self.column(name)
            case Constant(value=Decimal() as value, unit=unit):
                value = Decimal(seconds_of(node)) if unit else value
                return value, value
            case Aggregate():
                return self.aggregate(node)
            case Arithmetic():
                return self.arithmetic(node)
        return None

    def column(self, name: str) -> Range | None:
        field = self.schema.fields.get(name)
        if field is not None:
            bounds = field.public_range()
            bins = getattr(field, "in_bins", None)
            if bounds is None and self.edges and bins is not None:
                bounds = bins.edges[0], bins.edges[-1]
            if bounds is None or not all(map(math.isfinite, bounds)):
                return None
            return Decimal(str(bounds[0])), Decimal(str(bounds[1]))
        part = self.schema.columns.get(name)
        if isinstance(part, Part) and part.texts is None:
            return Decimal(part.first), Decimal(part.first + part.base - 1)
        return None

    def aggregate(self, node: Aggregate) -> Range | None:
        zero = Decimal(0)
        if node.argument is None or node.function == "distinct":
            return None if self.rows is None else (zero, Decimal(self.rows))
        inner = self.of(node.argument)
        if inner is None or node.function != "sum":
            return inner
        if self.rows is None:
            return None
        return self.rows * min(inner[0], zero), self.rows * max(inner[1], zero)

    def arithmetic(self, node: Arithmetic) -> Range | None:
        left, right = self.of(node.left), self.of(node.right)
        if left is None or right is None:
            return None
        if node.op == "*":
            ends = [a * b for a in left for b in right]
            return min(ends), max(ends)
        a, b = self.types.of(node.left).kind, self.types.of(node.right).kind
        left, right = self._seconds_in_days(a, left, b), self._seconds_in_days(b, right, a)
        if a == "time" and b == "days":
            right = right[0] * DAY_SECONDS, right[1] * DAY_SECONDS
        if node.op == "+":
            return left[0] + right[0], left[1] + right[1]
        least = left[0] - right[1]
        if a in POINTS and self.types.ordered(node):
            least = max(least, Decimal(0))
        return least, left[1] - right[0]

    def _seconds_in_days(self, kind: str, found: Range, beside: str) -> Range:
        """Durations in seconds beside dates or days are whole days."""
        if kind == "seconds" and beside in ("date", "days"):
            return found[0] / DAY_SECONDS, found[1] / DAY_SECONDS
        return found

"""Types of numbers: what a question means under a public schema, and whether it can be measured.

Everything here follows from the question and the schema, so all errors come before any charge and
before data is read. Values are whole numbers of public units: amounts in decimal steps, dates in
days, times in seconds on the local clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from decimal import Decimal
from functools import cached_property
from itertools import product
from typing import Any

from msgspec import Struct, structs

from ..errors import UsageError, did_you_mean
from ..schema import Schema
from ..schema.columns import Column as CodeColumn, Part
from . import language, number_text
from .number_nodes import Aggregate, Column, Node, Number, nodes
from .number_types import NUMERIC, ONE, Type, Types, has_aggregates, said

MOST_GROUPS = 1 << 14
"""The most groups of one number (`by`): its vector has some numbers for each of them."""
FAMILIES = {"sum": "sum", "count": "sum", "mean": "mean", "share": "mean", "quantile": "quantile"}
"""How each aggregate is measured."""


class TypedNumber(Struct, frozen=True, eq=False, dict=True):
    """A question with its public facts.

    kind : "truth" (values 0 and 1), "count", "number", "days" or "seconds"
    unit : what a whole number 1 of a user's value stands for
    signed : whether values below zero can occur by the schema
    amounts : the fields that are read as exact numbers
    one_group : whether each user is in one group at most
    private : fields whose values the run finds
    weight : how many times as much its error matters as that of the rows
    """

    number: Number
    schema: Schema
    kind: str
    unit: Decimal
    signed: bool
    one_group: bool
    amounts: tuple[str, ...]
    private: tuple[str, ...] = ()
    weight: float = 1.0

    @property
    def text(self) -> str:
        return self.number.text or number_text.render(self.number)

    @property
    def aggregate(self) -> str:
        return self.number.aggregate

    @property
    def of(self) -> str:
        return self.number.of

    @property
    def family(self) -> str:
        """How it is measured: by one of FAMILIES, or "people": users are counted."""
        if self.of == "users" and self.aggregate in ("count", "share"):
            return "people"
        return FAMILIES[self.aggregate]

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
        return number_text.render(language.parse(self.text))


def check(number: Number | str, schema: Schema, private: Collection[str] = ()) -> TypedNumber:
    """The number under a schema; UsageError says what does not fit, and where in its text.

    private: columns whose values the run finds, of which no list is public yet.
    """
    if isinstance(number, str):
        number = language.parse(number)
    number = with_parts(number, schema)
    types = Types(number, schema, private)
    found = _of_rows(types, number) if number.of == "rows" else _of_users(types, number)
    if number.where is not None:
        level = types.truth(number.where).level
        if number.of == "users" and level == "row":
            _user_columns(types, number.where)
    one_group = _check_groups(types, number)
    amounts = tuple(sorted(types.amounts))
    return TypedNumber(
        number=number,
        schema=schema,
        kind=found.kind,
        unit=found.unit,
        signed=found.signed,
        one_group=one_group,
        amounts=amounts,
        private=tuple(private),
    )


PART_OF = re.compile(r"(\w+)\((.+)\)")
"""A group such as month(date)."""


def with_parts(number: Number, schema: Schema) -> Number:
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
        dates = "Count year, month and day in place of date"
        how = dates if "date" in parts else f"Add {part} to its parts"
        why = f"the schema counts no {part} of {name!r}; it counts {', '.join(parts)}. {how}"
    raise UsageError(f"number {number.text!r}: {part}({name}) after 'by': {why}")


def _of_rows(types: Types, number: Number) -> Type:
    if number.aggregate == "count":
        return Type("count", "row", ONE, False)
    if number.aggregate == "share":
        return Type("truth", "row", ONE, False)
    assert number.value is not None
    found = types.of(number.value)
    per_user = "add 'per user' to aggregate values of users"
    if has_aggregates(number.value):
        raise types.fail(number.value, f"this is a value of a user: {per_user}")
    if found.level == "constant":
        how = "a column's name stands without quotes, with blanks in backticks: `a b`"
        raise types.fail(number.value, f"expected a column, got a constant; {how}")
    if number.aggregate == "quantile":
        raise types.fail(
            number.value,
            "quantiles are measured of users: aggregate rows first, as in "
            f"median(sum({number_text.render_node(number.value)})) per user",
        )
    if found.kind not in NUMERIC:
        raise types.fail(number.value, f"{number.aggregate}() needs numbers, got {said(found)}")
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
        raise types.fail(number.value, f"{number.aggregate}() needs numbers, got {said(found)}")
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
    schema = types.schema
    cells = 1
    one = True
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

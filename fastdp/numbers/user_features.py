"""Features: values of one user that an owner adds to the table about users, in the language of
numbers.

A feature is a function of the codes of a user's rows: a code counts as the number it stands for, the
middle or the mean of its bin. So it is the same function for true users and for synthetic ones. It
is a number (a duration, a count) or a condition, and it is binned by public edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np
from msgspec import Struct

from ..errors import FastdpError, UsageError
from ..schema import Schema
from ..schema.amounts import LARGEST, MISSING
from ..schema.ordering import UserFeature
from . import language
from .number_nodes import Aggregate, Arithmetic, Column, Constant, Node, Number
from .number_types import Types
from .typed import TypedNumber, check, columns_of
from .user_evaluation import user_values
from .user_values import Block

NONE = 1 << 62
"""The value of a user without one: above all others, so that it is in the last bin."""


class Feature(Struct, frozen=True, eq=False):
    """`number`: the mean over users of the feature, or the share of users with the condition; `edges`:
    of its bins, in units of the number; of values, the last bin is of users without one. `sum_of`: the
    one column that it is the sum of."""

    name: str
    number: TypedNumber
    edges: tuple[int, ...]
    sum_of: str = ""


def check_features(schema: Schema) -> None:
    """Raise UsageError if a feature of the schema is not a value of a user, or needs more than
    codes."""
    for one in schema.user_features:
        feature = feature_of(one, schema, 1)
        for name in (*columns_of(feature.number), *feature.number.amounts):
            if name not in schema.modelled:
                raise UsageError(
                    f"user, field 'features', {one.name!r}: {name!r} is computed from other columns; "
                    "use these"
                )


def feature_of(one: UserFeature, schema: Schema, bound: int) -> Feature:
    """The feature under a schema; UsageError names it. `bound`: the public bound of rows per user."""
    try:
        number = of_text(one.of, schema)
        numbers = {name: code_amounts(schema, name) for name in number.amounts}
    except FastdpError as error:
        raise UsageError(f"user, field 'features', {one.name!r}: {error}") from None
    if number.kind == "truth":
        return Feature(one.name, number, (1,))
    if one.edges:
        inner = {math.ceil(Decimal(repr(e)) / number.unit) for e in one.edges}
        edges = tuple(sorted(e for e in inner if number.signed or e > 0))
    else:
        assert number.number.value is not None
        least, most = _sizes(number.number.value, numbers, bound)
        edges = _octaves(least, most, number.signed)
    sum_of = ""
    match number.number.value:
        case Aggregate(function="sum", argument=Column(name=name)):
            sum_of = name
    return Feature(one.name, number, (*edges, NONE), sum_of)


def of_text(text: str, schema: Schema) -> TypedNumber:
    """The number whose users' values are those of a feature."""
    node = language.parse_of_user(text)
    asked = Number("mean", "users", value=node, text=text)
    if Types(asked, schema).of(node).kind == "truth":
        asked = Number("share", "users", where=node, text=text)
    return check(asked, schema)


def code_amounts(schema: Schema, name: str) -> np.ndarray:
    """int64 for each code of a field: its amount in whole steps; MISSING where it has none. UsageError
    if codes do not say it."""
    field = schema.fields[name]
    column = schema.columns.get(name)
    amount = field.amount()
    assert amount is not None, "the number was checked"
    out = None
    if column is not None and amount.kind == "number":
        numbers = column.code_numbers()
        out = None if numbers is None else numbers[1] / float(amount.step)
    elif column is not None and amount.kind == "date" and not column.binned:
        out = column.code_values().astype("datetime64[D]").astype(np.int64).astype(float)
    if column is None or out is None:
        parts = [part.name for part in field.parts]
        use = f"; use {', '.join(parts)}" if column is None else ""
        raise UsageError(f"{name!r}: synthetic users have codes of it alone, and no numbers{use}")
    values = np.full(column.size, MISSING)
    there = np.flatnonzero(np.isfinite(out))
    values[there] = np.clip(np.rint(out[there]), -LARGEST, LARGEST).astype(np.int64)
    return values


def feature_values(
    text: str, schema: Schema, start: np.ndarray, column: Callable[[str], np.ndarray]
) -> np.ndarray:
    """int64 of each user, NONE where it has no value. The rows of user u are start[u] to
    start[u + 1] - 1, at least one; column(name): codes of a column in that order."""
    number = of_text(text, schema)
    names = dict.fromkeys([*columns_of(number), *number.amounts])
    codes = {name: column(name) for name in names}
    owner = np.repeat(np.arange(len(start) - 1, dtype=np.uint32), np.diff(start))
    amounts = {name: code_amounts(schema, name)[codes[name]] for name in number.amounts}
    found = user_values(number, Block(len(start) - 1, owner, codes, amounts))
    out = np.full(found.users, NONE)
    out[np.repeat(np.arange(found.users), np.diff(found.offsets))] = found.value
    return out


def _sizes(node: Node, numbers: Mapping[str, np.ndarray], bound: int) -> tuple[int, int]:
    """The least size above 0, and the largest, that a value may have by public facts."""
    match node:
        case Column(name=name) if name in numbers:
            known = numbers[name]
            known = np.abs(known[(known != MISSING) & (known != 0)])
            return (int(known.min()), int(known.max())) if len(known) else (1, 1)
        case Constant():
            return 1, LARGEST
        case Aggregate(function="rows" | "distinct"):
            return 1, bound
        case Aggregate(function=function, argument=argument) if argument is not None:
            least, most = _sizes(argument, numbers, bound)
            return least, min(most * bound if function == "sum" else most, LARGEST)
        case Arithmetic(op="-" | "+", left=left, right=right):
            a, b = _sizes(left, numbers, bound), _sizes(right, numbers, bound)
            return 1, min(a[1] + b[1], LARGEST)
    return 1, LARGEST


def _octaves(least: int, most: int, signed: bool) -> tuple[int, ...]:
    """Edges in octaves, on both sides of 0 where values may be below it."""
    up = [least << k for k in range(max(1, most // least).bit_length() + 1)]
    return tuple([*(1 - e for e in reversed(up)), *up] if signed else up)

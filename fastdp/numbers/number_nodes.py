"""The parts of a number that was parsed: values, functions of a user's rows, conditions."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TypeVar

import msgspec
from msgspec import Struct

from ..errors import UsageError

MAX_LENGTH = 2000
DURATIONS = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
"""Seconds in each unit of time."""
COMPARISONS = ("<=", ">=", "!=", "=", "<", ">")
RESERVED = frozenset(
    ["where", "by", "per", "and", "or", "not", "in", "is", "null", "rows", "true", "false"]
)
"""Words that name a column only between backticks."""


class Column(Struct, frozen=True, tag=True):
    """The value of a column in one row."""

    name: str
    at: int = 0


class Constant(Struct, frozen=True, tag=True):
    """A decimal number (`unit`: of a duration, or empty), or a text."""

    value: Decimal | str
    unit: str = ""
    at: int = 0


class Aggregate(Struct, frozen=True, tag=True):
    """A function of one user's rows; `rows` has no argument."""

    function: str
    argument: Node | None = None
    at: int = 0


class Arithmetic(Struct, frozen=True, tag=True):
    """`+`, `-` or `*` of two values."""

    op: str
    left: Node
    right: Node
    at: int = 0


class Comparison(Struct, frozen=True, tag=True):
    """A comparison of two values; false where one of them is missing."""

    op: str
    left: Node
    right: Node
    at: int = 0


class Membership(Struct, frozen=True, tag=True):
    """Whether a value is one of a list."""

    operand: Node
    values: tuple[Constant, ...]
    at: int = 0


class Missing(Struct, frozen=True, tag=True):
    """Whether a value is missing."""

    operand: Node
    at: int = 0


class Logical(Struct, frozen=True, tag=True):
    """`and` or `or` of conditions."""

    op: str
    items: tuple[Node, ...]
    at: int = 0


class Not(Struct, frozen=True, tag=True):
    """The opposite of a condition."""

    item: Node
    at: int = 0


Node = (
    Column | Constant | Aggregate | Arithmetic | Comparison | Membership | Missing | Logical | Not
)
Item = TypeVar("Item", bound=Struct)


class Number(Struct, frozen=True):
    """A question, parsed.

    aggregate : count, share, sum, mean or quantile
    of : "rows" or "users"
    value : what is aggregated; None for count and share
    q : of a quantile
    by : columns
    pick : for each of them "first", "last", or "" where a row's own value is meant
    text : as asked
    """

    aggregate: str
    of: str
    value: Node | None = None
    q: Decimal | None = None
    where: Node | None = None
    by: tuple[str, ...] = ()
    pick: tuple[str, ...] = ()
    text: str = ""


def error(text: str, at: int, why: str) -> UsageError:
    """An error that shows where in the text of a number it lies."""
    shown = text if len(text) <= MAX_LENGTH else text[:60] + " ..."
    return UsageError(f"number {shown!r}, at character {at + 1}: {why}")


def unplaced(item: Item) -> Item:
    """A node or number without places in a text, so that equal ones compare equal."""

    def plain(value):
        if isinstance(value, Struct):
            return unplaced(value)
        return tuple(plain(one) for one in value) if isinstance(value, tuple) else value

    changed = {name: plain(getattr(item, name)) for name in item.__struct_fields__}
    return msgspec.structs.replace(item, **(changed | ({"at": 0} if "at" in changed else {})))


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

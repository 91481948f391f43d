"""Numbers written as texts of the grammar; parsing such a text gives the same number."""

from __future__ import annotations

import re

from .number_nodes import (
    DURATIONS,
    RESERVED,
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

_PLAIN = re.compile(r"[^\W\d]\w*")


def _name(name: str) -> str:
    words = RESERVED | set(DURATIONS) | {unit[:-1] for unit in DURATIONS}
    plain = _PLAIN.fullmatch(name) and name.lower() not in words
    return name if plain else f"`{name}`"


def _rendered(node: Node) -> str:
    def inside(item: Node) -> str:
        text = _rendered(item)
        return text if isinstance(item, Column | Constant | Aggregate) else f"({text})"

    match node:
        case Column(name=name):
            return _name(name)
        case Constant(value=str() as value):
            return "'" + value.replace("'", "''") + "'"
        case Constant(value=value, unit=unit):
            return f"{value:f} {unit}".rstrip()
        case Aggregate(function=function, argument=argument):
            return function if argument is None else f"{function}({_rendered(argument)})"
        case Arithmetic(op=op, left=left, right=right) | Comparison(op=op, left=left, right=right):
            return f"{inside(left)} {op} {inside(right)}"
        case Membership(operand=operand, values=values):
            return f"{inside(operand)} in ({', '.join(_rendered(v) for v in values)})"
        case Missing(operand=operand):
            return f"{inside(operand)} is null"
        case Logical(op=op, items=items):
            return f" {op} ".join(inside(item) for item in items)
        case Not(item=item):
            return f"not {inside(item)}"
    raise TypeError(type(node).__name__)


def render_node(node: Node) -> str:
    """A part of a number as a text of the grammar."""
    return _rendered(node)


def render(number: Number) -> str:
    """The number as a text of the grammar."""
    if number.value is None:
        text = f"{number.aggregate} of {number.of}"
    else:
        value = _rendered(number.value)
        more = "" if number.q is None else f", {number.q:f}"
        text = f"{number.aggregate}({value}{more})"
        text += " per user" if number.of == "users" else ""
    if number.where is not None:
        text += f" where {_rendered(number.where)}"
    if number.by:
        names = [_name(name) for name in number.by]
        picked = [f"{p}({n})" if p else n for n, p in zip(names, number.pick, strict=True)]
        text += f" by {', '.join(picked)}"
    return text

"""Public expressions over columns: `month(time_hour)`, `age >= 15 or status == "single"`.

The syntax is a small part of Python's. An expression is parsed by Python's `ast` and evaluated
here, never executed as code. It may use names of columns, numbers, texts, `+ - * // %`,
comparisons, `in`, `and or not`, `a if c else b`, `min max abs`, and for dates and times `year month
day hour day_of_week`. It is evaluated for all combinations of the columns' values at once.
"""

import ast
import copy
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np

from ..errors import SchemaError
from .columns import Column


class Described(Protocol):
    """What expressions and constraints read of a schema."""

    @property
    def columns(self) -> Mapping[str, Column]: ...
    @property
    def fields(self) -> Mapping[str, Any]: ...
    @property
    def pending(self) -> Mapping[str, Any]: ...
    @property
    def constraints(self) -> Sequence[Any]: ...


LONGEST = 4000
"""Characters of an expression, at most; it is parsed by Python's own parser."""
LONE_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
"""A single `=`, which compares in SQL and nowhere here."""
_PARTS = ("year", "month", "day", "hour", "day_of_week")
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "min": lambda *numbers: reduce(np.minimum, numbers),
    "max": lambda *numbers: reduce(np.maximum, numbers),
}


class Expression:
    """A parsed expression; `columns` are the code columns it uses, in the order of first
    occurrence."""

    def __init__(self, schema: Described, text: str):
        self.text = text
        self._schema = schema
        if len(text) > LONGEST:
            raise SchemaError(f"the expression has more than {LONGEST} characters; shorten it")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            hint = "; write == to compare" if LONE_EQUALS.search(text) else ""
            raise SchemaError(f"{text!r} is not a valid expression{hint}") from None
        self._places: dict[int, tuple[str, str]] = {}
        self._given: Mapping[str, np.ndarray] | None = None
        self.columns: tuple[str, ...] = tuple(dict.fromkeys(self._names(self._tree)))
        if not self.columns:
            raise SchemaError(f"{text!r}: the expression must name a column")

    def _names(self, node: ast.AST) -> list[str]:
        """The code columns used in the subtree of a node. Also fills `_places`: for each node that
        stands for a column, the column and its part."""
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _PARTS
        ):
            if len(node.args) != 1 or not isinstance(node.args[0], ast.Name) or node.keywords:
                raise SchemaError(
                    f"{self.text!r}: {node.func.id}() takes one column of dates or times"
                )
            self._places[id(node)] = self._part(node.func.id, node.args[0].id)
            return [self._places[id(node)][0]]
        if isinstance(node, ast.Name):
            if is_time(self._schema, node.id):
                self._places[id(node)] = (node.id, "")
                return list(self._schema.fields[node.id].names.values())
            if node.id not in self._schema.columns:
                raise SchemaError(f"{self.text!r}: the schema has no column {node.id!r}")
            self._places[id(node)] = (node.id, "")
            return [node.id]
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _CALLS or node.keywords:
                raise SchemaError(
                    f"{self.text!r}: known functions are {', '.join((*_CALLS, *_PARTS))}"
                )
            return [name for child in node.args for name in self._names(child)]
        return [name for child in ast.iter_child_nodes(node) for name in self._names(child)]

    def _part(self, part: str, name: str) -> tuple[str, str]:
        """(code column, part to compute from its values; "" for the values themselves). For a
        timestamp field: the code column of that part if there is one, else the part of its code
        column `date`."""
        field = self._schema.fields.get(name)
        if field is not None and field.calendar:
            found = field.calendar_column(part)
            if found is not None:
                return found
            raise SchemaError(
                f"{self.text!r}: column {name!r} has neither a part {part!r} nor a date to "
                "compute it from"
            )
        if name not in self._schema.columns:
            raise SchemaError(f"{self.text!r}: the schema has no column {name!r}")
        return name, part

    @property
    def operands(self) -> tuple[str, ...]:
        """The names that stand for values: columns, and timestamp fields as a whole."""
        return tuple(dict.fromkeys(name for name, _ in self._places.values()))

    def values(self) -> Any:
        """The value of the expression for all combinations of values. It is an array with one axis
        per column of `columns`, indexed by its codes without the null and overflow codes."""
        sizes = tuple(self._schema.columns[c].base for c in self.columns)
        try:
            with np.errstate(all="raise"):
                out = self._evaluate(self._tree)
        except SchemaError:
            raise
        except FloatingPointError:
            raise SchemaError(
                f"{self.text!r}: a division by zero, or a number that is too large"
            ) from None
        except (TypeError, ValueError, np.exceptions.DTypePromotionError):
            raise SchemaError(
                f"{self.text!r}: the expression mixes texts, numbers or dates"
            ) from None
        return np.broadcast_to(np.asarray(out), sizes)

    def of_rows(self, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """The value of the expression for each row, from float64 numbers of its columns (nan:
        null)."""
        one = copy.copy(self)
        one._given = given
        with np.errstate(all="ignore"):
            return np.asarray(one._evaluate(one._tree), np.float64)

    def _evaluate(self, node: ast.AST) -> Any:
        """The values of a node of the expression, over the codes of its columns or over given
        values."""
        if id(node) in self._places:
            name, part = self._places[id(node)]
            if self._given is not None:
                return self._given[name]
            values = column_values(self._schema, name)
            if part:
                values = _date_part(self._schema.columns[name], values, part)
            shape = [1] * len(self.columns)
            shape[self.columns.index(name)] = len(values)
            return values.reshape(shape)
        match node:
            case ast.Constant(value=bool() | int() | float() | str()):
                return node.value
            case ast.UnaryOp(op=ast.USub(), operand=inside):
                return -self._evaluate(inside)
            case ast.UnaryOp(op=ast.Not(), operand=inside):
                return np.logical_not(self._evaluate(inside))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](
                    *map(_number, (self._evaluate(left), self._evaluate(right)))
                )
            case ast.BoolOp(op=op, values=parts):
                join = np.logical_and if isinstance(op, ast.And) else np.logical_or
                return reduce(join, [self._evaluate(p) for p in parts])
            case ast.IfExp(test=test, body=body, orelse=other):
                return np.where(self._evaluate(test), self._evaluate(body), self._evaluate(other))
            case ast.Compare():
                return self._compared(node)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _CALLS[name](*(_number(self._evaluate(a)) for a in arguments))
        raise SchemaError(f"{self.text!r}: {ast.unparse(node)!r} is not allowed in expressions")

    def _compared(self, node: ast.Compare) -> Any:
        """A chain of comparisons: all of them must hold."""
        left = self._evaluate(node.left)
        out = True
        for op, right_node in zip(node.ops, node.comparators):
            if isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right_node, ast.List | ast.Tuple | ast.Set):
                    raise SchemaError(f"{self.text!r}: expected a list of values after `in`")
                options = [self._evaluate(e) for e in right_node.elts]
                inside = reduce(np.logical_or, [_same(left, o) for o in options], np.False_)
                out = np.logical_and(out, inside == isinstance(op, ast.In))
                right = left
            elif type(op) in _COMPARE:
                right = self._evaluate(right_node)
                equal = {ast.Eq: True, ast.NotEq: False}.get(type(op))
                if equal is not None:
                    now = _same(left, right) == equal
                else:
                    now = _COMPARE[type(op)](left, right)
                out = np.logical_and(out, now)
            else:
                raise SchemaError(f"{self.text!r}: expected one of == != < <= > >= in")
            left = right
        return out


def is_time(schema: Described, name: str) -> bool:
    """Whether the name is that of a timestamp field that is written as one value."""
    field = schema.fields.get(name)
    return field is not None and field.is_moment


def _same(left: Any, right: Any) -> Any:
    """Elementwise equality; comparing a text with a number is an error, not False."""
    if len({np.asarray(x).dtype.kind in "US" for x in (left, right)}) > 1:
        raise TypeError("text against number")
    return np.equal(left, right)


def _number(value: Any) -> Any:
    """The value as a number: booleans become 0 and 1; a text is an error."""
    kind = np.asarray(value).dtype.kind
    if kind in "USM":
        raise TypeError("no number")
    return np.asarray(value).astype(np.int64) if kind == "b" else value


def column_values(schema: Described, name: str) -> np.ndarray:
    """The value of each code of a column, without null and overflow codes (int64, float64, text,
    bool or datetime64); SchemaError if a code stands for several values."""
    if is_time(schema, name):
        raise SchemaError(f"column {name!r}: whole times are for times that follow from them")
    return schema.columns[name].code_values()


def _date_part(column: Column, values: np.ndarray, part: str) -> np.ndarray:
    if values.dtype.kind != "M":
        raise SchemaError(f"column {column.name!r}: {part}() needs a column of dates or times")
    days = values.astype("datetime64[D]")
    months = values.astype("datetime64[M]")
    parts = {
        "year": months.astype(np.int64) // 12 + 1970,
        "month": months.astype(np.int64) % 12 + 1,
        "day": (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        "hour": (values - days).astype("timedelta64[h]").astype(np.int64),
        "day_of_week": (days.astype(np.int64) + 3) % 7,
    }
    return parts[part]

"""The exact value that each user has in a number: whole numbers of a public unit, from rows that hold
complete users.

A user's entries depend on that user's rows alone, and on no order of rows. Nothing here raises on
values: they saturate at `LARGEST` units, and nulls are missing. A comparison with a missing value is
false.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cached_property

import numpy as np

from ..schema.amounts import LARGEST, MISSING
from ..schema.columns import Part
from ..schema.epoch import DAY_SECONDS
from . import number_types
from .number_nodes import (
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
    nodes,
)
from .number_types import POINTS, Type, Types
from .typed import TypedNumber, is_constant
from .user_values import Block, UserValues

_MOST = np.iinfo(np.int64).max
"""Takes the place of a missing value where the smallest is looked for."""
_DIRECT_ROWS = 1 << 22
"""So many values of at most LARGEST fit into an int64 sum."""
_HALF = 20
"""Bits of the lower part of a value, where a sum could overflow."""

ByUser = Callable[[np.ndarray, int, np.ndarray | None], tuple[np.ndarray, np.ndarray]]
"""Puts rows together by user: (user of each row, users, rows in the order to start from, or None) ->
(rows of each user, row numbers by user, a user's in the order to start from)."""


def sorted_by_user(
    user: np.ndarray, users: int, rows: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """`ByUser` by sorting, which is quick where rows are by user already."""
    order = np.argsort(user if rows is None else user[rows], kind="stable")
    return np.bincount(user, minlength=users), order if rows is None else rows[order]


def user_values(number: TypedNumber, block: Block, by_user: ByUser = sorted_by_user) -> UserValues:
    """The entries of all users of a block."""
    of_rows = number.of == "rows"
    return _of_rows(number, block, by_user) if of_rows else _of_users(number, block, by_user)


class _Segments:
    """Rows put together by user and by a group: `order` are row numbers, segment i has those from
    start[i] on; user and group of each segment. Segments are in order of user, then group."""

    def __init__(
        self,
        user: np.ndarray,
        users: int,
        group: np.ndarray | None,
        groups: int,
        by_user: ByUser,
    ):
        rows = len(user)
        if group is None:
            counts, self.order = by_user(user, users, None)
            present = np.flatnonzero(counts)
            ends = np.cumsum(counts[present].astype(np.int64))
            self.start = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(present)]
            self.user = present
            self.group = np.zeros(len(present), np.int32)
        else:
            width = np.uint16 if groups <= 1 << 16 else np.uint32
            by_group = np.argsort(group.astype(width), kind="stable")  # of 16 bits: a radix sort
            _, self.order = by_user(user, users, by_group)
            owner = user[self.order]
            inside = group[self.order]
            new = np.ones(rows, bool)
            new[1:] = (owner[1:] != owner[:-1]) | (inside[1:] != inside[:-1])
            self.start = np.flatnonzero(new)
            self.user = owner[self.start].astype(np.int64)
            self.group = inside[self.start].astype(np.int32)
        self.counts = np.diff(np.append(self.start, rows))

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def of_row(self) -> np.ndarray:
        """The segment of each row."""
        out = np.empty(len(self.order), np.int64)
        out[self.order] = np.repeat(np.arange(len(self)), self.counts)
        return out

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Exact sums of values of at most LARGEST, cut off at LARGEST."""
        if not len(self):
            return np.zeros(0, np.int64)
        values = values[self.order]
        if len(values) <= _DIRECT_ROWS:
            return np.clip(np.add.reduceat(values, self.start), -LARGEST, LARGEST)
        low = np.add.reduceat(values & ((1 << _HALF) - 1), self.start)
        high = np.add.reduceat(values >> _HALF, self.start) + (low >> _HALF)
        top = LARGEST >> _HALF
        exact = (np.clip(high, -top - 1, top) << _HALF) + (low & ((1 << _HALF) - 1))
        return np.clip(exact, -LARGEST, LARGEST)

    def least(self, values: np.ndarray) -> np.ndarray:
        """The smallest value; MISSING where all are."""
        filled = np.where(values == MISSING, _MOST, values)[self.order]
        out = np.minimum.reduceat(filled, self.start) if len(self) else filled
        return np.where(out == _MOST, MISSING, out)

    def most(self, values: np.ndarray) -> np.ndarray:
        """The largest value; MISSING where all are."""
        ordered = values[self.order]
        return np.maximum.reduceat(ordered, self.start) if len(self) else ordered

    def any(self, truth: np.ndarray) -> np.ndarray:
        ordered = truth[self.order]
        return np.logical_or.reduceat(ordered, self.start) if len(self) else ordered

    def distinct(self, values: np.ndarray) -> np.ndarray:
        """How many different values there are, not counting missing ones."""
        segment = self.of_row
        kept = values != MISSING
        segment = segment[kept]
        values = values[kept]
        order = np.lexsort((values, segment))
        segment = segment[order]
        values = values[order]
        new = np.ones(len(values), bool)
        new[1:] = np.diff(segment) != 0
        new[1:] |= values[1:] != values[:-1]
        return np.bincount(segment[new], minlength=len(self)).astype(np.int64)

    def at_end(self, values: np.ndarray, keys: list[np.ndarray], first: bool) -> np.ndarray:
        """The value of the first or last row by `keys`. Rows with a missing value do not count, and
        a missing key comes after all others. Of several such rows the smallest value counts for
        `first`, the largest for `last`."""
        there = (values != MISSING)[self.order]
        for key in keys:
            ordered = key[self.order]
            if first:
                ordered = np.where(ordered == MISSING, _MOST, ordered)
                best = np.minimum.reduceat(np.where(there, ordered, _MOST), self.start)
            else:
                best = np.maximum.reduceat(np.where(there, ordered, MISSING), self.start)
            there &= ordered == np.repeat(best, self.counts)
        chosen = np.full(len(values), MISSING)
        chosen[self.order] = np.where(there, values[self.order], MISSING)
        return self.least(chosen) if first else self.most(chosen)


class _Evaluation:
    """Evaluates the parts of a number over a block's rows, or over segments of them."""

    def __init__(self, number: TypedNumber, block: Block, segments: _Segments | None):
        self.block = block
        self.segments = segments
        self.types = Types(number.number, number.schema, number.private)
        self.schema = number.schema
        self.rows = len(block.user)

    def codes(self, name: str) -> np.ndarray:
        return self.block.codes[name]

    def leaf(self, name: str) -> np.ndarray:
        """int64 of each row: an exact number, or a code; MISSING for nulls."""
        if name in self.block.amounts:
            return self.block.amounts[name]
        column = self.schema.columns[name]
        values = np.arange(column.size, dtype=np.int64)
        if isinstance(column, Part) and column.texts is None:
            values[: column.base] += column.first
            values[column.base :] = MISSING
        elif column.null_code is not None:
            values[column.null_code] = MISSING
        return values[self.codes(name)]

    def by_row(self, node: Node) -> np.ndarray:
        """The value of each row; values of users are those of the row's segment."""
        if isinstance(node, Column):
            return self.leaf(node.name)
        if isinstance(node, Aggregate):
            assert self.segments is not None
            return self.by_segment(node)[self.segments.of_row]
        return self.computed(node, self.by_row, self.rows)

    def by_segment(self, node: Node) -> np.ndarray:
        """The value of each segment."""
        assert self.segments is not None
        if isinstance(node, Column):  # the same in all rows of a user
            return self.picked(self.leaf(node.name), True)
        if isinstance(node, Aggregate):
            return self.aggregated(node, self.segments)
        return self.computed(node, self.by_segment, len(self.segments))

    def aggregated(self, node: Aggregate, segments: _Segments) -> np.ndarray:
        if node.argument is None:
            return segments.counts.astype(np.int64)
        values = self.by_row(node.argument)
        match node.function:
            case "sum":
                return segments.sum(np.where(values == MISSING, 0, values))
            case "min":
                return segments.least(values)
            case "max":
                return segments.most(values)
            case "first" | "last":
                return self.picked(values, node.function == "first")
            case "distinct":
                return segments.distinct(values)
        return segments.any(values)

    def picked(self, values: np.ndarray, first: bool) -> np.ndarray:
        """The value of the first or last row in the schema's order; without one, the smallest or
        the largest value."""
        assert self.segments is not None
        if not len(self.segments):
            return values
        keys = [self.leaf(name) for name in self.schema.order]
        return self.segments.at_end(values, keys, first)

    def computed(self, node: Node, inner, size: int) -> np.ndarray:
        """A node made of other nodes, from the values that `inner` gives of them."""
        match node:
            case Constant():
                return np.full(size, self.constant(node))
            case Arithmetic():
                return self.arithmetic(node, inner)
            case Comparison(op=op, left=left, right=right):
                a, b = self.pair(node, left, right, inner, size)
                return _compare(op, a, b)
            case Membership(operand=operand, values=values):
                pairs = [self.pair(node, operand, value, inner, size) for value in values]
                return np.logical_or.reduce([_compare("=", a, b) for a, b in pairs])
            case Missing(operand=operand):
                return inner(operand) == MISSING
            case Logical(op=op, items=items):
                join = np.logical_and if op == "and" else np.logical_or
                return join.reduce([inner(item) for item in items])
            case Not(item=item):
                return ~inner(item)
        raise TypeError(type(node).__name__)

    def constant(self, node: Constant) -> int:
        if node.unit:
            return number_types.seconds_of(node)
        return int(Decimal(node.value) / self.types.of(node).unit)

    def pair(
        self, node: Node, left: Node, right: Node, inner, size: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Both sides of a comparison in the same unit."""
        a, b = self.types.comparable(node, left, right)
        sides = []
        for side, other in ((left, b), (right, a)):
            if isinstance(side, Constant) and isinstance(side.value, str):
                sides.append(np.full(size, self.text(side.value, other)))
            else:
                sides.append(inner(side))
        return _aligned(sides[0], a, sides[1], b)

    def text(self, text: str, other: Type) -> int:
        """A text as the value that it stands for beside another one."""
        if other.kind == "category":
            return number_types.code_of(self.schema, other.column, text)
        passed = number_types.point(text, other.kind)
        assert passed is not None, "the text was checked with its number"
        return passed

    def arithmetic(self, node: Arithmetic, inner) -> np.ndarray:
        a, b = self.types.of(node.left), self.types.of(node.right)
        left, right = inner(node.left), inner(node.right)
        missing = (left == MISSING) | (right == MISSING)
        left, right = np.where(missing, 0, left), np.where(missing, 0, right)
        if node.op == "*":
            out = _product(left, right)
        else:
            if a.kind in ("date", "days") and b.kind == "seconds":
                right = right // DAY_SECONDS
            elif a.kind == "seconds" and b.kind == "days":
                left = left // DAY_SECONDS
            elif a.kind == "time" and b.kind == "days":
                right = right * DAY_SECONDS
            elif a.kind not in POINTS:
                left, right = _same_unit(left, a.unit, right, b.unit)
            out = left + right if node.op == "+" else left - right
        return np.where(missing, MISSING, np.clip(out, -LARGEST, LARGEST))


def _compare(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    compare = {
        "=": np.equal,
        "!=": np.not_equal,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }
    return compare[op](a, b) & (a != MISSING) & (b != MISSING)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of whole numbers of at most LARGEST, cut off at LARGEST."""
    too_large = np.abs(a) > LARGEST // np.maximum(np.abs(b), 1)
    exact = np.where(too_large, 0, a) * b
    return np.where(too_large, LARGEST * np.sign(a) * np.sign(b), exact)


def _scaled(values: np.ndarray, times: int) -> np.ndarray:
    """The values in a finer unit; missing ones stay missing."""
    if times == 1:
        return values
    scaled = _product(np.where(values == MISSING, 0, values), np.asarray(min(times, LARGEST)))
    return np.where(values == MISSING, MISSING, scaled)


def _same_unit(
    a: np.ndarray, unit_a: Decimal, b: np.ndarray, unit_b: Decimal
) -> tuple[np.ndarray, np.ndarray]:
    """Both in the finer of their units, which are powers of ten."""
    fine = min(unit_a, unit_b)
    return _scaled(a, int(unit_a / fine)), _scaled(b, int(unit_b / fine))


def _aligned(a: np.ndarray, x: Type, b: np.ndarray, y: Type) -> tuple[np.ndarray, np.ndarray]:
    """Both sides of a comparison in one unit."""
    if {x.kind, y.kind} == {"days", "seconds"}:
        return _scaled(a, DAY_SECONDS if x.kind == "days" else 1), _scaled(
            b, DAY_SECONDS if y.kind == "days" else 1
        )
    return _same_unit(a, x.unit, b, y.unit)


def _group_codes(number: TypedNumber, block: Block, names: tuple[str, ...]) -> np.ndarray:
    """int64: of each row, its cell over these `by` columns, as part of the cell over all of them."""
    cell = np.zeros(len(block.user), np.int64)
    for name, size in zip(number.by, number.shape, strict=True):
        cell *= size
        if name in names:
            cell += block.codes[name]
    return cell


def _entries(
    block: Block,
    user: np.ndarray,
    group: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray,
    keep: np.ndarray,
) -> UserValues:
    """The entries to keep, put together by user. The others are arrays over entries in order of user."""
    offsets = np.zeros(block.users + 1, np.int64)
    np.cumsum(np.bincount(user[keep], minlength=block.users), out=offsets[1:])
    return UserValues(offsets, group[keep].astype(np.int32), value[keep], weight[keep])


def _of_rows(number: TypedNumber, block: Block, by_user: ByUser) -> UserValues:
    """The entries of a number of rows: an entry for each user and group, with what the user's rows
    there add up to. Its weight is the number of rows that it comes from."""
    asked = number.number
    where = None
    if asked.where is not None:
        of_users = None
        if any(isinstance(node, Aggregate) for node in nodes(asked.where)):
            of_users = _Segments(block.user, block.users, None, 1, by_user)
        where = _Evaluation(number, block, of_users).by_row(asked.where)
    if where is not None and asked.aggregate != "share":
        block = Block(
            block.users,
            block.user[where],
            {name: column[where] for name, column in block.codes.items()},
            {name: column[where] for name, column in block.amounts.items()},
        )
    group = _group_codes(number, block, number.by) if number.by else None
    segments = _Segments(block.user, block.users, group, number.groups, by_user)
    rows = segments.counts.astype(np.int64)
    if asked.aggregate == "count":
        value = rows
        weight = rows
    elif asked.aggregate == "share":
        assert where is not None
        value = segments.sum(where.astype(np.int64))
        weight = rows
    else:
        assert asked.value is not None
        x = _Evaluation(number, block, None).by_row(asked.value)
        there = x != MISSING
        value = segments.sum(np.where(there, x, 0))
        weight = segments.sum(there.astype(np.int64))
    value = np.minimum(value, LARGEST)
    weight = np.minimum(weight, LARGEST)
    return _entries(block, segments.user, segments.group, value, weight, weight > 0)


def _of_users(number: TypedNumber, block: Block, by_user: ByUser) -> UserValues:
    """The entries of a number of users: an entry for each user and group of its rows, of weight 1. A
    column that is constant for a user, or of which one row is picked, makes no groups of rows."""
    asked = number.number
    types = Types(asked, number.schema, number.private)
    picks = dict(zip(asked.by, asked.pick, strict=True))
    own = tuple(
        name for name, pick in picks.items() if not pick and not is_constant(types, Column(name))
    )
    group = _group_codes(number, block, own) if own else None
    segments = _Segments(block.user, block.users, group, number.groups, by_user)
    evaluation = _Evaluation(number, block, segments)
    cell = segments.group.astype(np.int64)
    times = 1
    for name, size in reversed(list(zip(number.by, number.shape, strict=True))):
        if name not in own:
            codes = block.codes[name].astype(np.int64)
            cell = cell + times * evaluation.picked(codes, picks[name] != "last")
        times *= size
    ones = np.ones(len(segments), np.int64)
    keep = np.ones(len(segments), bool)
    truth = keep if asked.where is None else evaluation.by_segment(asked.where)
    if asked.aggregate == "share":
        value = truth.astype(np.int64)
    elif asked.aggregate == "count":
        value = ones
        keep = truth
    else:
        assert asked.value is not None
        value = evaluation.by_segment(asked.value)
        keep = truth & (value != MISSING)
    return _entries(block, segments.user, cell, value, ones, keep)

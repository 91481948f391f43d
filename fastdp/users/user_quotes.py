"""Quotes: numbers that a run released, as conditions on the weights of a pool's users.

A reader who adds up the synthetic rows should get the quoted total within its error. So each line of
`run.numbers` is a linear condition on the weights (`user_weights.Lines`), with its own standard error.
Pool users are known by codes: a row counts as the middle, or the mean, of its bin, which is what
synthetic values are on average. For a quantile it counts as a number anywhere in its bin, since synthetic
values are: else many users would have one sum, and a quantile would jump.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ..errors import UsageError
from ..numbers.number_nodes import Column, nodes
from ..numbers.typed import TypedNumber, columns_of
from ..numbers.user_evaluation import user_values
from ..numbers.user_features import code_amounts
from ..numbers.user_values import Block
from ..schema import Schema
from ..significance import Z95
from .people import Codes
from .user_weights import Lines

LEAST_ERROR = 1e-4
"""Part of a quote below which its error does not matter: drawing users and values adds more."""
MOST_LINES = 64
"""Lines that are conditions, at most: those of the smallest relative errors. Each is a number for each
user of a block of the pool."""


class Quote(Struct, frozen=True, eq=False):
    """One line of the numbers of a run: of a group of `number`, with its 95 % interval. `most`: what a
    user counts as at most, in amounts."""

    number: TypedNumber
    group: int
    estimate: float
    low: float
    high: float
    most: float | None = None

    @property
    def error(self) -> float:
        """The standard error. A total's upper side may be a model's, and an end may be cut off at 0:
        so it is the smaller side that is not."""
        sides = [x for x in (self.estimate - self.low, self.high - self.estimate) if x > 0]
        return max(min(sides, default=0.0) / Z95, LEAST_ERROR * abs(self.estimate), 1e-12)


def usable(quotes: Sequence[Quote]) -> list[Quote]:
    """Those of the quotes that are conditions: most precise first, of numbers that codes can tell."""
    out = []
    for quote in quotes:
        try:
            for name in quote.number.amounts:
                if not _only_orders(quote.number, name):
                    code_amounts(quote.number.schema, name)
        except UsageError:
            continue
        out.append(quote)
    out.sort(key=lambda q: q.error / max(abs(q.estimate), 1e-300))
    return out[:MOST_LINES]


def lines(
    quotes: Sequence[Quote], codes: Codes, start: np.ndarray, even: np.ndarray, rows: float
) -> Lines:
    """The conditions on weights of the pool's users, with `rows` rows in all. `even`: the weights where
    nothing is known, which add up to the number of users. The rows of user u of the pool are start[u]
    to start[u + 1] - 1."""
    found: dict[int, tuple[np.ndarray, ...]] = {}
    size = np.diff(start).astype(float)
    values = []
    errors = []
    for quote in quotes:
        entries = found.get(id(quote.number))
        if entries is None:
            entries = found.setdefault(id(quote.number), _entries(quote.number, codes, start))
        user, _, amount, weight = (x[entries[1] == quote.group] for x in entries)
        value = np.zeros(len(size))
        behind = np.zeros(len(size))
        value[user] = amount
        behind[user] = weight
        if not value.any():
            continue  # nobody in the pool has any of it
        if quote.most is not None:
            value = np.clip(value, None, quote.most / float(quote.number.unit))
        row, error = _condition(quote, value, behind, (size, even, rows))
        largest = float(np.abs(row).max(initial=0.0))
        if not largest > 0:
            continue  # it holds whoever is chosen: of a panel, all users have two rows or more
        values.append(row / largest)
        errors.append(error / largest)
    return Lines(np.array(values).reshape(-1, len(size)), np.zeros(len(values)), np.array(errors))


def _condition(
    quote: Quote,
    value: np.ndarray,
    behind: np.ndarray,
    about: tuple[np.ndarray, np.ndarray, float],
) -> tuple[np.ndarray, float]:
    """(what each user adds to a sum that is 0 where the quote holds, the standard error of that
    sum). `value`, `behind`: each user's value in the number, and the weight behind it."""
    size, even, rows = about
    users = float(even.sum())
    number = quote.number
    unit = float(quote.number.unit)
    estimate = quote.estimate / unit
    error = quote.error / unit
    if number.aggregate == "quantile":
        q = float(number.q or 0.5)
        below = [float((even * behind)[value <= x / unit].sum()) for x in (quote.low, quote.high)]
        doubt = max((below[1] - below[0]) / (2 * Z95), np.sqrt(users) * 1e-3)
        return ((value <= estimate) - q) * behind, doubt
    if number.aggregate in ("mean", "share"):
        return value - estimate * behind, error * float((even * behind).sum())
    if number.aggregate == "count" and number.of == "users":
        return value - estimate / users, error
    return value - estimate / rows * size, error


def _only_orders(number: TypedNumber, name: str) -> bool:
    """Whether the number needs a time that is counted in parts for the order of rows alone."""
    asked = number.number
    named = (node for part in (asked.value, asked.where) for node in nodes(part))
    in_parts = name not in number.schema.columns and name in number.schema.order
    return in_parts and not any(isinstance(n, Column) and n.name == name for n in named)


def _amounts(number: TypedNumber, name: str, codes: Codes) -> np.ndarray:
    """The amount of each row: by its code, or a number that is in the order of its parts."""
    schema = number.schema
    if not _only_orders(number, name):
        return code_amounts(schema, name)[codes[name]]
    rank = np.zeros(len(next(iter(codes.values()))), np.int64)
    for part in schema.fields[name].order_columns():
        rank = rank * schema.columns[part].size + codes.get(part, np.zeros(1, np.int64))
    return rank


def _inside(schema: Schema, name: str, codes: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """The amounts of rows, each somewhere in its bin, with the mean that rows of the bin have."""
    column = schema.columns.get(name)
    numbers = None if column is None else column.code_numbers()
    kind = schema.fields[name].amount()
    if numbers is None or kind is None or kind.kind != "number":
        return amounts
    low, middle, high = numbers
    half = np.minimum(middle - low, high - middle) / float(kind.step)
    half = np.pad(half, (0, max(0, int(codes.max(initial=0)) + 1 - len(half))))
    half = np.where(np.isfinite(half), half, 0.0)
    moved = half[codes] * (2 * np.random.default_rng(0).random(len(codes)) - 1)
    return amounts + np.rint(moved).astype(np.int64)


def _entries(number: TypedNumber, codes: Codes, start: np.ndarray) -> tuple[np.ndarray, ...]:
    """(user, group, value, weight) of each entry of the pool's users."""
    owner = np.repeat(np.arange(len(start) - 1, dtype=np.uint32), np.diff(start))
    own = {name: codes[name] for name in columns_of(number) if name in codes}
    amounts = {name: _amounts(number, name, codes) for name in number.amounts}
    if number.aggregate == "quantile":
        amounts = {n: _inside(number.schema, n, codes[n], x) for n, x in amounts.items()}
    found = user_values(number, Block(len(start) - 1, owner, own, amounts))
    user = np.repeat(np.arange(found.users), np.diff(found.offsets))
    return user, found.group, found.value.astype(float), found.weight.astype(float)

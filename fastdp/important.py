"""What matters more than the rest, in the owner's words: `important = { ... }`.

A weight says how many times as much an error there matters as an error elsewhere, whose weight is 1.
Shares of the budget follow from it by the rule of `division`: nobody states shares. Weights are
public: they must not be chosen by looking at the private data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from msgspec import Struct

from .domain import Clique, Domain
from .errors import SchemaError, UsageError

STATED = 4.0
"""The weight of what is named without one: with it a marginal gets 4^(2/3) = 2.5 times the share."""
LEAST = 0.01
"""The least weight: what is named would be noise."""
MOST = 100.0
"""The largest weight: the rest would be noise."""


class Pair(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two columns whose joint distribution matters."""

    columns: tuple[str, str]
    weight: float = STATED


class Important(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`columns`: names, or weights by name; everything that is measured with such a column counts.
    `pairs`: of columns, with weights or without. `numbers`: the weight of all numbers that are asked
    for against the rows, or weights by question. `users`: the weight of what is released about users
    against the rows."""

    columns: dict[str, float] | tuple[str, ...] = ()
    pairs: tuple[tuple[str, str] | Pair, ...] = ()
    numbers: dict[str, float] | float = 1.0
    users: float = 1.0

    def __post_init__(self):
        named = [f"column {name!r}" for name in self.columns]
        if len(set(named)) != len(named):
            raise ValueError("columns: expected each once")
        for what, weight in self._weights():
            if not (math.isfinite(weight) and LEAST <= weight <= MOST):
                raise ValueError(f"{what}: expected a weight from {LEAST:g} to {MOST:g}")
        for columns, _ in self.of_pairs():
            if columns[0] == columns[1]:
                raise ValueError(f"pairs: expected two columns, got {columns[0]!r} twice")

    def _weights(self) -> Iterator[tuple[str, float]]:
        for name, weight in self.of_columns().items():
            yield f"columns, {name!r}", weight
        for columns, weight in self.of_pairs():
            yield f"pairs, {' and '.join(columns)}", weight
        numbers = self.numbers if isinstance(self.numbers, Mapping) else {"": self.numbers}
        for text, weight in numbers.items():
            yield f"numbers, {text!r}" if text else "numbers", weight
        yield "users", self.users

    def of_columns(self) -> dict[str, float]:
        """Weights by column."""
        if isinstance(self.columns, Mapping):
            return dict(self.columns)
        return dict.fromkeys(self.columns, STATED)

    def of_pairs(self) -> list[tuple[Clique, float]]:
        """(the two columns, their weight)."""
        return [(p.columns, p.weight) if isinstance(p, Pair) else (p, STATED) for p in self.pairs]

    def of_cliques(self, domain: Domain) -> dict[Clique, float]:
        """Weights of the columns and pairs that are named; UsageError for one that is not there."""
        out: dict[Clique, float] = {}
        named = [*(((a,), w) for a, w in self.of_columns().items()), *self.of_pairs()]
        for columns, weight in named:
            try:
                clique = domain.canonical(domain.check(columns))
            except SchemaError as error:
                raise UsageError(f"field 'important': {error}") from None
            if clique in out:
                raise UsageError(f"field 'important': {' and '.join(clique)} is named twice")
            out[clique] = weight
        return out

    @property
    def names_rows(self) -> bool:
        """Whether columns or pairs are named."""
        return bool(self.columns or self.pairs)

    @property
    def names_numbers(self) -> bool:
        """Whether numbers have a weight, or some of them."""
        return self.numbers != 1.0 and self.numbers != {}


NEUTRAL = Important()


class Emphasis:
    """Weights of marginals: of each the largest one among what is named inside it or contains it, 1
    where nothing is, divided by the largest of all."""

    def __init__(self, named: Mapping[Clique, float]):
        self._named = [(frozenset(clique), weight) for clique, weight in named.items()]
        self._most = max([1.0, *named.values()])

    def weight(self, names: frozenset[str]) -> float:
        """The weight of a marginal of these columns, above 0 and at most 1."""
        own = [w for clique, w in self._named if clique <= names or names <= clique]
        return (max(own) if own else 1.0) / self._most

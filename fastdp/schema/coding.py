"""How the values of a column become codes, in the terms of the schema: a range, bins or a list.

Every kind of column that is encoded value by value says which of the three it is (`Column.coding`).
`codec.rules` then writes it in the numbers of a source's type, and nothing after it asks for the
kind."""

from fractions import Fraction
from typing import Any

from msgspec import Struct


class Range(Struct, frozen=True):
    """The whole numbers from `first`, `count` of them: code i stands for first + i."""

    first: int
    count: int


class Bins(Struct, frozen=True):
    """Half-open bins: code i stands for edges[i] <= x < edges[i + 1]. The first and last edge may be
    infinite. Of dates and times edges are days or seconds since 1970 (`temporal`)."""

    edges: tuple[float, ...]
    temporal: bool = False

    @property
    def count(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1


class Listed(Struct, frozen=True):
    """Listed values: code i stands for values[i]. `other`: what is written for values that are not
    in the list; None: they are written as null."""

    values: tuple[Any, ...]
    other: Any = None


Coding = Range | Bins | Listed


def exact(number: float | Fraction) -> Fraction | float:
    """The number that an edge or bound stands for. A whole number stays as it is; any other is the
    decimal that it is written as. Infinities are returned unchanged."""
    if isinstance(number, float) and not number.is_integer():
        return number if number in (float("inf"), float("-inf")) else Fraction(repr(number))
    return Fraction(number)

"""Columns of numbers, dates or times in public bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ...errors import SchemaError
from .. import dtypes, epoch
from ..amounts import Amount, amount_of_numbers, amount_of_times
from ..bins import bin_numbers, bins_of, has_tail
from ..coding import Bins
from ..columns import Column, FoundEdges, fail
from ..entry import is_number, is_temporal, moment_of, shown
from ..kind_registry import kind
from ..number_documents import check_numbers, likely_edges, number_document
from ..within_bin import (
    OPTIONS,
    PRIVATE,
    Grid,
    Rank,
    Tail,
    check_inside,
    parse_inside,
    plain_inside,
    with_atoms,
    without_none,
)


@kind("numeric")
@dataclass(frozen=True, kw_only=True)
class Numeric(Column):
    """Numbers in bins `[edges[i], edges[i+1])` with public edges; the first and last edge may be
    infinite.

    For dates and times (`dtype`), edges are whole days or seconds since 1970, in UTC if the type
    has a zone.

    A decoded value is uniform over its bin. In an open bin it follows `tail` (`lower_tail` in the
    lowest bin), by default exponential with the width of the neighbouring bin as mean. All decoded
    values lie within `min` and `max`. They are whole numbers if `whole` is set (always for integer
    types), else rounded to `digits` decimals if `digits` is set. If the edges are finite and
    overflow has a code, that code is decoded by `tail` if one is stated, else as null.

    `atoms`: single values that are bins of their own ("private": the run finds them). `grids`:
    steps that shares of the values fall on. `means`: the mean value of each bin, to which decoding
    keeps ("private": the run releases them). `rank`: the column whose ranks within bins this one
    shares.
    """

    options: ClassVar[tuple[str, ...]] = (
        "edges",
        "min",
        "max",
        "tail",
        "lower_tail",
        "whole",
        "digits",
        "nan",
        *OPTIONS,
    )
    finds: ClassVar[str] = "edges"
    finds_means: ClassVar[bool] = True
    kept_options: ClassVar[tuple[str, ...]] = ("whole", "digits", "nan", *OPTIONS)
    private_options: ClassVar[tuple[str, ...]] = ("min", "max", "bins")
    private_type: ClassVar[str] = "float64"
    edges: tuple[float, ...] = ()
    min: float | None = None
    max: float | None = None
    tail: Tail | None = None
    lower_tail: Tail | None = None
    whole: bool = False
    digits: int | None = None
    atoms: tuple[float, ...] | str = ()
    grids: tuple[Grid, ...] = ()
    means: tuple[float, ...] | str | None = None
    rank: Rank | None = None

    def __post_init__(self) -> None:
        edges = tuple(float(e) for e in self.edges)
        object.__setattr__(self, "edges", edges)
        if dtypes.family(self.dtype) in ("int", "date", "timestamp"):
            object.__setattr__(self, "whole", True)
        if isinstance(self.atoms, tuple) and self.atoms and len(edges) > 1:
            edges = with_atoms(self)
            object.__setattr__(self, "edges", edges)
        if len(edges) < 2:
            raise fail(self.name, "edges", "expected at least two edges")
        for i, (a, b) in enumerate(pairwise(edges)):
            if not a < b:
                raise fail(
                    self.name, f"edges[{i + 1}]", f"edges must increase, but {b:g} follows {a:g}"
                )
        if dtypes.family(self.dtype) == "bool":
            raise fail(self.name, "dtype", f"{self.dtype} cannot hold numbers")
        if self.temporal and not all(e % 1 == 0 for e in edges if math.isfinite(e)):
            raise fail(
                self.name,
                "edges",
                "edges of times must be whole seconds, edges of dates whole days",
            )
        if all(map(math.isinf, edges)):
            raise fail(self.name, "edges", "at least one edge must be finite")
        inner = [e for e in edges if math.isfinite(e)]
        if self.min is not None and self.min >= inner[0] and math.isinf(edges[0]):
            raise fail(self.name, "min", "the lowest bin is empty; remove its edge or lower min")
        if self.max is not None and math.isinf(edges[-1]) and self.max < inner[-1]:
            raise fail(self.name, "max", "the highest bin is empty; remove its edge or raise max")
        if self.min is not None and self.max is not None and self.max < self.min:
            raise fail(self.name, "max", f"{self.max:g} is below min = {self.min:g}")
        self._check_policies("in any bin")
        if self.digits is not None and not 0 <= self.digits <= 15:
            raise fail(self.name, "digits", "must lie in 0..15")
        if self.whole:
            for i, (a, b) in enumerate(pairwise(edges)):
                if math.isfinite(a) and math.isfinite(b) and math.ceil(a) >= math.ceil(b):
                    raise fail(self.name, f"edges[{i + 1}]", "the bin contains no whole number")
        check_inside(self)

    @property
    def base(self) -> int:
        return len(self.edges) - 1

    @property
    def can_overflow(self) -> bool:
        return (
            math.isfinite(self.edges[0]) or math.isfinite(self.edges[-1]) or self.nan == "overflow"
        )

    @property
    def coding(self) -> Bins:
        return Bins(self.edges, self.temporal)

    def base_labels(self) -> list[str]:
        text = [str(self._plain(e)) if self.temporal or not e % 1 else f"{e:g}" for e in self.edges]
        opening = ["(" if t == "-inf" else "[" for t in text]
        # Bins of a single value.
        ends = [math.nextafter(edge, math.inf) == end for edge, end in pairwise(self.edges)]
        for i, ended in enumerate(ends[:-1]):
            if ended:
                opening[i + 1] = "("
                text[i + 1] = text[i]
        bins = [f"{mark}{low}, {high})" for mark, low, high in zip(opening, text, text[1:])]
        single = [ended or edge in self.atoms for ended, edge in zip(ends, self.edges)]
        return [text[i] if alone else bins[i] for i, alone in enumerate(single)]

    def code_of(self, value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return None
        if not self.edges[0] <= value < self.edges[-1]:
            return None
        return sum(value >= e for e in self.edges[1:])

    def _plain(self, edge: float) -> int | float | str:
        """An edge in the form in which schema documents write it."""
        if self.temporal and math.isfinite(edge):
            return epoch.text_of(int(edge), self.dtype)
        return int(edge) if edge % 1 == 0 else edge

    def _own_plain(self) -> dict[str, Any]:
        plain = {"edges": [self._plain(e) for e in self.edges]}
        ends = [
            self._plain(e) if self.temporal and e is not None else e for e in (self.min, self.max)
        ]
        tails = [None if tail is None else tail.to_plain() for tail in (self.tail, self.lower_tail)]
        plain |= without_none(min=ends[0], max=ends[1], tail=tails[0], lower_tail=tails[1])
        return plain | without_none(whole=self.whole, digits=self.digits) | plain_inside(self)

    @classmethod
    def from_entry(cls, entry: Any, common: dict[str, Any]) -> Numeric:
        dtype = entry.dtype("float64")
        edges = entry.list("edges")
        inside = parse_inside(
            entry.name, entry.plain, lambda v, where: edge_of(entry.name, where, v, dtype)
        )
        whole = entry.flag("whole", dtypes.family(dtype) == "int")
        digits = entry.whole("digits")
        if edges is None:
            raise fail(entry.name, "edges", "missing; list the public bin edges")
        places = [edge_of(entry.name, f"edges[{i}]", v, dtype) for i, v in enumerate(edges)]
        return cls(
            **common,
            **inside,
            min=entry.limit("min", dtype),
            max=entry.limit("max", dtype),
            tail=entry.tail("tail"),
            lower_tail=entry.tail("lower_tail"),
            nan=entry.nan(),
            whole=whole,
            digits=digits,
            dtype=dtype,
            edges=tuple(places),
        )

    @property
    def in_bins(self) -> Numeric:
        return self

    @property
    def quantity(self) -> bool:
        return True

    @property
    def leads_ranks(self) -> bool:
        return self.rank is None

    @property
    def to_find(self) -> tuple[str, ...]:
        return tuple(name for name in ("means", "atoms") if getattr(self, name) == PRIVATE)

    @property
    def writes_overflow(self) -> bool:
        return self.overflow_code is None or has_tail(self)

    def read_back(self) -> np.ndarray:
        """Another code where a bin lies beyond `min` or `max`, as which its numbers are written."""
        out = super().read_back()
        bins, _ = bins_of(self)
        for code in range(self.base):
            low = float(bins.low[code] / bins.unit)
            if bins.base is not None:
                last = math.nextafter(self.edges[code + 1], -math.inf)
                low = min(max(low, self.edges[code]), last)
            other = self.code_of(low) if math.isfinite(low) else None
            out[code] = code if other is None else other
        return out

    def code_values(self) -> np.ndarray:
        raise SchemaError(
            f"column {self.name!r}: each of its bins covers many values, so expressions cannot "
            "use it; use order or listed values"
        )

    def code_numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        return None if self.temporal else bin_numbers(self)

    def renamed(self, name: str) -> Numeric:
        return replace(self, name=name, rank=None)

    def amount(self) -> Amount:
        if self.temporal:
            return amount_of_times(self)
        low = self.edges[0] if self.min is None else self.min
        high = self.edges[-1] if self.max is None else self.max
        inner = [e for e in self.edges if math.isfinite(e)]
        return amount_of_numbers(self, [low, high, *inner], self.whole, self.digits)

    def public_range(self) -> tuple[float, float] | None:
        """Edges cut values into bins: only `min` and `max` are bounds."""
        least = 0.0 if self.min is None and self.amount().unsigned else self.min
        if self.temporal or least is None or self.max is None:
            return None
        return least, self.max

    def released_counts(self) -> Sequence[int]:
        """Its atoms are those of the released values that lie in its bins."""
        return range(len(self.atoms), 1 << 62)

    @classmethod
    def check_private(cls, column: Any) -> None:
        check_numbers(column)

    @classmethod
    def edges_entry(cls, column: Any, found: FoundEdges) -> dict[str, Any]:
        return number_document(column, found)

    @classmethod
    def stand_in_entry(cls, column: Any) -> dict[str, Any]:
        return cls.edges_entry(column, FoundEdges(likely_edges(column)))


def edge_of(column: str, where: str, value: Any, dtype: str) -> float:
    """A number of a document, or SchemaError. An edge or atom of dates and times is in days or
    seconds since 1970. An edge may be "inf" or "-inf"."""
    if where.startswith("edges") and value in ("inf", "+inf", "-inf"):
        return float(value)
    if is_temporal(dtype) and where.startswith(("edges", "atoms")):
        value = moment_of(column, where, value, dtype)
    if not is_number(value) or value != value:
        raise fail(column, where, f"must be a number, got {shown(value)}")
    if float(value) != value:
        raise fail(
            column, where, f"{value} has no exact 64-bit float; the nearest is {int(float(value))}"
        )
    return float(value)

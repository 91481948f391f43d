"""Columns of whole numbers in a public range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .. import dtypes
from ..amounts import Amount, amount_of_numbers
from ..coding import Range
from ..columns import Column, FoundEdges, fail, same_numbers
from ..kind_registry import kind
from ..number_documents import check_numbers, likely_edges, number_document

MOST_WHOLE = 1024
"""If the private bounds of an `integer` column contain at most this many numbers, each becomes a
code."""


@kind("integer")
@dataclass(frozen=True, kw_only=True)
class Integer(Column):
    """The whole numbers from `min` to `max`; code i stands for min + i."""

    options: ClassVar[tuple[str, ...]] = ("min", "max", "nan")
    finds: ClassVar[str] = "edges"
    kept_options: ClassVar[tuple[str, ...]] = ("nan",)
    private_options: ClassVar[tuple[str, ...]] = ("min", "max", "bins")
    private_type: ClassVar[str] = "int64"
    always_whole: ClassVar[bool] = True
    min: int = 0
    max: int = 0

    def __post_init__(self) -> None:
        if dtypes.family(self.dtype) not in ("int", "float", "string", "decimal"):
            raise fail(self.name, "dtype", f"{self.dtype} cannot hold whole numbers")
        if not -(1 << 63) <= self.min or not self.max < 1 << 63:
            raise fail(self.name, "max", "min and max must fit a signed 64-bit integer")
        if self.max < self.min:
            raise fail(self.name, "max", f"{self.max} is below min = {self.min}")
        low, high = dtypes.whole_range(self.dtype)
        if self.min < low or self.max > high:
            raise fail(self.name, "dtype", f"{self.min}..{self.max} does not fit {self.dtype}")
        self._check_policies("between min and max")

    @property
    def base(self) -> int:
        return self.max - self.min + 1

    @property
    def coding(self) -> Range:
        return Range(self.min, self.base)

    def base_labels(self) -> list[str]:
        return [str(v) for v in range(self.min, self.max + 1)]

    def label(self, code: int) -> str:
        return {self.overflow_code: "(other)", self.null_code: "(null)"}.get(code) or str(
            self.min + code
        )

    def code_of(self, value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return None
        return int(value) - self.min if self.min <= value <= self.max and value % 1 == 0 else None

    def _own_plain(self) -> dict[str, Any]:
        return {"min": self.min, "max": self.max}

    @classmethod
    def from_entry(cls, entry: Any, common: dict[str, Any]) -> Integer:
        low = entry.whole("min", 0)
        high = entry.whole("max")
        if high is None:
            raise fail(entry.name, "max", "missing; give the largest value")
        return cls(**common, nan=entry.nan(), dtype=entry.dtype("int64"), min=low or 0, max=high)

    @property
    def quantity(self) -> bool:
        return True

    def code_values(self) -> np.ndarray:
        return np.arange(self.min, self.max + 1, dtype=np.int64)

    def shown_values(self) -> tuple[list[Any], str]:
        return list(self.whole_values()), "int64"

    def code_numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return same_numbers(self.whole_values())

    def whole_values(self) -> range:
        return range(self.min, self.max + 1)

    def moved_to(self, largest: int) -> Integer:
        return replace(self, min=self.min + largest - self.max, max=largest)

    def amount(self) -> Amount:
        return amount_of_numbers(self, [self.min, self.max], whole=True)

    def public_range(self) -> tuple[float, float]:
        return self.min, self.max

    @classmethod
    def check_private(cls, column: Any) -> None:
        check_numbers(column)
        if dtypes.family(column.dtype) not in ("int", "float"):
            raise fail(
                column.name,
                "dtype",
                f"{column.dtype} does not hold whole numbers; use kind 'numeric'",
            )

    @classmethod
    def edges_entry(cls, column: Any, found: FoundEdges) -> dict[str, Any]:
        return number_document(column, found, MOST_WHOLE)

    @classmethod
    def stand_in_entry(cls, column: Any) -> dict[str, Any]:
        return cls.edges_entry(column, FoundEdges(likely_edges(column)))

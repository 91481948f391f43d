"""A column whose codes say which grid of round numbers a value lies on. It is only counted, never
written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import msgspec
import numpy as np

from ..columns import Column
from ..kind_registry import kind
from ..within_bin import Grid

MOST_PLACES = 4
"""All numbers with more decimals than this share one code."""
MOST_UNITS = 2.0**53
"""Floats below this number of units tell every two of them apart."""
DIGITS = tuple(Grid(10.0**-d) for d in range(MOST_PLACES + 1))


@kind("places", internal=True)
@dataclass(frozen=True, kw_only=True)
class Places(Column):
    """Code i: the first of `grids` that the value lies on; the last code: it lies on none. A float
    lies on a number if it is the float nearest to it. Beyond MOST_UNITS of its last digit a number
    lies on grids of every such unit, and on no other. Values that are not finite are null. By default
    code d is the smallest number of decimals, up to MOST_PLACES."""

    options: ClassVar[tuple[str, ...]] = ("grids",)
    grids: tuple[Grid, ...] = DIGITS

    @property
    def base(self) -> int:
        return len(self.grids) + 1

    @property
    def can_overflow(self) -> bool:
        return False

    @classmethod
    def from_entry(cls, entry: Any, common: dict[str, Any]) -> Places:
        """From a document that a run sends to other processes; no user writes one."""
        grids = msgspec.convert(entry.list("grids"), tuple[Grid, ...] | None) or DIGITS
        return cls(**common, dtype=entry.dtype("float64"), grids=grids)

    @property
    def number_grids(self) -> tuple[Grid, ...]:
        return self.grids

    @property
    def encodes_numbers(self) -> bool:
        return True

    def codes_of_numbers(self, numbers: np.ndarray) -> np.ndarray:
        return places(numbers, self.grids)

    def _own_plain(self) -> dict[str, Any]:
        return {} if self.grids == DIGITS else {"grids": msgspec.to_builtins(self.grids)}


def units_of(grid: Grid) -> tuple[float, int, int]:
    """(units of the grid's last digit in 1, its step and its place in these units)."""
    digits = max(-int(Decimal(f"{x:g}").as_tuple().exponent) for x in (grid.step, grid.at))
    scale = 10.0 ** max(digits, 0)
    return scale, round(grid.step * scale), round(grid.at * scale)


def places(values: np.ndarray, grids: Sequence[Grid] = DIGITS) -> np.ndarray:
    """uint8 code of each float (float32 or float64); the null code for values that are not
    finite."""
    out = np.full(len(values), len(grids), np.uint8)
    with np.errstate(all="ignore"):
        for code, grid in reversed(list(enumerate(grids))):
            scale, step, at = units_of(grid)
            units = np.rint(values.astype(np.float64) * scale)
            near = (units / scale).astype(values.dtype) == values
            told_apart = np.abs(units) < MOST_UNITS
            on = np.where(told_apart, near & ((units - at) % step == 0), step == 1)
            out[on] = code
    out[~np.isfinite(values)] = len(grids) + 1
    return out

"""A column whose codes are the number of decimals of a float. It is only counted, never written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .columns import Column

MOST_PLACES = 4
"""All numbers with more decimals than this share one code."""


@dataclass(frozen=True, kw_only=True)
class Places(Column):
    """Code d (0..MOST_PLACES): d is the smallest number of decimals such that the float is nearest to a
    decimal number with d decimals. The last code: more than MOST_PLACES decimals. Values that are not finite
    are null."""

    kind: ClassVar[str] = "places"
    null_places: ClassVar[int] = MOST_PLACES + 2

    @property
    def base(self) -> int:
        return MOST_PLACES + 2

    @property
    def can_overflow(self) -> bool:
        return False

    def base_labels(self) -> list[str]:
        return [*map(str, range(MOST_PLACES + 1)), "more"]

    def code_of(self, value: Any) -> int | None:
        code = places(np.array([value], np.float64))[0]
        return int(code) if code < self.base else None


def places(values: np.ndarray) -> np.ndarray:
    """uint8 code of each float (float32 or float64); `Places.null_places` for values that are not finite."""
    out = np.full(len(values), MOST_PLACES + 1, np.uint8)
    with np.errstate(all="ignore"):
        for digits in range(MOST_PLACES, -1, -1):
            scale = 10.0**digits
            near = (np.rint(values.astype(np.float64) * scale) / scale).astype(values.dtype)
            out[near == values] = digits
    out[~np.isfinite(values)] = Places.null_places
    return out

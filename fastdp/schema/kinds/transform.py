"""Whole numbers that a named transform divides into parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..amounts import Amount, amount_of_numbers, amount_of_times
from ..columns import Uniform, fail
from ..derived import Derived, Split
from ..kind_registry import kind
from ..transforms import CLOCK_STEPS, TRANSFORMS, NamedTransform
from ..within_bin import without_none


@kind("derived")
@dataclass(frozen=True, kw_only=True)
class Transform(Derived):
    """A whole number split by a transform of the table `transforms.TRANSFORMS`.

    `names` are the parts' names. `top` is the decoded value of the code that stands for all values
    above a limit. `max` is the largest value of `divmod`. `by` is the divisor of `divmod`, and the
    grid in minutes of `hhmm`.
    """

    options: ClassVar[tuple[str, ...]] = ("transform", "parts", "top", "by", "max")
    transform: str = ""
    names: tuple[str, ...] = ()
    top: int | None = None
    by: int | None = None
    max: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transform not in TRANSFORMS:
            raise fail(
                self.name,
                "transform",
                f"expected {' or '.join(TRANSFORMS)}, not {self.transform!r}",
            )
        sizes = self._rule.sizes(self)
        if len(self.names) != len(sizes):
            raise fail(
                self.name, "parts", f"{self.transform} makes {len(sizes)} parts; name each of them"
            )
        if self.top is not None and self.top < self._rule.least_top:
            raise fail(self.name, "top", f"must be at least {self._rule.least_top}")
        made = tuple(
            self._part(n, str(i), s) for i, (n, s) in enumerate(zip(self.names, sizes, strict=True))
        )
        object.__setattr__(self, "parts", made)

    @property
    def _rule(self) -> NamedTransform:
        return TRANSFORMS[self.transform]

    @property
    def max_and_by(self) -> tuple[int, int]:
        """`max` and `by`, with the defaults 0 and 1 where they are not given."""
        return self.max or 0, self.by or 1

    @property
    def reach(self) -> int | None:
        """The largest value of a domain that starts at 0; None if it is not of that kind."""
        return self._rule.reach(self)

    @property
    def clock_steps(self) -> tuple[int, ...]:
        return CLOCK_STEPS if self.transform == "step" else ()

    def group_columns(self) -> tuple[str, ...]:
        """The parts that the transform groups by: the hour alone of `hhmm`, for example."""
        return super().group_columns()[: self._rule.rough_parts]

    def split(self, values: np.ndarray) -> Split:
        return self._rule.split(self, values)

    def join(self, parts: Sequence[np.ndarray], uniform: Uniform) -> np.ndarray:
        return self._rule.join(self, [np.asarray(p, dtype=np.int64) for p in parts], uniform)

    def _own_plain(self) -> dict[str, Any]:
        own = without_none(top=self.top, by=self.by, max=self.max)
        return {"transform": self.transform, "parts": list(self.names), **own}

    @classmethod
    def from_entry(cls, entry: Any, common: dict[str, Any]) -> Transform:
        return cls(
            **common,
            top=entry.whole("top"),
            by=entry.whole("by"),
            max=entry.whole("max"),
            transform=entry.text("transform") or "",
            names=entry.texts("parts") or (),
            dtype=entry.dtype("int64"),
        )

    def amount(self) -> Amount:
        if self.temporal:
            return amount_of_times(self)
        return amount_of_numbers(self, whole=True)

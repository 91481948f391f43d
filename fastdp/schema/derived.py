"""Derived fields: one source column is encoded as one or more code columns, and decoded from them.

A derived field is a pair of functions on arrays. `split` takes source values and returns one array
of whole numbers per part, and a mask of the values that lie in its domain. `join` takes the parts
and a source of uniform numbers in [0, 1), one draw per row and purpose. It returns source values
that `split` maps to the same parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import SchemaError
from .columns import Part, SourceColumn, Uniform, fail

Split = tuple[list[np.ndarray], np.ndarray]
"""(int64 codes of each part, mask of the values that lie in the domain)"""
SHIFTS_PER_DAY = 3


@dataclass(frozen=True, kw_only=True)
class Derived(SourceColumn):
    """A source column `source` that is modelled as the code columns `parts`."""

    output: str = "value"
    parts: tuple[Part, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for where, policy in (("null", self.null), ("overflow", self.overflow)):
            if policy.action not in ("code", "drop"):
                raise fail(self.name, where, "expected 'code' or 'drop' for a derived field")

    def _part(self, name: str, part: str, count: int, **more: Any) -> Part:
        own: dict[str, Any] = {
            "source": self.source,
            "null": self.null,
            "overflow": self.overflow,
            "user": self.user,
            "of": self.name,
            "part": part,
            "count": count,
        }
        return Part(name=name, dtype="int64" if count > 32767 else "int16", **own, **more)

    @property
    def is_moment(self) -> bool:
        return self.calendar and self.output == "value"

    @property
    def moment_step(self) -> int:
        """Seconds between the times that are written, of a field that `is_moment`."""
        return 1

    @property
    def whole_days(self) -> bool:
        """Whether its parts name a single day, of a field that `is_moment`."""
        return False

    @property
    def reach(self) -> int | None:
        """The largest value in the domain, whose least is 0; None if there is none."""
        return None

    @property
    def clock_steps(self) -> tuple[int, ...]:
        """Seconds of the grids of the day, coarsest first, if the code is that of the first one
        that a time lies on. It is empty if the codes say something else."""
        return ()

    @property
    def split_unit(self) -> int:
        """`split` gives the same for all values that differ only within one multiple of this."""
        return 1

    def order_columns(self) -> tuple[str, ...]:
        raise SchemaError(
            f"user, field 'order': {self.name!r} is derived; name a column or a timestamp"
        )

    def group_columns(self) -> tuple[str, ...]:
        """The parts by which rows are grouped where somebody names the field itself: all of them,
        which together say its value."""
        return tuple(part.name for part in self.parts)

    def tied_parts(self) -> list[Part]:
        """The parts of which some combinations may be impossible, while no part is null."""
        return list(self.parts)

    def possible_parts(self, parts: Sequence[Part]) -> np.ndarray:
        """bool by codes below `base` of these parts: whether some value has them. By default, a
        combination is possible if the value that `join` makes of it is split into it again."""
        sizes = [part.base for part in parts]
        grid = np.indices(sizes).reshape(len(sizes), -1)
        again, good = self.split(self.join(list(grid), lambda _: np.full(grid.shape[1], 0.5)))
        same = good & np.all([a == g for a, g in zip(again, grid)], axis=0)
        return same.reshape(sizes)

    def split(self, values: np.ndarray) -> Split:
        raise NotImplementedError

    def join(self, parts: Sequence[np.ndarray], uniform: Uniform) -> np.ndarray:
        raise NotImplementedError


def shifts_per_day(codes: int) -> int | None:
    """The number of shifts per day if a week is divided into `codes` equal shifts of whole hours;
    None if that is impossible."""
    per_day, rest = divmod(codes, 7)
    return per_day if per_day and not rest and 24 % per_day == 0 else None


def shift_parts(
    shift: np.ndarray, part: str, u: np.ndarray | None = None, per_day: int = SHIFTS_PER_DAY
) -> np.ndarray:
    """Day of the week (0..6) or hour of the day (0..23, drawn uniformly within the shift by `u`).
    Shifts are numbered through the week, `per_day` of them per day."""
    if part == "day_of_week":
        return shift // per_day
    if u is None:
        raise ValueError(
            'part="hour" needs u=, a uniform number for each row, to draw the hour in its shift'
        )
    hours = 24 // per_day
    return shift % per_day * hours + np.minimum((u * hours).astype(np.int64), hours - 1)

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
"""Shifts per day of a timestamp's part `shift`: 8 hours each."""


@dataclass(frozen=True, kw_only=True)
class Derived(SourceColumn):
    """A source column `source` that is modelled as the code columns `parts`.

    output: what is written, "value" (the column `join` makes) or "parts" (the code columns).
    """

    output: str = "value"
    parts: tuple[Part, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for where, policy in (("null", self.null), ("overflow", self.overflow)):
            if policy.action not in ("code", "drop"):
                raise fail(self.name, where, "expected 'code' or 'drop' for a derived field")

    def _part(self, name: str, part: str, count: int, **more: Any) -> Part:
        return Part(
            name=name,
            source=self.source,
            dtype="int64" if count > 32767 else "int16",
            null=self.null,
            overflow=self.overflow,
            user=self.user,
            of=self.name,
            part=part,
            count=count,
            **more,
        )

    @property
    def is_moment(self) -> bool:
        """Whether it is a point in time that is written as one value."""
        return self.calendar and self.output == "value"

    @property
    def moment_step(self) -> int:
        """The grid in seconds on which written times lie, of a field that `is_moment`."""
        return 1

    @property
    def one_interval(self) -> bool:
        """Of a field that `is_moment`: whether the times of every combination of parts surely form
        one interval, without gaps."""
        return False

    @property
    def reach(self) -> int | None:
        """The largest value of a domain that starts at 0; None if it is not of that kind."""
        return None

    @property
    def clock_steps(self) -> tuple[int, ...]:
        """Grids of the day in seconds, coarsest first, if a time is encoded as the number of the
        first grid it lies on. Empty for every other encoding."""
        return ()

    @property
    def split_unit(self) -> int:
        """A unit within which no part changes: `split` depends on `value // split_unit` alone."""
        return 1

    def order_columns(self) -> tuple[str, ...]:
        raise SchemaError(
            f"user, field 'order': {self.name!r} is derived; name a column or a timestamp"
        )

    def group_columns(self) -> tuple[str, ...]:
        """The parts by which rows are grouped when a query groups by the field: all parts, unless a
        kind of field chooses coarser groups."""
        return tuple(part.name for part in self.parts)

    def tied_parts(self) -> list[Part]:
        """The parts that depend on each other: some combinations of their values may not exist."""
        return list(self.parts)

    def possible_parts(self, parts: Sequence[Part]) -> np.ndarray:
        """For each combination of codes below `base` of these parts: whether some value has it. By
        default, it does if `split` maps the value that `join` makes back to the combination."""
        sizes = [part.base for part in parts]
        grid = np.indices(sizes).reshape(len(sizes), -1)
        again, good = self.split(self.join(list(grid), lambda _: np.full(grid.shape[1], 0.5)))
        same = good & np.all([a == g for a, g in zip(again, grid)], axis=0)
        return same.reshape(sizes)

    def outside(self) -> tuple[list[Part], np.ndarray] | None:
        """(parts, mask over their codes below `base`): combinations that no value of the domain has
        although each of their codes occurs, where such are many; None if there are none of note."""
        return None

    def split(self, values: np.ndarray) -> Split:
        """The codes of int64 source values, and which values lie in the domain (see the module).
        Times are seconds since 1970."""
        raise NotImplementedError

    def join(self, parts: Sequence[np.ndarray], uniform: Uniform) -> np.ndarray:
        """A source value for each row's codes; `uniform(purpose)` draws one number in [0, 1) per
        row."""
        raise NotImplementedError


def shifts_per_day(codes: int) -> int | None:
    """The number of shifts per day if a week is divided into `codes` equal shifts of whole hours;
    None if that is impossible."""
    per_day, rest = divmod(codes, 7)
    return per_day if per_day and not rest and 24 % per_day == 0 else None


def shift_parts(
    shift: np.ndarray, part: str, u: np.ndarray | None = None, per_day: int = SHIFTS_PER_DAY
) -> np.ndarray:
    """The part "day_of_week" (0..6) or "hour" (0..23) of shifts, which are numbered through the
    week, `per_day` of them per day. `u`: for each row, a number in [0, 1) that draws the hour."""
    if part == "day_of_week":
        return shift // per_day
    if u is None:
        raise ValueError(
            'part="hour" needs u=, a uniform number for each row, to draw the hour in its shift'
        )
    hours = 24 // per_day
    return shift % per_day * hours + np.minimum((u * hours).astype(np.int64), hours - 1)

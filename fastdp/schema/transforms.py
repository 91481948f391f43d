"""Named transforms of whole numbers: the table in which `transform = "NAME"` of a schema is looked
up.

A transform is a pair of functions on arrays (`split`, `join`) and the numbers of codes of its
parts. `divmod` and `hhmm` are general; transforms for particular data sets are in `builtin`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .builtin import census1940
from .columns import Uniform, fail
from .derived import Split

CLOCK_STEPS = (86_400, 3600, 1800, 900, 300, 60, 1)
"""Grids, in seconds, that times of day may lie on. They are public."""
MIDNIGHT = 0.8
"""Times of which this share is at midnight are days (senators' terms: 88 %)."""


class NamedTransform(Protocol):
    """`field` is the schema's entry (`derived.Transform`): its name, `top`, `by`, `max`, `names`,
    `max_and_by`."""

    least_top: int = 0
    """The smallest value allowed for `top`, the decoded value of the code for all larger values."""

    rough_parts: int | None = None
    """How many of the first parts a query groups by when it names the field; None: all."""

    def sizes(self, field: Any) -> tuple[int, ...]:
        """Number of codes of each part; SchemaError if the entry's options make no sense."""

    def reach(self, field: Any) -> int | None:
        """The largest value of a domain that starts at 0; None if it is not of that kind."""
        return None

    def split(self, field: Any, values: np.ndarray) -> Split:
        """(int64 codes of each part, mask of the values that lie in the domain) of int64 values."""

    def join(self, field: Any, parts: Sequence[np.ndarray], uniform: Uniform) -> np.ndarray:
        """int64 values that `split` maps to these parts; `uniform(purpose)` draws from [0, 1), one
        per row."""


class Divmod(NamedTransform):
    """Values 0..max as two codes: quotient and remainder of division by `by`."""

    def sizes(self, field: Any) -> tuple[int, ...]:
        if not field.by or field.by < 1 or field.max is None or field.max < 0:
            raise fail(field.name, "by", "divmod needs by >= 1 and max >= 0")
        return field.max // field.by + 1, field.by

    def reach(self, field: Any) -> int:
        return field.max_and_by[0]

    def split(self, field: Any, values: np.ndarray) -> Split:
        high, by = field.max_and_by
        good = (values >= 0) & (values <= high)
        return list(np.divmod(np.where(good, values, 0), by)), good

    def join(self, field: Any, parts: Sequence[np.ndarray], uniform: Uniform) -> np.ndarray:
        high, by = field.max_and_by
        return np.minimum(parts[0] * by + parts[1], high)


class Clock(NamedTransform):
    """Clock times written as HHMM, 0 to 2400: codes of the hour (0..24) and, with a second part, of
    the minute in steps of `by` (default 1). Without it, minutes are drawn evenly on that grid."""

    rough_parts = 1

    def sizes(self, field: Any) -> tuple[int, ...]:
        if 60 % field.max_and_by[1]:
            raise fail(field.name, "by", "the grid in minutes must divide an hour")
        return (25, 60 // field.max_and_by[1])[: max(1, len(field.names))]

    def reach(self, field: Any) -> int:
        return 2400

    def split(self, field: Any, values: np.ndarray) -> Split:
        good = (values >= 0) & (values <= 2400) & (values % 100 < 60)
        hour, minute = np.divmod(np.where(good, values, 0), 100)
        return [hour, minute // field.max_and_by[1]][: len(field.names)], good

    def join(self, field: Any, parts: Sequence[np.ndarray], uniform: Uniform) -> np.ndarray:
        by = field.max_and_by[1]
        minute = parts[1] if len(parts) > 1 else (uniform("minute") * (60 // by)).astype(np.int64)
        return parts[0] * 100 + np.where(parts[0] == 24, 0, minute * by)


class Step(NamedTransform):
    """The number of the coarsest grid of the day in CLOCK_STEPS on which a time lies. It is only counted,
    never written: a run finds the step of a private column by it."""

    def sizes(self, field: Any) -> tuple[int, ...]:
        return (len(CLOCK_STEPS),)

    def split(self, field: Any, values: np.ndarray) -> Split:
        on = values[:, None] % np.array(CLOCK_STEPS) == 0
        return [on.argmax(axis=1)], np.ones(len(values), bool)

    def join(self, field: Any, parts: Sequence[np.ndarray], uniform: Uniform) -> np.ndarray:
        return np.array(CLOCK_STEPS)[parts[0]]


TRANSFORMS: Mapping[str, NamedTransform] = {
    **census1940.TRANSFORMS,
    "divmod": Divmod(),
    "hhmm": Clock(),
    "step": Step(),
}

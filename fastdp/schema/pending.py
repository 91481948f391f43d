"""Columns whose values or bounds are not in the schema: `domain = "private"`.

Such a column has no codes yet: `Schema.domain` raises an error, and no source can be read with the
schema. A run finds values, edges or bounds with differential privacy, and `Schema.finished` returns
the schema in which the column is an ordinary one (docs/guide/domains.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

from ..errors import SchemaError
from . import dtypes, epoch, kind_of_text
from .columns import Column, fail
from .derived import Derived, Transform
from .within_bin import EVEN, OPTIONS, PRIVATE as MEASURED

PRIVATE = "private"
ANY = "any"
"""The kind of a column of texts whose kind is to be found, too: numbers, dates and times, or a list
of texts. Where the column's dtype is stated, only dates and times are looked for."""
BINS = 32
"""Number of bins of a numeric column whose document has no `bins`."""
MOST_BINS = 1024
MOST_KEYS_PER_USER = 1 << 10
MOST_WHOLE = 1024
"""If the private bounds of an `integer` column contain at most this many numbers, each becomes a
code."""
EXPECTED_VALUES = 32
"""The number of values that a plan assumes for a column whose values are still to be found."""
DAYS_LISTED = 370
"""A span of at most this many days is modelled by its dates, a longer one by year, month, day of
the week."""
NARROW = 0.005
OTHER = "(other)"
"""The value that stands for all texts which are not in the list that the run found."""
_TEXTS = ("other", "nan")
KEPT = {
    "categorical": _TEXTS,
    "string": _TEXTS,
    "integer": ("nan",),
    "numeric": ("whole", "digits", "nan", *OPTIONS),
    "timestamp": ("parts", "step", "week_start", "output"),
    ANY: (),
}
"""By kind: options of the finished column that the document of a private column may set, besides
those of every column."""
_KEYS = ("keys_per_user",)
_BOUNDS = ("min", "max", "bins")
ASKED = {
    "categorical": _KEYS,
    "string": _KEYS,
    "integer": _BOUNDS,
    "numeric": _BOUNDS,
    "timestamp": (),
}
ASKED[ANY] = ("keys_per_user", "bins")
COMMON = ("kind", "source", "dtype", "null", "overflow", "user", "note")


@dataclass(frozen=True, kw_only=True)
class Pending(Column):
    """A column with a private domain. `wanted`: the kind of the finished column; `low`, `high`:
    public bounds (for dates and times in days or seconds since 1970); `stated`: the options in its
    document."""

    kind: ClassVar[str] = "pending"
    wanted: str
    bins: int = BINS
    keys_per_user: int | None = None
    low: float | None = None
    high: float | None = None
    stated: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if self.wanted not in KEPT:
            raise fail(
                self.name,
                "domain",
                (
                    f'domain = "private" has no effect on a column of kind {self.wanted!r}; remove '
                    "it"
                ),
            )
        if not 2 <= self.bins <= MOST_BINS:
            raise fail(self.name, "bins", f"must lie in 2..{MOST_BINS}")
        k = self.keys_per_user
        if k is not None and not 1 <= k <= MOST_KEYS_PER_USER:
            raise fail(self.name, "keys_per_user", f"must lie in 1..{MOST_KEYS_PER_USER}")
        family = dtypes.family(self.dtype)
        if self.keyed and family not in ("string", "int", "bool"):
            raise fail(
                self.name,
                "dtype",
                f"private values need a column of texts or whole numbers, got {self.dtype}",
            )
        if self.wanted in ("integer", "numeric") and family in ("bool", "string"):
            raise fail(
                self.name,
                "dtype",
                f"private bounds need a column of numbers, dates or times, got {self.dtype}",
            )
        if self.wanted == "integer" and family not in ("int", "float"):
            raise fail(
                self.name, "dtype", f"{self.dtype} does not hold whole numbers; use kind 'numeric'"
            )
        if self.wanted == "timestamp" and family not in ("timestamp", "date"):
            raise fail(self.name, "dtype", f"expected a timestamp or date type, got {self.dtype}")
        for where, policy in (("null", self.null), ("overflow", self.overflow)):
            if policy.action == "value":
                raise fail(
                    self.name,
                    where,
                    (
                        "a private domain is not known yet, so this cannot name one of its "
                        "values; use "
                        "code or drop"
                    ),
                )
        if self.low is not None and self.high is not None and self.high < self.low:
            raise fail(self.name, "max", "is below min")

    @property
    def keyed(self) -> bool:
        """Whether the run has to find a list of values; otherwise it finds bounds and edges."""
        return self.wanted in ("categorical", "string", ANY)

    def of_kind(self, kind: str) -> Pending:
        """This column of kind ANY as what most of its texts are (`kind_of_text`)."""
        wanted, dtype = _READ_AS.get(kind, ("string", self.dtype))
        stated = {
            k: v for k, v in self.stated.items() if k in COMMON and k not in ("kind", "dtype")
        }
        return replace(self, wanted=wanted, dtype=dtype, stated=stated)

    @property
    def countable(self) -> bool:
        """Whether the column may hold whole numbers without public bounds."""
        numbers = dtypes.family(self.dtype) in ("int", "float") and not self.keyed
        return numbers and self.low is None and self.high is None

    @property
    def may_have_step(self) -> bool:
        """Whether these are times whose step is to be found: the document states none."""
        stated = {"parts", "step"} & set(self.stated)
        return (
            self.wanted == "timestamp" and dtypes.family(self.dtype) == "timestamp" and not stated
        )

    @property
    def clock(self) -> Derived:
        """The grids (`transforms.CLOCK_STEPS`) that the column's times lie on, or the hours of its
        numbers read as clock times (HHMM), as codes; numbers that are not clock times have a code
        of their own. It is only counted."""
        own: dict[str, Any] = {"name": self.name, "source": self.source, "dtype": self.dtype}
        return Transform(
            **own, transform="step" if self.may_have_step else "hhmm", names=(self.name,)
        )

    def with_step(self, step: int) -> Pending:
        """This column of times as one whose times lie on this grid of seconds (86,400: at
        midnight)."""
        return replace(self, stated={**self.stated, "step": step})

    def with_clock(self, part: str, nulls: bool) -> dict[str, Any]:
        """The document of a finished column of clock times written as HHMM; `part`: the name of its
        hours."""
        entry = self._finished(
            "derived", "code" if nulls else "drop", "code", transform="hhmm", parts=[part]
        )
        return {k: v for k, v in entry.items() if k not in KEPT["numeric"]}

    @property
    def measured(self) -> bool:
        """Whether the run finds the means of the column's bins too."""
        number = self.wanted == "numeric" and dtypes.family(self.dtype) not in ("date", "timestamp")
        return number and self.stated.get("means", MEASURED) == MEASURED

    @property
    def whole(self) -> bool:
        """Whether the document declares that the column's values are whole numbers."""
        return self.wanted == "integer" or self.stated.get("whole") is True

    @property
    def base(self) -> int:
        how = "use it with `fastdp synth` or `synthesize`, which find the domain"
        raise SchemaError(f"column {self.name!r}: its domain is private and not found yet; {how}")

    def to_plain(self) -> dict[str, Any]:
        known = {} if self.wanted == ANY else {"dtype": self.dtype}
        return {**self.stated, **known, "domain": PRIVATE}

    def _finished(self, kind: str, null: Any, overflow: Any, **domain: Any) -> dict[str, Any]:
        common = {
            k: v for k, v in self.stated.items() if k in COMMON and k not in ("kind", "dtype")
        }
        own = {k: v for k, v in self.stated.items() if k in KEPT[self.wanted]}
        policies = {"null": null, "overflow": overflow}
        return {"kind": kind, "dtype": self.dtype, **policies, **common, **own, **domain}

    def with_values(self, values: Sequence[int | str]) -> dict[str, Any]:
        """The document of the finished column with these values. For texts, one further value
        stands for all other texts, unless the document states an overflow policy. Other whole
        numbers get the overflow code, unless the list is empty."""
        text = dtypes.family(self.dtype) == "string"
        rest: int | str = self.stated.get("other") or (OTHER if text else 0)
        if "overflow" in self.stated or (values and not text):
            return self._finished("categorical", "code", "code", values=list(values) or [rest])
        values = [*dict.fromkeys([*values, rest])]
        entry = self._finished("categorical", "code", {"value": rest}, values=values)
        return {k: v for k, v in entry.items() if k != "other"}

    def with_edges(
        self, edges: Sequence[float], nulls: bool, digits: int | None = None
    ) -> dict[str, Any]:
        """The document of the finished column: bins, a range of whole numbers, or a span of time.
        `nulls`: whether the run saw enough nulls for a null code (else rows with a null are
        dropped); `digits`: number of decimals of floats, if the run found it."""
        null = "code" if nulls else "drop"
        if self.wanted == "timestamp":
            return self._with_span(edges, null)
        edges = _increasing(edges)
        whole = self.whole or dtypes.family(self.dtype) == "int" or digits == 0
        if whole and edges[-1] - edges[0] <= (
            MOST_WHOLE if self.wanted == "integer" else len(edges) - 1
        ):
            low, high = int(edges[0]), int(edges[-1]) - 1
            entry = self._finished("integer", null, "clamp", min=low, max=high)
            return {k: v for k, v in entry.items() if k not in ("whole", "digits", *OPTIONS)}
        timely = dtypes.family(self.dtype) in ("date", "timestamp")
        listed = [epoch.text_of(int(e), self.dtype) if timely else _number(e) for e in edges]
        more: dict[str, Any] = {"whole": True} if whole else {}
        if digits and not whole:
            more["digits"] = digits
        more["means"] = MEASURED if self.measured and _wide(edges) else EVEN
        atoms = self.stated.get("atoms", ())
        if atoms and atoms != PRIVATE:
            more["atoms"] = [a for a in atoms if edges[0] <= a < edges[-1]]
        return self._finished("numeric", null, "clamp", edges=listed, **more)

    def _with_span(self, edges: Sequence[float], null: str) -> dict[str, Any]:
        ends = edges[0], max(edges[-1] - 1, edges[0])
        first, last = (epoch.local_day(int(edge), self.dtype) for edge in ends)
        parts = self.stated.get("parts")
        if parts is None:
            parts = ["date"] if last - first < DAYS_LISTED else ["year", "month", "day_of_week"]
            if dtypes.family(self.dtype) != "date" and self.stated.get("step") != 86_400:
                parts.append("hour")
        span = {"min": epoch.text_of(first, "date32"), "max": epoch.text_of(last, "date32")}
        return self._finished("timestamp", null, "code", parts=parts, **span)

    def stand_in(self) -> dict[str, Any]:
        """A document of the finished column with a likely number of codes, for planning a run
        before the domain is found."""
        if self.keyed:
            text = dtypes.family(self.dtype) == "string"
            return self.with_values([str(i) if text else i for i in range(EXPECTED_VALUES)])
        if self.wanted == "timestamp":
            day = 1 if dtypes.family(self.dtype) == "date" else 86_400
            return self._with_span([18_262 * day, 18_628 * day], "drop")  # the year 2020
        return self.with_edges([float(i * 10) for i in range(self.bins + 1)], False)


_READ_AS = {
    kind_of_text.WHOLE: ("numeric", "int64"),
    kind_of_text.NUMBER: ("numeric", "float64"),
    kind_of_text.DATE: ("timestamp", "date32"),
    kind_of_text.TIME: ("timestamp", "timestamp[us]"),
    kind_of_text.ZONED: ("timestamp", "timestamp[us, tz=UTC]"),
}
"""By kind of text: (kind of column, type) of a private column of texts that are read so."""


def _increasing(edges: Sequence[float]) -> list[float]:
    """The edges that differ as floats, at least two: beyond 2^53 units of the last digit, decimals
    that differ can be one float."""
    out = [edges[0]]
    out += [b for a, b in pairwise(edges) if float(b) > float(a)]
    return out if len(out) > 1 else [*out, math.nextafter(float(out[0]), math.inf)]


def _wide(edges: Sequence[float]) -> bool:
    """Whether values a tenth of a bin higher or lower would change the column's mean by more than
    NARROW, if all bins held as many rows. Of narrower bins no means are worth their noise."""
    widths = [b - a for a, b in pairwise(edges)]
    return 0.1 * sum(widths) > NARROW * sum(abs(a + b) / 2 for a, b in pairwise(edges))


def _number(edge: float) -> int | float:
    return int(edge) if edge % 1 == 0 and abs(edge) < 2**53 else edge

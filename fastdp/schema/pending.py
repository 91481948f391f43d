"""Columns whose values or bounds are not in the schema: `domain = "private"`.

Such a column has no codes yet: `Schema.domain` raises an error, and no source can be read with the
schema. A run finds values, edges or bounds with differential privacy, and `Schema.finished` returns
the schema in which the column is an ordinary one (docs/guide/domains.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..errors import SchemaError
from . import dtypes, kind_of_text
from .amounts import Amount, amount_of_numbers
from .columns import Column, FoundEdges, SourceColumn, fail
from .derived import Derived
from .entry import ANY, COMMON, PRIVATE, check_has_private_domain
from .kind_registry import KINDS
from .kinds.categorical import OTHER
from .kinds.transform import Transform
from .within_bin import PRIVATE as MEASURED

__all__ = ["ANY", "BINS", "COMMON", "OTHER", "PRIVATE", "Pending"]

BINS = 32
"""Number of bins of a numeric column whose document has no `bins`."""
MOST_BINS = 1024
"""The most bins that a document may ask for."""
MOST_KEYS_PER_USER = 1 << 10
"""The most different values of one user that a document may let count."""


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
        check_has_private_domain(self.name, self.wanted, self.target.finds)
        if not 2 <= self.bins <= MOST_BINS:
            raise fail(self.name, "bins", f"must lie in 2..{MOST_BINS}")
        k = self.keys_per_user
        if k is not None and not 1 <= k <= MOST_KEYS_PER_USER:
            raise fail(self.name, "keys_per_user", f"must lie in 1..{MOST_KEYS_PER_USER}")
        self.target.check_private(self)
        for where, policy in (("null", self.null), ("overflow", self.overflow)):
            if policy.action == "value":
                raise fail(
                    self.name,
                    where,
                    "a private domain is not known yet, so this cannot name one of its values; use "
                    "code or drop",
                )
        if self.low is not None and self.high is not None and self.high < self.low:
            raise fail(self.name, "max", "is below min")

    @property
    def target(self) -> type[SourceColumn]:
        """The kind of the finished column."""
        return KINDS.get(self.wanted)

    @property
    def keyed(self) -> bool:
        """Whether the run has to find a list of values; otherwise it finds bounds and edges."""
        return self.target.finds == "values"

    @property
    def leads_ranks(self) -> bool:
        return self.target.finds_means

    @property
    def to_find(self) -> tuple[str, ...]:
        return ("atoms",) if self.stated.get("atoms") == PRIVATE else ()

    def amount(self) -> Amount | None:
        if self.temporal:
            return super().amount()
        numbers = dtypes.family(self.dtype) in ("int", "float", "decimal")
        if self.keyed and not numbers:
            return None
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        if self.low is None:
            bounds.insert(0, -math.inf)
        return amount_of_numbers(self, bounds, self.whole, self.stated.get("digits"))

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
        return self.target.calendar and dtypes.family(self.dtype) == "timestamp" and not stated

    @property
    def clock(self) -> Derived:
        """The grids (`transforms.CLOCK_STEPS`) that the column's times lie on, or the hours of its
        numbers read as clock times (HHMM), as codes. Numbers that are not clock times have a code
        of their own. It is only counted."""
        return Transform(
            name=self.name,
            source=self.source,
            dtype=self.dtype,
            transform="step" if self.may_have_step else "hhmm",
            names=(self.name,),
        )

    def with_step(self, step: int) -> Pending:
        """This column of times as one whose times lie on this grid of seconds (86,400: at
        midnight)."""
        return replace(self, stated={**self.stated, "step": step})

    def with_clock(self, part: str, nulls: bool) -> dict[str, Any]:
        """The document of a finished column of clock times written as HHMM; `part`: the name of its
        hours."""
        entry = self.finished(
            "derived", "code" if nulls else "drop", "code", transform="hhmm", parts=[part]
        )
        return {k: v for k, v in entry.items() if k not in KINDS.get("numeric").kept_options}

    @property
    def measured(self) -> bool:
        """Whether the run finds the means of the column's bins too."""
        number = self.target.finds_means and not self.temporal
        return number and self.stated.get("means", MEASURED) == MEASURED

    @property
    def whole(self) -> bool:
        """Whether the document declares that the column's values are whole numbers."""
        return self.target.always_whole or self.stated.get("whole") is True

    @property
    def base(self) -> int:
        how = "use it with `fastdp synth` or `synthesize`, which find the domain"
        raise SchemaError(f"column {self.name!r}: its domain is private and not found yet; {how}")

    def to_plain(self) -> dict[str, Any]:
        known = {} if self.wanted == ANY else {"dtype": self.dtype}
        return {**self.stated, **known, "domain": PRIVATE}

    def finished(self, kind: str, null: Any, overflow: Any, **domain: Any) -> dict[str, Any]:
        """The document of a finished column of this kind: policies where the document states none,
        what it states for the finished column, and the domain."""
        common = {
            k: v for k, v in self.stated.items() if k in COMMON and k not in ("kind", "dtype")
        }
        own = {k: v for k, v in self.stated.items() if k in self.target.kept_options}
        policies = {"null": null, "overflow": overflow}
        return {"kind": kind, "dtype": self.dtype, **policies, **common, **own, **domain}

    def with_values(self, values: Sequence[int | str]) -> dict[str, Any]:
        """The document of the finished column with these values."""
        return self.target.values_entry(self, values)

    def with_edges(
        self,
        edges: Sequence[float],
        nulls: bool,
        digits: int | None = None,
        middle: float | None = None,
    ) -> dict[str, Any]:
        """The document of the finished column with these edges; see `SourceColumn.edges_entry`."""
        return self.target.edges_entry(self, FoundEdges(edges, nulls, digits, middle))

    def stand_in(self) -> dict[str, Any]:
        """A document of the finished column with a likely number of codes, for planning a run
        before the domain is found."""
        return self.target.stand_in_entry(self)


_READ_AS = {
    kind_of_text.WHOLE: ("numeric", "int64"),
    kind_of_text.NUMBER: ("numeric", "float64"),
    kind_of_text.DATE: ("timestamp", "date32"),
    kind_of_text.TIME: ("timestamp", "timestamp[us]"),
    kind_of_text.ZONED: ("timestamp", "timestamp[us, tz=UTC]"),
}
"""By kind of text: (kind of column, type) of a private column of texts that are read so."""

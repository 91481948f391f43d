"""The unit of privacy: whose addition or removal a promise is about.

Epsilons of different units do not add up to the epsilon of anything. So a budget has one unit, and
the ledger refuses a run whose unit differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SchemaError, UsageError
from ..schema import Schema
from ..schema.periods import KIND as USER_PERIOD, Period

UNIT_KINDS = ("user", "row", "event", USER_PERIOD)
NULL_POLICIES = ("drop", "own")


@dataclass(frozen=True)
class Unit:
    """kind
        "user": all rows of one user. "row": one row, where no column holds users. "event": one row, or one
        user's rows of one group, where a column holds users. "user-period": all rows of one user in
        one period (day, week, month or year) of a time column.
    column
        The column of user ids; None for "row".
    null
        What a row without an id is: "drop" (not counted) or "own" (a user of its own); None for "row".
    period, time, zone, dtype
        Of "user-period" (`schema.periods.Period`): the length of a period, the column of times
        ("of" in documents), the time zone. `dtype` is the type by which texts are read as times.
    """

    kind: str
    column: str | None = None
    null: str | None = None
    period: str | None = None
    time: str | None = None
    zone: str | None = None
    dtype: str | None = None

    def __post_init__(self):
        if self.kind not in UNIT_KINDS:
            raise UsageError(
                f"unit: expected one of {', '.join(UNIT_KINDS)}, got {self.kind!r}; of the column of "
                f"user ids {self.kind!r}, write 'user:{self.kind}'"
            )
        if self.kind == "row":
            if self.column is not None or self.null is not None:
                raise UsageError("unit: 'row' takes no user column and no rule for nulls")
            return
        if not isinstance(self.column, str) or not self.column:
            raise UsageError(
                f'unit: {self.kind} needs the column of user ids, as in unit="{self.kind}:COLUMN"'
            )
        if self.null is None:
            object.__setattr__(self, "null", "drop")
        if self.null not in NULL_POLICIES:
            raise UsageError(
                f"unit: expected 'drop' or 'own' as its rule for nulls, got {self.null!r}"
            )
        self._complete_period()

    def _complete_period(self) -> None:
        if self.kind != USER_PERIOD:
            if (self.period, self.time, self.zone, self.dtype) != (None, None, None, None):
                raise UsageError(f"unit: {self.kind!r} has no period; use {USER_PERIOD!r}")
            return
        given = {"kind": self.kind, "period": self.period, "of": self.time}
        try:
            found = Period.parse(given | {"zone": self.zone, "dtype": self.dtype})
        except SchemaError as error:
            raise UsageError(str(error)) from None
        object.__setattr__(self, "zone", found.zone)
        object.__setattr__(self, "dtype", found.dtype)

    def period_of_rows(self, only: str | None = None) -> Period | None:
        """How rows fall into periods, for the schema; of one period alone with `only`. None for
        units without periods."""
        if self.kind != USER_PERIOD:
            return None
        assert self.period and self.time and self.zone and self.dtype
        return Period(self.period, self.time, self.zone, self.dtype, only).checked()

    @classmethod
    def of(cls, schema: Schema, kind: str = "user") -> Unit:
        """The unit of a run on this schema; without a user column, users and events are rows."""
        if kind not in UNIT_KINDS:
            raise UsageError(f"unit must be one of {', '.join(UNIT_KINDS)}, got {kind!r}")
        if schema.user is None or kind == "row":
            return cls("row")
        if (period := schema.period) is not None:
            if kind not in ("user", USER_PERIOD):
                raise UsageError(
                    f"unit: the schema protects one user in one {period.length}, but the mechanism "
                    f"protects one {kind}; remove one of the two"
                )
            return cls(
                USER_PERIOD,
                schema.user,
                schema.null_user,
                period=period.length,
                time=period.of,
                zone=period.zone,
                dtype=period.dtype,
            )
        return cls(kind, schema.user, schema.null_user)

    @classmethod
    def parse(cls, value: Any, null: str | None = None) -> Unit:
        """A `Unit`, a mapping of its fields, a schema (its users), or text: "row", "user:COLUMN",
        "event:COLUMN", "user-period:COLUMN:month:TIME" (a zone may follow). `null` is the null
        policy that goes with a text ("drop" if it is not given).
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            known = {"kind", "column", "null", "period", "of", "zone", "dtype"}
            if set(value) - known or "kind" not in value:
                raise UsageError(
                    f"unit: expected the keys kind, column and null, and for {USER_PERIOD!r} period, "
                    "of, zone and dtype"
                )
            fields = {"time" if key == "of" else key: entry for key, entry in value.items()}
            return cls(**fields)
        if isinstance(value, str):
            kind, _, rest = value.partition(":")
            if kind == USER_PERIOD:
                column, period, of, zone = [*rest.split(":", 3), "", "", ""][:4]
                return cls(kind, column, null, period, of, zone or None)
            return cls(kind, rest or None, null)
        if hasattr(value, "null_user"):
            return cls.of(value)
        raise UsageError(
            "unit: expected 'row', 'user:COLUMN', 'event:COLUMN' or "
            f"'user-period:COLUMN:month:TIME', got {type(value).__name__}"
        )

    def to_dict(self) -> dict:
        plain = {"kind": self.kind, "column": self.column, "null": self.null}
        if self.kind != USER_PERIOD:
            return plain
        more = {"period": self.period, "of": self.time, "zone": self.zone, "dtype": self.dtype}
        return plain | more

    def __str__(self) -> str:
        if self.kind == "row":
            return "one row"
        nulls = "left out" if self.null == "drop" else "each a user"
        ids = f"column {self.column!r}, rows without an id {nulls}"
        if self.kind == USER_PERIOD:
            times = f"{self.time!r} in the time zone {self.zone}"
            return f"one user in one {self.period} of {times} ({ids})"
        return f"one user ({ids})" if self.kind == "user" else f"one event of a user ({ids})"

    @property
    def adjacency(self) -> str:
        """Which tables are neighbours, in words for the statement."""
        if self.kind == "event":
            return (
                "add or remove one row, or in histograms of users one user's rows of one key; "
                "NOT a whole user"
            )
        if self.kind == "row":
            return (
                "add or remove one row; the schema has no user column, so each row is its own user"
            )
        alone = "; a row without an id counts as a user of its own" if self.null == "own" else ""
        if self.kind == USER_PERIOD:
            return (
                f"add or remove all rows of one user in one {self.period} of {self.time!r} (time zone "
                f"{self.zone}; a user's rows without a valid time are one {self.period}){alone}; NOT "
                f"a user's rows of several {self.period}s"
            )
        return f"add or remove one user with all of their rows{alone}"

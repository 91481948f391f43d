"""The unit of privacy: whose addition or removal a promise is about.

Epsilons of different units do not add up to the epsilon of anything. So a budget has one unit, and
the ledger refuses a run whose unit differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from ..schema import Schema

UNIT_KINDS = ("user", "row", "event")
NULL_POLICIES = ("drop", "own")


@dataclass(frozen=True)
class Unit:
    """kind
        "user": all rows of one user. "row": one row, where no column holds users. "event": one row, or one
        user's rows of one group, where a column holds users.
    column
        The column of user ids; None for "row".
    null
        What a row without an id is: "drop" (not counted) or "own" (a user of its own); None for "row".
    """

    kind: str
    column: str | None = None
    null: str | None = None

    def __post_init__(self):
        if self.kind not in UNIT_KINDS:
            raise UsageError(f"unit: expected one of {', '.join(UNIT_KINDS)}, got {self.kind!r}")
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

    @classmethod
    def of(cls, schema: Schema, kind: str = "user") -> Unit:
        """The unit of a run on this schema; without a user column, users and events are rows."""
        if kind not in UNIT_KINDS:
            raise UsageError(f"unit must be one of {', '.join(UNIT_KINDS)}, got {kind!r}")
        if schema.user is None or kind == "row":
            return cls("row")
        return cls(kind, schema.user, schema.null_user)

    @classmethod
    def parse(cls, value: Any, null: str | None = None) -> Unit:
        """A `Unit`, a mapping of its fields, a schema (its users), or text: "row", "user:COLUMN",
        "event:COLUMN". `null` is the null policy that goes with a text ("drop" if it is not given).
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            unknown = set(value) - {"kind", "column", "null"}
            if unknown or "kind" not in value:
                raise UsageError("unit: expected the keys kind, column and null")
            return cls(**value)
        if isinstance(value, str):
            kind, _, column = value.partition(":")
            return cls(kind, column or None, null)
        if hasattr(value, "null_user"):
            return cls.of(value)
        raise UsageError(
            f"unit: expected 'row', 'user:COLUMN' or 'event:COLUMN', got {type(value).__name__}"
        )

    def to_dict(self) -> dict:
        return {"kind": self.kind, "column": self.column, "null": self.null}

    def __str__(self) -> str:
        if self.kind == "row":
            return "one row"
        nulls = "left out" if self.null == "drop" else "each a user"
        ids = f"column {self.column!r}, rows without an id {nulls}"
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
        return f"add or remove one user with all of their rows{alone}"

"""A column as a code book describes it, and the entry of a schema that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ...errors import SchemaError
from ..entry import PRIVATE
from ..kinds.integer import MOST_WHOLE

TYPES = ("text", "whole", "number", "boolean", "date", "time")
"""What a value can be. Standards have more types; each reader maps its own onto these."""


class PublicColumn(Struct, frozen=True, kw_only=True):
    """What a code book says of a column.

    `kind` is one of `TYPES`. `values` with `labels` (value to label) is the complete public list,
    if there is one. `low` and `high` are inclusive bounds, as numbers or as ISO dates. `required`:
    a value may not be missing. `note`: a text for people.
    """

    name: str
    kind: str
    values: tuple[Any, ...] = ()
    labels: Mapping[Any, str] = {}
    low: Any = None
    high: Any = None
    required: bool = False
    note: str = ""

    def entry(self) -> dict[str, Any]:
        """The entry of the schema. Values outside the code book are overflow, never an error."""
        found = self._kind()
        if self.required:
            found["null"] = "drop"
        if self.note:
            found["note"] = self.note
        return found

    def _kind(self) -> dict[str, Any]:
        if self.values:
            return self._listed()
        if self.kind == "boolean":
            return {"kind": "categorical", "dtype": "bool", "values": [False, True]}
        if self.kind == "text":
            return {"kind": "string", "domain": PRIVATE}
        if self.kind == "date":
            return {"kind": "timestamp", "dtype": "date32", "domain": PRIVATE}
        if self.kind == "time":
            return {"kind": "timestamp", "dtype": "timestamp[us]", "domain": PRIVATE}
        return self._number()

    def _listed(self) -> dict[str, Any]:
        dtypes = {"whole": "int64", "number": "float64", "boolean": "bool"}
        dtype = dtypes.get(self.kind, "string")
        values = [str(v) for v in self.values] if dtype == "string" else list(self.values)
        names = [self.labels.get(v, str(v)) for v in self.values]
        entry: dict[str, Any] = {"kind": "categorical", "dtype": dtype, "values": values}
        if names != [str(v) for v in values]:
            entry["names"] = names
        return entry

    def _number(self) -> dict[str, Any]:
        """Whole numbers with both bounds near each other are listed; other numbers get private
        bins between the public bounds."""
        whole = self.kind == "whole"
        known = {"min": self.low, "max": self.high}
        bounds = {key: value for key, value in known.items() if value is not None}
        if whole and len(bounds) == 2 and self.high - self.low < MOST_WHOLE:
            return {"kind": "integer", "dtype": "int64", **bounds}
        dtype = "int64" if whole else "float64"
        return {"kind": "numeric", "dtype": dtype, "domain": PRIVATE, **bounds}


class PublicTable(Struct, frozen=True):
    """The columns of one table, in the order of the code book."""

    name: str
    columns: tuple[PublicColumn, ...]


def document(table: PublicTable, form: str, file: str, user: str | None) -> dict[str, Any]:
    """The schema document of a table; the user column is not one of its columns."""
    names = [column.name for column in table.columns]
    if user is not None and user not in names:
        raise SchemaError(f"user: the code book has no column {user!r}; it has {', '.join(names)}")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SchemaError(f"column {repeated[0]!r}: the code book describes it twice")
    columns = {c.name: c.entry() for c in table.columns if c.name != user}
    made: dict[str, Any] = {
        "name": table.name,
        "provenance": f"{form} code book {file}",
        "columns": columns,
    }
    if user is not None:
        made["user"] = {"column": user}
    return made


def number(text: Any, whole: bool, where: str) -> int | float | None:
    """A bound of a code book; None where it states none. SchemaError if it is not a number."""
    if text is None or text == "":
        return None
    try:
        value = float(text)
        if whole and isinstance(text, int):
            return text
        return int(value) if whole and value == int(value) else value
    except (TypeError, ValueError, OverflowError):
        raise SchemaError(f"{where}: expected a number, got {text!r}") from None

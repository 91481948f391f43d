"""Fields of a schema from the entries of [columns] in its document."""

from datetime import date
from typing import Any

from .columns import MAX_CODES, OF_USERS, Column, fail
from .derived import Derived
from .entry import Entry
from .kind_registry import KINDS
from .pending import BINS, Pending

Field = Column | Derived


def parse_field(name: str, plain: Any) -> Field:
    """The field that one entry of [columns] describes."""
    entry = Entry(name, plain)
    kind = KINDS.get(entry.kind)
    if entry.private:
        known = kind.public_entry(entry)
        if known is None:
            return _pending(entry)
        entry = Entry(name, known)
    item: Any = kind.from_entry(entry, _common(entry))
    for column in item.parts:
        if column.size > MAX_CODES:
            raise fail(name, "max", f"{column.size} codes, the limit is {MAX_CODES}; use bins")
    return item


def _common(entry: Entry) -> dict[str, Any]:
    """The arguments that every kind of column has."""
    return {
        "name": entry.name,
        "source": entry.text("source") or entry.name,
        "null": entry.policy("null"),
        "overflow": entry.policy("overflow"),
        "user": None if entry.text("user") is None else entry.choice("user", "", OF_USERS),
        "note": entry.text("note"),
    }


def _pending(entry: Entry) -> Pending:
    """A column with `domain = "private"`."""
    dtype = entry.dtype(KINDS.get(entry.kind).private_type)
    plain = {k: v for k, v in entry.plain.items() if k != "domain"}
    column = Pending(
        **_common(entry),
        nan=entry.nan(),
        bins=entry.whole("bins", BINS) or 0,
        low=entry.limit("min", dtype),
        high=entry.limit("max", dtype),
        keys_per_user=entry.whole("keys_per_user"),
        dtype=dtype,
        wanted=entry.kind,
        stated={k: v.isoformat() if isinstance(v, date) else v for k, v in plain.items()},
    )
    parse_field(entry.name, column.stand_in())  # raises if its finished form has wrong options
    return column

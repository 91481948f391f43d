"""Fields of a schema from the entries of [columns] in its document."""

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

import msgspec

from . import dtypes, epoch
from .columns import MAX_CODES, OF_USERS, Categorical, Column, Integer, Numeric, fail
from .decimal_places import DIGITS, Places
from .derived import Derived, Timestamp, Transform
from .entry import Entry, is_number, shown
from .kind_of_text import TextKind
from .pending import BINS, Pending
from .within_bin import Grid, parse_inside

Field = Column | Derived


def _guess_dtype(values: list[Any]) -> str:
    if all(isinstance(v, bool) for v in values):
        return "bool"
    if all(map(is_number, values)):
        return "int64" if all(isinstance(v, int) for v in values) else "float64"
    if all(isinstance(v, date) for v in values):
        return "timestamp[us]" if any(hasattr(v, "hour") for v in values) else "date32"
    return "string"


def _edges(entry: Entry, dtype: str) -> tuple[float, ...]:
    listed = entry.list("edges")
    if listed is None:
        raise fail(entry.name, "edges", "missing; list the public bin edges")
    return tuple(_edge(entry.name, f"edges[{i}]", v, dtype) for i, v in enumerate(listed))


def _edge(column: str, where: str, value: Any, dtype: str) -> float:
    """A number of a document, or SchemaError; an edge or atom of dates and times in days or seconds since
    1970. An edge may be "inf" or "-inf"."""
    if where.startswith("edges") and value in ("inf", "+inf", "-inf"):
        return float(value)
    if _timely(dtype) and where.startswith(("edges", "atoms")):
        value = _moment(column, where, value, dtype)
    if not is_number(value) or value != value:
        raise fail(column, where, f"must be a number, got {shown(value)}")
    if float(value) != value:
        raise fail(
            column, where, f"{value} has no exact 64-bit float; the nearest is {int(float(value))}"
        )
    return float(value)


def _timely(dtype: str) -> bool:
    return dtypes.family(dtype) in ("date", "timestamp")


def _moment(column: str, where: str, value: Any, dtype: str) -> float:
    """Whole days or seconds since 1970 of a date or time in a document; infinities are returned
    unchanged."""
    if isinstance(value, float) and math.isinf(value):
        return value
    try:
        return float(
            epoch.coarse(value.isoformat() if isinstance(value, date) else str(value), dtype)
        )
    except ValueError:
        raise fail(
            column, where, f"expected an ISO date or time (whole seconds), got {shown(value)}"
        ) from None


def _limit(entry: Entry, key: str, dtype: str) -> float | None:
    """min or max of a numeric column."""
    value = entry.plain.get(key)
    timely = value is not None and _timely(dtype)
    return _moment(entry.name, key, value, dtype) if timely else entry.number(key)


def _column(entry: Entry, common: dict[str, Any]) -> Column:
    common["nan"] = entry.choice("nan", "null", ("null", "overflow"))
    if entry.kind in ("categorical", "string"):
        values = entry.list("values")
        if values is None:
            raise fail(entry.name, "values", "missing; list every value that the column may take")
        default = "string" if entry.kind == "string" else _guess_dtype(values)
        common |= {"names": entry.texts("names"), "other": entry.plain.get("other")}
        return Categorical(**common, dtype=entry.dtype(default), values=tuple(values))
    if entry.kind == "integer":
        low, high = entry.whole("min", 0), entry.whole("max")
        if high is None:
            raise fail(entry.name, "max", "missing; give the largest value")
        return Integer(**common, dtype=entry.dtype("int64"), min=low or 0, max=high)
    dtype = entry.dtype("float64")
    inside = parse_inside(
        entry.name, entry.plain, lambda v, where: _edge(entry.name, where, v, dtype)
    )
    common |= {key: _limit(entry, key, dtype) for key in ("min", "max")}
    common |= {key: entry.tail(key) for key in ("tail", "lower_tail")}
    common |= {
        "whole": entry.flag("whole", dtypes.family(dtype) == "int"),
        "digits": entry.whole("digits"),
    }
    return Numeric(**common, dtype=dtype, edges=_edges(entry, dtype), **inside)


_PENDING_TYPES = {
    "string": "string",
    "integer": "int64",
    "numeric": "float64",
    "timestamp": "timestamp[us]",
}


def _pending(entry: Entry, common: dict[str, Any]) -> Column:
    """A column with `domain = "private"`. A boolean column is returned finished, as its two values
    are public."""
    if entry.kind == "categorical" and entry.text("dtype") is None:
        raise fail(
            entry.name,
            "dtype",
            "missing; set it to a text or whole-number type, for example string or int32",
        )
    dtype = entry.dtype(_PENDING_TYPES.get(entry.kind, "string"))
    if entry.kind in ("categorical", "string") and dtype == "bool":
        rest = {k: v for k, v in entry.plain.items() if k not in ("domain", "keys_per_user")}
        return _column(Entry(entry.name, {**rest, "values": [False, True]}), common)
    plain = {k: v for k, v in entry.plain.items() if k != "domain"}
    stated = {k: v.isoformat() if isinstance(v, date) else v for k, v in plain.items()}
    common["nan"] = entry.choice("nan", "null", ("null", "overflow"))
    common["bins"] = entry.whole("bins", BINS) or 0
    common |= {"low": _limit(entry, "min", dtype), "high": _limit(entry, "max", dtype)}
    common["keys_per_user"] = entry.whole("keys_per_user")
    column = Pending(**common, dtype=dtype, wanted=entry.kind, stated=stated)
    parse_field(entry.name, column.stand_in())  # raises if options of its finished form are wrong
    return column


def _timestamp(entry: Entry, common: dict[str, Any]) -> Timestamp:
    parts = entry.plain.get("parts")
    if isinstance(parts, list | tuple):
        parts = {str(p): f"{entry.name}_{p}" for p in parts}
    if not isinstance(parts, Mapping) or not all(isinstance(v, str) for v in parts.values()):
        raise fail(entry.name, "parts", "expected a list of parts, or a table from part to name")
    low, high = entry.date("min"), entry.date("max")
    default = "parts" if low is None or high is None else "value"
    common |= {
        "output": entry.choice("output", default, ("value", "parts")),
        "min": low,
        "max": high,
    }
    common["week_start"] = entry.choice("week_start", "monday", ("monday", "sunday"))
    dtype = entry.dtype("timestamp[us]")
    step = entry.whole("step", 1) or 0
    return Timestamp(**common, dtype=dtype, names=dict(parts), step=step)


def parse_field(name: str, plain: Any) -> Field:
    """The field that one entry of [columns] describes."""
    entry = Entry(name, plain)
    common: dict[str, Any] = {
        "name": name,
        "source": entry.text("source") or name,
        "null": entry.policy("null"),
        "overflow": entry.policy("overflow"),
        "user": None if entry.text("user") is None else entry.choice("user", "", OF_USERS),
        "note": entry.text("note"),
    }
    item: Field
    if entry.private:
        return _pending(entry, common)
    if (
        entry.kind == Places.kind
    ):  # not for users: a run sends its schema to other processes in this form
        grids = msgspec.convert(entry.list("grids"), tuple[Grid, ...] | None) or DIGITS
        return Places(**common, dtype=entry.dtype("float64"), grids=grids)
    if entry.kind == TextKind.kind:
        return TextKind(**common, dtype=entry.dtype("float64"))
    if entry.kind == "timestamp":
        item = _timestamp(entry, common)
    elif entry.kind == "derived":
        common |= {key: entry.whole(key) for key in ("top", "by", "max")}
        common |= {"transform": entry.text("transform") or "", "names": entry.texts("parts") or ()}
        item = Transform(**common, dtype=entry.dtype("int64"))
    else:
        item = _column(entry, common)
    for column in item.parts:
        if column.size > MAX_CODES:
            raise fail(name, "max", f"{column.size} codes, the limit is {MAX_CODES}; use bins")
    return item

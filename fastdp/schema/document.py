"""Reads and writes schemas as TOML and JSON. Every error names the column and the field."""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from .._util.files import as_path
from ..errors import SchemaError, nearest
from . import constraints, dtypes, epoch
from .columns import MAX_CODES, Categorical, Column, Integer, Numeric, Policy, Tail, fail
from .derived import Derived, Timestamp, Transform
from .dialect import Dialect
from .pending import ASKED, BINS, KEPT, PRIVATE, Pending
from .places import Places
from .toml_write import document

Field = Column | Derived
FORMAT = 1
BUILTIN = Path(__file__).parent / "builtin"

_COMMON = ("kind", "source", "dtype", "null", "overflow", "role", "note")
_OWN = {
    "categorical": ("values", "names", "other", "nan"),
    "string": ("values", "names", "other", "nan"),
    "integer": ("min", "max", "nan"),
    "numeric": ("edges", "min", "max", "tail", "lower_tail", "whole", "digits", "nan"),
    "timestamp": ("parts", "min", "max", "step", "week_start", "output"),
    "derived": ("transform", "parts", "top", "by", "max"),
}
_NUMBER = (int, float)


@dataclass(frozen=True)
class Output:
    """A column of the output that is not modelled: day or hour of the shift in column `of`; the hour is drawn
    within the shift."""

    name: str
    of: str
    part: str
    dtype: str = "int8"

    def to_plain(self) -> dict[str, Any]:
        return {"from": self.of, "part": self.part, "dtype": self.dtype}


class _Entry:
    """One column's table while it is parsed: checks the types of values, and that every key was used."""

    def __init__(self, name: str, plain: Any):
        if not isinstance(name, str) or not name:
            raise SchemaError(f"columns: names are non-empty strings, got {name!r}")
        if not isinstance(plain, Mapping):
            raise SchemaError(f"column {name!r}: must be a table with a 'kind', got {_kind(plain)}")
        self.name, self.plain = name, plain
        kind = self.text("kind")
        if kind is None:
            raise fail(name, "kind", f"missing; one of {', '.join(_OWN)}")
        if kind not in _OWN and kind != Places.kind:
            raise fail(name, "kind", f"{kind!r} is none of {', '.join(_OWN)}")
        self.kind = kind
        self.private = self.text("domain") is not None
        keys: tuple[str, ...] = (*_COMMON, *_OWN.get(kind, ()), "domain")
        if self.private:
            self.choice("domain", PRIVATE, (PRIVATE,))
            keys = (*_COMMON, *KEPT.get(kind, ()), *ASKED.get(kind, ()), "domain")
        for key in plain:
            if key not in keys:
                with_domain = " with a private domain" if self.private else ""
                raise fail(name, str(key), f"unknown for kind {kind!r}{with_domain}{_hint(str(key), keys)}")

    def text(self, key: str) -> str | None:
        value = self.plain.get(key)
        if value is not None and not isinstance(value, str):
            raise fail(self.name, key, f"must be text, got {_kind(value)}")
        return value

    def choice(self, key: str, default: str, options: Iterable[str]) -> str:
        value = self.text(key)
        value = default if value is None else value
        if value not in options:
            raise fail(self.name, key, f"{value!r} is none of {', '.join(options)}")
        return value

    def whole(self, key: str, default: int | None = None) -> int | None:
        value = self.plain.get(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, _NUMBER) or value % 1 != 0:
            raise fail(self.name, key, f"must be a whole number, got {_shown(value)}")
        return int(value)

    def number(self, key: str) -> float | None:
        value = self.plain.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, _NUMBER) or not math.isfinite(value):
            raise fail(self.name, key, f"must be a finite number, got {_shown(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.plain.get(key, default)
        if not isinstance(value, bool):
            raise fail(self.name, key, f"must be true or false, got {_kind(value)}")
        return value

    def list(self, key: str) -> list[Any] | None:
        value = self.plain.get(key)
        if value is not None and not isinstance(value, list | tuple):
            raise fail(self.name, key, f"must be a list, got {_kind(value)}")
        return None if value is None else list(value)

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self.list(key)
        if value is not None and not all(isinstance(v, str) for v in value):
            raise fail(self.name, key, "must be a list of texts")
        return None if value is None else tuple(value)

    def date(self, key: str) -> str | None:
        value = self.plain.get(key)
        if value is None:
            return None
        try:
            return date.fromisoformat(str(value)[:10]).isoformat()
        except ValueError:
            raise fail(self.name, key, f"must be a date like 2022-01-31, got {value!r}") from None

    def dtype(self, default: str) -> str:
        value = self.text("dtype")
        named = dtypes.canonical(default if value is None else value)
        if named is None:
            raise fail(self.name, "dtype", f"{value!r} is no type; e.g. int32, float64, string, bool")
        return named

    def policy(self, key: str, default: str = "code") -> Policy:
        value = self.plain.get(key, default)
        if isinstance(value, Mapping):
            if set(value) != {"value"}:
                raise fail(self.name, key, "as a table it holds exactly one key, 'value'")
            shown = value["value"]
            return Policy("value", shown.isoformat() if isinstance(shown, date) else shown)
        if value not in ("code", "drop", "clamp"):
            raise fail(self.name, key, f"{value!r} is none of code, drop, clamp, {{ value = ... }}")
        return Policy(str(value))

    def tail(self, key: str) -> Tail | None:
        value = self.plain.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping) or not set(value) <= {"law", "mean", "width"}:
            raise fail(self.name, key, "must be a table with law, and mean or width")
        law = value.get("law", "exponential")
        need = {"exponential": "mean", "uniform": "width"}.get(law) if isinstance(law, str) else None
        if need is None:
            raise fail(self.name, f"{key}.law", f"{_shown(law)} is neither exponential nor uniform")
        size = value.get(need)
        if isinstance(size, bool) or not isinstance(size, _NUMBER) or not 0 < size < math.inf:
            raise fail(self.name, f"{key}.{need}", f"must be a number > 0, got {_shown(size)}")
        return Tail(law, **{need: size})


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if isinstance(value, list) else type(value).__name__


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, int | float | str | None) else _kind(value)


def _hint(key: str, options: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, list(options), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _guess_dtype(values: list[Any]) -> str:
    if all(isinstance(v, bool) for v in values):
        return "bool"
    if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return "int64"
    if all(isinstance(v, _NUMBER) and not isinstance(v, bool) for v in values):
        return "float64"
    if all(isinstance(v, date) for v in values):
        return "timestamp[us]" if any(hasattr(v, "hour") for v in values) else "date32"
    return "string"


def _edges(entry: _Entry, dtype: str) -> tuple[float, ...]:
    listed = entry.list("edges")
    if listed is None:
        raise fail(entry.name, "edges", "missing; list the public bin edges")
    out = []
    for i, value in enumerate(listed):
        if value in ("inf", "+inf", "-inf"):
            value = float(value)
        elif _timely(dtype):
            value = _moment(entry.name, f"edges[{i}]", value, dtype)
        if isinstance(value, bool) or not isinstance(value, _NUMBER) or value != value:
            raise fail(entry.name, f"edges[{i}]", f"must be a number, got {_shown(value)}")
        out.append(float(value))
    return tuple(out)


def _timely(dtype: str) -> bool:
    return dtypes.family(dtype) in ("date", "timestamp")


def _moment(column: str, where: str, value: Any, dtype: str) -> float:
    """Whole days or seconds since 1970 of a date or time in a document; infinities are returned unchanged."""
    if isinstance(value, float) and math.isinf(value):
        return value
    try:
        return float(epoch.coarse(value.isoformat() if isinstance(value, date) else str(value), dtype))
    except ValueError:
        raise fail(column, where, f"{_shown(value)} is no ISO date or time (whole seconds)") from None


def _limit(entry: _Entry, key: str, dtype: str) -> float | None:
    """min or max of a numeric column."""
    value = entry.plain.get(key)
    return (
        _moment(entry.name, key, value, dtype) if value is not None and _timely(dtype) else entry.number(key)
    )


def _column(entry: _Entry, common: dict[str, Any]) -> Column:
    common["nan"] = entry.choice("nan", "null", ("null", "overflow"))
    if entry.kind in ("categorical", "string"):
        values = entry.list("values")
        if values is None:
            raise fail(entry.name, "values", "missing; list every value the column may take")
        default = "string" if entry.kind == "string" else _guess_dtype(values)
        return Categorical(
            **common,
            dtype=entry.dtype(default),
            values=tuple(values),
            names=entry.texts("names"),
            other=entry.plain.get("other"),
        )
    if entry.kind == "integer":
        low, high = entry.whole("min", 0), entry.whole("max")
        if high is None:
            raise fail(entry.name, "max", "missing; give the largest value")
        return Integer(**common, dtype=entry.dtype("int64"), min=low or 0, max=high)
    dtype = entry.dtype("float64")
    return Numeric(
        **common,
        dtype=dtype,
        edges=_edges(entry, dtype),
        min=_limit(entry, "min", dtype),
        max=_limit(entry, "max", dtype),
        tail=entry.tail("tail"),
        lower_tail=entry.tail("lower_tail"),
        whole=entry.flag("whole", dtypes.family(dtype) == "int"),
        digits=entry.whole("digits"),
    )


_PENDING_TYPES = {"string": "string", "integer": "int64", "numeric": "float64", "timestamp": "timestamp[us]"}


def _pending(entry: _Entry, common: dict[str, Any]) -> Column:
    """A column with `domain = "private"`. A boolean column is returned finished, as its two values are
    public."""
    if entry.kind == "categorical" and entry.text("dtype") is None:
        raise fail(entry.name, "dtype", "missing; say whether the values are texts or whole numbers")
    dtype = entry.dtype(_PENDING_TYPES.get(entry.kind, "string"))
    if entry.kind in ("categorical", "string") and dtype == "bool":
        rest = {k: v for k, v in entry.plain.items() if k not in ("domain", "keys_per_user")}
        return _column(_Entry(entry.name, {**rest, "values": [False, True]}), common)
    stated = {k: _stated(v) for k, v in entry.plain.items() if k != "domain"}
    column = Pending(
        **common,
        nan=entry.choice("nan", "null", ("null", "overflow")),
        dtype=dtype,
        wanted=entry.kind,
        bins=entry.whole("bins", BINS) or 0,
        keys_per_user=entry.whole("keys_per_user"),
        low=_limit(entry, "min", dtype),
        high=_limit(entry, "max", dtype),
        stated=stated,
    )
    parse_field(entry.name, column.stand_in())  # raises if options of its finished form are wrong
    return column


def _stated(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _timestamp(entry: _Entry, common: dict[str, Any]) -> Timestamp:
    parts = entry.plain.get("parts")
    if isinstance(parts, list | tuple):
        parts = {str(p): f"{entry.name}_{p}" for p in parts}
    if not isinstance(parts, Mapping) or not all(isinstance(v, str) for v in parts.values()):
        raise fail(entry.name, "parts", "must be a list of parts or a table from part to name")
    low, high = entry.date("min"), entry.date("max")
    return Timestamp(
        **common,
        dtype=entry.dtype("timestamp[us]"),
        names=dict(parts),
        min=low,
        max=high,
        step=entry.whole("step", 1) or 0,
        week_start=entry.choice("week_start", "monday", ("monday", "sunday")),
        output=entry.choice(
            "output", "parts" if low is None or high is None else "value", ("value", "parts")
        ),
    )


def parse_field(name: str, plain: Any) -> Field:
    """The field that one entry of [columns] describes."""
    entry = _Entry(name, plain)
    common: dict[str, Any] = {
        "name": name,
        "source": entry.text("source") or name,
        "null": entry.policy("null"),
        "overflow": entry.policy("overflow"),
        "role": entry.text("role"),
        "note": entry.text("note"),
    }
    item: Field
    if entry.private:
        return _pending(entry, common)
    if entry.kind == Places.kind:  # not for users: a run sends its schema to other processes in this form
        return Places(**common, dtype=entry.dtype("float64"))
    if entry.kind == "timestamp":
        item = _timestamp(entry, common)
    elif entry.kind == "derived":
        item = Transform(
            **common,
            dtype=entry.dtype("int64"),
            transform=entry.text("transform") or "",
            names=entry.texts("parts") or (),
            top=entry.whole("top"),
            by=entry.whole("by"),
            max=entry.whole("max"),
        )
    else:
        item = _column(entry, common)
    for column in item.parts if isinstance(item, Derived) else (item,):
        if column.size > MAX_CODES:
            raise fail(name, "max", f"{column.size} codes, more than the {MAX_CODES} possible; bin it")
    return item


def _output(name: str, plain: Any) -> Output:
    if not isinstance(plain, Mapping) or not set(plain) <= {"from", "part", "dtype"}:
        raise SchemaError(f"output {name!r}: must be a table with from, part and dtype")
    dtype = dtypes.canonical(str(plain.get("dtype", "int8")))
    if dtype is None or dtypes.family(dtype) != "int":
        raise SchemaError(f"output {name!r}, field 'dtype': must be an integer type")
    if plain.get("part") not in ("hour", "day_of_week"):
        raise SchemaError(f"output {name!r}, field 'part': neither hour nor day_of_week")
    return Output(name, str(plain.get("from", "")), plain["part"], dtype)


def parse(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `Schema` that a whole document describes."""
    if not isinstance(plain, Mapping):
        raise SchemaError(f"a schema is a table with [columns], got {_kind(plain)}")
    keys = ("fastdp", "name", "provenance", "user", "dialect", "columns", "outputs", "constraints")
    for key in plain:
        if key not in keys:
            raise SchemaError(f"schema, field {key!r}: unknown{_hint(str(key), keys)}")
    version = plain.get("fastdp", FORMAT)
    if version != FORMAT:
        raise SchemaError(f"schema, field 'fastdp': format {version!r}, this fastdp reads {FORMAT}")
    columns, outputs = plain.get("columns"), plain.get("outputs", {})
    for key, table in (("columns", columns), ("outputs", outputs)):
        if not isinstance(table, Mapping):
            raise SchemaError(f"schema, field {key!r}: must be a table of columns, got {_kind(table)}")
    user = plain.get("user")
    if isinstance(user, str):
        user = {"column": user}
    user = {} if user is None else user
    if not isinstance(user, Mapping):
        raise SchemaError(f"schema, field 'user': must be a table or a name, got {_kind(user)}")
    for key in user:
        if key not in ("column", "max_rows", "null", "dtype"):
            raise SchemaError(f"user, field {key!r}: unknown; column, max_rows, null, dtype exist")
    column = user.get("column")
    if user and (not isinstance(column, str) or not column):
        raise SchemaError("user, field 'column': the name of the user column is missing")
    dtype = user.get("dtype")
    if dtype is not None and (dtype := dtypes.canonical(str(dtype))) is None:
        raise SchemaError(f"user, field 'dtype': {user['dtype']!r} is no type")
    for key in ("name", "provenance"):
        if not isinstance(plain.get(key, ""), str):
            raise SchemaError(f"schema, field {key!r}: must be text")
    return {
        "fields": {name: parse_field(name, item) for name, item in (columns or {}).items()},
        "user": column,
        "max_rows_per_user": user.get("max_rows"),
        "null_user": user.get("null", "drop"),
        "user_dtype": dtype,
        "name": plain.get("name", ""),
        "provenance": plain.get("provenance", ""),
        "outputs": {name: _output(name, item) for name, item in outputs.items()},
        "dialect": Dialect.from_plain(plain.get("dialect", {})),
        "constraints": constraints.parse(plain.get("constraints", ())),
    }


def builtin_names() -> list[str]:
    """Names of the schemas that ship with fastdp."""
    return sorted(p.stem for p in BUILTIN.glob("*.toml"))


def load(source: str | Path) -> tuple[Path, dict[str, Any]]:
    """(path, document) of a .toml or .json file, or of a built-in schema given by its bare name."""
    path = as_path(source, "a schema file")
    if not path.suffix and not path.exists():
        path = BUILTIN / f"{source}.toml"
        if not path.exists():
            near = nearest(str(source), builtin_names())
            meant = f" (did you mean {near!r}?)" if near else ""
            names = ", ".join(builtin_names())
            raise SchemaError(f"no file and no built-in schema {str(source)!r}{meant}; built in are {names}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise SchemaError(f"schema file {path}: {reason}") from None
    try:
        if path.suffix == ".toml":
            return path, tomllib.loads(text)
        if path.suffix == ".json":
            return path, json.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise SchemaError(f"schema file {path}: {error}") from None
    raise SchemaError(f"schema file {path}: the ending must be .toml or .json")


def save(plain: dict[str, Any], json_plain: dict[str, Any], path: str | Path) -> None:
    """Writes `plain` as TOML or `json_plain` as JSON, as the suffix of the path says."""
    path = Path(path)
    if path.suffix == ".toml":
        text = document(plain)
    elif path.suffix == ".json":
        text = json.dumps(json_plain, indent=1, allow_nan=False) + "\n"
    else:
        raise SchemaError(f"schema file {path}: the ending must be .toml or .json")
    path.write_text(text, encoding="utf-8")

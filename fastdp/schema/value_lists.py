"""Public lists of values for columns whose domain a run would otherwise find.

A list comes from a code book or a register, and never from the private rows. A column with a list
costs no budget, and loses no value. A file has one value per line. A CSV file has a header, and the
values in the column of the same name, or else in its first column. A JSON file is a list. Other
texts than those listed are written as `(other)`, unless the schema states what becomes of them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from .._util.files import as_path
from ..errors import SchemaError, UsageError, did_you_mean
from . import dtypes
from .pending import ANY, OTHER, Pending

MOST_BYTES = 64 << 20
"""A list above this size is refused: it would be read and held in every schema and statement."""
KEPT = ("source", "null", "overflow", "user", "note", "other", "nan")
"""Keys of a private column that a listed one has as well."""


def as_lists(values: Any) -> dict[str, Any]:
    """The option `values` as a mapping from column to list or file; UsageError if it is not one."""
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise UsageError(
            "values: expected a mapping from a column to its public list, such as"
            f" {{'state': 'states.txt'}}, got {type(values).__name__}"
        )
    return dict(values)


def public_entries(pending: Mapping[str, Pending], values: Mapping[str, Any]) -> dict[str, Any]:
    """By column, its document with the public list. `pending`: the columns that lack a domain."""
    entries = {}
    for name, given in values.items():
        if name not in pending:
            meant = did_you_mean(name, pending) or "; every column has its domain already"
            raise UsageError(
                f"values: {name!r} is not a column whose values the run would find{meant}"
            )
        entries[name] = _entry(pending[name], _listed(name, given))
    return entries


def described(values: Mapping[str, Any]) -> str:
    """Where the lists come from, for the schema's provenance: names of files without folders."""
    parts = []
    for name, given in values.items():
        file = f" from {Path(given).name}" if isinstance(given, str | PathLike) else ""
        parts.append(f"{name}{file}")
    return f"public lists of values given for {', '.join(parts)}"


def _entry(column: Pending, listed: list[Any]) -> dict[str, Any]:
    where = f"values of {column.name!r}"
    family = "" if column.wanted == ANY else dtypes.family(column.dtype)
    if family not in ("", "string", "int", "float"):
        raise UsageError(
            f"{where}: a list is for texts and numbers, and the column is {column.dtype}; state it"
            " in a schema instead"
        )
    dtype = column.dtype
    if family == "":  # texts of a file without types
        dtype = "int64" if all(map(_is_whole, listed)) else "string"
    values = [_parsed(value, dtypes.family(dtype), where) for value in listed]
    stated = {key: value for key, value in column.stated.items() if key in KEPT}
    if dtype == "string" and "overflow" not in stated:
        stated.setdefault("other", OTHER)
    return {**stated, "kind": "categorical", "dtype": dtype, "values": values}


def _is_whole(value: Any) -> bool:
    """Whether a value is a whole number as programs write it; 007 is a text."""
    if isinstance(value, str):
        digits = value.removeprefix("-")
        return digits.isascii() and digits.isdigit() and str(int(digits)) == digits
    return isinstance(value, int) and not isinstance(value, bool)


def _parsed(value: Any, family: str, where: str) -> Any:
    if family == "string":
        if isinstance(value, str):
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{where}: expected texts, got {value!r}")
        return str(value)
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        return int(value) if family == "int" and not isinstance(value, float) else float(value)
    except ValueError:
        kind = "whole numbers" if family == "int" else "numbers"
        raise UsageError(f"{where}: the column holds {kind}, got {value!r}") from None


def _listed(name: str, given: Any) -> list[Any]:
    """The values, as texts if they come from a file of lines."""
    where = f"values of {name!r}"
    if isinstance(given, str | PathLike):
        found = _from_file(name, as_path(given, where))
    elif isinstance(given, Iterable) and not isinstance(given, bytes | Mapping):
        found = list(given)
    else:
        raise UsageError(f"{where}: expected a list or a file, got {type(given).__name__}")
    if not found:
        raise UsageError(f"{where}: the list is empty")
    return found


def _from_file(name: str, path: Path) -> list[Any]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SchemaError(f"values of {name!r}: {path} is larger than {MOST_BYTES >> 20} MB")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise SchemaError(f"values of {name!r}: {path} cannot be read ({reason})") from None
    if path.suffix == ".json":
        return _from_json(name, path, text)
    if path.suffix == ".csv":
        return _from_csv(name, path, text)
    lines = (line.rstrip("\r") for line in text.split("\n"))
    return [line for line in lines if line.strip()]


def _from_json(name: str, path: Path, text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"values of {name!r}: {path} is not JSON ({error})") from None
    if not isinstance(found, list):
        raise SchemaError(f"values of {name!r}: {path} does not hold a JSON list")
    return found


def _from_csv(name: str, path: Path, text: str) -> list[str]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise SchemaError(f"values of {name!r}: {path} is not CSV ({error})") from None
    if not rows:
        return []
    place = rows[0].index(name) if name in rows[0] else 0
    short = next((i for i, row in enumerate(rows) if len(row) <= place), None)
    if short is not None:
        raise SchemaError(f"values of {name!r}: {path}, row {short + 1} has no such column")
    return [row[place] for row in rows[1:]]

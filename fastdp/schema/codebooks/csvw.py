"""CSV on the Web (W3C): metadata of one table, or of a group of tables.

The standard has no lists of values. Offices state them in two ways, and both are read. One is a
`format` of alternatives (`A|B|C`, `Y|N`). The other is a foreign key to a code list, a CSV file
next to the metadata.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import SchemaError
from ..importers import read_json
from .public_column import PublicColumn, PublicTable, number

_WHOLE = {
    "integer",
    "int",
    "long",
    "short",
    "byte",
    "nonNegativeInteger",
    "positiveInteger",
    "unsignedInt",
    "unsignedLong",
    "unsignedShort",
    "unsignedByte",
    "gYear",
}
_NUMBERS = {"number", "decimal", "double", "float"}
_ALTERNATIVES = re.compile(r"\^?\(?((?:[^\\.\[\](){}*+?^$|]+\|)+[^\\.\[\](){}*+?^$|]+)\)?\$?")
"""A regular expression that is nothing but a choice between texts."""


def tables(path: Path) -> list[PublicTable]:
    """The tables that the metadata describes, without those that are only code lists."""
    plain = read_json(path)
    group = plain.get("tables")
    described = group if isinstance(group, list) else [plain]
    lists = set(_code_lists(described))
    found = []
    for i, table in enumerate(described):
        if not isinstance(table, Mapping):
            raise SchemaError(f"file {path}: 'tables' holds something that is not a table")
        address = str(table.get("url") or f"table{i + 1}.csv")
        if address in lists and len(described) > 1:
            continue
        found.append(_table(path, Path(address).stem, table))
    return found


def _code_lists(described: list[Any]) -> Iterator[str]:
    for table in described:
        for key in _schema(table).get("foreignKeys") or ():
            reference = key.get("reference") if isinstance(key, Mapping) else None
            if isinstance(reference, Mapping) and reference.get("resource"):
                yield str(reference["resource"])


def _schema(table: Any) -> Mapping[str, Any]:
    schema = table.get("tableSchema") if isinstance(table, Mapping) else None
    return schema if isinstance(schema, Mapping) else {}


def _table(path: Path, name: str, table: Mapping[str, Any]) -> PublicTable:
    schema = _schema(table)
    described = schema.get("columns")
    if not isinstance(described, list) or not described:
        raise SchemaError(f"table {name!r}: 'tableSchema.columns' is missing")
    lists = dict(_references(path, schema))
    columns = []
    for item in described:
        if not isinstance(item, Mapping):
            raise SchemaError(f"table {name!r}: expected columns as objects")
        if item.get("virtual") or item.get("suppressOutput"):
            continue
        columns.append(_column(item, lists))
    return PublicTable(name, tuple(columns))


def _references(path: Path, schema: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """By column, the values of the code list that its foreign key names, if the file is there."""
    for key in schema.get("foreignKeys") or ():
        reference = key.get("reference") or {}
        own = key.get("columnReference")
        other = reference.get("columnReference")
        file = path.parent / str(reference.get("resource", ""))
        if isinstance(own, list) and len(own) == 1:
            own = own[0]
        if isinstance(other, list) and len(other) == 1:
            other = other[0]
        if isinstance(own, str) and isinstance(other, str) and file.is_file():
            with file.open(encoding="utf-8-sig", newline="") as lines:
                rows = csv.DictReader(lines)
                if other in (rows.fieldnames or ()):
                    yield own, tuple(dict.fromkeys(row[other] for row in rows))


def _column(item: Mapping[str, Any], lists: Mapping[str, tuple[str, ...]]) -> PublicColumn:
    titles = item.get("titles")
    while isinstance(titles, Mapping | list) and titles:
        titles = next(iter(titles.values())) if isinstance(titles, Mapping) else titles[0]
    name = item.get("name") or titles
    if not isinstance(name, str):
        raise SchemaError("a column has neither 'name' nor 'titles'")
    datatype = item.get("datatype", "string")
    about = datatype if isinstance(datatype, Mapping) else {"base": datatype}
    kind = _kind(str(about.get("base", "string")))
    values, kind = _values(str(about.get("format") or ""), kind, lists.get(name, ()))
    low = about.get("minimum", about.get("minInclusive"))
    high = about.get("maximum", about.get("maxInclusive"))
    if kind in ("whole", "number"):
        whole = kind == "whole"
        low = number(low, whole, f"column {name!r}, 'minimum'")
        high = number(high, whole, f"column {name!r}, 'maximum'")
    return PublicColumn(
        name=name,
        kind=kind,
        values=values,
        low=low,
        high=high,
        required=item.get("required") is True,
        note=str(item.get("dc:description") or ""),
    )


def _kind(base: str) -> str:
    if base in _WHOLE:
        return "whole"
    if base in _NUMBERS:
        return "number"
    kinds = {"boolean": "boolean", "date": "date", "dateTime": "time", "datetime": "time"}
    return kinds.get(base, "text")


def _values(form: str, kind: str, listed: tuple[str, ...]) -> tuple[tuple[Any, ...], str]:
    """The public list of a column and its kind. A boolean that is written as two words is a text
    with these words."""
    if listed:
        if kind == "whole":
            return tuple(int(value) for value in listed), kind
        return listed, "text"
    choice = _ALTERNATIVES.fullmatch(form)
    if choice and kind in ("text", "boolean"):
        return tuple(dict.fromkeys(choice[1].split("|"))), "text"
    return (), kind

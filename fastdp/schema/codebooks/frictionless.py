"""Frictionless: a data package, or a table schema of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import SchemaError
from ..importers import read_json
from .public_column import PublicColumn, PublicTable, number

_TYPES = {
    "string": "text",
    "integer": "whole",
    "year": "whole",
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "datetime": "time",
}
"""Types of the standard that a synthetic table can have; fields of other types are left out."""


def tables(path: Path) -> list[PublicTable]:
    """The tables that a package describes, or the one of a table schema."""
    plain = read_json(path)
    if "resources" in plain:
        found = []
        for i, resource in enumerate(plain["resources"]):
            schema = resource.get("schema") if isinstance(resource, Mapping) else None
            if isinstance(schema, str):
                schema = _beside(path, schema)
            if isinstance(schema, Mapping):
                found.append(_table(str(resource.get("name") or f"table{i + 1}"), schema))
        return found
    return [_table(path.stem, plain)]


def _beside(path: Path, reference: str) -> dict[str, Any]:
    """A schema in a file of its own, next to the package. Addresses are not followed."""
    if "://" in reference or Path(reference).is_absolute() or ".." in Path(reference).parts:
        raise SchemaError(f"file {path}: expected a schema next to it, got {reference!r}")
    return read_json(path.parent / reference)


def _table(name: str, schema: Mapping[str, Any]) -> PublicTable:
    fields = schema.get("fields")
    if not isinstance(fields, list) or not fields:
        raise SchemaError(f"table {name!r}: 'fields' is missing; expected a list of fields")
    columns = [_column(field) for field in fields]
    return PublicTable(name, tuple(column for column in columns if column is not None))


def _column(field: Any) -> PublicColumn | None:
    if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
        raise SchemaError(f"fields: expected objects with a name, got {str(field)[:60]!r}")
    name = field["name"]
    kind = _TYPES.get(str(field.get("type", "string")))
    if kind is None:
        return None
    rules = field.get("constraints")
    rules = rules if isinstance(rules, Mapping) else {}
    values, labels = _list(field, rules)
    where = f"column {name!r}, constraint"
    bounds: dict[str, float | None] = {"low": None, "high": None}
    if kind in ("whole", "number"):
        whole = kind == "whole"
        bounds["low"] = number(rules.get("minimum"), whole, f"{where} 'minimum'")
        bounds["high"] = number(rules.get("maximum"), whole, f"{where} 'maximum'")
    return PublicColumn(
        name=name,
        kind=kind,
        values=values,
        labels=labels,
        required=rules.get("required") is True,
        note=str(field.get("title") or field.get("description") or ""),
        **bounds,
    )


def _value_and_label(item: Any) -> tuple[Any, str]:
    """An entry of `categories`: a value, or an object that has a value and perhaps a label."""
    if isinstance(item, Mapping) and "value" in item:
        return item["value"], str(item.get("label", item["value"]))
    return item, str(item)


def _list(field: Mapping[str, Any], rules: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict]:
    """The listed values and their labels: `categories`, else the constraint `enum`."""
    categories = field.get("categories")
    if isinstance(categories, list) and categories:
        pairs = [_value_and_label(item) for item in categories]
        return tuple(value for value, _ in pairs), dict(pairs)
    listed = rules.get("enum")
    if isinstance(listed, list) and listed:
        return tuple(listed), {}
    return (), {}

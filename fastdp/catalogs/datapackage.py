"""A Frictionless data package: `datapackage.json` with a table schema for each table."""

from __future__ import annotations

from typing import Any

from .._util.lazy import pa
from .about import About
from .described import Described, WrittenColumn, WrittenTable, identifiers


def datapackage(run: Described, about: About, base: str = "") -> dict[str, Any]:
    """The package: a resource for each table, and the guarantee under `privacy`. `base`: what
    precedes the names of files, empty or ending in "/"."""
    package: dict[str, Any] = {
        "name": identifiers([run.name])[0].lower(),
        "title": about.title or run.name,
        "description": about.description or f"Synthetic rows. {run.promise}",
        "homepage": about.url,
        "version": about.version,
        "created": about.date and f"{about.date}T00:00:00Z",
        "keywords": list(about.keywords) or None,
        "licenses": about.license and [_license(about.license)],
        "contributors": _contributors(about),
    }
    package = {key: value for key, value in package.items() if value}
    package["privacy"] = privacy_facts(run)
    package["resources"] = [_resource(run, table, base) for table in run.tables]
    return package


def privacy_facts(run: Described) -> dict[str, Any]:
    """The guarantee as plain numbers, for programs."""
    statement = run.statement
    return {
        "private": statement["private"],
        "epsilon": statement["epsilon"],
        "delta": statement["delta"],
        "unit": statement["unit"]["kind"],
        "adjacency": statement["unit"]["adjacency"],
        "mechanism": statement["mechanism"]["name"],
        "statement": "privacy.json, checked by `fastdp verify`",
    }


def _license(text: str) -> dict[str, str]:
    return {"path": text} if "://" in text else {"name": text}


def _contributors(about: About) -> list[dict[str, str]]:
    if about.creator is None and about.contact is None:
        return []
    person = {"title": about.creator or str(about.contact), "role": "publisher"}
    if about.contact is not None and "@" in about.contact and "://" not in about.contact:
        person["email"] = about.contact
    return [person]


def _resource(run: Described, table: WrittenTable, base: str) -> dict[str, Any]:
    """A table as a resource of the package."""
    paths = [base + path for path, _ in table.files]
    resource: dict[str, Any] = {
        "name": _resource_name(run, table),
        "type": "table",
        "path": paths[0],
        "format": "parquet",
        "mediatype": "application/vnd.apache.parquet",
        "schema": _schema(run, table),
    }
    if len(paths) == 1:
        return resource | {"hash": f"sha256:{table.files[0][1]}"}
    return resource | {"extrapaths": paths[1:]}


def _resource_name(run: Described, table: WrittenTable) -> str:
    """The name of a table as the standard allows it: in lower case."""
    names = identifiers([each.name.lower() for each in run.tables])
    return names[run.tables.index(table)]


def _schema(run: Described, table: WrittenTable) -> dict[str, Any]:
    schema: dict[str, Any] = {"fields": [_field(column) for column in table.columns]}
    for column in table.columns:
        if column.key == table.name:
            schema["primaryKey"] = [column.name]
        elif column.key:
            parent = next(t for t in run.tables if t.name == column.key)
            key = next(c for c in parent.columns if c.key == parent.name)
            reference = {"resource": _resource_name(run, parent), "fields": [key.name]}
            schema["foreignKeys"] = [{"fields": [column.name], "reference": reference}]
    return schema


def _field(column: WrittenColumn) -> dict[str, Any]:
    """A column as a field of a Table Schema."""
    field: dict[str, Any] = {"name": column.name, "type": _type(column), "arrow": str(column.kind)}
    if column.note:
        field["description"] = column.note
    constraints: dict[str, Any] = {}
    if not column.nullable:
        constraints["required"] = True
    if column.values is not None and field["type"] != "number":
        constraints["enum"] = list(column.values)
    if column.low is not None:
        constraints["minimum"] = column.low
    if column.high is not None:
        constraints["maximum"] = column.high
    if constraints:
        field["constraints"] = constraints
    if column.labels is not None:
        field["categories"] = [
            {"value": value, "label": label}
            for value, label in zip(column.values or (), column.labels, strict=True)
        ]
    return field


def _type(column: WrittenColumn) -> str:
    """The type in the standard's words. Whole numbers that may be missing are `number`: readers
    that go by pandas see them as floats, and refuse a missing `integer`."""
    kind = column.kind
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "number" if column.nullable else "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "datetime"
    return "string"

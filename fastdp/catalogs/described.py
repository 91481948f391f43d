"""What a run folder says about itself: statement, tables, files and columns, in plain records.

Only `privacy.json`, the schema and the footers of the row files (names and types of columns) are
read; no row is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from .._util.files import as_path
from .._util.lazy import pa, pq
from ..errors import RunError, UsageError

ROWS = re.compile(r"synthetic\.parquet|synthetic/part-\d+\.parquet")
"""Names of the files that hold rows, inside the folder of a table."""


class WrittenColumn(Struct, frozen=True):
    """A column of the rows.

    `values` are the listed values that it can hold, with `labels` for people; None where there is
    no list. `low` and `high` bound its numbers, both inclusive. `key` is the name of the table
    whose rows its values number: its own for a key, the parent's for a reference; empty elsewhere.
    `nullable`: whether a row may have no value.
    """

    name: str
    kind: pa.DataType
    values: tuple[Any, ...] | None = None
    labels: tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    key: str = ""
    nullable: bool = True


class WrittenTable(Struct, frozen=True):
    """A table of rows: `files` are (path inside the run folder, sha256) in the order of rows."""

    name: str
    files: tuple[tuple[str, str], ...]
    columns: tuple[WrittenColumn, ...]


class Described(Struct, frozen=True):
    """A run folder: its statement and its tables, the parent first."""

    name: str
    statement: Mapping[str, Any]
    tables: tuple[WrittenTable, ...]

    @property
    def promise(self) -> str:
        """The guarantee in one sentence."""
        if not self.statement["private"]:
            return "NOT PRIVATE: the noise was drawn from a known seed; nobody is protected."
        return (
            f"Differentially private: epsilon {self.statement['epsilon']:.6g} at delta "
            f"{self.statement['delta']:g}, {self.statement['unit']['adjacency']}."
        )


def identifiers(names: Sequence[str]) -> list[str]:
    """For each name an identifier of letters, digits, `.`, `_` and `-`, all of them different."""
    made: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-") or "unnamed"
        candidate = plain
        number = 2
        while candidate in made:
            candidate = f"{plain}-{number}"
            number = number + 1
        made.append(candidate)
    return made


def described(folder: str | os.PathLike[str]) -> Described:
    """Read what a finished run folder says about itself."""
    place = as_path(folder, "a run folder")
    statement = _json(place / "privacy.json")
    linked = place / "tables.json"
    name = str(statement["schema"].get("name") or place.resolve().name)
    if linked.is_file():
        return Described(name, statement, tuple(_linked_tables(place, _json(linked))))
    if not (place / "schema.json").is_file():
        raise UsageError(f"{place} holds several runs: name one of them, such as {place}/eps-1")
    table = _table(place, "", name, statement, _json(place / "schema.json"), own_key="")
    return Described(name, statement, (table,))


def _linked_tables(place: Path, document: Mapping[str, Any]) -> Iterator[WrittenTable]:
    """The tables of a linked run. Keys of the parent are references in its children."""
    parent = next(n for n, table in document["tables"].items() if "parent" not in table)
    for name in (parent, *(n for n in document["tables"] if n != parent)):
        inside = f"table-{name}/"
        statement = _json(place / inside / "privacy.json")
        schema = _json(place / inside / "schema.json")
        yield _table(place, inside, name, statement, schema, own_key=parent)


def _table(
    place: Path,
    inside: str,
    name: str,
    statement: Mapping[str, Any],
    schema: Mapping[str, Any],
    own_key: str,
) -> WrittenTable:
    """A table that the run wrote: its files with hashes, and its columns."""
    files = tuple(
        (inside + file, digest)
        for file, digest in sorted(statement["files"].items())
        if ROWS.fullmatch(file)
    )
    if not files:
        raise RunError(f"{place / inside}: the statement names no file of rows")
    by_source = {doc.get("source", key): doc for key, doc in schema["columns"].items()}
    user = (schema.get("user") or {}).get("column")
    columns = []
    for field in pq.read_schema(place / files[0][0]):
        document = by_source.get(field.name)
        if document is not None:
            columns.append(_column(field, document))
        elif field.name == user and own_key:
            columns.append(WrittenColumn(field.name, field.type, key=own_key, nullable=False))
        elif field.name == user:
            note = "Number of a synthetic user; it stands for nobody."
            columns.append(WrittenColumn(field.name, field.type, note=note, nullable=False))
        else:
            columns.append(WrittenColumn(field.name, field.type))
    return WrittenTable(name, files, tuple(columns))


def _column(field: pa.Field, document: Mapping[str, Any]) -> WrittenColumn:
    """A column with what the schema's document says of its values.

    Listed values are complete only where nothing else can be written. Values outside the list are
    written as `other`, and nulls as null or as a value of their own.
    """
    note = document.get("note", "")
    nullable = "code" in (document.get("null"), document.get("overflow"))
    values = document.get("values")
    if values is not None:
        extra = [document["other"]] if "other" in document else []
        extra += [
            policy["value"]
            for policy in (document.get("null"), document.get("overflow"))
            if isinstance(policy, Mapping)
        ]
        listed = list(dict.fromkeys([*values, *extra]))
        names = list(document.get("names") or map(str, values))
        labels = names + [str(value) for value in listed[len(names) :]]
        return WrittenColumn(
            field.name, field.type, tuple(listed), tuple(labels), note=note, nullable=nullable
        )
    bounds = (document.get("min"), document.get("max"))
    numbers = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    plain = numbers and not any(isinstance(document.get(k), Mapping) for k in ("null", "overflow"))
    low, high = (b if plain and isinstance(b, int | float) else None for b in bounds)
    return WrittenColumn(field.name, field.type, low=low, high=high, note=note, nullable=nullable)


def _json(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RunError(f"{path.parent} is not a finished run folder: {error}") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise RunError(f"{path} is damaged: it is not valid JSON") from None
    if not isinstance(plain, dict):
        raise RunError(f"{path} is damaged: expected a JSON object")
    return plain

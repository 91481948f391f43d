"""Schema documents from SDV's metadata (single table, sequential, or one table of several).

The metadata gives the kind of a column's values, but no lists or bounds. The run finds these
(`domain = "private"`), or the caller gives them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import SchemaError
from . import dtypes
from .importers import read_json
from .pending import PRIVATE

_TIME_OF_DAY = ("%H", "%I", "%M", "%S", "%p", "%f", "%T", "%X", "%c")


def from_sdv(
    metadata: Any, *, table: str | None, user: str | None, columns: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The document of one table. Ids and personal texts (names, addresses) are left out;
    `provenance` in the document lists them."""
    plain, name = _one_table(_plain(metadata), table)
    listed = plain.get("columns")
    if not isinstance(listed, Mapping) or not listed:
        raise SchemaError("SDV metadata: 'columns' is missing")
    user = user or plain.get("sequence_key")
    if user is not None and user not in listed:
        raise SchemaError(
            f"user: the SDV metadata has no column {user!r}; it has {', '.join(listed)}"
        )
    made: dict[str, Any] = {}
    left_out = []
    for column, about in listed.items():
        if column == user:
            continue
        document = columns.get(column) or _column(about if isinstance(about, Mapping) else {})
        if document is None:
            left_out.append(column)
        else:
            made[column] = dict(document)
    if unknown := sorted(set(columns) - set(listed)):
        raise SchemaError(
            f"the SDV metadata has no column {unknown[0]!r}; it has {', '.join(listed)}"
        )
    without = f"; without {', '.join(left_out)} (ids, personal texts)" if left_out else ""
    out: dict[str, Any] = {"name": name, "provenance": f"SDV metadata{without}", "columns": made}
    if user is not None:
        out["user"] = {"column": user}
    return out


def _plain(metadata: Any) -> Mapping[str, Any]:
    if isinstance(metadata, str | Path):
        return read_json(metadata)
    if hasattr(metadata, "to_dict"):
        metadata = metadata.to_dict()
    if not isinstance(metadata, Mapping):
        raise SchemaError(
            "SDV metadata: expected an SDV object, a mapping or a path, got "
            f"{type(metadata).__name__}"
        )
    return metadata


def _one_table(plain: Mapping[str, Any], table: str | None) -> tuple[Mapping[str, Any], str]:
    tables = plain.get("tables")
    if tables is None:
        return plain, table or ""
    if table is None and len(tables) == 1:
        table = next(iter(tables))
    if table is None or table not in tables:
        raise SchemaError(
            f"table: expected one of the tables in the SDV metadata ({', '.join(tables)}), "
            f"got {table!r}"
        )
    return tables[table], table


def _column(about: Mapping[str, Any]) -> dict[str, Any] | None:
    """The document of a column; None if a synthetic table should not contain the column."""
    kind = about.get("sdtype")
    if kind == "boolean":
        return {"kind": "categorical", "dtype": "bool", "values": [False, True]}
    if kind == "categorical":
        return {"kind": "string", "domain": PRIVATE}
    if kind == "numerical":
        dtype = (
            dtypes.canonical(str(about.get("computer_representation", "Float")).lower())
            or "float64"
        )
        return {"kind": "numeric", "dtype": dtype, "domain": PRIVATE}
    if kind == "datetime":
        form = about.get("datetime_format") or "%H"
        if any(mark in form for mark in _TIME_OF_DAY):
            return {"kind": "timestamp", "dtype": "timestamp[us]", "domain": PRIVATE}
        return {"kind": "timestamp", "dtype": "date32", "domain": PRIVATE}
    return None

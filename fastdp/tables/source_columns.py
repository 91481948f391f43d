"""A schema with private domains from the columns of a source. It uses their names and types, which
are public, and reads no row."""

from __future__ import annotations

from typing import Any

from .._util.lazy import pa
from .._util.progress import LOG
from ..errors import DataError, UsageError, did_you_mean
from ..schema import Schema, dtypes
from ..schema.dialect import Dialect
from .sources.source import source_of


def schema_of_source(source: Any, user: str | None, dialect: Dialect | None = None) -> Schema:
    """The schema in which every column of the source has `domain = "private"` and the kind that its
    type suggests. A boolean column is complete, since its values are public. What the texts of a
    column are, is found in the run; in text files, which have no types, of every column. A column
    whose type suggests no kind, such as a list or nothing but nulls, is left out with a warning."""
    source = source_of(source)
    first = source.parts(Dialect() if dialect is None else dialect)[0]
    if first.hint and (dialect is None or dialect.delimiter is None):
        raise DataError(f"{first.where}: {first.hint.removeprefix('; ')}")
    columns: dict[str, Any] = {}
    for field in first.schema:
        if field.name == user:
            continue
        entry = _entry(field, first.is_text(field.name))
        if entry is not None and field.name:
            columns[field.name] = entry
            continue
        if field.name:
            why = f"columns of type {field.type} are not supported"
        else:
            why = "row numbers have no name"
        LOG.warning("fastdp: warning: column %r is left out: %s", field.name, why)
    if first.any_name:
        raise UsageError(
            f"{first.where}: JSON lines do not name their columns in advance; give a schema "
            "(docs/guide/domains.md)"
        )
    if user is not None and user not in first.schema.names:
        meant = did_you_mean(user, first.schema.names)
        raise UsageError(f"{first.where}: user: there is no column {user!r}{meant}")
    plain: dict[str, Any] = {"provenance": "columns and types of the source", "columns": columns}
    if user is not None:
        plain["user"] = {"column": user}
    if source.title is not None:
        plain["name"] = source.title
    return Schema.from_dict(plain).with_dialect(dialect)


def _entry(field: pa.Field, untyped: bool) -> dict[str, Any] | None:
    """What the schema says of a column; None for a type that it cannot have."""
    if untyped:
        return {"kind": "any", "domain": "private"}
    kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if pa.types.is_dictionary(kind) and dtypes.name_of(kind) is None:
        kind = kind.value_type
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        kind = pa.binary()
    dtype = dtypes.name_of(kind)
    if dtype is None:
        return None
    family = dtypes.family(dtype)
    kinds = {"bool": "categorical", "string": "any", "timestamp": "timestamp"}
    entry = {"kind": kinds.get(family, "numeric"), "dtype": dtype, "domain": "private"}
    entry |= {"overflow": "drop"} if family == "bool" else {}
    return entry | ({} if field.nullable else {"null": "drop"})

"""Texts as views (Arrow's `string_view`) become plain texts: schemas name types of tables, and a
view is only how a reader holds them."""

from __future__ import annotations

from ..._util.lazy import pa


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns, without views."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, without views."""
    wanted = plain_schema(batch.schema)
    return batch if wanted.equals(batch.schema) else batch.cast(wanted)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind

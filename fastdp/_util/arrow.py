"""Arrow arrays over numpy's memory. Where pandas is installed, `pyarrow.array` imports it, to ask
whether an array is one of its series: 0.4 s in a process that needs no pandas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._util.lazy import pa


def of_texts(texts: Iterable[str]) -> pa.Array:
    """The texts as an Arrow array."""
    raw = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, raw)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(raw), pa.py_buffer(ends), pa.py_buffer(b"".join(raw)))


def of_numpy(
    values: np.ndarray, null: np.ndarray | None = None, kind: pa.DataType | None = None
) -> pa.Array:
    """The same memory as an Arrow array; nulls where `null` is true.

    `kind` (default: the type of the numbers) says what the numbers are, of a type that Arrow stores
    as they lie in memory: no booleans, no texts.
    """

    values = np.ascontiguousarray(values)
    valid = None
    if null is not None and null.any():
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values)])


def flags(values: np.ndarray) -> pa.Array:
    """Booleans as an Arrow array."""

    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])


def decoded(array: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary array, row by row; texts as bytes with offsets of 64 bits. Rows may
    repeat one long text: with 32 bits, Arrow raises where a batch has 2 GiB of them."""
    values = array.dictionary
    if is_text(values.type):
        return values.cast(pa.large_binary()).take(array.indices)
    return array.dictionary_decode()


def is_text(kind: pa.DataType) -> bool:
    """Whether it is a type of texts or bytes of any length, as a view too."""
    t = pa.types
    texts = t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind)
    return texts or t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind)


def takeable(array: pa.Array) -> pa.Array:
    """The array with views as plain texts or bytes: Arrow cannot take rows of views."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_binary_view(array.type) else array


def without_views(table: pa.Table) -> pa.Table:
    """The table with views as plain columns, which Arrow can filter and compare."""
    return pa.table([takeable(c) for c in table.columns], names=table.column_names)


def take_rows(table: pa.Table, rows: Any) -> pa.Table:
    """These rows of a table, whose columns keep their types."""
    return with_types(without_views(table).take(rows), table.schema)


def with_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with its columns in the types of this schema."""
    columns = [c.cast(f.type) for c, f in zip(table.columns, schema, strict=True)]
    return pa.table(columns, schema=schema)

"""Record batches that a lakehouse library reads: plain types, and errors that quote no row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ..._util.lazy import pa
from ..parts import Part, Unit, checked


def foreign_part(
    where: str, schema: pa.Schema, batches: Callable[[list[str]], Iterable[pa.RecordBatch]]
) -> Part:
    """The part of a library's reader. batches(columns): its rows, at least with these columns."""

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        wanted = list(columns)
        for batch in _redacted(partial(batches, wanted)):
            yield partial(checked, _plain_batch(batch.select(wanted)))

    return Part(where, _plain_schema(schema), units)


def _redacted(
    batches: Callable[[], Iterable[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """The batches; errors of the library, which can quote rows, lose their text."""
    try:
        yield from batches()
    except (pa.ArrowException, OSError, MemoryError):
        raise
    except Exception as error:  # a library's own classes; only the name is passed on
        raise pa.ArrowInvalid(type(error).__name__) from None


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns, without views: a schema names types of tables, and a view is only how a
    reader holds a text."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    wanted = _plain_schema(batch.schema)
    return batch if wanted.equals(batch.schema) else batch.cast(wanted)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    return kind

"""Streams of Arrow data as sources, and what is no source at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from ..._util.lazy import pa
from ...errors import DataError, UsageError
from ...schema.dialect import Dialect
from ..parts import Part, Unit, of_batches
from .source import SOURCES, Source, module_of


@SOURCES.add("stream")
class Stream(Source):
    """Any object with `__arrow_c_stream__`, which may give its rows only once."""

    last = True
    again = False
    opens_freely = False

    @classmethod
    def takes(cls, given: Any) -> bool:
        return hasattr(given, "__arrow_c_stream__")

    def parts(self, dialect: Dialect) -> list[Part]:
        return [of_reader(pa.RecordBatchReader.from_stream(self.given), self.given)]


@SOURCES.add("unknown")
class Unknown(Source):
    """Anything else: opening it raises."""

    last = True
    again = False

    @classmethod
    def takes(cls, given: Any) -> bool:
        return not Stream.takes(given)

    def parts(self, dialect: Dialect) -> list[Part]:
        raise UsageError(
            f"cannot read an object of type {self.kind}: give a path, a list of paths, a polars, pandas or"
            " pyarrow frame, a DuckDB relation, fastdp.sql(connection, query), or an object with"
            " __arrow_c_stream__"
        )


def of_reader(reader: pa.RecordBatchReader, given: Any) -> Part:
    """The part of a reader of what was given."""
    where = f"<{module_of(given)}.{type(given).__name__}>"
    return without_addresses(
        of_batches(
            where, reader.schema, lambda columns: (batch.select(columns) for batch in reader)
        )
    )


def without_addresses(part: Part) -> Part:
    """The part, whose ids cannot be objects of Polars: their Arrow form is where they lie in memory,
    and nothing says that it is not a number of eight bytes."""

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        if user is not None and part.schema.field(user).type.equals(pa.binary(8)):
            raise DataError(
                f"{part.where}: user column {user!r}: fixed_size_binary[8] is also how Polars passes on"
                " objects, as the place of each in memory, so that one id would be many users; pass the"
                " frame itself, or cast the column to text or binary"
            )
        return part.units(columns, user)

    return replace(part, units=units)

"""Queries as sources: the rows of a `select` on a connection of DuckDB, ADBC or any DB-API driver.

Rows are streamed, a few batches in memory at a time. DuckDB and ADBC return Arrow data with the
database's types. A plain DB-API driver returns Python objects, whose types may change from row to
row. Each object is written as text and parsed by its column's type in the schema, as in a text
file. So the values read from one row never depend on another row.
"""

from __future__ import annotations

import datetime
import decimal
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from .._util.lazy import pa
from ..errors import DataError, UsageError
from . import idvalues, parts
from .parts import Part, Unit, checked, cut

URI = "FASTDP_SQL_URI"
"""The environment variable with the database's URI for the command line; the URI may contain a
password."""

MOST_DIGITS = 400
"""Decimals with more digits before or after the point are written with an exponent."""


@dataclass(frozen=True, eq=False)
class Query:
    """The rows of a query; a source for `fastdp.read` and `fastdp.synthesize`, which run the
    query."""

    connection: Any = field(repr=False)
    query: str


def sql(connection: Any, query: str) -> Query:
    """The rows of a query, as a source.

    Parameters
    ----------
    connection : DuckDB, ADBC (`adbc_driver_...dbapi`) or DB-API connection, or a DB-API cursor
        An open connection; it stays open and is used from the thread that reads. Pass a server-side cursor,
        which streams, if ordinary cursors of the driver load the whole result into memory.
    query : str
        A `select`. Columns that are not in the schema are left out; DuckDB does not compute them, others do.

    Returns
    -------
    Query
        A source; the query runs each time the source is read.
    """
    if not isinstance(query, str) or not query.strip():
        raise UsageError(
            "sql: expected a connection, then the query as a text: sql(db, 'select * from trips')"
        )
    if not (
        callable(getattr(connection, "cursor", None))
        or callable(getattr(connection, "execute", None))
    ):
        raise UsageError(
            f"sql: {type(connection).__name__} is not a supported connection; give one of "
            "DuckDB, ADBC or DB-API"
        )
    return Query(connection, query)


def relation(source: Query) -> Any:
    """The query as a DuckDB relation, not yet run; None if the connection is not DuckDB's."""
    theirs = type(source.connection).__module__.split(".")[0] in ("duckdb", "_duckdb")
    if not theirs:
        return None
    try:
        return source.connection.sql(source.query)
    except MemoryError:
        raise
    except Exception as error:  # DuckDB's classes, which need not be imported
        raise refused(error) from None


def refused(error: Exception) -> DataError:
    """The error of a query that the database does not run."""
    return DataError(
        f"<sql>: the database refused the query ({type(error).__name__}); run the query in the "
        "database to see why: its message may quote private values and is not shown"
    )


def open_query(source: Query) -> Part:
    """The query as a part. The query is run here, to get the names and types of its columns."""
    own = not hasattr(source.connection, "fetchmany")
    cursor = source.connection.cursor() if own else source.connection
    try:
        cursor.execute(source.query)
    except MemoryError:
        raise
    except Exception as error:  # classes of drivers have no common base
        raise refused(error) from None
    return _arrow(cursor, own) if hasattr(cursor, "fetch_record_batch") else _rows(cursor, own)


def _arrow(cursor: Any, own: bool) -> Part:
    """The part of an ADBC cursor."""
    reader = cursor.fetch_record_batch()

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        try:
            for batch in reader:
                yield partial(checked, batch.select(list(columns)))
        finally:
            reader.close()
            if own:
                cursor.close()

    return Part("<sql>", reader.schema, units)


def _rows(cursor: Any, own: bool) -> Part:
    """The part of a cursor of any DB-API driver; all columns are text. The thread that iterates
    over units fetches the rows, which is the thread that opened the connection; any thread may
    convert them to Arrow."""

    if cursor.description is None:
        raise DataError("<sql>: the statement returns no rows; write a select")
    names = [str(column[0]) for column in cursor.description]
    schema = pa.schema([(name, pa.binary()) for name in names])

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        at = [names.index(name) for name in columns]
        try:
            while rows := cursor.fetchmany(parts.BATCH_ROWS // 4):
                yield partial(_texts, rows, at, list(columns), user)
        finally:
            if own:
                cursor.close()

    return Part("<sql>", schema, units, frozenset(names))


def _texts(
    rows: Sequence[Sequence[Any]], at: list[int], names: list[str], user: str | None
) -> Iterator[pa.RecordBatch]:

    columns = list(zip(*rows, strict=True))
    arrays = [
        column_of_objects(columns[i], name == user) for i, name in zip(at, names, strict=True)
    ]
    yield from cut(pa.record_batch(arrays, names=names))


def column_of_objects(values: Sequence[Any], ids: bool = False) -> pa.Array:
    """`text` of each value, or `idvalues.of_object` of user ids; if all are strings, or all
    integers of 64 bits, Arrow converts them at once. Offsets have 64 bits where 32 do not suffice."""

    kinds = set(map(type, values)) - {type(None)}
    try:
        if kinds == {str}:
            return _whole(values, pa.string()).cast(pa.binary())
        if kinds == {int}:
            return pa.array(values, pa.int64()).cast(pa.string()).cast(pa.binary())
    except (UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
        pass
    write = idvalues.of_object if ids else text
    written = [write(value) for value in values]
    try:
        return _whole(written, pa.binary())
    except OverflowError:
        return pa.array(written, pa.large_binary())


def _whole(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values as one array; OverflowError where they are too long for one of this type."""
    made = pa.array(values, kind)
    if isinstance(made, pa.ChunkedArray):
        raise OverflowError("Arrow divides what its offsets do not reach")
    return made


def text(value: Any) -> bytes | None:
    """A value as it would be written in a text file; None for NULL."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | bytes | bytearray | memoryview | None):
        return idvalues.of_object(value)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, float):
        return repr(value).encode()
    if isinstance(value, int) and value.bit_length() > 1024:
        return b"-inf" if value < 0 else b"inf"  # outside every type; Python may refuse to write it
    if isinstance(value, decimal.Decimal):
        return format(value, "f" if abs(value.adjusted()) < MOST_DIGITS else "").encode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat().encode()
    return str(value).encode("utf-8", "surrogatepass")


def connect(uri: str | None = None) -> Any:
    """A connection to the database with this URI (None: the environment variable FASTDP_SQL_URI):
    `sqlite:///FILE` or `duckdb:///FILE` (with a fourth slash for an absolute path), both opened
    read-only, or `postgresql://...`, which needs the package `adbc-driver-postgresql`. Error texts
    do not contain the URI."""
    uri = os.environ.get(URI) if uri is None else uri
    if not uri:
        raise UsageError(
            f"--sql: the environment variable {URI} must name the database, for example "
            f"{URI}=sqlite:///trips.db"
        )
    scheme = urlsplit(uri).scheme
    path = unquote(urlsplit(uri).path)
    try:
        if scheme in ("sqlite", "duckdb"):
            file = path.removeprefix("/")
            if not os.path.exists(file):
                raise DataError(
                    f"{URI}: the file does not exist (write {scheme}:///here.db or "
                    f"{scheme}:////from/root.db)"
                )
            if scheme == "sqlite":
                import sqlite3
                from pathlib import Path

                return sqlite3.connect(Path(file).absolute().as_uri() + "?mode=ro", uri=True)
            import duckdb

            return duckdb.connect(file, read_only=True)
        if scheme in ("postgresql", "postgres"):
            from adbc_driver_postgresql import dbapi

            return dbapi.connect(uri)
    except ImportError as error:
        raise UsageError(
            f"{URI}: {scheme} needs the package {str(error.name).split('.')[0]!r}"
        ) from None
    except (DataError, UsageError):
        raise
    except Exception as error:  # classes of drivers have no common base; texts may hold a password
        raise DataError(f"{URI}: cannot connect ({type(error).__name__})") from None
    raise UsageError(
        f"{URI}: expected a URL that begins with sqlite://, duckdb:// or postgresql://"
    )

"""Frames, streams and relations as parts: Arrow, Polars, pandas, DuckDB, any object with
`__arrow_c_stream__`."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._util.lazy import pa, pl
from .._util.muted import muted
from ..errors import DataError, UsageError
from . import parts, sql
from .parts import Part, Unit, checked, cut


def open_object(source: Any) -> Part:
    """The part of an object that is not a path. Each Arrow batch is checked for offsets outside its
    buffers, since it may come from a file or from another process."""

    module = type(source).__module__.split(".")[0]
    where = f"<{module}.{type(source).__name__}>"
    if isinstance(source, pa.Table):
        return of_table(source)
    if isinstance(source, pa.RecordBatch):
        return of_table(pa.Table.from_batches([source]))
    if module == "pandas":
        return _pandas(source, where)
    if module == "polars" and hasattr(source, "sink_batches"):
        return _lazy(source, where)
    if module == "polars":
        frame = source.to_frame() if hasattr(source, "to_frame") else source

        def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
            return _each(frame.select(columns).iter_slices(parts.BATCH_ROWS), _from_polars)

        return Part(where, frame.clear().to_arrow().schema, units)
    if module == "pyarrow" and hasattr(source, "get_fragments"):
        if type(getattr(source, "format", None)).__name__ in ("CsvFileFormat", "JsonFileFormat"):
            raise UsageError(
                "an Arrow dataset of text files cannot be read: one damaged line can hide others;"
                " give the paths of the files, and a dialect if they need one"
            )
        sizes = {"batch_size": parts.BATCH_ROWS, "batch_readahead": 4, "fragment_readahead": 1}
        return _of_batches(
            where, source.schema, lambda columns: source.to_batches(columns=columns, **sizes)
        )
    if module in ("duckdb", "_duckdb") and hasattr(source, "columns"):
        return of_duckdb(source, where)
    if isinstance(source, sql.Query):
        relation = sql.relation(source)
        return sql.open_query(source) if relation is None else of_duckdb(relation, "<sql>")
    if hasattr(source, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(source)
        except AssertionError:
            # PySpark 4.3 cannot stream timestamps with a zone, but it can return them as a table.
            if module != "pyspark":
                raise
            return of_table(source.toArrow())
        return _of_batches(
            where, reader.schema, lambda columns: (b.select(columns) for b in reader)
        )
    raise UsageError(
        f"cannot read a {type(source).__name__}: give a path, a list of paths, a polars, pandas or"
        " pyarrow frame, a DuckDB relation, fastdp.sql(connection, query), or an object with"
        " __arrow_c_stream__"
    )


def read_once(source: Any) -> bool:
    """Whether an object can possibly be read only once: a stream, or a list that contains one."""

    if isinstance(source, list | tuple):
        return any(read_once(item) for item in source)
    if isinstance(source, str | os.PathLike | Mapping | pa.Table | pa.RecordBatch | sql.Query):
        return False
    module = type(source).__module__.split(".")[0]
    if module in ("pandas", "polars", "duckdb", "_duckdb"):
        return False
    return not (module == "pyarrow" and hasattr(source, "get_fragments"))


def _each(batches: Iterable[Any], work: Callable[[Any], Any] = cut) -> Iterator[Unit]:
    for batch in batches:
        yield partial(work, batch)


def _of_batches(
    where: str, schema: pa.Schema, batches: Callable[[list[str]], Any], arrow=False
) -> Part:
    """The part of an untrusted producer; batches(columns): its Arrow batches with these columns."""
    return Part(
        where, schema, lambda columns, user: _each(batches(list(columns)), checked), arrow=arrow
    )


def of_table(table: pa.Table) -> Part:
    """An Arrow table."""

    def batches(columns: list[str]) -> list[pa.RecordBatch]:
        return table.select(columns).to_batches(parts.BATCH_ROWS)

    return _of_batches("<pyarrow.Table>", table.schema, batches, arrow=True)


def _pandas(frame: Any, where: str) -> Part:
    """The part of a pandas frame or series. A column of Python objects is text, as from a database
    driver, since its Arrow type would depend on all values; so is one of categories of several
    types."""

    if not hasattr(frame, "columns"):
        frame = frame.to_frame()
    names = [str(name) for name in frame.columns]
    kinds: dict[int, pa.DataType] = {}
    for i, dtype in enumerate(frame.dtypes):
        with contextlib.suppress(pa.ArrowException):
            if dtype != np.dtype(object):
                kinds[i] = pa.array(frame.iloc[:0, i], from_pandas=True).type
    text = frozenset(name for i, name in enumerate(names) if i not in kinds)
    schema = pa.schema([(name, kinds.get(i, pa.binary())) for i, name in enumerate(names)])

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        at = [names.index(name) for name in columns]

        def column(piece: Any, name: str) -> pa.Array:
            if name in text:
                values = piece.astype(object)
                return sql.column_of_objects(values.where(values.notna(), None), name == user)
            array = pa.array(piece, type=schema.field(name).type, from_pandas=True)
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

        def batch(start: int) -> Iterator[pa.RecordBatch]:
            piece = frame.iloc[start : start + parts.BATCH_ROWS, at]
            arrays = [column(piece.iloc[:, i], name) for i, name in enumerate(columns)]
            yield from cut(pa.record_batch(arrays, names=list(columns)))

        for start in range(0, len(frame), parts.BATCH_ROWS):
            yield partial(batch, start)

    return Part(where, schema, units, text)


def _from_polars(piece: Any) -> list[pa.RecordBatch]:
    with muted():
        return piece.to_arrow().to_batches(parts.BATCH_ROWS)


def _lazy(frame: Any, where: str) -> Part:
    """The part of a polars LazyFrame, run by its streaming engine; only the needed columns are
    computed."""

    try:
        schema = pl.DataFrame(schema=frame.collect_schema()).to_arrow().schema
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{where} cannot be resolved ({type(error).__name__})") from None

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        chosen = frame.select([pl.col(name) for name in columns])
        try:
            with muted():
                for piece in _stream(chosen):
                    yield from _each(piece.to_arrow().to_batches(parts.BATCH_ROWS))
        except pl.exceptions.PolarsError as error:
            raise pa.ArrowInvalid(type(error).__name__) from None

    return Part(where, schema, units)


def _stream(frame: Any) -> Iterator[Any]:
    """The rows of a LazyFrame in order; the engine runs a few batches ahead of the consumer.

    Uses `sink_batches`, which raises if a thread of the engine panics. `collect_batches` would end
    without an error, so that one bad row would remove other rows.
    """
    waiting: queue.Queue[Any] = queue.Queue(2)
    stopped = threading.Event()

    def put(item: Any) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return False
            except queue.Full:
                continue
        return True

    def run() -> None:
        try:
            frame.sink_batches(put, chunk_size=parts.BATCH_ROWS, maintain_order=True)
            put(None)
        except BaseException as error:
            put(error)

    worker = threading.Thread(target=run, name="fastdp-lazy", daemon=True)
    worker.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        worker.join()


def of_duckdb(relation: Any, where: str) -> Part:
    """The part of a DuckDB relation. Names and types come from an empty result; only the needed
    columns are computed."""
    names = list(relation.columns)
    quoted = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]
    schema = relation.limit(0).to_arrow_table().schema

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        wanted = relation.project(", ".join(quoted[names.index(name)] for name in columns))
        return _each(wanted.to_arrow_reader(parts.BATCH_ROWS))

    return Part(where, schema, units)

"""Sources: anything with rows, as units of Arrow record batches that hold only the columns asked for.

Opening a source looks at names and types only, so that what is wrong with them is said before any work. Texts
of Arrow's own errors can quote rows, so they are never passed on.
"""

from __future__ import annotations

import glob
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 17
"""Rows of one record batch; rows in flight are at most this times (threads + 2), and one row group of Parquet
per thread in compressed form."""

Unit = Callable[[], Iterable["pa.RecordBatch"]]


@dataclass(frozen=True)
class Part:
    """One file, or one frame or stream: where it is (for errors), its Arrow schema, and its rows.

    text: the values are text as written in a CSV file or a folder's name, to be parsed by the schema's types.
    """

    where: str
    schema: pa.Schema
    units: Callable[[Sequence[str], str | None], Iterator[Unit]]
    text: frozenset[str] = frozenset()


def open_parts(source: Any) -> list[Part]:
    """The parts of a source in a fixed order (files by name). DataError where one cannot be opened."""
    if isinstance(source, str | os.PathLike):
        return [_open_file(path, partition) for path, partition in _files(os.fspath(source))]
    if isinstance(source, Mapping):
        import pyarrow as pa

        return [_frame(pa.table(dict(source)))]
    if isinstance(source, list | tuple):
        if not source:
            raise UsageError("the list of sources is empty")
        return [part for item in source for part in open_parts(item)]
    return [_open_object(source)]


def _files(path: str) -> list[tuple[str, dict[str, str]]]:
    """Files of a path, glob or folder, each with the partition values of its Hive folders."""
    if os.path.isdir(path):
        found = sorted(
            file
            for file in Path(path).rglob("*")
            if file.is_file() and not any(p.startswith((".", "_")) for p in file.relative_to(path).parts)
        )
        if not found:
            raise DataError(f"folder {path!r} holds no files")
        return [(str(file), _hive(file.relative_to(path).parts[:-1])) for file in found]
    if os.path.exists(path):
        return [(path, {})]
    if glob.has_magic(path):
        matches = sorted(glob.glob(path, recursive=True))
        if matches:
            return [entry for name in matches for entry in _files(name)]
        raise DataError(f"no file matches {path!r}")
    raise DataError(f"no file {path!r}")


def _hive(folders: Sequence[str]) -> dict[str, str]:
    from urllib.parse import unquote

    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    return {unquote(name): unquote(value) for name, value in pairs}


def _open_file(path: str, partition: dict[str, str]) -> Part:
    import pyarrow as pa

    name = path.lower()
    try:
        if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
            part = _csv(path, "\t" if ".tsv" in name[-7:] else ",")
        elif name.endswith((".parquet", ".pq", ".parq")):
            part = _parquet(path)
        elif name.endswith((".arrow", ".ipc", ".feather", ".arrows")):
            part = _ipc(path)
        else:
            with open(path, "rb") as file:
                magic = file.read(6)
            if magic[:4] == b"PAR1":
                part = _parquet(path)
            elif magic == b"ARROW1":
                part = _ipc(path)
            else:
                raise DataError(
                    f"file {path!r}: unknown kind; known endings are .parquet, .csv, .csv.gz, .arrow"
                )
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise _broken(path, error) from None
    return _with_partition(part, partition) if partition else part


def _broken(where: str, error: BaseException) -> DataError:
    if isinstance(error, OSError) and error.strerror:
        return DataError(f"file {where!r} cannot be read: {error.strerror}")
    return DataError(f"{where!r} is damaged, truncated or not what its name says ({type(error).__name__})")


def guarded(where: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; an error while reading them becomes a DataError that names the source and quotes no row."""
    import pyarrow as pa

    try:
        yield from batches
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise _broken(where, error) from None


def _parquet(path: str) -> Part:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        schema, groups = file.schema_arrow, file.num_row_groups

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        # Ids that are strings come as dictionaries: each distinct one is hashed once per batch.
        encoded = [user] if user in columns and _is_text(schema.field(user).type) else None

        def group(number: int) -> Iterator[pa.RecordBatch]:
            with pq.ParquetFile(path, read_dictionary=encoded, memory_map=True) as file:
                yield from file.iter_batches(
                    BATCH_ROWS, row_groups=[number], columns=list(columns), use_threads=False
                )

        for number in range(groups):
            yield partial(group, number)

    return Part(path, schema, units)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _ipc(path: str) -> Part:
    import pyarrow as pa

    with open(path, "rb") as file:
        stream = file.read(6) != b"ARROW1"
    if not stream:
        with pa.memory_map(path) as opened:
            reader = pa.ipc.open_file(opened)
            schema, count = reader.schema, reader.num_record_batches

        def batch(number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            with pa.memory_map(path) as again:
                yield from _cut(pa.ipc.open_file(again).get_batch(number).select(list(columns)))

        return Part(
            path,
            schema,
            lambda columns, user: (partial(batch, n, columns) for n in range(count)),
        )
    with pa.OSFile(path) as opened:
        schema = pa.ipc.open_stream(opened).schema

    def streamed(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        with pa.OSFile(path) as again:
            for one in pa.ipc.open_stream(again):
                yield partial(_cut, one.select(list(columns)))

    return Part(path, schema, streamed)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


def _csv(path: str, delimiter: str) -> Part:
    """Every column as binary: what a value means is the schema's business, and no value can fail to parse."""
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)

    # Names come from the header alone; types would be guessed, and are not used.
    with open_text(path) as file:
        header = file.readline()
    names: list[str] = next(iter(_header(header, delimiter)), [])
    schema = pa.schema([(name, pa.binary()) for name in names])

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        convert = csv.ConvertOptions(
            column_types={name: pa.binary() for name in columns},
            include_columns=list(columns),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
            check_utf8=False,
        )
        if not _has_rows(path):
            return
        read = csv.ReadOptions(block_size=1 << 22)
        yield from _each(csv.open_csv(path, read, parse_options=parse, convert_options=convert))

    return Part(path, schema, units, text=frozenset(names))


def open_text(path: str):
    """A text file for its header, through gzip where the name says so."""
    import gzip

    opener = gzip.open if path.lower().endswith(".gz") else open
    return opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="")


def _header(line: str, delimiter: str):
    import csv

    return csv.reader([line.rstrip("\r\n")], delimiter=delimiter)


def _has_rows(path: str) -> bool:
    """Whether anything follows the header (Arrow's reader refuses a file with a header alone)."""
    with open_text(path) as file:
        file.readline()
        return bool(file.read(1))


def _with_partition(part: Part, partition: dict[str, str]) -> Part:
    """Adds the constants of the Hive folders as columns of text."""
    import pyarrow as pa

    extra = {k: v for k, v in partition.items() if k not in part.schema.names}
    schema = part.schema
    for name in extra:
        schema = schema.append(pa.field(name, pa.binary()))

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        inner = [c for c in columns if c not in extra] or list(part.schema.names[:1])

        def widened(unit: Unit) -> Iterator[pa.RecordBatch]:
            for batch in unit():
                arrays = []
                for name in columns:
                    if name in extra:
                        text = extra[name]
                        null = text == "__HIVE_DEFAULT_PARTITION__"
                        value = pa.scalar(None if null else text.encode(), pa.binary())
                        arrays.append(pa.repeat(value, batch.num_rows))
                    else:
                        arrays.append(batch.column(name))
                yield pa.record_batch(arrays, names=list(columns))

        for unit in part.units(inner, user):
            yield partial(widened, unit)

    return Part(part.where, schema, units, part.text | frozenset(extra))


def _open_object(source: Any) -> Part:
    import pyarrow as pa

    module = type(source).__module__.split(".")[0]
    where = f"<{module}.{type(source).__name__}>"
    if isinstance(source, pa.Table):
        return _frame(source)
    if isinstance(source, pa.RecordBatch):
        return _frame(pa.Table.from_batches([source]))
    if module == "pandas":
        return _pandas(source, where)
    if module == "polars" and hasattr(source, "collect_batches"):
        return _lazy(source, where)
    if module == "polars":
        frame = source.to_frame() if hasattr(source, "to_frame") else source
        return Part(
            where,
            frame.clear().to_arrow().schema,
            lambda columns, user: (
                partial(_from_polars, piece) for piece in frame.select(columns).iter_slices(BATCH_ROWS)
            ),
        )
    if module == "pyarrow" and hasattr(source, "get_fragments"):
        return Part(
            where,
            source.schema,
            lambda columns, user: _each(
                source.to_batches(
                    columns=list(columns),
                    batch_size=BATCH_ROWS,
                    batch_readahead=4,
                    fragment_readahead=1,
                )
            ),
        )
    if module in ("duckdb", "_duckdb") and hasattr(source, "columns"):
        return _duckdb(source, where)
    if hasattr(source, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(source)
        return Part(
            where,
            reader.schema,
            lambda columns, user: _each(b.select(list(columns)) for b in reader),
        )
    raise UsageError(
        f"cannot read a {type(source).__name__}: give a path, glob or list of them, a polars, pandas or pyarrow "
        "frame, a DuckDB relation, or anything with __arrow_c_stream__"
    )


def _each(batches: Iterable[pa.RecordBatch]) -> Iterator[Unit]:
    for batch in batches:
        yield partial(_cut, batch)


def _frame(table: pa.Table) -> Part:
    return Part(
        "<pyarrow.Table>",
        table.schema,
        lambda columns, user: _each(table.select(list(columns)).to_batches(BATCH_ROWS)),
    )


def _pandas(frame: Any, where: str) -> Part:
    import pyarrow as pa

    if not hasattr(frame, "columns"):
        frame = frame.to_frame()
    names = [str(name) for name in frame.columns]
    fields = []
    for i, name in enumerate(names):
        try:
            kind = pa.array(frame.iloc[:, i], from_pandas=True).type
        except pa.ArrowException:
            raise DataError(f"{where}: column {name!r} mixes types; give it one type") from None
        fields.append(pa.field(name, kind))
    schema = pa.schema(fields)

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        at = [names.index(name) for name in columns]
        for start in range(0, len(frame), BATCH_ROWS):

            def batch(start: int = start) -> Iterator[pa.RecordBatch]:
                piece = frame.iloc[start : start + BATCH_ROWS, at]
                arrays = [
                    pa.array(piece.iloc[:, i], type=schema.field(c).type, from_pandas=True)
                    for i, c in enumerate(columns)
                ]
                yield from _cut(pa.record_batch([_flat(a) for a in arrays], names=list(columns)))

            yield batch

    return Part(where, schema, units)


def _flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _from_polars(piece: Any) -> list[pa.RecordBatch]:
    return piece.to_arrow().to_batches(BATCH_ROWS)


def _lazy(frame: Any, where: str) -> Part:
    """A polars LazyFrame, run by its streaming engine with the projection pushed down."""
    import polars as pl
    import pyarrow as pa

    try:
        schema = pl.DataFrame(schema=frame.collect_schema()).to_arrow().schema
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{where} cannot be resolved ({type(error).__name__})") from None

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        chosen = frame.select([pl.col(name) for name in columns])
        try:
            for piece in chosen.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
                yield from _each(piece.to_arrow().to_batches(BATCH_ROWS))
        except pl.exceptions.PolarsError as error:
            raise pa.ArrowInvalid(type(error).__name__) from None

    return Part(where, schema, units)


def _duckdb(relation: Any, where: str) -> Part:
    """A DuckDB relation; names and types from an empty result, only the columns needed are computed."""
    names = list(relation.columns)
    quoted = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]
    schema = relation.limit(0).to_arrow_table().schema

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        wanted = relation.project(", ".join(quoted[names.index(name)] for name in columns))
        return _each(wanted.to_arrow_reader(BATCH_ROWS))

    return Part(where, schema, units)

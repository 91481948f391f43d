"""Files, folders and globs as sources: Parquet, Arrow, delimited text, JSON lines.

Opening one reads names and types only, so that errors in them are raised before any row is read.
The texts of Arrow's errors can quote rows, so they are never passed on.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..._util.files import local_path, source_path
from ..._util.lazy import pa, pq
from ..._util.stores import is_store
from ...errors import DataError
from ...schema.dialect import Dialect
from .. import parts, textlines
from ..lakehouse import check_plain, names_table
from ..parts import Part, Unit, checked
from ..reading import broken
from .source import SOURCES, Source

SHARED_ROWS = 1 << 20
"""The most rows of a row group whose columns are read by several threads: all of them are in memory
then."""

KNOWN_FORMATS = (
    "known endings are .parquet, .arrow, .csv, .tsv, .jsonl, and for text also .gz, .zst, .bz2; a "
    "text file with another ending needs a dialect with a delimiter"
)
OTHER_FORMATS = dict.fromkeys(
    (".db", ".duckdb", ".sqlite", ".sqlite3"),
    "read the rows of a database by a query: fastdp.sql(connection, query), or --sql",
) | dict.fromkeys(
    (".sas7bdat", ".sav", ".dta", ".rds"),
    "save it as CSV or Parquet, or pass it as a frame of pandas or Polars",
)
"""By ending: what to do with files of other programs."""


@SOURCES.add("files")
class Files(Source):
    """A file, a folder of files (with Hive partitions) or a glob."""

    last = True  # a kind that knows an ending, or a folder, is asked before

    def __init__(self, given: Any):
        super().__init__(given)
        self._listing: Listing | None = None
        self._differs = False

    @classmethod
    def takes(cls, given: Any) -> bool:
        """A path, unless it names a lakehouse table or a store, which are sources of their own."""
        path = isinstance(given, str | os.PathLike)
        return path and not names_table(given) and not is_store(given)

    def parts(self, dialect: Dialect) -> list[Part]:
        found = self._files()
        return [open_file(path, partition, dialect) for path, partition in found]

    def _files(self) -> list[tuple[str, dict[str, str]]]:
        """The files that were pinned, else those that are there now."""
        return files(os.fspath(self.given)) if self._listing is None else self._listing.files

    def pin(self, before: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        self._listing = Listing.of(files(os.fspath(self.given)))
        found = self._listing.digest()
        self._differs = before is not None and before.get("files") != found
        return {"files": found}

    def changes(self) -> str:
        """Files that were added, removed or written to; a resumed run also notices that they are
        not those of the run that it resumes."""
        if self._listing is None:
            return ""
        if text := self._listing.changes(os.fspath(self.given)):
            return text
        if self._differs:
            return f"{self.given!s}: its files are not those that the interrupted run read"
        return ""

    @property
    def label(self) -> str:
        return os.path.basename(os.path.normpath(local_path(os.fspath(self.given))))

    @property
    def title(self) -> str | None:
        return Path(self.given).stem if isinstance(self.given, str) else None

    def paths(self) -> Iterable[str]:
        return [path for path, _ in self._files()]


def files(path: str) -> list[tuple[str, dict[str, str]]]:
    """Files of a path, glob or folder, each with the partition values of its Hive folders.
    DataError if they are those of a lakehouse table."""
    found = listed(source_path(path))
    check_plain(path, [file for file, _ in found])
    return found


class Listing(Struct, frozen=True):
    """Files with their partition values, and what each looked like when they were listed: its size,
    the time it was last written, its inode."""

    files: list[tuple[str, dict[str, str]]]
    stamps: dict[str, tuple[int, int, int]]

    @classmethod
    def of(cls, found: list[tuple[str, dict[str, str]]]) -> Listing:
        return cls(found, {path: _stamp(path) for path, _ in found})

    def digest(self) -> str:
        """SHA-256 of names, sizes and times. It is private: sizes tell of rows."""
        text = json.dumps(sorted(self.stamps.items())).encode()
        return hashlib.sha256(text).hexdigest()

    def changes(self, path: str) -> str:
        """How the files of the path differ from this listing; empty if they do not."""
        try:
            found = listed(source_path(path))
        except (DataError, OSError):
            found = []
        return self.changed(path, [name for name, _ in found])

    def changed(self, what: str, names: Iterable[str] | None = None) -> str:
        """How the files of these names, or those listed, differ from this listing."""
        now = dict(_stamps(self.stamps if names is None else names))
        words = {
            "added": [name for name in now if name not in self.stamps],
            "removed": [name for name in self.stamps if name not in now],
            "written to": [n for n, stamp in self.stamps.items() if now.get(n, stamp) != stamp],
        }
        told = [
            f"{len(names)} {word}, such as {names[0]!r}" for word, names in words.items() if names
        ]
        return f"{what}: files changed while they were read ({'; '.join(told)})" if told else ""


def _stamps(names: Iterable[str]) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """The stamps of the files that are still there."""
    for name in names:
        with contextlib.suppress(DataError):
            yield name, _stamp(name)


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise DataError(f"file {path!r} cannot be read: {error.strerror}") from None
    return status.st_size, status.st_mtime_ns, status.st_ino


def listed(path: str) -> list[tuple[str, dict[str, str]]]:
    """`files` of a local path, whatever table they belong to."""
    if os.path.isdir(path):
        root = Path(path)
        names = {file: file.relative_to(root).parts for file in root.rglob("*") if file.is_file()}
        paths = sorted(
            file for file in names if not any(p.startswith((".", "_")) for p in names[file])
        )
        if not paths:
            raise DataError(f"folder {path!r} contains no files")
        return [(str(file), hive(file.relative_to(path).parts[:-1])) for file in paths]
    if os.path.exists(path):
        return [(path, {})]
    if matches := sorted(glob.glob(path, recursive=True)):
        return [entry for name in matches for entry in listed(source_path(name))]
    raise DataError(f"no file matches {path!r}")


def hive(folders: Sequence[str]) -> dict[str, str]:
    """The partition values in names of folders, such as `day=1`."""
    from urllib.parse import unquote

    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    return {unquote(name): unquote(value) for name, value in pairs}


def open_file(path: str, partition: dict[str, str], dialect: Dialect) -> Part:
    """The rows of a file of any known format, with the values of its Hive folders."""
    name = path.lower()
    try:
        open_text = textlines.kind_of(path)
        if open_text is not None:
            part = open_text(path, dialect)
        elif name.endswith((".parquet", ".pq", ".parq")):
            part = parquet_part(path)
        elif name.endswith((".arrow", ".ipc", ".feather", ".arrows")):
            part = _ipc(path)
        else:
            with open(path, "rb") as file:
                magic = file.read(6)
            if magic[:4] == b"PAR1":
                part = parquet_part(path)
            elif magic == b"ARROW1":
                part = _ipc(path)
            elif dialect.delimiter is not None:
                part = textlines.delimited(path, dialect)
            else:
                ending = os.path.splitext(path)[1].lower()
                advice = OTHER_FORMATS.get(ending) or KNOWN_FORMATS
                raise DataError(f"file {path!r}: unknown format; {advice}")
        list(part.schema.names)  # raises where a name is not UTF-8
    except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise broken(path, error) from None
    return with_partition(part, partition) if partition else part


def row_groups(path: str, groups: Sequence[int]) -> Part:
    """The row groups of these numbers of a Parquet file."""

    try:
        return parquet_part(path, groups)
    except (pa.ArrowException, OSError) as error:
        raise broken(path, error) from None


def parquet_part(
    path: str,
    groups: Sequence[int] | None = None,
    opened: Callable[[], pa.NativeFile] | None = None,
) -> Part:
    """The rows of a Parquet file, or of some of its row groups. opened: opens a file that is not on
    this machine; `path` is then its name in error texts."""
    with pq.ParquetFile(path if opened is None else opened()) as file:
        schema = file.schema_arrow
        metadata = file.metadata
    numbers = range(metadata.num_row_groups) if groups is None else groups

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        # String ids are read as dictionary arrays, so that each distinct id is hashed once per
        # batch.
        encoded = [user] if user in columns and _is_text(schema.field(user).type) else None

        def reader() -> pq.ParquetFile:
            # The footer is read once for all; the file is closed with the last of what was read
            # from it.
            file = pa.memory_map(path) if opened is None else opened()
            return pq.ParquetFile(file, metadata=metadata, read_dictionary=encoded)

        def some(number: int, names: list[str]) -> pa.Table:
            return reader().read_row_group(number, names, use_threads=False)

        def group(number: int, sets: int = 1, share: Any = None) -> Iterator[pa.RecordBatch]:
            sets = min(sets, len(columns))
            if sets < 2 or metadata.row_group(number).num_rows > SHARED_ROWS:
                yield from reader().iter_batches(
                    parts.BATCH_ROWS,
                    row_groups=[number],
                    columns=list(columns),
                    use_threads=False,
                )
                return
            found = share([partial(some, number, list(columns[k::sets])) for k in range(sets)])
            arrays = [found[k % sets].column(name) for k, name in enumerate(columns)]
            yield from pa.table(arrays, names=list(columns)).to_batches(parts.BATCH_ROWS)

        for number in numbers:
            yield partial(group, number)

    return Part(path, schema, units, count=len(numbers))


def _is_text(kind: pa.DataType) -> bool:

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _ipc(path: str) -> Part:
    """An Arrow file or stream as a part; files are read batch by batch, streams in their order."""
    with open(path, "rb") as file:
        stream = file.read(6) != b"ARROW1"
    if not stream:
        with pa.memory_map(path) as opened:
            reader = pa.ipc.open_file(opened)
            schema = reader.schema
            count = reader.num_record_batches

        def batch(number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            with pa.memory_map(path) as again:
                yield from checked(pa.ipc.open_file(again).get_batch(number).select(list(columns)))

        def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
            return (partial(batch, n, columns) for n in range(count))

        return Part(path, schema, units, arrow=True)
    with pa.OSFile(path) as opened:
        schema = pa.ipc.open_stream(opened).schema

    def streamed(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        with pa.OSFile(path) as again:
            for one in pa.ipc.open_stream(again):
                yield partial(checked, one.select(list(columns)))

    return Part(path, schema, streamed, arrow=True)


def with_partition(part: Part, partition: dict[str, str]) -> Part:
    """The part with the values in the names of its Hive folders as constant columns of text."""

    null = "__HIVE_DEFAULT_PARTITION__"
    texts = {
        k: None if v == null else v.encode()
        for k, v in partition.items()
        if k not in part.schema.names
    }
    extra = {name: pa.scalar(text, pa.binary()) for name, text in texts.items()}
    schema = part.schema
    for name in extra:
        schema = schema.append(pa.field(name, pa.binary()))

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        inner = [c for c in columns if c not in extra] or list(part.schema.names[:1] or columns[:1])

        def widened(unit: Unit, *shared: Any) -> Iterator[pa.RecordBatch]:
            for batch in unit(*shared):
                own = {
                    name: pa.repeat(extra[name], batch.num_rows)
                    for name in columns
                    if name in extra
                }
                arrays = [own[name] if name in own else batch.column(name) for name in columns]
                yield pa.record_batch(arrays, names=list(columns))

        for unit in part.units(inner, user):
            yield partial(widened, unit)

    return replace(part, schema=schema, units=units, text=part.text | frozenset(extra))

"""Parquet files behind a Spark DataFrame that executors read themselves.

Spark decodes Parquet into rows and hands them to Python value by value, which costs several times
what reading the file costs. A DataFrame may be the plain content of Parquet files that are mounted
(`file:`). Tasks then read the files by the local engine's reader instead, and Spark moves only what
they encode.

Law: a frame is read so only if its rows are those that the local engine reads from its files. Spark
says itself that the frame is such a scan (`sameSemantics`). Every file's footer must show each
needed column once, under its exact name and in a type whose values are those of Spark's type. In
every other case rows are taken from Spark.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from msgspec.structs import replace

from .._util.lazy import pa, pq
from ..errors import DataError
from ..tables.parts import Part, Unit
from ..tables.sources.file_paths import row_groups

MAX_FILES = 10_000
"""The driver reads the footer of every file; of more files than this, rows are taken from Spark."""

TASK_BYTES = 128 << 20
"""Approximate bytes of a file, as they are stored, that one task reads."""

REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
UNSIGNED = {"uint8": "int16", "uint16": "int32", "uint32": "int64"}
"""Arrow types of files that Spark has not got, with the type in which it reads the same numbers."""

Group = tuple[str, int, str]
"""A file's path, the number of one of its row groups, and the file's `signature`."""


def scanned(frame: Any, kinds: Mapping[str, str], tasks: int) -> list[list[Group]] | None:
    """The row groups that hold the rows of a frame, divided into at least `tasks` lists where there
    are as many. None if the frame is not the plain content of mounted Parquet files.

    kinds: Spark's Arrow type of each needed column.
    """
    try:
        files = _files(frame)
        # Spark may read days and times by the Julian calendar where a file does not say.
        julian = _dated(kinds) and frame.sparkSession.conf.get(REBASE) not in (
            "CORRECTED",
            "EXCEPTION",
        )
        return None if files is None or julian else _shares(files, kinds, tasks)
    except Exception:  # Py4J's, gRPC's or Arrow's: Spark reads the frame, or says why not
        return None


def _files(frame: Any) -> list[str] | None:
    """Paths of the files that a frame consists of; None if it is anything else than all their
    rows."""
    uris = frame.inputFiles()
    if not uris or len(uris) > MAX_FILES or not all(uri.startswith("file:/") for uri in uris):
        return None
    files = sorted(unquote(re.sub("^file:/+", "/", uri)) for uri in uris)
    if len(set(files)) != len(files) or any("=" in os.path.dirname(file) for file in files):
        return None  # folders may give values to columns
    spark = frame.sparkSession
    form = frame.schema
    columns = frame.columns
    for path in _roots(files):
        if frame.sameSemantics(spark.read.schema(form).parquet(path)):
            return files
    for path in _roots(files):  # Spark looks into a file for the columns that were not selected
        if frame.sameSemantics(spark.read.parquet(path).select(*columns)):
            return files
    return None


def _roots(files: Sequence[str]) -> Iterator[str]:
    """Paths that a frame of these files may have been opened by; Spark compares the text of one
    path. Frames of several paths are left out: Spark compares those as sets, and reads twice what
    is given twice."""
    folder = os.path.dirname(files[0])
    singles = [folder] if len(files) > 1 else [files[0], folder]
    for path in singles:
        yield path
        yield f"file://{path}"
        if path == folder:
            yield f"{path}/"
        if (relative := os.path.relpath(path)) and not relative.startswith(".."):
            yield relative


def _dated(kinds: Mapping[str, str]) -> bool:
    return any(kind.startswith(("date", "timestamp")) for kind in kinds.values())


def _shares(files: Sequence[str], kinds: Mapping[str, str], tasks: int) -> list[list[Group]] | None:
    """The row groups of the files in at least `tasks` lists of about equal bytes; None if a file
    has other types."""
    groups: list[Group] = []
    sizes: list[int] = []
    for path in files:
        with pq.ParquetFile(path) as file:
            if not _same(file.schema_arrow, file.metadata.metadata or {}, kinds):
                return None
            mark = signature(file.metadata)
            for number in range(file.num_row_groups):
                groups.append((path, number, mark))
                sizes.append(file.metadata.row_group(number).total_byte_size)
    share = max(1, min(TASK_BYTES, sum(sizes) // max(tasks, 1)))
    out: list[list[Group]] = []
    filled = share
    for group, size in zip(groups, sizes, strict=True):
        if filled >= share:
            out.append([])
            filled = 0
        out[-1].append(group)
        filled += size
    return out


def signature(footer: pq.FileMetaData) -> str:
    """A digest of what a file's footer says of its columns and row groups. The driver's and the
    executors' must agree: a path may lead to another file on another machine."""
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    form = footer.schema.to_arrow_schema().to_string(show_schema_metadata=False)
    facts = [form, [(group.num_rows, group.total_byte_size) for group in groups]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def parts(groups: Sequence[Group]) -> list[Part]:
    """These row groups as parts, one for each file; DataError if a file is not the driver's."""

    chosen: dict[tuple[str, str], list[int]] = {}
    for path, group, mark in groups:
        chosen.setdefault((path, mark), []).append(group)
    out = []
    for (path, mark), numbers in chosen.items():
        part = row_groups(path, numbers)
        if signature(pq.read_metadata(path)) != mark:
            raise DataError(
                f"file {path!r} differs between Spark's executors and the driver; put the same file "
                "on all of them"
            )
        out.append(replace(part, units=partial(_units, part)))
    return out


def _units(part: Part, columns: Sequence[str], user: str | None) -> Iterator[Unit]:
    """The batches of a part. Ids are not read as dictionary arrays, which cannot be dealt."""
    return part.units(columns, None)


def _same(form: pa.Schema, notes: Mapping[bytes, bytes], kinds: Mapping[str, str]) -> bool:
    """Whether a file has the values that Spark reads from it.

    form: the file's Arrow schema; notes: the metadata of its footer, in which Spark marks files
    whose days and times are of the Julian calendar.
    """
    if _dated(kinds):
        version = notes.get(b"org.apache.spark.version", b"3")
        if int(version.split(b".")[0]) < 3 or any(b"legacy" in name for name in notes):
            return False
    for name, kind in kinds.items():
        if form.names.count(name) != 1:
            return False
        stored = str(form.field(name).type)
        if kind.startswith("timestamp[us, tz="):
            # Spark's label is the session's zone; the times are the same
            kind = "timestamp[us, tz=UTC]"
        if kind not in (stored, UNSIGNED.get(stored), stored.removeprefix("large_")):
            return False
    return True

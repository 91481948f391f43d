"""Deals rows to partitions, so that all rows of a user are in one partition.

The partition of a row is a function of its user's id value (the hash in `userids` of the canonical bytes,
without collation), and does not depend on where the row is in the source. A row without an id is a separate
user (or, if the schema says so, is dropped when it is encoded), and so is every row if the schema has no user
column: such rows are dealt in blocks of BLOCK_ROWS.

Rows are dealt with their source values, not codes, and only the needed columns; each partition encodes its
own rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._util import threads as _threads
from .._util.lazy import pa
from ..errors import DataError, UsageError, is_whole
from ..schema import Schema
from . import idvalues, ingest, sources
from .parts import BATCH_ROWS, Part, Unit, checked
from .table import Table
from .userids import UserIndex

BLOCK_ROWS = 1 << 10
"""Rows that have no user id are dealt to partitions in blocks of this many rows."""

MAX_PARTITIONS = 512
"""Each partition has a file open while rows are dealt."""


@dataclass(frozen=True)
class Stream:
    """A file with rows of one partition (an Arrow stream), and the names of its columns that are text to be
    parsed."""

    path: str
    text: frozenset[str]


@dataclass(frozen=True)
class Dealt:
    """The streams of each partition, and how many lines of the source were malformed (private)."""

    streams: list[list[Stream]]
    malformed: int


def check_partitions(partitions: int) -> int:
    """The number of partitions as an int; UsageError unless it is a whole number in 1..MAX_PARTITIONS."""
    if not is_whole(partitions, 1, MAX_PARTITIONS):
        raise UsageError(f"partitions must be a whole number from 1 to {MAX_PARTITIONS}, got {partitions!r}")
    return int(partitions)


def by_user(hashes: np.ndarray, partitions: int) -> np.ndarray:
    """int64 partition of each user, by the public hash of its id value."""
    return (hashes % np.uint64(partitions)).astype(np.int64)


def by_block(start: int, rows: int, partitions: int) -> np.ndarray:
    """int64 partition of rows without a user id; start .. start + rows - 1 are their numbers."""
    return np.arange(start, start + rows, dtype=np.int64) // BLOCK_ROWS % partitions


def deal(
    source: Any,
    schema: Schema,
    folder: str | os.PathLike[str],
    partitions: int,
    *,
    threads: int | None = None,
    only: Collection[int] | None = None,
) -> Dealt:
    """Writes the rows of any source that `read` takes to files, those of partition p in `folder`/p, for all
    partitions or only those in `only`. At most `threads + 2` units of the source are in memory at once."""
    partitions = check_partitions(partitions)
    return ingest.guarded(lambda: _deal(source, schema, Path(folder), partitions, threads, only))


def _deal(
    source: Any,
    schema: Schema,
    folder: Path,
    partitions: int,
    threads: int | None,
    only: Collection[int] | None,
) -> Dealt:
    parts = sources.open_parts(source, schema.dialect)
    wanted = ingest.checked_columns(parts, schema)
    users = None if schema.user is None else UserIndex(schema.user)

    def cut_unit(number: int, part: Part, unit: Unit) -> list[_Pieces]:
        start, out = number * BLOCK_ROWS, []
        for batch in sources.guarded(part.where, unit()):
            kind, where = None, by_block(start, batch.num_rows, partitions)
            start += batch.num_rows
            if users is not None and schema.user is not None:
                at = batch.schema.get_field_index(schema.user)
                ids = _plain(idvalues.normal(batch.column(at), schema.user_dtype))
                kind, where = _partitions(users, ids, where, partitions)
                batch = batch.set_column(at, schema.user, ids)
            out.append(_cut(part, batch, kind, where, only))
        return out

    def jobs() -> Iterator[Callable[[], list[_Pieces]]]:
        number = 0
        for part in parts:
            for unit in sources.guarded(part.where, part.units(wanted, schema.user)):
                yield partial(cut_unit, number, part, unit)
                number += 1

    writers = _Writers(folder, partitions)
    try:
        for pieces in ingest.in_order(jobs(), _threads.resolve(threads)):
            if users is not None and pieces.kind is not None:
                users.agree(pieces.kind)
            writers.write(pieces)
    except OSError as error:
        raise DataError(f"cannot write partitions to {str(folder)!r}: {error.strerror}") from None
    finally:
        writers.close()
    return Dealt(writers.streams, sum(part.tally.lines for part in parts))


@dataclass(frozen=True, eq=False)
class _Pieces:
    """The rows of one batch by partition. text: columns that are text; kind: the kind of the user ids."""

    text: frozenset[str]
    kind: str | None
    rows: dict[int, pa.RecordBatch]


def _plain(ids: pa.Array) -> pa.Array:
    """The ids without a dictionary, which would be written in full to every partition."""

    return ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids


def _partitions(users: UserIndex, ids: pa.Array, blocks: np.ndarray, count: int) -> tuple[str, np.ndarray]:
    """(kind of the ids, int64 partition of each row): by the hash of the user's id, or `blocks` if the row
    has no id."""
    prepared = users.prepare(ids)
    where = by_user(prepared.hash, count)
    if prepared.valid is not None:
        where = np.where(prepared.valid.view(bool), where, blocks)
    return prepared.kind, where


def _cut(
    part: Part, batch: pa.RecordBatch, kind: str | None, where: np.ndarray, only: Collection[int] | None
) -> _Pieces:

    names = batch.schema.names
    batch = pa.record_batch([_writable(batch.column(i)) for i in range(len(names))], names=names)
    order = np.argsort(where, kind="stable")
    dealt = batch.take(pa.array(order))
    numbers, first = np.unique(where[order], return_index=True)
    ends = np.append(first[1:], len(order))
    rows = {
        int(p): dealt.slice(start, end - start)
        for p, start, end in zip(numbers, first.tolist(), ends.tolist(), strict=True)
        if only is None or int(p) in only
    }
    return _Pieces(frozenset(n for n in names if part.is_text(n)), kind, rows)


def _writable(array: pa.Array) -> pa.Array:
    """The same values in a type whose rows Arrow can select."""

    if isinstance(array, pa.ExtensionArray):
        return _writable(array.storage)
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array


class _Writers:
    """One open file per partition; a new file is begun when the types of columns change from one part of the
    source to the next."""

    def __init__(self, folder: Path, partitions: int):
        self.folder = folder
        self.streams: list[list[Stream]] = [[] for _ in range(partitions)]
        self._open: dict[int, tuple[Any, Any]] = {}
        self._form: Any = None

    def write(self, pieces: _Pieces) -> None:

        for p, rows in pieces.rows.items():
            if (pieces.text, rows.schema) != self._form:
                self.close()
                self._form = (pieces.text, rows.schema)
            if p not in self._open:
                place = self.folder / str(p)
                place.mkdir(mode=0o700, exist_ok=True)
                path = str(place / f"rows-{len(self.streams[p])}.arrows")
                file = open(path, "wb", buffering=1 << 16)
                self._open[p] = (file, pa.ipc.new_stream(file, rows.schema))
                self.streams[p].append(Stream(path, pieces.text))
            self._open[p][1].write_batch(rows)

    def close(self) -> None:
        for file, writer in self._open.values():
            writer.close()
            file.close()
        self._open = {}


def parts_of(streams: Sequence[Stream]) -> list[Part]:
    """The rows of one partition, for `ingest.read_parts`. A partition without rows has no streams."""
    return [_part(stream) for stream in streams]


def _part(stream: Stream) -> Part:

    with pa.OSFile(stream.path) as opened:
        form = pa.ipc.open_stream(opened).schema

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        with pa.OSFile(stream.path) as again:
            yield from units_of(pa.ipc.open_stream(again), columns)

    return Part("<partition>", form, units, stream.text)


def units_of(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[Unit]:
    """Groups many small batches into units of about BATCH_ROWS rows."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch.select(list(columns)))
        rows += batch.num_rows
        if rows >= BATCH_ROWS:
            yield partial(_joined, waiting)
            waiting, rows = [], 0
    if waiting:
        yield partial(_joined, waiting)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins the batches into one, since encoding has a fixed cost per batch."""

    for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
        yield from checked(batch)


def part_of_table(table: Table, partition: int, partitions: int) -> Table:
    """The rows of a table that belong to one partition, its users numbered anew."""
    if table.user is None or table.user_hash is None:
        rows = by_block(0, table.rows, partitions) == partition
        return table.take(rows)
    chosen = by_user(table.user_hash, partitions) == partition
    rows = chosen[table.user]
    number = (np.cumsum(chosen) - 1).astype(np.uint32)
    return Table(
        table.schema,
        {name: column[rows] for name, column in table.codes.items()},
        rows=int(np.count_nonzero(rows)),
        user=number[table.user[rows]],
        users=int(np.count_nonzero(chosen)),
        user_hash=table.user_hash[chosen],
        public=table.public,
    )

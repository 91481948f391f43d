"""Functions that Spark's executors run by `mapInArrow`: encode (of rows or of files), join, count,
add.

Rows between them have the form `ROW`. A task raises no error of its own, since Spark logs what is
raised. An error becomes a row with `failed` filled: class and text of fastdp's errors, only the
class of others. Later tasks pass it on to the driver. Where reading Spark's input fails, the task
raises that error, and Spark runs the task again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from .._util.lazy import pa
from ..errors import DataError, FastdpError, redact_errors
from ..schema import Schema
from ..schema.linked_schema import LinkedSchema, is_linked
from ..tables import ingest, part_checks
from ..tables.linked_tables import Links, link
from ..tables.parts import BATCH_ROWS, Part, Unit, checked
from ..tables.userids import UserIndex
from . import messages, pieces, sparkfiles
from .build import check
from .partitioned import Answer, Sums, answer, sparse

ROW = "key int, partition int, blob binary, failed string"
"""key: the shuffle's key, after `join` a blob's number, after `count` a slice's. partition: those
of linked table i come after those of tables 0 to i - 1. failed: JSON of (class, text)."""

SLICE = 1 << 16
"""Cells per slice, where the cells of all tables of a request are numbered one after the other. One
task adds up a slice over all partitions."""

SEND = 8 << 20
"""Approximate bytes of one batch that a task returns."""

Row = tuple[int, int, bytes | None, str | None]
Item = TypeVar("Item")


class BrokenOff(RuntimeError):
    """Reading the task's input ended with an error of Spark."""


def _task(
    work: Callable[[dict[str, Any], Iterator[Any]], Iterator[Row]], message: bytes, parts: Any
) -> Any:
    """Runs a task and gives its rows as Arrow batches; an error becomes a row."""
    broken = False

    def source() -> Iterator[Any]:
        """The input from Spark, whose errors are passed back to Spark."""
        nonlocal broken
        try:
            yield from parts
        except GeneratorExit:
            raise
        except BaseException:  # whatever it is, it is Spark's: it must not become a row
            broken = True
            raise

    def rows() -> Iterator[Row]:
        arguments = messages.unpacked(message)
        check(arguments["build"])
        yield from work(arguments, source())

    made = rows()
    waiting = []
    size = 0
    while True:
        came = attempt(lambda: next(made, None))
        if broken:
            raise BrokenOff("the rows of a Spark task ended early; nothing was counted") from None
        if "failed" in came:
            yield batch_of([(0, 0, None, json.dumps(came["failed"]))])
            return
        row = came["done"]
        if row is None:
            break
        waiting.append(row)
        size += len(row[2] or b"")
        if size >= SEND:
            yield batch_of(waiting)
            waiting = []
            size = 0
    yield batch_of(waiting)


def attempt(work: Callable[[], Any]) -> dict[str, Any]:
    """{"done": result}, or {"failed": (class, text)} of an error of fastdp's own; of other errors
    only the name of the class is given."""

    def readable() -> Any:
        try:
            return work()
        except OSError as error:
            what = os.strerror(error.errno or 0)
            raise DataError(f"a partition cannot be read or written ({what})") from None

    try:
        return {
            "done": redact_errors(
                readable, "", lambda name: DataError(f"a partition failed ({name})")
            )
        }
    except FastdpError as error:
        return {"failed": (type(error).__name__, str(error))}
    except MemoryError:
        return {"failed": ("MemoryError", "")}


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    """Rows of the form `ROW`."""
    kinds = {"key": pa.int32(), "partition": pa.int32(), "blob": pa.binary(), "failed": pa.string()}
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)]
    return pa.record_batch(arrays, names=list(kinds))


def openers(arguments: dict[str, Any]) -> list[Row]:
    """One row without content for each partition of a table, by its key of the shuffle."""
    return [
        (key, p, None, None) for p, key in enumerate(arguments["keys"].tolist(), arguments["first"])
    ]


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes]]:
    """(key, partition, blob) of what another task made; raises an error that it reported. Blobs of
    openers are empty."""
    for batch in batches:
        plain = (batch[name].to_pylist() for name in ("key", "partition", "failed"))
        for key, partition, failed, blob in zip(*plain, batch["blob"], strict=True):
            if failed is not None:
                raise messages.to_error(*json.loads(failed))
            content = blob.as_buffer()
            yield key, partition, b"" if content is None else content


def _schema(arguments: dict[str, Any]) -> Schema:
    return Schema.from_dict(json.loads(arguments["schema"]))


def encode(message: bytes, batches: Any) -> Iterator[pa.RecordBatch]:
    """Source rows to pieces: key of the partition's shuffle, partition, piece."""

    def work(arguments: dict[str, Any], source: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        yield from _pieces(_parts(source, arguments), arguments)

    return _task(work, message, batches)


def encode_files(message: bytes, batches: Any) -> Iterator[pa.RecordBatch]:
    """`encode` of files that the task reads itself. Its input are numbers of the lists in `groups`;
    number 0 also opens every partition."""

    def work(arguments: dict[str, Any], source: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        numbers = [number for batch in source for number in batch.column(0).to_pylist()]
        if 0 in numbers:
            yield from openers(arguments)
        lists = arguments["groups"] or [[]]  # files without rows
        groups = [group for number in numbers for group in lists[number]]
        yield from _pieces(sparkfiles.parts(groups), arguments)

    return _task(work, message, batches)


def _pieces(parts: list[Part], arguments: dict[str, Any]) -> Iterator[Row]:
    schema = _schema(arguments)
    keys = arguments["keys"].tolist()
    users = None if schema.user is None else UserIndex(schema.user, arguments["secret"].tobytes())
    wanted = part_checks.checked_columns(parts, schema)
    encoded = ingest.encoded(parts, schema, wanted, users, 1)
    for partition, piece in pieces.dealt(encoded, len(keys)):
        yield keys[partition], arguments["first"] + partition, piece, None


def _parts(batches: Iterator[pa.RecordBatch], arguments: dict[str, Any]) -> list[Part]:
    """Spark's batches as one part; an empty list where there are no rows."""
    first = next(batches, None)
    if first is None:
        return []

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        for some in _joined(chain([first], batches)):
            yield partial(checked, plain(some, arguments["columns"]))

    return [Part("<spark>", plain(first.slice(0, 0), arguments["columns"]).schema, units)]


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Many small batches as few of about BATCH_ROWS rows, since encoding has a fixed cost per
    batch."""
    waiting: list[pa.RecordBatch] = []
    for batch in chain(batches, [None]):
        waiting += [] if batch is None else [batch]
        if waiting and (batch is None or sum(b.num_rows for b in waiting) >= BATCH_ROWS):
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []


def plain(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """A batch of Spark under the source's names, in which times with a zone are labelled UTC, as in
    files and on the driver: Spark labels them with the session's zone, which concerns only how they
    are shown."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            column = column.cast(pa.timestamp(kind.unit, "UTC"))
        columns.append(column)
    return pa.record_batch(columns, names=list(names))


def join(message: bytes, batches: Any) -> Iterator[pa.RecordBatch]:
    """Pieces to the blobs of each partition's tables: number, partition, blob."""

    def work(arguments: dict[str, Any], source: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        plain = json.loads(arguments["schema"])
        secret = arguments["secret"]
        count = len(arguments["keys"])
        links = Links(LinkedSchema.from_dict(plain)) if is_linked(plain) else None
        schemas = {"": Schema.from_dict(plain)} if links is None else links.linked.tables
        joined: dict[int, tuple[UserIndex, list[pieces.Joined]]] = {}
        for _, place, piece in _rows(source):
            table, partition = divmod(place, count)
            if partition not in joined:
                users = UserIndex(secret=secret.tobytes())
                joined[partition] = (
                    users,
                    [pieces.Joined(schema, users) for schema in schemas.values()],
                )
            if piece:
                joined[partition][1][table].add(piece)
        for partition in sorted(joined):
            users, parts = joined.pop(partition)
            tables = [one.table() for one in parts]
            if links is not None:
                tables = link(dict(zip(schemas, tables)), links, users.hashes())
            for i, made in enumerate(tables):
                for number, blob in enumerate(pieces.blobs(made)):
                    yield number, i * count + partition, blob, None

    return _task(work, message, batches)


def _tables(
    schema: Schema, rows: Iterable[tuple[int, int, bytes]]
) -> Iterator[tuple[int, pieces.Tables]]:
    """(partition, its table's blobs put together)."""
    at = -1
    expected = 0
    made = None
    for number, partition, blob in rows:
        if number == 0:
            if made is not None:
                yield at, made
            at = partition
            expected = 1
            made = pieces.Tables(schema, blob)
        elif made is None or partition != at or number != expected:
            raise DataError("a partition's codes are out of order; nothing was counted")
        else:
            made.add(blob)
            expected += 1
    if made is not None:
        yield at, made


def count(message: bytes, batches: Any) -> Iterator[pa.RecordBatch]:
    """Each partition's answer in slices of cells: slice, partition, answer over the slice's
    cells."""

    def work(arguments: dict[str, Any], source: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        schema = _schema(arguments)
        request = messages.to_request(arguments["request"])
        for place, blobs in _tables(schema, _rows(source)):
            partition = place - arguments["first"]
            if blobs.head["fingerprint"] != arguments["fingerprints"][partition]:
                raise DataError(
                    "a partition was read again with other rows; nothing was counted. Give a source "
                    "that does not change during the run"
                )
            for number, part in sliced(
                answer(blobs.table(), partition, request), arguments["sizes"]
            ):
                yield number, partition, messages.packed(messages.of_answer(part)), None

    return _task(work, message, batches)


def sliced(whole: Answer, sizes: list[int]) -> Iterator[tuple[int, Answer]]:
    """(slice, answer) of an answer: its tables one after the other, cut every SLICE cells."""
    starts = np.cumsum([0, *sizes])
    none = np.empty(0, np.int64)
    cells = np.concatenate(
        [none, *(c + start for (c, _), start in zip(whole.tables, starts.tolist()))]
    )
    sums = np.concatenate([none, *(s for _, s in whole.tables)])
    for number in range(slices(sizes)):
        low, high = np.searchsorted(cells, [number * SLICE, (number + 1) * SLICE])
        part = (cells[low:high] - number * SLICE, sums[low:high])
        yield number, Answer(whole.partition, whole.digest, [part])


def slices(sizes: list[int]) -> int:
    """How many slices tables of these sizes have; at least one."""
    return max(1, -(-sum(sizes) // SLICE))


def add(message: bytes, batches: Any) -> Iterator[pa.RecordBatch]:
    """Slices of all partitions added up: slice, 0, answer of the whole table over the slice's
    cells."""

    def work(arguments: dict[str, Any], source: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        digest = arguments["digest"]
        partitions = arguments["partitions"]
        sums: dict[int, Sums] = {}
        for number, _, blob in _rows(source):
            if number not in sums:
                sums[number] = Sums(digest, partitions, [SLICE])
            sums[number].add(messages.to_answer(messages.unpacked(blob)))
        for number in sorted(sums):
            (table,) = sums.pop(number).whole()
            whole = Answer(0, digest, [sparse(table)])
            yield number, 0, messages.packed(messages.of_answer(whole)), None

    return _task(work, message, batches)

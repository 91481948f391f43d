"""Counts in Spark's executors: an engine over a DataFrame, of a classic session or of Spark
Connect.

Spark reads, shuffles and persists. fastdp's own code runs by `mapInArrow` (`sparktasks`):

    rows -> encode -> (shuffle by partition) -> join -> persisted codes           once
    persisted codes -> count -> (shuffle by slice of cells) -> add -> the driver  for every request

All rows of a user are in one partition. A slice is a range of the request's cells, which one task
adds up over all partitions. If the rows come from mounted Parquet files, tasks read the files
themselves (`sparkfiles`).

Rows are encoded before they are shuffled: only codes, and ids as words or keyed hashes, are moved,
in pieces of 64 kB. The driver receives no row and no id. It receives sums over all partitions, and
a head of each partition: its numbers of rows and users, and a fingerprint. If an executor loses a
partition, Spark computes it again from the source, which must give the same rows. Fingerprints that
differ are an error. Rows may come in any order.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial, reduce
from typing import Any, cast

import numpy as np

from .._util.lazy import pa
from ..errors import DataError, redact_errors
from ..schema import Schema
from ..tables import part_checks
from ..tables.linked_tables import Links
from ..tables.parts import Part
from ..tables.sources.source import Source
from ..tables.table import MAX_ROWS
from ..tables.userids import UserIndex
from . import messages, sparkfiles, sparktasks as tasks
from .build import build
from .engine import ENGINES, Engine, EngineOptions, OpenCounter, reading_facts
from .partitioned import Answer, PartitionedCounter, Request
from .sparkcheck import MAX_PARTITIONS, check_partitions

MAX_ADDERS = 64
"""The most tasks that add up slices."""

ADDER_SLICES = 64
"""One task adds this many inputs (one slice of one partition each, 64 MB together at most) before
another task is worth its cost."""


class SparkPartitions:
    """`Partitions` of a DataFrame, or of one of several that are linked. The executors add up the
    answers of all partitions, so the engine sees one partition. The caller closes it.

    schemas: one for each frame. links: how each partition links the frames' rows; it has all rows
    of its keys. The tables are persisted together, and `of_table` gives the partitions of each.
    partitions: None means two per task that Spark runs at once. rows, users, dropped: PRIVATE
    numbers of what was read, for the data's owner.
    """

    count = 1

    def __init__(
        self, frames: Sequence[Any], schemas: Sequence[Schema], partitions=None, links=None
    ):
        self._spark = frames[0].sparkSession
        self._encoded = cast(Any, None)
        index = UserIndex()  # keys of all tables must be of one kind
        columns = [
            _columns(frame, schema, index) for frame, schema in zip(frames, schemas, strict=True)
        ]
        if partitions is None:
            partitions = min(MAX_PARTITIONS, 2 * guarded(lambda: default_parallelism(self._spark)))
        self.partitions = check_partitions(partitions)
        self._schemas = schemas if links is None else links.schemas
        about = json.dumps((schemas[0] if links is None else links.linked).to_dict())
        secret = np.frombuffer(secrets.token_bytes(16), np.uint8)
        common = {"schema": about, "secret": secret, "keys": shuffle_keys(self.partitions)}
        try:
            tables = list(zip(frames, schemas, columns))
            self._encoded, heads = guarded(lambda: self._persist(tables, common))
            self._read_heads(heads)
        except BaseException:  # also an interrupt: the executors keep nothing
            self.close()
            raise

    def _persist(self, tables: Sequence[Any], common: dict[str, Any]) -> tuple[Any, Any]:
        """(the encoded partitions, their heads) as DataFrames, which Spark computes when they are
        first used and then keeps. tables: (frame, schema, columns) of each. common: arguments of
        every task."""
        pieces = []
        for number, (frame, schema, columns) in enumerate(tables):
            about = {"schema": json.dumps(schema.to_dict()), "first": number * self.partitions}
            pieces.append(self._pieces(frame, columns, common | about))
        together = reduce(lambda some, more: some.unionByName(more), pieces)
        joined = _mapped(together.repartition(self.partitions, "key"), tasks.join, common)
        encoded = persisted(joined)
        return encoded, encoded.where("key = 0")  # first blobs of partitions, and errors of tasks

    def _pieces(
        self, frame: Any, columns: dict[str, tuple[int, str]], common: dict[str, Any]
    ) -> Any:
        """A DataFrame of one table's encoded rows, in pieces for the partitions."""
        kinds = {name: kind for name, (_, kind) in columns.items()}
        groups = sparkfiles.scanned(frame, kinds, -(-self.partitions // 2))
        if groups is None:
            return self._from_rows(frame, columns, common)
        lists = self._spark.range(0, max(1, len(groups)), 1, max(1, len(groups)))
        return _mapped(lists, tasks.encode_files, {**common, "groups": groups})

    def _from_rows(
        self, frame: Any, columns: dict[str, tuple[int, str]], common: dict[str, Any]
    ) -> Any:
        """`_pieces` of rows that Spark reads. An empty row for each partition is added, so that
        partitions without rows exist too."""
        # Columns are taken by position: Spark's names ignore case and may occur twice.
        names = [f"c{i}" for i in range(len(frame.columns))]
        rows = frame.toDF(*names).select(*(names[i] for i, _ in columns.values()))
        opening = pa.Table.from_batches([tasks.batch_of(tasks.openers(common))])
        openers = self._spark.createDataFrame(opening)
        return _mapped(rows, tasks.encode, {**common, "columns": list(columns)}).unionByName(
            openers
        )

    def _read_heads(self, frame: Any) -> None:
        """Run the tasks that encode, and read the head of every partition: its fingerprint and its
        numbers of rows and users."""
        heads: dict[int, dict[str, Any]] = {}
        for _, partition, blob in collected(frame):
            if partition in heads:
                raise DataError("Spark returned a partition twice; nothing was counted")
            heads[partition] = messages.unpacked(blob)
        if sorted(heads) != list(range(self.partitions * len(self._schemas))):
            raise DataError("Spark did not return a partition; nothing was counted")
        self._heads = [heads[p] for p in sorted(heads)]
        self._select_table(0)

    def _select_table(self, number: int) -> None:
        """Make this object answer for linked table `number` (0 if there is one table)."""
        self.schema = self._schemas[number]
        self._first = number * self.partitions
        heads = self._heads[self._first : self._first + self.partitions]
        self._fingerprints = [head["fingerprint"] for head in heads]
        self.rows, self.users, self.dropped = (
            sum(h[k] for h in heads) for k in ("rows", "users", "dropped")
        )
        if self.rows > MAX_ROWS:
            raise DataError(
                f"the table has more than {MAX_ROWS} rows, the limit for exact int64 sums"
            )

    def of_table(self, number: int) -> SparkPartitions:
        """The partitions of one of the linked tables; closing one of them closes all."""
        other = copy(self)
        other._select_table(number)
        return other

    def answers(self, request: Request) -> Iterator[Answer]:
        """One answer, of all partitions."""
        sizes = request.sizes(self.schema.domain)
        digest = request.digest()
        about = {
            "schema": json.dumps(self.schema.to_dict()),
            "request": messages.of_request(request),
        }
        asked = about | {"sizes": sizes, "fingerprints": self._fingerprints, "first": self._first}
        slices = tasks.slices(sizes)

        def work() -> Any:
            own = f"partition >= {self._first} and partition < {self._first + self.partitions}"
            counted = _mapped(self._encoded.where(own), tasks.count, asked)
            by_slice = counted.repartition(adders(slices, self.partitions), "key")
            return _mapped(by_slice, tasks.add, {"digest": digest, "partitions": self.partitions})

        parts: dict[int, Answer] = {}
        for number, _, blob in collected(guarded(work)):
            one = messages.to_answer(messages.unpacked(blob))
            if one.digest != digest or number in parts:
                raise DataError("Spark answered a different request; nothing was counted")
            parts[number] = one
        if sorted(parts) != list(range(slices)):
            raise DataError("a part of Spark's answer is missing; nothing was counted")
        yield joined_slices(parts, digest, sizes)

    def close(self) -> None:
        """Let Spark remove the persisted codes."""
        encoded = self._encoded
        self._encoded = None
        if encoded is not None:
            try:
                encoded.unpersist()
            except Exception:  # Py4J's or gRPC's: the session has ended, and its data are gone
                pass


def adders(slices: int, partitions: int) -> int:
    """How many tasks add up the slices of all partitions."""
    return min(-(-slices * partitions // ADDER_SLICES), slices, MAX_ADDERS)


def joined_slices(parts: dict[int, Answer], digest: str, sizes: list[int]) -> Answer:
    """The whole answer, put together from its slices 0, 1, ... of cells. digest: of the request.
    sizes: cells of each of its tables."""
    cells = np.concatenate([parts[i].tables[0][0] + i * tasks.SLICE for i in range(len(parts))])
    sums = np.concatenate([parts[i].tables[0][1] for i in range(len(parts))])
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(cells, ends)
    if len(cuts) and cuts[-1] != len(cells):
        raise DataError(
            "Spark returned a cell that the request does not contain; nothing was counted"
        )
    places = zip(ends - sizes, np.split(cells, cuts[:-1]), np.split(sums, cuts[:-1]))
    return Answer(0, digest, [(own - start, some) for start, own, some in places])


def persisted(frame: Any) -> Any:
    """The same DataFrame, which executors keep once it is computed: in memory as far as Spark finds
    room, the rest on their disks."""
    from pyspark.storagelevel import StorageLevel

    return frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)


def _mapped(frame: Any, task: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The frame that a task of `sparktasks` makes of this one. The executors must run the same
    build of fastdp."""
    message = messages.packed({"build": dict(build()), **arguments})
    return frame.mapInArrow(partial(task, message), tasks.ROW)


def collected(frame: Any) -> Iterator[tuple[int, int, bytes]]:
    """(key, partition, blob) of each row of a small frame that tasks made. Raises an error that a
    task reported."""
    for row in guarded(lambda: frame.toArrow()).to_pylist():
        if row["failed"] is not None:
            raise messages.to_error(*json.loads(row["failed"]))
        yield row["key"], row["partition"], row["blob"]


def guarded(call: Callable[[], Any]) -> Any:
    """The result of a call of Spark. Errors of Spark can quote rows, so only their class is
    reported."""

    def explained() -> Any:
        try:
            return call()
        except Exception as error:  # raised as it is, but for one cause that the user can mend
            if "No module named 'fastdp'" in str(error):
                raise DataError(
                    "Spark's executors cannot import fastdp; install the driver's build there"
                ) from None
            raise

    return redact_errors(
        explained,
        "not enough memory on the driver for Spark's answers",
        lambda name: DataError(f"Spark failed ({name}); see its log on the cluster"),
    )


def default_parallelism(spark: Any) -> int:
    """How many tasks Spark runs at once: its default number of partitions of a range."""
    from pyspark.sql import functions

    numbers = spark.range(1 << 20).select(functions.spark_partition_id().alias("number"))
    return int(numbers.agg(functions.max("number")).collect()[0][0]) + 1


def shuffle_keys(partitions: int) -> np.ndarray:
    """int32 shuffle key of each partition, chosen so that Spark's hash sends each to a task of its
    own. If no such key is found, two partitions share a task, and their numbers tell them apart."""
    tried = np.arange(24 * partitions, dtype=np.int32)
    _, first = np.unique(spark_hash(tried) % partitions, return_index=True)
    keys = np.arange(partitions, dtype=np.int32)
    keys[: len(first)] = tried[first]
    return keys


def spark_hash(values: np.ndarray) -> np.ndarray:
    """The int32 hash by which Spark's shuffles place 32-bit integers: MurmurHash3_x86_32 of 4
    bytes, seed 42."""

    def rotated(x: np.ndarray, bits: int) -> np.ndarray:
        return x << np.uint32(bits) | x >> np.uint32(32 - bits)

    word = values.astype(np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
    word = rotated(word, 15) * np.uint32(0x1B873593)
    word = rotated(word ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    word = word ^ np.uint32(4)
    word = (word ^ word >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    word = (word ^ word >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (word ^ word >> np.uint32(16)).view(np.int32)


def _columns(frame: Any, schema: Schema, users: UserIndex) -> dict[str, tuple[int, str]]:
    """Position and Arrow type of each column that the schema needs. DataError if one is missing,
    occurs twice or has a wrong type. `users` remembers the type of ids from table to table: linked
    tables must have one."""

    names = list(frame.columns)
    wanted = part_checks.needed_columns(schema)
    places = [names.index(name) for name in wanted if names.count(name) == 1]

    def kinds() -> pa.Schema:
        numbered = frame.toDF(*(f"c{i}" for i in range(len(names))))
        return numbered.select(*(f"c{i}" for i in places)).limit(0).toArrow().schema

    types = dict(zip(places, guarded(kinds).types, strict=True)) if places else {}
    form = pa.schema([(name, types.get(i, pa.null())) for i, name in enumerate(names)])
    part = Part("<spark>", form, lambda columns, user: iter(()))
    users.column = schema.user or ""
    at = {name: names.index(name) for name in part_checks.checked_columns([part], schema, users)}
    return {name: (i, str(types[i])) for name, i in at.items()}


def spark(frame: Any, schema: Schema, partitions: int | None = None) -> PartitionedCounter:
    """The engine over a Spark DataFrame (partitions None: two per task that Spark runs at once).
    The caller closes it."""
    return PartitionedCounter(schema, SparkPartitions([frame], [schema], partitions))


def linked_spark(
    frames: Mapping[str, Any], links: Links, partitions: int | None = None
) -> list[PartitionedCounter]:
    """The engines over the parents' table and over each child's table of linked Spark DataFrames;
    closing one closes all. All rows of a key are in one partition, where they are linked as in one
    process."""
    schemas = links.linked.tables
    tables = SparkPartitions(
        [frames[name] for name in schemas], list(schemas.values()), partitions, links
    )
    counted = enumerate(links.schemas)
    return [PartitionedCounter(schema, tables.of_table(number)) for number, schema in counted]


@ENGINES.add("spark")
class SparkEngine(Engine):
    """Spark's executors read, encode and count the rows."""

    name = "spark"
    counts = "a Spark DataFrame"
    divides = True
    periods = True
    holds_rows = False

    def check(self, options: EngineOptions) -> None:
        if options.partitions is not None:
            check_partitions(options.partitions)

    def open(self, source: Source, schema: Schema, options: EngineOptions) -> OpenCounter:
        return _opened(spark(source.given, schema, options.partitions))

    def open_linked(
        self, sources: Mapping[str, Source], links: Links, options: EngineOptions
    ) -> list[OpenCounter]:
        frames = {name: source.given for name, source in sources.items()}
        return [_opened(counter) for counter in linked_spark(frames, links, options.partitions)]


def _opened(counter: PartitionedCounter) -> OpenCounter:
    own: Any = counter.partitions
    return OpenCounter(counter, None, own.close, reading_facts(own.rows, own.users, own.dropped, 0))

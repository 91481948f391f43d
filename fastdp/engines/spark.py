"""Partitions in Spark's executors: a back end over a DataFrame, of a classic session or of Spark
Connect.

Spark reads, shuffles and keeps; fastdp's own code encodes, deals, counts and adds, by `mapInArrow`:

    rows -> encode -> (shuffle by partition) -> join -> kept by the executors     once
    kept -> count -> (shuffle by slice of cells) -> add -> the driver             for every request

Where the rows are those of mounted Parquet files, tasks read the files themselves (`sparkfiles`).
Rows are encoded before they are shuffled: only codes, and ids as words or keyed hashes, are moved,
in pieces of 64 kB. The driver receives sums over all partitions, and for each partition the numbers
of rows and users and a fingerprint. It receives no row and no id. If an executor loses a partition,
Spark makes it again from the source, which must give the same rows: fingerprints that differ are an
error. Rows may come in any order.
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
from ..tables import ingest
from ..tables.linked_tables import Links
from ..tables.parts import Part
from ..tables.sources.source import Source
from ..tables.table import MAX_ROWS
from ..tables.userids import UserIndex
from . import messages, sparkfiles, sparktasks as tasks
from .build import build
from .engine import ENGINES, Engine, EngineOptions, OpenCounter, reading
from .partitioned import Answer, PartitionedCounter, Request
from .sparkcheck import MAX_PARTITIONS, check_partitions

MAX_ADDERS = 64
"""The most tasks that add up slices."""

ADDER_SLICES = 64
"""Slices of partitions that one task may add before another is worth its cost; 64 MB at most."""


class SparkPartitions:
    """`Partitions` of a DataFrame, or of one of several that are linked. The executors add up the
    answers of all partitions, so the engine sees one partition. The caller closes it.

    schemas: of the frames. links: what linked frames become in each partition, which has all rows
    of its keys. Their tables are kept together and `of_table` gives the partitions of each.
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
            partitions = min(MAX_PARTITIONS, 2 * guarded(lambda: parallel(self._spark)))
        self.partitions = check_partitions(partitions)
        self._schemas = schemas if links is None else links.schemas
        about = json.dumps((schemas[0] if links is None else links.linked).to_dict())
        secret = np.frombuffer(secrets.token_bytes(16), np.uint8)
        common = {"schema": about, "secret": secret, "keys": shuffle_keys(self.partitions)}
        try:
            given = list(zip(frames, schemas, columns))
            self._encoded, facts = guarded(lambda: self._keep(given, common))
            self._learn(facts)
        except BaseException:  # also an interrupt: the executors keep nothing
            self.close()
            raise

    def _keep(self, given: Sequence[Any], common: dict[str, Any]) -> tuple[Any, Any]:
        """(the encoded partitions, their facts) as DataFrames, which Spark computes when they are
        first used and then keeps."""
        pieces = []
        for number, (frame, schema, columns) in enumerate(given):
            about = {"schema": json.dumps(schema.to_dict()), "first": number * self.partitions}
            pieces.append(self._pieces(frame, columns, common | about))
        together = reduce(lambda some, more: some.unionByName(more), pieces)
        joined = kept(_mapped(together.repartition(self.partitions, "key"), tasks.join, common))
        return joined, joined.where(
            "key = 0"
        )  # the first blob of each partition, and errors of tasks

    def _pieces(
        self, frame: Any, columns: dict[str, tuple[int, str]], common: dict[str, Any]
    ) -> Any:
        """Pieces of one table's rows for the partitions."""
        kinds = {name: kind for name, (_, kind) in columns.items()}
        groups = sparkfiles.scanned(frame, kinds, -(-self.partitions // 2))
        if groups is None:
            return self._from_rows(frame, columns, common)
        lists = self._spark.range(0, max(1, len(groups)), 1, max(1, len(groups)))
        return _mapped(lists, tasks.encode_files, {**common, "groups": groups})

    def _from_rows(
        self, frame: Any, columns: dict[str, tuple[int, str]], common: dict[str, Any]
    ) -> Any:
        """Pieces of the rows that Spark hands over, and one row that opens each partition."""
        # Columns are taken by position: Spark's names ignore case and may occur twice.
        names = [f"c{i}" for i in range(len(frame.columns))]
        rows = frame.toDF(*names).select(*(names[i] for i, _ in columns.values()))
        opening = pa.Table.from_batches([tasks.batch_of(tasks.openers(common))])
        openers = self._spark.createDataFrame(opening)
        return _mapped(rows, tasks.encode, {**common, "columns": list(columns)}).unionByName(
            openers
        )

    def _learn(self, facts: Any) -> None:
        heads: dict[int, dict[str, Any]] = {}
        for _, partition, blob in collected(facts):
            if partition in heads:
                raise DataError("Spark returned a partition twice; nothing was counted")
            heads[partition] = messages.unpacked(blob)
        if sorted(heads) != list(range(self.partitions * len(self._schemas))):
            raise DataError("Spark did not return a partition; nothing was counted")
        self._heads = [heads[p] for p in sorted(heads)]
        self._look_at(0)

    def _look_at(self, number: int) -> None:
        self.schema, self._first = self._schemas[number], number * self.partitions
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
        other._look_at(number)
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
            dealt = counted.repartition(adders(slices, self.partitions), "key")
            return _mapped(dealt, tasks.add, {"digest": digest, "partitions": self.partitions})

        parts: dict[int, Answer] = {}
        for number, _, blob in collected(guarded(work)):
            one = messages.to_answer(messages.unpacked(blob))
            if one.digest != digest or number in parts:
                raise DataError("Spark answered a different request; nothing was counted")
            parts[number] = one
        if sorted(parts) != list(range(slices)):
            raise DataError("a part of Spark's answer is missing; nothing was counted")
        yield unsliced(parts, digest, sizes)

    def close(self) -> None:
        """Lets Spark remove what it kept."""
        encoded = self._encoded
        self._encoded = None
        if encoded is not None:
            try:
                encoded.unpersist()
            except Exception:  # the session has ended, and Spark has removed the data already
                pass


def adders(slices: int, partitions: int) -> int:
    """How many tasks add up the slices of all partitions."""
    return min(-(-slices * partitions // ADDER_SLICES), slices, MAX_ADDERS)


def unsliced(parts: dict[int, Answer], digest: str, sizes: list[int]) -> Answer:
    """The whole answer, put together from its slices 0, 1, ... of cells."""
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


def kept(frame: Any) -> Any:
    """The same DataFrame, kept by the executors when it is first made: in their memory as far as
    Spark finds room, and on their disks."""
    from pyspark.storagelevel import StorageLevel

    return frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)


def _mapped(frame: Any, task: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    message = messages.packed({"build": dict(build()), **arguments})
    return frame.mapInArrow(partial(task, message), tasks.ROW)


def collected(frame: Any) -> Iterator[tuple[int, int, bytes]]:
    """(key, partition, blob) of the few rows of a frame; an error that a task reported is raised
    here."""
    for row in guarded(lambda: frame.toArrow()).to_pylist():
        if row["failed"] is not None:
            raise messages.to_error(*json.loads(row["failed"]))
        yield row["key"], row["partition"], row["blob"]


def guarded(call: Callable[[], Any]) -> Any:
    """Run a call of Spark. Errors of Spark can quote rows, so only their class is reported."""

    def without_fastdp() -> Any:
        try:
            return call()
        except Exception as error:  # raised as it is, but for one cause that the user can mend
            if "No module named 'fastdp'" in str(error):
                raise DataError(
                    "Spark's executors cannot import fastdp; install the driver's build there"
                ) from None
            raise

    return redact_errors(
        without_fastdp,
        "not enough memory on the driver for Spark's answers",
        lambda name: DataError(f"Spark failed ({name}); see its log on the cluster"),
    )


def parallel(spark: Any) -> int:
    """How many tasks Spark runs at once: its default number of partitions of a range."""
    from pyspark.sql import functions

    numbers = spark.range(1 << 20).select(functions.spark_partition_id().alias("number"))
    return int(numbers.agg(functions.max("number")).collect()[0][0]) + 1


def shuffle_keys(partitions: int) -> np.ndarray:
    """int32 key of each partition, chosen so that Spark's hash sends every partition to a task of
    its own. Where no such key is found, two partitions share a task and are distinguished by their
    numbers."""
    tried = np.arange(24 * partitions, dtype=np.int32)
    _, first = np.unique(spark_hash(tried) % partitions, return_index=True)
    keys = np.arange(partitions, dtype=np.int32)
    keys[: len(first)] = tried[first]
    return keys


def spark_hash(values: np.ndarray) -> np.ndarray:
    """int32 hash that Spark's shuffles take of 32-bit integers: MurmurHash3_x86_32 of 4 bytes, seed
    42."""

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
    """Position and Arrow type of each needed column; DataError if one is missing, occurs twice or
    has a wrong type. `users` has the kind of ids of the tables before."""

    names = list(frame.columns)
    wanted = ingest.needed_columns(schema)
    places = [names.index(name) for name in wanted if names.count(name) == 1]

    def kinds() -> pa.Schema:
        numbered = frame.toDF(*(f"c{i}" for i in range(len(names))))
        return numbered.select(*(f"c{i}" for i in places)).limit(0).toArrow().schema

    types = dict(zip(places, guarded(kinds).types, strict=True)) if places else {}
    form = pa.schema([(name, types.get(i, pa.null())) for i, name in enumerate(names)])
    part = Part("<spark>", form, lambda columns, user: iter(()))
    users.column = schema.user or ""
    at = {name: names.index(name) for name in ingest.checked_columns([part], schema, users)}
    return {name: (i, str(types[i])) for name, i in at.items()}


def spark(frame: Any, schema: Schema, partitions: int | None = None) -> PartitionedCounter:
    """The engine over a Spark DataFrame (partitions None: two per task that Spark runs at once).
    The caller closes it."""
    return PartitionedCounter(schema, SparkPartitions([frame], [schema], partitions))


def linked_spark(
    frames: Mapping[str, Any], links: Links, partitions: int | None = None
) -> list[PartitionedCounter]:
    """The engines over the parents' table and over each child's table of linked Spark DataFrames;
    the caller closes one of them. All rows of a key are in one partition, where they are linked as
    in one process."""
    schemas = links.linked.tables
    kept = SparkPartitions(
        [frames[name] for name in schemas], list(schemas.values()), partitions, links
    )
    return [PartitionedCounter(s, kept.of_table(number)) for number, s in enumerate(links.schemas)]


@ENGINES.add("spark")
class SparkEngine(Engine):
    """Spark's executors read, keep and count the rows."""

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
    kept: Any = counter.partitions
    return OpenCounter(counter, None, kept.close, reading(kept.rows, kept.users, kept.dropped, 0))

"""Partitions in Spark's executors: a back end over a DataFrame, of a classic session or of Spark Connect.

Spark reads, shuffles and keeps; fastdp's own code encodes, deals, counts and adds, by `mapInArrow`:

    rows -> encode -> (shuffle by partition) -> join -> kept by the executors     once
    kept -> count -> (shuffle by slice of cells) -> add -> the driver             for every request

Where the rows are those of mounted Parquet files, tasks read the files themselves (`sparkfiles`). Rows are
encoded before they are shuffled: only codes, and ids as words or keyed hashes, are moved, in pieces
of 64 kB. The driver receives sums over all partitions, and for each partition the numbers of rows and users
and a fingerprint; it receives no row and no id. If an executor loses a partition, Spark makes it again from
the source, which must give the same rows: fingerprints that differ are an error. Rows may come in any order.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .._util.lazy import pa
from ..codec.encode import source_columns
from ..errors import DataError, UsageError, redact_errors
from ..schema import Schema
from ..tables import ingest
from ..tables.parts import Part
from ..tables.table import MAX_ROWS
from . import messages, sparkfiles
from . import sparktasks as tasks
from .build import build
from .partitioned import Answer, PartitionedCounter, Request
from .sparkcheck import MAX_PARTITIONS, check_partitions, is_spark

MAX_ADDERS = 64
"""The most tasks that add up slices."""

ADDER_SLICES = 64
"""Slices of partitions that one task may add before another is worth its cost; 64 MB at most."""


class SparkPartitions:
    """`Partitions` of a DataFrame. The executors add up the answers of all partitions, so the engine sees one
    partition. The caller closes it.

    partitions: None means two per task that Spark runs at once.
    rows, users, dropped: PRIVATE numbers of what was read, for the data's owner.
    """

    count = 1

    def __init__(self, frame: Any, schema: Schema, partitions: int | None = None):
        self.schema = schema
        self.has_users = schema.user is not None
        self._spark, self._encoded = frame.sparkSession, None
        columns = _columns(frame, schema)
        if partitions is None:
            partitions = min(MAX_PARTITIONS, 2 * guarded(lambda: parallel(self._spark)))
        self.partitions = check_partitions(partitions)
        try:
            kept, facts = guarded(lambda: self._keep(frame, columns))
            self._encoded = kept
            self._learn(facts)
        except BaseException:
            self.close()
            raise

    def _keep(self, frame: Any, columns: dict[str, tuple[int, str]]) -> tuple[Any, Any]:
        """(the encoded partitions, their facts) as DataFrames, which Spark computes when they are first used
        and then keeps."""
        common = {
            "schema": json.dumps(self.schema.to_dict()),
            "secret": np.frombuffer(secrets.token_bytes(16), np.uint8),
            "keys": shuffle_keys(self.partitions),
        }
        kinds = {name: kind for name, (_, kind) in columns.items()}
        groups = sparkfiles.scanned(frame, kinds, -(-self.partitions // 2))
        if groups is None:
            pieces = self._from_rows(frame, columns, common)
        else:
            lists = self._spark.range(0, max(1, len(groups)), 1, max(1, len(groups)))
            pieces = _mapped(lists, tasks.encode_files, {**common, "groups": groups})
        joined = kept(_mapped(pieces.repartition(self.partitions, "key"), tasks.join, common))
        return joined, joined.where("key = 0")  # the first blob of each partition, and errors of tasks

    def _from_rows(self, frame: Any, columns: dict[str, tuple[int, str]], common: dict[str, Any]) -> Any:
        """Pieces of the rows that Spark hands over, and one row that opens each partition."""
        # Columns are taken by position: Spark's names ignore case and may occur twice.
        names = [f"c{i}" for i in range(len(frame.columns))]
        rows = frame.toDF(*names).select(*(names[i] for i, _ in columns.values()))
        opening = pa.Table.from_batches([tasks.batch_of(tasks.openers(common["keys"]))])
        openers = self._spark.createDataFrame(opening)
        return _mapped(rows, tasks.encode, {**common, "columns": list(columns)}).unionByName(openers)

    def _learn(self, facts: Any) -> None:
        heads: dict[int, dict[str, Any]] = {}
        for _, partition, blob in collected(facts):
            if partition in heads:
                raise DataError("Spark returned a partition twice; nothing was counted")
            heads[partition] = messages.unpacked(blob)
        if sorted(heads) != list(range(self.partitions)):
            raise DataError("Spark did not return a partition; nothing was counted")
        self._fingerprints = [heads[p]["fingerprint"] for p in range(self.partitions)]
        self.rows = sum(head["rows"] for head in heads.values())
        self.users = sum(head["users"] for head in heads.values())
        self.dropped = sum(head["dropped"] for head in heads.values())
        if self.rows > MAX_ROWS:
            raise DataError(f"the table has more than {MAX_ROWS} rows, the limit for exact int64 sums")

    def answers(self, request: Request) -> Iterator[Answer]:
        """One answer, of all partitions."""
        sizes, digest = request.sizes(self.schema.domain), request.digest()
        asked = {
            "schema": json.dumps(self.schema.to_dict()),
            "request": messages.of_request(request),
            "sizes": sizes,
            "fingerprints": self._fingerprints,
        }
        slices = tasks.slices(sizes)

        def work() -> Any:
            counted = _mapped(self._encoded, tasks.count, asked)
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
        encoded, self._encoded = self._encoded, None
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
        raise DataError("Spark returned a cell that the request does not contain; nothing was counted")
    places = zip(ends - sizes, np.split(cells, cuts[:-1]), np.split(sums, cuts[:-1]))
    return Answer(0, digest, [(own - start, some) for start, own, some in places])


def kept(frame: Any) -> Any:
    """The same DataFrame, kept by the executors when it is first made: in their memory as far as Spark finds
    room, and on their disks."""
    from pyspark.storagelevel import StorageLevel

    return frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)


def _mapped(frame: Any, task: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    message = messages.packed({"build": dict(build()), **arguments})
    return frame.mapInArrow(partial(task, message), tasks.ROW)


def collected(frame: Any) -> Iterator[tuple[int, int, bytes]]:
    """(key, partition, blob) of the few rows of a frame; an error that a task reported is raised here."""
    for row in guarded(lambda: frame.toArrow()).to_pylist():
        if row["failed"] is not None:
            raise messages.to_error(*json.loads(row["failed"]))
        yield row["key"], row["partition"], row["blob"]


def guarded(call: Callable[[], Any]) -> Any:
    """Runs a call of Spark. Errors of Spark can quote rows, so only their class is reported."""

    def without_fastdp() -> Any:
        try:
            return call()
        except Exception as error:
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
    """int32 key of each partition, chosen so that Spark's hash sends every partition to a task of its own.
    Where no such key is found, two partitions share a task and are distinguished by their numbers."""
    tried = np.arange(24 * partitions, dtype=np.int32)
    _, first = np.unique(spark_hash(tried) % partitions, return_index=True)
    keys = np.arange(partitions, dtype=np.int32)
    keys[: len(first)] = tried[first]
    return keys


def spark_hash(values: np.ndarray) -> np.ndarray:
    """int32 hash that Spark's shuffles take of 32-bit integers: MurmurHash3_x86_32 of 4 bytes, seed 42."""

    def rotated(x: np.ndarray, bits: int) -> np.ndarray:
        return x << np.uint32(bits) | x >> np.uint32(32 - bits)

    word = values.astype(np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
    word = rotated(word, 15) * np.uint32(0x1B873593)
    word = rotated(word ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    word = word ^ np.uint32(4)
    word = (word ^ word >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    word = (word ^ word >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (word ^ word >> np.uint32(16)).view(np.int32)


def _columns(frame: Any, schema: Schema) -> dict[str, tuple[int, str]]:
    """Position and Arrow type of each needed column; DataError where one is missing, occurs twice or has a
    wrong type."""

    names = list(frame.columns)
    wanted = [*dict.fromkeys(source_columns(schema)), *([schema.user] if schema.user else [])]
    places = [names.index(name) for name in wanted if names.count(name) == 1]

    def kinds() -> pa.Schema:
        numbered = frame.toDF(*(f"c{i}" for i in range(len(names))))
        return numbered.select(*(f"c{i}" for i in places)).limit(0).toArrow().schema

    types = dict(zip(places, guarded(kinds).types, strict=True)) if places else {}
    form = pa.schema([(name, types.get(i, pa.null())) for i, name in enumerate(names)])
    part = Part("<spark>", form, lambda columns, user: iter(()))
    at = {name: names.index(name) for name in ingest.checked_columns([part], schema)}
    return {name: (i, str(types[i])) for name, i in at.items()}


def spark(frame: Any, schema: Schema, partitions: int | None = None) -> PartitionedCounter:
    """The engine over a Spark DataFrame (partitions None: two per task that Spark runs at once). The caller
    closes it."""
    if not is_spark(frame):
        raise UsageError(f"engine='spark' needs a Spark DataFrame, got a {type(frame).__name__}")
    return PartitionedCounter(schema, SparkPartitions(frame, schema, partitions))

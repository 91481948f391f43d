"""What counts a run's private rows: the engine that was asked for, opened over the run's source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from ..engines import Counter
    from ..schema import Schema
    from ..tables.table import Table

ENGINES = ("local", "partitioned", "spark")


@dataclass
class Counting:
    """An engine over a run's rows. table: where it holds them in this process. reading: private facts of what
    was read; empty where nothing was."""

    counter: Counter
    table: Table | None
    close: Callable[[], None]
    reading: Mapping[str, int] = field(default_factory=dict)


def engine_for(source: Any, engine: str | None, partitions: int | None, report: bool) -> str:
    """The engine that counts a source: a Spark DataFrame is counted by Spark unless another is asked for.
    UsageError where an engine is unknown or cannot do what is asked."""
    from ..engines import spark
    from ..tables.split import check_partitions

    if engine is None:
        engine = "spark" if spark.is_spark(source) else "local"
    if engine not in ENGINES:
        raise UsageError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    if engine == "spark" and not spark.is_spark(source):
        raise UsageError(f"engine='spark' counts a Spark DataFrame, not a {type(source).__name__}")
    if partitions is not None:
        if engine == "local":
            raise UsageError("partitions= is for engine='partitioned' and engine='spark'")
        (spark.check_partitions if engine == "spark" else check_partitions)(partitions)
    if engine != "local" and report:
        raise UsageError(
            f"report= compares with the truth as one table; with engine={engine!r} call fastdp.evaluate "
            "afterwards"
        )
    return engine


def open_counting(
    source: Any, schema: Schema, engine: str | None, partitions: int | None, threads: int | None
) -> Counting:
    """Reads the source for the engine. Close it when the last count is made."""
    if engine == "spark":
        from ..engines import spark

        counter = spark.spark(source, schema, partitions)
        kept = counter.partitions
        assert isinstance(kept, spark.SparkPartitions)
        return Counting(counter, None, kept.close, _reading(kept.rows, kept.users, kept.dropped, 0))
    if engine == "partitioned":
        from ..engines.partitioned import PartitionedCounter
        from ..engines.processes import ProcessPartitions

        held = ProcessPartitions(source, schema, partitions, threads)
        reading = _reading(held.rows, held.users, held.dropped, held.malformed)
        return Counting(
            PartitionedCounter(schema, held), None, held.close, {} if is_table(source) else reading
        )
    from ..engines.local import local

    if is_table(source):
        return Counting(local(source, threads), source, lambda: None)
    from ..tables.ingest import read

    table = read(source, schema, threads=threads)
    reading = _reading(table.rows, table.users, table._dropped, table._malformed)
    return Counting(local(table, threads), table, table.close, reading)


def _reading(rows: int, users: int, dropped: int, malformed: int) -> dict[str, int]:
    return {"rows": rows, "users": users, "dropped_rows": dropped, "malformed_lines": malformed}


def is_table(source: Any) -> bool:
    from ..tables.table import Table

    return isinstance(source, Table)

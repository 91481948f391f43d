"""Opens the engine that counts a run's private rows over the run's source."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ..engines import Counter, sparkcheck
from ..engines.local import local
from ..engines.sparkcheck import is_spark
from ..errors import UsageError
from ..schema import Schema
from ..tables.ingest import read
from ..tables.table import Table
from .source import is_table
from .spec import RunOptions

if TYPE_CHECKING:
    from ..engines.partitioned import PartitionedCounter
    from ..tables.linked_tables import Links

ENGINES = ("local", "spark")


class OpenCounter(Struct):
    """An engine over a run's rows. table: the rows, where the engine holds them in this process.
    reading: PRIVATE numbers of rows and users that were read; empty if nothing was read."""

    counter: Counter
    table: Table | None
    close: Callable[[], None]
    reading: Mapping[str, int] = field(default_factory=dict)


def engine_for(source: Any, options: RunOptions) -> str:
    """The engine that counts a source: a Spark DataFrame is counted by Spark unless another is
    asked for. UsageError if an engine is unknown or cannot do what is asked."""
    engine = options.engine
    if engine is None:
        engine = "spark" if is_spark(source) else "local"
    if engine not in ENGINES:
        raise UsageError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    if engine == "spark" and not is_spark(source):
        raise UsageError(f"engine='spark' needs a Spark DataFrame, got a {type(source).__name__}")
    if options.partitions is not None:
        if engine != "spark":
            raise UsageError("partitions= needs engine='spark'")
        sparkcheck.check_partitions(options.partitions)
    if engine == "spark" and options.report:
        raise UsageError(
            "report= needs the true rows in one table: call fastdp.evaluate where they fit"
        )
    return engine


def open_counter(source: Any, schema: Schema, options: RunOptions) -> OpenCounter:
    """Reads the source and opens the engine over it. The caller closes the engine after the last
    count."""
    if options.engine == "spark":
        from ..engines import spark

        return _of_spark(spark.spark(source, schema, options.partitions))
    if is_table(source):
        return OpenCounter(local(source, options.threads), source, lambda: None)

    table = read(source, schema, threads=options.threads)
    reading = _reading(table.rows, table.users, table._dropped, table._malformed)
    return OpenCounter(local(table, options.threads), table, table.close, reading)


def open_linked(sources: Mapping[str, Any], links: Links, options: RunOptions) -> list[OpenCounter]:
    """The same of linked tables: an engine over the parents' table and over each child's table."""
    if options.engine == "spark":
        from ..engines import spark

        return [
            _of_spark(counter) for counter in spark.linked_spark(sources, links, options.partitions)
        ]
    from ..tables.linked_tables import read_linked

    tables, numbers = read_linked(sources, links, options.threads)
    return [
        OpenCounter(local(table, options.threads), table, lambda: None, number)
        for table, number in zip(tables, numbers.values())
    ]


def _of_spark(counter: PartitionedCounter) -> OpenCounter:
    kept: Any = counter.partitions
    return OpenCounter(counter, None, kept.close, _reading(kept.rows, kept.users, kept.dropped, 0))


@contextlib.contextmanager
def counter_for(source: Any, schema: Schema, options: RunOptions) -> Iterator[Counter]:
    """A context with an engine over the source, for a few counts; the engine is closed at its
    end."""
    opened = open_counter(source, schema, options)
    try:
        yield opened.counter
    finally:
        opened.close()


def _reading(rows: int, users: int, dropped: int, malformed: int) -> dict[str, int]:
    return {"rows": rows, "users": users, "dropped_rows": dropped, "malformed_lines": malformed}

"""The engine of a database: rows are coded, weighted and counted where they are, and only sums leave."""

from __future__ import annotations

from ..errors import UsageError
from ..schema import Schema
from ..tables.sources.source import Source
from .engine import ENGINES, Engine, EngineOptions, OpenCounter, reading
from .partitioned import PartitionedCounter
from .sql_database import Database, database_of
from .sql_rows import SqlRows, coded


def sql_counter(source: Source, schema: Schema) -> PartitionedCounter:
    """A `Counter` over the rows of a query, in its database."""
    return PartitionedCounter(schema, SqlRows(_database(source), source.given.query, schema))


def _database(source: Source) -> Database:
    database = database_of(source.given.connection)
    if database is None:
        kind = type(source.given.connection).__module__.split(".")[0]
        raise UsageError(
            f"engine='sql' needs a connection of DuckDB, got one of {kind}; use"
            " engine='local' on the same query"
        )
    return database


@ENGINES.add("sql")
class SqlEngine(Engine):
    """A database counts the rows of a query on it."""

    name = "sql"
    counts = "fastdp.sql(connection, query) with a connection of DuckDB"
    holds_rows = False
    links = False

    def check_run(self, source: Source, schema: Schema, numbers: bool) -> None:
        """Names and types of the query's columns decide; no row is read."""
        instead = "use engine='local' on the same query. Nothing was charged"
        if schema.unfinished:
            names = ", ".join(map(repr, schema.unfinished))
            raise UsageError(
                f"engine='sql' does not find private domains ({names}): write them down, or {instead}"
            )
        if numbers:
            raise UsageError(f"engine='sql' does not count numbers=: leave them out, or {instead}")
        database = _database(source)
        coded(database, source.given.query, schema)

    def open(self, source: Source, schema: Schema, options: EngineOptions) -> OpenCounter:
        counter = sql_counter(source, schema)
        rows: SqlRows = counter.partitions  # type: ignore[assignment]
        numbers = reading(rows.rows, rows.users, rows.dropped, 0)
        # Not DuckDB's number of the transaction: it grows with every insert, so it can count rows.
        about = {"name": self.name, "database": rows.dialect.name}
        return OpenCounter(counter, None, counter.close, numbers, about)

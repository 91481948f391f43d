"""The engine of a database: rows are coded, weighted and counted where they are, and only sums leave."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..schema import Schema
from ..tables.sources.source import Source
from .engine import ENGINES, Engine, EngineOptions, OpenCounter, reading_facts
from .partitioned import PartitionedCounter
from .sql_database import DATABASES, Database
from .sql_keys import KeysInDatabase, check_domains
from .sql_rows import SqlRows, coded


def sql_counter(source: Source, schema: Schema) -> PartitionedCounter:
    """A `Counter` over the rows of a query, in its database."""
    return PartitionedCounter(schema, SqlRows(_database(source), source.given.query, schema))


def database_of(connection: Any) -> Database | None:
    """The database behind a connection; None if no engine counts there."""
    return next((kind(connection) for kind in DATABASES if kind.takes(connection)), None)


def _database(source: Source) -> Database:
    database = database_of(source.given.connection)
    if database is None:
        given = type(source.given.connection)
        known = " or ".join(kind.drivers for kind in DATABASES)
        raise UsageError(
            f"engine='sql' needs a connection of {known}, got"
            f" {given.__module__}.{given.__name__}; use engine='local' on the same query"
        )
    return database


@ENGINES.add("sql")
class SqlEngine(Engine):
    """A database counts the rows of a query on it."""

    name = "sql"
    counts = "fastdp.sql(connection, query) with a connection of DuckDB or PostgreSQL"
    holds_rows = False
    links = False

    def check_run(self, source: Source, schema: Schema, numbers: bool) -> None:
        """Names and types of the query's columns decide; no row is read."""
        if numbers:
            raise UsageError(
                "engine='sql' does not count numbers=: leave them out, or use engine='local' on the"
                " same query. Nothing was charged"
            )
        if schema.user_features:
            raise UsageError(
                "engine='sql' does not count features of users: leave out 'features' in the schema's "
                "[user], or use engine='local' on the same query. Nothing was charged"
            )
        database = _database(source)
        query = source.given.query
        try:
            coded(database, query, schema.stand_in())
            if schema.unfinished:
                types, own = database.columns_of(
                    f"SELECT * FROM ({query.strip().rstrip(';')}) AS q"
                )
                check_domains(database, types, own, schema)
        finally:
            database.close()

    def key_source(self, source: Source) -> KeysInDatabase:
        return KeysInDatabase(_database(source), source.given.query)

    def open(self, source: Source, schema: Schema, options: EngineOptions) -> OpenCounter:
        counter = sql_counter(source, schema)
        rows: SqlRows = counter.partitions  # type: ignore[assignment]
        numbers = reading_facts(rows.rows, rows.users, rows.dropped, 0)
        if rows.moment is not None:
            numbers["transaction"] = rows.moment
        about = {"name": self.name, "database": rows.dialect.name}
        return OpenCounter(counter, None, counter.close, numbers, about)

"""Rows in a database as sources: DuckDB relations, and queries on any connection."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ...schema.dialect import Dialect
from .. import parts, sql
from ..parts import Part, Unit, each
from .source import SOURCES, Source, module_of

WIDE = "arrow_large_buffer_size"
"""DuckDB's setting by which texts that it hands over have offsets of 64 bits."""


@SOURCES.add("duckdb")
class DuckdbRelation(Source):
    """A DuckDB relation: a query that DuckDB runs each time it is read."""

    @classmethod
    def takes(cls, given: Any) -> bool:
        return module_of(given) in ("duckdb", "_duckdb") and hasattr(given, "columns")

    def parts(self, dialect: Dialect) -> list[Part]:
        return [of_duckdb(self.given, f"<{module_of(self.given)}.{self.kind}>")]


@SOURCES.add("sql")
class SqlQuery(Source):
    """A query on a connection (`fastdp.sql`), which the database runs each time it is read."""

    engines = ("local", "sql")
    opens_freely = False

    @classmethod
    def takes(cls, given: Any) -> bool:
        return isinstance(given, sql.Query)

    def parts(self, dialect: Dialect) -> list[Part]:
        relation = sql.relation(self.given)
        if relation is None:
            return [sql.open_query(self.given)]
        return [of_duckdb(relation, "<sql>", self.given.connection)]


def of_duckdb(relation: Any, where: str, connection: Any = None) -> Part:
    """The part of a DuckDB relation. Names and types come from an empty result; only the needed
    columns are computed. `connection`: the relation's, whose texts then have offsets of 64 bits: with 32,
    DuckDB ends the reading where a batch has 2 GiB of one column."""
    names = list(relation.columns)
    quoted = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]
    schema = relation.limit(0).to_arrow_table().schema

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        wanted = relation.project(", ".join(quoted[names.index(name)] for name in columns))
        with _wide_offsets(connection):
            reader = wanted.to_arrow_reader(parts.BATCH_ROWS)
            try:
                yield from each(reader)
            finally:  # a setting is changed only while no result is open
                reader.close()

    return Part(where, schema, units)


@contextlib.contextmanager
def _wide_offsets(connection: Any) -> Iterator[None]:
    """Change a setting of the connection for as long as rows are read, where it may be changed."""
    before = None
    if connection is not None:
        with contextlib.suppress(Exception):  # DuckDB's own class; a locked configuration, say
            (row,) = connection.execute(f"SELECT current_setting('{WIDE}')").fetchall()
            connection.execute(f"SET {WIDE} = true")
            before = row[0]
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(Exception):  # as above
                connection.execute(f"SET {WIDE} = {str(before).lower()}")

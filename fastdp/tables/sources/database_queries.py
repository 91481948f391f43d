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
VIEW = "fastdp_settings"
"""The name under which statements of `_run_beside` could read the relation; none of them does."""


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
        return [of_duckdb(relation, "<sql>")]


def of_duckdb(relation: Any, where: str) -> Part:
    """The part of a DuckDB relation. Names and types come from an empty result; only the needed
    columns are computed. Texts have offsets of 64 bits: with 32, DuckDB ends the reading where a batch has
    2 GiB of one column."""
    names = list(relation.columns)
    quoted = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]
    schema = relation.limit(0).to_arrow_table().schema

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        wanted = relation.project(", ".join(quoted[names.index(name)] for name in columns))
        with _wide_offsets(relation):
            reader = wanted.to_arrow_reader(parts.BATCH_ROWS)
            try:
                yield from each(reader)
            finally:  # a setting is changed only while no result is open
                reader.close()

    return Part(where, schema, units)


@contextlib.contextmanager
def _wide_offsets(relation: Any) -> Iterator[None]:
    """Change a setting of the relation's connection for as long as rows are read, where it may be
    changed."""
    before = None
    with contextlib.suppress(Exception):  # DuckDB's own class; a locked configuration, say
        (row,) = _run_beside(relation, f"SELECT current_setting('{WIDE}')").fetchall()
        _run_beside(relation, f"SET {WIDE} = true")
        before = row[0]
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(Exception):  # as above
                _run_beside(relation, f"SET {WIDE} = {str(before).lower()}")
                _run_beside(relation, f"DROP VIEW IF EXISTS {VIEW}")  # DuckDB 1 leaves it


def _run_beside(relation: Any, statement: str) -> Any:
    """Run a statement on the relation's connection, which a relation does not name. The relation itself
    is not run."""
    return relation.query(VIEW, statement)

"""Rows in a database as sources: DuckDB relations, and queries on any connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...schema.dialect import Dialect
from .. import parts, sql
from ..parts import Part, Unit, each
from .source import SOURCES, Source, module_of


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
    columns are computed."""
    names = list(relation.columns)
    quoted = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]
    schema = relation.limit(0).to_arrow_table().schema

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        wanted = relation.project(", ".join(quoted[names.index(name)] for name in columns))
        return each(wanted.to_arrow_reader(parts.BATCH_ROWS))

    return Part(where, schema, units)

"""Connections to databases: statements, results as integers, temporary tables.

A module of this folder defines a subclass of `Database` and registers it with `@DATABASES.add(NAME)`;
`engine="sql"` then counts on connections that it takes.

What a database says in an error can quote rows, so errors name the class alone. Temporary tables
belong to the session: they are dropped at the end, and a database drops them when a session ends by
itself or is killed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from .._util.arrow import of_numpy
from .._util.lazy import pa
from .._util.registries import Registry
from ..errors import DataError
from .sql_dialects import Dialect, DuckDb

Result = TypeVar("Result")
HIDDEN = "its message may quote private values and is not shown"


class Database:
    """A connection. `drivers`: which ones it is for, in words; `travelled`: bytes of results that left
    the database; `statements`: how many were run. Names of tables begin with `prefix`, which no other
    run has."""

    dialect: Dialect
    drivers: ClassVar[str] = ""

    def __init__(self, connection: Any):
        self.connection = connection
        self.prefix = f"fastdp_{secrets.token_hex(6)}_"
        self.travelled = 0
        self.statements = 0
        self._made: list[str] = []

    # --- what a kind of connection has to say

    @classmethod
    def takes(cls, connection: Any) -> bool:
        """Whether it is a connection of this kind."""
        raise NotImplementedError

    def _execute(self, statement: str) -> None:
        raise NotImplementedError

    def _fetch(self, statement: str) -> pa.Table:
        raise NotImplementedError

    def _insert(self, table: str, columns: pa.Table) -> None:
        """Makes a temporary table of a few columns."""
        raise NotImplementedError

    def columns_of(self, query: str) -> tuple[pa.Schema, dict[str, str]]:
        """Names and Arrow types of a query's columns, and the database's types; no row is read."""
        raise NotImplementedError

    def moment(self) -> int | None:
        """PRIVATE: the database's number of the present moment, for the data's owner; None if it
        tells none. Such numbers grow with every write, also of one row, so they can count rows."""
        return None

    # --- what all have

    def _guarded(self, ask: Callable[[], Result]) -> Result:
        self.statements += 1
        try:
            return ask()
        except (MemoryError, DataError):
            raise
        except Exception as error:  # classes of drivers have no common base
            failed = f"<sql>: {self.dialect.name} could not run a statement"
            raise DataError(f"{failed} ({type(error).__name__}); {HIDDEN}") from None

    def run(self, statement: str) -> None:
        """Run a statement that returns nothing."""
        self._guarded(lambda: self._execute(statement))

    def ask(self, statement: str) -> list[np.ndarray]:
        """The columns of a result, as int64."""
        made = self._guarded(lambda: self._fetch(statement))
        self.travelled += made.nbytes
        return [_int64(column) for column in made.columns]

    def ask_values(self, statement: str) -> tuple[list[Any], list[np.ndarray]]:
        """The first column as Python's values, bytes or whole numbers, and the others as int64."""
        made = self._guarded(lambda: self._fetch(statement))
        self.travelled += made.nbytes
        first, *others = made.columns
        return first.to_pylist(), [_int64(column) for column in others]

    def make(self, name: str, select: str) -> str:
        """A temporary table of a select's rows."""
        table = self.prefix + name
        self.run(f"{self.dialect.temporary} {table} AS {select}")
        self._made.append(table)
        return table

    def load(self, name: str, keys: Any, codes: Sequence[np.ndarray]) -> str:
        """A temporary table (k, v0, v1, ...) of public facts."""
        table = self.prefix + name
        columns = {
            "k": keys if isinstance(keys, pa.Array) else of_numpy(np.asarray(keys, np.int64))
        }
        for i, column in enumerate(codes):
            columns[f"v{i}"] = of_numpy(np.asarray(column, np.int64))
        made = pa.table(columns)
        self._guarded(lambda: self._insert(table, made))
        self._made.append(table)
        return table

    def drop(self, table: str) -> None:
        """Remove a temporary table."""
        self.run(f"DROP TABLE {table}")
        self._made.remove(table)

    def close(self) -> None:
        """Remove the temporary tables. A connection that is lost has removed them."""
        for table in list(reversed(self._made)):
            try:
                self.drop(table)
            except DataError:
                self._made.clear()
                return


DATABASES: Registry[type[Database]] = Registry("database", __package__ or "")
"""The databases that count, by name."""


@DATABASES.add("duckdb")
class DuckDbConnection(Database):
    """A connection of DuckDB. One `CREATE TABLE AS` reads one moment of the database."""

    dialect = DuckDb()
    drivers = "DuckDB"

    @classmethod
    def takes(cls, connection: Any) -> bool:
        return module_of(connection) in ("duckdb", "_duckdb")

    def _execute(self, statement: str) -> None:
        self.connection.execute(statement)

    def _fetch(self, statement: str) -> pa.Table:
        return self.connection.sql(statement).to_arrow_table()

    def _insert(self, table: str, columns: pa.Table) -> None:
        view = f"{table}_arrow"
        self.connection.register(view, columns)
        try:
            self.connection.execute(f"{self.dialect.temporary} {table} AS SELECT * FROM {view}")
        finally:
            self.connection.unregister(view)

    def columns_of(self, query: str) -> tuple[pa.Schema, dict[str, str]]:
        def ask() -> tuple[pa.Schema, dict[str, str]]:
            relation = self.connection.sql(query)
            own = dict(zip(relation.columns, map(str, relation.types)))
            return relation.limit(0).to_arrow_table().schema, own

        return self._guarded(ask)

    def moment(self) -> int | None:
        (number,) = self.ask("SELECT txid_current()")
        return int(number[0])


def module_of(connection: Any) -> str:
    """The package that a connection comes from."""
    return type(connection).__module__.split(".")[0]


def _int64(column: pa.ChunkedArray) -> np.ndarray:
    """Whole numbers of a result; `np.asarray` of an Arrow array would import pandas."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], whole.type)
    whole = whole if pa.types.is_int64(whole.type) else whole.cast(pa.int64())
    return np.frombuffer(whole.buffers()[1] or b"", np.int64, len(whole), whole.offset * 8)

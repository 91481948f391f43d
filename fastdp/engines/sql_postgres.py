"""Connections to PostgreSQL, by psycopg or ADBC.

Where the caller's connection is inside a transaction, a savepoint precedes the first statement. After
an error the transaction returns to it, so that the connection can be used again and nothing of the
caller's is lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._util.arrow import of_numpy
from .._util.lazy import pa
from ..errors import DataError
from .sql_database import DATABASES, Database, module_of
from .sql_dialects import Postgres

MOST_PRECISION = 38
"""The most digits of a NUMERIC that are read."""


@DATABASES.add("postgres")
class PostgresConnection(Database):
    """A connection of psycopg or ADBC. One `CREATE TABLE AS` reads one moment of the database."""

    dialect = Postgres()
    drivers = "PostgreSQL (psycopg or ADBC)"

    @classmethod
    def takes(cls, connection: Any) -> bool:
        module = module_of(connection)
        if module == "psycopg":
            return not hasattr(connection, "fetchmany")  # a cursor has rows of one query
        if module != "adbc_driver_manager" or not hasattr(connection, "adbc_get_info"):
            return False
        return str(connection.adbc_get_info().get("vendor_name", "")).startswith("PostgreSQL")

    def __init__(self, connection: Any):
        super().__init__(connection)
        self._savepoint = ""
        self._failed = False

    def _execute(self, statement: str) -> None:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement)
        except BaseException:  # also an interrupt leaves the transaction aborted
            self._failed = True
            raise

    def _fetch(self, statement: str) -> pa.Table:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement)
                if hasattr(cursor, "fetch_arrow_table"):
                    return cursor.fetch_arrow_table()
                rows = cursor.fetchall()
                width = len(cursor.description)
        except BaseException:  # as above
            self._failed = True
            raise
        columns = list(zip(*rows, strict=True)) or [()] * width
        arrays = {}
        for i, column in enumerate(columns):
            texts = len(column) > 0 and isinstance(column[0], bytes)
            arrays[f"c{i}"] = pa.array(column, pa.binary()) if texts else _whole(column)
        return pa.table(arrays)

    def _insert(self, table: str, columns: pa.Table) -> None:
        """By literal arrays, which are read much faster than rows of VALUES."""
        names = columns.column_names
        arrays = []
        values = []
        for name, column in zip(names, columns.columns, strict=True):
            if pa.types.is_integer(column.type):
                arrays.append(f"CAST('{{{','.join(map(str, column.to_pylist()))}}}' AS BIGINT[])")
                values.append(name)
            else:
                # Digits, so that no setting of the server reads a backslash in another way.
                digits = ",".join(f'"{value.hex()}"' for value in column.to_pylist())
                arrays.append(f"CAST('{{{digits}}}' AS TEXT[])")
                values.append(f"decode({name}, 'hex') AS {name}")
        source = f"unnest({', '.join(arrays)}) AS listed({', '.join(names)})"
        select = f"SELECT {', '.join(values)} FROM {source}"
        self._execute(f"{self.dialect.temporary} {table} AS {select}")
        self._execute(f"ANALYZE {table}")

    def make(self, name: str, select: str) -> str:
        """As `Database.make`; the server collects no statistics of temporary tables by itself."""
        table = super().make(name, select)
        self.run(f"ANALYZE {table}")
        return table

    def columns_of(self, query: str) -> tuple[pa.Schema, dict[str, str]]:
        """By an empty temporary table, whose columns the catalogue describes alike for all drivers.
        It also shows that the query and temporary tables are permitted."""
        self._begin()
        self._check_server()
        table = self.make("columns", f"{query} LIMIT 0")
        found = self._guarded(lambda: self._catalogue(table))
        self.drop(table)
        fields = []
        own = {}
        for name, spelled, category in found:
            fields.append((name, _arrow_type(spelled, category)))
            own[name] = spelled.upper()
        return pa.schema(fields), own

    def moment(self) -> int | None:
        (number,) = self.ask("SELECT txid_snapshot_xmax(txid_current_snapshot())")
        return int(number[0])

    def _begin(self) -> None:
        name = f"{self.prefix}start"
        try:
            self.run(f"SAVEPOINT {name}")
            self._savepoint = name
        except DataError:  # the connection commits every statement by itself
            self._failed = False

    def _check_server(self) -> None:
        """DataError where temporary tables cannot be made, or texts are not UTF-8."""
        setting = "CASE WHEN current_setting('{}') = '{}' THEN 1 ELSE 0 END"
        may = "CASE WHEN has_database_privilege(current_database(), 'TEMPORARY') THEN 1 ELSE 0 END"
        writes = setting.format("transaction_read_only", "off")
        utf8 = setting.format("server_encoding", "UTF8")
        permitted, writable, readable = (
            int(column[0]) for column in self.ask(f"SELECT {may}, {writes}, {utf8}")
        )
        instead = "use engine='local' on the same query"
        if not permitted:
            raise DataError(
                "<sql>: the role may not make temporary tables: GRANT TEMPORARY ON DATABASE ... TO"
                f" ..., or {instead}"
            )
        if not writable:
            raise DataError(
                "<sql>: the transaction is read-only, so that no temporary table can be made (as on"
                f" a standby): connect to a server that permits it, or {instead}"
            )
        if not readable:
            raise DataError(
                f"<sql>: engine='sql' needs a PostgreSQL database whose encoding is UTF8; {instead}"
            )

    def _catalogue(self, table: str) -> list[tuple[str, str, str]]:
        """(name, type, category of the type) of each column; domains by what they are made of."""
        statement = (
            "WITH RECURSIVE own AS ("
            " SELECT attnum, attname, atttypid AS kind, atttypmod AS size FROM pg_attribute"
            f" WHERE attrelid = '{table}'::regclass AND attnum > 0"
            " UNION ALL SELECT attnum, attname, typbasetype,"
            " CASE WHEN size < 0 THEN typtypmod ELSE size END"
            " FROM own JOIN pg_type ON pg_type.oid = kind WHERE typtype = 'd')"
            " SELECT CAST(attname AS TEXT), format_type(kind, size), CAST(typtype AS TEXT)"
            " FROM own JOIN pg_type ON pg_type.oid = kind WHERE typtype <> 'd' ORDER BY attnum"
        )
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            rows: Sequence[tuple[str, str, str]] = cursor.fetchall()
        return [(name, spelled, category) for name, spelled, category in rows]

    def close(self) -> None:
        """Remove the temporary tables, or go back to the moment before them."""
        name = self._savepoint
        self._savepoint = ""
        if not name or not self._failed:
            super().close()
        if name:
            try:
                if self._failed:
                    self.run(f"ROLLBACK TO SAVEPOINT {name}")
                self.run(f"RELEASE SAVEPOINT {name}")
            except DataError:  # the connection is lost, and with it the tables
                pass
            self._made.clear()


def _whole(column: Sequence[int]) -> pa.Array:
    return of_numpy(np.fromiter(column, np.int64, len(column)))


PLAIN_TYPES = {
    "smallint": "int16",
    "integer": "int32",
    "bigint": "int64",
    "real": "float32",
    "double precision": "float64",
    "numeric": "float64",
    "boolean": "bool_",
    "date": "date32",
    "bytea": "binary",
    "text": "string",
    "character varying": "string",
    "uuid": "string",
    "citext": "string",
    "name": "string",
}
"""What Arrow calls a type. A NUMERIC without digits is read as the nearest float, by columns of
floats alone (`sql_codes`)."""


def _arrow_type(spelled: str, category: str) -> pa.DataType:
    """A type that no column reads is a struct."""
    if category == "e":
        return pa.string()
    if spelled in PLAIN_TYPES:
        return getattr(pa, PLAIN_TYPES[spelled])()
    if re.fullmatch(r"character( varying)?\([0-9]+\)", spelled):
        return pa.string()
    if number := re.fullmatch(r"numeric\(([0-9]+),(-?[0-9]+)\)", spelled):
        precision, scale = map(int, number.groups())
        fits = precision <= MOST_PRECISION and 0 <= scale <= precision
        return pa.decimal128(precision, scale) if fits else pa.struct([])
    if moment := re.fullmatch(r"timestamp(?:\([0-6]\))? (with|without) time zone", spelled):
        return pa.timestamp("us", tz="UTC" if moment[1] == "with" else None)
    return pa.struct([])

"""Statements in dialects that have no server here: a parser by other authors reads every one of them.
That a statement parses does not say that it counts right; these dialects are not connected."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from fastdp import user_views, userkeys as keys
from fastdp.engines.partitioned import PartitionedCounter
from fastdp.engines.sql_codes import coded_query
from fastdp.engines.sql_database import Database
from fastdp.engines.sql_dialects import Postgres
from fastdp.engines.sql_keys import KeysInDatabase
from fastdp.engines.sql_other_dialects import UNTESTED
from fastdp.engines.sql_rows import SqlRows
from fastdp.errors import DataError

from . import coding_cases
from .conformance import SIZES, coded_schema, facts_of_users, schema_with

sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is in the extra test-all")


class Parsed(Database):
    """A database that parses statements and answers each with a row of ones."""

    def __init__(self, dialect, types):
        super().__init__(None)
        self.dialect = dialect
        self.types = types
        self.parsed = []

    def _execute(self, statement):
        name = self.dialect.name.lower()
        made = sqlglot.parse(statement, read="postgres" if name == "postgresql" else name)
        assert len(made) == 1 and not isinstance(made[0], sqlglot.exp.Command), statement
        self.parsed.append(made[0])

    def _fetch(self, statement):
        self._execute(statement)
        first = next(self.parsed[-1].find_all(sqlglot.exp.Select))
        return pa.table({f"c{i}": [1] for i in range(len(first.selects))})

    def _insert(self, table, columns):
        pass

    def columns_of(self, query):
        return self.types, own_types(self.types)


def own_types(types):
    decimals = (field.name for field in types if pa.types.is_decimal(field.type))
    return {name: "DECIMAL(9, 2)" for name in decimals}


def asked(database):
    """Everything that the engine asks: marginals, every user key and view."""
    with PartitionedCounter(
        schema_with("who", "own"), SqlRows(database, "q", schema_with("who", "own"))
    ) as counter:
        counter.marginals([("a", "b"), ("c",)], 4, recode={"b": np.arange(300) // 40})
        for key in (
            keys.MostCommon(("a", "c")),
            keys.Groups(("a", "c"), t_max=2),
            keys.Agreement((("a",), ("c", "b"), ("a", 2)), (2, 3)),
            keys.Disagreement(("c", "a")),
            keys.Succession(("c", "a"), (("a", "a"), ("b", "b")), 3, 2),
        ):
            with suppress(ZeroDivisionError):  # a user with one row: the answers are ones
                counter.user_histogram(key, 1)
        for view in (
            user_views.UserTable((1, 2), columns=("a", "b")),
            facts_of_users(),
            user_views.RowGroups((1, 2)),
        ):
            counter.marginals([("rows per user",)], 1, view=view)


@pytest.mark.parametrize("dialect", [Postgres, *UNTESTED], ids=lambda kind: kind.name)
def test_every_statement_parses_in_every_dialect(dialect):
    types = pa.schema([*((name, pa.int64()) for name in SIZES), ("who", pa.string())])
    database = Parsed(dialect(), types)
    asked(database)
    for name, dtype, places in (("who", "string", None), ("a", "int64", 2)):
        with suppress(AttributeError):  # the answers are ones, not texts
            keyed = KeysInDatabase(database, "q")
            keyed.users_by_value(schema_with("who"), name, dtype, 2, (), places)
    sources = coding_cases.sources()
    for kind in coding_cases.QUICK:
        types = pa.schema(
            [*((n, sources[kind].type) for n in coding_cases.COLUMNS), ("who", pa.string())]
        )
        names = [name for name in coding_cases.COLUMNS if readable(name, types, dialect())]
        assert len(names) > (0 if kind == "string" else 5)
        schema = coded_schema(names, coding_cases.POLICIES[0])
        SqlRows(Parsed(dialect(), types), "q", schema)


def readable(name, types, dialect):
    schema = coded_schema([name], coding_cases.POLICIES[0])
    try:
        coded_query(schema, types, own_types(types), dialect, "")
    except DataError:
        return False
    return True


def test_a_statement_that_does_not_parse_is_found():
    class Broken(Postgres):
        def divided(self, x, by):
            return f"(({x}) DIVIDED {by})"

    with pytest.raises(DataError, match="ParseError"):
        asked(
            Parsed(Broken(), pa.schema([*((n, pa.int64()) for n in SIZES), ("who", pa.string())]))
        )

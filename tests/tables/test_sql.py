"""Queries as sources: DuckDB, ADBC, any DB-API driver; bounded memory, rows that cannot harm
others."""

import datetime
import decimal
import sqlite3
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.cli.app import main
from fastdp.engines.local import local
from fastdp.errors import DataError, UsageError
from fastdp.tables import parts, sql
from tests.builders import schema_with_users

SIZES = {"a": 5, "b": 40}
SCHEMA = fastdp.Schema.from_domain(SIZES, user="who")
BOUNDED = schema_with_users(SIZES, "who", max_rows=60)
QUERY = 'select "who", a, b, 1 as unused from trips'


def rows(count=3000):
    rng = np.random.default_rng(2)
    names = np.array(["Ann", "ann", "ANN ", "b\u00f6", *(f"n{i}" for i in range(50))])
    return pa.table(
        {
            "a": rng.integers(0, 5, count),
            "b": rng.integers(0, 40, count),
            "who": names[rng.integers(0, 54, count)],
        }
    )


def sqlite(path=":memory:", table=None):
    table = rows() if table is None else table
    connection = sqlite3.connect(path)
    connection.execute('create table trips ("who" text, a integer, b integer)')
    connection.executemany(
        "insert into trips values (?, ?, ?)",
        zip(*(table[n].to_pylist() for n in ("who", "a", "b")), strict=True),
    )
    connection.commit()
    return connection


def counts(source, threads=2):
    return local(fastdp.read(source, SCHEMA, threads=threads), 1).marginals([("a", "b")], 3)[
        "a", "b"
    ]


def test_every_driver_gives_the_rows_of_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "BATCH_ROWS", 512)
    want = counts(rows())
    connection = sqlite(tmp_path / "trips.db")
    source = fastdp.sql(connection, QUERY)
    assert np.array_equal(counts(source), want) and np.array_equal(counts(source, 1), want)
    assert np.array_equal(counts(fastdp.sql(connection.cursor(), QUERY)), want)
    duckdb = pytest.importorskip("duckdb")
    database = duckdb.connect()
    database.register("source", rows())
    database.execute("create table trips as select * from source")
    source = fastdp.sql(database, QUERY)
    assert np.array_equal(counts(source), want) and np.array_equal(counts(source), want)


def test_a_query_over_adbc_is_read_in_batches(tmp_path):
    adbc = pytest.importorskip("adbc_driver_sqlite.dbapi")
    sqlite(tmp_path / "trips.db").close()
    with adbc.connect(str(tmp_path / "trips.db")) as connection:
        assert np.array_equal(counts(fastdp.sql(connection, QUERY)), counts(rows()))


def test_one_row_of_another_type_changes_no_other():
    """SQLite's columns take anything."""
    odd = rows(200)
    connection = sqlite(table=odd)
    connection.execute(
        "insert into trips values (7, 'no number', 1), (x'ff', 2, 3.0), (null, 1, 1)"
    )
    more = fastdp.read(fastdp.sql(connection, QUERY), SCHEMA, threads=1)
    assert np.array_equal(more.codes["a"][:200], odd["a"].to_numpy())
    assert more.rows == 201  # what is no number is null; null users and null codes are dropped


def test_values_are_written_as_in_a_text_file():
    noon = datetime.datetime(2020, 5, 1, 12, 30, 1, 500)
    numbers = [(7, b"7"), (True, b"true"), (0.1, b"0.1"), (decimal.Decimal("1E+3"), b"1000")]
    times = [(noon, b"2020-05-01T12:30:01.000500"), (noon.date(), b"2020-05-01")]
    texts = [("b\u00f6", "b\u00f6".encode()), (b"\xff", b"\xff"), (None, None)]
    for value, written in (*numbers, *times, *texts):
        assert sql.text(value) == written


def test_what_cannot_be_a_query_is_refused():
    with pytest.raises(UsageError, match="not a supported connection"):
        fastdp.sql("postgresql://somebody:secret@host", "select 1")
    with pytest.raises(UsageError, match="query as a text"):
        fastdp.sql(sqlite3.connect(":memory:"), " ")
    connection = sqlite()
    with pytest.raises(DataError, match="returns no rows"):
        fastdp.read(fastdp.sql(connection, "create table other (x)"), SCHEMA)
    with pytest.raises(DataError, match=r"refused the query \(OperationalError\); run the query"):
        fastdp.read(fastdp.sql(connection, "select who from nowhere"), SCHEMA)
    with pytest.raises(DataError, match="'b' is missing"):
        fastdp.read(fastdp.sql(connection, "select who, a from trips"), SCHEMA)
    with pytest.raises(DataError, match="'a' occurs 2 times"):
        fastdp.read(fastdp.sql(connection, "select who, a, a, b from trips"), SCHEMA)
    assert "secret" not in repr(fastdp.sql(connection, "select 1"))


def command(tmp_path, name, *more):
    BOUNDED.save(tmp_path / "trips.toml")
    fixed = ["--seed", "1", "--sample-seed", "2", "--quiet", "--out", str(tmp_path / name)]
    budget = ("-m", "mst", "-e", "1", "-d", "1e-6", "--clip", "3")
    main(["synth", *budget, "-s", str(tmp_path / "trips.toml"), *fixed, *more])


def test_a_query_that_duckdb_refuses_is_not_called_a_failure_of_reading():
    duckdb = pytest.importorskip("duckdb")
    schema = fastdp.Schema.from_domain({"a": 2})
    for query in ("selct 1 as a", "select a from nowhere"):
        with pytest.raises(DataError, match=r"refused the query \((Parser|Catalog)Exception\)"):
            fastdp.read(fastdp.sql(duckdb.connect(), query), schema)


def test_duckdb_is_opened_by_its_uri_for_reading_alone(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute("create table trips as select 1 as a, 2 as b, 'x' as who")
    monkeypatch.setenv(sql.URI, f"duckdb:///{tmp_path}/t.duckdb")
    connection = sql.connect()
    assert fastdp.read(fastdp.sql(connection, "select * from trips"), SCHEMA).rows == 1
    with pytest.raises(duckdb.Error):
        connection.execute("create table other (x int)")


def test_a_command_that_used_duckdb_ends_without_a_word():
    """DuckDB complains where its objects are still there when the process ends."""
    pytest.importorskip("duckdb")
    code = (
        "import duckdb, sys; from fastdp.__main__ import main; sys.argv = ['fastdp', '--version']"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; main()"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout and not done.stderr


def test_a_database_that_cannot_be_opened_is_refused_without_its_uri(tmp_path, monkeypatch):
    (tmp_path / "Erika.db").mkdir()
    (tmp_path / "Erika.duck").write_bytes(b"no database" * 1000)
    kinds = {"sqlite:///{}/Erika.db": "OperationalError"}
    if find_spec("duckdb") is not None:
        kinds["duckdb:///{}/Erika.duck"] = "Exception"
    for uri, kind in kinds.items():
        with pytest.raises(DataError, match=rf"^FASTDP_SQL_URI: cannot connect \(\w*{kind}\)$"):
            sql.connect(uri.format(tmp_path))
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(UsageError) as caught:
        sql.connect("postgresql://Erika:secret@host/db")
    assert (
        str(caught.value) == "FASTDP_SQL_URI: postgresql needs the package 'adbc_driver_postgresql'"
    )

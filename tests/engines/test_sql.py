"""The engine of a database: conformance over DuckDB, and what a database could do differently."""

import json
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp import userkeys
from fastdp.engines.local import local
from fastdp.engines.sql_engine import SqlEngine, sql_counter
from fastdp.errors import DataError, UsageError
from fastdp.tables.sources.source import source_of
from tests.tiers import slow_cases

from ..builders import open_ledger, schema_with_users
from . import coding_cases
from .conformance import check, check_codes, check_keys

duckdb = pytest.importorskip("duckdb")


def left_over(database):
    named = database.execute("SELECT table_name FROM information_schema.tables").fetchall()
    return [name for (name,) in named if name.startswith("fastdp_")]


@contextmanager
def in_duckdb(source, schema):
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("source", source)
        database.execute("CREATE TABLE trips AS SELECT * FROM source")
        query = source_of(fastdp.sql(database, "select * from trips"))
        with sql_counter(query, schema) as counter:
            yield counter
        assert not left_over(database)


def counted(case):
    """Floats are refused as ids: no two databases write them alike."""
    return "zeros" not in case.name


QUICK_CASES = (
    "texts that differ in case, blanks and accents",
    "null ids and users with one row, each a user",
    "no rows",
)


@pytest.mark.parametrize("quick", [True, *slow_cases(False)])
def test_duckdb_counts_as_every_engine_must(quick):
    check(in_duckdb, lambda case: case.name in QUICK_CASES if quick else counted(case))


@contextmanager
def keys_in_duckdb(source):
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("source", source)
        database.execute("CREATE TABLE trips AS SELECT * FROM source")
        yield SqlEngine().key_source(source_of(fastdp.sql(database, "select * from trips;")))
        assert not left_over(database)


def test_users_by_value_are_those_of_the_rows():
    check_keys(keys_in_duckdb)


WORDS = {"texts"}
REFUSED = {
    **{f"decimal128({n})": WORDS for n in ("4, 1", "9, 2", "18, 4", "38, 10", "38, 0")},
    "bool": {"digits", "prices"},
    **{f"timestamp[{unit}]": WORDS | {"zoned"} for unit in ("s", "ms", "us", "ns")},
    "timestamp[us, UTC]": set(coding_cases.TIMELY) - {"zoned"} | WORDS,
    "date32": WORDS | {"zoned"},
    **{kind: set(coding_cases.COLUMNS) - WORDS for kind in ("string", "binary", "dictionary")},
}
"""Columns that DuckDB does not encode from a type: numbers and times that are texts, and the like."""


@pytest.mark.parametrize(
    "kinds", [coding_cases.QUICK, pytest.param(None, marks=pytest.mark.slow)], ids=["quick", "all"]
)
def test_codes_are_those_of_the_local_engine(kinds):
    """No value raises; what is refused is refused by its type."""
    last = None
    with duckdb.connect(config={"threads": 1}) as database:

        @contextmanager
        def one_database(source, schema):
            nonlocal last
            if source is not last:
                database.register("source", source)
                database.execute("CREATE OR REPLACE TABLE trips AS SELECT * FROM source")
                last = source
            with sql_counter(source_of(fastdp.sql(database, "from trips")), schema) as counter:
                yield counter

        wanted = {k: names for k, names in REFUSED.items() if kinds is None or k in kinds}
        assert check_codes(one_database, kinds) == wanted


SCHEMA = fastdp.Schema.from_domain({"a": 3}, user="who")


def people(database, rows, kind="VARCHAR"):
    database.execute(f'CREATE TABLE people ("who" {kind}, a INTEGER)')
    database.executemany("INSERT INTO people VALUES (?, ?)", rows)
    return source_of(fastdp.sql(database, "select * from people;"))


def test_a_collation_merges_no_users():
    """NOCASE would make one user of Ann and ann, and each would have the other's weight."""
    with duckdb.connect() as database:
        rows = [("Ann", 0), ("ann", 1), ("ann", 1), (None, 2), ("\\x61nn", 2), ("ann ", 2)]
        source = people(database, rows, "VARCHAR COLLATE NOCASE")
        assert len(database.execute('SELECT "who" FROM people GROUP BY "who"').fetchall()) == 4
        want = local(fastdp.read(source, SCHEMA)).marginals([("a",)], 1)["a",]
        with sql_counter(source, SCHEMA) as counter:
            assert counter.partitions.users == 4
            assert np.array_equal(counter.marginals([("a",)], 1)["a",], want)


def test_rows_and_rows_per_user_are_of_one_moment():
    """Rows that others add between two counts would have the weights of fewer rows."""
    with duckdb.connect() as database:
        source = people(database, [("x", 0), ("x", 1), ("y", 2)])
        with sql_counter(source, SCHEMA) as counter:
            before = counter.marginals([("a",)], 1)["a",]
            database.executemany("INSERT INTO people VALUES (?, ?)", [("x", 0)] * 50)
            assert np.array_equal(counter.marginals([("a",)], 1)["a",], before)
            assert np.array_equal(counter.marginals([("a",)], 2)["a",], [1 << 20] * 3)
            told = counter.user_histogram(userkeys.RowsPerUser((1, 2, 3)), 1)
            assert told.tolist() == [1, 1, 0]


def test_ids_stay_in_the_database(tmp_path):
    """No table that counts holds an id, and no statement's result has one. All tables are of the
    session: a process that is killed leaves none in the file."""
    with duckdb.connect(tmp_path / "warehouse.duckdb") as database:
        source = people(database, [("secret", 0), ("secret", 1), ("other", 1)])
        with sql_counter(source, SCHEMA) as counter:
            for table in left_over(database):
                text = str(database.execute(f"SELECT * FROM {table}").fetchall())
                assert "secret" not in text and "who" not in text
            made = (
                "SELECT database_name, temporary FROM duckdb_tables() WHERE table_name ^@ 'fastdp_'"
            )
            assert set(database.execute(made).fetchall()) == {("temp", True)}
            counter.user_histogram(userkeys.MostCommon(("a",)), 1)
            assert counter.partitions.database.travelled < 1000


def test_an_error_of_the_database_quotes_no_row():
    with duckdb.connect() as database:
        database.execute("CREATE TABLE t AS SELECT 'secret' AS who, 1 AS a")
        query = "select who, cast(who as integer) as a from t"
        with pytest.raises(DataError) as caught:
            sql_counter(source_of(fastdp.sql(database, query)), SCHEMA)
        assert "secret" not in str(caught.value) and caught.value.__cause__ is None
        assert not left_over(database)


def trips(database, rows):
    rng = np.random.default_rng(1)
    names = [f"n{i}" for i in (rng.random(rows) ** 2 * 150).astype(int)]
    columns = {n: pa.array((rng.random(rows) ** 2 * size).astype(int)) for n, size in SIZES.items()}
    database.register("made", pa.table({"who": names, **columns}))
    database.execute("CREATE TABLE trips AS SELECT * FROM made")
    return fastdp.sql(database, "select * from trips")


SIZES = {"a": 3, "b": 8, "c": 5}


@pytest.mark.parametrize("mechanism", [*slow_cases("mst"), "adagrid"])
def test_whole_runs_write_the_same_bytes(tmp_path, mechanism):
    """Every released file but the statement, which names the engine and its database, and not the
    number of the transaction: where each row was inserted by itself, that number counts rows."""
    schema = schema_with_users(SIZES, "who", max_rows=60)
    with duckdb.connect() as database:
        source = trips(database, 3000)
        for engine in ("local", "sql"):
            options = {"clip": 3, "seed": 1, "sample_seed": 2, "engine": engine}
            out = tmp_path / engine
            run = fastdp.synthesize(
                source, mechanism, 2.0, 1e-6, schema=schema, out=out, progress=False, **options
            )
        about = run.privacy["mechanism"]["engine"]
        assert about == {"name": "sql", "database": "DuckDB"}
        assert "transaction" in json.loads((tmp_path / "sql.private/reading.json").read_text())
        assert not left_over(database)
    written = {path.relative_to(tmp_path / "sql") for path in (tmp_path / "sql").rglob("*")}
    assert written == {p.relative_to(tmp_path / "local") for p in (tmp_path / "local").rglob("*")}
    assert any(path.suffix == ".parquet" for path in written)
    for path in written:
        if path.name != "privacy.json" and (tmp_path / "sql" / path).is_file():
            same = (tmp_path / "sql" / path).read_bytes() == (
                tmp_path / "local" / path
            ).read_bytes()
            assert same, path
    fastdp.verify(tmp_path / "sql")


def private_rows(many):
    rng = np.random.default_rng(3)
    quarters = rng.integers(0, 300 * 96, many) * np.timedelta64(15, "m")
    cities = ["\u00c4", "a", "A", "b b", "\u00df", None, "x\"'"]
    return pa.table(
        {
            "who": [f"n{int(x)}" for x in rng.random(many) ** 2 * many / 4],
            "city": [cities[min(i, 6)] for i in (rng.random(many) ** 2 * 9).astype(int)],
            "items": pa.array(rng.integers(0, 200, many), pa.int32()),
            "amount": [None if x < 1 else round(float(x), 2) for x in rng.exponential(30, many)],
            "clock": rng.integers(0, 24, many) * 100 + rng.integers(0, 4, many) * 15,
            "at": pa.array((np.datetime64("2022-01-01T00:00") + quarters).astype("datetime64[us]")),
        }
    )


PRIVATE = fastdp.Schema.from_dict(
    {
        "user": {"column": "who", "max_rows": 60},
        "columns": {
            "city": {"kind": "string", "domain": "private"},
            "items": {"kind": "numeric", "dtype": "int64", "domain": "private", "bins": 6},
            "amount": {"kind": "numeric", "dtype": "float64", "domain": "private", "bins": 6}
            | {"atoms": "private"},
            "clock": {"kind": "numeric", "dtype": "int64", "domain": "private", "bins": 6},
            "at": {"kind": "timestamp", "dtype": "timestamp[us]", "domain": "private"},
        },
    }
)


def same_runs(source, folder):
    """Runs that find domains: all files of both engines are the same bytes, but the statement."""
    for engine in ("local", "sql"):
        options = {"clip": 3, "seed": 1, "sample_seed": 2, "engine": engine, "progress": False}
        out = folder / engine
        fastdp.synthesize(source, "mst", 8.0, 1e-5, schema=PRIVATE, out=out, **options)
    for path in (folder / "local").rglob("*"):
        if path.is_file() and path.name != "privacy.json":
            other = folder / "sql" / path.relative_to(folder / "local")
            assert path.read_bytes() == other.read_bytes(), path
    columns = fastdp.load_run(folder / "sql").schema.columns
    assert {"clock_hour", "at_hour", "city", "amount"} <= set(columns)
    assert columns["amount"].digits == 2 and columns["city"].base > 4


def test_private_domains_are_found_in_the_database(tmp_path):
    """Texts, whole numbers, clock times, floats with their digits, sums in bins and frequent values,
    times with their step."""
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("made", private_rows(2000))
        database.execute("CREATE TABLE people AS SELECT * FROM made")
        same_runs(fastdp.sql(database, "select * from people"), tmp_path)
        assert not left_over(database)


def private_schema(columns):
    return fastdp.Schema.from_dict({"columns": columns, "user": {"column": "who", "max_rows": 60}})


def test_what_is_not_counted_is_refused_before_the_charge(tmp_path):
    """Each refusal names the alternative, and the ledger has no entry of a run."""
    ledger = open_ledger(tmp_path, epsilon=5.0, delta=1e-5)
    before = ledger.entries("d")
    users = schema_with_users(SIZES, "who", max_rows=60)
    unknown = {"w": {"kind": "any", "domain": "private"}}
    cents = {"a": {"kind": "categorical", "dtype": "int64", "domain": "private"}}
    with duckdb.connect() as database:
        trips(database, 50)
        floats = "select * replace (cast(a as double) as who) from trips"
        words = "select * replace (cast(a as varchar) as a) from trips"
        plain = "select * from trips"
        decimals = "select * replace (cast(a as decimal(9, 2)) as a) from trips"
        for query, schema, numbers, why in (
            ("select *, who as w from trips", private_schema(unknown), None, "does not find what"),
            (decimals, private_schema(cents), None, "does not find numbers of DECIMAL"),
            (plain, users, ["count"], "numbers="),
            (floats, users, None, "ids that are DOUBLE"),
            (words, users, None, "column 'a': engine='sql' cannot encode"),
        ):
            with pytest.raises((UsageError, DataError), match=why) as caught:
                fastdp.synthesize(
                    fastdp.sql(database, query),
                    "mst",
                    1.0,
                    1e-6,
                    schema=schema,
                    numbers=numbers,
                    engine="sql",
                    ledger=ledger,
                    dataset="d",
                )
            assert "engine='local'" in str(caught.value)
    assert ledger.entries("d") == before


def test_only_a_query_is_counted_by_a_database():
    with pytest.raises(UsageError, match=r"engine='sql' needs fastdp\.sql"):
        fastdp.synthesize("trips.parquet", "mst", 1.0, 1e-6, schema=SCHEMA, engine="sql")

"""The engine of a database on a real PostgreSQL server, started here: `make test-sql`."""

import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastdp
from fastdp.engines import sql_postgres
from fastdp.engines.local import local
from fastdp.engines.sql_engine import SqlEngine, sql_counter
from fastdp.errors import DataError
from fastdp.tables.sources.source import source_of

from ..builders import open_ledger, schema_with_users
from ..postgres_server import server, why_not
from . import coding_cases
from .conformance import check, check_codes, check_keys
from .test_many_rows import check_wide
from .test_sql import private_rows, same_runs

if why_not():
    pytest.skip(why_not(), allow_module_level=True)

import psycopg
from adbc_driver_postgresql import dbapi


@pytest.fixture(scope="module")
def uri():
    with server() as address:
        yield address


def store(uri, table, rows):
    """Arrow's rows as a table; decimals with their digits."""
    rows = rows.cast(pa.schema([(f.name, stored_as(f.type)) for f in rows.schema]))
    with dbapi.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.adbc_ingest(table, rows, mode="create")
        for field in rows.schema:
            if pa.types.is_decimal(field.type):
                digits = f"{field.type.precision}, {field.type.scale}"
                cursor.execute(f'ALTER TABLE {table} ALTER "{field.name}" TYPE NUMERIC({digits})')
        connection.commit()


def stored_as(kind):
    """PostgreSQL has neither unsigned numbers nor dictionaries."""
    t = pa.types
    if t.is_dictionary(kind):
        return kind.value_type
    if t.is_null(kind):
        return pa.string()
    if t.is_uint64(kind):
        return pa.decimal128(20, 0)
    return pa.int64() if t.is_unsigned_integer(kind) or t.is_int8(kind) else kind


def test_postgresql_counts_as_every_engine_must(uri):
    """By psycopg, and marginals by ADBC."""
    for connect in (psycopg.connect, dbapi.connect):

        @contextmanager
        def in_postgresql(source, schema, connect=connect):
            store(uri, "trips", source)
            with connect(uri) as connection:
                query = source_of(fastdp.sql(connection, "select * from trips"))
                with sql_counter(query, schema) as counter:
                    yield counter
                assert not left_over(connection)

        check(
            in_postgresql,
            lambda case, connect=connect: (
                "zeros" not in case.name
                and (connect is psycopg.connect or "each a user" in case.name)
            ),
        )


def left_over(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname::text FROM pg_class WHERE relname LIKE 'fastdp\\_%'")
        return cursor.fetchall()


def test_the_server_makes_the_wide_numbers_of_python(uri):
    with psycopg.connect(uri) as connection:
        check_wide(sql_postgres.PostgresConnection(connection))


def test_users_by_value_are_those_of_the_rows(uri):
    @contextmanager
    def keys_in_postgresql(source):
        store(uri, "valued", source)
        with psycopg.connect(uri) as connection:
            query = source_of(fastdp.sql(connection, "select * from valued;"))
            yield SqlEngine().key_source(query)
            assert not left_over(connection)

    check_keys(keys_in_postgresql)


def test_private_domains_are_found_on_the_server(uri, tmp_path):
    store(uri, "private", private_rows(3000))
    with dbapi.connect(uri) as connection:
        same_runs(fastdp.sql(connection, "select * from private"), tmp_path)
        assert not left_over(connection)


WORDS = {"texts"}
REFUSED = {
    **{f"decimal128({n})": WORDS for n in ("4, 1", "9, 2", "18, 4", "38, 10", "38, 0")},
    "uint64": WORDS,
    "bool": {"digits", "prices"},
    **{f"timestamp[{unit}]": WORDS | {"zoned"} for unit in ("s", "ms", "us", "ns")},
    "timestamp[us, UTC]": set(coding_cases.TIMELY) - {"zoned"} | WORDS,
    "date32": WORDS | {"zoned"},
    **{kind: set(coding_cases.COLUMNS) - WORDS for kind in ("string", "binary", "dictionary")},
}
"""Columns that PostgreSQL does not encode from a type."""


def held(values):
    """Without the zero character in texts, and without dates beyond the year 5874897."""
    if pa.types.is_string(values.type):
        return values.filter(
            pc.or_kleene(pc.invert(pc.match_substring(values, "\0")), pc.is_null(values))
        )
    if pa.types.is_dictionary(values.type):
        return held(values.dictionary_decode()).dictionary_encode()
    if pa.types.is_date32(values.type):
        days = values.view(pa.int32())
        far = pc.greater(pc.abs(days), 2_000_000_000)
        return values.filter(pc.or_kleene(pc.invert(far), pc.is_null(values)))
    return values


@pytest.mark.parametrize(
    "kinds", [coding_cases.QUICK, pytest.param(None, marks=pytest.mark.slow)], ids=["quick", "all"]
)
def test_codes_are_those_of_the_local_engine(uri, kinds):
    """No value raises; what is refused is refused by its type."""
    last = None
    with psycopg.connect(uri) as connection:

        @contextmanager
        def one_server(source, schema):
            nonlocal last
            if source is not last:
                connection.rollback()
                store(uri, "coded", source)
                last = source
            query = source_of(fastdp.sql(connection, "select * from coded"))
            with sql_counter(query, schema) as counter:
                yield counter

        wanted = {k: names for k, names in REFUSED.items() if kinds is None or k in kinds}
        assert check_codes(one_server, kinds, held) == wanted


MORE = """
CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE colour AS ENUM ('red', 'Red', 'blue');
CREATE DOMAIN price AS NUMERIC(9, 2);
CREATE TABLE odd (who TEXT COLLATE blind, u UUID, c CHARACTER(3), e colour, n NUMERIC,
  p price, d DATE, t TIMESTAMP(3), z TIMESTAMPTZ, f DOUBLE PRECISION, j JSON, k NUMERIC(12));
INSERT INTO odd VALUES
 ('Ann', '00000000-0000-0000-0000-00000000000a', 'a', 'red', 'NaN', 'NaN', '2022-03-01',
  '2022-03-13 02:30', '2022-03-13 02:30:00-06', 'NaN', '{}', 7),
 ('ann', '00000000-0000-0000-0000-00000000000A', 'ab ', 'Red', 1e400, 0.30, '9999-12-31',
  '9999-12-31 23:59:59.999', '9999-12-31 23:00+00', 'Infinity', '{}', 7),
 ('ANN', NULL, 'abc', 'blue', -1e400, NULL, NULL, NULL, NULL, '-Infinity', NULL, 100),
 (NULL, NULL, NULL, NULL, 1e-400, 1.5, '0001-01-01', '0001-01-01', '0001-01-01 00:00+00', '-0', '[]', 0),
 ('a b', NULL, 'a b', 'red', 0.30000000000000001, 0.1, '1970-01-01', '1969-12-31 23:59:59.999',
  '2022-01-01 00:00+01', 0.1, '[]', 7),
 ('ann ', NULL, '', 'red', 0.29, 2.5, '2022-12-31', '2024-02-29', '2022-01-01 00:00+00', 5e-324, '1',
  'NaN');
"""
"""Values of PostgreSQL that Arrow does not have, or has otherwise."""
CODED = {"null": "code", "overflow": "code"}
BINS = {"kind": "numeric", "dtype": "float64", "edges": [-1, 0, 0.1, 0.3, 2, 1e300], **CODED}
MONEY = {"kind": "numeric", "dtype": "decimal128(9, 2)", "edges": [0, 0.1, 0.3, 2], **CODED}
WORDS_OF = {"kind": "categorical", "dtype": "string", **CODED}
ODD = {
    "c": {**WORDS_OF, "values": ["a", "a  ", "ab ", "abc"]},
    "e": {**WORDS_OF, "values": ["red", "blue"]},
    "n": BINS,
    "p": MONEY,
    "d": coding_cases.COLUMNS["dates"] | {"overflow": "clamp"},
    "t": coding_cases.COLUMNS["calendar"] | {"null": "code", "overflow": "code"},
    "z": coding_cases.COLUMNS["zoned"] | {"null": "code", "overflow": "code"},
    "f": BINS | {"nan": "overflow"},
}


@pytest.fixture(scope="module")
def odd(uri):
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(MORE)
    return uri


@pytest.mark.parametrize("user", ["who", "u", "k"])
def test_values_that_only_postgresql_has(odd, user):
    """The rows as psycopg and ADBC read them have the codes and users that the server counts: NaN
    among decimals, numbers beyond floats, padded texts, enumerations, domains, zones, a collation
    for which Ann and ann are equal."""
    schema = fastdp.Schema.from_dict({"columns": ODD, "user": {"column": user, "null": "own"}})
    cliques = [tuple(c.name for c in item.parts) for item in schema.fields.values()]
    with psycopg.connect(odd) as connection, dbapi.connect(odd) as other:
        read = fastdp.sql(connection, "select * from odd")
        wanted = local(fastdp.read(read, schema)).marginals(cliques, 1)
        for own in (connection, other):
            with sql_counter(source_of(fastdp.sql(own, "select * from odd;")), schema) as counter:
                counted = counter.marginals(cliques, 1)
                for clique in cliques:
                    assert np.array_equal(counted[clique], wanted[clique]), clique


def test_dates_and_times_without_end_are_coded(odd):
    """No reader of Python has them; they are above and below all others."""
    values = ["infinity", "-infinity", "0044-03-15 BC", "20000-01-01", "2022-06-01"]
    listed = ", ".join(f"('{value}', '{value}', '{value}', 'x')" for value in values)
    entries = {
        "d": coding_cases.COLUMNS["dates"],
        "t": coding_cases.COLUMNS["times"],
        "z": coding_cases.COLUMNS["zoned"],
    }
    schema = fastdp.Schema.from_dict(
        {"columns": {n: e | CODED | {"overflow": "clamp"} for n, e in entries.items()}}
    )
    parts = {"s": coding_cases.COLUMNS["spanned"] | {"source": "t"} | CODED}
    with psycopg.connect(odd) as connection:
        connection.execute(
            f"CREATE TEMP TABLE far (d DATE, t TIMESTAMP, z TIMESTAMPTZ, x TEXT);"
            f" INSERT INTO far VALUES {listed}"
        )
        source = source_of(fastdp.sql(connection, "select * from far"))
        with sql_counter(source, schema) as counter:
            counted = counter.marginals([("d",), ("t",), ("z",)], None)
        assert counted["d",].tolist() == [2, 3, 0]  # clamp: the first bin, and the last
        assert counted["t",].tolist() == [2, 3, 0]
        assert counted["z",].tolist() == [5, 0]
        with sql_counter(source, fastdp.Schema.from_dict({"columns": parts})) as counter:
            assert counter.marginals([("y", "m")], None)["y", "m"].max() == 4


def test_what_no_column_reads_is_refused_by_its_type(odd):
    exact = {"kind": "integer", "dtype": "int64", "min": 0, "max": 3}
    for entry, why in (
        ({"j": {**WORDS_OF, "values": ["{}"]}}, "does not read JSON"),
        ({"n": exact}, "cannot encode int64 from NUMERIC"),
    ):
        schema = fastdp.Schema.from_dict({"columns": entry})
        with psycopg.connect(odd) as connection, pytest.raises(DataError, match=why):
            sql_counter(source_of(fastdp.sql(connection, "select * from odd")), schema)


# --- roles, time limits, lost connections

SIZES = {"a": 3, "b": 8, "c": 5}
PEOPLE = schema_with_users(SIZES, "who", max_rows=60)


@pytest.fixture(scope="module")
def trips(uri):
    rng = np.random.default_rng(1)
    names = [f"n{i}" for i in (rng.random(3000) ** 2 * 150).astype(int)]
    codes = {n: pa.array((rng.random(3000) ** 2 * size).astype(int)) for n, size in SIZES.items()}
    rows = pa.table({"who": names, **codes})
    store(uri, "people", rows)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(
            "REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC; CREATE ROLE reader LOGIN;"
            "GRANT SELECT ON people TO reader; GRANT TEMPORARY ON DATABASE postgres TO reader;"
            "CREATE ROLE looker LOGIN; GRANT SELECT ON people TO looker"
        )
    return uri, rows


def synthesize(connection, **options):
    source = fastdp.sql(connection, "select * from people")
    shared = {"schema": PEOPLE, "clip": 3, "progress": False, "engine": "sql"} | options
    return fastdp.synthesize(source, "mst", 2.0, 1e-6, **shared)


def test_a_role_that_may_read_and_make_temporary_tables(trips, tmp_path):
    """It gets the bytes of the local engine; a role that may not is refused before the charge, and so
    is a read-only transaction."""
    uri, rows = trips
    seeds = {"seed": 1, "sample_seed": 2}
    with psycopg.connect(uri.replace("user=fastdp", "user=reader")) as connection:
        made = synthesize(connection, out=tmp_path / "sql", **seeds)
        about = made.privacy["mechanism"]["engine"]
        assert about == {"name": "sql", "database": "PostgreSQL"}
        assert not left_over(connection)
    fastdp.synthesize(
        rows, "mst", 2.0, 1e-6, schema=PEOPLE, clip=3, out=tmp_path / "local", **seeds
    )
    for path in (tmp_path / "local").rglob("*"):
        if path.is_file() and path.name != "privacy.json":
            assert path.read_bytes() == (tmp_path / "sql" / path.name).read_bytes(), path
    ledger = open_ledger(tmp_path, epsilon=5.0, delta=1e-5)
    charged = {"ledger": ledger, "dataset": "d"}
    with psycopg.connect(uri.replace("user=fastdp", "user=looker")) as connection:
        with pytest.raises(DataError, match="may not make temporary tables"):
            synthesize(connection, **charged)
    with psycopg.connect(uri, options="-c default_transaction_read_only=on") as connection:
        with pytest.raises(DataError, match="read-only"):
            synthesize(connection, **charged)
    assert ledger.entries("d") == []


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("accident", ["timeout", "lost"])
def test_an_accident_in_the_middle_is_charged_once(
    trips, tmp_path, monkeypatch, accident, autocommit
):
    """The statement that counts the first pairs is cut off. The same call resumes the run, on the same
    connection after a time limit and on a new one after a loss; what the caller did in the
    transaction is still there."""
    uri, _ = trips
    ledger = open_ledger(tmp_path, epsilon=5.0, delta=1e-5)
    options = {"out": tmp_path / "run", "ledger": ledger, "dataset": "d"}
    fetch = sql_postgres.PostgresConnection._fetch
    asked = []

    def cut_off(self, statement):
        asked.append(statement)
        if "UNION ALL" in statement and len(asked) < 100:
            asked.extend([""] * 100)
            if accident == "lost":
                with psycopg.connect(uri, autocommit=True) as other:
                    process = self.connection.info.backend_pid
                    other.execute(f"SELECT pg_terminate_backend({process})")
            else:
                statement = f"SELECT pg_sleep(30) FROM ({statement}) AS slow"
        return fetch(self, statement)

    monkeypatch.setattr(sql_postgres.PostgresConnection, "_fetch", cut_off)
    connection = psycopg.connect(uri, autocommit=autocommit, options="-c statement_timeout=2000")
    connection.execute("CREATE TEMP TABLE mine AS SELECT 1 AS a")
    with pytest.raises(DataError, match="charged") as caught:
        synthesize(connection, **options)
    assert "resume=True" in str(caught.value)
    name = "QueryCanceled" if accident == "timeout" else "AdminShutdown"
    assert name in str(caught.value)
    if accident == "lost":
        connection.close()
        connection = psycopg.connect(uri)
        # The server removes the tables of a session that is gone, at once or soon.
        for _ in range(100):
            if not left_over(connection):
                break
            connection.rollback()
            time.sleep(0.05)
        assert not left_over(connection)
    else:
        assert connection.execute("SELECT a FROM mine").fetchall() == [(1,)]
        assert not left_over(connection)
    synthesize(connection, **options, resume=True)
    connection.close()
    assert len(ledger.entries("d")) == 1
    assert ledger.spent("d")["epsilon"] <= 2.0 + 1e-9
    assert fastdp.verify(tmp_path / "run", ledger=ledger).ok

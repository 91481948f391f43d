"""Queries on a real PostgreSQL server, started here for these tests alone: `make test-sql`."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp.errors import DataError
from fastdp.tables import parts, sql

from ..postgres_server import server, why_not
from .test_sql import BOUNDED, QUERY, SCHEMA, command, counts, rows

if why_not():
    pytest.skip(why_not(), allow_module_level=True)


@pytest.fixture(scope="module")
def uri():
    """The address of a server with `trips` in it."""
    with server() as address:
        fill(address)
        yield address


def fill(address):
    import psycopg

    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute('create table trips ("who" text, a integer, b bigint)')
        with cursor.copy("copy trips from stdin") as copy:
            for row in rows().to_pylist():
                copy.write_row((row["who"], row["a"], row["b"]))
        # Ids that are one text where case does not count.
        cursor.execute(
            "create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic ="
            " false)"
        )
        cursor.execute(
            'create table collated as select "who" collate nocase as "who", a, b from trips'
        )


def adbc(address):
    from adbc_driver_postgresql import dbapi

    return dbapi.connect(address)


def test_adbc_and_psycopg_give_the_rows(uri, monkeypatch):
    import psycopg

    monkeypatch.setattr(parts, "BATCH_ROWS", 512)
    want = counts(rows())
    with adbc(uri) as connection:
        assert np.array_equal(counts(fastdp.sql(connection, QUERY)), want)
        assert np.array_equal(counts(fastdp.sql(connection, QUERY), 1), want)
        assert np.array_equal(counts(fastdp.sql(connection, "select * from collated")), want)
    with psycopg.connect(uri) as connection:
        assert np.array_equal(counts(fastdp.sql(connection, QUERY)), want)
        with connection.cursor(name="trips") as cursor:
            assert np.array_equal(counts(fastdp.sql(cursor, QUERY)), want)


def test_whole_runs_are_the_same(uri, tmp_path, monkeypatch):
    monkeypatch.setenv(sql.URI, uri)
    command(tmp_path, "one", "--sql", QUERY)
    command(tmp_path, "two", "--sql", QUERY, "--threads", "3")
    want = fastdp.synthesize(
        rows(), "mst", 1.0, 1e-6, schema=BOUNDED, clip=3, seed=1, sample_seed=2
    )
    for name in ("one", "two"):
        made = fastdp.load_run(tmp_path / name)
        assert made.data.equals(want.data)


def test_texts_of_the_server_s_errors_are_not_told(uri):
    with adbc(uri) as connection:
        for query in ("select who from nowhere", "select 'SECRET'::int as a, 1 as b, 'x' as who"):
            with pytest.raises(
                DataError, match=r"the database refused the query|reading the private data failed"
            ) as ended:
                fastdp.read(fastdp.sql(connection, query), SCHEMA)
            assert "SECRET" not in str(ended.value) and ended.value.__context__ is None


LIMITED = """
import resource, sys
import fastdp
from fastdp.tables.sql import connect
address, rows, room, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
schema = fastdp.Schema.from_domain({"a": 5, "b": 40}, user="who")
who = "repeat('x', 100) || i % 1000"
query = f"select {who} as who, i % 5 as a, i % 40 as b from generate_series(1, {rows}) i"
if way == "adbc":
    connection = connect(address)
    source = lambda n: fastdp.sql(connection, query.replace(str(rows), str(n)))
else:
    import psycopg
    connection = psycopg.connect(address)
    source = lambda n: fastdp.sql(connection.cursor(name=f"c{n}"), query.replace(str(rows), str(n)))
fastdp.read(source(1000), schema, threads=1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
assert fastdp.read(source(rows), schema, threads=1).rows == rows
"""


@pytest.mark.parametrize("way", ["adbc", "psycopg"])
def test_rows_are_streamed_in_bounded_memory(uri, way):
    """1.5 million rows of about 120 bytes, within 120 MB more than a thousand of them take: codes
    are 6 bytes a row, what is in flight a few batches of the driver's size."""
    count = 1_500_000
    room = 120 << 20
    command = [sys.executable, "-c", LIMITED, uri, str(count), str(room), way]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": root},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]

"""Queries on a real PostgreSQL server, started here for these tests alone: `make test-sql`."""

import decimal
import os
import shutil
import socket
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import DataError
from fastdp.tables import parts, sql

from .test_sql import QUERY, SCHEMA, counts, rows

FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
USER = "fastdp"


def reason() -> str:
    if os.environ.get("FASTDP_TEST_SQL") != "1":
        return "PostgreSQL is tested by `make test-sql`"
    if not FOLDERS and shutil.which("initdb") is None:
        return "there is no PostgreSQL server here (on Debian: package postgresql)"
    for name in ("adbc_driver_postgresql", "psycopg"):
        try:
            __import__(name)
        except ImportError:
            return f"the package {name} is not installed"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "a PostgreSQL server does not run as root, and there is no setpriv"
    return ""


if reason():
    pytest.skip(reason(), allow_module_level=True)


@pytest.fixture(scope="module")
def uri():
    """The address of a server whose data is in a temporary folder, with `trips` in it."""
    folder = Path(tempfile.mkdtemp(prefix="fastdp-pg-", dir="/tmp"))
    programs = FOLDERS[-1] if FOLDERS else Path(str(shutil.which("initdb"))).parent
    prefix = []
    if os.geteuid() == 0:
        nobody = "65534"
        prefix = ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups"]
        os.chown(folder, int(nobody), int(nobody))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command):
        subprocess.run([*prefix, *map(str, command)], check=True, capture_output=True, cwd=folder)

    data = folder / "data"
    run(programs / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run(programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    try:
        address = f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        fill(address)
        yield address
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def fill(address):
    import psycopg

    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute('create table trips ("who" text, a integer, b bigint)')
        with cursor.copy("copy trips from stdin") as copy:
            for row in rows().to_pylist():
                copy.write_row((row["who"], row["a"], row["b"]))
        # Ids that are one text where case does not count.
        cursor.execute(
            "create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        cursor.execute('create table collated as select "who" collate nocase as "who", a, b from trips')


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


def test_times_numbers_and_nulls(uri):
    plain = {
        "fastdp": 1,
        "name": "t",
        "columns": {
            "x": {"kind": "numeric", "dtype": "float64", "edges": [0, 2, 5, 10]},
            "t": {"kind": "timestamp", "dtype": "timestamp[us]", "parts": ["hour", "day_of_week"]},
        },
    }
    schema = fastdp.Schema.from_dict(plain)
    noon = datetime(2020, 5, 1, 12, 30)
    time = "timestamp '2020-05-01 12:30'"
    query = f"select * from (values (2.5::float8, {time}), (null, {time})) v (x, t)"
    want = fastdp.read(pa.table({"x": pa.array([2.5, None]), "t": [noon, noon]}), schema)
    with adbc(uri) as connection:
        made = fastdp.read(fastdp.sql(connection, query), schema)
    assert all(np.array_equal(made.codes[c], want.codes[c]) for c in want.codes)
    import psycopg

    with psycopg.connect(uri) as connection:
        made = fastdp.read(fastdp.sql(connection, query.replace("2.5::float8", "2.5::numeric")), schema)
    assert all(np.array_equal(made.codes[c], want.codes[c]) for c in want.codes)
    assert sql.text(decimal.Decimal("2.5")) == b"2.5"


def test_texts_of_the_server_s_errors_are_not_told(uri):
    with adbc(uri) as connection:
        for query in ("select who from nowhere", "select 'SECRET'::int as a, 1 as b, 'x' as who"):
            with pytest.raises(DataError, match="reading the private data failed") as ended:
                fastdp.read(fastdp.sql(connection, query), SCHEMA)
            assert "SECRET" not in str(ended.value) and ended.value.__context__ is None

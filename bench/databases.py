"""Databases against Parquet: what other ways to the same integers cost.

    python -m bench.databases [--rows 10000000] [--rounds 2] [--ways parquet,duckdb] [--no-save]

Simulated taxi trips; the marginals of three outer cliques and all that they contain, weighted by a clip of
150. Each way reads and counts in a process of its own, in turns, on two threads; times
are the best of all rounds, ratios are to `fastdp.read` of Parquet and the local engine in the same run. All
give the same integers, or it ends with an error. The
plain DB-API way (sqlite) reads a tenth of the rows: it makes Python objects of them. Where the environment's
FASTDP_SQL_URI names a PostgreSQL server, the way `postgresql` is there too; its table `fastdp_bench_trips` is
made and dropped (needs psycopg and adbc-driver-postgresql). Of that way "driver" is told too: the seconds to
fetch the driver's Arrow stream and throw it away, the least that any reader takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from . import turns
from .machine import describe, keep, peak_mb

ROOT = Path(__file__).parents[1]
THREADS = 2
SCHEMA = "taxi-deid2"
CLIP = 150
QUERY = "select * from trips"
OUTER = [
    ("pickup_community_area", "shift", "fare", "trip_total"),
    ("pickup_community_area", "shift", "company_id"),
    ("dropoff_community_area", "pickup_community_area", "shift"),
]
POSTGRESQL = os.environ.get("FASTDP_SQL_URI", "")
TABLE = "fastdp_bench_trips"
WAYS = ["parquet", "duckdb", "sqlite"]
if POSTGRESQL.startswith("postgres"):
    WAYS.append("postgresql")


def write(rows: int, folder: Path, postgresql: bool) -> None:
    import sqlite3

    import duckdb
    import pyarrow.parquet as pq

    import fastdp

    trips = fastdp.simulate.taxi(rows, seed=1)
    pq.write_table(trips, folder / "trips.parquet", row_group_size=1 << 18)
    with duckdb.connect(str(folder / "trips.duckdb")) as database:
        database.execute(f"create table trips as select * from '{folder}/trips.parquet'")
    if postgresql:
        to_postgresql(trips)
    tenth = trips.slice(0, rows // 10)
    with sqlite3.connect(folder / "trips.sqlite") as connection:
        names = ", ".join(f'"{name}"' for name in tenth.column_names)
        connection.execute(f"create table trips ({names})")
        marks = ", ".join("?" * len(tenth.column_names))
        for batch in tenth.to_batches(1 << 16):
            columns = [[_plain(v) for v in column.to_pylist()] for column in batch.columns]
            connection.executemany(
                f"insert into trips values ({marks})", zip(*columns, strict=True)
            )


def to_postgresql(trips) -> None:
    import psycopg
    import pyarrow as pa
    import pyarrow.csv as csv

    def kind(t) -> str:
        if pa.types.is_timestamp(t):
            return "timestamp"
        if pa.types.is_integer(t):
            return {8: "smallint", 16: "smallint", 32: "integer"}.get(t.bit_width, "bigint")
        return "double precision" if pa.types.is_floating(t) else "text"

    columns = ", ".join(f'"{field.name}" {kind(field.type)}' for field in trips.schema)
    with psycopg.connect(POSTGRESQL) as connection, connection.cursor() as cursor:
        cursor.execute(f"drop table if exists {TABLE}")
        cursor.execute(f"create table {TABLE} ({columns})")
        with cursor.copy(f"copy {TABLE} from stdin (format csv)") as copy:
            for batch in trips.to_batches(1 << 16):
                text = pa.BufferOutputStream()
                csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
                copy.write(text.getvalue().to_pybytes())


def drop_postgresql() -> None:
    import psycopg

    with psycopg.connect(POSTGRESQL) as connection:
        connection.execute(f"drop table if exists {TABLE}")


def _plain(value):
    return value if value is None or isinstance(value, int | float | str) else str(value)


def child(way: str, folder: str) -> None:
    import fastdp
    from fastdp.domain import downward_closure
    from fastdp.engines.local import local
    from fastdp.tables.sql import connect

    schema = fastdp.Schema.load(SCHEMA)
    cliques = downward_closure(OUTER)
    path = f"{folder}/trips.parquet"
    driver = fetch() if way == "postgresql" else None
    start = time.perf_counter()
    if way == "postgresql":
        source = fastdp.sql(connect(), f"select * from {TABLE}")
    elif way == "parquet":
        source = path
    else:
        source = fastdp.sql(connect(f"{way}:///{folder}/trips.{way}"), QUERY)
    engine = local(fastdp.read(source, schema, threads=THREADS), THREADS)
    middle = time.perf_counter()
    tables = engine.marginals(cliques, CLIP)
    end = time.perf_counter()
    digest = hashlib.sha256(b"".join(tables[c].tobytes() for c in cliques)).hexdigest()
    figures = {"read": middle - start, "count": end - middle, "peak_mb": peak_mb()}
    if driver is not None:
        figures["driver"] = driver
    print(json.dumps({**figures, "digest": digest}))


def fetch() -> float:
    """Seconds that the driver's stream takes by itself."""
    from fastdp.tables.sql import connect

    start = time.perf_counter()
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"select * from {TABLE}")
        for _ in cursor.fetch_record_batch():
            pass
    return time.perf_counter() - start


def run(way: str, folder: str) -> dict:
    command = [sys.executable, "-m", "bench.databases", "--child", way, "--path", folder]
    return turns.run(command, {"PYTHONPATH": str(ROOT)}, ROOT)


def main() -> None:
    parser = turns.parser(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ways", help="only these, with commas between")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.path)
        return
    print(json.dumps(describe()))
    best: dict[str, dict] = {}
    ways = options.ways.split(",") if options.ways else WAYS
    if ways[0] != "parquet":
        raise SystemExit("--ways: parquet comes first, the others are compared with it")
    with tempfile.TemporaryDirectory() as folder:
        write(options.rows, Path(folder), "postgresql" in ways)
        for _ in range(options.rounds):
            for way in ways:
                new = run(way, folder)
                digest = new.pop("digest")
                if way == "parquet":
                    want = digest
                elif way != "sqlite" and digest != want:
                    raise SystemExit(f"{way}: other integers than the local engine's")
                turns.keep_least(best, way, new)
    if "postgresql" in ways:
        drop_postgresql()
    base = best["parquet"]
    print(f"\n{options.rows:,} simulated trips")
    print(f"  {'':<15}{'read s':>8}{'/ parquet':>11}{'count s':>9}{'/ local':>9}", end="")
    print(f"{'MB':>8}")
    for way, each in best.items():
        share = 10 if way == "sqlite" else 1
        each["over_parquet"] = each["read"] * share / base["read"]
        each["over_local"] = each["count"] * share / base["count"]
        print(
            f"  {way:<15}{each['read']:>8.2f}{each['over_parquet']:>11.2f}{each['count']:>9.2f}"
            f"{each['over_local']:>9.2f}{each['peak_mb']:>8.0f}"
        )
    if "postgresql" in best:
        print(f"  postgresql: the driver's stream alone {best['postgresql']['driver']:.2f} s")
    if not options.no_save:
        keep("databases", {"rows": options.rows, "rounds": options.rounds, "ways": best})


if __name__ == "__main__":
    main()

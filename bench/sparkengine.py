"""Spark in local mode against the local engine: the same rows, cores and integers.

    python -m bench.sparkengine [--rows 10000000] [--rounds 4] [--partitions P] [--conf NAME=VALUE]

Simulated taxi trips from Parquet; the marginals of `bench.databases`. Spark's session is started,
and its Python workers by a small table, before the clock is; then each way reads and counts in
turns, with two threads or two tasks at a time: `files`, where Spark's tasks read the file, and
`rows`, where Spark reads it and hands rows over (`--ways local,files` leaves it out). Figures are
the least of all rounds, by the clock and of the processor, Spark's compiler included: it works for
several rounds. Needs pyspark and Java.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from . import turns
from .databases import CLIP, OUTER, SCHEMA, THREADS
from .machine import describe, keep, processor_seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument(
        "--partitions", type=int, help="without: as many as the engine takes by itself"
    )
    parser.add_argument(
        "--conf", action="append", default=[], help="a setting of Spark, NAME=VALUE"
    )
    parser.add_argument("--ways", default="local,files,rows")
    parser.add_argument("--no-save", action="store_true")
    given = parser.parse_args()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        print("left out: it needs pyspark (fastdp[spark]) and Java 17")
        return

    import pyarrow.parquet as pq

    import fastdp
    from fastdp.domain import downward_closure
    from fastdp.engines.local import local
    from fastdp.engines.spark import spark as on_spark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    print(json.dumps(describe()))
    schema = fastdp.Schema.load(SCHEMA)
    cliques = downward_closure(OUTER)
    builder = SparkSession.builder.master(f"local[{THREADS}]").config("spark.ui.enabled", "false")
    for setting in given.conf:
        builder = builder.config(*setting.split("=", 1))
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    best: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("small", 20_000), ("trips", given.rows)):
            trips = fastdp.simulate.taxi(rows, seed=1)
            pq.write_table(trips, Path(folder) / f"{name}.parquet", row_group_size=1 << 18)
            del trips

        def by_local(path: str):
            return local(fastdp.read(path, schema, threads=THREADS), THREADS)

        def by_files(path: str):
            return on_spark(session.read.parquet(path), schema, given.partitions)

        def by_rows(path: str):
            return on_spark(
                session.read.parquet(path).where("true or rand() < 1"), schema, given.partitions
            )

        ways = {"local": by_local, "files": by_files, "rows": by_rows}
        chosen = [way for way in ways if way in given.ways.split(",")]
        with by_files(f"{folder}/small.parquet") as counter:
            counter.marginals(cliques, CLIP)
        digests = set()
        for _ in range(given.rounds):
            for way in chosen:
                times = [(time.perf_counter(), processor_seconds())]
                engine = ways[way](f"{folder}/trips.parquet")
                times.append((time.perf_counter(), processor_seconds()))
                tables = engine.marginals(cliques, CLIP)
                times.append((time.perf_counter(), processor_seconds()))
                getattr(engine, "close", lambda: None)()
                digests.add(
                    hashlib.sha256(b"".join(tables[c].tobytes() for c in cliques)).hexdigest()
                )
                new = {}
                for name, (start, end) in {"read": (0, 1), "count": (1, 2), "both": (0, 2)}.items():
                    new[name] = times[end][0] - times[start][0]
                    new[f"{name} processor"] = times[end][1] - times[start][1]
                turns.keep_least(best, way, new)
    session.stop()
    if len(digests) != 1:
        raise SystemExit("Spark: other integers than the local engine's")
    partitions = given.partitions or "the engine's number of"
    print(f"\n{given.rows:,} simulated trips, {partitions} partitions, seconds")
    print(f"  {'':<16}" + "".join(f"{key:>17}" for key in best["local"]))
    for way, times in best.items():
        print(f"  {way:<16}" + "".join(f"{seconds:>17.2f}" for seconds in times.values()))
        if way != "local":
            ratios = [times[key] / best["local"][key] for key in times]
            print(f"  {'against local':<16}" + "".join(f"{ratio:>17.2f}" for ratio in ratios))
    if not given.no_save:
        keep("sparkengine", vars(given) | {"ways": best})


if __name__ == "__main__":
    main()

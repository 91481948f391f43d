"""Spark in local mode against the local engine: the same rows, cores and integers.

    python -m bench.sparkengine [--rows 10000000] [--rounds 2] [--partitions 4] [--no-save]

Simulated taxi trips from Parquet; the marginals of `bench.partitions`. Spark's session is started, and its
Python workers by a small table, before the clock is; then each way reads and counts in turns, with two
threads or two tasks at a time. Times are the best of all rounds. Needs pyspark and Java.
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
from .machine import describe, keep
from .partitions import CLIP, OUTER, SCHEMA, THREADS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=4)
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
    schema, cliques = fastdp.Schema.load(SCHEMA), downward_closure(OUTER)
    builder = SparkSession.builder.master(f"local[{THREADS}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    best: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("small", 20_000), ("trips", given.rows)):
            trips = fastdp.simulate.taxi(rows, seed=1)
            pq.write_table(trips, Path(folder) / f"{name}.parquet", row_group_size=1 << 18)
            del trips

        def by_local(path: str):
            return local(fastdp.read(path, schema, threads=THREADS), THREADS)

        def by_spark(path: str):
            return on_spark(session.read.parquet(path), schema, given.partitions)

        with by_spark(f"{folder}/small.parquet") as counter:
            counter.marginals(cliques, CLIP)
        digests = set()
        for _ in range(given.rounds):
            for way, begin in (("local", by_local), ("spark", by_spark)):
                start = time.perf_counter()
                engine = begin(f"{folder}/trips.parquet")
                middle = time.perf_counter()
                tables = engine.marginals(cliques, CLIP)
                end = time.perf_counter()
                getattr(engine, "close", lambda: None)()
                digests.add(hashlib.sha256(b"".join(tables[c].tobytes() for c in cliques)).hexdigest())
                new = {"read": middle - start, "count": end - middle, "both": end - start}
                turns.keep_least(best, way, new)
    session.stop()
    if len(digests) != 1:
        raise SystemExit("Spark: other integers than the local engine's")
    ratios = {key: best["spark"][key] / best["local"][key] for key in best["local"]}
    print(f"\n{given.rows:,} simulated trips, {given.partitions} partitions")
    print(f"  {'':<8}{'read s':>9}{'count s':>9}{'both s':>9}")
    for name, times in (*best.items(), ("ratio", ratios)):
        print(f"  {name:<8}" + "".join(f"{times[key]:>9.2f}" for key in ("read", "count", "both")))
    if not given.no_save:
        keep("sparkengine", {"rows": given.rows, "partitions": given.partitions, "ways": best})


if __name__ == "__main__":
    main()

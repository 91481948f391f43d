"""From Parquet to codes and weights, beside what Polars needs to read the same file and group it by
user.

    python -m bench.encode [--rows 10000000] [--repeat 5] [--rounds 3] [--no-save]

fastdp reads, checks and encodes every column of the schema, numbers the users and weighs their
rows. Polars reads the same columns and counts the rows of each user; "weighed" also gives every row
its user's count, which is as far as weights can be taken in it. Each runs in processes of its own
on two threads, in turns; times are the best of all, "cpu" is processor time of all threads
together. The file is read once before, so that all find it in the system's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .machine import describe, keep, peak_mb

CHICAGO = Path(__file__).parents[1] / "../shared/data/taxi-chicago-2022/trips.parquet"
CLIP = 150
THREADS = 2
GROUP = 1 << 20
"""Rows of a row group, as pyarrow writes them unless told otherwise."""


def simulated(rows: int, path: Path) -> str:
    import pyarrow.parquet as pq

    import fastdp

    pq.write_table(fastdp.simulate.taxi(rows, seed=1), path)
    return "taxi-deid2"


def chicago(rows: int, path: Path) -> str:
    """The real trips, repeated, in the columns the schema needs; the taxis of each repetition are
    others."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    import fastdp

    trips = pq.read_table(CHICAGO, columns=sources(fastdp.Schema.load("taxi-chicago")))
    user = trips.schema.get_field_index("taxi_id")
    each = trips.num_rows
    with pq.ParquetWriter(path, trips.schema) as writer:
        for start in range(0, rows, GROUP):
            parts = []
            for at in range(start, min(rows, start + GROUP), each):
                part = trips.slice(0, min(rows, start + GROUP) - at)
                again = [pa.scalar(text, part["taxi_id"].type) for text in (str(at), "-")]
                ids = pc.binary_join_element_wise(part["taxi_id"], *again)
                parts.append(part.set_column(user, trips.schema.field(user), ids))
            writer.write_table(pa.concat_tables(parts), row_group_size=GROUP)
    return "taxi-chicago"


def fastdp_(path: str, schema: str):
    import fastdp
    from fastdp.tables import bound

    rules = fastdp.Schema.load(schema)

    def work() -> int:
        table = fastdp.read(path, rules, threads=THREADS)
        return len(bound.user_weights(table, CLIP))

    return work


def polars(path: str, schema: str, weighed: bool = False):
    import polars as pl

    import fastdp

    rules = fastdp.Schema.load(schema)
    with fastdp.read(path, rules) as table:
        users = table.users
    columns = sources(rules)

    def work() -> int:
        frame = pl.read_parquet(path, columns=columns)
        if weighed:
            frame = frame.with_columns(count=pl.len().over(rules.user))
        per_user = frame.group_by(rules.user).len()
        assert len(per_user) in (users, users + 1)  # a missing id is a group in Polars
        return len(per_user)

    return work


def sources(rules) -> list[str]:
    """The columns of the file that the schema needs."""
    from fastdp.codec.encode import source_columns

    return list(dict.fromkeys([*source_columns(rules), rules.user]))


CONTESTANTS = {
    "fastdp": fastdp_,
    "polars": polars,
    "polars weighed": lambda path, schema: polars(path, schema, weighed=True),
}


def child(name: str, path: str, schema: str, repeat: int) -> None:
    work = CONTESTANTS[name](path, schema)
    timings = []
    for _ in range(repeat):
        start = time.perf_counter()
        spent = time.process_time()
        work()
        timings.append((time.perf_counter() - start, time.process_time() - spent))
    seconds, cpu = (min(column) for column in zip(*timings, strict=True))
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak_mb()}))


def compare(title: str, path: Path, schema: str, repeat: int, rounds: int) -> dict:
    environment = os.environ | {"POLARS_MAX_THREADS": str(THREADS)}
    figures: dict[str, dict] = {}
    path.read_bytes()
    for _ in range(rounds):
        for name in CONTESTANTS:
            command = [sys.executable, "-m", "bench.encode", "--child", name, "--path", str(path)]
            command += ["--schema", schema, "--repeat", str(repeat)]
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, check=True
            )
            new = json.loads(done.stdout.splitlines()[-1])
            old = figures.setdefault(name, new)
            figures[name] = {key: min(old[key], new[key]) for key in new}
    print(f"\n{title}\n  {'':<16}{'seconds':>9}{'cpu':>9}{'peak MB':>9}")
    for name, each in figures.items():
        print(
            f"  {name:<16}{each['seconds']:>9.3f}{each['cpu_seconds']:>9.3f}{each['peak_mb']:>9.0f}"
        )
    ours = figures["fastdp"]
    ratios = {
        name: {key: ours[key] / each[key] for key in ("seconds", "cpu_seconds")}
        for name, each in figures.items()
        if each is not ours
    }
    for name, each in ratios.items():
        print(
            f"  fastdp takes {each['seconds']:.2f} of {name}'s time, {each['cpu_seconds']:.2f} of"
            " its cpu"
        )
    return {"title": title, "figures": figures, "fastdp_over": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--schema", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.path, options.schema, options.repeat)
        return
    machine = describe()
    print(json.dumps(machine))
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trips.parquet")
        schema = simulated(options.rows, path)
        title = f"{options.rows:,} simulated taxi rows"
        results.append(compare(title, path, schema, options.repeat, options.rounds))
        if CHICAGO.exists():
            schema = chicago(options.rows, path)
            title = f"Chicago trips tiled to {options.rows:,} rows"
            results.append(compare(title, path, schema, options.repeat, options.rounds))
    if not options.no_save:
        keep("encode", {"load_average_at_start": machine["load_average"], "results": results})


if __name__ == "__main__":
    main()

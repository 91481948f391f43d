"""Reading text: a CSV file to codes and numbered users, beside what Polars and Arrow need to parse
the same columns.

    python -m bench.reading [--rows 10000000] [--rounds 3] [--against FOLDER] [--no-save]

The rows are simulated taxi trips. fastdp reads every line by itself, parses, checks and encodes
every column of the schema and numbers the users; it is timed on CSV (plain, and with every field in
quotes) and on JSON lines. Polars and Arrow parse the same columns of the CSV file into the types
they find there, and do no more. `--against`: the root of another checkout of fastdp, built, that
reads the CSV file in turns with this one. Each runs in a process of its own on two threads, in
turns; times are the best of all rounds, "cpu" is processor time of all threads together. Files are
in the system's cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import turns
from .machine import describe, keep, peak_mb

ROOT = Path(__file__).parents[1]
THREADS = 2
SCHEMA = "taxi-deid2"


def write(rows: int, folder: Path) -> None:
    import polars as pl

    import fastdp

    trips = pl.DataFrame(pl.from_arrow(fastdp.simulate.taxi(rows, seed=1)))
    trips.write_csv(folder / "trips.csv")
    trips.write_csv(folder / "quoted.csv", quote_style="always")
    trips.write_ndjson(folder / "trips.jsonl")


def fastdp_(path: str) -> int:
    import fastdp

    with fastdp.read(path, fastdp.Schema.load(SCHEMA), threads=THREADS) as table:
        return table.rows


def columns() -> list[str]:
    import fastdp

    schema = fastdp.Schema.load(SCHEMA)
    return [*(field.source for field in schema.fields.values()), schema.user]


def polars(path: str) -> int:
    import polars as pl

    return len(pl.read_csv(path, columns=columns()))


def arrow(path: str) -> int:
    import pyarrow as pa
    from pyarrow import csv

    pa.set_cpu_count(THREADS)
    return csv.read_csv(
        path, convert_options=csv.ConvertOptions(include_columns=columns())
    ).num_rows


CONTESTANTS = {
    "fastdp, CSV": (fastdp_, "trips.csv"),
    "fastdp, quoted CSV": (fastdp_, "quoted.csv"),
    "fastdp, JSON lines": (fastdp_, "trips.jsonl"),
    "polars, CSV": (polars, "trips.csv"),
    "arrow, CSV": (arrow, "trips.csv"),
}
OTHER = "other checkout, CSV"


def child(name: str, folder: str) -> None:
    work, file = CONTESTANTS[name]
    best = []
    for _ in range(2):
        start = time.perf_counter()
        spent = time.process_time()
        rows = work(str(Path(folder, file)))
        best.append((time.perf_counter() - start, time.process_time() - spent))
    seconds, cpu = (min(column) for column in zip(*best, strict=True))
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak_mb()}))


def run(name: str, folder: str, root: Path) -> dict:
    start = (
        "import sys, fastdp; sys.path.insert(0, sys.argv.pop(1)); from bench.reading import main;"
        " main()"
    )
    command = [sys.executable, "-c", start, str(ROOT), "--child", name, "--path", folder]
    return turns.run(command, {"POLARS_MAX_THREADS": str(THREADS), "PYTHONPATH": str(root)}, folder)


def main() -> None:
    parser = turns.parser(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.path)
        return
    machine = describe()
    print(json.dumps(machine))
    entries = [(name, name, ROOT) for name in CONTESTANTS]
    if options.against:
        entries.insert(1, (OTHER, "fastdp, CSV", options.against.resolve()))
    commit = None
    if options.against:
        head = subprocess.run(
            ["git", "-C", str(options.against), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
        )
        commit = head.stdout.strip() or "unknown"
    best: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        write(options.rows, Path(folder))
        for _ in range(options.rounds):
            for label, name, root in entries:
                new = run(name, folder, root)
                assert new["rows"] == options.rows, label
                turns.keep_least(best, label, new)
    ours = best["fastdp, CSV"]
    print(f"\n{options.rows:,} simulated trips" + (f"; other checkout: {commit}" if commit else ""))
    print(f"  {'':<22}{'seconds':>9}{'cpu':>9}{'peak MB':>9}{'time / ours':>13}{'cpu / ours':>13}")
    for name, each in best.items():
        each["over_fastdp_csv"] = {key: each[key] / ours[key] for key in ("seconds", "cpu_seconds")}
        ratios = "".join(f"{ratio:>13.2f}" for ratio in each["over_fastdp_csv"].values())
        print(
            f"  {name:<22}{each['seconds']:>9.2f}{each['cpu_seconds']:>9.2f}{each['peak_mb']:>9.0f}{ratios}"
        )
    if not options.no_save:
        load = machine["load_average"]
        keep(
            "reading",
            {
                "load_average_at_start": load,
                "rows": options.rows,
                "other_checkout": commit,
                "figures": best,
            },
        )


if __name__ == "__main__":
    main()

"""The whole job: taxi Parquet in, synthetic Parquet out, as a process of its own; its time,
memory and scores.

    python -m bench.job                   1M and 10M simulated trips, epsilon 1 and 10: seconds by stage
    python -m bench.job scores --seeds 5  deid2 scores with tight and with classic noise, mean, 95 % interval
    python -m bench.job chicago           the real Chicago trips tiled to 10M rows

No peer does the whole job; the published code needs over ten minutes for fit and sampling at 10M
rows.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastdp
from fastdp.mechanisms.recipe import load as recipe_of

from . import machine

ROOT = Path(__file__).resolve().parents[1]
CHICAGO = ROOT.parent / "shared" / "data" / "taxi-chicago-2022" / "trips.parquet"


def synth(
    data: Path, public: Path | None, out: Path, epsilon: float, mechanism: str, *more: str
) -> dict:
    """Runs the command line; seconds by the wall clock, of the processor, by stage, and the
    process's peak memory."""
    command = [
        sys.executable,
        "-m",
        "fastdp",
        "synth",
        str(data),
        "-m",
        mechanism,
        "-e",
        f"{epsilon:g}",
    ]
    command += ["-d", "2.5e-5", "--out", str(out), "--quiet", *more]
    if public is not None:
        command += ["--public", str(public)]
    environment = installed()
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    kept = json.loads(Path(f"{out}.private", "timings.json").read_text())
    stages = next(iter(kept["seconds"].values()))
    peak = kept["peak_bytes"] / 1e9
    return {"seconds": seconds, "processor": processor, "stages": stages, "peak_gb": peak}


@functools.cache
def installed() -> dict[str, str]:
    """The environment of packages as pip installs them, with compiled bytecode, also where this one
    forbids Python to write it: a run of 10,000 rows compiles what is imported."""
    folder = tempfile.mkdtemp(prefix="fastdp-bytecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
    pq.write_table(fastdp.simulate.taxi(10_000, seed=1, year=2020), f"{folder}/few.parquet")
    command = [
        sys.executable,
        "-m",
        "fastdp",
        "synth",
        f"{folder}/few.parquet",
        "-m",
        "taxi-adagrid",
        "-e",
        "1",
    ]
    command += ["-d", "2.5e-5", "--out", f"{folder}/few", "--quiet", "--ignore-empty-columns"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return environment


def show(name: str, record: dict) -> None:
    stages = "  ".join(f"{k} {v:.1f}" for k, v in record["stages"].items())
    cost = f"{record['seconds']:6.1f} s ({record['processor']:.1f} of the processor)"
    print(f"{name:<28} {cost}  {record['peak_gb']:5.2f} GB   {stages}", flush=True)


def times(folder: Path, most: int) -> dict:
    records = {}
    for rows in (most // 10, most):
        data = folder / f"trips-{rows}.parquet"
        public = folder / f"public-{rows}.parquet"
        pq.write_table(fastdp.simulate.taxi(rows, seed=1, year=2020), data)
        pq.write_table(fastdp.simulate.taxi(rows // 4, seed=2, year=2019), public)
        for epsilon in (1.0, 10.0):
            name = f"{rows:,} rows, epsilon {epsilon:g}"
            records[name] = synth(
                data, public, folder / f"run-{rows}-{epsilon:g}", epsilon, "taxi-adagrid"
            )
            show(name, records[name])
    return records


def chicago(folder: Path) -> dict:
    """Each copy of the real file gets taxis of its own."""
    if not CHICAGO.exists():
        sys.exit(f"{CHICAGO} is not here")
    real = pq.read_table(CHICAGO)
    data = folder / "chicago.parquet"
    with pq.ParquetWriter(data, real.schema) as writer:
        at = real.schema.get_field_index("taxi_id")
        for i in range(-(-10_000_000 // real.num_rows)):
            ids = pa.compute.binary_join_element_wise(
                real["taxi_id"], *(pa.scalar(t, real["taxi_id"].type) for t in (str(i), "-"))
            )
            writer.write_table(real.set_column(at, "taxi_id", ids.cast(real["taxi_id"].type)))
    record = synth(data, None, folder / "chicago", 1.0, "mst", "--schema", "taxi-chicago")
    show("Chicago tiled to 10M, mst", record)
    return {"chicago": record}


def scores(folder: Path, rows: int, seeds: int) -> dict:
    """Scores of runs that differ in their noise alone."""
    truth = folder / "truth.parquet"
    public = folder / "public.parquet"
    pq.write_table(fastdp.simulate.taxi(rows, seed=1, year=2020), truth)
    pq.write_table(fastdp.simulate.taxi(rows // 4, seed=2, year=2019), public)
    schema = fastdp.Schema.load("taxi-deid2")
    tables = [fastdp.read(str(p), schema, public=q) for p, q in ((truth, False), (public, True))]
    plain = recipe_of("taxi-adagrid")
    figures = {}
    for calibration in ("gdp", "classic-rdp"):
        for epsilon in (1.0, 10.0):
            recipe = {"mechanism": "adagrid", **plain.fields, "calibration": calibration}
            got = []
            for seed in range(seeds):
                run = fastdp.synthesize(
                    tables[0],
                    recipe,
                    epsilon,
                    2.5e-5,
                    public=tables[1],
                    seed=seed,
                    sample_seed=seed,
                )
                deid2 = fastdp.evaluate(
                    tables[0], run.data, schema=schema, metrics=["deid2"], baselines=()
                )["deid2"]
                got.append([deid2[k] for k in KEYS])
            mean = np.mean(got, axis=0)
            if seeds == 5:
                half = 2.776 * np.std(got, axis=0, ddof=1) / np.sqrt(seeds)
            else:
                half = np.std(got, axis=0)
            name = f"{calibration}, epsilon {epsilon:g}"
            figures[name] = {k: [float(m), float(h)] for k, m, h in zip(KEYS, mean, half)}
            print(
                f"{name:<24} " + "  ".join(f"{m:.4f} +- {h:.4f}" for m, h in zip(mean, half)),
                flush=True,
            )
    return figures


KEYS = ("k_marginal_score", "pickup_dropoff_score", "higher_order_conjunction")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", default="times", choices=("times", "scores", "chicago"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fastdp-job-"))
    try:
        if options.what == "scores":
            print("mean and half of the 95 % interval of " + ", ".join(KEYS))
            figures = scores(folder, options.rows, options.seeds)
        else:
            figures = times(folder, options.rows) if options.what == "times" else chicago(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.no_save:
        machine.keep(f"job-{options.what}", {"rows": options.rows, "found": figures})
    print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()

"""The two-round mechanism on a simulated state of the 1940 census: nist2018 scores, time and
memory.

    python -m bench.census [scores] [--rows 660000] [--epsilon 0.3 1 8] [--calibration gdp] [--seeds
    1] python -m bench.census wide [--rows 20000]

`scores`: the recipe census-tworound (98 columns, the published list of round 2) at delta 2.28e-12.
Each run is a process of its own, so that its peak of memory is its own; scoring comes after and is
not counted. A 1 % and a 10 % sample of the truth are scored beside. `wide`: 110 columns without a
recipe, the marginals of round 2 chosen privately, and from public data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import fastdp
from fastdp.mechanisms import recipe
from fastdp.tables.table import Table

from . import machine, wide

DELTA = 2.28e-12
PARTS = ("score", "three_way", "conjunctions", "income")


def one(rows: int, epsilon: float, calibration: str, seed: int, folder: Path) -> dict:
    """One run from the table in memory to the written folder, in this process; scored
    afterwards."""
    table = fastdp.simulate.census(rows, seed=1)
    base = recipe.load("census-tworound")
    fields = {
        "mechanism": base.mechanism,
        "schema": base.schema,
        **base.fields,
        "calibration": calibration,
    }
    before = machine.peak_mb()
    start = time.perf_counter()
    run = fastdp.synthesize(table, fields, epsilon, DELTA, sample_seed=seed, out=folder)
    seconds = time.perf_counter() - start
    peak = machine.peak_mb()
    made = run.data
    parts = fastdp.evaluate(table, made, metrics=["nist2018"], schema=run.schema, baselines=())[
        "nist2018"
    ]
    about = run.privacy["mechanism"]
    model = run.model
    return {
        "epsilon": epsilon,
        "calibration": calibration,
        "seconds": seconds,
        "stages": dict(run.timings),
        "peak_gb": peak / 1024,
        "before_gb": before / 1024,
        "rows": made.num_rows,
        "model_cells": sum(model.domain.cells(n.axes) for n in model.nodes),
        "iterations": model.iterations,
        "measured": len(about["round2"]),
        "left_out": about["left_out"],
        "inferred": about["inferred"],
        "nist2018": {k: parts[k] for k in PARTS},
    }


def show(name: str, scores: dict, rest: str = "") -> None:
    print(
        f"{name:<28} " + "  ".join(f"{k} {scores[k]:.4f}" for k in PARTS) + f"   {rest}", flush=True
    )


def samples(rows: int) -> dict:
    """Random rows of the truth, scored like a synthetic table: not private, for comparison."""
    table = fastdp.simulate.census(rows, seed=1)
    schema = fastdp.Schema.load("census1940")
    out = {}
    for share in (0.01, 0.1):
        pick = np.random.default_rng(0).choice(rows, int(rows * share), replace=False)
        parts = fastdp.evaluate(
            table, table.take(pick), metrics=["nist2018"], schema=schema, baselines=()
        )["nist2018"]
        out[f"{share:.0%} sample"] = {k: parts[k] for k in PARTS}
        show(f"{share:.0%} sample, not private", parts)
    return out


def scores(options: argparse.Namespace) -> dict:
    figures: dict = {"samples": samples(options.rows), "runs": []}
    for calibration in options.calibration:
        for epsilon in options.epsilon:
            for seed in range(options.seeds):
                with tempfile.TemporaryDirectory(prefix="fastdp-census-") as folder:
                    command = [
                        sys.executable,
                        "-m",
                        "bench.census",
                        "one",
                        "--rows",
                        str(options.rows),
                    ]
                    command += [
                        "--epsilon",
                        str(epsilon),
                        "--calibration",
                        calibration,
                        "--seeds",
                        str(seed),
                    ]
                    command += ["--folder", str(Path(folder) / "run")]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                run = json.loads(done.stdout.splitlines()[-1])
                figures["runs"].append(run)
                save(options, figures)  # after each run: a long one may be cut short
                stages = "  ".join(f"{k} {v:.1f}" for k, v in run["stages"].items())
                show(
                    f"epsilon {epsilon:g}, {calibration}",
                    run["nist2018"],
                    f"{run['seconds']:.1f} s, {run['peak_gb']:.2f} GB ({run['before_gb']:.2f}"
                    f" before), {run['model_cells']:,} cells, {run['measured']} marginals,"
                    f" {len(run['left_out'])} left out; {stages}",
                )
    return figures


def wide_table(options: argparse.Namespace) -> dict:
    """110 columns, each depending on one of the six before it; the private choice, then the public
    one."""
    figures = {}
    tables = []
    for seed, public in ((0, False), (1, True)):
        domain, codes, tree = wide.codes(options.rows, rows_seed=seed)
        tables.append(Table.from_codes(domain, codes, public=public))
    truth = fastdp.marginals(tables[0], tree)
    for name, public in (("private choice", None), ("public choice", tables[1])):
        start = time.perf_counter()
        run = fastdp.synthesize(tables[0], "tworound", 1.0, 1e-9, public=public, sample_seed=1)
        made = fastdp.read(run.data, tables[0].schema, public=True)
        seconds = time.perf_counter() - start
        ours = fastdp.marginals(made, tree)
        gap = np.mean(
            [np.abs(truth[p] / tables[0].rows - ours[p] / made.rows).sum() / 2 for p in tree]
        )
        figures[name] = {"seconds": seconds, "mean_variation_of_the_tree": float(gap)}
        print(
            f"{name:<16} {seconds:6.1f} s   mean total variation of the true tree's pairs"
            f" {gap:.4f}",
            flush=True,
        )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", default="scores", choices=("scores", "wide", "one"))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 8.0])
    parser.add_argument("--calibration", nargs="+", default=["gdp"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    options.rows = options.rows or (20_000 if options.what == "wide" else 660_000)
    if options.what == "one":
        run = one(
            options.rows, options.epsilon[0], options.calibration[0], options.seeds, options.folder
        )
        print(json.dumps(run))
        return
    save(options, scores(options) if options.what == "scores" else wide_table(options))


def save(options: argparse.Namespace, figures: dict) -> None:
    if not options.no_save:
        machine.keep(f"census-{options.what}", {"rows": options.rows, "found": figures})


if __name__ == "__main__":
    main()

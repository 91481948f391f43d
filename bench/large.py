"""Large models: does the cost of an oracle call grow linearly with cells, and does one of 100
million cells fit?

    python -m bench.large [--cells 2500000 10000000 40000000 100000000] [--calls 12] [--converge
    100000000]

Three cliques that share two attributes (as AdaGrid's share pickup and shift), identity measurements
of a skewed distribution with a standard deviation of 40 rows a cell in a billion rows. Each size
runs in a process of its own. `--converge` fits the model of that size down to the noise level.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from . import machine

RESULTS = Path(__file__).parent / "results"
TOTAL = 1e9
"""Rows."""
SIGMA = 40.0
"""Standard error of a measured cell, in rows."""


def problem(cells: int, seed: int = 0):
    """(domain, measurements) with about `cells` cells in three cliques (a, b, c), (a, b, d), (a, b,
    e)."""
    from fastdp.measurement import Measurement

    rng = np.random.default_rng(seed)
    n = round((cells / 3) ** (1 / 3))
    domain = dict.fromkeys("abcde", n)
    base = rng.gamma(0.5, size=(n, n))
    base *= TOTAL / base.sum()
    asked = []
    for last in "cde":
        # a tenth of the pairs (a, b) follow a law of their own, the rest that of their a: real but
        # compressible dependence
        law = rng.gamma(0.5, size=(n, n)) + 1e-3
        table = np.repeat(law[:, None, :], n, axis=1)
        own = rng.random((n, n)) < 0.1
        table[own] = rng.gamma(0.5, size=(int(own.sum()), n)) + 1e-3
        table *= (base / table.sum(axis=2))[:, :, None]
        for row in table:
            row += rng.normal(0, SIGMA, row.shape)
        asked.append(Measurement(("a", "b", last), table.reshape(-1), SIGMA))
    return domain, asked


def run(cells: int, calls: int, converge: bool, tables: str) -> dict:
    import fastdp

    domain, asked = problem(cells)
    before = machine.peak_mb()
    started = time.perf_counter()
    options = {"stop": "noise"} if converge else {"stop": "iters", "iters": calls}
    model = fastdp.fit(domain, asked, total=TOTAL, tables=tables, **options)
    spent = time.perf_counter() - started
    steps = np.diff(np.array(model.trace), axis=0)
    per_call = steps[:, 2] / steps[:, 0]
    rows = sum(m.values.size for m in asked)
    return {
        "cells": model.cells,
        "calls": model.iterations,
        "seconds": spent,
        "setup": spent - model.trace[-1][2],
        "per_call": float(np.median(per_call)),
        "best_call": float(per_call.min()),
        "ns_per_cell": 1e9 * float(per_call.min()) / model.cells,
        "loss_over_noise_level": model.loss / (rows / 2),
        "first_loss_over_noise_level": model.trace[0][1] / (rows / 2),
        "ended": model.ended,
        "measurements_gb": before / 1e3,
        "peak_gb": machine.peak_mb() / 1e3,
        "tables": tables,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="*", default=[2_500_000, 10_000_000, 40_000_000])
    parser.add_argument("--calls", type=int, default=12)
    parser.add_argument("--converge", type=int, nargs="*", default=[100_000_000])
    parser.add_argument("--tables", default="float64", choices=("float64", "float32"))
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(options.one, options.calls, bool(options.converge), options.tables)))
        return
    records = {}
    for cells, converge in [(c, False) for c in options.cells] + [
        (c, True) for c in options.converge
    ]:
        load = machine.describe()["load_average"]
        command = [
            sys.executable,
            "-m",
            "bench.large",
            f"--one={cells}",
            f"--calls={options.calls}",
        ]
        command += [f"--tables={options.tables}", "--converge", *(["1"] if converge else [])]
        done = subprocess.run(
            command, cwd=Path(__file__).parents[1], capture_output=True, text=True
        )
        name = f"{cells}{' to the noise level' if converge else ''}"
        if done.returncode:
            records[name] = {"error": done.stderr.strip().splitlines()[-1:]}
        else:
            records[name] = json.loads(done.stdout) | {"load": load}
        print(name, records[name], flush=True)
        if not options.no_save:
            kept = {"machine": machine.describe(), "found": records}
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / "large.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()

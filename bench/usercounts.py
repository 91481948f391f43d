"""User counts: sprint 1 scores over seeds with intervals, and 10M events of 1M people against
Polars.

    python -m bench.usercounts        scores at epsilon 1, 2, 10: 5 seeds of data and noise
    python -m bench.usercounts reach  the whole command, Parquet to run folder: time, memory, ratio to Polars

Public data is a simulated year before, relabelled, of the same size or as `--public` says. The
challenge's delta is 1/n^2 for n = 285,786 people; the simulator has as many in 800,000 calls.
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
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

import fastdp
from fastdp import simulate
from fastdp.mechanisms import recipe as recipes
from fastdp.metrics.challenges.sprint1 import MIN_TYPE_SHARE, TYPES, rows_score

from . import machine

EPSILONS = (1.0, 2.0, 10.0)
DELTA = 1.2244024187236405e-11
COLUMNS = ("neighborhood", "year", "month", "incident_type")

# What the statement says of each is in `epsilon for`: a user's, or one user's rows of one group.
WAYS = {
    "published (per group)": ("incidents-usercounts", {"unit": "event"}),
    "published, per user": ("incidents-usercounts", {}),
    "per user, at most 3 groups": ("incidents-usercounts", {"cap": 3}),
    "hierarchy, groups measured alone": (
        "incidents-hierarchy",
        {"prior": False, "totals": "unmeasured"},
    ),
    "hierarchy": ("incidents-hierarchy", {"prior": False}),
    "hierarchy with public data": ("incidents-hierarchy", {}),
}


def counts(table: pa.Table) -> np.ndarray:
    """int64 [neighborhood and month, type] of a table of calls or a histogram of them."""
    n, _, m, i = (table[c].to_numpy().astype(np.int64) for c in COLUMNS)
    weights = table["count"].to_numpy() if "count" in table.column_names else None
    cells = np.bincount((n * 12 + m - 1) * TYPES + i, weights=weights, minlength=278 * 12 * TYPES)
    return np.rint(cells).astype(np.int64).reshape(-1, TYPES)


def false_share(truth: np.ndarray, made: np.ndarray) -> float:
    """Of the types shown with 5 % of their place and month or more, the part that truly has
    less."""
    shown, real = (
        (x > 0) & (x >= MIN_TYPE_SHARE * x.sum(axis=1, keepdims=True)) for x in (made, truth)
    )
    return float((shown & ~real).sum() / max(1, shown.sum()))


def fields_of(name: str, more: dict) -> dict:
    fields = {"mechanism": "usercounts", **recipes.load(name).fields, **more}
    if fields.get("totals") == "unmeasured":
        levels = recipes.load(name).fields["totals"]
        fields["totals"] = [{"columns": t["columns"], "share": 0.0} for t in levels]
    return fields


def scores(rows: int, seeds: int, part: float) -> dict:
    schema = fastdp.Schema.load("incidents-deid2")
    got: dict[str, list] = {}
    for seed in range(seeds):
        calls = simulate.incidents(rows, seed=seed, year=2019)
        before = simulate.incidents(round(part * rows), seed=seed + 100, year=2018)
        year = before.column_names.index("year")
        before = before.set_column(year, "year", pa.array(np.full(before.num_rows, 2019, np.int16)))
        table = fastdp.read(calls, schema)
        public = fastdp.read(before, schema, public=True)
        truth = counts(calls)
        got.setdefault("last year's data as they are", []).append(
            [
                [
                    rows_score(truth, np.rint(counts(before) / part)).mean(),
                    false_share(truth, counts(before)),
                ]
            ]
            * len(EPSILONS)
        )
        for name, (recipe, more) in WAYS.items():
            runs = fastdp.synthesize(
                table,
                fields_of(recipe, more),
                EPSILONS,
                DELTA,
                public=public,
                seed=seed,
                sample_seed=seed,
            )
            made = [counts(r.data) for r in runs]
            got.setdefault(name, []).append(
                [[rows_score(truth, m).mean(), false_share(truth, m)] for m in made]
            )
    print(
        f"sprint 1 score, mean and half of its 95 % interval over {seeds} seeds; in brackets the"
        " share of false presences"
    )
    print(f"{'':<32}" + "".join(f"{f'epsilon {e:g}':>26}" for e in EPSILONS))
    figures = {}
    for name, values in got.items():
        a = np.array(values)
        half = stats.t.ppf(0.975, seeds - 1) * a.std(axis=0, ddof=1) / np.sqrt(seeds)
        mean = a.mean(axis=0)
        cells = [f"{m[0]:.4f} +- {h[0]:.4f} ({m[1]:.2f})" for m, h in zip(mean, half, strict=True)]
        print(f"{name:<32}" + "".join(f"{c:>26}" for c in cells), flush=True)
        figures[name] = {
            "score": mean[:, 0].tolist(),
            "half": half[:, 0].tolist(),
            "false": mean[:, 1].tolist(),
        }
    return {"rows": rows, "seeds": seeds, "epsilons": EPSILONS, "found": figures}


def people(rows: int, users: int) -> pa.Table:
    """Simulated calls, the residents folded onto so many people."""
    calls = simulate.incidents(rows, seed=1)
    who = np.unique(calls["sim_resident"].to_numpy(), return_inverse=True)[1] % users
    return calls.set_column(0, "sim_resident", pa.array(who.astype(np.int64)))


POLARS = """
import sys, time, polars as pl
g = ["neighborhood", "year", "month", "incident_type"]
t = time.perf_counter()
d = pl.read_parquet(sys.argv[1], columns=["sim_resident", *g])
d = d.group_by("sim_resident", *g).len().rename({"len": "T"}).group_by(*g, "T").len()
print(time.perf_counter() - t, d.height)
"""

COUNT = """
import sys, time, fastdp
from fastdp.engines.local import local
from fastdp.userkeys import Groups
g = ["neighborhood", "year", "month", "incident_type"]
s = fastdp.Schema.load("incidents-deid2")
t = time.perf_counter()
d = fastdp.read(sys.argv[1], s)
u = time.perf_counter()
local(d).user_histogram(Groups(g, 2).bind(s.domain), 20)
print(u - t, time.perf_counter() - u)
"""


def reach(rows: int, users: int) -> dict:
    figures: dict = {"rows": rows, "users": users}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "calls.parquet")
        public = Path(folder, "public.parquet")
        pq.write_table(people(rows, users), data)
        pq.write_table(simulate.incidents(rows // 20, seed=2), public)
        best: dict[str, float] = {}
        for turn in range(2):
            out = Path(folder, f"run{turn}")
            command = [
                sys.executable,
                "-m",
                "fastdp",
                "synth",
                str(data),
                "-m",
                "incidents-usercounts",
            ]
            command += [
                "-e",
                "1",
                "-d",
                f"{DELTA}",
                "--public",
                str(public),
                "--out",
                str(out),
                "--quiet",
            ]
            start = time.perf_counter()
            subprocess.run(command, check=True)
            whole = time.perf_counter() - start
            kept = json.loads(Path(f"{out}.private", "timings.json").read_text())
            figures["peak_gb"] = kept["peak_bytes"] / 1e9
            scripts = [
                subprocess.run(
                    [sys.executable, "-c", s, str(data)], check=True, capture_output=True, text=True
                )
                for s in (POLARS, COUNT)
            ]
            polars = float(scripts[0].stdout.split()[0])
            reading, counting = (float(x) for x in scripts[1].stdout.split())
            now = {
                "command": whole,
                "read": reading,
                "count": counting,
                "polars read and group_by": polars,
            }
            best = {k: min(v, best.get(k, v)) for k, v in now.items()}
    figures["seconds"] = best
    figures["ratio to polars"] = (best["read"] + best["count"]) / best["polars read and group_by"]
    for name, seconds in best.items():
        print(f"{name:<28} {seconds:6.2f} s")
    print(f"{'read and count / polars':<28} {figures['ratio to polars']:6.2f}")
    print(f"{'peak memory of the command':<28} {figures['peak_gb']:6.2f} GB")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", default="scores", choices=("scores", "reach"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--public", type=float, default=1.0, help="rows of public data, as a part of the private"
    )
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    if options.what == "scores":
        figures = scores(options.rows or 800_000, options.seeds, options.public)
    else:
        rows = options.rows or 10_000_000
        figures = reach(rows, rows // 10)
    if not options.no_save:
        if options.what == "reach" or options.public == 1.0:
            part = ""
        else:
            part = f"-public-{options.public:g}"
        machine.keep(f"usercounts-{options.what}{part}", figures)


if __name__ == "__main__":
    main()

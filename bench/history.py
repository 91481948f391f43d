"""Processor time of the work that README quotes, kept by date and machine, and what became slower.

    python -m bench.history [--quick] [--no-save]

Every gauge is one thread's work, run several times in turns with a yardstick (a sort and a sum in
numpy); its figure is the least processor time over the yardstick's least, so that a machine that is
busy or slower today says so in both. A file in bench/results/history holds the machine, the build
and all figures. What is more than 15 % above the median of the last five files of the same machine
and size is measured again, and named if it stays so. `make bench` runs this after the benches
themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from . import machine

FOLDER = machine.RESULTS / "history"
ROOT = Path(__file__).resolve().parents[1]
SLOWER = 1.15
"""A ratio above this, to the median of earlier figures, is called slower."""
EARLIER = 5
"""How many earlier files are looked at."""
Gauge = Callable[[], Any]


def yardstick() -> Gauge:
    values = np.random.default_rng(0).integers(0, 1 << 62, 300_000)
    return lambda: (np.sort(values), np.cumsum(values))


def gauges(folder: Path, rows: int) -> dict[str, Gauge]:
    """The pieces by name, each ready to run. `rows`: of simulated taxi trips."""
    import pyarrow.parquet as pq

    import fastdp
    from fastdp.domain import downward_closure
    from fastdp.model.sampler import Sampler
    from fastdp.privacy import noise

    from . import counting, fits_problems, tables
    from .measurements import make, to_fastdp
    from .peers_counting import PEERS
    from .sampling import tree

    trips = folder / "trips.parquet"
    public = folder / "public.parquet"
    pq.write_table(fastdp.simulate.taxi(rows, seed=1, year=2020), trips)
    pq.write_table(fastdp.simulate.taxi(rows // 4, seed=2, year=2019), public)
    schema = fastdp.Schema.load("taxi-deid2")
    counting.simulated(rows, folder)
    domain = json.loads((folder / "domain.json").read_text())
    codes = {name: np.load(folder / f"{name}.npy") for name in domain}
    user = np.load(folder / "user.npy")
    weight = np.load(folder / "weight.npy")
    count = PEERS["fastdp-1-thread"](domain, codes, user, weight)
    cliques = downward_closure(counting.OUTER)
    problem = make("adagrid", 1.0, "gdp", rows)
    measured = to_fastdp(problem)
    sampler = Sampler(problem.domain, tree(problem))
    following = fits_problems.tree_problem("following", fits_problems.following(50_000), 1.0, 0)
    wide = tables.factors(rows=10_000, columns=12)
    return {
        "Parquet to codes (bench.encode)": lambda: fastdp.read(trips, schema, threads=1),
        "59 weighted marginals (bench.counting)": lambda: count(cliques),
        "a million Gaussian samples (bench.noise)": lambda: noise.gaussian(
            100.0, 1_000_000, threads=1
        ),
        "20 calls of the estimator (bench.estimator)": lambda: fastdp.fit(
            problem.domain, measured, stop="iters", iters=20, threads=1
        ),
        "a fit of whole marginals (bench.fits)": lambda: fastdp.fit(
            following.table.domain, following.measurements, threads=1
        ),
        "a million rows sampled (bench.sampling)": lambda: sampler.draw(
            1_000_000, seed=1, threads=1
        ),
        "the whole job (bench.job)": lambda: (
            fastdp.synthesize(
                trips, "taxi-adagrid", 1.0, 2.5e-5, public=public, seed=1, sample_seed=1, threads=1
            ).data
        ),
        "cliquetree on a table (bench.tables)": lambda: tables.made_by("cliquetree", wide, 1.0, 1),
    }


def spent(work: Gauge) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measured(work: Gauge, yard: Gauge, times: int) -> dict[str, float]:
    """Least processor seconds of the work and of the yardstick, taken in turns, and their ratio."""
    work()  # what is made only once
    own = []
    other = []
    for _ in range(times):
        other.append(min(spent(yard) for _ in range(3)))
        own.append(spent(work))
    return {"seconds": min(own), "yardstick": min(other), "ratio": min(own) / min(other)}


def key(entry: dict) -> tuple:
    """Files that may be compared have the same key."""
    about = entry["machine"]
    return about["processor"], about["architecture"], about["cores"], entry["rows"]


def earlier(folder: Path, entry: dict) -> list[dict]:
    """The last files of the same machine and size, oldest first."""
    kept = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    return [old for old in kept if key(old) == key(entry)][-EARLIER:]


def slower(figures: dict[str, dict], before: list[dict]) -> dict[str, float]:
    """By how much a gauge is above the median of what it was, where that is more than allowed."""
    out = {}
    for name, figure in figures.items():
        old = [entry["gauges"][name]["ratio"] for entry in before if name in entry["gauges"]]
        if old and figure["ratio"] > SLOWER * statistics.median(old):
            out[name] = figure["ratio"] / statistics.median(old)
    return out


def commit() -> str | None:
    """The commit that was measured, with a + where files differ from it; None outside a
    repository."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "--short=12", "HEAD")
    if name:
        return name + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    return None


def main(arguments: list[str] | None = None) -> None:
    from fastdp.engines.build import build

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="few rows: a minute of a quiet processor"
    )
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args(arguments)
    rows, times = (100_000, 3) if options.quick else (1_000_000, 7)
    entry: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ"),
        "machine": machine.describe(),
        "commit": commit(),
        "build": dict(build()),
        "rows": rows,
        "gauges": {},
    }
    before = earlier(FOLDER, entry)
    yard = yardstick()
    with tempfile.TemporaryDirectory() as folder:
        pieces = gauges(Path(folder), rows)
        for name, work in pieces.items():
            entry["gauges"][name] = figure = measured(work, yard, times)
            print(
                f"{name:<46} {figure['seconds']:8.4f} s {figure['ratio']:8.2f} yardsticks",
                flush=True,
            )
        for name in slower(entry["gauges"], before):
            again = measured(pieces[name], yard, 2 * times)
            entry["gauges"][name] = min(
                again, entry["gauges"][name], key=lambda figure: figure["ratio"]
            )
    entry["load_after"] = round(os.getloadavg()[0], 2)
    print(f"compared with {len(before)} earlier results of this machine and size")
    for name, ratio in slower(entry["gauges"], before).items():
        print(f"SLOWER: {name}: {ratio:.2f} times the median of before")
    if not options.no_save:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{entry['date']}.json").write_text(json.dumps(entry, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

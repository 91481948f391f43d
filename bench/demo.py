"""`make demo`: a million simulated taxi trips in, private synthetic trips out, scored against the
truth.

Then the same on the real Chicago trips where they are at hand (../shared/data). Everything goes to
demo-out/.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console

import fastdp
from fastdp.cli.show import progress_for

console = Console(highlight=False, soft_wrap=True)

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "demo-out"
CHICAGO = ROOT.parent / "shared" / "data" / "taxi-chicago-2022" / "trips.parquet"
ROWS = 1_000_000


def main(rows: int = ROWS, out: Path = OUT) -> None:
    """Runs both parts; `rows` of the simulated one."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    pages = [simulated(rows, out)]
    if CHICAGO.exists():
        pages.append(chicago(out))
    shown = os.path.relpath(out)
    console.print("\n[bold]What to look at[/bold]")
    for page in pages:
        console.print(f"  {os.path.relpath(page)}  (uses the private data: do not release)")
    console.print(
        f"  {shown}/taxi/privacy.json   the promise, recomputed by: fastdp verify {shown}/taxi"
    )
    console.print(f"  {shown}/taxi/synthetic.parquet   the synthetic trips, with synthetic taxis")
    console.print(f"  {shown}/taxi/measurements.pq   every noisy answer with its standard error")


def simulated(rows: int, out: Path) -> Path:
    console.print(
        f"[bold]1. {rows:,} simulated taxi trips[/bold], and another year's as public data"
    )
    truth = out / "trips-2020.parquet"
    public = out / "trips-2019.parquet"
    pq.write_table(fastdp.simulate.taxi(rows, seed=1, year=2020), truth)
    pq.write_table(fastdp.simulate.taxi(rows, seed=2, year=2019), public)
    console.print(
        "   fastdp synth trips-2020.parquet -m taxi-adagrid -e 1 -d 2.5e-5 --public"
        " trips-2019.parquet"
    )
    run = synthesize(truth, "taxi-adagrid", public, out / "taxi", schema=None)
    return score(truth, run, out / "taxi.private" / "report.html", ["deid2", "original"])


def chicago(out: Path) -> Path:
    console.print(
        "\n[bold]2. The real Chicago trips of two days in 2022[/bold] (34,092 trips: little data"
        " for epsilon 1)"
    )
    recipe = {
        "mechanism": "mst",
        "clip": 30,
        "ids": {"source": "private", "share": 0.05},
    }
    run = synthesize(
        CHICAGO, recipe, None, out / "chicago", schema=fastdp.Schema.load("taxi-chicago")
    )
    return score(CHICAGO, run, out / "chicago.private" / "report.html", None)


def synthesize(source: Path, mechanism, public: Path | None, out: Path, schema) -> fastdp.Run:
    start = time.perf_counter()
    with progress_for(not sys.stderr.isatty(), "auto") as progress:
        run = fastdp.synthesize(
            str(source),
            mechanism,
            1.0,
            2.5e-5,
            schema=schema,
            public=None if public is None else str(public),
            progress=progress,
            out=out,
        )
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in run.timings.items())
    console.print(
        f"   {run.dataset.count_rows():,} rows in {time.perf_counter() - start:.1f} s ({stages})"
    )
    fastdp.verify(out)
    return run


def score(truth: Path, run: fastdp.Run, page: Path, metrics: list[str] | None) -> Path:
    from fastdp._util.files import synthetic_path
    from fastdp.cli.show import scores_table

    scores = fastdp.evaluate(
        str(truth),
        str(synthetic_path(run.out)),
        schema=run.schema,
        metrics=metrics,
        report=str(page),
        run=run,
    )
    scores_table(scores, None)
    return page


if __name__ == "__main__":
    main()

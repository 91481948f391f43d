"""`make demo`: a million simulated taxi trips in, private synthetic trips out, scored against the
truth.

Then the same on the real Chicago trips where they are at hand (../shared/data). Everything goes to
demo-out/.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow.parquet as pq

import fastdp
from fastdp.cli.show import progress_for

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "demo-out"
CHICAGO = ROOT.parent / "shared" / "data" / "taxi-chicago-2022" / "trips.parquet"
ROWS = 1_000_000


def main(rows: int = ROWS, out: Path = OUT) -> None:
    """Runs both parts; `rows` of the simulated one. Every step says what it does before it starts."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    pages = [simulated(rows, out)]
    if CHICAGO.exists():
        pages.append(chicago(out))
    shown = os.path.relpath(out)
    print("\nMade:")
    print(f"  {shown}/taxi/synthetic.parquet   the synthetic trips, with synthetic taxis")
    print(f"  {shown}/taxi/privacy.json        the promise; check it: fastdp verify {shown}/taxi")
    print(f"  {shown}/taxi/measurements.pq     every noisy answer with its standard error")
    for page in pages:
        print(f"  {os.path.relpath(page)}   uses the private data: do not release it")
    print("\nOpen the report:\n")
    print(f"  {opener()} {os.path.relpath(pages[0])}")


def opener() -> str:
    """The command that opens a page in the browser of this system."""
    names = ("xdg-open", "open", "wslview")
    return next((name for name in names if shutil.which(name)), "python3 -m webbrowser -t")


def step(text: str) -> None:
    """Say what is done next, at once: the demo may write to a pipe."""
    print(f"   {text} ...", flush=True)


def simulated(rows: int, out: Path) -> Path:
    print(f"1. {rows:,} simulated taxi trips, and another year's as public data")
    truth = out / "trips-2020.parquet"
    public = out / "trips-2019.parquet"
    step("simulating them")
    pq.write_table(fastdp.simulate.taxi(rows, seed=1, year=2020), truth)
    pq.write_table(fastdp.simulate.taxi(rows, seed=2, year=2019), public)
    print(
        "   fastdp synth trips-2020.parquet -m taxi-adagrid -e 1 -d 2.5e-5 --public"
        " trips-2019.parquet"
    )
    run = synthesize(truth, "taxi-adagrid", public, out / "taxi", schema=None)
    return score(truth, run, out / "taxi.private" / "report.html", ["deid2", "original"])


def chicago(out: Path) -> Path:
    print(
        "\n2. The real Chicago trips of two days in 2022 (34,092 trips: little data for epsilon 1)"
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
    with progress_for(False, "auto") as progress:
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
    print(f"   {run.dataset.count_rows():,} rows in {time.perf_counter() - start:.1f} s ({stages})")
    step("checking the statement")
    fastdp.verify(out)
    return run


def score(truth: Path, run: fastdp.Run, page: Path, metrics: list[str] | None) -> Path:
    from fastdp._util.files import synthetic_path
    from fastdp.cli.show import scores_table

    step("comparing with the true trips")
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

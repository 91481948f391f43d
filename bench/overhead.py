"""What one call of the estimator costs beside its work on cells: a tree of pairs over 15 columns,
from hardly any cells to 10,000.

    python -m bench.overhead [--method accelerated]

A call is one step of mirror descent on one thread, in processor time, so that other programs hardly
matter. `inside` is the time in the compiled step (`Engine.move`), `outside` everything else:
Python, and the vectors of the loss. With hardly any cells there is no work on cells, so that the
overhead of a call with many cells is at most its `outside` (where vectors count as overhead) and
the `inside` of the smallest. Beside it: a whole fit of 14 pairs over 15 columns at epsilon 1 by the
method that `fit` takes by itself.
"""

from __future__ import annotations

import argparse
import time
from typing import ClassVar

import numpy as np

import fastdp
from fastdp.estimate.descent import descent_solver

from . import machine

COLUMNS = 15
SIZES = (2, 8, 16, 27)
ORACLE_CALLS = 300
ROUNDS = 7


def problem(size: int, sigma: float) -> tuple[dict[str, int], list[fastdp.Measurement]]:
    """A chain of pairs: 14 size^2 cells; every pair is measured cell by cell."""
    rng = np.random.default_rng(size)
    domain = {f"c{i}": size for i in range(COLUMNS)}
    names = list(domain)
    values = [
        rng.random(size * size) ** 2 * 10_000 / size + rng.normal(0, sigma, size * size)
        for _ in names
    ]
    pairs = zip(names, names[1:], values)
    return domain, [fastdp.Measurement((a, b), v, sigma) for a, b, v in pairs]


class Timed(descent_solver.Engine):  # type: ignore[misc]
    """The engine, with the processor seconds of its steps."""

    seconds: ClassVar[list[float]] = []

    def move(self, *arguments):
        begin = time.thread_time()
        answer = super().move(*arguments)
        Timed.seconds.append(time.thread_time() - begin)
        return answer


def stepped(domain: dict[str, int], asked: list[fastdp.Measurement], method: str) -> tuple:
    """(the model after some steps, processor seconds from the first of them on)."""
    marks: list[float] = []
    model = fastdp.fit(
        domain,
        asked,
        total=10_000.0,
        threads=1,
        method=method,
        stop="iters",
        iters=ORACLE_CALLS,
        callback=lambda *_: marks.append(time.thread_time()),
    )
    return model, marks[-1] - marks[0]


def call(size: int, method: str) -> dict[str, float]:
    """Microseconds of a call, in all and inside, each the least of several fits' means; and its
    cells."""
    domain, asked = problem(size, 5.0)
    whole = np.inf
    inside = np.inf
    cells = 0
    kept = descent_solver.Engine
    for timed in (False, True) * ROUNDS:
        Timed.seconds = []
        descent_solver.Engine = Timed if timed else kept
        try:
            model, seconds = stepped(domain, asked, method)
        finally:
            descent_solver.Engine = kept
        cells = model.cells
        if timed:
            inside = min(inside, 1e6 * float(np.mean(Timed.seconds)))
        else:
            whole = min(whole, 1e6 * seconds / (model.iterations - 1))
    return {"cells": cells, "whole": whole, "inside": inside}


def fitted(size: int) -> float:
    """Milliseconds of processor time of a whole fit, least of several."""
    domain, asked = problem(size, 30.0)
    best = np.inf
    for _ in range(ROUNDS):
        begin = time.process_time()
        fastdp.fit(domain, asked, total=10_000.0, threads=1)
        best = min(best, time.process_time() - begin)
    return 1e3 * best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--method", default="accelerated", choices=("accelerated", "mirror-descent")
    )
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    calls = [call(size, options.method) for size in SIZES]
    least = calls[0]["inside"]
    print(" cells   us a call   inside   outside   overhead at most")
    for entry in calls:
        entry["outside"] = max(0.0, entry["whole"] - entry["inside"])
        entry["overhead"] = entry["outside"] + least
        line = "{cells:6}   {whole:9.1f}   {inside:6.1f}   {outside:7.1f}   {overhead:16.1f}"
        print(line.format(**entry))
    fit = fitted(8)
    print(f"a whole fit of {14 * 64} cells: {fit:.1f} ms")
    if not options.no_save:
        machine.keep("overhead", {"method": options.method, "calls": calls, "fit_ms": fit})


if __name__ == "__main__":
    main()

"""What threads can do for one call of the estimator: every piece of its work timed, and the
forecast for many cores.

    python -m bench.threads [--rows 1000000] [--threads 1 2]

The inference kernels are built once more, in a folder of their own, with bench/trace_team.h put
before them: it notes the time of every piece of a step. A call on one thread then gives, step by
step, how long the pieces take that threads share, and everything that only one thread does.
`forecast` deals the pieces out as the team does, the next one to whoever is free first, and waits
for the last one at the end of a step; it knows nothing of memory that cores share. Beside it: whole
fits as they are shipped, measured with as many threads as asked for. On a machine that others use,
run it before all others (`chrt -f 50 python -m bench.threads`, for seconds only).
"""

from __future__ import annotations

import argparse
import ctypes
import heapq
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from . import machine
from .measurements import load, prepare, to_fastdp

ROOT = Path(__file__).parents[1]
FORECAST = (1, 2, 4, 8, 16)
FITS = 3
FIXED_CALLS = {"stop": "iters", "iters": 40, "method": "accelerated"}
BARRIER = 2e-6  # seconds for all to have seen the end of a phase, where they run and spin
LOOPS = ("clear", "copy", "inside", "ratios", "rescale", "slices up", "deliver", "down")


def build(folder: Path):
    """The module fastdp._core.infer with notes, and a function that takes them."""
    for name in ("fastdp", "csrc"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    kernel = folder / "csrc" / "infer.c"
    kernel.write_text(f'#include "{ROOT / "bench" / "trace_team.h"}"\n' + kernel.read_text())
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, "FASTDP_EXT": "infer"},
        check=True,
        capture_output=True,
    )
    (library,) = (folder / "fastdp" / "_core").glob("infer.*.so")
    spec = importlib.util.spec_from_file_location("fastdp._core.infer", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    take = ctypes.CDLL(str(library)).fdp_trace_take
    take.restype = ctypes.c_int64

    def notes() -> np.ndarray:
        address = ctypes.c_void_p()
        length = take(ctypes.byref(address))
        raw = ctypes.string_at(address, length * 24) if length else b""
        return np.frombuffer(raw, np.int64).reshape(-1, 3).copy()

    return module, notes


def phases(notes: np.ndarray) -> list[list[tuple[str, float]]]:
    """(what, seconds) of every piece, by step. What is done between two steps is one thread's:
    "alone"."""
    parts: list[list[tuple[str, float]]] = []
    for (kind, _, start), (_, _, end) in zip(notes[:-1].tolist(), notes[1:].tolist()):
        if kind == 0:
            parts.append([])
        parts[-1].append(("alone" if kind == 0 else LOOPS[kind - 1], (end - start) * 1e-9))
    return [phase for phase in parts if phase]


def forecast(work: list[list[tuple[str, float]]], threads: int) -> float:
    """Seconds of the phases where `threads` threads take the pieces, each as soon as it is free."""
    total = 0.0
    for phase in work:
        free = [0.0] * threads
        for _, seconds in phase:
            heapq.heapreplace(free, free[0] + seconds)
        total += max(free) + (BARRIER if threads > 1 else 0.0)
    return total


def timed(problem, total: float, asked, threads: int, tables: str) -> float:
    """Seconds of one call: the best of several fits' medians."""
    import fastdp

    best = float("inf")
    for _ in range(FITS):
        model = fastdp.fit(
            problem.domain, asked, total=total, threads=threads, tables=tables, **FIXED_CALLS
        )
        steps = np.diff(np.array(model.trace), axis=0)
        best = min(best, float(np.median(steps[:, 2] / steps[:, 0])))
    return best


def profile(module, notes, problem, total: float, asked) -> tuple[list, float]:
    """The phases of the median step on one thread, and the seconds of a call that are outside of
    it."""
    import fastdp
    from fastdp.estimate.descent import descent_solver, optimisers

    taken: list[tuple[float, np.ndarray]] = []

    class Traced(module.Engine):
        def move(self, *arguments):
            notes()
            begin = time.perf_counter()
            answer = super().move(*arguments)
            taken.append((time.perf_counter() - begin, notes()))
            return answer

    kept = descent_solver.Engine
    descent_solver.Engine = Traced
    average = optimisers.average
    optimisers.average = module.average
    try:
        model = fastdp.fit(problem.domain, asked, total=total, threads=1, **FIXED_CALLS)
    finally:
        descent_solver.Engine = kept
        optimisers.average = average
    steps = np.diff(np.array(model.trace), axis=0)
    call = float(np.median(steps[:, 2] / steps[:, 0]))
    seconds, record = sorted(taken, key=lambda pair: pair[0])[len(taken) // 2]
    return phases(record), max(0.0, call - seconds)


def report(name: str, work: list, outside: float, measured: dict[int, float]) -> dict:
    by_kind: dict[str, list[float]] = {}
    for phase in work:
        for what, seconds in phase:
            by_kind.setdefault(what, []).append(seconds)
    whole = sum(map(sum, by_kind.values())) + outside
    print(f"\n{name}: {1e3 * whole:.2f} ms a call on one thread, {len(work)} phases")
    for what, seconds in sorted(by_kind.items(), key=lambda item: -sum(item[1])):
        share = sum(seconds) / whole
        longest = max(seconds)
        print(
            f"  {what:12} {100 * share:6.2f} %  {len(seconds):5} pieces, the longest"
            f" {1e6 * longest:7.1f} us"
        )
    print(
        f"  outside      {100 * outside / whole:6.2f} %  (Python, and vectors too short for a team)"
    )
    ahead = {n: forecast(work, n) + outside for n in FORECAST}
    print("  threads   forecast   times faster   measured   times faster")
    for n in sorted({*ahead, *measured}):
        if n in ahead:
            line = f"  {n:7} {1e3 * ahead[n]:8.2f} ms {ahead[1] / ahead[n]:11.2f}"
        else:
            line = f"  {n:7} {'':22}"
        if n in measured:
            line += f"   {1e3 * measured[n]:8.2f} ms {measured[min(measured)] / measured[n]:9.2f}"
        print(line)
    return {
        "phases": len(work),
        "outside": outside,
        "by_kind": {k: [len(v), sum(v), max(v)] for k, v in by_kind.items()},
        "forecast": ahead,
        "measured": measured,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument(
        "--threads", type=int, nargs="*", default=sorted({1, 2, os.cpu_count() or 1})
    )
    parser.add_argument(
        "--only", choices=("identity", "adagrid"), nargs="*", default=("identity", "adagrid")
    )
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        module, notes = build(Path(folder))
        for kind, epsilon in (("identity", 10.0), ("adagrid", 1.0)):
            if kind not in options.only:
                continue
            problem = load(prepare(options.rows, [(kind, epsilon, "gdp")])[0])
            asked = to_fastdp(problem)
            total = float(problem.weighted[0].sum())
            work, outside = profile(module, notes, problem, total, asked)
            measured = {
                n: timed(problem, total, asked, n, "float64") for n in sorted(options.threads)
            }
            results[kind] = report(f"{kind} at epsilon {epsilon:g}", work, outside, measured)
    if not options.no_save:
        alone = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
        machine.keep(
            "threads", {"rows": options.rows, "before_all_others": alone, "found": results}
        )


if __name__ == "__main__":
    main()

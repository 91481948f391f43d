"""The estimator against its peers on the same measurements of simulated taxi rows.

    python -m bench.estimator [--rows 10000000] [--seconds 60] [--only adagrid-eps1] [--calibration gdp|classic]

Each contestant runs in a process of its own (peak memory is that process's), one after another, on one problem at
a time: identity queries at epsilon 10, AdaGrid queries at epsilon 1 and 10, a tree of 110 columns. Losses are
evaluated by `Problem.loss` for all. The last table times sampling. Results go to `bench/out/estimator.json`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from . import measurements, wide
from .measurements import OUT, Problem, load, prepare

__all__ = ["Problem", "load", "prepare", "run_fastdp", "to_fastdp"]

PEERS = ["mbi accelerated", "mbi mirror descent", "mbi interior gradient", "mbi dual averaging"]
PATIENCE = 900  # seconds for one contestant with all its building and compiling
CONTESTANTS = ["fastdp", "private-pgm", *PEERS]


def to_fastdp(problem: Problem) -> list:
    """The problem as `fastdp.Measurement`s: identity, or structured AdaGrid queries."""
    import fastdp
    from fastdp.queries import AdaGrid, Grid

    from .adagrid_queries import children

    grids: dict[tuple[str, ...], Grid] = {}
    out = []
    for m in problem.measured:
        query = None
        if m.fine is not None:
            below = tuple(grids[c] for c in children(m.clique))
            shape = problem.domain.shape(m.clique)
            grids[m.clique] = Grid(m.clique, shape, np.flatnonzero(m.fine), below)
            query = AdaGrid(grids[m.clique])
        out.append(fastdp.Measurement(m.clique, m.y, m.sigma, query))
    return out


def run_fastdp(problem: Problem, total: float, iterations: int, seconds: float):
    """(model, record) of `fastdp.fit`, run to convergence (`stop="tol"`) like the peers."""
    import fastdp

    started = time.perf_counter()
    asked = to_fastdp(problem)
    build = time.perf_counter() - started
    losses: list[float] = []
    times: list[float] = []
    begin = time.perf_counter()

    def callback(iteration, loss, elapsed):
        losses.append(float(loss))
        times.append(time.perf_counter() - begin)

    model = fastdp.fit(problem.domain, asked, total=total, stop="tol", iters=iterations, callback=callback)
    spent = time.perf_counter() - begin
    tables = {c: np.asarray(model.marginal(c)).ravel() for c in problem.outer}
    losses.append(problem.loss(tables))
    times.append(spent)
    return model, {
        "method": "fastdp",
        "build": build,
        "compile": 0.0,
        "per_iteration": spent / max(1, model.iterations),
        "iterations": model.iterations,
        "loss": losses,
        "seconds": times,
    }


def run_private_pgm(problem: Problem, total: float, iterations: int, seconds: float):
    from . import reference_pgm

    objective = reference_pgm.Objective(problem)
    _, trace = reference_pgm.mirror_descent(problem, total, iterations, seconds, objective)
    return None, {
        "method": "private-pgm",
        "build": objective.build_seconds,
        "compile": 0.0,
        "per_iteration": trace.seconds[-1] / (trace.calls - 1),
        "iterations": trace.calls - 1,
        "loss": trace.loss,
        "seconds": trace.seconds,
    }


def run_one(contestant: str, problem: Problem, iterations: int, seconds: float) -> dict:
    total = float(problem.weighted[0].sum())
    if contestant == "fastdp":
        _, record = run_fastdp(problem, total, iterations, seconds)
    elif contestant == "private-pgm":
        _, record = run_private_pgm(problem, total, iterations, seconds)
    else:
        from . import peers_mbi

        _, record = peers_mbi.fit(problem, contestant.removeprefix("mbi "), total, iterations, seconds)
    return record


def sample_one(contestant: str, problem: Problem, rows: int) -> dict:
    total = float(problem.weighted[0].sum())
    if contestant != "fastdp":
        from . import peers_mbi

        return peers_mbi.sample(problem, total, rows, contestant == "mbi extension")
    import fastdp

    model = fastdp.fit(problem.domain, to_fastdp(problem), total=total, stop="iters", iters=20)
    best = float("inf")
    for seed in range(3):
        started = time.perf_counter()
        model.sample(rows, seed=seed)
        best = min(best, time.perf_counter() - started)
    return {"seconds": best}


def in_child(arguments: list[str]) -> dict:
    """Run this module in a child; its record, with the child's peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "record.json")
        command = [sys.executable, "-m", "bench.estimator", "--child", str(answer), *arguments]
        try:
            done = subprocess.run(
                command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {PATIENCE} s"}
        if done.returncode != 0:
            return {"error": done.stderr.strip().splitlines()[-1:]}
        return json.loads(answer.read_text())


def child(options: argparse.Namespace) -> None:
    problem = load(options.problem)
    if options.sample:
        record = sample_one(options.one, problem, options.sample)
    else:
        record = run_one(options.one, problem, options.iterations, options.seconds)
    record["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    Path(options.child).write_text(json.dumps(record))


def time_to(record: dict, target: float) -> float | None:
    """Seconds until the loss was at most `target`."""
    reached = (s for s, value in zip(record["seconds"], record["loss"], strict=True) if value <= target)
    return next(reached, None)


def report(name: str, truth: float, records: dict[str, dict]) -> None:
    peers = [r for c, r in records.items() if c != "fastdp" and "error" not in r]
    target = min((r["loss"][-1] for r in peers), default=float("inf"))
    print(f"\n{name}: loss of the true marginals {truth:.4g}, best peer's last loss {target:.4g}")
    print(f"{'':24}{'s/iteration':>12}{'compile':>9}{'build':>8}{'last loss':>12}{'after s':>9}", end="")
    print(f"{'s to own target':>17}{'s of fastdp to it':>19}{'peak MB':>9}")
    ours = records.get("fastdp", {"error": "not run"})
    for contestant, r in records.items():
        if "error" in r:
            print(f"{contestant:24}  failed: {r['error']}")
            continue
        last = r["loss"][-1]
        own, mine = time_to(r, last), None if "error" in ours else time_to(ours, last)
        print(
            f"{contestant:24}{r['per_iteration']:12.4f}{r['compile']:9.1f}{r['build']:8.1f}{last:12.5g}"
            f"{r['seconds'][-1]:9.1f}{own:17.2f}{mine if mine is not None else float('nan'):19.3f}"
            f"{r['peak_mb']:9.0f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=60, help="time of each peer's fit")
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--calibration", choices=measurements.SIGMA, default="gdp")
    parser.add_argument("--only", help="one problem, e.g. adagrid-eps1")
    parser.add_argument("--contestants", nargs="*", default=CONTESTANTS)
    parser.add_argument("--no-sampling", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--problem", help=argparse.SUPPRESS)
    parser.add_argument("--sample", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    wanted = [
        (k, e, options.calibration) for k, e in (("identity", 10.0), ("adagrid", 1.0), ("adagrid", 10.0))
    ]
    limits = [f"--seconds={options.seconds}", f"--iterations={options.iterations}"]
    results: dict[str, dict] = {}
    for path in [*prepare(options.rows, wanted), wide.prepare()]:
        if options.only and not path.stem.startswith(options.only):
            continue
        problem = load(path)
        truth = problem.loss(dict(zip(problem.outer, problem.weighted, strict=True)))
        results[path.stem] = {
            c: in_child([f"--one={c}", f"--problem={path}", *limits]) for c in options.contestants
        }
        report(path.stem, truth, results[path.stem])
    if not options.no_sampling:
        print("\nsampling, seconds")
        for rows in (1_000_000, 10_000_000):
            for contestant in ("fastdp", "mbi", "mbi extension"):
                path = measurements.path_of("identity", 10.0, options.calibration, options.rows)
                record = in_child([f"--one={contestant}", f"--problem={path}", f"--sample={rows}", *limits])
                results[f"sample {rows} {contestant}"] = record
                print(f"{rows:>12,} {contestant:14} {record}", flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "estimator.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

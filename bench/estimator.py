"""The estimator against its peers on the same measurements of simulated taxi rows.

    python -m bench.estimator [--rows 10000000] [--seconds 60] [--only adagrid-eps1 sampling]

Each contestant runs in a process of its own with all cores, one after another, on one problem at a
time: identity queries of the seven outer marginals at epsilon 10, AdaGrid queries at epsilon 1 and
10, a tree of 110 columns. Losses are those of `Problem.loss` for all. Then the loss that
Private-PGM's published fit has after 600 iterations, and sampling.

What the columns mean: *set-up* is everything before the first iteration but compiling (building
matrices, planning the tree); a *call* is one belief propagation with its gradient, for fastdp the
best of several fits' medians, for the peers the median after compilation (mbi: of an iteration,
which holds one call, in mirror descent two); fastdp's *iteration* holds a little more than one call
where it has to search for a step; *memory* is the process's peak before anything is evaluated, and
*own* memory what that is above the loaded problem; *time to a loss* counts set-up, and compilation
is left out in the peer's favour.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from . import machine, measurements, reference_pgm, wide
from .measurements import Problem, load, prepare, to_fastdp

OURS = ["fastdp", "fastdp float32"]
PEERS = ["mbi accelerated", "mbi mirror descent", "private-pgm"]
EXTRA = ["mbi interior gradient", "mbi dual averaging"]
PATIENCE = 900  # seconds for one contestant with all its building and compiling
FITS = 5  # that are timed
CALLS = 40  # of the oracle, in each of these fits
MOST = 400  # oracle calls of the fit towards convergence
PUBLISHED = 600  # iterations of the published fit at epsilon 1


def run_fastdp(problem: Problem, total: float, tables: str) -> dict:
    """Seconds by oracle call from several short fits, then one fit to convergence."""
    import fastdp

    started = time.perf_counter()
    asked = to_fastdp(problem)
    build = time.perf_counter() - started

    def fit(**options):
        begin = time.perf_counter()
        model = fastdp.fit(problem.domain, asked, total=total, tables=tables, **options)
        return model, time.perf_counter() - begin

    per_call = []
    per_iteration = []
    setups = []
    cpu = []
    peak = 0.0
    for _ in range(FITS):
        ticks: list[float] = []
        model, spent = fit(
            stop="iters",
            iters=CALLS,
            callback=lambda *_, ticks=ticks: ticks.append(time.process_time()),
        )
        cpu.append((ticks[-1] - ticks[0]) / (model.trace[-1][0] - model.trace[0][0]))
        peak = peak or machine.peak_mb()
        steps = np.diff(np.array(model.trace), axis=0)
        per_call.append(float(np.median(steps[:, 2] / steps[:, 0])))
        per_iteration.append((model.trace[-1][2] - model.trace[0][2]) / (len(model.trace) - 1))
        setups.append(spent - model.trace[-1][2])
    model, spent = fit(stop="tol", iters=MOST)
    own = [loss for _, loss, _ in model.trace]
    common = problem.loss({c: np.asarray(model.marginal(c)).ravel() for c in problem.outer})
    noise, noise_spent = fit(stop="noise")
    setup = build + min(setups)
    return {
        "setup": setup,
        "compile": 0.0,
        "per_call": min(per_call),
        "per_call_all": per_call,
        "per_iteration": min(per_iteration),
        "cpu_per_call": min(cpu),
        "calls": model.iterations,
        "calls_per_iteration": model.iterations / len(model.trace),
        "ended": model.ended,
        "loss": [*own, common],
        "seconds": [*(setup + s for _, _, s in model.trace), setup + model.trace[-1][2]],
        "to_noise": {"calls": noise.iterations, "seconds": build + noise_spent, "loss": noise.loss},
        "whole_fit": build + spent,
        "peak_mb": peak,
    }


def run_private_pgm(problem: Problem, total: float, iterations: int, seconds: float) -> dict:
    """The numpy twin, for as long as it may; and where the same rule leads in `PUBLISHED`
    iterations."""
    started = time.perf_counter()
    objective = reference_pgm.Objective(problem)
    start = reference_pgm.one_ways(problem, total)
    slow = reference_pgm.Slow(objective, total, start)
    setup = time.perf_counter() - started
    begun = time.process_time()
    calls = slow.calls
    trace = reference_pgm.descend(slow, iterations, seconds)
    cpu = (time.process_time() - begun) / (slow.calls - calls)
    peak = machine.peak_mb()
    del slow, objective
    per_call = [
        (b - a) / n
        for a, b, n in zip(
            trace.seconds, trace.seconds[1:], np.diff(trace.calls).tolist(), strict=False
        )
    ]
    record = {
        "setup": setup,
        "compile": 0.0,
        "per_call": statistics.median(per_call),
        "per_iteration": trace.seconds[-1] / len(trace.loss),
        "cpu_per_call": cpu,
        "calls": trace.calls[-1],
        "calls_per_iteration": trace.calls[-1] / len(trace.loss),
        "loss": trace.loss,
        "seconds": [setup + s for s in trace.seconds],
        "peak_mb": peak,
    }
    if problem.fine:
        far = reference_pgm.descend(reference_pgm.Fast(problem, total, start), PUBLISHED)
        n = min(20, len(trace.loss))
        record["published"] = {
            "iterations": PUBLISHED,
            "loss": far.loss[-1],
            "calls": far.calls[-1],
            "seconds": setup + far.calls[-1] * record["per_call"],
            "twins_differ_by": max(
                abs(a / b - 1) for a, b in zip(trace.loss[:n], far.loss[:n], strict=True)
            ),
        }
    return record


def run_one(contestant: str, problem: Problem, iterations: int, seconds: float) -> dict:
    total = float(problem.weighted[0].sum())
    if contestant in OURS:
        return run_fastdp(problem, total, "float32" if contestant.endswith("32") else "float64")
    if contestant == "private-pgm":
        return run_private_pgm(problem, total, iterations, seconds)
    from . import peers_mbi

    return peers_mbi.fit(problem, contestant.removeprefix("mbi "), total, iterations, seconds)[1]


def sample_one(contestant: str, problem: Problem, rows: int) -> dict:
    total = float(problem.weighted[0].sum())
    if contestant != "fastdp":
        from . import peers_mbi

        return peers_mbi.sample(problem, total, rows, contestant == "mbi extension")
    import fastdp

    model = fastdp.fit(problem.domain, to_fastdp(problem), total=total, stop="iters", iters=CALLS)
    model.sample(1000, seed=0)
    best = float("inf")
    for seed in range(FITS):
        started = time.perf_counter()
        model.sample(rows, seed=seed)
        best = min(best, time.perf_counter() - started)
    return {"seconds": best}


def in_child(arguments: list[str]) -> dict:
    """Run this module in a child; its record, with its peak memory in MB and the load when it
    began."""
    load_average = machine.describe()["load_average"]
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "record.json")
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "bench.estimator",
            "--child",
            str(answer),
            *arguments,
        ]
        root = Path(__file__).parents[1]
        try:
            done = subprocess.run(
                command, cwd=root, capture_output=True, text=True, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {PATIENCE} s"}
        if done.returncode != 0:
            return {"error": done.stderr.strip().splitlines()[-1:]}
        return json.loads(answer.read_text()) | {"load": load_average}


def child(options: argparse.Namespace) -> None:
    problem = load(options.problem)
    before = machine.peak_mb()
    if options.sample:
        record = sample_one(options.one, problem, options.sample)
    else:
        record = run_one(options.one, problem, options.iterations, options.seconds)
    record.setdefault("peak_mb", machine.peak_mb())
    record["own_mb"] = record["peak_mb"] - before
    Path(options.child).write_text(json.dumps(record))


def time_to(record: dict, target: float) -> float | None:
    """Seconds, with set-up, until the loss was at most `target`."""
    reached = (
        s for s, value in zip(record["seconds"], record["loss"], strict=True) if value <= target
    )
    return next(reached, None)


def compare(truth: float, records: dict[str, dict]) -> dict:
    """The ratios of one problem: peer over fastdp, so more is better."""
    ok = {c: r for c, r in records.items() if "error" not in r}
    out: dict = {"loss_of_the_truth": truth}
    mbi = {c: r for c, r in ok.items() if c.startswith("mbi")}
    for name in (c for c in OURS if c in ok):
        ours = ok[name]
        ratios = {}
        if mbi:
            fastest = min(mbi, key=lambda c: mbi[c]["per_call"])
            ratios["per call, mbi's fastest"] = mbi[fastest]["per_call"] / ours["per_call"]
            ratios["per iteration, mbi's fastest"] = (
                mbi[fastest]["per_call"] / ours["per_iteration"]
            )
            ratios["processor time per call, mbi's fastest"] = (
                mbi[fastest]["cpu_per_call"] / ours["cpu_per_call"]
            )
            ratios["memory, mbi's least"] = (
                min(r["peak_mb"] for r in mbi.values()) / ours["peak_mb"]
            )
            ratios["own memory, mbi's least"] = (
                min(r["own_mb"] for r in mbi.values()) / ours["own_mb"]
            )
            best = min(mbi, key=lambda c: mbi[c]["loss"][-1])
            our_time = time_to(ours, mbi[best]["loss"][-1])
            theirs = mbi[best]["seconds"][-1]
            ratios["to mbi's best loss"] = theirs / our_time if our_time else None
            ratios["to mbi's best loss, with its compilation"] = (
                (theirs + mbi[best]["compile"]) / our_time if our_time else None
            )
            ratios["to mbi's best loss, without its set-up"] = (
                (theirs - mbi[best]["setup"]) / our_time if our_time else None
            )
        pgm = ok.get("private-pgm")
        if pgm:
            ratios["per call, Private-PGM"] = pgm["per_call"] / ours["per_call"]
            ratios["processor time per call, Private-PGM"] = (
                pgm["cpu_per_call"] / ours["cpu_per_call"]
            )
            ratios["memory, Private-PGM"] = pgm["peak_mb"] / ours["peak_mb"]
            if "published" in pgm:
                our_time = time_to(ours, pgm["published"]["loss"])
                ratios["to the published fit's loss"] = (
                    pgm["published"]["seconds"] / our_time if our_time else None
                )
                ratios["seconds to the published fit's loss"] = our_time
        out[name] = ratios
    return out


def report(name: str, records: dict[str, dict], ratios: dict) -> None:
    print(f"\n{name}: loss of the true marginals {ratios['loss_of_the_truth']:.5g}")
    print(
        f"{'':24}{'ms/call':>9}{'set-up':>8}{'compile':>9}{'calls':>7}{'last loss':>12}{'after s':>9}",
        end="",
    )
    print(f"{'peak MB':>9}{'load':>6}")
    for contestant, r in records.items():
        if "error" in r:
            print(f"{contestant:24}  failed: {r['error']}")
            continue
        print(
            f"{contestant:24}{1e3 * r['per_call']:9.1f}{1e3 * r['cpu_per_call']:8.1f}{r['setup']:8.2f}"
            f"{r['compile']:9.1f}{r['calls']:7}{r['loss'][-1]:12.5g}{r['seconds'][-1]:9.1f}"
            f"{r['peak_mb']:9.0f}{r['load']:6.1f}"
        )
        if "published" in r:
            p = r["published"]
            print(
                f"{'':24}as published, {p['iterations']} iterations: {p['calls']} calls, loss"
                f" {p['loss']:.5g}, {p['seconds']:.0f} s (calls times seconds a call); twins differ"
                f" by {p['twins_differ_by']:.1e}"
            )
        if "to_noise" in r:
            p = r["to_noise"]
            print(
                f"{'':24}to the noise level: {p['calls']} calls, {p['seconds']:.2f} s, loss"
                f" {p['loss']:.5g}"
            )
    for ours in (o for o in OURS if o in ratios):
        print(f"  {ours}, times better: ", end="")
        shown = {k: v for k, v in ratios[ours].items() if not k.startswith("seconds")}
        print(
            "; ".join(f"{k} {v:.1f}" if v else f"{k} not reached" for k, v in shown.items()),
            flush=True,
        )


def sampling(path: Path, limits: list[str]) -> dict:
    records: dict[str, dict] = {}
    print("\nsampling, seconds")
    for rows in (1_000_000, 10_000_000):
        for contestant in ("fastdp", "mbi", "mbi extension"):
            if rows > 1_000_000 and contestant == "mbi":
                continue  # over two minutes
            record = in_child(
                [f"--one={contestant}", f"--problem={path}", f"--sample={rows}", *limits]
            )
            records[f"{rows} {contestant}"] = record
            ours = records[f"{rows} fastdp"].get("seconds", float("nan"))
            ratio = record.get("seconds", float("nan")) / ours
            print(f"{rows:>12,} {contestant:14} {ratio:8.1f} x  {record}", flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=60, help="time of each peer's fit")
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--calibration", choices=measurements.SIGMA, default="gdp")
    parser.add_argument(
        "--only", nargs="*", help="problems by name, e.g. adagrid-eps1, or sampling"
    )
    parser.add_argument("--contestants", nargs="*", default=[*OURS, *PEERS])
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--problem", help=argparse.SUPPRESS)
    parser.add_argument("--sample", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    limits = [f"--seconds={options.seconds}", f"--iterations={options.iterations}"]
    kept = machine.RESULTS / "estimator.json"
    results: dict = json.loads(kept.read_text()) if kept.exists() else {}

    def keep(name: str, figures: dict) -> None:
        if not options.no_save:
            results[name] = {"machine": machine.describe(), "rows": options.rows, **figures}
            kept.write_text(json.dumps(results, indent=1) + "\n")

    wanted = [("identity", 10.0), ("adagrid", 1.0), ("adagrid", 10.0)]
    names = {
        measurements.path_of(k, e, options.calibration, options.rows).stem: (k, e)
        for k, e in wanted
    }
    for name in [*names, "wide"]:
        if options.only and not any(
            name == o or name == f"{o}-{options.rows}" for o in options.only
        ):
            continue
        if name == "wide":
            path = wide.prepare()
        else:
            path = prepare(options.rows, [(*names[name], options.calibration)])[0]
        problem = load(path)
        truth = problem.loss(dict(zip(problem.outer, problem.weighted, strict=True)))
        records = {
            c: in_child([f"--one={c}", f"--problem={path}", *limits]) for c in options.contestants
        }
        ratios = compare(truth, records)
        report(name, records, ratios)
        for r in records.values():
            _thin(r)
        keep(name, {"contestants": records, "times_better": ratios})
    if not options.only or "sampling" in options.only:
        path = prepare(options.rows, [("identity", 10.0, options.calibration)])[0]
        keep("sampling", {"contestants": sampling(path, limits)})


def _thin(record: dict, points: int = 40) -> None:
    """Keeps some points of a long trace, the first and the last among them."""
    for key in ("loss", "seconds"):
        if key in record:
            at = np.unique(np.linspace(0, len(record[key]) - 1, points).round().astype(int))
            record[key] = [round(record[key][i], 4) for i in at]


if __name__ == "__main__":
    main()

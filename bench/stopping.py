"""Where should a fit stop? Scores of 10M sampled rows against the truth, by stopping rule, over
seeds of the noise.

    python -m bench.stopping [--rows 10000000] [--seeds 5] [--epsilon 1 10] [--calibration gdp
    classic]

The rules, all on the same AdaGrid measurements of simulated trips:

    flow       the default of `adagrid`: along the mirror flow, to a little below the noise level
    noise      single attributes to their noise level, then pairs with them, and so on, to the loss that the
               noise explains (discrepancy principle)
    twice      `noise`, and then as many oracle calls again
    tol        on towards convergence (tolerance 1e-6, at most 600 calls)
    entropy    `noise` by plain mirror descent
    published  the doubling-step mirror descent of the published method, 600 iterations (`reference_pgm`)

Scores are deid2's k-marginal and pickup-dropoff scores of as many sampled rows as the measurements
say there are. Means with 95 % intervals (Student's t over the seeds), and the same of the
difference to `published` seed by seed. What the results file already holds is not fitted again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import fastdp
from fastdp.estimate.total import estimate_total

from . import machine, measurements, reference_pgm
from .measurements import DOMAIN, OUT, Problem, to_fastdp

RESULTS = Path(__file__).parent / "results"
RULES = ("flow", "noise", "twice", "tol", "entropy", "published")
SCORES = ("k_marginal_score", "pickup_dropoff_score")


def truth_codes(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Codes of the simulated trips, cached."""
    path = OUT / f"codes-{rows}-{seed}.npz"
    if not path.exists():
        from fastdp import simulate

        codes, _ = measurements.taxi_codes(simulate.taxi(rows, seed=seed))
        measurements.save_arrays(path, codes)
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in DOMAIN}


def score(truth: dict[str, np.ndarray], model, rows: int, seed: int) -> list[float]:
    """deid2's two scores of rows sampled from the model."""
    from fastdp._util.threads import resolve
    from fastdp.metrics.challenges import deid2

    rows_of = (truth, model.sample(rows, seed=seed))
    pickup, shift, dropoff = (
        [side[n] for side in rows_of] for n in (deid2.PICKUP, deid2.SHIFT, deid2.DROPOFF)
    )
    prepared = deid2.Prepared(
        pickups=list(range(DOMAIN[deid2.PICKUP])),
        shifts=list(range(DOMAIN[deid2.SHIFT])),
        pickup=pickup,
        shift=shift,
        dropoff=dropoff,
        columns=[[side[n] for n in deid2.PAIRED] for side in rows_of],
        sizes=np.array([DOMAIN[n] for n in deid2.PAIRED], np.int32),
        taxi=(None, None),
        threads=resolve(None),
    )
    scores = prepared.score(detail=False)
    return [scores[k] for k in SCORES]


def fit_by(rule: str, problem: Problem, asked: list, total: float, noise_calls: int):
    """The model a rule ends at."""
    if rule == "published":
        point = reference_pgm.Fast(problem, total, reference_pgm.one_ways(problem, total))
        reference_pgm.descend(point, 600)
        return point.model()
    if rule == "twice":
        first = fastdp.fit(problem.domain, asked, total=total, method="accelerated")
        return fastdp.fit(
            problem.domain, asked, total=total, warm_start=first, stop="iters", iters=noise_calls
        )
    options = {
        "flow": {"stop": "refined"},
        "noise": {"stop": "noise", "method": "accelerated"},
        "tol": {"stop": "tol", "iters": 600},
        "entropy": {"stop": "noise", "method": "mirror-descent", "iters": 1500},
    }[rule]
    return fastdp.fit(problem.domain, asked, total=total, **options)


def one(
    problem: Problem, truth: dict[str, np.ndarray], seed: int, rules, ends: dict[str, dict]
) -> None:
    """Adds scores, loss, calls and seconds of every rule that is not in `ends`."""
    asked = to_fastdp(problem)
    total = estimate_total(problem.domain, asked)[0]
    calls = ends["noise"]["calls"] if "noise" in ends else 0
    for rule in (r for r in rules if r not in ends):
        started = time.perf_counter()
        model = fit_by(rule, problem, asked, total, calls)
        spent = time.perf_counter() - started
        calls = model.iterations if rule == "noise" else calls
        scores = score(truth, model, round(total), seed)
        ends[rule] = {
            "scores": scores,
            "loss": model.loss,
            "rows_measured_half": sum(m.y.size for m in problem.measured) / 2,
            "calls": model.iterations,
            "ended": model.ended,
            "seconds": spent,
        }
        print(
            f"  seed {seed} {rule:10} loss {model.loss:9.0f} {model.iterations:5} calls"
            f" {spent:6.1f} s   " + "  ".join(f"{s:.4f}" for s in scores),
            flush=True,
        )


def interval(values: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and half of the 95 % interval over the first axis."""
    from scipy.stats import t

    n = len(values)
    if n > 1:
        half = t.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)
    else:
        half = np.full(2, np.nan)
    return values.mean(axis=0).tolist(), half.tolist()


def summarise(runs: list[dict[str, dict]]) -> dict[str, dict]:
    out = {}
    for rule in (r for r in RULES if all(r in run for run in runs)):
        got = np.array([run[rule]["scores"] for run in runs])
        mean, half = interval(got)
        out[rule] = {
            "mean": mean,
            "half": half,
            "loss": float(np.mean([r[rule]["loss"] for r in runs])),
        }
        if "published" in runs[0] and rule != "published":
            gap = got - np.array([run["published"]["scores"] for run in runs])
            out[rule]["above_published"], out[rule]["above_published_half"] = interval(gap)
    return out


def show(name: str, ends: dict[str, dict]) -> None:
    print(
        f"\n{name}: mean and half of the 95 % interval of k-marginal, pickup-dropoff; difference to"
        " published"
    )
    for rule, f in ends.items():
        line = "   ".join(f"{m:.4f} +- {h:.4f}" for m, h in zip(f["mean"], f["half"], strict=True))
        if "above_published" in f:
            pairs = zip(f["above_published"], f["above_published_half"], strict=True)
            line += "      " + "   ".join(f"{m:+.4f} +- {h:.4f}" for m, h in pairs)
        print(f"  {rule:10} loss {f['loss']:9.0f}   {line}", flush=True)


def across(results: dict, epsilon: float) -> None:
    """The default calibration by the default rule against the published noise and method."""
    ours, theirs = (
        results["settings"].get(f"{c}, epsilon {epsilon:g}") for c in ("gdp", "classic")
    )
    if not (ours and theirs):
        return
    both = zip(ours["runs"], theirs["runs"], strict=False)
    n = sum("flow" in first and "published" in other for first, other in both)
    if not n:
        return
    gap = np.array(
        [
            np.subtract(ours["runs"][i]["flow"]["scores"], theirs["runs"][i]["published"]["scores"])
            for i in range(n)
        ]
    )
    mean, half = interval(gap)
    results["default_above_published"][f"epsilon {epsilon:g}"] = {
        "mean": mean,
        "half": half,
        "seeds": n,
    }
    line = "   ".join(f"{m:+.4f} +- {h:.4f}" for m, h in zip(mean, half, strict=True))
    print(
        f"\nepsilon {epsilon:g}: default (tight noise, flow) above published (classic noise):"
        f" {line}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--from-seed", type=int, default=0, help="with --out: seeds that nothing was chosen by"
    )
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 10.0])
    parser.add_argument(
        "--calibration", nargs="*", default=["classic", "gdp"], choices=measurements.SIGMA
    )
    parser.add_argument("--rules", nargs="*", default=list(RULES), choices=RULES)
    parser.add_argument("--out", type=Path, default=RESULTS / "stopping.json")
    options = parser.parse_args()
    truth = truth_codes(options.rows)
    results: dict = json.loads(options.out.read_text()) if options.out.is_file() else {}
    if (results.get("rows"), results.get("from_seed")) != (options.rows, options.from_seed):
        results = {
            "rows": options.rows,
            "from_seed": options.from_seed,
            "scores": SCORES,
            "settings": {},
            "default_above_published": {},
        }
    results["machine"] = machine.describe()
    options.out.parent.mkdir(exist_ok=True)
    for epsilon in options.epsilon:
        for calibration in options.calibration:
            name = f"{calibration}, epsilon {epsilon:g}"
            print(name, flush=True)
            runs = results["settings"].setdefault(name, {"runs": []})["runs"]
            for i in range(options.seeds):
                if i == len(runs):
                    runs.append({})
                seed = options.from_seed + i
                problem = measurements.make(
                    "adagrid", epsilon, calibration, options.rows, noise_seed=seed + 1
                )
                one(problem, truth, seed, options.rules, runs[i])
                options.out.write_text(json.dumps(results, indent=1) + "\n")
            results["settings"][name]["summary"] = summarise(runs)
            show(name, results["settings"][name]["summary"])
        across(results, epsilon)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

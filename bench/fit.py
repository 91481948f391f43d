"""Does fastdp fit? Half-widths of a share and of a sum, by number of people and epsilon.

    python -m bench.fit [--people 200 2000 ...] [--runs 5] [--mechanism mst] [--no-save]

Whole runs on simulated purchases (`fastdp.simulate.purchases`, about four for each customer) with
the default mechanism (or another: numbers do not depend on it) and two numbers that were asked
beforehand: the share of customers who ever
paid in one of four ways, and the sum of all amounts. Numbers have their default share of the
budget. The sum is asked as it is, and capped: at most 1,000 of each customer. A line holds the median
half-width over the runs, the largest of them, and how many of the 95 % intervals hold the truth;
half-widths of sums are parts of the true sum, those of shares are points. Kept in
bench/results/fit.json, from where README takes its table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np

import fastdp

from . import machine

RESULT = machine.RESULTS / "fit.json"
PEOPLE = (200, 2_000, 20_000, 200_000)
EPSILONS = (1.0, 3.0)
DELTA = 1e-6
CAP = 1_000
"""What a customer counts at most in the capped sum; a customer spends 164 on average."""
SHARE = "share of users where any(payment = 1)"
SUM = "sum(amount)"
SCHEMA = {
    "user": {"column": "customer", "max_rows": 1000},
    "columns": {
        "country": {"kind": "integer", "min": 0, "max": 7},
        "shop": {"kind": "integer", "min": 0, "max": 24},
        "month": {"kind": "integer", "min": 0, "max": 11},
        "payment": {"kind": "integer", "min": 0, "max": 3},
        "amount": {"kind": "numeric", "edges": [0, 10, 20, 50, 100, 200, 500, 5000], "digits": 2},
    },
}


def truth(table) -> dict[str, float]:
    """The numbers of the true rows."""
    customer = table["customer"].to_numpy()
    paid = np.unique(customer[table["payment"].to_numpy() == 1])
    people, number = np.unique(customer, return_inverse=True)
    spent = np.bincount(number, table["amount"].to_numpy())
    return {
        "share": len(paid) / len(people),
        "sum": float(spent.sum()),
        "capped sum": float(np.minimum(spent, CAP).sum()),
    }


def answers(
    table, epsilon: float, seed: int, cap: float | None, mechanism: str | None
) -> dict[str, dict]:
    """Rows of `run.numbers` by question."""
    asked: dict = {"list": [SHARE, SUM]}
    if cap is not None:
        asked["max"] = {SUM: cap}
    run = fastdp.synthesize(
        table,
        schema=fastdp.Schema.from_dict(SCHEMA),
        epsilon=epsilon,
        delta=DELTA,
        numbers=asked,
        seed=seed,
        sample_seed=seed,
        **({} if mechanism is None else {"mechanism": mechanism}),
    )
    return {row["number"]: row for row in run.numbers.to_pylist()}


def line(found: list[dict], true: list[float], relative: bool) -> dict:
    """Half-widths and coverage of one number over the runs; None: an end is unknown."""
    halves = []
    held = 0
    for row, value in zip(found, true):
        low = -np.inf if row["low"] is None else row["low"]
        high = np.inf if row["high"] is None else row["high"]
        halves.append((high - low) / 2 / (value if relative else 1.0))
        held += bool(low <= value <= high)
    middle = statistics.median(halves)
    worst = max(halves)
    return {
        "half": middle if np.isfinite(middle) else None,
        "worst": worst if np.isfinite(worst) else None,
        "held": held,
        "runs": len(halves),
    }


def measured(
    people: int, epsilon: float, runs: int, mechanism: str | None = None
) -> dict[str, dict]:
    """Lines of all numbers for one size of table and one epsilon."""
    tables = [fastdp.simulate.purchases(people, seed=seed) for seed in range(runs)]
    true = [truth(table) for table in tables]
    plain = [answers(table, epsilon, seed, None, mechanism) for seed, table in enumerate(tables)]
    capped = [answers(table, epsilon, seed, CAP, mechanism) for seed, table in enumerate(tables)]
    return {
        "share": line([a[SHARE] for a in plain], [t["share"] for t in true], relative=False),
        "sum": line([a[SUM] for a in plain], [t["sum"] for t in true], relative=True),
        "capped sum": line(
            [a[SUM] for a in capped], [t["capped sum"] for t in true], relative=True
        ),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, nargs="+", default=list(PEOPLE))
    parser.add_argument("--runs", type=int, default=5, help="runs of each line")
    parser.add_argument("--mechanism", help="of the rows")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args(arguments)
    lines = {}
    for people in options.people:
        for epsilon in EPSILONS:
            start = time.perf_counter()
            found = measured(people, epsilon, options.runs, options.mechanism)
            lines[f"{people} at {epsilon:g}"] = found
            shown = ", ".join(
                f"{name} {'unknown' if f['half'] is None else format(f['half'], '.3f')}"
                f" ({f['held']} of {f['runs']})"
                for name, f in found.items()
            )
            seconds = time.perf_counter() - start
            print(f"{people:>7,} people, epsilon {epsilon:g}: {shown}; {seconds:.0f} s", flush=True)
    if not options.no_save:
        kept = json.loads(RESULT.read_text("utf-8"))["lines"] if RESULT.exists() else {}
        about = {"machine": machine.describe(), "delta": DELTA, "cap": CAP}
        kept = {**about, "lines": {**kept, **lines}}  # lines of other sizes stay
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

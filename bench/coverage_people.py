"""Do intervals about people cover, and do synthetic rows add up to the quoted numbers?

    python -m bench.coverage_people [--runs 100] [--people 3000] [--epsilon 2] [--means] [--jobs 1]

Whole runs on simulated purchases. A line holds, for one question, the share of true values inside the
95 % intervals of `run.answer`, and their median half-width. Questions by cohort have several intervals
a run, which are not independent. Lines of `synthetic` count the runs whose synthetic rows give a number
within the interval of the same number, asked before the run (`numbers=`), and whose number of rows lies
in its interval. Amounts count as the middle of their bins, as the table about users has them;
--means: bins have released means, so that synthetic amounts have them too.
"""

from __future__ import annotations

import argparse
import copy
from multiprocessing import Pool as Processes

import numpy as np
import polars as pl

import fastdp

from . import machine

EDGES = [0, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 4096]
WHOLE = {"kind": "integer", "dtype": "int64", "min": 0, "null": "drop", "overflow": "drop"}
SCHEMA = {
    "name": "purchases",
    "user": {"column": "customer", "order": "month", "amounts": ["amount"], "max_rows": 500},
    "columns": {
        "country": {**WHOLE, "max": 7},
        "shop": {**WHOLE, "max": 23},
        "month": {**WHOLE, "max": 11},
        "payment": {**WHOLE, "max": 3},
        "amount": {"kind": "numeric", "dtype": "float64", "digits": 2, "edges": EDGES},
    },
}
NUMBERS = (
    "sum(amount)",
    "count of rows where payment = 1",
    "share of users where rows > 1",
    "median(sum(amount)) per user",
)
MOST = 1000.0
"""What a user's amounts are declared to be at most; those of few people are more."""


def users_of(table) -> pl.DataFrame:
    """One row per user: rows, first month, sums by the middle of bins and as they are."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    middles = (np.array(EDGES[:-1]) + np.array(EDGES[1:])) / 2
    codes = np.clip(np.searchsorted(EDGES, frame["amount"].to_numpy(), "right") - 1, 0, 12)
    frame = frame.with_columns(middle=pl.Series(middles[codes]))
    return frame.group_by("customer").agg(
        rows=pl.len(),
        first=pl.col("month").min(),
        middle=pl.col("middle").sum(),
        amount=pl.col("amount").sum(),
        paid=(pl.col("payment") == 1).sum(),
    )


def asked(users: pl.DataFrame) -> list[float]:
    """The values of NUMBERS."""
    return [
        users["amount"].clip(0, MOST).sum(),
        users["paid"].sum(),
        (users["rows"] > 1).mean(),
        users["amount"].quantile(0.5, "lower"),
    ]  # type: ignore[list-item]


def one(task: tuple[int, int, float, bool]) -> list[tuple[str, bool, float]]:
    """(question, whether its interval holds the value, half its width) of a run."""
    seed, people, epsilon, means = task
    table = fastdp.simulate.purchases(people, seed=seed)
    plain = copy.deepcopy(SCHEMA)
    if means:
        plain["columns"]["amount"] |= {"means": "private", "max": EDGES[-1]}  # type: ignore[index]
    run = fastdp.synthesize(
        table,
        schema=fastdp.Schema.from_dict(plain),
        epsilon=epsilon,
        delta=1e-6,
        numbers={"list": list(NUMBERS), "max": {NUMBERS[0]: MOST}},
        seed=seed,
        sample_seed=seed,
        threads=1,
    )
    users = users_of(table)
    made = users_of(run.data)
    out: list[tuple[str, bool, float]] = []

    def add(question: str, value, low, high) -> None:
        if low is not None and high is not None:
            out.append((question, bool(low <= value <= high), float(high - low) / 2))

    def answer(question: str, value: float, **about) -> None:
        for line in run.answer(question, **about).to_pylist():
            add(f"{question} {about}", value, line["low"], line["high"])

    answer("share of users", (users["rows"] >= 2).mean(), where={"rows": (2, None)})
    answer("share of users", (users["middle"] >= 128).mean(), where={"sum(amount)": (128, None)})
    answer("mean(rows) of users", users["rows"].mean())
    cohorts = dict(users.group_by("first").agg(pl.len()).iter_rows())
    back = dict(users.filter(pl.col("rows") >= 2).group_by("first").agg(pl.len()).iter_rows())
    for line in run.answer("count of users", by="first(month)").to_pylist():
        value = cohorts.get(line["first(month)"], 0)
        add("count of users by first(month)", value, line["low"], line["high"])
    where = {"rows": (2, None)}
    for line in run.answer("count of users", by="first(month)", where=where).to_pylist():
        value = back.get(line["first(month)"], 0)
        question = f"count of users by first(month), rows >= 2, {line['basis']}"
        add(question, value, line["low"], line["high"])
    largest = users["middle"].sort(descending=True)
    top = largest.head(round(0.1 * len(largest))).sum() / largest.sum()
    found = run.top_share("amount")
    add("top_share(amount)", top, found.low, found.high)
    truth = asked(users)
    synthetic = asked(made)
    for line, true, own in zip(run.numbers.to_pylist(), truth, synthetic):
        add(f"number {line['number']}", true, line["low"], line["high"])
        add(f"synthetic {line['number']}", own, line["low"], line["high"])
    low, high = run.privacy["mechanism"]["users"]["rows_interval"]
    add("rows", table.num_rows, low, high)
    add("synthetic rows", made["rows"].sum(), low, high)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--people", type=int, default=3_000)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--means", action="store_true", help="bins have released means")
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    how = (options.people, options.epsilon, options.means)
    tasks = [(seed, *how) for seed in range(options.runs)]
    with Processes(options.jobs) as processes:
        found = [line for lines in processes.imap(one, tasks) for line in lines]
    lines = []
    for question in dict.fromkeys(question for question, _, _ in found):
        rows = [line for line in found if line[0] == question]
        cover = float(np.mean([held for _, held, _ in rows]))
        half = float(np.median([width for _, _, width in rows]))
        lines.append({"question": question, "intervals": len(rows), "cover": cover, "half": half})
        print(f"{question:60} {len(rows):6} {cover:7.3f} {half:12.4g}", flush=True)
    if not options.no_save:
        about = {"people": options.people, "epsilon": options.epsilon, "runs": options.runs}
        about["means"] = options.means
        machine.keep("coverage_people", about | {"lines": lines})


if __name__ == "__main__":
    main()

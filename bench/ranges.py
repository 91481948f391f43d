"""Range queries on numeric columns whose bounds and bins nobody wrote down, beside bins chosen in
hindsight.

    python -m bench.ranges                          all tables, epsilon 1
    python -m bench.ranges --tables adult ties      some of them

Every numeric column of a table gets a private domain, and synthetic rows are made. The named set of
ranges: 1,000 for each column, both ends included, the ends being the values of two rows drawn with
seed 1000. Error: of the share of rows in a range, absolute, mean over the ranges, then over the
columns and seeds. Beside it the same run with a schema whose bins are the best that equal counts
give, taken from the true rows, as many bins, at no cost. `bins alone`: the same two without noise,
by the true counts of the bins, spread evenly within each. The judgement is the ratio of the first
two, over the table; at most 1.5 is asked for.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

import fastdp
from fastdp import simulate
from fastdp.schema import Schema

from . import machine

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult" / "adult.csv"
ASKED = 1.5
RANGES = 1000
DELTA = 1e-9


def adult(rows: int, rng: np.random.Generator) -> pa.Table:
    import pyarrow.csv as csv

    names = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    return csv.read_csv(ADULT).select(names)


def taxi(rows: int, rng: np.random.Generator) -> pa.Table:
    names = ["taxi_id", "fare", "tips", "trip_total", "trip_seconds", "trip_miles"]
    return simulate.taxi(rows, seed=3).select(names)


def flights(rows: int, rng: np.random.Generator) -> pa.Table:
    """Aircraft that fly very differently often; delays of both signs with a long tail, distances of
    routes, minutes in the air that follow them, and the hour of departure."""
    share = rng.lognormal(0, 1.2, max(rows // 60, 2))
    tail = rng.choice(len(share), rows, p=share / share.sum())
    routes = np.round(np.exp(rng.normal(6.6, 0.7, 300)))
    distance = rng.choice(routes, rows, p=rng.dirichlet(np.full(300, 0.3)))
    late = rng.random(rows) < 0.35
    delay = np.where(late, np.round(rng.exponential(35, rows)), np.round(rng.normal(-4, 4, rows)))
    air = np.round(18 + distance / 7.6 + rng.normal(0, 8, rows))
    first = np.datetime64("2013-01-01T05", "s")
    hour = first + (rng.integers(0, 365, rows) * 24 + rng.integers(0, 19, rows)).astype(
        "timedelta64[h]"
    )
    columns = {
        "tailnum": tail,
        "delay": delay,
        "distance": distance,
        "air_time": air,
        "time_hour": hour,
    }
    return pa.table(columns)


def lognormal(rows: int, rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "narrow": rng.lognormal(3, 0.3, rows),
            "wide": rng.lognormal(3, 2.0, rows),
            "cents": np.round(rng.lognormal(2.5, 0.7, rows), 2),
            "far": -1e6 - rng.lognormal(1, 1, rows),
        }
    )


def ties(rows: int, rng: np.random.Generator) -> pa.Table:
    """Values that many rows share, among others."""
    return pa.table(
        {
            "zero": np.where(rng.random(rows) < 0.9, 0.0, np.round(rng.lognormal(8, 1, rows))),
            "round": np.where(
                rng.random(rows) < 0.5,
                np.round(rng.exponential(40, rows)) * 25,
                np.round(rng.exponential(1000, rows)),
            ),
            "forty": np.where(rng.random(rows) < 0.5, 40, rng.integers(1, 100, rows)),
            "price": rng.choice([4.99, 9.99, 14.99, 19.99, 49.0, 99.0, 249.5], rows),
        }
    )


TABLES: dict[str, tuple[Callable[[int, np.random.Generator], pa.Table], str | None, int]] = {
    "adult": (adult, None, 16),
    "taxi": (taxi, "taxi_id", 32),
    "flights": (flights, "tailnum", 32),
    "lognormal": (lognormal, None, 32),
    "ties": (ties, None, 32),
}
"""How a table is made, its user column, and the bins of each column (adult's numbers are coded
0..31)."""


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Values as floats; times as seconds since 1970, which stands for the same ranges."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s")).cast(pa.int64())
    values = column.to_numpy().astype(np.float64)
    return values[~np.isnan(values)]


def ranges_of(values: np.ndarray) -> np.ndarray:
    """The named set: [RANGES, 2], ends included."""
    return np.sort(np.random.default_rng(1000).choice(values, (RANGES, 2)), axis=1)


def answers(values: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    upto = np.searchsorted(ordered, ranges[:, 1], "right")
    before = np.searchsorted(ordered, ranges[:, 0], "left")
    return (upto - before) / max(1, len(values))


def error(truth: np.ndarray, made: np.ndarray) -> float:
    ranges = ranges_of(truth)
    return float(np.abs(answers(truth, ranges) - answers(made, ranges)).mean())


def plain(table: pa.Table, user: str | None, column: Callable[[pa.Field], dict]) -> Schema:
    columns = {field.name: column(field) for field in table.schema if field.name != user}
    document: dict = {"name": "ranges", "columns": columns}
    if user is not None:
        document["user"] = {"column": user, "max_rows": 500}
    return Schema.from_dict(document)


def asked(table: pa.Table, user: str | None, bins: int) -> Schema:
    def column(field: pa.Field) -> dict:
        return {"kind": "numeric", "dtype": str(field.type), "domain": "private", "bins": bins}

    return plain(table, user, column)


def in_hindsight(table: pa.Table, user: str | None, bins: int) -> Schema:
    """Equal counts of the true rows; a value that fills a bin or more is one by itself."""

    def column(field: pa.Field) -> dict:
        values = numbers(table[field.name])
        edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1), method="inverted_cdf"))
        whole = bool((values % 1 == 0).all())
        kinds, rows = np.unique(values, return_counts=True)
        heavy = kinds[rows >= len(values) / bins]
        after = heavy + 1 if whole else np.nextafter(heavy, math.inf)
        last = edges[-1] + 1 if whole else math.nextafter(edges[-1], math.inf)
        edges = sorted({*edges.tolist(), *heavy.tolist(), *after.tolist(), float(last)})
        entry = {"kind": "numeric", "dtype": str(field.type), "null": "drop", "overflow": "clamp"}
        if pa.types.is_timestamp(field.type):
            texts = [str(np.datetime64(int(e), "s")) for e in edges]
            return {**entry, "edges": texts}
        return {**entry, "edges": edges, "whole": whole}

    return plain(table, user, column)


def spread(table: pa.Table, schema: Schema, seed: int) -> pa.Table:
    """The true codes decoded: what the bins alone lose."""
    from fastdp.codec import decode, encode

    codes, keep = encode.encode_batch(schema, table)
    codes = codes if keep is None else {name: c[keep] for name, c in codes.items()}
    return decode.decode(schema, codes, seed)


def judged(table: pa.Table, made: pa.Table, names: Iterable[str]) -> dict[str, float]:
    return {name: error(numbers(table[name]), numbers(made[name])) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument(
        "--rows",
        type=int,
        default=50_000,
        help="of tables of people; 20 times as many where each has 40 or so",
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--mechanism", default="auto")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    results = []
    for name in options.tables:
        make, user, bins = TABLES[name]
        if name == "adult" and not ADULT.is_file():
            print(f"{name}: skipped, its data is not at ../shared/data/adult")
            continue
        table = make(options.rows * (1 if user is None else 20), np.random.default_rng(7))
        names = [c for c in table.column_names if c != user]
        sums: dict[str, dict[str, list[float]]] = {c: {} for c in names}
        for seed in range(options.seeds):
            for way, schema in (
                ("private", asked(table, user, bins)),
                ("hindsight", in_hindsight(table, user, bins)),
            ):
                run = fastdp.synthesize(
                    table,
                    options.mechanism,
                    options.epsilon,
                    DELTA,
                    schema=schema,
                    seed=seed,
                    sample_seed=seed,
                )
                rows = {way: run.to_arrow(), f"{way} bins": spread(table, run.schema, seed)}
                for kind, made in rows.items():
                    for c, value in judged(table, made, names).items():
                        sums[c].setdefault(kind, []).append(value)
        kinds = ("private", "hindsight", "private bins", "hindsight bins")
        means = {c: [float(np.mean(sums[c][k])) for k in kinds] for c in names}
        whole = [float(np.mean([means[c][i] for c in names])) for i in range(4)]
        print(
            f"\n{name}: {table.num_rows:,} rows, epsilon {options.epsilon:g}, {bins} bins, error in"
            " % of rows"
        )
        print(
            f"{'column':<16}{'private':>9}{'hindsight':>11}{'ratio':>7}   bins alone: private,"
            " hindsight"
        )
        for c, values in [*means.items(), ("the table", whole)]:
            a, b, x, y = (100 * v for v in values)
            print(f"{c:<16}{a:>9.3f}{b:>11.3f}{a / b:>7.2f}{x:>24.3f}{y:>11.3f}", flush=True)
        verdict = "met" if whole[0] <= ASKED * whole[1] else "NOT met"
        print(f"{ASKED}x over the table: {verdict}")
        results.append(
            {"table": name, "rows": table.num_rows, "bins": bins, "columns": means, "whole": whole}
        )
    if not options.no_save:
        machine.keep(
            "ranges", {"epsilon": options.epsilon, "seeds": options.seeds, "tables": results}
        )


if __name__ == "__main__":
    main()

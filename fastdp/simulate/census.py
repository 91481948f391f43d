"""Simulated persons with the 98 columns of the 1940 census extract of the 2018 challenge (match 3).

The pairs of columns that the published two-round mechanism measures depend on each other as in the real
extract: detailed codes refine general ones, places are nested, work depends on age, sex and schooling, wages
depend on work, and the questions asked of one person in twenty (SLREC = 2) are empty for all others. Persons
are drawn independently; there are no households.
"""

from __future__ import annotations

import numpy as np

from fastdp.errors import UsageError
from fastdp.simulate import census_world as cw
from fastdp.simulate._draw import check_int, in_chunks, lookup, pick

from .._util.lazy import pa

COLUMNS = tuple(
    "COUNTY URBAN METRO METAREA METAREAD CITY CITYPOP SIZEPL URBPOP SEA WARD GQ GQTYPE GQTYPED GQFUNDS "
    "FARM OWNERSHP OWNERSHPD RENT VALUEH ENUMDIST SUPDIST SPLIT SLREC RESPONDT FAMSIZE NCHLT5 SEX AGE "
    "AGEMONTH MARST MARRNO AGEMARR CHBORN RACE RACED HISPAN HISPAND BPL BPLD MBPL MBPLD FBPL FBPLD "
    "NATIVITY CITIZEN MTONGUE MTONGUED SPANNAME HISPRULE SCHOOL HIGRADE HIGRADED EDUC EDUCD EMPSTAT "
    "EMPSTATD LABFORCE OCC OCC1950 IND IND1950 CLASSWKR CLASSWKRD WKSWORK1 WKSWORK2 HRSWORK1 HRSWORK2 "
    "DURUNEMP UOCC UOCC95 UIND UCLASSWK INCWAGE INCNONWG OCCSCORE SEI PRESGL ERSCOR50 EDSCOR50 NPBOSS50 "
    "MIGRATE5 MIGRATE5D MIGPLAC5 MIGMET5 MIGTYPE5 MIGCITY5 MIGSEA5 SAMEPLAC SAMESEA5 MIGCOUNTY VETSTAT "
    "VETSTATD VET1940 VETWWI VETPER VETCHILD SSENROLL".split()
)


class _Person:
    """The columns of one chunk while they are drawn: `p["AGE"] = ...` sets a column, `p.draw` draws
    values."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size, self.rng = size, rng
        self.columns: dict[str, np.ndarray] = {}

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        self.columns[name] = np.asarray(values).astype(np.int32)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def draw(self, values, weights, group=None) -> np.ndarray:
        """Draws one of `values` for each row, by weights [groups, values] and the group of each row, or by
        one list of weights for all rows."""
        group = np.zeros(self.size, np.int32) if group is None else group
        return np.asarray(values)[pick(lookup(weights), group, self.rng)]

    def chance(self, probability) -> np.ndarray:
        return self.rng.random(self.size, dtype=np.float32) < probability

    def normal(self) -> np.ndarray:
        return self.rng.standard_normal(self.size, dtype=np.float32)


def _place(p: _Person, w: cw.World) -> None:
    county = pick(w.county, np.zeros(p.size, np.int32), p.rng)
    city = pick(w.city, county, p.rng)
    town = np.where(city > 0, 0, p.rng.integers(0, 4, p.size))
    p["COUNTY"], p["SEA"], p["SUPDIST"] = w.county_value[county], w.sea[county], w.supdist[county]
    p["METAREAD"] = w.metarea[county]
    p["METAREA"] = p["METAREAD"] // 10
    inner = (city == 1) & (p["METAREAD"] > 0)
    p["METRO"] = np.where(p["METAREAD"] == 0, 1, np.where(inner, 2, 3))
    p["CITY"], p["CITYPOP"] = w.city_value[city], w.citypop[city]
    p["URBPOP"] = np.where(city > 0, w.citypop[city], w.town[county, town])
    p["URBAN"] = np.where(p["URBPOP"] > 0, 2, 1)
    size_class = np.array([1, 3, 4, 5, 6, 7, 8, 20, 30])
    p["SIZEPL"] = size_class[np.searchsorted([1, 40, 60, 80, 100, 200, 400, 1000], p["URBPOP"], "right")]
    wards = w.wards[city]
    p["WARD"] = np.where(wards > 0, 1 + (p.rng.random(p.size) * wards).astype(np.int64), 0)
    within = p.rng.random(p.size) ** 1.5
    p["ENUMDIST"] = np.minimum(
        3020, w.first_district[county] + (within * w.districts[county]).astype(np.int64)
    )
    p["FARM"] = np.where((p["URBAN"] == 1) & p.chance(0.55), 2, 1)


def _home(p: _Person) -> None:
    p["GQ"] = p.draw([1, 2, 3, 4, 5], [0.955, 0.004, 0.014, 0.022, 0.005])
    detail = [0, 100, 200, 210, 300, 400, 410, 420, 500, 600, 700, 800, 900, 910, 950]
    institution = [0, 1, 4, 2, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    other = [0, 0, 0, 0, 0, 0, 0, 0, 3, 2, 2, 2, 1, 4, 1]
    none = [1] + [0] * 14
    kind = (p["GQ"] == 3) + 2 * np.isin(p["GQ"], (4, 5))
    p["GQTYPED"] = p.draw(detail, [none, institution, other], kind)
    p["GQTYPE"] = p["GQTYPED"] // 100
    funds = [[1, 0, 0, 0, 0], [0, 2, 3, 2, 1]]
    p["GQFUNDS"] = np.where(kind == 1, p.draw([0, 11, 12, 13, 21], funds, (kind == 1)), 99 * (kind == 2))
    p["SPLIT"] = (kind > 0) & p.chance(0.3)
    housed = kind == 0
    owner = p.chance(np.where(p["FARM"] == 2, 0.6, 0.42))
    p["OWNERSHP"] = np.where(housed, np.where(owner, 1, 2), 0)
    p["OWNERSHPD"] = 10 * p["OWNERSHP"]
    worth = np.exp(7.4 + 0.45 * (p["URBAN"] == 2) + 0.8 * p.normal())
    step = np.where(worth < 1000, 50, np.where(p.chance(0.7), 500, 100))
    worth = np.clip(np.rint(worth / step) * step, 50, 60000)
    worth = np.where(p.chance(0.02), 9999998, worth)
    p["VALUEH"] = np.where(p["OWNERSHP"] == 1, worth, 9999999)
    rent = np.clip(np.rint(np.exp(2.7 + 0.5 * (p["URBAN"] == 2) + 0.6 * p.normal())), 1, 400)
    rent = np.where(p.chance(0.6), np.maximum(5, np.rint(rent / 5) * 5), rent)
    p["RENT"] = np.where(p["OWNERSHP"] == 2, np.where(p.chance(0.03), 9998, rent), 0)


def _person(p: _Person) -> None:
    p["SLREC"] = np.where(p.chance(0.05), 2, 1)
    p["SEX"] = np.where(p.chance(0.508), 1, 2)
    age = np.arange(109)
    pyramid = np.exp(-((age / 48.0) ** 2)) * (1 + 0.12 * (age % 10 == 0) + 0.06 * (age % 5 == 0))
    p["AGE"] = p.draw(age, np.where(age > 95, pyramid * 0.3, pyramid))
    a, woman = p["AGE"], p["SEX"] == 2
    p["AGEMONTH"] = np.where(a == 0, p.rng.integers(0, 12, p.size), 99)
    p["RESPONDT"] = np.where(a < 16, 1, np.where(p.chance(np.where(woman, 0.5, 0.18)), 2, 1))
    p["RESPONDT"] = np.where(p.chance(0.25), 0, p["RESPONDT"])
    ever = p.chance(np.clip(0.93 / (1 + np.exp(-(a - np.where(woman, 22.5, 25.5)) / 2.7)), 0, 1) * (a >= 14))
    widowed = p.chance(np.clip((a - 35) / np.where(woman, 70, 150), 0, 0.8))
    after = p.draw([1, 2, 3, 4], [0.92, 0.025, 0.025, 0.03])
    p["MARST"] = np.where(~ever, 6, np.where(widowed, 5, after))
    p["FAMSIZE"] = np.where(
        p["GQ"] >= 3,
        1,
        1
        + p.rng.poisson(
            np.select(
                [a < 18, p["MARST"] == 1, p["MARST"] == 6],
                [4.1, np.where(a < 50, 2.9, 1.6), 2.2],
                1.1,
            )
        ),
    )
    p["FAMSIZE"] = np.minimum(p["FAMSIZE"], 21)
    fertile = (p["MARST"] == 1) & (a >= 17) & (a <= 48) & (p["FAMSIZE"] > 2)
    p["NCHLT5"] = np.where(fertile, np.minimum(p.rng.binomial(3, 0.22, p.size), p["FAMSIZE"] - 2), 0)
    asked = (p["SLREC"] == 2) & woman & ever
    p["MARRNO"] = np.where(asked, np.where(p.chance(0.12), 2, 1), 0)
    p["AGEMARR"] = np.where(asked, np.minimum(a, np.clip(np.rint(21.5 + 4.0 * p.normal()), 14, 60)), 0)
    births = p.rng.poisson(np.clip((a - 17) / 9.0, 0, 3.2))
    p["CHBORN"] = np.where(asked, 1 + np.minimum(births, 18), 0)
    p["RACED"] = p.draw([100, 200, 300, 400, 500, 600], [0.968, 0.019, 0.005, 0.002, 0.005, 0.001])
    p["RACE"] = p["RACED"] // 100


def _origin(p: _Person, w: cw.World) -> None:
    asked = p["SLREC"] == 2
    era = np.searchsorted([18, 50], p["AGE"], "right")
    birth = pick(w.birth, era, p.rng)
    mother = pick(w.parent, birth, p.rng)
    father = np.where(p.chance(0.7), mother, pick(w.parent, birth, p.rng))
    p["BPLD"] = w.birth_value[birth]
    p["MBPLD"], p["FBPLD"] = (np.where(asked, w.birth_value[b], 0) for b in (mother, father))
    for name in ("BPL", "MBPL", "FBPL"):
        p[name] = p[name + "D"] // 100
    abroad, m, f = birth >= w.natives, mother >= w.natives, father >= w.natives
    p["NATIVITY"] = np.where(abroad, 5, np.where(asked, 1 + f + 2 * m, 0))
    p["NATIVITY"] = np.minimum(p["NATIVITY"], np.where(abroad, 5, 4))
    p["CITIZEN"] = np.where(abroad, p.draw([1, 2, 3, 4], [0.05, 0.62, 0.25, 0.08]), 0)
    speaks = np.where(abroad | p.chance(0.5), np.where(m, mother, birth), 0)
    p["MTONGUED"] = np.where(asked, w.tongue[speaks], 0)
    p["MTONGUE"] = p["MTONGUED"] // 100
    mexican = w.birth_value == 20000
    rule = np.select(
        [mexican[birth], asked & mexican[mother], asked & mexican[father], p.chance(0.012)], [1, 2, 3, 6], 0
    )
    p["HISPRULE"] = rule
    p["HISPAND"] = np.where(rule > 0, np.where(rule == 6, 480, 100), 0)
    p["HISPAN"] = p["HISPAND"] // 100
    p["SPANNAME"] = np.where(p.chance(np.where(rule > 0, 0.85, 0.01)), 2, 1)


def _school(p: _Person) -> None:
    a = p["AGE"]
    p["SCHOOL"] = np.where(
        p.chance(np.select([a < 5, a < 15, a < 19, a < 25], [0.0, 0.95, 0.6, 0.1], 0.01)), 2, 1
    )
    finished = p.draw(np.arange(0, 18), [2, 1, 2, 3, 4, 5, 6, 8, 30, 5, 7, 4, 14, 2, 3, 1, 4, 1])
    grade = np.minimum(finished, np.maximum(0, a - 6))
    grade = np.where(p["SCHOOL"] == 2, np.maximum(grade, np.minimum(np.maximum(0, a - 7), 12)), grade)
    code = np.where(grade == 0, 0, 10 * (grade + 3))
    code = np.where((grade == 0) & (a >= 5) & p.chance(0.5), 10, code)
    p["HIGRADED"] = np.where(a < 5, 0, code)
    p["HIGRADE"] = p["HIGRADED"] // 10
    detail = np.array([2, 14, 15, 16, 17, 22, 23, 25, 26, 30, 40, 50, 60, 70, 80, 90, 100, 110])
    p["EDUCD"] = np.where(a < 5, 1, detail[grade])
    p["EDUC"] = p["EDUCD"] // 10


def _work(p: _Person, w: cw.World) -> None:
    a, woman, wife = p["AGE"], p["SEX"] == 2, (p["SEX"] == 2) & (p["MARST"] == 1)
    prime = np.clip((a - 13) / 9.0, 0, 1) * np.clip((78 - a) / 18.0, 0, 1)
    working = p.chance(
        prime * np.where(wife, 0.13, np.where(woman, 0.5, 0.93)) * np.where(p["SCHOOL"] == 2, 0.15, 1)
    )
    at_work = p.draw([10, 11, 12, 20, 21, 22], [0.82, 0.04, 0.02, 0.01, 0.09, 0.02])
    idle = np.where(p["SCHOOL"] == 2, 33, np.where(wife, 31, np.where(a > 60, 32, 34)))
    idle = np.where(p["GQ"] == 3, 30, idle)
    p["EMPSTATD"] = np.where(a < 14, 0, np.where(working, at_work, idle))
    p["EMPSTAT"] = p["EMPSTATD"] // 10
    p["LABFORCE"] = np.where(a < 14, 0, np.where(working, 2, 1))
    job = pick(w.occ, 2 * woman + (p["HIGRADE"] >= 15), p.rng)
    farm = (p["FARM"] == 2) & p.chance(0.6)
    job = np.where(farm, np.flatnonzero(cw.OCC_GROUP == 1)[p.rng.integers(0, 3, p.size)], job)
    industry = pick(w.ind, job, p.rng)
    kind = w.class_value[pick(w.classwkr, job, p.rng)]
    p["OCC"] = np.where(working, cw.OCC[job], cw.OCC_NONE)
    p["OCC1950"] = np.where(working, w.occ1950[job], cw.OCC1950_NONE)
    p["IND"] = np.where(working, cw.IND[industry], cw.IND_NONE)
    p["IND1950"] = np.where(working, w.ind1950[industry], cw.IND1950_NONE)
    p["CLASSWKRD"] = np.where(working, kind, 0)
    p["CLASSWKR"] = p["CLASSWKRD"] // 10
    missing = {"ERSCOR50": 9999, "EDSCOR50": 9999, "NPBOSS50": 9999}
    for name, score in w.scores.items():
        p[name] = np.where(working, score[job], missing.get(name, 0))
    weeks = np.where(p.chance(0.6), 52, np.clip(np.rint(40 + 13 * p.normal()), 1, 51))
    p["WKSWORK1"] = np.where(
        working & (p["EMPSTAT"] == 1), weeks, np.where(working & p.chance(0.4), weeks // 2, 0)
    )
    p["WKSWORK2"] = np.searchsorted([1, 14, 27, 40, 48, 50], p["WKSWORK1"], "right")
    hours = np.where(
        p.chance(0.45), 40 + 4 * p.rng.integers(0, 5, p.size), np.clip(np.rint(45 + 14 * p.normal()), 1, 98)
    )
    p["HRSWORK1"] = np.where(
        p["EMPSTATD"] == 10, np.where(cw.OCC_GROUP[job] == 1, np.minimum(98, hours + 14), hours), 0
    )
    p["HRSWORK2"] = np.searchsorted([1, 15, 30, 35, 40, 41, 49, 60], p["HRSWORK1"], "right")
    looking = p["EMPSTAT"] == 2
    p["DURUNEMP"] = np.where(looking, np.minimum(998, np.rint(np.exp(2.8 + 1.2 * p.normal()))), 999)
    pay = w.pay[job] * np.where(woman, 0.58, 1.0) * np.where(p["CITY"] > 0, 1.2, 0.9) * p["WKSWORK1"] / 50.0
    pay = pay * np.exp(0.45 * p.normal()) * (1 + 0.01 * np.clip(a - 20, 0, 25))
    step = p.draw([100, 20, 50, 25, 10, 5, 2, 1], [0.34, 0.2, 0.14, 0.04, 0.13, 0.08, 0.04, 0.03])
    pay = np.minimum(5001, np.rint(pay / step) * step)
    paid = working & ~np.isin(p["CLASSWKRD"], (10, 11, 12, 29))
    p["INCWAGE"] = np.where(
        a < 14, 999998, np.where(paid, pay, np.where(p.chance(0.02), np.minimum(pay, 600), 0))
    )
    p["INCNONWG"] = np.where(a < 14, 0, np.where(p.chance(np.where(paid, 0.12, 0.35)), 2, 1))
    asked = (p["SLREC"] == 2) & (a >= 14)
    usual = asked & (working | p.chance(0.1))
    p["UOCC"] = np.where(usual, cw.OCC[job], np.where(asked, cw.OCC_NONE, 999))
    p["UOCC95"] = np.where(usual, w.occ1950[job], 999)
    p["UIND"] = np.where(usual, cw.IND[industry], np.where(asked, cw.IND_NONE, 999))
    p["UCLASSWK"] = np.where(
        usual, np.array([1, 2, 2, 3, 4, 6, 6, 7])[np.searchsorted(w.class_value, kind)], 0
    )


def _moves(p: _Person, w: cw.World) -> None:
    a = p["AGE"]
    young = a < 5
    moved = p.draw([10, 21, 22, 24, 31, 32, 40], [0.72, 0.09, 0.05, 0.04, 0.05, 0.045, 0.005])
    p["MIGRATE5D"] = np.where(young, 0, moved)
    p["MIGRATE5"] = p["MIGRATE5D"] // 10
    kind = p["MIGRATE5"]
    away = w.birth_value[pick(w.moved_from, np.zeros(p.size, np.int32), p.rng)] // 100
    abroad = np.array([150, 200, 410, 450])[p.rng.integers(0, 4, p.size)]
    p["MIGPLAC5"] = np.select([kind == 2, kind == 3, kind == 4], [w.state, away, abroad], 0)
    within = kind == 2
    origin = pick(w.county, np.zeros(p.size, np.int32), p.rng)
    near = p["MIGRATE5D"] == 21
    county = np.where(near, p["COUNTY"], w.county_value[origin])
    p["MIGCOUNTY"] = np.where(within, county, 9999)
    home = np.argsort(w.county_value)[np.searchsorted(np.sort(w.county_value), county)]
    far = 1 + (away * 9 + p.rng.integers(0, 4, p.size)) % 500
    p["MIGSEA5"] = np.select([within, kind == 3, kind == 4], [w.sea[home], far, 992], 0)
    other_metro = np.array([0, 0, 1600, 5600, 4480])[p.rng.integers(0, 5, p.size)]
    p["MIGMET5"] = np.select([within, kind == 3], [w.metarea[home], other_metro], 0)
    p["MIGTYPE5"] = np.where(
        within | (kind == 3), np.where(p["MIGMET5"] == 0, 1, np.where(p.chance(0.6), 2, 3)), 0
    )
    city = w.city_value[pick(w.city, home, p.rng)]
    p["MIGCITY5"] = np.where(
        within, city, np.where((kind == 3) & p.chance(0.2), 10 + 20 * (away * 5 % 383), 0)
    )
    p["SAMEPLAC"] = np.where(kind <= 1, 0, np.where(near, 2, 1))
    p["SAMESEA5"] = np.select(
        [young, kind == 1, within & (p["MIGSEA5"] == p["SEA"]), within], [0, 1, 2, 3], 4
    )


def _veterans(p: _Person) -> None:
    a, asked = p["AGE"], p["SLREC"] == 2
    man = asked & (p["SEX"] == 1) & (a >= 17)
    served = man & p.chance(np.where((a >= 39) & (a <= 56), 0.24, 0.03))
    p["VETSTATD"] = np.where(served, 20, np.where(man, 10, 0))
    p["VETSTAT"] = p["VETSTATD"] // 10
    child = asked & (a < 18)
    p["VET1940"] = np.where(served, 2, np.where(asked & (man | child), 1, 0))
    p["VETPER"] = np.where(served, np.where((a >= 39) & (a <= 56), 1, p.draw([2, 3, 4, 5], [3, 2, 1, 1])), 0)
    p["VETWWI"] = np.where(man, 1 + (p["VETPER"] == 1), 0)
    p["VETCHILD"] = np.where(child, np.where(p.chance(0.12), 2, 1), 0)
    p["SSENROLL"] = np.where(
        asked & (a >= 14), np.where(p.chance(np.where(p["LABFORCE"] == 2, 0.6, 0.15)), 2, 1), 0
    )


def census(rows: int, seed: int = 0, state: str | None = None, *, threads: int | None = None) -> pa.Table:
    """`rows` persons of one state (default Colorado) as a pyarrow.Table of 98 int32 columns.

    The state decides which 63 counties, eight cities (see `census_cities`) and origins occur, and is not a
    column. Equal arguments give equal tables for any number of threads.
    """

    rows = check_int("rows", rows, 0, 50_000_000)
    state = "Colorado" if state is None else state
    if state not in cw.STATES:
        raise UsageError(f"state must be one of the 48 states of 1940, such as 'Colorado', got {state!r}")
    streams = np.random.SeedSequence((check_int("seed", seed, 0, 2**63 - 1), 0x1940))
    world = cw.World(state)
    out = {name: np.empty(rows, np.int32) for name in COLUMNS}

    def fill(part: slice, rng: np.random.Generator) -> None:
        p = _Person(min(part.stop, rows) - part.start, rng)
        _place(p, world)
        _home(p)
        _person(p)
        _origin(p, world)
        _school(p)
        _work(p, world)
        _moves(p, world)
        _veterans(p)
        for name, values in out.items():
            values[part] = p[name]

    in_chunks(rows, streams, fill, threads)
    return pa.table({name: pa.array(values) for name, values in out.items()})

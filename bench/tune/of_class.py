"""Generated tables of the class on which a rule should act by its own argument."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..scoreboard.tables import Benchmark, alone, whole
from ..tables import Columns


def fine(rows: int, columns: int = 4, codes: int = 1_000, seed: int = 41) -> Columns:
    """Columns of many codes with correlations of .8: a pair has 20 cells for each row."""
    rng = np.random.default_rng(seed)
    common = math.sqrt(0.8) * rng.normal(size=(rows, 1))
    numbers = common + math.sqrt(0.2) * rng.normal(size=(rows, columns))
    found = numbers.argsort(axis=0).argsort(axis=0) * codes // rows
    return {f"n{i}": (codes, found[:, i]) for i in range(columns)}


def postcodes(rows: int, codes: int = 1_500, towns: int = 900, seed: int = 42) -> Columns:
    """Every postcode is in one town, and four small columns depend on the town a little."""
    rng = np.random.default_rng(seed)
    law = 1 / np.arange(1, codes + 1)
    code = rng.choice(codes, rows, p=law / law.sum())
    town = rng.permutation(np.arange(codes) % towns)[code]
    out = {"code": (codes, code), "town": (towns, town)}
    for i, n in enumerate((2, 5, 8, 12)):
        follows = rng.integers(0, n, towns)[town]
        out[f"c{i}"] = (n, np.where(rng.random(rows) < 0.5, follows, rng.integers(0, n, rows)))
    return out


def weak(rows: int, columns: int, correlation: float, seed: int = 43) -> Columns:
    """Columns of 20 codes. Half of them have a weak trend with each other, the others none."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(rows, columns))
    half = columns // 2
    common = math.sqrt(correlation) * rng.normal(size=(rows, 1))
    numbers[:, :half] = common + math.sqrt(1 - correlation) * numbers[:, :half]
    found = numbers.argsort(axis=0).argsort(axis=0) * 20 // rows
    return {f"n{i}": (20, found[:, i]) for i in range(columns)}


def nets(rows: int, columns: int, codes: int, parents: int, seed: int = 44) -> Columns:
    """Every column is drawn from a Dirichlet(.3) distribution given those before it."""
    rng = np.random.default_rng(seed)
    out: Columns = {}
    drawn: list[np.ndarray] = []
    for i in range(columns):
        at = np.zeros(rows, np.int64)
        for before in drawn[-parents:]:
            at = at * codes + before
        chances = rng.dirichlet(np.full(codes, 0.3), int(at.max()) + 1)
        below = chances.cumsum(axis=1)[at, :-1]
        drawn.append((rng.random((rows, 1)) > below).sum(axis=1))
        out[f"c{i}"] = (codes, drawn[-1])
    return out


def chain(rows: int, columns: int, codes: int, fresh: float, seed: int = 45) -> Columns:
    """Every column is the one before it but for a part `fresh` of the rows, which are random."""
    rng = np.random.default_rng(seed)
    at = rng.integers(0, codes, rows)
    out: Columns = {}
    for i in range(columns):
        at = np.where(rng.random(rows) < fresh, rng.integers(0, codes, rows), at)
        out[f"c{i}"] = (codes, at)
    return out


def sparse(rows: int, columns: int, pairs: int, seed: int = 46) -> Columns:
    """Columns of five codes: the first ones in dependent pairs, the others alone."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 5, (rows, columns))
    for i in range(pairs):
        follows = rng.random(rows) < 0.4
        codes[follows, 2 * i + 1] = codes[follows, 2 * i]
    return {f"c{i}": (5, codes[:, i]) for i in range(columns)}


def tails(rows: int, columns: int, codes: int, seed: int = 47) -> Columns:
    """Log-normal numbers in bins of equal width, with correlations of .5: most values are rare."""
    rng = np.random.default_rng(seed)
    numbers = math.sqrt(0.5) * (rng.normal(size=(rows, 1)) + rng.normal(size=(rows, columns)))
    found = np.minimum(np.exp(numbers) / 20 * codes, codes - 1).astype(np.int64)
    return {f"n{i}": (codes, found[:, i]) for i in range(columns)}


def copied(rows: int, codes: int, seed: int = 48) -> Columns:
    """A wide column, a relabelled copy of it, and three small columns that depend on it."""
    rng = np.random.default_rng(seed)
    law = 1 / np.arange(1, codes + 1)
    code = rng.choice(codes, rows, p=law / law.sum())
    out = {"code": (codes, code), "copy": (codes, rng.permutation(codes)[code])}
    for i, n in enumerate((3, 6, 10)):
        follows = rng.integers(0, n, codes)[code]
        out[f"c{i}"] = (n, np.where(rng.random(rows) < 0.5, follows, rng.integers(0, n, rows)))
    return out


def traits(rows: int, columns: int, further: int = 0, seed: int = 49) -> Columns:
    """Yes and no: rare values, more frequent where a hidden yes-or-no holds. `further`: codes that no row
    has, as of drafted schemas."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows) < 0.3
    out: Columns = {}
    for i in range(columns):
        chance = np.where(hidden, rng.uniform(0.05, 0.3), rng.uniform(0.005, 0.05))
        out[f"c{i}"] = (2 + further, (rng.random(rows) < chance).astype(np.int64))
    return out


def flags(rows: int, columns: int, links: int, seed: int = 50) -> Columns:
    """Yes and no: the first columns in dependent pairs, the others alone."""
    rng = np.random.default_rng(seed)
    codes = (rng.random((rows, columns)) < rng.uniform(0.1, 0.9, columns)).astype(np.int64)
    for i in range(links):
        follows = rng.random(rows) < 0.6
        codes[follows, 2 * i + 1] = codes[follows, 2 * i]
    return {f"c{i}": (2, codes[:, i]) for i in range(columns)}


def unordered(rows: int, columns: int, codes: int, classes: int, seed: int = 51) -> Columns:
    """Columns without an order that are independent within each of some hidden classes."""
    rng = np.random.default_rng(seed)
    of_row = rng.integers(0, classes, rows)
    out: Columns = {}
    for i in range(columns):
        chances = rng.dirichlet(np.ones(codes), classes)
        below = chances.cumsum(axis=1)[of_row, :-1]
        out[f"c{i}"] = (codes, (rng.random((rows, 1)) > below).sum(axis=1))
    return out


def of(name: str, make: Callable[..., Columns], about: str, rows: int, **arguments) -> Benchmark:
    """A table of which mechanisms see this many rows. Columns of numbers are called n."""
    ordered = tuple(f"n{i}" for i in range(arguments.get("columns", 0)))
    return Benchmark(name, alone(make, rows=whole(rows), **arguments), about, ordered)


def of_many_codes(name: str, columns: int) -> Benchmark:
    about = f"50,000 x {columns}, 1,000 codes, correlations .8"
    return of(name, fine, about, 50_000, columns=columns)


LISTED = (
    of_many_codes("fine", 4),
    of_many_codes("fine-two", 2),
    of_many_codes("fine-ten", 10),
    Benchmark(
        "postcodes",
        alone(postcodes, rows=whole(100_000)),
        "100,000 x 6, 1,500 postcodes in 900 towns",
        target="c3",
    ),
    of(
        "postcodes-few",
        postcodes,
        "30,000 x 6, the same in 1,000 and 600",
        30_000,
        codes=1_000,
        towns=600,
    ),
    of("copied", copied, "50,000 x 5, 2,000 codes and a copy of them", 50_000, codes=2_000),
    of("weak", weak, "20,000 x 10, correlations .1", 20_000, columns=10, correlation=0.1),
    of("weak-many", weak, "8,000 x 20, correlations .2", 8_000, columns=20, correlation=0.2),
    of("weak-more", weak, "60,000 x 10, correlations .05", 60_000, columns=10, correlation=0.05),
    of("weak-few", weak, "10,000 x 12, correlations .15", 10_000, columns=12, correlation=0.15),
    of("nets", nets, "100,000 x 8, 24 codes given two", 100_000, columns=8, codes=24, parents=2),
    of(
        "nets-small",
        nets,
        "40,000 x 14, 8 codes given three",
        40_000,
        columns=14,
        codes=8,
        parents=3,
    ),
    of(
        "interactions",
        nets,
        "20,000 x 12, 3 codes given two",
        20_000,
        columns=12,
        codes=3,
        parents=2,
    ),
    of(
        "interactions-few",
        nets,
        "6,000 x 8, 4 codes given two",
        6_000,
        columns=8,
        codes=4,
        parents=2,
    ),
    of("chain", chain, "20,000 x 14, 6 codes, 15 % fresh", 20_000, columns=14, codes=6, fresh=0.15),
    of(
        "chain-close",
        chain,
        "20,000 x 14, 6 codes, 3 % fresh",
        20_000,
        columns=14,
        codes=6,
        fresh=0.03,
    ),
    of("sparse", sparse, "10,000 x 40, six dependent pairs", 10_000, columns=40, pairs=6),
    of("sparse-few", sparse, "2,000 x 24, four dependent pairs", 2_000, columns=24, pairs=4),
    of("tails", tails, "20,000 x 6, 300 codes", 20_000, columns=6, codes=300),
    of("tails-few", tails, "3,000 x 6, 100 codes", 3_000, columns=6, codes=100),
    of("traits", traits, "20,000 x 12 rare values, one hidden yes-or-no", 20_000, columns=12),
    of(
        "traits-few",
        traits,
        "3,000 x 14, the same with codes for nulls and other values",
        3_000,
        columns=14,
        further=2,
    ),
    of("flags", flags, "20,000 x 14 yes or no, three dependent pairs", 20_000, columns=14, links=3),
    of(
        "classes-three",
        unordered,
        "20,000 x 30, 8 codes, three hidden classes",
        20_000,
        columns=30,
        codes=8,
        classes=3,
    ),
    of(
        "classes-six",
        unordered,
        "20,000 x 40, 4 codes, six hidden classes",
        20_000,
        columns=40,
        codes=4,
        classes=6,
    ),
    of("tiny", sparse, "40 x 6", 40, columns=6, pairs=2),
    of("tiny-wide", sparse, "100 x 20", 100, columns=20, pairs=4),
)
OF_CLASS = {one.name: one for one in LISTED}
NOISY = ("independent", "gauss10-0.3", "sparse", "sparse-few", "weak-many", "tiny-wide")
LARGE = ("nets", "nets-small", "functional", "acs-ma", "adult")
TWO_VALUED = ("classes", "xor3", "traits", "traits-few", "flags")
CLASS = {
    "contrasts": TWO_VALUED,
    "first look": TWO_VALUED,
    "factors of pairs": TWO_VALUED,
    "trends": ("weak", "weak-many", "fine", "fine-two"),
    "sums of pairs": ("weak", "weak-many", "fine", "fine-two"),
    "steering": ("weak", "weak-many", "fine", "fine-two"),
    "shrunk trends": ("weak", "weak-many", "weak-more", "weak-few"),
    "groups of codes": ("fine", "fine-two", "tails", "tails-few"),
    "LEAST_PER_CELL": ("fine", "fine-two", "tails", "tails-few"),
    "explained by others": ("chain", "chain-close", "copies", "functional"),
    "CHEAP": ("chain", "chain-close", "copies", "functional"),
    "before: denoised distances": ("sparse", "sparse-few", "independent"),
    "hidden factors": ("factors", "gauss10-0.3", "gauss10-0.8", "gauss30-0.3", "gauss30-0.8"),
    "hidden classes": ("classes-three", "classes-six", "wide"),
    "groups of rare numbers": ("fine", "fine-two", "fine-ten", "tails", "tails-few"),
    "MOST_ONES": NOISY,
    "two rounds": LARGE,
    "GROWTH": LARGE,
    "DEFAULT_CELLS": LARGE,
    "triples": ("interactions", "interactions-few", "nets", "nets-small"),
    "columns that follow": ("postcodes", "postcodes-few", "copied"),
    "least total": ("tiny", "tiny-wide"),
}
"""The tables on which a rule should act by its own argument."""

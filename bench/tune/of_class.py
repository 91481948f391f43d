"""Generated tables of the class on which a rule should act by its own argument."""

from __future__ import annotations

import math

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


def of_many_codes(name: str, columns: int) -> Benchmark:
    return Benchmark(
        name,
        alone(fine, rows=whole(50_000), columns=columns),
        f"50,000 x {columns}, 1,000 codes, correlations .8",
        ordered=tuple(f"n{i}" for i in range(columns)),
    )


LISTED = (
    of_many_codes("fine", 4),
    of_many_codes("fine-two", 2),
    Benchmark(
        "postcodes",
        alone(postcodes, rows=whole(100_000)),
        "100,000 x 6, 1,500 postcodes in 900 towns",
        target="c3",
    ),
)
OF_CLASS = {one.name: one for one in LISTED}

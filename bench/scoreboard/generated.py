"""Generated tables of the scoreboard that the field's papers use. Every one is seeded."""

from __future__ import annotations

import numpy as np

from ..tables import Columns

GAUSSIAN_BINS = 8
GAUSSIAN_RANGE = 2.0


def gaussian(rows: int, columns: int, correlation: float, seed: int = 31) -> Columns:
    """Equicorrelated standard normals in 8 bins of equal width on [-2, 2], the outer ones open."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 1))
    own = rng.normal(size=(rows, columns))
    values = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    edges = np.linspace(-GAUSSIAN_RANGE, GAUSSIAN_RANGE, GAUSSIAN_BINS + 1)[1:-1]
    codes = np.searchsorted(edges, values, side="right")
    return {f"g{i}": (GAUSSIAN_BINS, codes[:, i]) for i in range(columns)}


def exclusive_or(
    rows: int, inputs: int, columns: int = 8, flipped: float = 0.05, seed: int = 32
) -> Columns:
    """Fair binary columns, and a target that is the exclusive or of the first `inputs` of them,
    flipped in some rows."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (rows, columns))
    target = bits[:, :inputs].sum(axis=1) % 2
    target = target ^ (rng.random(rows) < flipped)
    return {f"x{i}": (2, bits[:, i]) for i in range(columns)} | {"target": (2, target)}


CAUSAL = {
    "chain0": (4, ()),
    "chain1": (5, ("chain0",)),
    "chain2": (3, ("chain1",)),
    "chain3": (6, ("chain2",)),
    "root": (5, ()),
    "left": (4, ("root",)),
    "right": (6, ("root",)),
    "one": (3, ()),
    "other": (4, ()),
    "child": (3, ("one", "other")),
}
"""Ten columns: a chain of four, a fork of three, a collider of three. (codes, parents)."""


def causal(rows: int, concentration: float = 0.3, seed: int = 33) -> Columns:
    """Draws every column from a table with one row for each combination of its parents; each row
    of a table is drawn from a symmetric Dirichlet distribution."""
    rng = np.random.default_rng(seed)
    out: Columns = {}
    for name, (size, parents) in CAUSAL.items():
        shape = [CAUSAL[parent][0] for parent in parents]
        chances = rng.dirichlet(np.full(size, concentration), int(np.prod(shape, dtype=int)))
        at = np.zeros(rows, np.int64)
        for parent in parents:
            at = at * CAUSAL[parent][0] + out[parent][1]
        below = chances.cumsum(axis=1)[at, :-1]
        codes = (rng.random((rows, 1)) > below).sum(axis=1)
        out[name] = (size, codes)
    return out

"""Baselines to compare a synthetic table with: random samples of the rows of the truth."""

import numpy as np

from ..errors import UsageError

FRACTIONS = (0.01, 0.1)
"""Samples of the truth that scores are compared with: 1 % and 10 % of its rows."""


def label(fraction: float) -> str:
    return f"{100 * fraction:g} % sample"


def rows_of_sample(rows: int, fraction: float, seed: int) -> np.ndarray:
    """Ascending row numbers of a sample without replacement; at least one row if the table has
    any."""
    if not 0.0 < fraction <= 1.0:
        raise UsageError(f"baselines: expected fractions above 0 and at most 1, got {fraction!r}")
    count = min(rows, max(1, round(rows * fraction)))
    rng = np.random.default_rng((seed, round(fraction * 1e9)))
    if rows:
        return np.sort(rng.choice(rows, count, replace=False, shuffle=False))
    return np.zeros(0, np.int64)

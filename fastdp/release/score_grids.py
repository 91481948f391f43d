"""Public estimates as whole numbers, so that distances of private counts from them are exact."""

from collections.abc import Mapping

import numpy as np

from ..domain import Clique, Domain
from ..errors import MeasurementError, UsageError
from ..measurement import SCALE

SCORE_LIMIT = 1 << 61
"""Largest L1 distance in units of 1/SCALE rows: two of them can be added in 64 bits."""
WEIGHT_UNITS = 1 << 10
"""Weights of candidates are whole multiples of 1 / WEIGHT_UNITS, so weighted scores are whole."""


def score_grid(domain: Domain, clique: Clique, estimates: Mapping, label: str) -> np.ndarray:
    """A public estimate rounded to the grid, so that the distance to it is a whole number."""
    if clique not in estimates:
        raise UsageError(f"{label!r}: the estimate of {clique!r} is missing")
    estimate = np.asarray(estimates[clique], np.float64).reshape(-1)
    if estimate.size != domain.cells(clique) or not np.isfinite(estimate).all():
        raise MeasurementError(
            f"{label!r}: the estimate of {clique!r} must have one finite number per cell"
        )
    if float(np.abs(estimate).sum()) * SCALE >= SCORE_LIMIT:
        raise UsageError(f"{label!r}: the estimate of {clique!r} is too large to compare exactly")
    return np.rint(estimate * SCALE).astype(np.int64)


def l1_distance(counts: np.ndarray, grid: np.ndarray) -> int:
    """The L1 distance of a marginal from an estimate, both int64 in units of 1/SCALE rows. It is
    cut off at SCORE_LIMIT, which cannot raise how much one user changes it."""
    apart = np.abs(counts.reshape(-1) - grid)
    if apart.sum(dtype=np.float64) > 2 * SCORE_LIMIT:  # the exact sum is above it, and might wrap
        return SCORE_LIMIT
    return min(SCORE_LIMIT, int(apart.sum(dtype=np.int64)))

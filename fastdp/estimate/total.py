"""The number of rows, estimated from noisy answers only, with minimum variance.

Every measurement whose rows can be combined to "everyone" gives an unbiased estimate; independent
estimates are averaged by inverse variance.
"""

from collections.abc import Sequence

import numpy as np

from ..queries import AdaGrid, Binned, Grid, Identity, Sparse, as_query


def estimate_total(domain, measurements: Sequence) -> tuple[float, float]:
    """(total, standard error); total is at least 1. Without any usable measurement (1, inf)."""
    estimates = []
    for seen in measurements:
        query = as_query(seen.query, domain.cells(seen.clique))
        y = np.asarray(seen.values, np.float64).reshape(-1)
        variance = np.broadcast_to(np.asarray(seen.sigma, np.float64) ** 2, y.shape)
        estimate = _total(query, y, variance)
        if estimate is not None and np.isfinite(estimate[1]) and estimate[1] > 0:
            estimates.append(estimate)
    if not estimates:
        return 1.0, float("inf")
    total, spread = average(estimates)
    return max(total, 1.0), float(np.sqrt(spread))


def average(estimates: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(mean, variance) of least variance of independent (estimate, variance > 0) of one number."""
    precision = sum(1 / v for _, v in estimates)
    return sum(x / v for x, v in estimates) / precision, 1 / precision


def _total(query, y, variance) -> tuple[float, float] | None:
    if isinstance(query, AdaGrid):
        return _of_grid(query.grid, y, variance, 0)[0]
    if isinstance(query, Identity | Binned):
        return float(y.sum()), float(variance.sum())
    return _of_matrix(query.matrix, y, variance) if isinstance(query, Sparse) else None


def _of_grid(grid: Grid, y, variance, start) -> tuple[tuple[float, float], int]:
    """Fine cells plus the remainder; each child gives a separate estimate of the remainder."""
    stop = start + grid.fine.size
    total = float(y[start:stop].sum())
    spread = float(variance[start:stop].sum())
    ways = []
    for child in grid.children:
        way, stop = _of_grid(child, y, variance, stop)
        ways.append(way)
    if ways:
        rest, rest_spread = average(ways) if all(v > 0 for _, v in ways) else ways[0]
        total = total + rest
        spread = spread + rest_spread
    return (total, spread), stop


def _of_matrix(matrix, y, variance) -> tuple[float, float] | None:
    """Weights u with u Q = 1 of least variance, where they exist."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import lsmr

    root = np.sqrt(variance)
    scaled = (diags_array(1 / root) @ matrix).T
    ones = np.ones(matrix.shape[1])
    u = lsmr(scaled, ones, atol=1e-12, btol=1e-12)[0]
    if not np.allclose(scaled @ u, ones, atol=1e-6):
        return None
    weights = u / root
    return float(weights @ y), float((weights**2) @ variance)

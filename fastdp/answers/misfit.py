"""Errors of the model where a set of columns was not measured: from its released distance from the data.

The L1 distance d of the finished model from the data bounds nothing cell by cell, but says how large errors
are. Errors of cells with m expected rows are taken as N(0, s^2 (m + 1)), given that measured margins are
right up to their noise, with s such that the expected L1 distance is d. Errors of one row are not independent
and larger than normal, so they are multiplied by `COUNTS` or `MEANS`. On adult, a binary table and an ACS
extract at epsilon 1 and 10 nominal 95 % intervals covered 92 to 99 % of cells and 90 to 97 % of means:
approximate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from ..domain import Clique
from .best_linear import MOST_SUMS, Matrix, Table, estimate, factor, sum_matrix
from .clipping import Z95
from .evidence import Marginal

COUNTS = {2: 2.5, 3: 3.0}
MEANS = {2: 3.5, 3: 4.5}
"""Standard errors in the half-width of a 95 % interval, by number of columns (for more, that of three).
Chosen on adult at epsilon 1."""
NORMAL = float(np.sqrt(2 / np.pi))
DENSE = 1 << 33
"""Multiplications up to which standard errors of all cells are worked out exactly."""

Distances = Mapping[frozenset[str], tuple[float, float]]


def shrunk(distances: Distances) -> dict[frozenset[str], float]:
    """Noisy distances drawn to the mean of those with as many columns, as far as noise explains how they
    differ, plus half a standard error; never below half a standard error."""
    out: dict[frozenset[str], float] = {}
    for size in {len(s) for s in distances}:
        names = [s for s in distances if len(s) == size]
        d, sigma = np.array([distances[s] for s in names]).T
        if len(names) > 3:
            noise = float(np.mean(np.square(sigma)))
            extra = max(float(d.var(ddof=1)) - noise, 0.0)
            mean = max(float(d.mean()), float(np.sqrt(noise / len(names))))
            weight = extra / (extra + np.square(sigma))
            d = np.maximum(mean + weight * (d - mean), 0.25 * mean) + 0.5 * np.sqrt(weight) * sigma
        else:
            d = np.maximum(d, 0.0) + 0.5 * sigma
        out |= dict(zip(names, np.maximum(d, 0.5 * sigma).tolist(), strict=True))
    return out


def misfit(
    cells: np.ndarray,
    maps: tuple[np.ndarray, ...],
    columns: Clique,
    distance: float,
    marginals: Sequence[Marginal],
) -> Table:
    """The model's marginal (`cells`, over `maps`) as a table with errors of a total L1 distance
    `distance`."""
    shape, x = cells.shape, cells.reshape(-1)
    spread = np.maximum(x, 0.0) + 1.0
    index = np.indices(shape).reshape(len(shape), -1)
    flat, sizes, errors = [], [], []
    for part, table in _known_margins(columns, maps, marginals):
        at = [index[columns.index(a)] for a in part]
        flat.append(np.ravel_multi_index(at, table.shape))
        sizes.append(table.x.size)
        errors.append(table.cell_variances())
    order = len(columns) if len(columns) in COUNTS else max(COUNTS)
    inflation = {"count": COUNTS[order] / Z95, "mean": MEANS[order] / Z95}
    table = Table(columns, maps, x, spread, basis="model", inflation=inflation)
    if not flat:
        scale = (distance / (NORMAL * np.sqrt(spread).sum())) ** 2
        return Table(columns, maps, x, scale * spread, basis="model", inflation=inflation)
    matrix, noise = sum_matrix(flat, sizes), np.concatenate(errors)
    table = _conditioned(table, matrix, 1e-6 * float(np.mean(matrix @ spread)))
    deviations = np.sqrt(_cell_variances(table, matrix))
    scale = (distance / max(NORMAL * float(deviations.sum()), 1e-300)) ** 2
    wide = Table(columns, maps, x, scale * spread, basis="model", inflation=inflation)
    return _conditioned(wide, matrix, noise)


def _conditioned(table: Table, matrix: Matrix, noise: np.ndarray | float) -> Table:
    """The table's errors given that sums of cells (rows of `matrix`) are known up to `noise`, a variance."""
    return replace(table, factor=factor(matrix, table.spread, noise))


def _cell_variances(table: Table, matrix: Matrix) -> np.ndarray:
    """Variances of single cells; where that would take too long, each sum is subtracted separately."""
    sums, cells = matrix.shape
    if sums * sums * cells <= DENSE:
        return table.cell_variances()
    out = table.spread.copy()
    within = matrix.T @ (1 / np.maximum(matrix @ table.spread, 1e-300))
    return out * np.maximum(1 - table.spread * within, 0.0)


def _known_margins(columns: Clique, maps: tuple[np.ndarray, ...], marginals: Sequence[Marginal]):
    """(columns, table) of the largest measured parts of the set, over the same partition of codes."""
    found: list[tuple[Clique, Table]] = []
    count = 0
    for size in range(len(columns) - 1, 0, -1):
        for part in combinations(columns, size):
            if any(set(part) <= set(other) for other, _ in found):
                continue
            target = [maps[columns.index(a)] for a in part]
            table = estimate(marginals, part)
            if table is None or table.known is not None:
                continue
            if size == 1:
                table = _merged(table, target[0])
            elif any(not np.array_equal(m, t) for m, t in zip(table.maps, target, strict=True)):
                continue
            if table is not None and count + table.x.size <= MOST_SUMS:
                found.append((part, table))
                count += table.x.size
    return found


def _merged(table: Table, target: np.ndarray) -> Table:
    """A single column's table, summed to the target's positions; errors of the sums without covariances."""
    groups = np.zeros(table.x.size, np.int64)
    groups[table.maps[0]] = target
    size = int(target.max()) + 1
    from scipy import sparse

    weights = sparse.csr_array((np.ones(groups.size), (groups, np.arange(groups.size))), (size, groups.size))
    return Table(table.axes, (target,), weights @ table.x, table.variances(weights))

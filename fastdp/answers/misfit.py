"""Errors of the model where a set of columns was not measured: from its released distance from the data.

The L1 distance d of the finished model from the data bounds nothing cell by cell, but says how large errors
are. Errors of cells with m expected rows are taken as N(0, s^2 (m + 1)), given that measured margins are
right up to their noise, with s such that the expected L1 distance is d: a table of rows differs from any law
by a variance in proportion to m, and s says by how much more the model differs. Given the true d, nominal
95 % intervals covered 95 to 98 % of cells of adult, Chicago trips and simulated trips and of three tables
that were held aside (ACS, coded taxi trips, flights), 91 to 97 % of those with more than 100 rows.
Approximate.
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

MEANS = 3.0
"""Standard errors in the half-width of a 95 % interval of a mean: errors of cells of one group are not
independent. Given the true distance 95 % of means need 2.4 to 3.3 on the first three tables above, and 2.2
to 2.5 on the others."""
VARIED = 0.4
"""Standard deviation of the ratio of distance to size (see `shrunk`) from set to set, relative to its mean,
at least: where noise is small (epsilon 10) it is .12 to .47 on these tables."""
DOUBT = 1.38
"""If d has relative error r, errors of cells are a mixture of normals, whose 95 % point is that of a normal
times sqrt(1 + (DOUBT r)^2) for r up to .5."""
NORMAL = float(np.sqrt(2 / np.pi))
DENSE = 1 << 33
"""Multiplications up to which standard errors of all cells are worked out exactly."""

Distances = Mapping[frozenset[str], tuple[float, float]]


def shrunk(distances: Distances, sizes: Mapping[frozenset[str], float]) -> dict[frozenset[str], float]:
    """Distances to make intervals of, from noisy ones. `sizes`: the distance in proportion to which a table
    of rows would differ from the law that they were drawn from. The ratio of distance to size is drawn to
    that of all sets with as many columns, as far as noise explains how it differs, and the distance raised by
    what is not known of it (see `DOUBT`)."""
    out: dict[frozenset[str], float] = {}
    for order in {len(s) for s in distances}:
        names = [s for s in distances if len(s) == order]
        d, sigma = np.array([distances[s] for s in names]).T
        size, noise = np.array([sizes[s] for s in names]), np.square(sigma)
        unsure = float(noise.sum()) / float(size.sum()) ** 2
        ratio = max(float(d.sum() / size.sum()), unsure**0.5)
        apart = d - ratio * size
        varied = float((np.square(apart) - noise).sum() / np.square(size).sum())
        varied = np.square(size) * max(varied, (VARIED * ratio) ** 2)
        weight = varied / (varied + noise)
        best = np.maximum(ratio * size + weight * apart, 0.25 * ratio * size)
        error = weight * noise + np.square((1 - weight) * size) * unsure
        out |= dict(zip(names, np.hypot(best, DOUBT * np.sqrt(error)).tolist(), strict=True))
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
    inflation = {"mean": MEANS / Z95}
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

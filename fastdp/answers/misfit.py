"""Errors of the model where a set of columns was not measured: from its released distance from the
data.

The L1 distance d of the finished model from the data bounds nothing cell by cell, but says how
large errors are. Given that measured margins are right up to their noise, errors of cells with m
expected rows are taken as normal. Their variance is s^2 (m + 1)^POWER, with s such that the
expected L1 distance is d. A sample differs from its distribution by a variance in proportion to m.
A wrong model differs by one in proportion to m^2. The power is between (Taylor's law). From set to
set, and so from cell to cell, s differs: see `VARIED`. Constants were chosen on adult, Chicago
trips, simulated trips, an ACS extract, coded taxi trips and flights, one or two runs each at
epsilons 1 and 10. No table was held aside for all of them. Approximate.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from .._util.lazy import sp
from ..domain import Clique
from ..significance import drawn_towards, spread_beyond_noise
from .best_linear import MOST_SUMS, Table, estimate, factor, sum_matrix
from .clipping import Z95
from .evidence import Maps, Marginal

MEANS = 3.0
"""Standard errors in the half-width of a 95 % interval of a mean: errors of cells of one group are
not independent. Given the true distance 95 % of means need 2.4 to 3.3 on the first three tables,
and 2.2 to 2.5 on the others."""
POWER = 1.2
"""At 1, cells of more than 100 rows are covered less than smaller ones (89 and 98 % on adult at
epsilon 10). At 1.4, those of 11 to 100 rows are missed (89 % on adult)."""
VARIED = 0.4
"""Least standard deviation, from set to set, of the ratio of distance to size (see
`empirical_bayes`), relative to its mean. Where noise is small (epsilon 10) it is .12 to .44 on the
first three tables, and .37 to .47 on the others. Cells of one set are taken to differ as much."""
DOUBT = 1.38
"""If s has relative error r, errors of cells are a mixture of normals. Its 95 % point is that of a
normal times sqrt(1 + (DOUBT r)^2) for r up to .5."""
NORMAL = float(np.sqrt(2 / np.pi))
DENSE = 1 << 33
"""Multiplications up to which standard errors of all cells are worked out exactly."""

Distances = Mapping[frozenset[str], tuple[float, float]]


def empirical_bayes(
    distances: Distances, sizes: Mapping[frozenset[str], float]
) -> dict[frozenset[str], float]:
    """Distances to make intervals of, from noisy ones. `sizes`: the distance in proportion to which
    a table of rows would differ from the law that they were drawn from. The ratio of distance to
    size is drawn to that of all sets with as many columns, as far as noise explains how it differs.
    Then the distance is raised by what is not known of it (see `DOUBT`)."""
    out: dict[frozenset[str], float] = {}
    for order in {len(s) for s in distances}:
        names = [s for s in distances if len(s) == order]
        d, sigma = np.array([distances[s] for s in names]).T
        size = np.array([sizes[s] for s in names])
        noise = np.square(sigma)
        unsure = float(noise.sum()) / float(size.sum()) ** 2
        ratio = max(float(d.sum() / size.sum()), unsure**0.5)
        alike = ratio * size
        spread = spread_beyond_noise(d - alike, noise, np.square(size))
        varied = np.square(size) * max(spread, (VARIED * ratio) ** 2)
        best = np.maximum(drawn_towards(alike, d, noise, varied), 0.25 * alike)
        weight = varied / (varied + noise)
        error = weight * noise + np.square((1 - weight) * size) * unsure
        out |= dict(zip(names, np.hypot(best, DOUBT * np.sqrt(error)).tolist(), strict=True))
    return out


def expected_sizes(
    sets: Iterable[frozenset[str]], marginals: Sequence[Marginal], codes: Mapping[str, np.ndarray]
) -> dict[frozenset[str], float]:
    """`sizes` of `empirical_bayes`: expected L1 sampling error of each set, over merged codes, if
    its columns were independent given their margins. It is the sum of the square roots of the
    cells."""
    roots = {}
    rows = 1.0
    for a in {a for names in sets for a in names}:
        one = estimate(marginals, (a,))
        if one is not None:
            cells = np.maximum(_merged(one, codes.get(a, one.maps[0])).x, 0.0)
            rows = max(float(cells.sum()), 1.0)
            roots[a] = float(np.sqrt(cells).sum()) * (1 - 1 / max(2, cells.size)) ** 0.5
    return {
        s: math.prod(roots.get(a, 1.0) for a in s) / rows ** ((len(s) - 1) / 2) + 1e-9 for s in sets
    }


def misfit(
    cells: np.ndarray, maps: Maps, columns: Clique, distance: float, marginals: Sequence[Marginal]
) -> Table | None:
    """The model's marginal (`cells`, over `maps`) as a table with errors of a total L1 distance
    `distance`; None if no margin of it was measured."""
    x = cells.reshape(-1)
    index = np.indices(cells.shape).reshape(cells.ndim, -1)
    spread = (np.maximum(x, 0.0) + 1.0) ** POWER
    margins = _known_margins(columns, maps, marginals)
    if not margins:
        return None
    flat = [np.ravel_multi_index([index[columns.index(a)] for a in c], t.shape) for c, t in margins]
    matrix = sum_matrix(flat, [t.x.size for _, t in margins])
    noise = np.concatenate([t.cell_variances() for _, t in margins])
    exact = factor(matrix, spread, 1e-6 * float(np.mean(matrix @ spread)))
    inflation = {"count": math.hypot(1.0, DOUBT * VARIED), "mean": MEANS / Z95}
    table = Table(columns, maps, x, spread, exact, basis="model", inflation=inflation)
    expected = NORMAL * float(np.sqrt(cell_variances(table)).sum())
    spread = (distance / max(expected, 1e-300)) ** 2 * spread
    return replace(table, spread=spread, factor=factor(matrix, spread, noise))


def cell_variances(table: Table) -> np.ndarray:
    """Variances of single cells; where that would take too long, each sum is subtracted
    separately."""
    if table.factor is None:
        return table.spread
    scaled = table.factor[1]
    sums, cells = scaled.shape
    if sums * sums * cells <= DENSE:
        return table.cell_variances()
    of_sums = np.maximum(np.asarray(scaled.sum(axis=1)).reshape(-1), 1e-300)
    return np.maximum(table.spread * (1 - scaled.T @ (1 / of_sums)), 0.0)


def _known_margins(columns: Clique, maps: Maps, marginals: Sequence[Marginal]):
    """(columns, table) of the largest measured parts of the set, over the same partition of
    codes."""
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
    """A single column's table, summed to the target's positions; errors of the sums without
    covariances."""
    groups = np.zeros(table.x.size, np.int64)
    groups[table.maps[0]] = target
    size = int(target.max()) + 1
    weights = sp.csr_array(
        (np.ones(groups.size), (groups, np.arange(groups.size))), (size, groups.size)
    )
    return Table(table.axes, (target,), weights @ table.x, table.variances(weights))

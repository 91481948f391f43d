"""Centres of the regions, towards which their tables are shrunk: for a single attribute its
answers, for other regions a model of other regions.

Stein's estimate of a region's risk requires a centre that does not depend on the region's own
answers. So `partition_groups` deals regions into groups, and a region's centre comes from a model
of the other groups.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..._core.tables import sums
from ..._core.team import Team
from ..._util.disjoint import DisjointSets
from .region_graph import Region, Regions, Set

GROUPS = 4
"""Number of groups: the strongest tree, and the other regions in three parts. With six or eight
groups the tables of adult's pairs are 1 to 2 % better, with three as much worse; every group costs
two tours of raking."""
LEAST_CELL = 1e-9
"""Rows that stand for none in a logarithm."""


def first_centre(problem: Regions, r: Region) -> np.ndarray:
    """The centre of a single attribute: its answers, raised to at least half a sigma. For codes
    that pairs have merged it is the mean of their answers, raised to at least a tenth of a sigma.
    """
    sigma = np.broadcast_to(r.sigma, r.y.shape)
    centre = np.maximum(r.y, 0.5 * sigma)
    ((a, fine),) = r.names
    for q in (problem.regions[i] for i in problem.about(a)):
        p = dict(q.names)[a]
        if q.order > 1 and p != fine and problem.partitions.join(a, fine, p) == p:
            bins = problem.partitions.lift(a, fine, p)
            n = np.bincount(bins)
            mean = np.maximum(np.bincount(bins, r.y) / n, 0.1 * np.bincount(bins, sigma) / n)
            centre = np.where(n[bins] > 1, mean[bins], centre)
    return centre


def first_shares(problem: Regions, threads: int | Team = 1) -> dict[str, np.ndarray]:
    """The share of every code of the measured attributes: from the attribute's own marginal, or
    summed up from the region that has it with the least noise."""
    out: dict[str, np.ndarray] = {}
    singles: dict[Set, list[np.ndarray]] = {}
    ranked = sorted(problem.regions, key=lambda r: (r.order > 1, r.variance * r.cells))
    for a in {a for r in ranked for a in r.clique}:
        r = next(r for r in ranked if a in r.clique)
        axis = r.clique.index(a)
        if r.order == 1:
            shares = first_centre(problem, r)
        else:
            if r.names not in singles:
                singles[r.names], _ = _added_up(r.y.reshape(r.shape), 0.0, threads)
            noise = math.sqrt(r.variance * (r.cells // r.shape[axis]))
            shares = np.maximum(singles[r.names][axis], 0.5 * noise)
        bins = problem.partitions.bins[a][dict(r.names)[a]]
        shares = (shares / np.bincount(bins))[bins]
        out[a] = shares / shares.sum()
    return out


def _added_up(
    table: np.ndarray, least: float, threads: int | Team
) -> tuple[list[np.ndarray], float]:
    """The marginals of a table's single attributes, and the sum of x log(max(x, least))."""
    by_row, last, logs = sums(table.reshape(-1, table.shape[-1]), least, threads)
    lead = by_row.reshape(table.shape[:-1])
    axes = range(lead.ndim)
    return [*(lead.sum(axis=tuple(k for k in axes if k != axis)) for axis in axes), last], logs


def independent(
    problem: Regions, r: Region, shares: Mapping[str, np.ndarray], total: float
) -> np.ndarray:
    table = np.full((), total)
    for a in r.clique:
        table = np.multiply.outer(
            table, np.bincount(problem.partitions.bins[a][dict(r.names)[a]], shares[a])
        )
    return table


def strengths(
    regions: Sequence[Region], tables: Mapping[int, np.ndarray], threads: int | Team
) -> dict[int, float]:
    """How far each table of several attributes is from their independence: rows times nats. The
    negative entropy of the table less those of its single attributes."""
    return {i: _dependence(table, threads) for i, table in tables.items() if regions[i].order > 1}


def _dependence(table: np.ndarray, threads: int | Team) -> float:
    def entropy(cells: np.ndarray) -> float:
        return sums(cells.reshape(1, -1), LEAST_CELL, 1)[2]

    singles, whole = _added_up(table, LEAST_CELL, threads)
    total = float(singles[-1].sum())
    if not total > 0:
        return 0.0
    return whole - sum(map(entropy, singles)) + (table.ndim - 1) * total * float(np.log(total))


def strongest_tree(regions: Sequence[Region], strength: Mapping[int, float]) -> list[int]:
    """The pairs of a maximum spanning forest."""
    pairs = [i for i in sorted(strength, key=lambda i: (-strength[i], i)) if regions[i].order == 2]
    joined = DisjointSets(a for i in pairs for a in regions[i].clique)
    return [i for i in pairs if joined.merge(*regions[i].clique)]


def partition_groups(
    regions: Sequence[Region], strength: Mapping[int, float], numbers: Sequence[int]
) -> list[list[int]]:
    """Regions in groups: the pairs of the strongest tree, then the others in turn by strength. So
    the other groups still say much about any group that is left out."""
    tree = [i for i in strongest_tree(regions, strength) if i in set(numbers)]
    rest = sorted(set(numbers) - set(tree), key=lambda i: (-strength[i], i))
    parts = GROUPS - 1 if tree else GROUPS
    return [group for group in (tree, *(rest[g::parts] for g in range(parts))) if group]

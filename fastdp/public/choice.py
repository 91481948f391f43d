"""Outer marginals chosen from a public table alone, by the mutual information of pairs of
columns."""

from itertools import combinations

import numpy as np

from ..domain import Clique
from ..engines.truth import marginals
from ..model.grow import grow
from ..tables.table import Table


def choose_outer(table: Table, ways: int = 3, max_cells: int = 200_000) -> list[Clique]:
    """Outer marginals of up to `ways` attributes; see `grow`."""

    domain = table.schema.modelled
    pairs = [p for p in combinations(domain, 2) if domain.cells(p) <= max_cells]
    counts = marginals(table, pairs, clip=None)
    return grow(domain, {p: mutual_information(counts[p]) for p in pairs}, ways, max_cells)


def mutual_information(counts: np.ndarray) -> float:
    """Mutual information, in nats, of the two columns of a 2-way marginal; 0 if it has no rows."""
    total = counts.sum()
    if total <= 0:
        return 0.0
    p = counts / total
    outer = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    seen = p > 0
    return float((p[seen] * np.log(p[seen] / outer[seen])).sum())

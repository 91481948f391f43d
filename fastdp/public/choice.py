"""Choices made from a public table alone: the association of pairs of columns, and the outer marginals that
are chosen by it."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ..domain import Clique, Columns, batches
from ..engines.truth import marginals
from ..model.grow import grow
from ..tables.table import Table


def associations(table: Table, recode: Columns | None = None, max_cells: int = 10**6) -> dict[Clique, float]:
    """Mutual information in nats of every pair of columns with at most `max_cells` cells, minus its
    expectation (r - 1)(c - 1) / 2n for independent columns with n rows and r and c values that occur; never
    below 0. `recode`: maps from old to new codes that are applied first."""

    domain = table.schema.modelled.recoded(recode or {})
    pairs = [p for p in combinations(domain, 2) if domain.cells(p) <= max_cells]
    strength: dict[Clique, float] = {}
    for start, stop in batches([domain.cells(p) for p in pairs]):
        counts = marginals(table, pairs[start:stop], clip=None, sparse=False, recode=recode)
        for pair, cells in counts.items():
            rows, columns = (np.count_nonzero(cells.sum(axis=k)) for k in (1, 0))
            chance = (rows - 1) * (columns - 1) / (2 * max(1, int(cells.sum())))
            strength[pair] = max(0.0, mutual_information(cells) - chance)
    return strength


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

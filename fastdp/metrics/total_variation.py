"""Total variation between marginals of two coded tables, dense or sparse, counted by the compiled
engine."""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ..domain import Clique, Cliques, code_dtype
from ..engines.truth import marginals
from ..tables.table import Table, as_schema
from .inputs import Pair

DENSE_CELLS_PER_ROW = 4
"""A marginal with more cells a row than this is counted sparsely: only its non-empty cells."""
DENSE_CELLS = (1 << 16, 1 << 22)
"""So many cells are always counted densely, and more than so many never."""
BATCH_CELLS = 1 << 23
"""Cells counted in one pass over the rows."""
Cells = tuple[np.ndarray, np.ndarray, np.ndarray]


def counted_marginals(
    pair: Pair, cliques: Cliques, threads: int | None = None
) -> Iterator[tuple[Clique, Any, Any]]:
    """Yields (clique, counts of the truth, counts of the synthetic table) for each clique: int64
    arrays, or sparse marginals."""
    both = zip((pair.truth, pair.synthetic), pair.rows, strict=True)
    tables = [_table(pair.sizes, codes, n) for codes, n in both]
    for batch, sparse in _batches(pair.sizes, cliques, max(pair.rows)):
        first, second = (marginals(t, batch, threads=threads, sparse=sparse) for t in tables)
        for clique in batch:
            yield clique, first[clique], second[clique]


def total_variation(pair: Pair, cliques: Cliques, threads: int | None = None) -> np.ndarray:
    """float64 [cliques]: half the L1 distance between both tables' normalised counts; 1 if exactly
    one table is empty."""
    distances = {
        c: variation_of_counts(a, b, pair.rows)
        for c, a, b in counted_marginals(pair, cliques, threads)
    }
    return np.array([distances[c] for c in cliques])


def variation_of_counts(a: Any, b: Any, rows: tuple[int, int]) -> float:
    """Total variation between the counts `a` and `b` of one marginal; `rows`: numbers of rows of
    the two tables."""
    if 0 in rows:
        return float(rows[0] != rows[1])
    if isinstance(a, np.ndarray):
        difference = a / rows[0]
        difference -= b / rows[1]
        return float(0.5 * np.abs(difference, out=difference).sum())
    return sparse_between(a.keys, a.sums / rows[0], b.keys, b.sums / rows[1])


def sparse_between(keys_a: np.ndarray, a: np.ndarray, keys_b: np.ndarray, b: np.ndarray) -> float:
    """Half the L1 distance of two sparse vectors, each given by ascending keys and the values at
    these keys."""
    at = np.searchsorted(keys_b, keys_a)
    inside = at < len(keys_b)
    same = np.zeros(len(keys_a), dtype=bool)
    same[inside] = keys_b[at[inside]] == keys_a[inside]
    met = b[at[same]]
    return float(0.5 * (np.abs(a[same] - met).sum() + a[~same].sum() + (b.sum() - met.sum())))


def cells_of(table: Any) -> Cells:
    """Non-empty cells of a 2-way marginal, dense or sparse: both codes (int64), and the rows
    (float64)."""
    if isinstance(table, np.ndarray):
        x, y = np.nonzero(table)
        return x, y, table[x, y].astype(np.float64)
    x, y = (c.astype(np.int64) for c in table.codes())
    return x, y, table.sums.astype(np.float64)


def _table(sizes: dict[str, int], codes: dict[str, np.ndarray], rows: int) -> Any:
    narrow = {n: np.ascontiguousarray(codes[n], code_dtype(size)) for n, size in sizes.items()}
    return Table(as_schema(sizes), narrow, rows=rows, public=True)


def _batches(
    sizes: dict[str, int], cliques: Cliques, rows: int
) -> Iterator[tuple[list[Clique], bool]]:
    """Cliques to count together, and whether sparsely: only their non-empty cells."""
    batch: list[Clique] = []
    total = 0
    always, most = DENSE_CELLS
    dense = min(max(DENSE_CELLS_PER_ROW * rows, always), most)
    for clique in dict.fromkeys(cliques):
        cells = prod(sizes[n] for n in clique)
        if cells > dense:
            yield [clique], True
            continue
        if batch and total + cells > BATCH_CELLS:
            yield batch, False
            batch = []
            total = 0
        batch.append(clique)
        total += cells
    if batch:
        yield batch, False

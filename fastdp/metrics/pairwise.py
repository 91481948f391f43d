"""Metrics of single columns and pairs: total variation, correlation (ordered columns), association
(all)."""

from itertools import combinations
from typing import Any

import numpy as np

from .compare import Comparison
from .inputs import Pair
from .metric import metric
from .total_variation import cells_of, counted_marginals, total_variation, variation_of_counts

CHUNK = 1 << 20
"""Rows of which the columns are multiplied at a time; bounds memory."""


def one_way(pair: Pair, threads: int | None = None) -> dict[str, Any]:
    """Total variation of every column: mean, max, by_column."""
    variation = total_variation(pair, [(n,) for n in pair.names], threads)
    by_column = dict(zip(pair.names, map(float, variation), strict=True))
    return {"mean": float(variation.mean()), "max": float(variation.max()), "by_column": by_column}


def two_way(pair: Pair, threads: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(total variation, association) of every pair of columns, from one pass of counting.

    Both have mean, max and columns. Total variation has a symmetric `matrix`, whose diagonal is the
    variation of the single columns. Association has three symmetric matrices: Cramer's V in `truth`
    and in `synthetic` (diagonal 1), and their absolute `difference`. With fewer than two columns,
    mean and max are zero.
    """
    names = pair.names
    size = len(names)
    at = {n: i for i, n in enumerate(names)}
    variation = np.zeros((size, size))
    strength = np.ones((2, size, size))
    np.fill_diagonal(variation, list(one_way(pair, threads)["by_column"].values()))
    for (x, y), a, b in counted_marginals(pair, list(combinations(names, 2)), threads):
        i, j = at[x], at[y]
        variation[i, j] = variation[j, i] = variation_of_counts(a, b, pair.rows)
        for side, table in enumerate((a, b)):
            strength[side, i, j] = strength[side, j, i] = cramers_v(table)
    shares = {
        **_ends(variation[np.triu_indices(size, 1)]),
        "columns": names,
        "matrix": variation.tolist(),
    }
    return shares, _matrices("Cramer's V", names, strength[0], strength[1])


def cramers_v(table: Any) -> float:
    """Cramer's V of a 2-way marginal (dense or sparse), over the values that occur; 0 if a column
    is constant."""
    x, y, counts = cells_of(table)
    rows, columns = np.bincount(x, counts), np.bincount(y, counts)
    least = min(np.count_nonzero(rows), np.count_nonzero(columns))
    if least < 2:
        return 0.0
    mean_square = float((counts**2 / (rows[x] * columns[y])).sum()) - 1.0
    return float(np.sqrt(max(0.0, mean_square) / (least - 1)))


def correlation(pair: Pair) -> dict[str, Any] | None:
    """Differences of the Pearson correlations of the codes of ordered columns; None with fewer than
    two.

    Keys: mean, max, columns, and the matrices `truth`, `synthetic`, `difference` (absolute). A
    constant column has correlation 0.
    """
    names = [n for n in pair.names if pair.ordered.get(n)]
    if len(names) < 2:
        return None
    truth = _pearson([pair.truth[n] for n in names], pair.rows[0])
    synthetic = _pearson([pair.synthetic[n] for n in names], pair.rows[1])
    return _matrices("Pearson correlation of codes", names, truth, synthetic)


def _pearson(columns: list[np.ndarray], rows: int) -> np.ndarray:
    size = len(columns)
    first = np.zeros(size)
    second = np.zeros((size, size))
    for start in range(0, rows, CHUNK):
        block = np.stack([c[start : start + CHUNK] for c in columns]).astype(np.float64)
        first += block.sum(axis=1)
        second += block @ block.T
    mean = first / max(1, rows)
    covariance = second / max(1, rows) - np.outer(mean, mean)
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    product = np.outer(scale, scale)
    out = np.divide(covariance, product, out=np.zeros_like(product), where=product > 1e-12)
    np.fill_diagonal(out, 1.0)
    return out


def _matrices(
    measure: str, names: list[str], truth: np.ndarray, synthetic: np.ndarray
) -> dict[str, Any]:
    """Both matrices and their absolute difference, with its mean and max above the diagonal."""
    difference = np.abs(truth - synthetic)
    out = {
        **_ends(difference[np.triu_indices(len(names), 1)]),
        "measure": measure,
        "columns": names,
    }
    tables = {"truth": truth, "synthetic": synthetic, "difference": difference}
    return out | {name: table.tolist() for name, table in tables.items()}


def _ends(values: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(values.mean()) if len(values) else 0.0,
        "max": float(values.max(initial=0.0)),
    }


def _two_way(comparison: Comparison) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both results of `two_way`, which belong to two metrics."""
    return comparison.once("two_way", lambda: two_way(comparison.pair, comparison.threads))


def _tv1_of_sample(comparison: Comparison, rows: np.ndarray) -> dict[str, Any]:
    return one_way(comparison.sampled(rows), comparison.threads)


def _tv2_of_sample(comparison: Comparison, rows: np.ndarray) -> dict[str, Any]:
    return two_way(comparison.sampled(rows), comparison.threads)[0]


@metric("tv1", default="report", of_sample=_tv1_of_sample, groups=("pairwise",), rank=40)
def tv1(comparison: Comparison) -> dict[str, Any]:
    return one_way(comparison.pair, comparison.threads)


@metric("tv2", default="report", of_sample=_tv2_of_sample, groups=("pairwise",), rank=41)
def tv2(comparison: Comparison) -> dict[str, Any]:
    return _two_way(comparison)[0]


@metric("correlation", groups=("pairwise",), rank=42)
def correlation_of_tables(comparison: Comparison) -> dict[str, Any] | None:
    return correlation(comparison.pair)


@metric("association", groups=("pairwise",), rank=43)
def association_of_tables(comparison: Comparison) -> dict[str, Any]:
    return _two_way(comparison)[1]

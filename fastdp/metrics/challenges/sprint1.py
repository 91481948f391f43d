"""The score of the 2020 de-identification challenge, sprint 1 (incidents by place and month).

A row here is one (neighborhood, year, month) with the counts of its incident types. In both tables,
counts of types under 5 % of the row's total are set to zero. The score of a row starts at 1. The
Jensen-Shannon distance of the counts is subtracted (base 2, 1e-9 added to every count). So is 0.2
for each type that is then zero in the truth and positive in the synthetic table. So is 0.25 if the
L1 distance of the original counts is more than 500. The result is limited to [0, 1]. Equal rows
score 1.
"""

from typing import Any

import numpy as np

from ..compare import Comparison
from ..inputs import codes_of_pair, with_columns
from ..metric import metric

COLUMNS = ("neighborhood", "year", "month", "incident_type")
NEIGHBORHOODS = 278
TYPES = 174
"""Neighbourhoods and types of incidents in the challenge's data."""

# The challenge's rules of scoring, for one neighbourhood and month.
MIN_TYPE_SHARE = 0.05
"""Types with a smaller share of the incidents count as absent."""
INVENTED_PENALTY = 0.2
"""Points lost for each type that only the synthetic table has."""
BIAS_PENALTY = 0.25
"""Points lost where the numbers of incidents differ by more than MAX_BIAS."""
MAX_BIAS = 500
"""Incidents."""
SMALL = 1e-9
"""Added to every count, so that all logarithms are finite."""


def score(truth: Any, synthetic: Any) -> dict[str, Any]:
    """Scores of two tables of incidents: `score` (mean over rows, 0..1), `sum`, `rows`,
    `by_neighborhood`, `by_period`.

    Rows are all 278 neighbourhoods (and any other value that occurs) times all twelve months of
    each year that occurs.
    """
    sources = {"truth": truth, "synthetic": synthetic}
    a, b = (with_columns(s, what, "sprint1", COLUMNS) for what, s in sources.items())
    codes = []
    axes = []
    for name in COLUMNS:
        first, second, values = codes_of_pair(a[name], b[name])
        values = values.to_pylist()
        full = _axis(name, values)
        place = {v: i for i, v in enumerate(full)}
        table = np.array([place[v] for v in values] or [0], np.int64)
        codes.append((table[first], table[second]))
        axes.append(full)
    shape = tuple(max(1, len(axis)) for axis in axes)
    truth_counts = _histogram([first for first, _ in codes], shape)
    synthetic_counts = _histogram([second for _, second in codes], shape)
    points = rows_score(truth_counts, synthetic_counts).reshape(shape[:-1])
    return {
        "score": float(points.mean()),
        "sum": float(points.sum()),
        "rows": int(points.size),
        "neighborhoods": axes[0],
        "by_neighborhood": points.mean(axis=(1, 2)).tolist(),
        "periods": [[year, month] for year in axes[1] for month in axes[2]],
        "by_period": points.mean(axis=0).ravel().tolist(),
    }


def _histogram(codes: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Incidents by (neighborhood, year, month) in rows, and by type in columns."""
    cells = np.ravel_multi_index(codes, shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(-1, shape[-1])


def rows_score(truth: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """float64 [rows]: the score (0..1) of each row of two arrays of counts [rows, types]."""
    raw_a = truth.astype(np.float64)
    raw_b = synthetic.astype(np.float64)
    a, b = (
        np.where(x < MIN_TYPE_SHARE * x.sum(axis=1, keepdims=True), 0.0, x) for x in (raw_a, raw_b)
    )
    points = 1.0 - jensen_shannon(a + SMALL, b + SMALL)
    points -= INVENTED_PENALTY * ((a == 0) & (b > 0)).sum(axis=1)
    points -= BIAS_PENALTY * (np.abs(raw_a - raw_b).sum(axis=1) > MAX_BIAS)
    points = np.clip(points, 0.0, 1.0)
    points[(raw_a == raw_b).all(axis=1)] = 1.0
    return points


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Jensen-Shannon distance (square root of the divergence to base 2) between the corresponding
    rows of two positive arrays, each row normalised to sum 1."""
    p, q = (x / x.sum(axis=1, keepdims=True) for x in (p, q))
    middle = 0.5 * (p + q)
    divergence = 0.5 * (p * np.log2(p / middle) + q * np.log2(q / middle)).sum(axis=1)
    return np.sqrt(np.clip(divergence, 0.0, None))


def _axis(name: str, values: list) -> list:
    official = {
        "neighborhood": range(NEIGHBORHOODS),
        "month": range(1, 13),
        "incident_type": range(TYPES),
    }
    listed = list(official.get(name, ()))
    return listed + [v for v in values if v not in set(listed)]


def _has_columns(comparison: Comparison) -> bool:
    return comparison.has(COLUMNS)


@metric("sprint1", applies=_has_columns, default="yes", rank=11)
def of_tables(comparison: Comparison) -> dict[str, Any]:
    truth, synthetic = comparison.values(COLUMNS)
    return score(truth, synthetic)

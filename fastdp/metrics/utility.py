"""Utility for prediction: one model is trained on the synthetic table and one on the truth, and
both are tested on rows of the truth.

The model is scikit-learn's random forest of 30 trees with leaves of at least 5 rows, on the codes
of all other columns. The result names it. It is single-threaded and seeded, so results are
reproducible. scikit-learn is an optional dependency.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np

from ..errors import UsageError, did_you_mean
from .compare import Comparison
from .inputs import Pair
from .metric import metric

MAX_ROWS = 20_000
"""The most rows for training, and for testing; bounds the time of the forests."""
MODEL = "random forest, 30 trees, leaves of at least 5 rows"


def available() -> bool:
    """Whether scikit-learn is installed (without importing it)."""
    return find_spec("sklearn") is not None


def score(pair: Pair, target: str | None = None, *, seed: int = 0) -> dict[str, Any]:
    """How well `target` is predicted on one half of the truth by three models: `synthetic` (trained
    on the synthetic table), `truth` (trained on the other half of the truth) and `constant` (always
    the same value). Each number is the accuracy if the target has at most 20 codes, else the R2 of
    the codes. `score` is max(0, (synthetic - constant) / (truth - constant)); it can exceed 1, and
    is None if truth is no better than constant. Each model is trained, and tested, on at most
    MAX_ROWS rows.
    """
    try:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
        from sklearn.metrics import accuracy_score, r2_score
    except ImportError as error:
        raise UsageError(
            "the utility metric needs scikit-learn: pip install 'fastdp[utility]'"
        ) from error

    target = pick_target(pair) if target is None else target
    if target not in pair.sizes:
        raise UsageError(f"target: there is no column {target!r}{did_you_mean(target, pair.names)}")
    if len(pair.names) < 2:
        raise UsageError(
            "utility: the table has one column, so nothing can predict it; use a table "
            "with more columns"
        )
    if pair.rows[0] < 4 or pair.rows[1] < 2:
        return {"score": None, "target": target, "model": MODEL, "reason": "too few rows"}
    rng = np.random.default_rng(seed)
    order = rng.permutation(pair.rows[0])
    half = len(order) // 2
    parts = (order[:half][:MAX_ROWS], order[half:][:MAX_ROWS])
    made = rng.permutation(pair.rows[1])[:MAX_ROWS]
    classes = pair.sizes[target] <= 20
    forest = RandomForestClassifier if classes else RandomForestRegressor
    quality_of = accuracy_score if classes else r2_score
    test_x, test_y = _features(pair, pair.truth, target, parts[1])
    quality = {}
    for name, codes, rows in (("truth", pair.truth, parts[0]), ("synthetic", pair.synthetic, made)):
        x, y = _features(pair, codes, target, rows)
        trained = forest(30, min_samples_leaf=5, n_jobs=1, random_state=0).fit(x, y)
        quality[name] = float(quality_of(test_y, trained.predict(test_x)))
    values, counts = np.unique(pair.truth[target][parts[0]], return_counts=True)
    usual = values[counts.argmax()] if classes else test_y.mean()
    constant = float(quality_of(test_y, np.full(len(test_y), usual)))
    gain = quality["truth"] - constant
    kept = (quality["synthetic"] - constant) / gain if gain > 1e-9 else None
    return {
        "score": None if kept is None else float(max(0.0, kept)),
        "target": target,
        "model": MODEL,
        "measure": "accuracy" if classes else "R2",
        "synthetic": quality["synthetic"],
        "truth": quality["truth"],
        "constant": constant,
        "trained_on": {"truth": len(parts[0]), "synthetic": len(made)},
        "tested_on": len(parts[1]),
    }


def pick_target(pair: Pair) -> str:
    """The column of 2 to 20 codes with the largest entropy in the truth; if there is none, the
    first column."""
    best = pair.names[0]
    most = -1.0
    for name in pair.names:
        if 2 <= pair.sizes[name] <= 20:
            share = np.bincount(pair.truth[name], minlength=pair.sizes[name]) / max(1, pair.rows[0])
            entropy = float(-(share[share > 0] * np.log(share[share > 0])).sum())
            if entropy > most:
                best = name
                most = entropy
    return best


def _features(
    pair: Pair, codes: dict, target: str, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    columns = [n for n in pair.names if n != target]
    x = np.empty((len(rows), len(columns)), np.float32)
    for j, name in enumerate(columns):
        x[:, j] = codes[name][rows]
    return x, codes[target][rows].astype(np.int64)


def _learnable(comparison: Comparison) -> bool:
    return available() and len(comparison.pair.names) > 1


@metric("utility", applies=_learnable, rank=70)
def of_tables(comparison: Comparison) -> dict[str, Any]:
    return score(comparison.pair, comparison.target, seed=comparison.seed)

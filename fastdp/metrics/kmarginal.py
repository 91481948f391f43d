"""The k-marginal score of any table: 1000 times (1 - mean total variation of its k-way
marginals)."""

from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from ..errors import UsageError
from .compare import Comparison
from .inputs import Pair
from .metric import metric
from .total_variation import total_variation


def choose(names: list[str], k: int, limit: int, seed: int) -> tuple[list[tuple[str, ...]], int]:
    """(sets of k columns to compare, number of possible sets): all possible sets, or `limit` of
    them drawn without replacement."""
    k = min(k, len(names))
    everything = comb(len(names), k)
    if everything <= limit:
        return list(combinations(names, k)), everything
    rng = np.random.default_rng(seed)
    drawn: dict[tuple[str, ...], None] = {}
    while len(drawn) < limit:
        drawn[tuple(names[c] for c in np.sort(rng.choice(len(names), k, replace=False)))] = None
    return list(drawn), everything


def score(
    pair: Pair, k: int = 3, *, limit: int = 200, seed: int = 0, threads: int | None = None
) -> dict[str, Any]:
    """1000 times (1 - mean total variation) over all k-way marginals, or over `limit` of them drawn
    by `seed`.

    Keys: score (0..1000), k, marginals (number compared), possible, sampled, seed, mean_variation,
    and `worst`, the ten marginals of largest total variation, as {columns, variation}.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UsageError(f"k must be a whole number >= 1, got {k!r}")
    if limit < 1:
        raise UsageError(f"marginals: expected at least 1, got {limit!r}")
    cliques, possible = choose(pair.names, k, limit, seed)
    variation = total_variation(pair, cliques, threads)
    mean = float(variation.mean())
    worst = np.argsort(-variation, kind="stable")[:10]
    named = [{"columns": list(cliques[i]), "variation": float(variation[i])} for i in worst]
    out = {
        "score": 1000.0 * (1.0 - mean),
        "k": min(k, len(pair.names)),
        "marginals": len(cliques),
        "possible": possible,
        "sampled": len(cliques) < possible,
        "seed": seed,
    }
    return out | {"mean_variation": mean, "worst": named}


def _of_pair(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    return score(
        pair,
        comparison.k,
        limit=comparison.marginals,
        seed=comparison.seed,
        threads=comparison.threads,
    )


def _of_sample(comparison: Comparison, rows: np.ndarray) -> dict[str, Any]:
    return _of_pair(comparison, comparison.sampled(rows))


@metric("kmarginal", default="yes", of_sample=_of_sample, rank=20)
def of_tables(comparison: Comparison) -> dict[str, Any]:
    return _of_pair(comparison, comparison.pair)

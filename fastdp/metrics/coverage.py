"""Which values of the truth never occur in the synthetic table, and which ones it invented."""

from typing import Any

import numpy as np

from .compare import Comparison
from .inputs import Pair
from .metric import metric

SHOWN = 20
"""The most missing combinations that a result lists."""


def score(pair: Pair) -> dict[str, Any]:
    """Over all columns: `missing` is the share of the truth's distinct values that the synthetic
    table does not have. `invented` is the share of the synthetic table's distinct values that the
    truth does not have. `columns` has, for each column and for both: the number of such values, the
    share of rows with such a value, and the names of the commonest. Rows are those of the truth for
    missing values, of the synthetic table for invented ones."""
    columns: dict[str, Any] = {}
    totals = {"missing": [0, 0], "invented": [0, 0]}
    for name in pair.names:
        truth, synthetic = (
            np.unique(c[name], return_counts=True) for c in (pair.truth, pair.synthetic)
        )
        columns[name] = {}
        both = (("missing", truth, synthetic), ("invented", synthetic, truth))
        for kind, (codes, rows), (others, _) in both:
            alone = np.flatnonzero(~np.isin(codes, others))
            commonest = codes[alone[np.argsort(-rows[alone], kind="stable")][:SHOWN]]
            shown = [pair.label(name, code) for code in commonest]
            share = float(rows[alone].sum() / max(1, rows.sum()))
            columns[name] |= {kind: len(alone), f"{kind}_rows": share, f"{kind}_values": shown}
            totals[kind][0] += len(alone)
            totals[kind][1] += len(codes)
    return {kind: some / max(1, all_) for kind, (some, all_) in totals.items()} | {
        "columns": columns
    }


@metric("coverage", default="report", rank=50)
def of_tables(comparison: Comparison) -> dict[str, Any]:
    return score(comparison.pair)

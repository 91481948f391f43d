"""Which values of the truth never occur in the synthetic table, and which ones it invented."""

from __future__ import annotations

from typing import Any

import numpy as np

from .inputs import Pair

SHOWN = 20


def score(pair: Pair) -> dict[str, Any]:
    """Over all columns: `missing`, the share of the truth's distinct values that the synthetic table does not
    have; `invented`, the share of the synthetic table's distinct values that the truth does not have.
    `columns` has, for each column and for both: the number of such values, the share of rows with such a
    value (rows of the truth for missing, of the synthetic table for invented), and the names of the
    commonest.
    """
    columns: dict[str, Any] = {}
    totals = np.zeros(4)
    for name in pair.names:
        size = pair.sizes[name]
        a = np.bincount(pair.truth[name], minlength=size)
        b = np.bincount(pair.synthetic[name], minlength=size)
        missing, invented = (a > 0) & (b == 0), (b > 0) & (a == 0)
        totals += (missing.sum(), (a > 0).sum(), invented.sum(), (b > 0).sum())
        columns[name] = {
            "missing": int(missing.sum()),
            "missing_rows": float(a[missing].sum() / max(1, a.sum())),
            "missing_values": _commonest(a, missing, pair.labels[name]),
            "invented": int(invented.sum()),
            "invented_rows": float(b[invented].sum() / max(1, b.sum())),
            "invented_values": _commonest(b, invented, pair.labels[name]),
        }
    return {
        "missing": float(totals[0] / max(1.0, totals[1])),
        "invented": float(totals[2] / max(1.0, totals[3])),
        "columns": columns,
    }


def _commonest(counts: np.ndarray, which: np.ndarray, labels: list[str]) -> list[str]:
    codes = np.flatnonzero(which)
    order = codes[np.argsort(-counts[codes], kind="stable")][:SHOWN]
    return [labels[c] for c in order]

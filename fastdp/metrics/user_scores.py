"""Whether synthetic users behave like the true ones. It compares rows per user. Per column, it
compares how often a user's rows agree, how many users have one value, and how many values users
have."""

from typing import Any

import numpy as np

from ..engines.user_histograms import histogram
from ..tables.table import Table
from ..users.order import to_ask
from ..users.rates import Roles
from .compare import Comparison
from .inputs import coded
from .metric import metric

PERCENTILES = (50, 90, 99)
"""Percentiles of rows per user that are listed."""


def score(truth: Table, synthetic: Table) -> dict[str, Any]:
    """How users of both tables differ.

    `rows`: total variation of the distribution of rows per user (bins of an octave).

    Means over columns, of users with two rows or more:
    `agreement`: the difference in how often two rows of one user agree.
    `constant`: the difference in the share of users with one value.
    `distinct`: the total variation of the number of values per user (bins of an octave).

    `columns` and `rows_per_user` hold both tables' figures. `order`, where the schema declares one: see
    `_order`.
    """
    tables = (truth, synthetic)
    names = [n for n in truth.codes if n in synthetic.codes]
    columns = {
        name: dict(zip(("truth", "synthetic"), (_column(t, name) for t in tables)))
        for name in names
    }
    pairs = [(c["truth"], c["synthetic"]) for c in columns.values()]
    sizes = [t.rows_per_user()[t.rows_per_user() > 0] for t in tables]
    return {
        "rows": _variation(*(_octaves(s) for s in sizes)),
        "agreement": _mean([abs(a["agreement"] - b["agreement"]) for a, b in pairs]),
        "constant": _mean([abs(a["constant"] - b["constant"]) for a, b in pairs]),
        "distinct": _mean([_variation(a["octaves"], b["octaves"]) for a, b in pairs]),
        "rows_per_user": {n: _sizes(s) for n, s in zip(("truth", "synthetic"), sizes)},
        "columns": {
            name: {
                which: {k: v for k, v in one.items() if k != "octaves"}
                for which, one in both.items()
            }
            for name, both in columns.items()
        },
    } | ({"order": _order(truth, synthetic)} if truth.schema.order else {})


def _order(truth: Table, synthetic: Table) -> dict[str, Any]:
    """Of users' rows in order, every user with the same weight. Total variations: `gap`, of time
    between rows, in octaves; `first` and `last`, of the time of the first and the last row.
    `follows`: for pairs of columns how often the first in one row is the second in the next row.
    `next`: the difference in how often a column has the same value in the next row, the mean over
    columns."""
    key = to_ask(truth.schema, truth.schema.modelled, Roles((), ()))
    found = [key.parts(histogram(t, key, 1, 1).astype(np.float64)) for t in (truth, synthetic)]
    out = {
        n: _variation(*(f[n] / max(f[n].sum(), 1.0) for f in found))
        for n in ("gaps", "first", "last")
    }
    count = len(key.pairs)
    near = [
        f["near"].reshape(count, f["near"].size // max(count, 1)).sum(axis=1)
        / max(f["users"].sum(), 1.0)
        for f in found
    ]
    pairs = [*zip(key.pairs, *((1 + n) / 2 for n in near))]
    follows = [{"columns": list(pair), "truth": a, "synthetic": b} for pair, a, b in pairs]
    again = _mean([abs(a - b) for (x, y), a, b in pairs if x == y])
    return {"next": again, "gap": out.pop("gaps"), **out, "follows": follows}


def _column(table: Table, name: str) -> dict[str, Any]:
    """Figures of one column over users with two rows or more."""
    rows = table.rows_per_user().astype(np.int64)
    user = np.arange(table.rows) if table.user is None else table.user.astype(np.int64)
    size = table.domain[name]
    key, count = np.unique(user * size + table.codes[name], return_counts=True)
    owner = key // size
    equal = np.bincount(owner, count * (count - 1.0), len(rows))
    many = rows > 1
    distinct = np.bincount(owner, minlength=len(rows))[many]
    agreement = _mean(equal[many] / (rows[many] * (rows[many] - 1.0)))
    own = {"agreement": agreement, "constant": _mean(distinct == 1)}
    return {**own, "distinct": _mean(distinct), "octaves": _octaves(distinct)}


def _octaves(numbers: np.ndarray) -> np.ndarray:
    """Shares of the numbers (1 or more) in 1, 2 to 3, 4 to 7, ..."""
    bins = np.frexp(np.asarray(numbers, np.float64))[1] - 1
    return np.bincount(bins, minlength=40) / max(len(bins), 1)


def _sizes(rows: np.ndarray) -> dict[str, float]:
    if not len(rows):
        return {"users": 0}
    named = {
        str(p): float(c) for p, c in zip(PERCENTILES, np.percentile(rows, PERCENTILES).tolist())
    }
    return {"users": len(rows), "mean": float(rows.mean()), **named, "max": int(rows.max())}


def _variation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).sum() / 2)


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0


@metric("users", applies=Comparison.has_users, default="report", rank=60)
def of_tables(comparison: Comparison) -> dict[str, Any] | None:
    schema = comparison.schema
    if schema is None or not comparison.has_users():
        return None
    tables = ((comparison.truth, "truth"), (comparison.synthetic, "synthetic"))
    return score(*(coded(table, schema, what, users=True) for table, what in tables))

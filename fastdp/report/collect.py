"""Aggregates tables into the data that the page is drawn from.

Every result is a sum over rows: its size (some hundred numbers per column) does not depend on the
number of rows, and `json.dumps` accepts it. If the truth is given, its rows are counted without
noise, so the result is not private.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..metrics import inputs
from ..metrics.total_variation import counted_marginals, variation_of_counts
from ..significance import Z95
from ..tables.table import Table

MAX_BARS = 40  # bars of a nominal column; its rarer values share the last one
MAX_BINS = 60  # bins drawn for an ordered column
MAX_PAIR_COLUMNS = 40  # columns in the heat map
WORST = 12  # cells listed of each of the worst pairs
HABIT_ROWS = 5  # habits are computed for users with at least this many rows
_TIME = ("shift", "hour", "day", "month", "year", "week", "age")
_VARIETY_EDGES = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 100]
_ROWS_EDGES = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000]


Labels = dict[str, tuple[list[str], bool]]
"""A text per code of each column, and whether the codes have an order."""


def size(table: Table) -> dict[str, int | None]:
    """The number of rows, and of users that have a row (None if the table has no users)."""
    users = None if table.user is None else int(np.count_nonzero(np.bincount(table.user)))
    return {"rows": table.rows, "users": users}


def tells_time(column: str) -> bool:
    """Whether the column's name says that its values are ordered in time."""
    return not set(column.lower().split("_")).isdisjoint(_TIME)


def shares(codes: np.ndarray, size: int) -> np.ndarray:
    """Share of rows per code, float64 [size]; all zero for a table without rows."""
    counts = np.bincount(codes, minlength=size)[:size].astype(float)
    return counts / max(counts.sum(), 1.0)


def fold(labels: list[str], ordered: bool, weight: np.ndarray) -> tuple[list[str], np.ndarray, int]:
    """Groups codes into bars: `(labels of the bars, bar of each code, number of codes that were
    folded)`.

    The codes of an ordered column keep their order and are grouped into bars of equally many codes.
    The codes of a nominal column are sorted by `weight`, their share in the first table of the page.
    Those of little weight are folded into the last bar.
    """
    n = len(labels)
    if ordered:
        step = math.ceil(n / MAX_BINS)
        grouped = [_spanned(labels[i : i + step]) for i in range(0, n, step)]
        return grouped if n > MAX_BINS else labels, np.arange(n) // step, 0
    order = np.argsort(-weight, kind="stable")
    kept = order if n <= MAX_BARS else order[: MAX_BARS - 1]
    bar = np.full(n, len(kept))
    bar[kept] = np.arange(len(kept))
    names = [labels[i] for i in kept]
    folded = n - len(kept)
    if folded:
        names.append(f"{folded} other values")
    return names, bar, folded


def _spanned(labels: list[str]) -> str:
    """The text of neighbouring labels together: "0 to 10" and "10 to 20" are "0 to 20"."""
    first, last = labels[0], labels[-1]
    if first == last:
        return first
    return f"{first.partition(' to ')[0]} to {last.rpartition(' to ')[2]}"


def columns(
    truth: Table | None, tables: Sequence[Table], labels: Labels, spans: Sequence = ()
) -> list[dict]:
    """One entry per column: the shares of the truth and of each table per bar, and the total
    variation over all codes. `spans[i]` (`quotes.Intervals`), if given, has those of the true
    shares, by table i's run."""
    out = []
    for name, (names, ordered) in labels.items():
        size = len(names)
        per_table = [shares(t.codes[name], size) for t in tables]
        real = shares(truth.codes[name], size) if truth is not None else None
        bars, bar, folded = fold(names, ordered, real if real is not None else per_table[0])
        entry: dict[str, Any] = {"name": name, "labels": bars, "ordered": ordered, "folded": folded}
        entry["truth"] = None if real is None else _grouped(real, bar, len(bars))
        entry["tables"] = [
            {
                "share": _grouped(share, bar, len(bars)),
                "tv": None if real is None else _tv(real, share),
                "span": known.bars(name, bar, len(bars)) if known else None,
                "mean": known.mean(name) if known else None,
            }
            for share, known in zip(per_table, spans or [None] * len(tables))
        ]
        out.append(entry)
    return out


def _grouped(share: np.ndarray, bar: np.ndarray, n: int) -> list[float]:
    return _round(np.bincount(bar, weights=share, minlength=n))


def _round(values: Iterable[float]) -> list[float]:
    return [float(f"{v:.6g}") for v in values]


def _tv(p: np.ndarray, q: np.ndarray) -> float:
    """Total variation of two vectors of shares; 1 if exactly one of the tables has no rows."""
    return 1.0 if p.any() != q.any() else float(np.abs(p - q).sum() / 2)


def pairs(
    truth: Table, tables: Sequence[Table], labels: Labels
) -> tuple[dict | None, list[list[dict]]]:
    """For each table, the total variation of every pair of columns, and the cells of pairs whose
    share differs most from the truth."""
    names = [n for n in labels if len(labels[n][0]) > 1]
    left_out = 0
    if len(names) > MAX_PAIR_COLUMNS:
        spread = {n: _entropy(shares(truth.codes[n], len(labels[n][0]))) for n in names}
        chosen = set(sorted(names, key=lambda n: -spread[n])[:MAX_PAIR_COLUMNS])
        left_out = len(names) - len(chosen)
        names = [n for n in names if n in chosen]
    if len(names) < 2:
        return None, [[] for _ in tables]
    at = {n: i for i, n in enumerate(names)}
    sizes = {n: len(labels[n][0]) for n in names}
    cliques = [(first, second) for second in names for first in names[: at[second]]]
    matrices = []
    worst = []
    for table in tables:
        matrix = [[0.0] * i for i in range(len(names))]
        cells = []
        pair = inputs.Pair(truth.codes, table.codes, sizes, {}, {}, (truth.rows, table.rows))
        for (a, b), p, q in counted_marginals(pair, cliques):
            matrix[at[b]][at[a]] = float(f"{variation_of_counts(p, q, pair.rows):.4g}")
            if isinstance(p, np.ndarray):
                p, q = (counts.ravel() / max(rows, 1) for counts, rows in zip((p, q), pair.rows))
                cells += _largest(a, b, labels, p, q)
        matrices.append(matrix)
        worst.append(sorted(cells, key=lambda c: -abs(c["table"] - c["truth"]))[:WORST])
    return {"names": names, "tables": matrices, "left_out": left_out}, worst


def _largest(
    a: str, b: str, labels: Labels, real: np.ndarray, table: np.ndarray, k: int = 2
) -> list[dict]:
    """The k cells of one pair whose shares differ most from the truth. k is small, so that one bad
    pair does not fill the whole list."""
    la = labels[a][0]
    lb = labels[b][0]
    gap = np.abs(table - real)
    k = min(k, gap.size)
    top = np.argpartition(gap, gap.size - k)[-k:]
    found = [(c, [la[c // len(lb)], lb[c % len(lb)]]) for c in top.tolist() if gap[c] > 0]
    shown = [(named, *_round([real[c], table[c]])) for c, named in found]
    return [{"columns": [a, b], "labels": named, "truth": p, "table": q} for named, p, q in shown]


def _entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def users(
    truth: Table | None,
    tables: Sequence[Table],
    labels: Labels,
    unit: str | None,
    kept=None,
    order=None,
) -> dict | None:
    """Distributions of rows per user and of users' habits; None if a table has no users. Habits are
    the share of a user's rows that have the user's most frequent value, and the number of different
    values. `kept`: the columns whose habits are shown (None: any). `order`: what a statement says
    of the order of users' rows."""
    every = [t for t in [truth, *tables] if t is not None]
    owners = [t.user for t in every if t.user is not None]
    if unit is None or len(owners) < len(every) or all(t.rows == 0 for t in every):
        return None
    # A user number that no row has gets the count 0.
    per_user = [(u, np.bincount(u)) for u in owners]
    top = max((int(c.max()) for _, c in per_user if c.size), default=1)
    edges = [e for e in _ROWS_EDGES if e <= top]
    hists = [_in_bins(c[c > 0], edges) for _, c in per_user]
    out: dict[str, Any] = {
        "unit": unit,
        "rows": _split("Rows per user", bin_names(edges), hists, truth),
    }
    out["mean"] = [float(c[c > 0].mean()) if c.any() else 0.0 for _, c in per_user]
    out["habits"] = []
    shown = labels if kept is None else {n: v for n, v in labels.items() if n in kept}
    for name in _habit_columns(shown):
        favourite = []
        variety = []
        spread = [e for e in _VARIETY_EDGES if e <= len(labels[name][0])]
        for t, (index, counts) in zip(every, per_user, strict=True):
            largest, distinct = _habits(index, counts.size, t.codes[name], len(labels[name][0]))
            busy = counts >= HABIT_ROWS
            favourite.append(_round(shares(np.minimum(largest[busy] * 10 // counts[busy], 9), 10)))
            variety.append(_in_bins(distinct[busy], spread))
        tenths = [f"{10 * i} to {10 * i + 10} %" for i in range(10)]
        out["habits"].append(
            _split(f"Share of rows in the favourite {name}", tenths, favourite, truth)
        )
        out["habits"].append(
            _split(f"Different values of {name}", bin_names(spread), variety, truth)
        )
    out["order"] = [] if order is None else _follows(every, truth, order)
    return out


def _follows(every: Sequence[Any], truth: Table | None, order: Mapping[str, Any]) -> list[dict]:
    """For each chain of an order, how often its columns agree in a row and the user's next row. It
    is the mean over users with two rows or more, with the interval that was released. Empty if a
    table lacks a column."""
    out: list[dict] = []
    chains = [pair for pair in order["pairs"] if pair[:2] in order["chains"]]
    needed = {*order["columns"], *(name for pair in chains for name in pair[:2])}
    if not all(needed <= set(t.codes) for t in every):
        return out
    steps = [_steps(t, order["columns"]) for t in every]
    for x, y, near, _ in chains:
        equal = [w @ (t.codes[x][a] == t.codes[y][b]) for t, (a, b, w) in zip(every, steps)]
        low, high = np.clip(near + np.array([-Z95, Z95]) * order["standard_error"], 0, 1).tolist()
        hists = [_round((share, 1 - share)) for share in equal]
        made = _split(f"{x}, and {y} of the next row", ["equal", "different"], hists, truth)
        out.append(made | {"span": [[low, 1 - high], [high, 1 - low]]})
    return out


def _steps(table: Any, order: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, next row of the same user, weight) of all steps: all users have the same weight."""
    rows = np.lexsort((*(table.codes[name] for name in reversed(order)), table.user))
    user = table.user[rows]
    at = np.flatnonzero(user[1:] == user[:-1])
    steps = np.bincount(user[at])
    return rows[at], rows[at + 1], 1 / steps[user[at]] / max(np.count_nonzero(steps), 1)


def _in_bins(values: np.ndarray, edges: Sequence[int]) -> list[float]:
    """Share of the values (whole, at least the first edge) in each bin that starts at an edge."""
    return _round(shares(np.searchsorted(edges, values, side="right") - 1, len(edges)))


def bin_names(edges: Sequence[int]) -> list[str]:
    """The whole numbers of each bin in words, by the first number of each."""
    names = [f"{a}" if a == b - 1 else f"{a} to {b - 1}" for a, b in pairwise(edges)]
    return [*names, f"{edges[-1]} and more"]


def _split(name: str, labels: list[str], hists: list[list[float]], truth: Table | None) -> dict:
    real, made = (None, hists) if truth is None else (hists[0], hists[1:])
    return {"name": name, "labels": labels, "truth": real, "tables": made}


def _habit_columns(labels: Labels) -> list[str]:
    """Two columns of some values: first one that tells a time, if there is one."""
    fit = [n for n, (names, _) in labels.items() if 4 <= len(names) <= 500]
    return sorted(fit, key=lambda n: not tells_time(n))[:2]


def _habits(
    index: np.ndarray, n: int, codes: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two int64 arrays [users]: the rows that have the user's most common code, and the number of
    different codes of the user."""
    cells, counts = np.unique(index.astype(np.int64) * size + codes, return_counts=True)
    owner = cells // size
    largest = np.zeros(n, dtype=np.int64)
    np.maximum.at(largest, owner, counts)
    return largest, np.bincount(owner, minlength=n)

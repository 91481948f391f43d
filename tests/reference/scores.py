"""Slow, obvious twins of the scores: group by group, cell by cell, straight from their
definitions."""

from collections import Counter, defaultdict
from itertools import permutations

import numpy as np
import pandas as pd
from scipy.spatial.distance import jensenshannon

PAIRED = (
    "company_id",
    "dropoff_community_area",
    "payment_type",
    "fare",
    "tips",
    "trip_total",
    "trip_seconds",
    "trip_miles",
)
GROUP = ["pickup_community_area", "shift"]


def bin_taxi(frame: pd.DataFrame) -> pd.DataFrame:
    """The official bins, by pandas.cut."""
    out = frame.copy()
    for name in ("fare", "tips", "trip_total", "trip_miles", "trip_seconds"):
        step = 200 if name == "trip_seconds" else 10
        edges = [-np.inf, *np.arange(0, 10 * step, step), np.inf]
        out[name] = pd.cut(out[name], edges, right=False, labels=False)
    return out


def l1(a: list[tuple], b: list[tuple]) -> float:
    """Sum over cells of the difference of the two lists' shares; 2 where one list is empty."""
    if not a or not b:
        return 2.0
    first, second = Counter(a), Counter(b)
    return sum(abs(first[c] / len(a) - second[c] / len(b)) for c in first.keys() | second.keys())


def cells(frame: pd.DataFrame, columns: list[str]) -> list[tuple]:
    return list(zip(*(frame[c].tolist() for c in columns), strict=True))


def k_marginal(truth: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Every ordered pair, every group that occurs in either table."""
    sides = []
    for frame in (bin_taxi(truth), bin_taxi(synthetic)):
        groups = defaultdict(list)
        for group, row in zip(cells(frame, GROUP), cells(frame, PAIRED), strict=True):
            groups[group].append(row)
        sides.append(groups)
    means = []
    for group in sides[0].keys() | sides[1].keys():
        a, b = (side.get(group, []) for side in sides)
        pairs = permutations(range(len(PAIRED)), 2)
        means.append(
            np.mean([l1([(r[i], r[j]) for r in a], [(r[i], r[j]) for r in b]) for i, j in pairs])
        )
    return (2.0 - float(np.mean(means))) / 2.0


def pickup_dropoff(truth: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    return (
        2.0
        - l1(
            *(
                cells(f, ["pickup_community_area", "dropoff_community_area"])
                for f in (truth, synthetic)
            )
        )
    ) / 2.0


def conjunction(truth: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    def habits(frame: pd.DataFrame) -> np.ndarray:
        taxis = sorted(frame["taxi_id"].unique())
        shift = pd.crosstab(frame["taxi_id"], frame["shift"]).reindex(
            index=taxis, columns=range(21), fill_value=0
        )
        area = pd.crosstab(frame["taxi_id"], frame["pickup_community_area"])
        area = area.reindex(index=taxis, columns=[-1, *range(1, 78)], fill_value=0)
        return np.hstack([shift.to_numpy(), area.to_numpy()])

    a, b = habits(truth), habits(synthetic)
    rng = np.random.RandomState(123456)
    errors = []
    for _ in range(50):
        centre = a[rng.randint(0, len(a))]
        tolerance = rng.randint(5, 51, size=99)
        shares = [(np.abs(side - centre) <= tolerance).all(axis=1).mean() for side in (a, b)]
        errors.append(abs(shares[0] - shares[1]))
    return 1.0 - float(np.mean(errors))


def total_variation(truth: pd.DataFrame, synthetic: pd.DataFrame, columns: list[str]) -> float:
    return 0.5 * l1(cells(truth, columns), cells(synthetic, columns))


def sprint1_row(truth: np.ndarray, synthetic: np.ndarray) -> float:
    """One (neighborhood, year, month): counts of incident types, by scipy's Jensen-Shannon
    distance."""
    if (truth == synthetic).all():
        return 1.0
    a = [0 if x < 0.05 * truth.sum() else x for x in truth]
    b = [0 if x < 0.05 * synthetic.sum() else x for x in synthetic]
    points = 1.0 - jensenshannon(np.array(a) + 1e-9, np.array(b) + 1e-9, base=2)
    points -= 0.2 * sum(x == 0 and y > 0 for x, y in zip(a, b, strict=True))
    points -= 0.25 * (np.abs(truth - synthetic).sum() > 500)
    return float(min(1.0, max(0.0, points)))


def cramers_v(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats.contingency import association

    table = pd.crosstab(x, y).to_numpy()
    return 0.0 if min(table.shape) < 2 else float(association(table, method="cramer"))

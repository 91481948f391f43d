"""What the rows of a user say together: cohorts, repetition, spans, sums and their concentration.

Total variations and differences between two tables of users, lower is better:

cohort     repeat share (users with two rows or more) by period of the first row, mean over users
first      period of the first row
outside    share of users whose first period is the first period of no true user
span       first period and number of periods from the first row to the last, jointly
active     number of periods with rows
sum        sum of the amount per user, in octaves
top10      share of all amounts that the tenth of users with the largest sums have
level      share of the variance of the amount's logarithm that lies between users
per_user   rows per user, in octaves
"""

from __future__ import annotations

import numpy as np

PEOPLE = ("cohort", "first", "outside", "span", "active", "sum", "top10", "level", "per_user")
MOST_PERIODS = 24
LEAST_COHORT = 0.01
"""The share of true users that a cohort needs, to be compared."""


def of_users(user: np.ndarray, period: np.ndarray, amount: np.ndarray) -> dict[str, np.ndarray]:
    """Facts of each user, from its rows."""
    user = np.unique(user, return_inverse=True)[1]
    users = int(user.max()) + 1
    rows = np.bincount(user, minlength=users)
    first = np.full(users, 1 << 40)
    last = np.full(users, -1)
    np.minimum.at(first, user, period)
    np.maximum.at(last, user, period)
    pairs = np.unique(user * (int(period.max()) + 1) + period) // (int(period.max()) + 1)
    return {
        "rows": rows,
        "first": first,
        "span": last - first,
        "active": np.bincount(pairs, minlength=users),
        "sum": np.bincount(user, amount, users),
        "between": _between(user, np.log(np.maximum(amount, 1e-9)), rows),
    }


def _between(user: np.ndarray, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The share of the variance of x between users (analysis of variance, users of two rows or
    more)."""
    many = rows[user] > 1
    user = user[many]
    x = x[many]
    if not len(x):
        return np.zeros(1)
    count = np.bincount(user)
    there = count > 0
    mean = np.bincount(user, x) / np.maximum(count, 1)
    users = int(there.sum())
    within = np.square(x - mean[user]).sum() / max(len(x) - users, 1)
    size = (len(x) - np.square(count).sum() / len(x)) / max(users - 1, 1)
    outer = (count * np.square(mean - x.mean()))[there].sum() / max(users - 1, 1)
    between = max((outer - within) / max(size, 1e-9), 0.0)
    return np.array([between / max(between + within, 1e-12)])


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """Total variation between the distributions of two samples of whole numbers."""
    size = int(max(one.max(initial=0), other.max(initial=0))) + 1
    shares = [np.bincount(x, minlength=size) / max(len(x), 1) for x in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _octave(x: np.ndarray) -> np.ndarray:
    return np.clip(np.log2(np.maximum(x, 1e-9)) + 8, 0, 60).astype(np.int64)


def _top(x: np.ndarray) -> float:
    return float(np.sort(x)[::-1][: max(len(x) // 10, 1)].sum() / max(x.sum(), 1e-9))


def measures(truth: dict[str, np.ndarray], made: dict[str, np.ndarray]) -> dict[str, float]:
    """The measures of PEOPLE between the users of two tables (`of_users`)."""
    periods = int(max(truth["first"].max(), made["first"].max())) + 1
    share = np.bincount(truth["first"], minlength=periods) / len(truth["first"])
    again = [
        np.bincount(t["first"], t["rows"] > 1, periods)
        / np.maximum(np.bincount(t["first"], minlength=periods), 1)
        for t in (truth, made)
    ]
    seen = share >= LEAST_COHORT
    width = int(max(truth["span"].max(), made["span"].max())) + 1
    return {
        "cohort": float((np.abs(again[0] - again[1]) * share)[seen].sum() / share[seen].sum()),
        "first": _apart(truth["first"], made["first"]),
        "outside": float((share[made["first"]] == 0).mean()),
        "span": _apart(*(t["first"] * width + t["span"] for t in (truth, made))),
        "active": _apart(truth["active"], made["active"]),
        "sum": _apart(_octave(truth["sum"]), _octave(made["sum"])),
        "top10": abs(_top(truth["sum"]) - _top(made["sum"])),
        "level": float(truth["between"][0] - made["between"][0]),
        "per_user": _apart(_octave(truth["rows"]), _octave(made["rows"])),
    }


def periods_of(codes: np.ndarray, size: int) -> np.ndarray:
    """At most MOST_PERIODS periods of equal length."""
    return codes * min(MOST_PERIODS, size) // size

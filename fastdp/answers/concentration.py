"""The share of a total that the largest users have, with an interval, from released numbers.

Users are counted in bins of what their rows add up to, and each bin has noise. Where in its bin a user
lies is not known. The share is 1 - R / T, with T the total, which the rows say, and R the sum of all
users but the largest. R lies between the lower and the upper edges of these users' bins. It needs no bin of
the largest users: there, noise in bins where nobody is would count as people who have everything.
The estimate takes them to lie evenly by their logarithm, as sums of users do that spread over octaves.
Draws of the noise make an interval of both bounds. The largest part of the users never has less than that
part of the total.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

DRAWS = 400
"""Draws of the noise from which an interval's ends are taken; its 2.5 % point has 10 draws below it."""


class TopShare(Struct, frozen=True):
    """The part of a total that the largest users have, and its interval."""

    estimate: float
    low: float
    high: float


def top_share(
    counts: np.ndarray,
    errors: np.ndarray,
    edges: Sequence[float],
    total: tuple[float, float],
    users: tuple[float, float],
    part: float = 0.1,
    level: float = 0.95,
) -> TopShare:
    """`counts`: users in bins of their sums, ascending, whose `edges` are none below 0; `errors`: their
    standard errors. `total`: of all sums, and its standard error; `users`: how many there are, which is
    known better than by adding up bins. `part`: of the users who count as the largest."""
    lower = np.asarray(edges[:-1], float)
    upper = np.asarray(edges[1:], float)
    noise = np.random.default_rng(0).standard_normal((DRAWS, len(counts) + 2))
    noise[0] = 0.0
    found = []
    for z in noise:
        smaller = (1 - part) * (users[0] + users[1] * z[-2])
        users_there = counts + errors * z[:-2]
        others = _smallest(users_there, smaller)
        whole = max(total[0] + total[1] * z[-1], 1e-300)
        likely = _log_means(lower, upper, others, users_there)
        found.append([1 - float(others @ value) / whole for value in (likely, upper, lower)])
    shares, lows, highs = np.clip(np.array(found), part, 1.0).T
    tail = (1 - level) / 2
    low = float(np.quantile(lows, tail))
    high = float(np.quantile(highs, 1 - tail))
    return TopShare(float(np.clip(shares[0], low, high)), low, high)


def _log_means(
    lower: np.ndarray, upper: np.ndarray, some: np.ndarray, users: np.ndarray
) -> np.ndarray:
    """The mean sum of the smallest `some` of the `users` of each bin, whose sums are spread evenly by
    their logarithm; in a bin that starts at 0 evenly."""
    part = np.divide(some, users, out=np.ones(len(some)), where=users > 0).clip(0.0, 1.0)
    start = np.where(lower > 0, lower, 1.0)
    spread = np.log(upper / start) * part
    logarithmic = np.where(
        spread > 1e-9, start * np.expm1(spread) / np.maximum(spread, 1e-9), start
    )
    return np.where(lower > 0, logarithmic, part * upper / 2)


def _smallest(users: np.ndarray, count: float) -> np.ndarray:
    """So many users, from the first bins on. Counts below 0 stay, so that noise adds up to nothing."""
    enough = np.flatnonzero(np.cumsum(users) >= count)
    last = int(enough[0]) if len(enough) else len(users) - 1
    found = np.where(np.arange(len(users)) < last, users, 0.0)
    found[last] = count - found.sum()
    return found

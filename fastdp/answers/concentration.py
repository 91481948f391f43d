"""The share of a total that the largest users have, with an interval, from released numbers.

Users are counted in bins of what their rows add up to, and each bin has noise. Where in its bin a user
lies is not known. The share is 1 - R / T, with T the total, which the rows say, and R the sum of all
users but the largest. R needs no bin of the largest users: there, noise in bins where nobody is would count
as people who have everything. The estimate takes users to lie evenly by their logarithm inside bins, as
sums of users do that spread over octaves.

Of R there are two pairs of bounds. The users of a bin have a density there; if it is straight, of any slope,
their mean lies in the middle third of a bin of an octave or less. This is what intervals of means take rows
of a bin to be (`inside_bins`). It is wrong where most users of a bin have one amount, as at a fixed price.
The other pair holds wherever users lie: all at the lower edges of their bins, or all at the upper ones.

The lower bound may also come from the largest users themselves: they have at least the lower edges of the
bins that stand out of the noise, from the last of these downwards. It needs no bin beyond and no density,
and is the higher of the two where the others' sum is uncertain.

Draws of the noise make an interval of each pair. The largest part of the users never has less than that
part of the total.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ..rows_per_user import last_bin

DRAWS = 400
"""Draws of the noise from which an interval's ends are taken; its 2.5 % point has 10 draws below it."""
OCTAVE = 2.0 * (1 + 1e-9)
"""In bins that are wider than this, by their ratio, users may lie anywhere."""


class TopShare(Struct, frozen=True):
    """The part of a total that the largest users have, and its interval if users lie along a straight
    density inside each bin. `least`, `most`: the interval that holds wherever in their bins they lie."""

    estimate: float
    low: float
    high: float
    least: float
    most: float


def top_share(
    counts: np.ndarray,
    errors: np.ndarray,
    edges: Sequence[float],
    total: tuple[float, float, float],
    users: tuple[float, float],
    part: float = 0.1,
    level: float = 0.95,
) -> TopShare:
    """`counts`: users in bins of their sums, ascending, whose `edges` are none below 0; `errors`: their
    standard errors. `total`: of all sums, and its standard errors below and above, where noise
    may hide users who have much; `users`: how many there are, which is
    known better than by adding up bins. `part`: of the users who count as the largest."""
    lower = np.asarray(edges[:-1], float)
    upper = np.asarray(edges[1:], float)
    noise = np.random.default_rng(0).standard_normal((DRAWS, len(counts) + 2))
    noise[0] = 0.0
    seen = last_bin(counts, errors) + 1
    found = []
    for z in noise:
        smaller = (1 - part) * (users[0] + users[1] * z[-2])
        users_there = counts + errors * z[:-2]
        others = _smallest(users_there, smaller)
        whole = max(total[0] + (total[1] if z[-1] < 0 else total[2]) * z[-1], 1e-300)
        of_bin = np.divide(others, users_there, out=np.ones(len(others)), where=users_there > 0)
        of_bin = of_bin.clip(0.0, 1.0)
        rising, falling = _straight_means(of_bin)
        width = np.where(upper <= OCTAVE * lower, upper - lower, 0.0)
        wide = np.where(
            width > 0, 0.0, upper - lower
        )  # bins of which nothing is said but their edges
        values = (
            _log_means(lower, upper, of_bin),
            lower + width * rising + wide,
            lower + width * falling,
            upper,
            lower,
        )
        estimate, low, high, least, most = (1 - float(others @ value) / whole for value in values)
        largest = _largest(users_there[:seen], users[0] + users[1] * z[-2] - smaller)
        surely = float(largest @ lower[:seen]) / whole
        low, least = max(low, surely), max(least, surely)
        found.append([estimate, low, high, least, most])
    shares, lows, highs, leasts, mosts = np.clip(np.array(found), part, 1.0).T
    tail = (1 - level) / 2
    low, least = (float(np.quantile(ends, tail)) for ends in (lows, leasts))
    high, most = (float(np.quantile(ends, 1 - tail)) for ends in (highs, mosts))
    return TopShare(float(np.clip(shares[0], low, high)), low, high, least, most)


def _straight_means(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where in a bin from 0 to 1 the smallest `part` of its users are on average, if their density rises from
    0, and if it falls to 0."""
    some = np.maximum(part, 1e-9)
    return 2 / 3 * np.sqrt(some), 1 - 2 / (3 * some) * (1 - (1 - some) ** 1.5)


def _largest(users: np.ndarray, count: float) -> np.ndarray:
    """So many of the users of these bins, from the last one downwards."""
    above = np.append(np.maximum.accumulate(np.cumsum(users[::-1]).clip(0.0, count))[::-1], 0.0)
    return -np.diff(above)


def _log_means(lower: np.ndarray, upper: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The mean sum of the smallest `part` of the users of each bin, whose sums are spread evenly by their
    logarithm; in a bin that starts at 0 evenly."""
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

"""The share of a total that the largest users have, with an interval, from released numbers.

Users are counted in bins of what their rows add up to, and each bin has noise. Where in its bin a user
lies is not known. So the share is bounded: with S the sum of the largest users, R that of the others
and T the total, S lies between the lower and the upper edges of its users' bins, R = T - S as well, and
both bounds hold at once. The total is known from the rows. Draws of the noise make an interval of
the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

DRAWS = 400


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
    part: float = 0.1,
    level: float = 0.95,
) -> TopShare:
    """`counts`: users in bins of their sums, ascending, whose `edges` are none below 0; `errors`: their
    standard errors. `total`: of all sums, and its standard error. `part`: of the users who count as the
    largest."""
    rng = np.random.default_rng(0)
    lower, upper = np.asarray(edges[:-1], float), np.asarray(edges[1:], float)
    noise = rng.standard_normal((DRAWS, len(counts) + 1))
    noise[0] = 0.0
    found = []
    for z in noise:
        users = np.maximum(counts + errors * z[:-1], 0.0)
        whole = max(total[0] + total[1] * z[-1], 1e-300)
        above = np.cumsum(users[::-1])[::-1] - users
        top = np.clip(part * users.sum() - above, 0.0, users)
        rest = users - top
        middle = np.sqrt(np.maximum(lower, upper / 4) * upper)
        low = max(top @ lower, whole - rest @ upper) / whole
        high = min(top @ upper, whole - rest @ lower) / whole
        likely = float(top @ middle) / max(float(users @ middle), 1e-300)
        found.append((likely, min(low, high), max(low, high)))
    likely, lows, highs = np.clip(np.array(found), 0.0, 1.0).T
    tail = (1 - level) / 2
    ends = float(np.quantile(lows, tail)), float(np.quantile(highs, 1 - tail))
    return TopShare(float(np.clip(likely[0], *ends)), *ends)

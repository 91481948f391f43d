"""A quantile of users' values from six histograms, each zooming into the one before.

The first histogram has powers of 4. Each of the next ones cuts the range in which the quantile lies
almost surely (`SURE` standard deviations of rank) into equal parts. Each has sensitivity 1.
At an edge v the rank gap is G(v) = below(v) - q * users. The interval ends at the outermost
edges at which G is clearly on its side, so within a bin nothing is assumed.
"""

import numpy as np
from msgspec import Struct

from ..significance import SURE
from .sum_estimates import Interval, Z

SHARES = tuple(3**i / 364 for i in range(6))
"""Of the number's mu^2, for each histogram: three times that of the one before. The last one has few
bins if those before leave it a short range, and noise of a rank goes with the root of the bins.
Chosen by `python -m bench.numbers_asked --zooms`: with three (.15, .3, .55) medians are 40 % wider,
with five of twice the share each 3 to 10 %."""
FEWEST_PARTS = 3
MOST_PARTS = 64
"""Bounds of the number of bins of one histogram (`next_bins`)."""


class Ranks(Struct, frozen=True, eq=False):
    """Rank gaps at edges, with their standard deviations."""

    edges: np.ndarray
    gap: np.ndarray
    sd: np.ndarray

    def bracket(self, z: float, least: int, most: int) -> tuple[int, int]:
        """The outermost edges within which the quantile lies: (at least, below). Edges are tested
        one after the other, from below and from above, up to the first that is not clear. So an end
        errs only if the first edge that it may not pass errs, however many edges follow."""
        negative = self.gap + z * self.sd < 0
        positive = self.gap - z * self.sd > 0
        low = int(np.argmin(np.append(negative, False)))
        high = len(positive) - int(np.argmin(np.append(positive[::-1], False)))
        at_least = int(self.edges[low - 1]) if low else least
        below = int(self.edges[high]) if high < len(self.edges) else most
        return at_least, below

    def between(self, low: int, high: int) -> float:
        """Users from low to high, at least 1; the ends are edges, or lie beyond them all."""
        known = dict(zip(self.edges.tolist(), self.gap.tolist(), strict=True))
        above = known.get(high, float(np.max(self.gap)))
        below = known.get(low, float(np.min(self.gap)))
        return max(above - below, 1.0)

    def crossing(self, low: int, high: int) -> float:
        """Where the gap passes zero between two values: linear between edges."""
        inside = (self.edges >= low) & (self.edges <= high)
        edges = self.edges[inside].astype(np.float64)
        gap = np.maximum.accumulate(self.gap[inside])
        if not len(edges) or gap[0] >= 0 or gap[-1] <= 0:
            return (low + high) / 2
        return float(np.interp(0.0, gap, edges))


def first_edges(top: int, signed: bool) -> tuple[int, ...]:
    """Powers of 4 up to `top`, of both signs if values are signed."""
    above = (*(4**i for i in range((top.bit_length() + 1) // 2) if 4**i < top), top)
    return (*(-edge for edge in reversed(above)), 0, *above) if signed else above


def next_bins(users: float, s: float) -> int:
    """How many bins the next histogram has, over a range of so many users, with noise s of a count.

    With B bins a rank has noise of about s sqrt(B) / 2, and an end is rounded outwards by about 3/4
    of a bin, users / B. The sum Z s sqrt(B) / 2 + 3 users / (4 B) is least at B = (3 users / (Z
    s))^(2/3)."""
    return int(min(MOST_PARTS, max(FEWEST_PARTS, (3 * users / (Z * s)) ** (2 / 3))))


def zoomed(low: int, high: int, parts: int) -> tuple[int, ...]:
    """Whole edges that cut low to high into parts: about equal, or of equal ratios where the range
    spans more than a factor of 4."""
    if high - low > 4 * max(1, min(abs(low), abs(high))):
        scores = np.linspace(_signed_log(low), _signed_log(high), parts + 1)[1:-1]
        inner = {round(np.sign(x) * (2.0 ** abs(x) - 1)) for x in scores.tolist()}
        return tuple(sorted({low, high} | {edge for edge in inner if low < edge < high}))
    return tuple(sorted({low + (high - low) * i // parts for i in range(parts + 1)}))


def _signed_log(x: int) -> float:
    """Even steps of this are equal ratios far from zero, and equal differences near it."""
    return float(np.sign(x) * np.log2(1.0 + abs(x)))


def ranks(counts: np.ndarray, s: float, edges: tuple[int, ...], q: float) -> Ranks:
    """Rank gaps from a noisy histogram (one count more than edges)."""
    n = len(edges)
    gap = np.cumsum(counts)[:-1] - q * counts.sum()
    below = np.arange(1, n + 1)
    sd = s * np.sqrt((1 - q) ** 2 * below + q * q * (n + 1 - below))
    return Ranks(np.array(edges, np.int64), gap, sd)


def interval(found: list[Ranks], least: int, most: int) -> Interval:
    """The intersection of what the histograms say, and where the last one crosses."""
    low = least
    high = most
    for ranked in found:
        at_least, below = ranked.bracket(Z if ranked is found[-1] else SURE, low, high)
        if max(at_least, low) < min(below, high):
            low = max(at_least, low)
            high = min(below, high)
    middle = found[-1].crossing(low, high)
    return Interval(min(max(middle, low), high - 1), float(low), float(high - 1))

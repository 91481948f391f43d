"""Where rows lie inside bins, by the numbers of rows in their neighbours.

A run that released no means of bins still says how rows fall off from bin to bin. Above the median,
let S be the rows at or above x. Between the edges, log S is taken as a smooth curve in log x that never
rises (a monotone cubic). A straight line would be a power of x: right for Pareto amounts, but amounts
that end sooner (gamma, log-normal) bend, and lie further up in their bins. Below the median the same is
said of the rows below x. Edges below zero have no logarithm: there x takes its place. A bin beyond
which nothing stands out of the noise has no curve of its own; it goes on as the one before it ends.

A bin of 500 to 5,000 after one of 200 to 500 with thirteen times its rows has a mean of 770 by
this, and not of 2,750. All of it is post-processing of released counts.
"""

import numpy as np
from msgspec import Struct

from ..significance import LIKELY

POINTS = 64
"""Parts of a bin whose rows are added up."""
LEAST = 1e-6
"""A bin from 0 begins at this part of its end, where logarithms are taken."""
STEEPEST = 200.0
"""Fall of the logarithm over a bin beyond which all rows lie at its edge."""


def bin_means(low: np.ndarray, high: np.ndarray, rows: np.ndarray, noise: float) -> np.ndarray:
    """The expected mean of each bin [low, high] with these rows, in any order; `noise`: standard
    error of a number of rows. Bins without a width keep their number."""
    means = (low + high) / 2
    order = np.argsort(means, kind="stable")
    order = order[(high > low)[order]]
    upto = np.cumsum(np.maximum(rows, 0.0)[order])
    if not len(order) or not upto[-1] > 0:
        return means
    below = int(np.count_nonzero(upto <= upto[-1] / 2))  # bins that lie below the median
    for up, outward, inside in (
        (True, order, below),
        (False, order[::-1], len(order) - below),
    ):
        bins = [Outward(float(low[i]), float(high[i]), up) for i in outward]
        means[outward[inside:]] = _means(bins, rows[outward], noise, inside)
    return means


class Outward(Struct, frozen=True):
    """A bin seen from the median outwards: upwards or downwards."""

    low: float
    high: float
    up: bool

    @property
    def in_logs(self) -> bool:
        return self.low > 0 or (self.low == 0 and not self.up)

    @property
    def length(self) -> float:
        """The width of the bin, or that of its logarithms."""
        if self.in_logs:
            return float(np.log(self.high / max(self.low, LEAST * self.high)))
        return self.high - self.low

    def per_number(self, slope: float, outer: bool) -> float:
        """A slope along the bin, at one of its ends, as a slope along x."""
        end = self.high if self.up == outer else max(self.low, LEAST * self.high)
        return slope / end if self.in_logs else slope

    def along(self, slope: float) -> float:
        """The other way about: a slope along x at the inner edge as one along the bin."""
        inner = self.low if self.up else self.high
        return slope * inner if self.in_logs else slope

    def mean(self, left: np.ndarray) -> float:
        """The mean of the bin, if these parts of its rows are left after each of POINTS steps along it."""
        at = (np.arange(POINTS) + 0.5) / POINTS * self.length
        if self.in_logs:
            numbers = self.low * np.exp(at) if self.up else self.high * np.exp(-at)
        else:
            numbers = self.low + at if self.up else self.high - at
        weight = -np.diff(left, prepend=1.0)
        return float(np.clip(weight @ numbers / weight.sum(), self.low, self.high))


def _means(bins: list[Outward], rows: np.ndarray, noise: float, inside: int) -> list[float]:
    """The means of bins from the median outwards. `inside`: how many bins lie before it, which have a
    part in the curve."""
    beyond = np.cumsum(rows[::-1])[::-1]  # of all bins from each one on
    clear = beyond > LIKELY * np.maximum(noise * np.sqrt(np.arange(len(bins), 0, -1)), 1.0)
    there = len(bins) if clear.all() else int(np.argmin(clear))
    edges = np.maximum.accumulate(beyond[:there][::-1])[::-1]  # noise may let them rise
    falls = -np.diff(np.log(edges))
    length = np.array([one.length for one in bins])
    steps = np.arange(1, POINTS + 1) / POINTS
    out = []
    slope = None  # along x, at the outer edge of the bin before
    for k, one in enumerate(bins):
        if k < inside:
            continue
        if k < len(falls):
            inner, outer = _slopes(bins, falls, length, k)
            slope = one.per_number(outer, outer=True)
            fall = _cubic(steps, float(falls[k]), inner * length[k], outer * length[k])
        elif slope is None:
            fall = None
        else:
            along = min(one.along(slope), STEEPEST / length[k])
            slope = one.per_number(along, outer=True)
            fall = along * length[k] * steps
        if fall is None or not fall[-1] > 0:
            out.append((one.low + one.high) / 2)
            continue
        out.append(one.mean(np.exp(-fall)))
    return out


def _slopes(
    bins: list[Outward], falls: np.ndarray, length: np.ndarray, k: int
) -> tuple[float, float]:
    """The slopes of a monotone cubic at the inner and the outer edge of bin k (Fritsch and Butland's
    harmonic means)."""
    own = float(falls[k] / length[k])
    inside = _beside(bins, falls, length, k, k - 1)
    outside = _beside(bins, falls, length, k, k + 1)

    def at_edge(near: tuple[float, float] | None, across: tuple[float, float] | None) -> float:
        if near is not None:
            slope, far = near
            if min(slope, own) <= 0:
                return 0.0
            first, second = 2 * length[k] + far, length[k] + 2 * far
            return float((first + second) / (first / slope + second / own))
        if across is None:
            return own
        slope, far = across
        bent = ((2 * length[k] + far) * own - length[k] * slope) / (length[k] + far)
        return float(np.clip(bent, 0.0, 3 * own))

    return at_edge(inside, outside), at_edge(outside, inside)


def _beside(
    bins: list[Outward], falls: np.ndarray, length: np.ndarray, k: int, other: int
) -> tuple[float, float] | None:
    """(slope, length) of a neighbour of bin k in the units of bin k, by the edge that both have."""
    if not 0 <= other < len(falls):
        return None
    slope, far = float(falls[other] / length[other]), float(length[other])
    mine, its = bins[k], bins[other]
    if mine.in_logs == its.in_logs:
        return slope, far
    outer = other > k
    times = mine.high if mine.up == outer else mine.low
    if not times > 0:
        return None
    return (slope * times, far / times) if mine.in_logs else (slope / times, far * times)


def _cubic(steps: np.ndarray, fall: float, inner: float, outer: float) -> np.ndarray:
    """How far the logarithm has fallen at these parts of a bin, with these slopes at its edges."""
    t = steps
    return inner * t * (1 - t) ** 2 + fall * t**2 * (3 - 2 * t) - outer * t**2 * (1 - t)

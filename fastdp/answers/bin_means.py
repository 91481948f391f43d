"""Where rows lie inside bins, by the numbers of rows in their neighbours.

A run that released no means of bins still says how rows fall off from bin to bin. Above the median,
let S be the rows at or above x. Between two edges, log S is taken as a straight line in log x. So
S falls like a power of x: exactly as for Pareto amounts, nearly as for log-normal ones. Below the
median the same is said of the rows below x. Edges below zero have no logarithm: there x takes
its place. A bin beyond which nothing stands out of the noise has no line of its own; it goes on with
that of the bin before it.

A bin of 500 to 5,000 after one of 200 to 500 with thirteen times its rows has a mean of 770 by
this, and not of 2,750. All of it is post-processing of released counts.
"""

import numpy as np
from msgspec import Struct

from ..significance import LIKELY

POINTS = 64
"""Points of the midpoint rule over a bin."""
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
    rows = np.maximum(rows, 0.0)[order]
    upto = np.append(0.0, np.cumsum(rows))
    beyond = upto[-1] - upto
    below = int(np.count_nonzero(upto[1:] <= upto[-1] / 2))  # bins that lie below the median
    least = LIKELY * max(noise, 1.0)
    slope = None
    for place in range(below, len(order)):  # from the median upwards
        i = order[place]
        bin_ = Outward(float(low[i]), float(high[i]), up=True)
        slope = bin_.slope(beyond[place], beyond[place + 1], slope, least)
        means[i] = bin_.mean(slope)
    slope = None
    for place in range(below - 1, -1, -1):  # and downwards
        i = order[place]
        bin_ = Outward(float(low[i]), float(high[i]), up=False)
        slope = bin_.slope(upto[place + 1], upto[place], slope, least)
        means[i] = bin_.mean(slope)
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

    def slope(self, rows: float, beyond: float, before: float | None, least: float) -> float | None:
        """How much the logarithm of the rows from x outwards falls for each unit of x, at the outer
        edge. rows, beyond: those from either edge outwards; before: the slope at the inner edge;
        least: rows that stand out."""
        inner, outer = (self.low, self.high) if self.up else (self.high, self.low)
        if beyond > least:
            fall = float(np.log(rows / beyond)) / self.length
        elif before is None:
            return None
        else:
            fall = before * inner if self.in_logs else before
        fall = min(fall, STEEPEST / self.length)
        return fall / max(outer, LEAST * self.high) if self.in_logs else fall

    def mean(self, slope: float | None) -> float:
        """The mean of the bin, with the slope at its outer edge."""
        if slope is None:
            return (self.low + self.high) / 2
        outer = self.high if self.up else max(self.low, LEAST * self.high)
        fall = slope * outer if self.in_logs else slope
        away = (np.arange(POINTS) + 0.5) / POINTS * self.length
        weight = np.exp(-fall * away)
        if self.in_logs:
            numbers = self.low * np.exp(away) if self.up else self.high * np.exp(-away)
        else:
            numbers = self.low + away if self.up else self.high - away
        return float(np.clip(weight @ numbers / weight.sum(), self.low, self.high))

"""Where the rows of a group lie inside bins: a standard error of sums over the group.

Counts say how many rows of a group a bin holds, not where in the bin they are. Rows count at the
bin's mean: that of all rows where the run released it, else the one that neighbouring bins show
(`bin_means`). What is assumed beyond that makes the interval approximate. Let w be the width of the
bin, or twice the distance of its mean from the nearer edge if that is less. (Rows of a steep tail
lie at the edge of a wide bin.)

- Released means. Inside a bin, the rows of the group and the other rows lie along straight
  densities of any slope. The mean of such a density has the standard deviation w / (6 sqrt(3)) over
  slopes. The two differ by sqrt(2) of that. The group is off from the mean of all rows by 1 - q of
  the difference, where q is its part of the bin.
- No released mean, and the outer bins: the mean lies anywhere, w / sqrt(12).
- Neighbouring bins show a slope that goes on through bins: a group of larger numbers than all rows
  lies higher in all of its bins. A density exp(s x) shifts the mean of a bin by (w / 2) L(s w / 2),
  where L(z) = coth(z) - 1 / z. These shifts add up with their signs, and are uncertain by as much
  as they are.
- Rows of a group are few: each lies somewhere in the bin, and rows of one user lie together. Rows
  between two edges with the mean m have a variance of at most (m - low) (high - m), a third of
  which is that of even rows.
- One row far out: neighbouring bins say how rows fall off, not where a single one lies. If a row at
  the far end of an outer bin would alone move the sum beyond the interval, it is allowed for, in a
  group with the root of its part of the bin. It matters where a bound is so many times as large as
  the mean as there are rows: waiting times of 3 hours, and one of seven years.
"""

import numpy as np
from msgspec import Struct

from .clipping import Z95

STRAIGHT = 2**0.5 / (6 * 3**0.5)
"""Standard deviation of the difference of two means inside a bin of width 1, straight densities."""
ANYWHERE = 12**-0.5
"""Standard deviation of a mean that may lie anywhere in a bin of width 1."""


class Bins(Struct, frozen=True, eq=False):
    """Bins of a column by position. Each has the least and largest mean of its rows, the number at which
    its rows count, whether it is an outer one, and the rows of all groups. Where the run released
    means of bins, also the error of each mean."""

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray
    outer: np.ndarray
    every: np.ndarray
    error: np.ndarray | None = None

    @property
    def width(self) -> np.ndarray:
        """The width, or twice the distance of the mean from the nearer edge."""
        return 2 * np.maximum(np.minimum(self.high - self.middle, self.middle - self.low), 0.0)

    @property
    def scatter(self) -> np.ndarray:
        """Variance of the numbers of single rows."""
        return np.maximum(self.high - self.middle, 0) * np.maximum(self.middle - self.low, 0) / 3


def sum_errors(rows: np.ndarray, bins: Bins, noise: float, alike: float) -> np.ndarray:
    """Standard error of the sum of each group from places inside bins. rows: [groups, bins];
    noise: standard error of a number of rows; alike: rows of one user, on average over rows."""
    rows = np.maximum(rows, 0.0)
    w = bins.width
    if bins.error is None:
        own = np.broadcast_to(ANYWHERE * w, rows.shape)
    else:
        rest = 1 - np.clip(rows / np.maximum(bins.every, 1.0), 0.0, 1.0)
        own = rest * w * np.where(bins.outer, ANYWHERE, STRAIGHT)
    variance = (np.square(rows * own) + alike * rows * bins.scatter).sum(1)
    if bins.error is not None:
        variance = variance + np.square(rows * bins.error).sum(1)
    shift = (rows * _shifts(rows, bins, max(noise, 1.0))).sum(1)
    error = np.sqrt(variance + np.square(shift))
    if bins.error is not None:
        return error
    far = _one_far_row(rows, bins)
    return np.where(far > Z95 * error, np.hypot(error, far), error)


def _one_far_row(rows: np.ndarray, bins: Bins) -> np.ndarray:
    """How far one row at the far end of an outer bin moves the sum of each group."""
    reach = np.maximum(bins.high - bins.middle, bins.middle - bins.low)
    reach = np.where(bins.outer & np.isfinite(reach), reach, 0.0)
    part = np.clip(rows / np.maximum(bins.every, 1.0), 0.0, 1.0)
    return np.where(rows >= 1, np.sqrt(part) * reach, 0.0).max(axis=1, initial=0.0)


def _shifts(rows: np.ndarray, bins: Bins, least: float) -> np.ndarray:
    """How far the mean of each group and bin moves by the slope that neighbouring bins show. Rows
    below their noise count as noise, so that empty bins show no slope."""
    w = bins.width
    shifts = np.zeros(rows.shape)
    order = np.argsort(bins.middle, kind="stable")
    order = order[w[order] > 0]
    if len(order) < 2:
        return shifts
    base = np.maximum(bins.every, least)
    height = np.log(np.maximum(rows, least)[:, order] / base[order])
    places = bins.middle[order]
    apart = np.maximum(np.diff(places), 1e-300)
    slopes = np.diff(height, axis=1) / apart
    before = np.concatenate([slopes[:, :1], slopes], axis=1)
    after = np.concatenate([slopes, slopes[:, -1:]], axis=1)
    shifts[:, order] = w[order] / 2 * _langevin((before + after) / 2 * w[order] / 2)
    return shifts


def _langevin(z: np.ndarray) -> np.ndarray:
    """coth(z) - 1 / z, which is z / 3 near 0."""
    near = np.abs(z) < 1e-3
    safe = np.where(near, 1.0, z)
    return np.where(near, z / 3, 1 / np.tanh(safe) - 1 / safe)

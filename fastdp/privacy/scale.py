"""The noise that an answer needs: scales rounded up, and a check in exact arithmetic that they
suffice.

A user's contribution has L2 norm at most D (in grid units) on the *scaled* query rows. Noise of
standard deviation sigma there is mu-GDP if sigma * mu >= D. A row is measured without its scalar c,
with noise sigma / c, which is the same release divided by c. So the condition on the noise actually
drawn for row i is

    sigma_i^2 * c_i^2 * mu^2 >= D^2,

a statement about rational numbers (every float is one, c_i^2 is a fraction, D^2 an integer),
checked as such.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from ..errors import PrivacyError
from . import noise
from .budget import root_up
from .gdp import least

Coef2 = tuple[np.ndarray, np.ndarray]

# A cell holds at most MAX_ROWS rows; the sampler keeps |noise| below 128 scales. Together under
# 2^63, whatever the data.
MAX_ROWS = 1 << 42
MAX_SCALE = float(1 << 54)


def gaussian_sigma(sensitivity2: int, mu: float) -> float:
    """The noise on the scaled rows: sqrt(sensitivity2) / mu rounded up, so sigma^2 * mu^2 >=
    sensitivity2."""
    return root_up(Fraction(sensitivity2) / Fraction(mu) ** 2)


def row_sigmas(sigma: float, coef2: Coef2 | None) -> float | np.ndarray:
    """The noise on each unscaled row, sigma / c_i rounded up; one float where all rows have the
    same scalar."""
    if coef2 is None:
        return sigma
    sigma_of: dict[tuple[int, int], float] = {}
    runs = list(_runs(coef2))
    for _, _, pair in runs:
        if pair not in sigma_of:
            if pair[0] <= 0 or pair[1] <= 0:
                raise PrivacyError("the squared weight of a query row must be a positive fraction")
            sigma_of[pair] = root_up(Fraction(sigma) ** 2 * Fraction(pair[1], pair[0]))
    if len(sigma_of) <= 1:
        return next(iter(sigma_of.values()), sigma)
    out = np.empty(len(coef2[0]), np.float64)
    for start, stop, pair in runs:
        out[start:stop] = sigma_of[pair]
    return out


def check_gaussian(
    sigmas: float | np.ndarray, coef2: Coef2 | None, sensitivity2: int, mu: float
) -> None:
    """Raise PrivacyError unless the noise about to be drawn covers the sensitivity, row by row."""
    need = Fraction(sensitivity2) / Fraction(mu) ** 2
    num, den = (np.ones(1, np.int64), np.ones(1, np.int64)) if coef2 is None else coef2
    per_row = np.broadcast_to(np.asarray(sigmas, np.float64).reshape(-1), np.shape(num))
    done = set()
    for start, _, pair in _runs((num, den, per_row)):
        if pair in done:
            continue
        done.add(pair)
        if Fraction(pair[2]) ** 2 * Fraction(pair[0], pair[1]) < need:
            raise PrivacyError(
                f"query row {start}: its noise does not cover its sensitivity; nothing was drawn"
            )
    check_range(per_row)


def laplace_scale(sensitivity: int, epsilon: float) -> float:
    """sensitivity / epsilon rounded up, so scale * epsilon >= sensitivity."""
    scale = float(Fraction(sensitivity) / least(epsilon))
    while Fraction(scale) * least(epsilon) < sensitivity:
        scale = math.nextafter(scale, math.inf)
    return scale


def check_laplace(scale: float, sensitivity: int, epsilon: float) -> None:
    if Fraction(scale) * least(epsilon) < sensitivity:
        raise PrivacyError("the Laplace scale does not cover the sensitivity; nothing was drawn")
    check_range(np.asarray([scale]))


def laplace_std(scale: float) -> float:
    """Standard deviation of the discrete Laplace distribution, P(k) proportional to exp(-|k| /
    scale)."""
    return math.sqrt(2 * math.exp(-1 / scale)) / -math.expm1(-1 / scale)


def check_range(scales: np.ndarray) -> None:
    """Raise PrivacyError if a scale lies outside what the sampler draws exactly, or could overflow
    a count."""
    low = np.min(scales, initial=np.inf)
    high = np.max(scales, initial=0.0)
    if low < noise.SCALE_MIN or high > min(noise.SCALE_MAX, MAX_SCALE):
        raise PrivacyError(
            f"noise scales must be between {noise.SCALE_MIN:g} and"
            f" {min(noise.SCALE_MAX, MAX_SCALE):g} grid units; the budget is too small or too large"
            " for this many measurements"
        )


def _runs(columns: Sequence[np.ndarray]) -> Iterator[tuple[int, int, tuple]]:
    """(start, stop, values) of the stretches over which all columns are constant."""
    rows = len(columns[0])
    change = np.zeros(rows, bool)
    for column in columns:
        change[1:] |= np.asarray(column)[1:] != np.asarray(column)[:-1]
    if not rows:
        return
    starts = np.concatenate([[0], np.flatnonzero(change)])
    stops = np.concatenate([starts[1:], [rows]])
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield start, stop, tuple(c[start].item() for c in columns)


def least_threshold(sigma: float, cap: int, delta: float) -> float:
    """Weighted users above which values may be kept. A user who alone has t <= cap values adds 1 /
    sqrt(t) to each. One of them passes with probability 1 - Phi((T - 1 / sqrt(t)) / sigma)^t <=
    delta, for every t (docs/explain/keys.md)."""
    from scipy.special import ndtri

    t = np.arange(1, cap + 1)
    return float(
        np.max(1 / np.sqrt(t) - sigma * ndtri(-np.expm1(np.log1p(-delta) / t)) * (1 + 1e-9))
    )

"""What noisy numbers say: whether one stands out, and what many together say of each.

Every rule of the form "so many standard errors" and every estimate that draws noisy numbers towards
others is here.

Whether a number differs from 0: the largest of many noisy numbers is large by chance as well.
`stands_out` asks for more where more are looked at: the chance of a false alarm among all of them is
FALSE_ALARMS. `stand_out_together` asks the same of their sum of squares. `SURE` is for single decisions
that are not easily taken back.

What a number is: if noisy numbers are all alike, each is taken for their mean. If they differ by more
than noise, each is taken for itself. `drawn_towards` says this of numbers that are spread like a
normal distribution around a centre, `posterior_means` of any distribution. Everything here is a
function of released numbers.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

FALSE_ALARMS = 0.05
"""The chance that any of all numbers looked at stands out though none differs from 0."""
SURE = 3.0
"""Standard errors of a single decision that is not easily taken back: a false alarm in 1 of 741."""
LIKELY = 2.0
"""Standard errors of a single decision that a later step corrects: a false alarm in 1 of 44."""
Z95 = NormalDist().inv_cdf(0.975)
"""Half the width of a 95 % interval, in standard errors."""
GRID = 64
"""True values that `posterior_means` tells apart at least, from the smallest to the largest."""
MOST_GRID = 256
"""The most values near noisy numbers that it tells apart as well, each half a standard error wide."""
NO_EVIDENCE = 2.0
"""The distribution is as likely as the likeliest, but for this much of the logarithm: what a 95 %
interval leaves open. The ascent begins evenly and ends there, so that it does not follow noise; at
.01 the means are off by .5 to 4 % more."""
MOST_STEPS = 1000
"""The most steps of its ascent; some ten to a hundred are taken."""
PARTS = 4
"""For the ascent, noisy numbers are rounded to this part of a standard error."""
LEAST_PART = 1e-15
"""The part of the numbers that every value on the grid keeps, so that none is lost for good."""
SCORING = 20
"""Steps of Fisher's scoring for one variance. It converges after a few."""


def threshold(looks: int, false_alarms: float = FALSE_ALARMS) -> float:
    """Standard errors that the largest of `looks` numbers without a signal exceeds with a chance of
    at most `false_alarms` (Bonferroni)."""
    return -NormalDist().inv_cdf(min(0.5, false_alarms / max(1, looks)))


def stands_out(z: np.ndarray | float, looks: int, false_alarms: float = FALSE_ALARMS) -> np.ndarray:
    """Whether a number of z standard errors, or each of several, differs from 0. `looks`: how many
    were looked at."""
    return np.asarray(z) > threshold(looks, false_alarms)


def stand_out_together(z: np.ndarray, false_alarms: float = FALSE_ALARMS) -> bool:
    """Whether any of several numbers of z standard errors is above 0, by all of them together. Many that
    are a little above 0 say so where none stands out by itself.

    If none is above 0, each measured one is by chance with probability 1/2, independent of the others. The
    sum of squares of those above 0 is then a mixture of chi-square distributions."""
    from scipy.special import gammaincc, gammaln

    z = np.asarray(z, np.float64)
    size = float(np.square(np.maximum(z, 0.0)).sum())
    if not size > 0:
        return False
    count = len(z)
    above = np.arange(1, count + 1)
    ways = gammaln(count + 1) - gammaln(above + 1) - gammaln(count - above + 1)
    chance = np.exp(ways - count * math.log(2))  # that so many are above 0
    return bool(chance @ gammaincc(above / 2, size / 2) < false_alarms)


def spread_beyond_noise(
    away: np.ndarray, variances: np.ndarray, scale: np.ndarray | float = 1.0, lost: int = 0
) -> float:
    """How far true values spread around their centre, from noisy ones at these distances from it.
    The variance of a true value is the spread times its `scale`. The spread is the likeliest if true
    values are normal (Fisher's scoring), and 0 where noise explains all.

    `lost`: of k numbers, squares count k / (k - lost) times. 1 where the centre is the mean of these
    numbers. 2 is James and Stein's estimate: then the numbers, drawn to the centre, have a smaller
    expected error than as they are, wherever the centre is. There have to be more numbers than are
    lost; of others the spread is 0."""
    count = len(away)
    if count <= lost:
        return 0.0
    scale = np.broadcast_to(np.asarray(scale, np.float64), np.shape(away))
    beyond = np.square(away) * (count / (count - lost)) - variances
    spread = max(0.0, float(np.mean(scale * beyond) / np.mean(scale * scale)))
    for _ in range(SCORING):
        whole = variances + spread * scale
        if not (whole > 0).all():
            break
        weight = scale / np.square(whole)
        spread = max(0.0, float(weight @ beyond / (weight * scale).sum()))
    return spread


def centre_and_spread(values: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """(the mean that noisy numbers have in common, how far true ones spread around it). Each depends on
    the other: with a large spread all numbers count alike, with none by their precision."""
    spread = 0.0
    for _ in range(SCORING):
        weight = 1 / (variances + spread)
        centre = float(weight @ values / weight.sum())
        spread = spread_beyond_noise(values - centre, variances, lost=1)
    return centre, spread


def drawn_towards(
    centre: np.ndarray | float,
    values: np.ndarray,
    variances: np.ndarray | float,
    spread: np.ndarray | float | None = None,
) -> np.ndarray:
    """Noisy values, drawn towards a centre as far as noise explains their distance from it. The part
    spread / (spread + variance) of the distance stays (empirical Bayes, normal). `spread`: the
    variance of true values around the centre; None: the likeliest one for all together."""
    values = np.asarray(values, np.float64)
    variances = np.broadcast_to(np.asarray(variances, np.float64), values.shape)
    away = values - centre
    own = np.asarray(spread_beyond_noise(away, variances) if spread is None else spread)
    kept = own / np.maximum(own + variances, 1e-300)
    return centre + away * kept


def posterior_means(
    values: np.ndarray, sigma: np.ndarray, least: float = -math.inf, most: float = math.inf
) -> np.ndarray:
    """What the true values are on average, given noisy ones with these standard errors.

    The true values are taken for draws of one unknown distribution, the likeliest one on a grid
    (empirical Bayes; Kiefer and Wolfowitz's estimate by expectation maximisation). Numbers whose
    spread is that of noise all get their mean. A few large ones among them stay as they are. True
    values lie between `least` and `most`. Near every noisy number the grid is as fine as half its
    standard error, so that a number far from all others stays where it is."""
    return posterior_moments(values, sigma, least, most)[0]


def posterior_moments(
    values: np.ndarray, sigma: np.ndarray, least: float = -math.inf, most: float = math.inf
) -> tuple[np.ndarray, np.ndarray]:
    """(the means, the variances) of the true values, given noisy ones, as in `posterior_means`."""
    values = np.asarray(values, np.float64)
    sigma = np.asarray(sigma, np.float64)
    if values.size < 2 or not (sigma > 0).all():
        return values.copy(), np.square(sigma) + np.zeros_like(values)
    finest = float(sigma.min())
    grid = _grid(np.clip(values, least, most), finest / 2)
    rounded = np.round(values / finest * PARTS) * (finest / PARTS)
    known, times = np.unique(np.stack([rounded, sigma], 1), axis=0, return_counts=True)
    prior = likeliest(_likelihood(known[:, 0], known[:, 1], grid), times)
    posterior = _likelihood(values, sigma, grid) * prior
    whole = posterior.sum(axis=1)
    means = posterior @ grid / whole
    squares = np.square(grid - means[:, None])
    return means, np.sum(posterior * squares, axis=1) / whole


def likeliest(
    likelihood: np.ndarray, times: np.ndarray, first: np.ndarray | None = None
) -> np.ndarray:
    """The distribution on a grid under which numbers are likeliest. `likelihood` [numbers, grid];
    `times`: how often each number occurs; `first`: where the ascent begins, evenly unless stated.

    A step of expectation maximisation multiplies each part by a gradient, whose mean is 1. It
    hardly moves where noise is larger than the grid is wide, so powers of the gradient are tried as
    long as they help. No distribution is likelier by more than the largest gradient says, less 1,
    for each number (Lindsay)."""
    count = times.sum()
    even = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    prior = even if first is None else first
    mixed = likelihood @ prior
    power = 1.0
    for _ in range(MOST_STEPS):
        gradient = (times / mixed) @ likelihood / count
        if count * (gradient.max() - 1) < NO_EVIDENCE:
            break
        tried = np.maximum(prior * gradient**power, LEAST_PART)
        tried /= tried.sum()
        mixed_then = likelihood @ tried
        if power == 1 or times @ np.log(mixed_then / mixed) >= 0:
            prior, mixed, power = tried, mixed_then, 2 * power
        else:
            power = 1.0
    return prior


def _grid(values: np.ndarray, step: float) -> np.ndarray:
    """Values that may be true: evenly from end to end, and near the noisy ones, `step` apart."""
    low, high = values.min(), values.max()
    even = np.linspace(low, high, GRID)
    while True:
        near = np.unique(np.round((values - low) / step))
        if near.size <= MOST_GRID:
            return np.unique(np.append(even, np.minimum(low + near * step, high)))
        step *= 2


def _likelihood(values: np.ndarray, sigma: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """[values, grid], up to a factor for each value."""
    z = np.square((values[:, None] - grid) / sigma[:, None])
    return np.exp(-0.5 * (z - z.min(axis=1, keepdims=True)))


def chance_distance(expected: np.ndarray) -> float:
    """The L1 distance that chance alone puts between a table with these expected rows and its
    counts: E |Poisson(e) - e| added up, at most 2 e each."""
    return float(chance_distances(np.reshape(expected, (1, -1)))[0])


def chance_distances(expected: np.ndarray) -> np.ndarray:
    """`chance_distance` of many tables, [tables, cells]."""
    rows = np.maximum(expected, 0.0)
    return np.minimum(np.sqrt(2 / math.pi * rows), 2 * rows).sum(axis=1)


def onto_simplex(values: np.ndarray, total: float) -> np.ndarray:
    """The nearest vector (least squares) of numbers >= 0 that add up to `total` (>= 0)."""
    if not values.size:
        return np.zeros(0)
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, values.size + 1)
    keep = int(np.flatnonzero(ordered > excess).max(initial=0))
    return np.maximum(values - excess[keep], 0.0)

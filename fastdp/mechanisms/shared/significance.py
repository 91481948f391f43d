"""What noisy numbers say: whether one stands out, and what many together say of each.

A mechanism looks at many noisy numbers and acts on some. The largest of them are large by chance as
well. `stands_out` asks for more where more are looked at. `posterior_means` is the estimate to act
on: if the numbers with noise are all alike, each is taken for their mean; if they differ by more
than noise, each is taken for itself. Everything here is a function of released numbers.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

FALSE_ALARMS = 0.05
"""The chance that any of all numbers looked at stands out though none differs from 0."""
GRID = 64
"""True values that `posterior_means` tells apart, from the smallest to the largest number."""
STEPS = 100
"""Steps of its expectation maximisation. The means change by little after these."""


def threshold(looks: int, false_alarms: float = FALSE_ALARMS) -> float:
    """Standard errors that the largest of `looks` numbers without a signal exceeds with a chance of
    at most `false_alarms` (Bonferroni)."""
    return NormalDist().inv_cdf(1 - min(0.5, false_alarms / max(1, looks)))


def stands_out(z: float, looks: int, false_alarms: float = FALSE_ALARMS) -> bool:
    """Whether a number of z standard errors differs from 0, one of `looks` that were looked at."""
    return z > threshold(looks, false_alarms)


def posterior_means(
    values: np.ndarray, sigma: np.ndarray, least: float = -math.inf, most: float = math.inf
) -> np.ndarray:
    """What the true values are on average, given noisy ones with these standard errors.

    The true values are taken for draws of one unknown distribution, the likeliest one on a grid
    (empirical Bayes; Kiefer and Wolfowitz's estimate by expectation maximisation). Numbers whose
    spread is that of noise all get their mean. A few large ones among them stay as they are. True
    values lie between `least` and `most`. The work is `GRID` times `STEPS` for each number."""
    values, sigma = np.asarray(values, np.float64), np.asarray(sigma, np.float64)
    if values.size < 2 or not (sigma > 0).all():
        return values.copy()
    ends = np.clip([values.min(), values.max()], least, most)
    grid = np.linspace(ends[0], ends[1], GRID)
    z = (values[:, None] - grid) / sigma[:, None]
    likelihood = np.exp(-0.5 * (np.square(z) - np.square(z).min(axis=1, keepdims=True)))
    prior = np.full(GRID, 1 / GRID)
    for _ in range(STEPS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = posterior.mean(axis=0)
    return posterior @ grid


def chance_distance(expected: np.ndarray) -> float:
    """The L1 distance that chance alone puts between a table with these expected rows and its
    counts: E |Poisson(e) - e| added up, at most 2 e each."""
    return float(chance_distances(np.reshape(expected, (1, -1)))[0])


def chance_distances(expected: np.ndarray) -> np.ndarray:
    """`chance_distance` of many tables, [tables, cells]."""
    rows = np.maximum(expected, 0.0)
    return np.minimum(np.sqrt(2 / math.pi * rows), 2 * rows).sum(axis=1)

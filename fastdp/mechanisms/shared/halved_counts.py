"""Counts of codes that have an order: what they are on average if halves of a range may be alike.

All rows are divided among the two halves of the codes, the rows of each half among its halves, and so on
down to single codes. A division is the share of the first half. Before looking, it is a draw of
Beta(alpha, alpha), and alphas of all ranges of one level are draws of one unknown distribution, which is
the likeliest one (`significance.likeliest`). Where neighbours are alike, alphas of the last levels are
large, so noise in single codes is averaged, and sums over long ranges stay as they were measured. A single
code that stands out is a small alpha in each of its ranges.

The rows of a range are what the levels above say. Noise in the difference of its halves has a variance of
n m / (n + m) times that of a count, for halves of n and m codes. Everything here is a function of released
numbers."""

from __future__ import annotations

import math

import numpy as np

from ...significance import likeliest

ALPHAS = 2.0 ** np.arange(-4, 21)
"""Alphas in steps of a factor of two: from all rows in one part to parts that differ by a thousandth."""
NORMAL = 16.0
"""From this alpha on, a share is normal to within the steps of alphas, with the Beta's mean and variance."""
LOGITS = np.arange(-12.0, 12.0625, 0.125)
"""True shares, in even steps of the logarithm of their odds."""
WIDE = 20.0
"""A range whose noise is as many times its rows says nothing about its division, to within rounding."""
NARROW = 0.1
FAR = 4.0
"""With noise below the part NARROW of its rows, a share that is FAR standard deviations from either end
follows the slope of the prior in one step of Newton: there true shares are too far apart."""
AT_ONCE = 1 << 12
"""Ranges that are looked at together (6 MB)."""

SHARES = 1 / (1 + np.exp(-LOGITS))
BETA = ALPHAS[ALPHAS < NORMAL]
CONSTANT = np.array([math.lgamma(2 * a) - 2 * math.lgamma(a) for a in BETA])
PRIOR = np.exp(BETA[:, None] * (np.log(SHARES) + np.log1p(-SHARES)))
PRIOR /= PRIOR.sum(axis=1, keepdims=True)
VARIANCE = 1 / (4 * (2 * ALPHAS[ALPHAS >= NORMAL] + 1))


def halved_counts(values: np.ndarray, sigma: float, total: float) -> tuple[float, np.ndarray]:
    """(logarithm of the likelihood of noisy counts, the expected counts, which add up to `total`). Densities
    are of differences in standard deviations, but for sqrt(2 pi)."""
    first, last = np.zeros(1, np.int64), np.full(1, values.size)
    rows = np.full(1, float(total))
    up_to = np.append(0.0, np.cumsum(values))
    out = np.zeros(values.size)
    told = 0.0
    while first.size:
        middle = (first + last + 1) // 2
        n, m = middle - first, last - middle
        part = n / (n + m)
        noisy = up_to[middle] - up_to[first] - (up_to[last] - up_to[first]) * part
        noise = sigma * np.sqrt(n * m / (n + m))
        share, likely = _shares(0.5 + noisy / np.maximum(rows, 1e-9), noise, rows)
        told += likely
        share = np.clip(share - 0.5 + part, 0.0, 1.0)
        first, last = np.append(first, middle), np.append(middle, last)
        rows = np.append(rows * share, rows * (1 - share))
        single = last - first == 1
        out[first[single]] = rows[single]
        first, last, rows = first[~single], last[~single], rows[~single]
    return told, out


def _shares(noisy: np.ndarray, noise: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, float]:
    """The expected shares of the first halves of all ranges of a level, and the logarithm of their
    likelihood."""
    seen = noise < WIDE * rows
    share = np.full(noisy.size, 0.5)
    told = -0.5 * np.square((noisy - 0.5) * rows / noise)[~seen].sum()
    if not seen.any():
        return share, float(told)
    error = noise[seen] / rows[seen]
    logs, means = _by_alpha(noisy[seen], error)
    largest = logs.max(axis=1, keepdims=True)
    likely = np.exp(logs - largest)
    weights = likely * likeliest(likely, np.ones(len(likely)))
    whole = weights.sum(axis=1)
    share[seen] = (weights * means).sum(axis=1) / whole
    return share, float(told + (np.log(whole) + largest[:, 0]).sum())


def _by_alpha(noisy: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every range and for every alpha, (the logarithm of the likelihood, the mean share)."""
    logs = np.empty((noisy.size, ALPHAS.size))
    means = np.empty_like(logs)
    count = BETA.size
    for start in range(0, noisy.size, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        miss = -0.5 * np.square((noisy[part, None] - SHARES) / error[part, None])
        nearest = miss.max(axis=1, keepdims=True)
        chance = np.exp(miss - nearest)
        both = np.maximum(chance @ PRIOR.T, 1e-300)
        logs[part, :count] = np.log(both) + nearest
        means[part, :count] = chance @ (PRIOR * SHARES).T / both
    far = (np.minimum(noisy, 1 - noisy) > FAR * error) & (error < NARROW)
    share, own = noisy[far, None], error[far, None]
    unit = np.log(own * math.sqrt(2 * math.pi))
    logs[far, :count] = CONSTANT + (BETA - 1) * (np.log(share) + np.log1p(-share)) + unit
    slope = (BETA - 1) * (1 / share - 1 / (1 - share))
    means[far, :count] = share + np.clip(own**2 * slope, -own, own)
    whole = VARIANCE + error[:, None] ** 2
    away = noisy[:, None] - 0.5
    logs[:, count:] = -0.5 * np.log(whole) - 0.5 * away**2 / whole + np.log(error)[:, None]
    means[:, count:] = 0.5 + VARIANCE / whole * away
    return logs, means

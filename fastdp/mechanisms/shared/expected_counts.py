"""Single columns: what their true counts are on average, given the noisy ones.

Counts are never negative and add up to the number of rows. The shares of a column's k codes are taken for
a Dirichlet draw with the same alpha for each code: a large alpha for equal shares, a small one for few
common codes. By itself, a share is then a draw of Beta(alpha, (k - 1) alpha).

1. For each alpha, every noisy count has a likelihood and a posterior mean. A column's counts are first
   shifted to add up to the rows; their noise has then (k - 1) / k of the variance. Counts are taken one by
   one, and their likelihoods are raised to the power (k - 1) / k, since k counts with one sum are k - 1
   numbers.
2. The alphas of all columns are draws of one unknown distribution, which is the likeliest one
   (`significance.likeliest`). A column of two codes by itself says little about its alpha, many do. Before
   looking, counts are as likely equal as not: columns cut at quantiles have equal counts.
3. A count is the mean over all alphas, by how likely each is for its column.

Where codes have an order, neighbours may be alike, which this does not know. Halving the range again and
again does (`halved_counts`). The means of both count, by how likely they make the noisy counts; before
looking, an order that matters has the chance FALSE_ALARMS.

4. Codes of missing values and of values outside the domain may not occur at all: a schema has them to be
   safe. Either such a code has no rows, or its share is a draw as above. How many have none is the likeliest
   part for all such codes of all columns together; before looking, half of them. So a count is multiplied by
   the chance that there are any, and the rows that it loses go to the column's other codes.

So counts that stand out of noise stay as they are. Where noise is all there is, they are equal. Between
these each is drawn to what the other counts say. Everything here is a function of released numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ...measurement import Measurement
from ...significance import FALSE_ALARMS, likeliest, onto_simplex
from .halved_counts import ALPHAS, NORMAL, halved_counts

FAR = 12.0
"""A count of so many times its noise follows the slope of the prior in one step of Newton: true counts
beyond are not looked at one by one."""
RATIO = 1.15
"""The step from one small true count to the next."""
LEAST, STEP = 1e-4, 0.25
"""Steps between true counts, in units of the noise: each is RATIO times the one before, from LEAST on, until
they are STEP apart; then evenly."""
TOLD_APART = 16
"""Of very many noisy counts, those in steps of such a part of the noise are looked at, and others lie
between: memory is bounded."""
MOST_ODDS = 50.0
"""The logarithm of odds that leave no doubt."""
DIGITS = 6
"""Decimals of counts: what follows does not depend on the rounding of a processor."""


def _points() -> tuple[np.ndarray, np.ndarray]:
    """(true counts in standard deviations of the noise, the ends of the parts they stand for)."""
    first = int(math.log(STEP / (RATIO - 1) / LEAST) / math.log(RATIO))
    low = LEAST * RATIO ** np.arange(first + 1)
    points = np.append(low, np.arange(low[-1] + STEP, FAR + 8.0, STEP))
    middle = (points[1:] + points[:-1]) / 2
    return points, np.concatenate([[0.0], middle, [points[-1] + STEP / 2]])


POINTS, ENDS = _points()


def expected_counts(
    ones: Sequence[Measurement],
    total: float,
    ordered: Collection[str] = (),
    unlisted: Mapping[str, np.ndarray] | None = None,
) -> list[Measurement]:
    """The 1-ways with expected counts >= 0 in place of noisy ones; each adds up to `total` where that is
    more than 0. Standard errors stay those of the noise, but for codes that may have no rows: noise in
    answers on pairs of columns would give them rows again. `ordered`: columns whose codes have an order;
    `unlisted`: by column, whether a code is that of missing values or of values outside the domain."""
    columns = {i: _Column(m, total) for i, m in enumerate(ones) if m.values.size > 1 and total > 0}
    out = list(ones)
    if not columns:
        return out
    logs = np.array([c.log_likelihood() for c in columns.values()])
    largest = logs.max(axis=1)
    likely = np.exp(logs - largest[:, None])
    equal = ALPHAS == ALPHAS[-1]
    alphas = likeliest(likely, np.ones(len(likely)), np.where(equal, 0.5, 0.5 / (~equal).sum()))
    there = _chances_of_rows(columns, ones, likely * alphas, unlisted or {})
    for (i, c), row, most in zip(columns.items(), likely, largest):
        m = ones[i]
        values = c.means(row * alphas)
        if m.clique[0] in ordered and c.size > 2:
            told, halved = halved_counts(m.values, math.sqrt(np.mean(m.variances)), total)
            odds = told - most - math.log(row @ alphas) + math.log(FALSE_ALARMS)
            part = 1 / (1 + math.exp(-min(max(odds, -50.0), 50.0)))
            values = values + part * (halved - values)
        sigma = m.sigma
        if i in there:
            sigma = _errors_if_some(values, m.variances, there[i])
            values = values * there[i]
            values *= total / max(values.sum(), 1e-300)
        out[i] = Measurement(m.clique, np.round(values, DIGITS), sigma, label=m.label)
    return out


def _errors_if_some(values: np.ndarray, variances: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Standard errors of counts that are `values`, with these variances, with a chance, and else 0. No count
    is known better than to a row."""
    errors = np.sqrt(np.broadcast_to(variances, values.shape))
    mixed = np.sqrt(chance * errors**2 + chance * (1 - chance) * values**2)
    return np.where(chance < 1, np.minimum(errors, np.maximum(mixed, 1.0)), errors)


def _chances_of_rows(
    columns: Mapping[int, _Column],
    ones: Sequence[Measurement],
    weights: np.ndarray,
    unlisted: Mapping[str, np.ndarray],
) -> dict[int, np.ndarray]:
    """For columns with unlisted codes, the chance of each code that it has rows; 1 of listed ones.
    `weights`: of the alphas of each column."""
    asked = {i: unlisted[m.clique[0]] for i, m in enumerate(ones) if m.clique[0] in unlisted}
    asked = {i: codes for i, codes in asked.items() if i in columns and codes.any()}
    found = {
        i: columns[i].odds_of_rows(row)[asked[i]] for i, row in zip(columns, weights) if i in asked
    }
    if not found:
        return {}
    odds = np.concatenate(list(found.values()))
    likely = np.exp(np.stack([-np.maximum(odds, 0), np.minimum(odds, 0)], axis=1))  # none, some
    prior = likeliest(likely, np.ones(len(likely)))
    out = {}
    for i, own in found.items():
        out[i] = np.ones(columns[i].size)
        out[i][asked[i]] = 1 / (1 + np.exp(math.log(prior[0] / prior[1]) - own))
    return out


def parts_kept(before: Sequence[Measurement], after: Sequence[np.ndarray]) -> dict[str, float]:
    """The part of the differences of its counts that is left to each column, and so the part of the
    noise's variance."""
    out = {}
    for m, near in zip(before, after):
        noisy, left = (float(np.square(x - np.mean(x)).sum()) for x in (m.values, near))
        out[m.clique[0]] = min(1.0, math.sqrt(left / noisy)) if noisy > 0 else 1.0
    return out


class _Column:
    """One column's noisy counts: for each alpha, their likelihood and their means."""

    def __init__(self, one: Measurement, total: float):
        size = one.values.size
        self.size = size
        self.total = total
        self.noise = math.sqrt(float(np.mean(one.variances)) * (size - 1) / size)
        self.counts = one.values + (total - float(np.sum(one.values))) / size
        z = np.maximum(self.counts / self.noise, -FAR)
        self.near = z < FAR
        self.z = z[self.near]
        looked = np.unique(self.z) if self.z.size else np.zeros(1)
        if looked.size > 2 * FAR * TOLD_APART:
            looked = np.arange(looked[0], looked[-1] + 2 / TOLD_APART, 1 / TOLD_APART)
        self.looked = looked
        self.beta = ALPHAS[ALPHAS < NORMAL]
        self.normal = ALPHAS[ALPHAS >= NORMAL]
        k = size
        self.constant = np.array(
            [math.lgamma(k * a) - math.lgamma(a) - math.lgamma((k - 1) * a) for a in self.beta]
        )
        self.likely, self.mean, self.square = self._by_counts()

    def _prior(self, share: np.ndarray) -> np.ndarray:
        """The logarithm of the density of shares, [alpha, share]."""
        a = self.beta[:, None]
        last = (self.size - 1) * a - 1
        return self.constant[:, None] + (a - 1) * np.log(share) + last * np.log1p(-share)

    def _by_counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each alpha that is not taken for normal and each count that is looked at, (the logarithm of
        its likelihood, the mean of the true count, the mean of its square)."""
        most = self.total / self.noise
        inside = ENDS[1:] < most
        inside[0] = True
        points = POINTS[inside]
        width = np.diff(ENDS)[inside]
        prior = self._prior(np.minimum(points / most, 0.999)) + np.log(width / most)
        a = self.beta  # below the first end, the power of the share is all that varies
        prior[:, 0] = self.constant + a * np.log(min(ENDS[1] / most, 0.999)) - np.log(a)
        largest = prior.max(axis=1, keepdims=True)
        prior = np.exp(prior - largest)
        miss = -0.5 * np.square(self.looked[:, None] - points)
        nearest = miss.max(axis=1, keepdims=True)
        chance = np.exp(miss - nearest)
        both = np.maximum(prior @ chance.T, 1e-300)
        mean = self.noise * ((prior * points) @ chance.T) / both
        square = self.noise**2 * ((prior * points**2) @ chance.T) / both
        return np.log(both) + largest + nearest.T, mean, square

    def log_likelihood(self) -> np.ndarray:
        """By alpha, the logarithm of the likelihood of all counts. Densities are of counts in standard
        deviations, but for sqrt(2 pi)."""
        unit = math.log(self.noise * math.sqrt(2 * math.pi))
        out = np.array([np.interp(self.z, self.looked, row).sum() for row in self.likely])
        far = self._far_shares()
        if far.size:
            out += (self._prior(far) + unit - math.log(self.total)).sum(axis=1)
        variance = self._normal_variance() + self.noise**2
        away = np.square(self.counts - self.total / self.size).sum()
        of_normal = -0.5 * self.size * np.log(variance) - 0.5 * away / variance
        of_normal += self.size * math.log(self.noise)
        return np.append(out, of_normal) * ((self.size - 1) / self.size)

    def odds_of_rows(self, weights: np.ndarray) -> np.ndarray:
        """For each count, the logarithm of how much likelier it is if its share is a draw, with these
        weights of alphas, than if the code has no rows."""
        weights = weights / weights.sum()
        own, normal = np.split(weights, [self.beta.size])
        by_alpha = np.array([np.interp(self.z, self.looked, row) for row in self.likely])
        variance = self._normal_variance()[:, None] / self.noise**2 + 1
        equal = self.total / self.size / self.noise
        of_normal = -0.5 * np.log(variance) - 0.5 * np.square(self.z - equal) / variance
        both = np.concatenate([by_alpha, of_normal]) + 0.5 * np.square(self.z)
        out = np.full(self.size, MOST_ODDS)
        weighted = np.log(np.append(own, normal) + 1e-300)[:, None] + np.minimum(both, 500.0)
        largest = weighted.max(axis=0)
        found = largest + np.log(np.exp(weighted - largest).sum(axis=0))
        out[self.near] = np.clip(found, -MOST_ODDS, MOST_ODDS)
        return out

    def means(self, weights: np.ndarray) -> np.ndarray:
        """The means over alphas with these weights. Where they do not add up to the rows, each changes in
        proportion to its variance, as given the sum."""
        weights = weights / weights.sum()
        own, normal = np.split(weights, [self.beta.size])
        mean = np.empty(self.size)
        square = np.empty(self.size)
        mean[self.near] = np.interp(self.z, self.looked, own @ self.mean)
        square[self.near] = np.interp(self.z, self.looked, own @ self.square)
        far = self._far_shares()
        if far.size:
            a = self.beta[:, None]
            slope = (a - 1) / far - ((self.size - 1) * a - 1) / (1 - far)
            moved = np.clip(self.noise / self.total * slope, -1.0, 1.0) * self.noise
            by_alpha = self.counts[~self.near] + moved
            mean[~self.near] = own @ by_alpha
            square[~self.near] = own @ (by_alpha**2 + self.noise**2)
        equal = self.total / self.size
        variance = self._normal_variance()
        kept = variance / (variance + self.noise**2)
        by_alpha = equal + kept[:, None] * (self.counts - equal)
        mean += normal @ by_alpha
        square += normal @ (by_alpha**2 + (kept * self.noise**2)[:, None])
        spread = np.maximum(square - mean**2, 1e-12 * self.noise**2)
        mean += (self.total - mean.sum()) * spread / spread.sum()
        return onto_simplex(mean, self.total)

    def _far_shares(self) -> np.ndarray:
        """The shares of counts that are far from 0."""
        shares = self.counts[~self.near] / self.total
        return np.minimum(shares, 1 - 0.5 * self.noise / self.total)

    def _normal_variance(self) -> np.ndarray:
        """The variance of true counts, by alpha that is taken for normal."""
        equal = self.total / self.size
        return equal**2 * (self.size - 1) / (self.size * self.normal + 1)

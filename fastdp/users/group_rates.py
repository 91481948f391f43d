"""Rates of agreement by number of rows: how often two rows of a user agree, among users with few rows
and among users with many.

Few users have many rows, so a release says little of their rate by itself. Rates of neighbouring groups are
drawn to each other as far as they are likely to be alike. Log-odds of rates are taken to go up or down by
chance from group to group. So a rate stays between 0 and 1, and a small one is known as a proportion: a
user whose rows agree half as often has twice as many values. How large the steps are is not chosen: every
size counts by how likely it makes what was released.
"""

from __future__ import annotations

import numpy as np

STEPS = np.geomspace(0.05, 4.0, 14)
"""Standard deviations of the steps of log-odds, each as likely as the others before anything is known."""
UNKNOWN = 3.0
"""The mean log-odds of the groups lie so far from those of chance (standard deviation): odds of a twentieth
or of twenty times chance are likely."""
LEAST_CHANCE = 1e-3
"""Chance counts as this at least."""
TURNS = 40
"""Newton's steps at most."""
FARTHEST = 2.0
"""The longest change of log-odds in one of them."""
NEAR = 1e-7
"""A step is the last if it gains less, in units of log-likelihood."""


def differences(groups: int) -> np.ndarray:
    """The matrix that takes numbers of groups to the differences of neighbours."""
    return np.eye(groups - 1, groups, 1) - np.eye(groups - 1, groups)


def rates_by_group(seen: np.ndarray, found: np.ndarray, chance: float) -> np.ndarray:
    """The rate of each group, if the numbers `found` are seen @ rates but for errors of 1: the mean over
    likely sizes of steps of the likeliest rates."""
    centre = min(max(chance, LEAST_CHANCE), 1 - LEAST_CHANCE)
    at_chance = np.full(seen.shape[1], _log_odds(centre))
    tried = [_likeliest(seen, found, at_chance, step) for step in STEPS]
    evidence = np.array([e for _, e in tried])
    weights = np.exp(evidence - evidence.max())
    return weights @ np.array([rates for rates, _ in tried]) / weights.sum()


def _likeliest(
    seen: np.ndarray, found: np.ndarray, at_chance: np.ndarray, step: float
) -> tuple[np.ndarray, float]:
    """(the likeliest rates with steps of this size, the logarithm of the evidence for it by Laplace's
    approximation)."""
    apart = differences(len(at_chance))
    prior = apart.T @ apart / step**2
    prior += (UNKNOWN * len(at_chance)) ** -2.0

    def loss(odds: np.ndarray) -> float:
        misses = seen @ _rates(odds) - found
        moved = odds - at_chance
        return 0.5 * float(misses @ misses) + 0.5 * float(moved @ prior @ moved)

    odds = at_chance
    least = loss(odds)
    for _ in range(TURNS):
        rates = _rates(odds)
        slopes = seen * (rates * (1 - rates))
        gradient = slopes.T @ (seen @ rates - found) + prior @ (odds - at_chance)
        change = np.linalg.solve(slopes.T @ slopes + prior, gradient)
        change *= min(1.0, FARTHEST / max(float(np.abs(change).max()), 1e-300))
        while loss(odds - change) > least and np.abs(change).max() > NEAR:
            change /= 2
        gain = least - loss(odds - change)
        if gain > 0:
            odds = odds - change
            least -= gain
        if gain < NEAR:
            break
    rates = _rates(odds)
    slopes = seen * (rates * (1 - rates))
    sharper = np.linalg.slogdet(slopes.T @ slopes + prior)[1] - np.linalg.slogdet(prior)[1]
    return rates, -least - 0.5 * float(sharper)


def likeliest_step(seen: np.ndarray, found: np.ndarray) -> float:
    """The standard deviation of the steps of lifts from group to group under which the numbers `found` are
    likeliest, if they are seen @ lifts but for errors of 1. The first lift may be anything between -1 and
    1."""
    groups = np.arange(seen.shape[1])
    walk = np.minimum.outer(groups, groups)

    def likelihood(step: float) -> float:
        covariance = np.eye(len(seen)) + seen @ (1 + step**2 * walk) @ seen.T
        apart = float(found @ np.linalg.solve(covariance, found))
        return -apart - float(np.linalg.slogdet(covariance)[1])

    return float(max(LIFT_STEPS, key=likelihood))


LIFT_STEPS = np.geomspace(0.005, 1.0, 24)
"""Sizes of the steps of lifts, of which the likeliest is found."""


def _rates(log_odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-log_odds))


def _log_odds(rate: float) -> float:
    return float(np.log(rate / (1 - rate)))

"""A Gaussian mixture on weighted points, fitted by expectation maximisation over the distinct cells
of public data.

The log density of a cell under a component is linear in (1, x, x x'). So each of the two steps of
an iteration is one matrix product over the distinct cells, whatever the number of rows. The mixture
includes the standardisation of features, so that callers always pass unscaled points.
"""

import numpy as np
from msgspec import Struct

from ...errors import DataError

QUANTISATION = 1 / 12
"""Variance of a uniform distribution of width 1 (one code). It is added to the variances, so that
no component collapses onto a single code."""
ALIKE = 1e-9
"""Mean log likelihoods that differ by less belong to one solution, whose components only come in
another order. The first is taken, so that no rounding decides between them."""


class Mixture(Struct, frozen=True, eq=False):
    """weights [k], means [k, d], covariances [k, d, d] of standardised points (x - centre) /
    spread."""

    centre: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @property
    def size(self) -> int:
        return self.weights.shape[0]

    def joint(self, points: np.ndarray) -> np.ndarray:
        """float64 [n, k]: log(weight of component j * its density at point i), density per unit of
        codes."""
        x = self.standardised(points)
        form = coefficients(self.weights, self.means, self.covariances)
        return monomials(x) @ form - np.log(self.spread).sum()

    def log_density(self, points: np.ndarray) -> np.ndarray:
        return log_sum(self.joint(points))

    def labels(self, points: np.ndarray) -> np.ndarray:
        """The likeliest component of each point (the lowest number among equals)."""
        return np.argmax(self.joint(points), axis=1)

    def standardised(self, points: np.ndarray) -> np.ndarray:
        return (np.asarray(points, np.float64) - self.centre) / self.spread


def fit(
    points: np.ndarray,
    counts: np.ndarray,
    size: int,
    *,
    seed: int = 0,
    starts: int = 3,
    tol: float = 1e-4,
    iterations: int = 200,
    floor: float | None = None,
) -> Mixture:
    """A mixture of `size` components that locally maximises the likelihood of `points` [n, d],
    where point i occurs `counts[i]` times.

    Run a few iterations from each of `starts` k-means solutions (k-means++ seeds). The best of them
    is continued until the mean log likelihood increases by less than `tol`. `floor` is added to the
    variances of the standardised features (None: the variance of rounding to whole codes).
    Components to which no point belongs are kept with weight 0.
    """
    points = np.asarray(points, np.float64)
    counts = np.asarray(counts, np.float64)
    if counts.sum() <= 0:
        raise DataError("public=: the public data has no row to fit archetypes on")
    share = counts / counts.sum()
    centre = share @ points
    spread = np.sqrt(share @ (points - centre) ** 2)
    spread[spread == 0] = 1.0
    x = (points - centre) / spread
    phi = monomials(x)
    extra = np.diag(QUANTISATION / spread**2 if floor is None else np.full(spread.size, floor))
    rng = np.random.Generator(np.random.Philox(key=seed))
    runs = []
    for _ in range(starts if size > 1 else 1):
        hard = kmeans(x, share, size, rng)
        state = maximise(phi, share, np.equal.outer(hard, np.arange(size)).astype(float), extra)
        runs.append(climb(phi, share, state, extra, tol, 10))
    best = max(now for _, now in runs)
    state = next(state for state, now in runs if now >= best - ALIKE)
    state, _ = climb(phi, share, state, extra, tol, iterations)
    weights, means, covariances = state
    return Mixture(centre, spread, weights, means, covariances)


def climb(phi, share, state, extra, tol: float, iterations: int):
    """Run EM iterations from `state`; returns the last state, and the mean log likelihood of the
    state before it."""
    last = -np.inf
    for _ in range(iterations):
        weights, means, covariances = state
        belongs = phi @ coefficients(weights, means, covariances)
        now = float(share @ log_sum(belongs))
        state = maximise(phi, share, belongs, extra)
        if now - last < tol:
            break
        last = now
    return state, now


def maximise(phi, share, belongs, extra):
    """The M step: (weights, means, covariances) from `belongs` [n, k], the posterior probabilities
    of components for each point."""
    d = extra.shape[0]
    moments = (belongs * share[:, None]).T @ phi
    weights = moments[:, 0].copy()
    empty = weights <= 1e-12
    safe = np.where(empty, 1.0, weights)
    means = moments[:, 1 : 1 + d] / safe[:, None]
    covariances = np.empty((weights.size, d, d))
    rows, columns = np.triu_indices(d)
    covariances[:, rows, columns] = covariances[:, columns, rows] = (
        moments[:, 1 + d :] / safe[:, None]
    )
    covariances -= means[:, :, None] * means[:, None, :]
    covariances += extra
    weights[empty] = 0.0
    covariances[empty] = np.eye(d)
    return weights / weights.sum(), means, covariances


def monomials(x: np.ndarray) -> np.ndarray:
    """(1, x_i, x_i x_j for i <= j) of every point."""
    rows, columns = np.triu_indices(x.shape[1])
    products = x[:, rows] * x[:, columns]
    return np.concatenate([np.ones((x.shape[0], 1)), x, products], axis=1)


def coefficients(weights, means, covariances) -> np.ndarray:
    """[monomials, k]: log(weight * normal density) as a linear function of `monomials`."""
    d = means.shape[1]
    precision = np.linalg.inv(covariances)
    precision = (precision + precision.transpose(0, 2, 1)) / 2
    linear = np.einsum("kij,kj->ki", precision, means)
    with np.errstate(divide="ignore"):
        squares = np.linalg.slogdet(covariances)[1] + (linear * means).sum(axis=1)
        constant = np.log(weights) - 0.5 * (d * np.log(2 * np.pi) + squares)
    rows, columns = np.triu_indices(d)
    second = np.where(rows == columns, -0.5, -1.0) * precision[:, rows, columns]
    return np.concatenate([constant[:, None], linear, second], axis=1).T


def log_sum(joint: np.ndarray) -> np.ndarray:
    """log of the sum of exp over each row. Overwrites `joint`: each entry becomes exp(entry) / that
    sum."""
    top = joint.max(axis=1)
    joint -= top[:, None]
    np.exp(joint, out=joint)
    sums = joint.sum(axis=1)
    joint /= sums[:, None]
    return top + np.log(sums)


def kmeans(x, share, size: int, rng, iterations: int = 15) -> np.ndarray:
    """The number of the nearest of `size` weighted means for each point; k-means++ draws the first
    means."""
    centres = x[[rng.choice(x.shape[0], p=share)]]
    nearest = ((x - centres[0]) ** 2).sum(axis=1)
    while centres.shape[0] < size:
        weight = share * nearest
        if weight.sum() <= 0:
            break
        pick = x[[rng.choice(x.shape[0], p=weight / weight.sum())]]
        centres = np.concatenate([centres, pick])
        nearest = np.minimum(nearest, ((x - pick) ** 2).sum(axis=1))
    for _ in range(iterations):
        label = np.argmin((centres**2).sum(axis=1) - 2 * x @ centres.T, axis=1)
        mass = np.bincount(label, share, minlength=centres.shape[0])
        sums = np.stack(
            [np.bincount(label, share * column, minlength=mass.size) for column in x.T], axis=1
        )
        centres = np.where(mass[:, None] > 0, sums / np.maximum(mass, 1e-300)[:, None], centres)
    return label

"""A model of hidden classes: columns without an order that all depend on each other at once.

A row has a hidden class, and within a class all columns are independent (a mixture of products). With
weights w of the classes and P_j the conditional shares of column j's codes,

    table of columns i and j = sum over classes of w P_i P_j'
                             = p_i p_j' + L_i L_j',

p the single columns, and L the deviations of P from p. So all tables beside each other are a matrix of
low rank but for noise, where all sums of rows and columns are taken out. Blocks of a column with itself
are not known. `loadings` takes most of the noise out, and `fitted` finds classes that give these tables.
Everything here is a function of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .hidden_factors import of_factors, triangular

STEPS = 300
"""Steps of the ascent that finds classes."""
GRID = 1 << 20
"""Shares are multiples of 1 / GRID, so that they are the same on all processors."""
LEAST_SQUARE = 1e-8
"""A code whose share changes from class to class by less than the root of it has no loading left."""
LEAST_START = 0.05
"""In the first classes a code has at least this part of its share of all rows."""


def without_sums(size: int) -> np.ndarray:
    """An orthonormal basis of the vectors of `size` numbers whose sum is 0, one a column."""
    out = np.zeros((size, size - 1))
    for k in range(1, size):
        out[:k, k - 1] = 1 / math.sqrt(k * (k + 1))
        out[k, k - 1] = -k / math.sqrt(k * (k + 1))
    return out


class Blocks:
    """Columns beside each other: of `sizes` codes."""

    def __init__(self, sizes: Sequence[int]):
        self.sizes = list(sizes)
        self.ends = np.concatenate([[0], np.cumsum(self.sizes)])
        self.own = np.repeat(np.arange(len(self.sizes)), self.sizes)

    def of(self, column: int) -> slice:
        return slice(int(self.ends[column]), int(self.ends[column + 1]))

    @property
    def free(self) -> int:
        """Numbers of all columns beside their sums."""
        return sum(self.sizes) - len(self.sizes)


def loadings(blocks: Blocks, tables: np.ndarray, ones: np.ndarray, noise: float) -> np.ndarray:
    """L [codes, factors]. `tables`: [codes, codes], shares of rows, with `noise` in each; blocks of a
    column with itself are not used. `ones`: shares of rows by code."""
    basis = np.zeros((len(ones), blocks.free))
    own = np.repeat(np.arange(len(blocks.sizes)), [n - 1 for n in blocks.sizes])
    for j, n in enumerate(blocks.sizes):
        basis[blocks.of(j), own == j] = without_sums(n)
    away = np.where(blocks.own[:, None] != blocks.own, tables - np.outer(ones, ones), 0.0)
    smooth, count = of_factors(basis.T @ away @ basis, noise, own)
    return np.round(basis @ triangular(smooth, count, LEAST_SQUARE) * GRID) / GRID


def squares_left(values: np.ndarray, edge: float) -> float:
    """The squared error of a matrix with these eigenvalues, known with noise, once the noise is taken out
    as in `loadings`. Noise alone has eigenvalues up to 2 `edge`. Of one of size t, t (1 - edge^2 / t^2) is
    found, along a vector whose squared cosine with the true one is 1 - edge^2 / t^2 (a spike in Wigner's
    matrix). So 1 - (1 - edge^2 / t^2)^2 of its square is left."""
    part = np.maximum(0.0, 1 - (edge / np.maximum(values, 1e-300)) ** 2)
    return float(np.sum(np.square(values) * (1 - part**2)))


def fitted(blocks: Blocks, found: np.ndarray, ones: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(weights of classes, shares of codes [codes, classes]) whose tables are closest to
    ones ones' + found found', by Kullback and Leibler's divergence, for pairs of different columns.

    As many points as classes with mean 0 and covariance 1, the corners of a simplex, give these tables
    but where shares would be negative. From there, expectation maximisation."""
    factors = found.shape[1]
    classes = factors + 1
    points = without_sums(classes) * math.sqrt(classes)
    shares = np.maximum(ones[:, None] + found @ points.T, LEAST_START * ones[:, None])
    shares = _normal(blocks, shares)
    weights = np.full(classes, 1 / classes)
    apart = blocks.own[:, None] != blocks.own
    least = 1e-3 * np.outer(ones, ones)
    target = np.where(apart, np.maximum(np.outer(ones, ones) + found @ found.T, least), 0.0)
    for _ in range(STEPS):
        joint = shares * weights
        ratio = target / np.maximum(joint @ shares.T, 1e-300)
        joint *= ratio @ shares
        weights = joint.sum(axis=0) / joint.sum()
        shares = _normal(blocks, joint)
    weights = np.round(weights * GRID) / GRID
    return weights / weights.sum(), np.round(shares * GRID) / GRID


def _normal(blocks: Blocks, shares: np.ndarray) -> np.ndarray:
    """The same with a sum of 1 for every column and class."""
    return shares / np.maximum(np.add.reduceat(shares, blocks.ends[:-1]), 1e-300)[blocks.own]


def raked(shares: np.ndarray, weights: np.ndarray, ones: np.ndarray) -> np.ndarray:
    """The shares of one column [codes, classes] whose mean over classes is `ones`."""
    shares = shares + 1e-9 * ones[:, None]
    for _ in range(20):
        shares *= (ones / np.maximum(shares @ weights, 1e-300))[:, None]
        shares /= shares.sum(axis=0)
    return shares

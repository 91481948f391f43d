"""The dual of estimation from whole marginals with dense matrices: the slow twin of
`_core.dual`."""

import math

import numpy as np

from tests.reference.sample import GOLDEN, mix


def phi(v, c, tau):
    """Where u' = -u (u - v), u(0) = c, is at time tau; and its derivative by v."""
    if math.isinf(tau):
        return np.maximum(v, 0.0), (v > 0).astype(float)
    u = np.empty_like(v)
    h = 1e-6

    def at(x):
        z = np.maximum(x * tau, -300.0)
        small = np.abs(z) < 1e-5
        growth = np.where(
            small, tau * (1 - z / 2 + z * z / 6), -np.expm1(-z) / np.where(small, 1, z / tau)
        )
        return 1 / (np.exp(-z) / c + growth)

    u = at(v)
    scale = np.maximum(1.0, np.abs(v))
    return u, (at(v + h * scale) - at(v - h * scale)) / (2 * h * scale)


def matrix(problem):
    """Constraints x cells of all regions, entries 1, -1 and 0, written out cell by cell; and which
    rows are totals."""
    offsets = np.concatenate([[0], np.cumsum([r.cells for r in problem.regions])])
    rows = []
    totals = []
    for c in problem.constraints:
        names = c.names if c.right is not None else frozenset()
        axes = problem.partitions.axes(names)
        number = dict(names)
        shape = [problem.partitions.size(a, number[a]) for a in axes]
        block = np.zeros((math.prod(shape), offsets[-1]))
        for i, sign in [(c.left, 1.0)] + ([(c.right, -1.0)] if c.right is not None else []):
            r = problem.regions[i]
            for cell in range(r.cells):
                bins = dict(zip(r.clique, np.unravel_index(cell, r.shape)))
                at = 0
                for a, n in zip(axes, shape):
                    at = at * n + problem.partitions.lift(a, dict(r.names)[a], number[a])[bins[a]]
                block[at, offsets[i] + cell] += sign
        rows.append(block)
        totals += [c.right is None] * len(block)
    return np.concatenate(rows), np.array(totals)


def evaluate(problem, total, x, tau, kappa, centres):
    """Gradient, Hessian, cells (in rows), sums of squares and of slopes per region, and the slopes
    of all cells. `centres` in rows."""
    a, totals = matrix(problem)
    w = a.T @ x
    cells = []
    slopes = []
    sums = []
    at = 0
    for i, r in enumerate(problem.regions):
        sigma = np.broadcast_to(r.sigma, r.y.shape)
        v = r.y / sigma + sigma * w[at : at + r.cells]
        u, d = phi(v, kappa[i] * centres[i].reshape(-1) / sigma, tau[i])
        cells.append(sigma * u)
        slopes.append(sigma**2 * d)
        sums.append((np.sum((u - r.y / sigma) ** 2), d.sum()))
        at += r.cells
    u = np.concatenate(cells)
    d = np.concatenate(slopes)
    return a @ u - np.where(totals, total, 0.0), (a * d) @ a.T, u, np.array(sums), d


def sign(seed, cell):
    """The sign of a cell in a probe (splitmix64)."""
    return 1.0 if mix(seed * GOLDEN + cell * 0xD1B54A32D192ED03) >> 63 else -1.0


def through_multipliers(problem, total, x, tau, kappa, centres, seed):
    """Per region: signs * (change of u / sigma through the multipliers when all answers change by
    signs * sigma)."""
    a, _ = matrix(problem)
    _, hessian, _, _, slope = evaluate(problem, total, x, tau, kappa, centres)
    sigma = np.concatenate([np.broadcast_to(r.sigma, r.y.shape) for r in problem.regions])
    signs = np.array([sign(seed, k) for k in range(slope.size)])
    moved = a @ (signs * slope / sigma)
    part = a.T @ (-np.linalg.lstsq(hessian, moved, rcond=1e-12)[0]) * slope * signs / sigma
    ends = np.cumsum([r.cells for r in problem.regions])
    return np.array([part[e - r.cells : e].sum() for e, r in zip(ends, problem.regions)])

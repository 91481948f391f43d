"""Tables of all regions that agree with each other and fit their answers: Newton's method on the
multipliers.

Every region's table is known in closed form once the multipliers of the constraints (`region_graph.py`)
are; csrc/dual.h has the formula, docs/explain/estimator.md the theorem. What "fits" means is one pair of
numbers per region, its *strength*: the time `tau` of the mirror flow that takes a table from its centre
towards the answers (infinite: least squares), and a factor `kappa` of the centre (below 1: most cells are
expected to be empty). Tables are in rows; multipliers in 1 / rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from ..._core.dual import Dual as Core
from ..._core.team import Team
from ..._util.threads import each
from ...model.adjust import dot
from .dual_plan import Link, Table, plan_dual
from .region_graph import Partitions, Region, Regions, Set, expand

CANDIDATES = ((0.1, 1.0), (0.3, 1.0), (1.0, 1.0), (1.0, 0.03), (2.0, 0.003), (12.0, 1.0))
"""Strengths (tau, kappa) whose tables are mixed. From nearly the centre to nearly least squares, with two
that expect empty cells, for tables whose columns follow from each other. Chosen on the Massachusetts table
(once and 40 times over), adult and the generated tables of bench.fits, epsilon 1 and 10: 13 candidates gave
errors within 1 % of these."""

FIRST = ((0.3, 1.0), (12.0, 1.0))
"""The candidates of a first look, which is only there for the centres of the next: a smooth and a close one.
With all six, true errors after the next are within 1 %."""

ONES = 0.7
"""tau of single attributes: their values stand far above the noise or were merged, and between 0.5 and 1
the errors differ by less than 1 % on the same tables."""

AGREE = 8.0
"""tau of tables that are already denoised and only have to agree: so long that the flow ends at the
answers, finite so that no cell becomes zero."""

ROUGH, CLOSE, EXACT = 1.0, 0.1, 1e-6
"""When multipliers are good enough: the largest violation of a constraint, in standard errors of its own
side. For a candidate, for the tables of a model, for least squares."""

STEPS, PRODUCTS = 40, 60
"""Newton steps, and products with the Hessian in each: bounds that are not reached (4 and 10 are usual)."""

FINEST = 1e-5
"""The least relative residual of a step: constraints say the same thing more than once, and far below this
the conjugate gradients follow nothing but rounding."""

PROBE = 0.03
"""Relative residual of the solve behind Stein's estimate: its own random signs are a larger error."""

SHORTER, ENOUGH, SHORTEST = 0.4, 0.7, 1e-3
"""A step along which the slope of the dual has turned to more than ENOUGH of what it was is made SHORTER,
down to SHORTEST."""

BELOW = 0.99
"""How much of the squares that the noise explains a fit to the noise level leaves: the last solve, which
makes tables agree, moves them by less than the rest."""

PART = 1 << 17
"""Cells of a region that one thread mixes at a time."""

Tick = Callable[[int, float], None]


class Dual:
    """The multipliers of a set of regions; `y` (in sigma) and centres may change between solves."""

    def __init__(self, problem: Regions, total: float, threads: int | Team, tick: Tick | None = None):
        self.problem, self.total, self.tick = problem, total, tick
        lying: list[list[tuple[int, int, float, Set]]] = [[] for _ in problem.regions]
        rhs: list[np.ndarray] = []
        at = 0
        for c in problem.constraints:
            names = c.names if c.right is not None else frozenset()
            size = problem.partitions.cells(names)
            sides = [(c.left, 1.0)] if c.right is None else [(c.left, 1.0), (c.right, -1.0)]
            for i, sign in sides:
                lying[i].append((at, size, sign, names))
            rhs.append(np.full(size, total if c.right is None else 0.0))
            at += size
        tables = [_table(problem.partitions, r, own) for r, own in zip(problem.regions, lying)]
        self.core = Core(plan_dual(tables), np.concatenate(rhs), threads)
        self.x = np.zeros(at)
        self.passes = 0
        self.spans = [slice(a, b) for a, b in zip(self.core.offsets[:-1], self.core.offsets[1:])]
        spans = list(enumerate(self.spans))
        starts = [(i, span, a) for i, span in spans for a in range(span.start, span.stop, PART)]
        self.parts = [(i, slice(a, min(a + PART, span.stop))) for i, span, a in starts]
        self.orders = np.array([r.order for r in problem.regions])
        self.threads = self.core.team.threads if self.core.cells > 4 * PART else 1

    @property
    def cells(self) -> int:
        return sum(r.cells for r in self.problem.regions)

    def centre(self, i: int, table: np.ndarray, possible: np.ndarray | None = None) -> None:
        """The centre of region i, in rows; cells that are not possible stay zero."""
        inverse = np.minimum(self.problem.regions[i].sigma / np.maximum(table.reshape(-1), 1e-300), 1 / LEAST)
        own = inverse if possible is None else np.where(possible.reshape(-1), inverse, 0.0)
        self.core.inverse[self.spans[i]] = own

    def sigma(self, i: int, part: slice) -> np.ndarray | float:
        """The noise of some cells of region i, which begins at `spans[i]`."""
        sigma, start = self.problem.regions[i].sigma, self.spans[i].start
        return sigma[part.start - start : part.stop - start] if isinstance(sigma, np.ndarray) else sigma

    def around(self, part: slice, table: np.ndarray) -> None:
        """Makes a table (in sigma) of some cells their centre and their answers; cells that are not possible
        stay zero."""
        inverse, answers = self.core.inverse[part], self.core.y[part]
        np.copyto(answers, table)
        np.copyto(inverse, 1 / np.maximum(table, LEAST), where=inverse > 0)

    def evaluate(self, x: np.ndarray, tau: np.ndarray, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gradient, sums = self.core.evaluate(x, tau, kappa)
        self.passes += 1
        if self.tick is not None:
            self.tick(self.passes, 0.5 * float(sums[:, 0].sum()))
        return gradient, sums

    def solve(self, tau: np.ndarray, kappa: np.ndarray, tol: float) -> np.ndarray:
        """Moves the multipliers to where the constraints hold; returns per region |u - y|^2 / sigma^2 and
        the sum of phi'."""
        x = self.x
        gradient, sums = self.evaluate(x, tau, kappa)
        for _ in range(STEPS):
            violation = np.abs(gradient) / np.sqrt(np.maximum(self.core.diagonal, 1e-12))
            if float(violation.max()) <= tol:
                break
            rms = math.sqrt(dot(violation, violation) / violation.size)
            step = self.core.solve(-gradient, max(FINEST, min(0.1, 0.3 * rms)), PRODUCTS)
            slope, length = abs(dot(gradient, step)), 1.0
            while True:
                gradient, sums = self.evaluate(x + length * step, tau, kappa)
                turned = dot(gradient, step)
                if turned <= ENOUGH * slope or length < SHORTEST:
                    break
                length *= SHORTER
            x = x + length * step
        self.x = x
        return sums

    def tables(self, tau: np.ndarray, kappa: np.ndarray) -> list[np.ndarray]:
        """The regions' tables, in rows, at the present multipliers."""
        cells = np.empty(self.core.cells)
        self.core.evaluate(self.x, tau, kappa, cells)
        return [cells[span].reshape(r.shape) for span, r in zip(self.spans, self.problem.regions)]

    def freedom(self, sums: np.ndarray) -> np.ndarray:
        """Per region the divergence of u / sigma by y: the sum of phi', and what goes through the
        multipliers."""
        return sums[:, 1] + self.core.probe(0, PROBE, PRODUCTS)


def _table(partitions: Partitions, r: Region, lying: Sequence[tuple[int, int, float, Set]]) -> Table:
    """A region with the segments that lie in it, and the largest of them where all others lie in that."""

    def links(region: Region) -> list[Link]:
        return [Link(at, size, sign, *expand(partitions, region, names)) for at, size, sign, names in lying]

    inner = None
    for number, (_, size, _, names) in enumerate(lying):
        if names and 2 * size <= r.cells and all(partitions.within(s, names) for *_, s in lying):
            clique, shape = partitions.axes(names), partitions.shape(names)
            small = replace(r, names=names, clique=clique, shape=shape, y=np.zeros(shape))
            sigma = float(np.max(r.sigma))
            inner = number, Table(size // shape[-1], shape[-1], small.y, sigma, links(small))
            break
    return Table(r.cells // r.shape[-1], r.shape[-1], r.y / r.sigma, r.sigma, links(r), inner)


def least_squares(dual: Dual) -> tuple[list[np.ndarray], np.ndarray]:
    """The tables of least loss, and the regions' sums of squares."""
    n = len(dual.problem.regions)
    ones = np.ones(n)
    for tau in (AGREE, 100.0):  # a smooth problem first: from its solution few cells change sides
        dual.solve(np.full(n, tau), ones, ROUGH)
    sums = dual.solve(np.full(n, math.inf), ones, EXACT)
    return dual.tables(np.full(n, math.inf), ones), sums[:, 0]


def denoise(
    dual: Dual, bound: float = 0.0, candidates: Sequence[tuple[float, float]] = CANDIDATES
) -> tuple[list[np.ndarray], bool]:
    """Tables of least estimated risk: per region the convex mixture of the candidates' tables for which
    Stein's estimate

        |sum of w u - y|^2 / sigma^2 - cells + 2 sum of w (divergence of u)

    is least, all made to agree by a last solve. With a `bound`, the tables that all regions' squares say
    are at the noise level: from there back towards the smoothest candidate until the squares add up to
    `bound` (on towards the closest one where they exceed it), and whether that could be reached. All
    candidates agree, so that their mixtures do, nearly."""
    seen, freedom = _candidates(dual, candidates)

    def products(at: tuple[int, slice]) -> np.ndarray:
        gaps = [cells[at[1]] - dual.core.y[at[1]] for cells in seen]
        pairs = [[dot(a, b) if j <= i else 0.0 for j, b in enumerate(gaps)] for i, a in enumerate(gaps)]
        return np.array(pairs)

    gram = np.zeros((len(dual.spans), len(seen), len(seen)))
    for (i, _), part in zip(dual.parts, each(products, dual.parts, dual.threads)):
        gram[i] += part
    gram += np.tril(gram, -1).swapaxes(1, 2)
    weights = mixture(gram, freedom)
    if bound:
        weights = _blend(gram, weights, BELOW * bound)
    squares = float(np.einsum("ni,nij,nj->", weights, gram, weights))
    n = len(dual.spans)

    def mix(at: tuple[int, slice]) -> None:
        i, part = at
        table = np.zeros(part.stop - part.start)
        for w, cells in zip(weights[i], seen):
            if w > 0:
                table += w * cells[part]
        dual.around(part, table)

    each(mix, dual.parts, dual.threads)
    tau, ones = np.full(n, AGREE), np.ones(n)
    dual.x[:] = 0
    dual.solve(tau, ones, CLOSE)
    return dual.tables(tau, ones), not bound or squares <= bound


def _candidates(dual: Dual, candidates: Sequence[tuple[float, float]]) -> tuple[list[np.ndarray], np.ndarray]:
    """The cells of every candidate, in sigma (float32: they are mixed, not solved for), and the divergence
    of each region."""
    single, freedom = dual.orders == 1, []
    seen: list[np.ndarray] = []
    cells = np.empty(dual.core.cells)

    def keep(at: tuple[int, slice]) -> None:
        i, part = at
        np.divide(cells[part], dual.sigma(i, part), out=seen[-1][part], dtype=np.float64, casting="same_kind")

    for tau, kappa in candidates:
        taus, kappas = np.where(single, ONES, tau), np.where(single, 1.0, kappa)
        freedom.append(dual.freedom(dual.solve(taus, kappas, ROUGH)))
        dual.core.evaluate(dual.x, taus, kappas, cells)
        seen.append(np.empty(cells.size, np.float32))
        each(keep, dual.parts, dual.threads)
    return seen, np.array(freedom).T


def _blend(gram: np.ndarray, weights: np.ndarray, bound: float) -> np.ndarray:
    """Weights moved towards the first candidate, or the last, until the squares of all regions are at the
    bound."""
    squares = float(np.einsum("ni,nij,nj->", weights, gram, weights))
    end = np.zeros(weights.shape)
    end[:, 0 if squares < bound else -1] = 1.0
    way = end - weights
    a, b = np.einsum("ni,nij,nj->", way, gram, way), np.einsum("ni,nij,nj->", way, gram, weights)
    root = b * b - a * (squares - bound)
    if a <= 0 or root < 0:
        return weights + min(1.0, max(0.0, -b / a)) * way if a > 0 else weights
    share = (-b + math.sqrt(root)) / a if squares < bound else (-b - math.sqrt(root)) / a
    return weights + min(1.0, max(0.0, share)) * way


def mixture(gram: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """Weights w >= 0 that add up to 1 and make w' gram w + 2 gain' w least, for every problem of a stack:
    the best of the stationary points on all faces of the simplex."""
    n, k = gain.shape
    faces = np.array([face for face in product((False, True), repeat=k) if any(face)])
    scale = np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1.0
    q = gram / scale + 1e-9 * np.eye(k)
    b = gain / scale[:, :, 0]
    best, value = np.zeros((n, k)), np.full(n, np.inf)
    for face in faces:
        inside = np.flatnonzero(face)
        m = inside.size
        system = np.zeros((n, m + 1, m + 1))
        system[:, :m, :m] = q[:, inside[:, None], inside]
        system[:, :m, m] = system[:, m, :m] = 1.0
        right = np.concatenate([-b[:, inside], np.ones((n, 1))], 1)
        w = np.linalg.solve(system, right[..., None])[:, :m, 0]
        whole = np.zeros((n, k))
        whole[:, inside] = w
        risk = np.einsum("ni,nij,nj->n", whole, q, whole) + 2 * np.einsum("ni,ni->n", b, whole)
        better = (w >= -1e-12).all(1) & (risk < value)
        best[better], value[better] = np.maximum(whole[better], 0), risk[better]
    return best / best.sum(1, keepdims=True)


LEAST = 1e-9
"""The least centre, in sigma, of a cell that is possible."""

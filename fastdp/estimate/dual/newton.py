"""Tables of all regions that agree with each other and fit their answers: Newton's method on the
multipliers.

Every region's table is known in closed form once the multipliers of the constraints
(`region_graph.py`) are; csrc/dual.h has the formula, docs/explain/estimator.md the theorem. What
"fits" means is one pair of numbers per region, its *strength*. The time `tau` of the mirror flow
takes a table from its centre towards the answers (infinite: least squares). The factor `kappa`
scales the centre (below 1: most cells are expected to be empty). Tables are in rows; multipliers in
1 / rows.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from ..._core.dual import Dual as Core, mixture
from ..._core.tables import room
from ..._core.team import Team
from .dual_plan import Link, Table, plan_dual
from .region_graph import Partitions, Region, Regions, Set, layout_within

CANDIDATES = ((0.1, 1.0), (0.3, 1.0), (1.0, 1.0), (1.0, 0.03), (2.0, 0.003), (12.0, 1.0))
"""Strengths (tau, kappa) whose tables are mixed. From nearly the centre to nearly least squares,
with two that expect empty cells, for tables whose columns follow from each other. Chosen on the
Massachusetts table (once and 40 times over), adult and the generated tables of bench.fits, at
epsilon 1 and 10. With 13 candidates, errors were within 1 % of these."""

FIRST = ((0.3, 1.0), (12.0, 1.0))
"""The candidates of a first look, which is only there for the centres of the next: a smooth and a
close one. With all six, true errors after the next are within 1 %."""

AGREE = 8.0
"""tau of tables that are already denoised and only have to agree. It is so long that the flow ends
at the answers, and finite so that no cell becomes zero."""

# When multipliers are good enough: the largest violation of a constraint, in standard errors of its
# own side.
ROUGH = 1.0
"""For a candidate that is only compared with others."""
CLOSE = 0.1
"""For the tables of a model."""
EXACT = 1e-6
"""For least squares."""

MAX_NEWTON_STEPS = 40
"""A bound that is not reached: 4 steps are usual."""
MAX_HESSIAN_PRODUCTS = 60
"""Products with the Hessian in each step: a bound that is not reached, since 10 are usual."""

FINEST = 1e-5
"""The least relative residual of a step: constraints say the same thing more than once, and far
below this the conjugate gradients follow nothing but rounding."""

PROBE = 0.03
"""Relative residual of the solve behind Stein's estimate: its own random signs are a larger error.
"""

ENOUGH = 0.7
"""A step is too long if it turns the slope of the dual to more than this share of what it was."""
SHORTER = 0.4
"""A step that is too long is shortened by this factor."""
SHORTEST = 1e-15
"""A step is not shortened below this share of the full one, which is the grain of numbers. With 1e-3,
steps that went far too long were taken, and a run with public data ended with tables of 1e17 rows."""

BELOW = 0.99
"""A fit to the noise level leaves this part of the squares that the noise explains. The last solve,
which makes tables agree, moves them by less than the rest."""

Tick = Callable[[int, float], None]


class Dual:
    """The multipliers of a set of regions; `y` (in sigma) and centres may change between solves."""

    def __init__(self, problem: Regions, total: float, threads: int | Team):
        self.problem = problem
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
        self._ahead = np.zeros(at)
        self.cells = self.core.cells
        self.restart(None)
        self.spans = [slice(a, b) for a, b in zip(self.core.offsets[:-1], self.core.offsets[1:])]
        self.orders = np.array([r.order for r in problem.regions])

    def restart(self, tick: Tick | None) -> None:
        """Begins again at multipliers of 0; regions need their answers and centres anew."""
        self.tick = tick
        self.passes = 0
        self.x[:] = 0

    def centre(self, i: int, table: np.ndarray, possible: np.ndarray | None = None) -> None:
        """Give region i its answers, and a centre in rows; cells that are not possible stay
        zero."""
        self.core.centre(i, table, self.problem.regions[i].y, possible)

    def evaluate(self, tau, kappa, cells: np.ndarray | None = None, length: float | None = None):
        """At the multipliers, or so far along the core's last step from them, which goes to
        `_ahead`."""
        ahead = None if length is None else (length, self._ahead)
        sums = self.core.evaluate(self.x, tau, kappa, cells, ahead)
        self.passes += 1
        if self.tick is not None:
            self.tick(self.passes, 0.5 * float(sums[:, 0].sum()))
        return sums

    def solve(
        self, tau: np.ndarray, kappa: np.ndarray, tol: float, cells: np.ndarray | None = None
    ):
        """Move the multipliers to where the constraints hold; returns per region |u - y|^2 /
        sigma^2 and the sum of phi'. Fills `cells` as the core does."""
        core = self.core
        sums = self.evaluate(tau, kappa, cells)
        for _ in range(MAX_NEWTON_STEPS):
            if core.worst <= tol:
                break
            rest = max(FINEST, min(0.1, 0.3 * core.rms))
            slope = abs(core.step(rest, MAX_HESSIAN_PRODUCTS, self.x, self._ahead))
            length = 1.0
            while True:
                sums = self.evaluate(tau, kappa, cells, length)
                if core.along <= ENOUGH * slope or length < SHORTEST:
                    break
                length *= SHORTER
            self.x, self._ahead = self._ahead, self.x
        return sums

    def tables(
        self, tau: np.ndarray, kappa: np.ndarray, tol: float
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """The regions' tables, in rows, where the constraints hold, and what `solve` returns."""
        cells = room(self.cells, self.core.team)
        sums = self.solve(tau, kappa, tol, cells)
        return [
            cells[span].reshape(r.shape) for span, r in zip(self.spans, self.problem.regions)
        ], sums

    def freedom(self, sums: np.ndarray) -> np.ndarray:
        """Per region the divergence of u / sigma by y: the sum of phi', and what goes through the
        multipliers."""
        return sums[:, 1] + self.core.probe(0, PROBE, MAX_HESSIAN_PRODUCTS)


def _table(
    partitions: Partitions, r: Region, lying: Sequence[tuple[int, int, float, Set]]
) -> Table:
    """A region with the segments that lie in it, and the largest of them where all others lie in
    that."""

    def links(region: Region) -> list[Link]:
        sets = [names for *_, names in lying]
        same = [k if (k := sets.index(names)) < i else None for i, names in enumerate(sets)]
        return [
            Link(*link[:3], *layout_within(partitions, region, link[3]), k)
            for link, k in zip(lying, same)
        ]

    inner = None
    for number, (_, size, _, names) in enumerate(lying):
        if names and 2 * size <= r.cells and all(partitions.within(s, names) for *_, s in lying):
            clique = partitions.axes(names)
            shape = partitions.shape(names)
            small = replace(r, names=names, clique=clique, shape=shape)
            inner = (
                number,
                Table(size // shape[-1], shape[-1], float(np.max(r.sigma)), links(small)),
            )
            break
    return Table(r.cells // r.shape[-1], r.shape[-1], r.sigma, links(r), inner)


def least_squares(dual: Dual) -> tuple[list[np.ndarray], np.ndarray]:
    """The tables of least loss, and the regions' sums of squares."""
    n = len(dual.problem.regions)
    ones = np.ones(n)
    for tau in (AGREE, 100.0):  # a smooth problem first: from its solution few cells change sides
        dual.solve(np.full(n, tau), ones, ROUGH)
    tables, sums = dual.tables(np.full(n, math.inf), ones, EXACT)
    return tables, sums[:, 0]


def denoise(
    dual: Dual, bound: float = 0.0, candidates: Sequence[tuple[float, float]] = CANDIDATES
) -> tuple[list[np.ndarray], bool]:
    """Tables of least estimated risk: per region the convex mixture of the candidates' tables for
    which Stein's estimate

        |sum of w u - y|^2 / sigma^2 - cells + 2 sum of w (divergence of u)

    is least, all made to agree by a last solve. With a `bound`, the fit is moved to the noise
    level. It goes back towards the smoothest candidate until all regions' squares add up to
    `bound`, or on towards the closest one where they exceed it. Also returns whether that level
    could be reached. All candidates agree, so that their mixtures do, nearly.
    """
    seen, freedom = _candidates(dual, candidates)
    gram = dual.core.gram(seen)
    n = len(dual.spans)
    weights = mixture(gram, freedom)
    if bound:
        weights = _blend(gram, weights, BELOW * bound)
    squares = float(np.einsum("ni,nij,nj->", weights, gram, weights))
    dual.core.mix(seen, weights)
    dual.x[:] = 0
    return dual.tables(np.full(n, AGREE), np.ones(n), CLOSE)[0], not bound or squares <= bound


def _candidates(
    dual: Dual, candidates: Sequence[tuple[float, float]]
) -> tuple[np.ndarray, np.ndarray]:
    """The cells of every candidate, in sigma (float32: they are mixed, not solved for), and the
    divergence of each region."""
    single = dual.orders == 1
    freedom = []
    seen = room(len(candidates) * dual.cells, dual.core.team, np.float32).reshape(-1, dual.cells)
    for (tau, kappa), cells in zip(candidates, seen):
        taus = np.where(single, 1.0, tau)
        kappas = np.where(single, 1.0, kappa)
        freedom.append(dual.freedom(dual.solve(taus, kappas, ROUGH, cells)))
    return seen, np.stack(freedom, axis=1)


def _blend(gram: np.ndarray, weights: np.ndarray, bound: float) -> np.ndarray:
    """Weights moved towards the first candidate, or the last, until the squares of all regions are
    at the bound."""
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

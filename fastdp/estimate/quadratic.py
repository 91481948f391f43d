"""The loss of all measurements as one quadratic over the plan's vector of plain marginals (made by
`lower`).

    loss(m) = 1/2 sum w (m - t)^2 + 1/2 sum v (A m - b)^2 + constant

The same split is kept by the order (number of attributes) of the measured clique, for the stopping
rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec import Struct, field

from .._core.ancestors import SparseRows
from .._core.infer import arrive as _arrive, blend as _blend, step as _step
from .._core.team import Team
from .._util.lazy import sp
from ..model.nodes import Node
from ..significance import SURE

LOOK = 1 << 18
"""Cells processed at a time."""


class Order(Struct):
    """The loss of all measurements of cliques with k attributes, in fused form."""

    k: int
    rows: int = 0
    constant: float = 0.0
    cells: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    functionals: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)


class DirectTarget(Struct, frozen=True):
    """A node whose cells are all measured one by one, and which no other measurement refers to. Its
    loss is 1/2 sum precision (cell - target)^2. Targets are in the order of the node's cells;
    precision is one number for all cells, or an array; both have the tables' dtype."""

    node: Node
    target: np.ndarray
    precision: float | np.ndarray


class Residual(Struct):
    """Marginals minus targets: `cells` of the active cells, `rows` of the measured rows that are
    not single cells. Both are affine in the marginals, so averages of marginals are averages of
    residuals. `direct`: the loss of each direct node, whose residuals are never stored."""

    cells: np.ndarray
    rows: np.ndarray
    direct: np.ndarray

    def copy(self) -> Residual:
        return Residual(self.cells.copy(), self.rows.copy(), self.direct.copy())


@dataclass
class Quadratic:
    """The fused loss over the `active` entries of the plan's vector: those that some measurement
    looks at, or all of them where that is most.

    An AdaGrid marginal is measured in a few of its cells, so the active vector is a tenth of the
    plan's or less. Everything that the optimiser does between two oracle calls is that much
    cheaper.
    """

    active: np.ndarray
    w: np.ndarray
    t: np.ndarray
    constant: float
    rows: int
    matrix: sp.csr_array | None
    v: np.ndarray
    b: np.ndarray
    orders: list[Order]
    targets: list[DirectTarget]

    def __post_init__(self):
        # Whether direct nodes are all there is: the vectors of cells and rows are empty.
        self.all_direct = self.active.size == 0 and self.matrix is None
        self._rows = SparseRows(self.matrix) if self.matrix is not None else None

    @cached_property
    def _columns(self) -> SparseRows | None:
        return SparseRows(self.matrix.T.tocsr()) if self.matrix is not None else None

    def residual(self, m: np.ndarray) -> Residual:
        """What is left of the measurements at the active marginals m; the direct nodes' losses are
        yet to be filled in."""
        rows = self.matrix @ m - self.b if self.matrix is not None else self.b
        return Residual(m - self.t, rows, np.zeros(len(self.targets)))

    def look(self, tables: np.ndarray) -> tuple[np.ndarray, float]:
        """(the loss of each direct node, the largest gradient in them), at the tables of all
        nodes."""
        losses = np.zeros(len(self.targets))
        steepest = 0.0
        for k, aim in enumerate(self.targets):
            cells = tables[aim.node.table : aim.node.table + aim.target.size]
            for at in range(0, aim.target.size, LOOK):
                gap = cells[at : at + LOOK] - aim.target[at : at + LOOK]
                w = aim.precision
                slope = (w[at : at + LOOK] if isinstance(w, np.ndarray) else w) * gap
                losses[k] += 0.5 * float(np.sum(slope * gap, dtype=np.float64))
                steepest = max(steepest, float(np.abs(slope, out=slope).max(initial=0.0)))
        return losses, steepest

    def loss(self, at: Residual, threads: int | Team = 1) -> float:
        return self.blend(at, at, 0.0, threads)

    def gradient(self, at: Residual) -> np.ndarray:
        """Gradient of the loss by the active marginals."""
        g = self.w * at.cells
        if self._columns is not None:
            g += self._columns.product(self.v * at.rows, 1)
        return g

    def step(
        self, x: Residual, z: Residual, t: float, size: float, out: np.ndarray, threads: int | Team
    ) -> None:
        """out = -size * gradient at (1 - t) x + t z."""
        # By position: the stable ABI makes a dictionary of names at every call.
        _step(size * (1 - t), x.cells, size * t, z.cells, self.w, out, threads)
        if self._columns is not None:
            mixed = np.empty_like(self.v)
            _step(size * (1 - t), x.rows, size * t, z.rows, self.v, mixed, threads)
            out += self._columns.product(mixed, threads)

    def arrive(
        self, m, z: Residual, delta, out: Residual, threads: int | Team
    ) -> tuple[float, float]:
        """Fill `out` with the residual at m, where potentials were changed by delta from those of
        z. Returns the symmetrised Bregman distance of the two, and 1/2 |Q (m - m_z) / sigma|^2."""
        distance, curvature = _arrive(m, self.t, z.cells, self.w, delta, out.cells, threads)
        if self._rows is not None:
            rows = self._rows.product(m, threads)
            curvature += _arrive(rows, self.b, z.rows, self.v, self.v, out.rows, threads)[1]
        return distance, curvature

    def blend(self, x: Residual, z: Residual, t: float, threads: int | Team) -> float:
        """x = (1 - t) x + t z in place; returns its loss. The direct nodes' losses are taken as
        they stand in x."""
        loss = self.constant + float(np.add.reduce(x.direct))
        if self.all_direct:
            return loss
        loss += _blend(t, z.cells, self.w, x.cells, threads)
        if self.matrix is not None:
            loss += _blend(t, z.rows, self.v, x.rows, threads)
        return loss

    def by_order(self, at: Residual) -> list[tuple[int, float, int]]:
        """(k, loss, measured rows) for every order k that was measured."""
        m = at.cells + self.t
        answers = at.rows + self.b
        out = []
        for order in self.orders:
            loss = sum((form(m[where] - t, w) for where, w, t in order.cells), order.constant)
            loss = sum((form(answers[where] - b, v) for where, v, b in order.functionals), loss)
            loss += float(at.direct[order.targets].sum())
            out.append((order.k, loss, order.rows))
        return out

    def orders_fit(self, at: Residual) -> bool:
        """Whether every order is down to what its noise explains, with SURE standard deviations to
        spare."""
        return all(loss <= n / 2 + SURE * math.sqrt(n / 2) for _, loss, n in self.by_order(at))


def form(gap: np.ndarray, weight: np.ndarray) -> float:
    """Sum of weight * gap^2 / 2."""
    return _blend(0.0, gap, np.ascontiguousarray(weight), gap, 1)

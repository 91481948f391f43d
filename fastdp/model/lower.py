"""From measurements to one quadratic over the plan's vector of plain marginals.

Every query is lowered to rows over plain marginals (`Query.blocks`). Rows that are single cells add up to a
diagonal, whatever measurement they come from; other rows are kept once per distinct functional, with the
measurements of it averaged by inverse variance. What is left of the loss is a constant. So the loss of all
measurements is exactly

    loss(m) = 1/2 sum w (m - t)^2 + 1/2 sum v (A m - b)^2 + constant.

The same split is kept by the order (number of attributes) of the measured clique, for the stopping rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from .._core.infer import arrive as _arrive
from .._core.infer import blend as _blend
from .._core.infer import step as _step
from .._core.team import Team
from ..domain import Clique, Domain
from ..errors import MeasurementError, SchemaError
from ..queries import Block, Identity, Query, Sparse
from .layout import Node, Place, Plan, permute_cells

MOSTLY = 0.75
LOOK = 1 << 18


@dataclass(frozen=True)
class Part:
    """One block of one measurement: its rows, their noisy answers and precisions."""

    block: Block
    order: int
    y: np.ndarray
    weight: np.ndarray


@dataclass
class Order:
    """The loss of all measurements of cliques with k attributes, in fused form."""

    k: int
    rows: int = 0
    constant: float = 0.0
    cells: list[tuple[slice | np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    functionals: list[tuple[slice, np.ndarray, np.ndarray]] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class DirectTarget:
    """A node whose cells are all measured one by one and nowhere else: its loss is 1/2 sum precision (cell -
    target)^2. Targets in the order of the node's cells; one precision for all, or an array; both of the
    tables' dtype."""

    node: Node
    target: np.ndarray
    precision: float | np.ndarray


@dataclass
class Residual:
    """Marginals minus targets: of the active cells, and of the rows that are not single cells. Affine in the
    marginals, so averages of marginals are averages of residuals. Of direct nodes, whose residuals are never
    written down, the loss."""

    cells: np.ndarray
    rows: np.ndarray
    direct: np.ndarray

    def copy(self) -> Residual:
        return Residual(self.cells.copy(), self.rows.copy(), self.direct.copy())


@dataclass
class Quadratic:
    """The fused loss over the `active` entries of the plan's vector: those that some measurement looks at, or
    all of them where that is most.

    An AdaGrid marginal is measured in a few of its cells, so the active vector is a tenth of the plan's or
    less, and everything the optimiser does between two oracle calls is that much cheaper.
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
    _transpose: sp.csr_array | None = None

    def residual(self, m: np.ndarray) -> Residual:
        """What is left of the measurements at the active marginals m; the direct nodes' losses are yet to be
        filled in."""
        rows = self.matrix @ m - self.b if self.matrix is not None else self.b
        return Residual(m - self.t, rows, np.zeros(len(self.targets)))

    def look(self, tables: np.ndarray) -> tuple[np.ndarray, float]:
        """Of the direct nodes: the loss of each, and the largest gradient, at the tables of all nodes."""
        losses, steepest = np.zeros(len(self.targets)), 0.0
        for k, aim in enumerate(self.targets):
            cells = tables[aim.node.table : aim.node.table + aim.target.size]
            for at in range(0, aim.target.size, LOOK):
                gap = cells[at : at + LOOK] - aim.target[at : at + LOOK]
                w = aim.precision
                w = w[at : at + LOOK] if isinstance(w, np.ndarray) else w
                slope = w * gap
                losses[k] += 0.5 * float(np.sum(slope * gap, dtype=np.float64))
                steepest = max(steepest, float(np.abs(slope, out=slope).max(initial=0.0)))
        return losses, steepest

    def marginals(self, at: Residual) -> np.ndarray:
        """The active marginals a residual stands for."""
        return at.cells + self.t

    def loss(self, at: Residual, threads: int | Team = 1) -> float:
        return self.blend(at, at, 0.0, threads)

    def gradient(self, at: Residual) -> np.ndarray:
        """Gradient of the loss by the active marginals."""
        g = self.w * at.cells
        if self._transpose is not None:
            g += self._transpose @ (self.v * at.rows)
        return g

    def step(
        self, x: Residual, z: Residual, t: float, size: float, out: np.ndarray, threads: int | Team
    ) -> None:
        """out = -size * gradient at (1 - t) x + t z."""
        _step(size * (1 - t), x.cells, size * t, z.cells, self.w, out, threads)
        if self._transpose is not None:
            out -= self._transpose @ (self.v * (size * (1 - t) * x.rows + size * t * z.rows))

    def arrive(self, m, z: Residual, delta, out: Residual, threads: int | Team) -> tuple[float, float]:
        """Fills `out` with the residual at m, where potentials were changed by delta from those of z. Returns
        the symmetrised Bregman distance of the two, and 1/2 |Q (m - m_z) / sigma|^2."""
        distance, curvature = _arrive(m, self.t, z.cells, self.w, delta, out.cells, threads)
        if self.matrix is not None:
            out.rows = self.matrix @ m - self.b
            gap = out.rows - z.rows
            curvature += _blend(0.0, gap, self.v, gap, 1)
        return distance, curvature

    def blend(self, x: Residual, z: Residual, t: float, threads: int | Team) -> float:
        """x = (1 - t) x + t z in place; returns its loss. The direct nodes' losses are taken as they stand in
        x."""
        loss = self.constant + float(x.direct.sum()) + _blend(t, z.cells, self.w, x.cells, threads)
        if self.matrix is not None:
            loss += _blend(t, z.rows, self.v, x.rows, 1)
        return loss

    def divergence(self, x: Residual, other: Residual, there: Quadratic) -> float:
        """Sum over measured rows of (y' - y) (Q m' - Q m) / sigma^2, for the same queries with answers y' in
        `there` and marginals m' of `other`: how far the fit went along with a change of its answers. Without
        direct nodes."""
        moved = there.t - self.t
        along_cells = float(np.sum(self.w * moved * (other.cells - x.cells + moved)))
        moved = there.b - self.b
        return along_cells + float(np.sum(self.v * moved * (other.rows - x.rows + moved)))

    def by_order(self, at: Residual) -> list[tuple[int, float, int]]:
        """(k, loss, measured rows) for every order k that was measured."""
        m = self.marginals(at)
        answers = at.rows + self.b
        out = []
        for order in self.orders:
            loss = order.constant
            for where, w, t in order.cells:
                loss += _form(m[where] - t, w)
            for where, v, b in order.functionals:
                loss += _form(answers[where] - b, v)
            loss += float(at.direct[order.targets].sum())
            out.append((order.k, loss, order.rows))
        return out

    def orders_fit(self, at: Residual) -> bool:
        """Whether every order is down to what its noise explains, with three standard deviations to spare."""
        return all(loss <= n / 2 + 3 * math.sqrt(n / 2) for _, loss, n in self.by_order(at))


def _form(gap: np.ndarray, weight: np.ndarray) -> float:
    """Sum of weight * gap^2 / 2."""
    return _blend(0.0, gap, np.ascontiguousarray(weight), gap, 1)


def check(domain: Domain, measurements: Sequence) -> list[Part]:
    """The measurements as parts, after every check that can be made of them; errors name the measurement."""
    parts: list[Part] = []
    for i, seen in enumerate(measurements):
        if not all(hasattr(seen, part) for part in ("clique", "values", "sigma", "query")):
            raise MeasurementError(
                f"measurement {i}: expected a fastdp.Measurement, got {type(seen).__name__}"
            )
        name = f"measurement {i} on {seen.clique}"
        try:
            clique = domain.check(seen.clique)
        except SchemaError as error:
            raise MeasurementError(f"{name}: {error}") from None
        if not clique:
            raise MeasurementError(f"{name}: its clique is empty")
        cells = domain.cells(clique)
        query = as_query(seen.query, cells)
        if query.cells != cells:
            raise MeasurementError(f"{name}: its query is over {query.cells} cells, the clique has {cells}")
        y = np.ascontiguousarray(seen.values, np.float64).reshape(-1)
        if y.size != query.rows:
            raise MeasurementError(f"{name}: {y.size} values for {query.rows} rows")
        if not np.isfinite(y).all():
            raise MeasurementError(f"{name}: a value is NaN or infinite")
        sigma = np.asarray(seen.sigma, np.float64)
        if sigma.ndim > 1 or (sigma.ndim == 1 and sigma.size != query.rows):
            raise MeasurementError(f"{name}: sigma must be a number or one per row")
        if not (np.isfinite(sigma).all() and (sigma > 0).all()):
            raise MeasurementError(f"{name}: sigma must be positive and finite")
        weight = np.broadcast_to(1.0 / (sigma * sigma), y.shape)
        start = 0
        for block in query.blocks(clique):
            stop = start + _rows(domain, block)
            parts.append(Part(block, len(clique), y[start:stop], weight[start:stop]))
            start = stop
    return parts


def as_query(query, cells: int) -> Query:
    if query is None:
        return Identity(cells)
    if isinstance(query, Query):
        return query
    if sp.issparse(query) or isinstance(query, np.ndarray):
        return Sparse(query)
    raise MeasurementError(
        f"a query is None, a scipy.sparse matrix or a fastdp query, got {type(query).__name__}"
    )


def _rows(domain: Domain, block: Block) -> int:
    if block.matrix is not None:
        return block.matrix.shape[0]
    return domain.cells(block.plus) if block.cells is None else block.cells.size


def usage(parts: Sequence[Part]) -> dict[frozenset[str], tuple[Clique, np.ndarray] | None]:
    """Which cells of which marginals the parts look at: None for all of them."""
    used: dict[frozenset[str], list[tuple[Clique, np.ndarray]] | None] = {}

    def look(clique: Clique, cells: np.ndarray | None) -> None:
        key = frozenset(clique)
        seen = used.setdefault(key, [])
        if cells is None:
            used[key] = None
        elif seen is not None:
            seen.append((clique, cells))

    for part in parts:
        block = part.block
        look(block.plus, None if block.matrix is not None else block.cells)
        if block.minus:
            look(block.minus, block.fine)
    out: dict[frozenset[str], tuple[Clique, np.ndarray] | None] = {}
    for key, looks in used.items():
        if looks is None or any(clique != looks[0][0] for clique, _ in looks):
            out[key] = None
        else:
            out[key] = (looks[0][0], np.unique(np.concatenate([cells for _, cells in looks])))
    return out


def direct(parts: Sequence[Part]) -> set[frozenset[str]]:
    """The sets that are looked at in every cell, one by one, by measurements of one order, and in no other
    way."""
    orders: dict[frozenset[str], set[int]] = {}
    other: set[frozenset[str]] = set()
    for part in parts:
        block = part.block
        if block.key[0] == "cells" and block.cells is None:
            orders.setdefault(frozenset(block.plus), set()).add(part.order)
        else:
            other.add(frozenset(block.plus))
        if block.minus:
            other.add(frozenset(block.minus))
    return {attrs for attrs, ks in orders.items() if len(ks) == 1} - other


def _direct_target(
    domain: Domain, node: Node, group: Sequence[Part], dtype: np.dtype
) -> tuple[DirectTarget, float]:
    """The node's target, and the constant that is left of the parts' loss."""

    def laid(values: np.ndarray, part: Part, dtype=np.float64) -> np.ndarray:
        clique = part.block.plus
        cube = values.reshape(domain.shape(clique)).transpose([clique.index(a) for a in node.axes])
        return np.ascontiguousarray(cube, dtype).reshape(-1)

    def precision_of(part: Part, dtype=np.float64) -> float | np.ndarray:
        return float(part.weight[0]) if part.weight.strides == (0,) else laid(part.weight, part, dtype)

    if len(group) == 1:
        return DirectTarget(node, laid(group[0].y, group[0], dtype), precision_of(group[0], dtype)), 0.0
    cubes = [laid(part.y, part) for part in group]
    weights = [precision_of(part) for part in group]
    precision = sum(weights[1:], start=weights[0])
    target = np.sum([w * y for w, y in zip(weights, cubes)], axis=0) / precision
    constant = sum(0.5 * float(np.sum(w * (y - target) ** 2)) for w, y in zip(weights, cubes))
    if isinstance(precision, np.ndarray):
        precision = precision.astype(dtype, copy=False)
    return DirectTarget(node, target.astype(dtype, copy=False), precision), constant


def lower(plan: Plan, parts: Sequence[Part], dtype: np.dtype | type = np.float64) -> Quadratic:
    """One quadratic for all parts, and the same by order. `dtype`: of the direct nodes' targets."""
    size = max(plan.size, 1)
    orders = {k: Order(k) for k in sorted({part.order for part in parts})}
    w, wt = np.zeros(size), np.zeros(size)
    constant = 0.0
    per_set: dict[tuple[int, frozenset[str]], list[Part]] = {}
    rows: dict[tuple, list[Part]] = {}
    for part in parts:
        orders[part.order].rows += part.y.size
        if part.block.key[0] == "cells":
            per_set.setdefault((part.order, frozenset(part.block.plus)), []).append(part)
        else:
            rows.setdefault(part.block.key, []).append(part)
    direct_nodes = {frozenset(node.axes): node for node in plan.direct}
    targets: dict[int, DirectTarget] = {}
    for (k, attrs), group in per_set.items():
        if attrs in direct_nodes:
            node = direct_nodes[attrs]
            targets[node.direct], left = _direct_target(plan.domain, node, group, np.dtype(dtype))
            constant += left
            orders[k].constant += left
            orders[k].targets.append(node.direct)
            continue
        place = plan.places[attrs]
        if not place.size:
            continue
        mine_w, mine_wt = np.zeros(place.size), np.zeros(place.size)
        spots = [_where(plan.domain, place, part.block.plus, part.block.cells) for part in group]
        for part, where in zip(group, spots):
            mine_w[where] += part.weight
            mine_wt[where] += part.weight * part.y
        span = slice(place.at, place.at + place.size)
        w[span] += mine_w
        wt[span] += mine_wt
        some = mine_w > 0
        t = np.divide(mine_wt, mine_w, out=np.zeros_like(mine_wt), where=some)
        left = sum(_form(part.y - t[where], part.weight) for part, where in zip(group, spots))
        constant += left
        orders[k].constant += left
        if some.all():
            orders[k].cells.append((span, mine_w, t))
        else:
            at = np.flatnonzero(some)
            orders[k].cells.append((at + place.at, mine_w[at], t[at]))
    t = np.divide(wt, w, out=np.zeros_like(wt), where=w > 0)
    for order in orders.values():  # what differs between the orders' own targets and the fused ones
        constant += sum(_form(target - t[where], weight) for where, weight, target in order.cells)
    matrix, v, b, extra = _functionals(plan, rows, orders)
    used = w > 0
    if matrix is not None:
        used[matrix.indices] = True
    active = np.flatnonzero(used)
    if active.size >= MOSTLY * size:  # then carrying the rest along, with weight 0, is cheaper than picking
        active = np.arange(size)
    if active.size < size:
        matrix = sp.csr_array(matrix[:, active]) if matrix is not None else None
        position = np.cumsum(used) - 1
        for order in orders.values():
            order.cells = [(_shift(where, position), mine_w, mine_t) for where, mine_w, mine_t in order.cells]
    transpose = matrix.T.tocsr() if matrix is not None else None
    total_rows = sum(order.rows for order in orders.values())
    by_order = list(orders.values())
    direct = [targets[k] for k in range(len(plan.direct))]
    return Quadratic(
        active, w[active], t[active], constant + extra, total_rows, matrix, v, b, by_order, direct, transpose
    )


def _shift(where: slice | np.ndarray, position: np.ndarray) -> slice | np.ndarray:
    """A place in the plan's vector as a place in the active one."""
    if isinstance(where, slice):
        if where.start == where.stop:  # nothing of this marginal was measured cell by cell
            return slice(0, 0)
        first = int(position[where.start])
        return slice(first, first + where.stop - where.start)
    return position[where]


def _functionals(plan: Plan, rows: dict[tuple, list[Part]], orders: dict[int, Order]):
    """Rows that are not single cells: one matrix, the fused precision and target of each row."""
    size = max(plan.size, 1)
    stack, vs, bs = [], [], []
    start, constant = 0, 0.0
    for group in rows.values():
        block = group[0].block
        matrix = _matrix(plan, block, size)
        n = matrix.shape[0]
        span = slice(start, start + n)
        v, vb = np.zeros(n), np.zeros(n)
        targets = []
        for k in sorted({part.order for part in group}):
            mine_v, mine_vb = np.zeros(n), np.zeros(n)
            parts = [p for p in group if p.order == k]
            for part in parts:
                mine_v += part.weight
                mine_vb += part.weight * part.y
            b = np.divide(mine_vb, mine_v, out=np.zeros(n), where=mine_v > 0)
            left = sum(_form(part.y - b, part.weight) for part in parts)
            constant += left
            orders[k].constant += left
            orders[k].functionals.append((span, mine_v, b))
            targets.append((mine_v, b))
            v += mine_v
            vb += mine_vb
        b = np.divide(vb, v, out=np.zeros(n), where=v > 0)
        constant += sum(_form(target - b, weight) for weight, target in targets)
        stack.append(matrix)
        vs.append(v)
        bs.append(b)
        start += n
    if not stack:
        return None, np.zeros(0), np.zeros(0), 0.0
    return sp.vstack(stack, format="csr"), np.concatenate(vs), np.concatenate(bs), constant


def _matrix(plan: Plan, block: Block, size: int) -> sp.csr_array:
    place = plan.places[frozenset(block.plus)]
    if block.matrix is not None:
        entries = sp.coo_array(block.matrix)
        columns = place.at + _where(plan.domain, place, block.plus, entries.coords[1].astype(np.int64))
        return sp.csr_array((entries.data, (entries.coords[0], columns)), shape=(block.matrix.shape[0], size))
    if block.cells is None or block.minus is None or block.fine is None:
        raise MeasurementError("a block of rows needs its cells and what is taken away from them")
    n = block.cells.size
    below = plan.places[frozenset(block.minus)]
    columns = np.concatenate(
        [
            place.at + _where(plan.domain, place, block.plus, block.cells),
            below.at + _where(plan.domain, below, block.minus, block.fine),
        ]
    )
    lines = np.concatenate([np.arange(n), block.at])
    data = np.concatenate([np.ones(n), -np.ones(block.fine.size)])
    return sp.csr_array((data, (lines, columns)), shape=(n, size))


def _where(domain: Domain, place: Place, clique: Clique, cells: np.ndarray | None) -> np.ndarray:
    """Positions inside a place of the given cells (flat numbers in clique order; None: all)."""
    numbers = permute_cells(domain, clique, cells, place.axes)
    return numbers if place.cells is None else np.searchsorted(place.cells, numbers)

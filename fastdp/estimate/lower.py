"""From measurements to one quadratic over the plan's vector of plain marginals.

Every query is lowered to rows over plain marginals (`Query.blocks`). Rows that are single cells add
up to a diagonal, whatever measurement they come from. Other rows are kept once per distinct
functional, with its measurements averaged by inverse variance. The remaining part of the loss does
not depend on the marginals. So the loss of all measurements is exactly that of a `Quadratic`.
"""

from collections.abc import Sequence

import numpy as np

from .._util.lazy import sp
from ..domain import Clique, Domain
from ..errors import MeasurementError
from ..model.inner_tables import permute_cells
from ..model.layout import Plan
from ..model.nodes import Node
from .linear_rows import Part
from .quadratic import LOOK, DirectTarget, Order, Quadratic, form

MOSTLY = 0.75
"""If at least this part of the plan's vector is measured, all of it is active."""


def _direct_target(
    domain: Domain, node: Node, group: Sequence[Part], dtype: np.dtype
) -> tuple[DirectTarget, float]:
    """The node's target, and the constant that is left of the parts' loss."""

    def laid(values: np.ndarray, part: Part, dtype=np.float64) -> np.ndarray:
        clique = part.block.plus
        cube = values.reshape(domain.shape(clique)).transpose([clique.index(a) for a in node.axes])
        return np.ascontiguousarray(cube, dtype).reshape(-1)

    def precision_of(part: Part, dtype=np.float64) -> float | np.ndarray:
        if part.weight.strides == (0,):
            return float(part.weight[0])
        return laid(part.weight, part, dtype)

    if len(group) == 1:
        return (
            DirectTarget(node, laid(group[0].y, group[0], dtype), precision_of(group[0], dtype)),
            0.0,
        )
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
    orders = {k: Order(k) for k in sorted({part.order for part in parts})}
    per_set: dict[tuple[int, frozenset[str]], list[Part]] = {}
    rows: dict[tuple, list[Part]] = {}
    for part in parts:
        orders[part.order].rows += part.y.size
        if part.block.key[0] == "cells":
            per_set.setdefault((part.order, frozenset(part.block.plus)), []).append(part)
        else:
            rows.setdefault(part.block.key, []).append(part)
    direct = {frozenset(node.axes): node for node in plan.direct}
    targets, constant = _direct_targets(plan, direct, per_set, orders, np.dtype(dtype))
    single = _single_cells(plan, {key: x for key, x in per_set.items() if key[1] not in direct})
    lines, columns, data = _entries(plan, rows)
    measured = [at for found in single.values() for at, _ in found]
    active, position = _active(max(plan.size, 1), [*measured, columns])
    w, t, lost = _fuse_cells(single, position, active.size, orders)
    constant = sum(lost, start=constant)
    v, b, left = _fuse(rows, orders)
    matrix = None
    if rows:
        matrix = sp.csr_array((data, (lines, position[columns])), shape=(v.size, active.size))
    for order in orders.values():  # the loss of each order's own targets against the fused targets
        constant += sum(form(target - t[where], weight) for where, weight, target in order.cells)
    return Quadratic(
        active=active,
        w=w,
        t=t,
        constant=constant + left,
        rows=sum(order.rows for order in orders.values()),
        matrix=matrix,
        v=v,
        b=b,
        orders=list(orders.values()),
        targets=targets,
    )


Found = dict[tuple[int, frozenset[str] | None], list[tuple[np.ndarray, Part]]]
"""(order, marginal) -> parts that measure single cells, and where in the plan's vector these lie. Small
marginals of one order are together, under None."""


def _direct_targets(
    plan: Plan,
    nodes: dict[frozenset[str], Node],
    per_set: dict[tuple[int, frozenset[str]], list[Part]],
    orders: dict[int, Order],
    dtype: np.dtype,
) -> tuple[list[DirectTarget], float]:
    """The targets of direct nodes by their numbers, and the constant of their loss."""
    targets: dict[int, DirectTarget] = {}
    constant = 0.0
    for (k, attrs), group in per_set.items():
        if attrs in nodes:
            node = nodes[attrs]
            targets[node.direct], left = _direct_target(plan.domain, node, group, dtype)
            constant += left
            orders[k].constant += left
            orders[k].targets.append(node.direct)
    return [targets[k] for k in range(len(plan.direct))], constant


def _single_cells(plan: Plan, per_set: dict[tuple[int, frozenset[str]], list[Part]]) -> Found:
    """Where the single cells that parts measure lie in the plan's vector."""
    single: Found = {}
    for (k, attrs), group in per_set.items():
        large = sum(part.y.size for part in group) > LOOK
        found = single.setdefault((k, attrs if large else None), [])
        found += [(_where(plan, part.block.plus, part.block.cells), part) for part in group]
    return single


def _active(size: int, places: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(the measured entries of a vector of so many numbers, the number of each among them)."""
    used = np.zeros(size, bool)
    for at in places:
        used[at] = True
    active = np.flatnonzero(used)
    # Keeping the other entries, with weight 0, is cheaper than a gather.
    if active.size >= MOSTLY * size:
        active = np.arange(size)
    position = np.empty(size, np.int64)
    position[active] = np.arange(active.size)
    return active, position


def _fuse_cells(
    single: Found, position: np.ndarray, size: int, orders: dict[int, Order]
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Precision and target of each of `size` active cells, and the constants of their loss."""
    w = np.zeros(size)
    wt = np.zeros(size)
    constants = []
    for (k, _), found in single.items():
        where, weight, y = map(
            np.concatenate, zip(*((position[at], part.weight, part.y) for at, part in found))
        )
        if not where.size:  # nothing of these marginals was measured cell by cell
            continue
        low = where.min()
        where -= low
        set_w = np.bincount(where, weight)
        set_wt = np.bincount(where, weight * y)
        t = np.divide(set_wt, set_w, out=np.zeros_like(set_wt), where=set_w > 0)
        left = form(y - t[where], weight)
        constants.append(left)
        orders[k].constant += left
        some = np.flatnonzero(set_w)
        at = low + some
        w[at] += set_w[some]
        wt[at] += set_wt[some]
        orders[k].cells.append((at, set_w[some], t[some]))
    return w, np.divide(wt, w, out=np.zeros_like(wt), where=w > 0), constants


def _entries(plan: Plan, rows: dict[tuple, list[Part]]) -> Sequence[np.ndarray]:
    """Rows that are not single cells, one block for each key: the lines, columns and values of a
    matrix over the plan's vector."""
    entries = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    rest = []
    n = 0
    known: dict[tuple[Clique, int], np.ndarray] = {}

    def spots(clique: Clique, cells: np.ndarray) -> np.ndarray:
        """Where cells lie in the plan's vector; blocks share many of these arrays."""
        if (key := (clique, id(cells))) not in known:
            known[key] = _where(plan, clique, cells)
        return known[key]

    for group in rows.values():
        block = group[0].block
        if block.matrix is not None:
            lines, cells = (x.astype(np.int64) for x in block.matrix[1:3])
            entries.append(
                (n + lines, _where(plan, block.plus, cells), block.matrix.value.astype(np.float64))
            )
        elif block.cells is None or block.minus is None or block.fine is None:
            raise MeasurementError(
                "a block of rows needs its cells and the amounts to subtract from them"
            )
        else:
            rest.append(
                (n, block.at, spots(block.plus, block.cells), spots(block.minus, block.fine))
            )
        n += group[0].y.size
    if rest:
        starts, ats, above, below = zip(*rest)
        lines = _ranges(starts, [cells.size for cells in above])
        entries.append((lines, np.concatenate(above), np.ones(lines.size)))
        lines = np.repeat(starts, [at.size for at in ats]) + np.concatenate(ats)
        entries.append((lines, np.concatenate(below), np.full(lines.size, -1.0)))
    return [np.concatenate(x) for x in zip(*entries)]


def _fuse(
    rows: dict[tuple, list[Part]], orders: dict[int, Order]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Precision and target of each row that is not a single cell, and the constant of their
    loss."""
    asked: dict[int, list[tuple[int, Part]]] = {}
    n = 0
    for group in rows.values():
        for part in group:
            asked.setdefault(part.order, []).append((n, part))
        n += group[0].y.size
    v = np.zeros(n)
    vb = np.zeros(n)
    constant = 0.0
    for k in sorted(asked):
        at = _ranges(*zip(*((start, part.y.size) for start, part in asked[k])))
        weight, y = (
            np.concatenate([getattr(part, x) for _, part in asked[k]]) for x in ("weight", "y")
        )
        mine_v = np.bincount(at, weight, n)
        mine_vb = np.bincount(at, weight * y, n)
        b = np.divide(mine_vb, mine_v, out=np.zeros(n), where=mine_v > 0)
        left = form(y - b[at], weight)
        constant += left
        orders[k].constant += left
        own = np.flatnonzero(mine_v)
        orders[k].functionals.append((own, mine_v[own], b[own]))
        v += mine_v
        vb += mine_vb
    b = np.divide(vb, v, out=np.zeros(n), where=v > 0)
    for k in asked:
        constant += sum(
            form(target - b[where], weight) for where, weight, target in orders[k].functionals
        )
    return v, b, constant


def _ranges(starts: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """`size` numbers from `start` on, for each pair, one after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(starts + np.asarray(sizes) - ends, sizes) + np.arange(ends[-1])


def _where(plan: Plan, clique: Clique, cells: np.ndarray | None) -> np.ndarray:
    """Positions in the plan's vector of the given cells (flat numbers in clique order; None:
    all)."""
    place = plan.places[frozenset(clique)]
    numbers = permute_cells(plan.domain, clique, cells, place.axes)
    return place.at + (numbers if place.cells is None else np.searchsorted(place.cells, numbers))

"""Structural zeros as seen by regions: which of their cells are possible."""

import numpy as np

from ...domain import Domain, Tables
from ...errors import MeasurementError
from ...model.table_ops import laid
from .raking import merge_codes
from .region_graph import Regions


def possible_cells(domain: Domain, problem: Regions, zeros: Tables) -> dict[int, np.ndarray]:
    """Which cells of which regions are possible: not ruled out by `zeros`, and with a possible
    counterpart wherever regions must agree. Regions where all are possible are left out."""
    out: dict[int, np.ndarray] = {}
    partitions = problem.partitions
    for clique, mask in zeros.items():
        free = ~np.asarray(mask, bool).reshape(domain.shape(clique))
        for i, r in enumerate(problem.regions):
            if set(clique) <= set(r.clique):
                bins = [partitions.bins[a][dict(r.names)[a]] for a in clique]
                any_free = laid(merge_codes(free.astype(np.float64), bins) > 0, clique, r.clique)
                out[i] = out.get(i, np.ones(r.shape, bool)) & any_free
    changed = bool(out)
    while changed:
        changed = False
        for c in problem.constraints:
            if c.right is None or (c.left not in out and c.right not in out):
                continue
            sides = [_onto(problem, i, out.get(i), c.names) for i in (c.left, c.right)]
            both = sides[0] & sides[1]
            for i, side in zip((c.left, c.right), sides):
                if (side & ~both).any():
                    before = out.get(i, np.ones(problem.regions[i].shape, bool))
                    out[i] = before & _back(problem, i, both, c.names)
                    changed = True
    if any(not mask.any() for mask in out.values()):
        raise MeasurementError("zeros: no possible row is left; check them for a contradiction")
    return out


def _onto(problem: Regions, i: int, mask: np.ndarray | None, names) -> np.ndarray:
    """Which cells of a meet have a possible cell in region i."""
    p = problem.partitions
    r = problem.regions[i]
    number = dict(names)
    if mask is None:
        return np.ones(p.shape(names), bool)
    table = mask.astype(np.float64).sum(
        axis=tuple(k for k, a in enumerate(r.clique) if a not in number)
    )
    return merge_codes(table, [p.lift(a, dict(r.names)[a], number[a]) for a in p.axes(names)]) > 0


def _back(problem: Regions, i: int, mask: np.ndarray, names) -> np.ndarray:
    """Which cells of region i lie over cells of a meet in the mask."""
    p = problem.partitions
    r = problem.regions[i]
    number = dict(names)
    for axis, a in enumerate(p.axes(names)):
        mask = mask.take(p.lift(a, dict(r.names)[a], number[a]), axis)
    return np.broadcast_to(laid(mask, p.axes(names), r.clique), r.shape)

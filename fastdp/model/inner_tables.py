"""Where the cells of a table lie inside a larger one: strides, offsets of rows, links.

A *link* says how a hosted table lies in its host, and which lanes of threads write to the same of its
cells.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from ..domain import Clique, Domain
from ..errors import ModelTooLargeError
from .nodes import Link, Node, Place

LANE_CELLS = 8192
MAX_LANES = 32
UNSHARED = 16
"""There may be more lanes by this factor where they share no cells."""

LANE_SUMS = 1 << 22
"""Sums that the lanes of a node may have of their own, all together, unless it has more cells."""

HOSTED_CELLS = 1 << 31
"""A table inside another has fewer cells than this: places in it are 32-bit numbers in the kernel.
"""


def permute_cells(
    domain: Domain, clique: Clique, cells: np.ndarray | None, axes: Clique
) -> np.ndarray:
    """Flat cell numbers in `clique` order as flat numbers in `axes` order (the same attributes)."""
    if cells is None:
        numbers = np.arange(domain.cells(axes), dtype=np.int64).reshape(domain.shape(axes))
        return np.ascontiguousarray(numbers.transpose([axes.index(a) for a in clique])).reshape(-1)
    if clique == axes:
        return cells
    codes = dict(zip(clique, np.unravel_index(cells, domain.shape(clique))))
    return np.ravel_multi_index([codes[a] for a in axes], domain.shape(axes))


def strides(domain: Domain, axes: Clique) -> dict[str, int]:
    """How far apart neighbours along each axis lie in a table over `axes`."""
    out = {}
    step = 1
    for a in reversed(axes):
        out[a] = step
        step *= domain[a]
    return out


def offsets(domain: Domain, axes: Clique, stride: Mapping[str, int]) -> np.ndarray:
    """Where each cell over `axes` begins in a table with these strides (0 for axes it does not
    have)."""
    if sum(stride.get(name, 0) * (domain[name] - 1) for name in axes) >= HOSTED_CELLS:
        raise ModelTooLargeError(
            f"the table between {axes} and the rest of the model has 2^31 cells or more; "
            "ask for fewer attributes"
        )
    out = np.zeros(1, np.int32)
    for name in axes:
        out = (
            out[:, None] + np.int32(stride.get(name, 0)) * np.arange(domain[name], dtype=np.int32)
        ).ravel()
    return out


def runs(domain: Domain, axes: Iterable[str], stride: Mapping[str, int]) -> list[tuple[int, int]]:
    """(length, stride) of the axes of a table inside another; neighbours that are both summed, or
    both kept side by side, are one."""
    out: list[tuple[int, int]] = []
    for name in axes:
        n = domain[name]
        step = stride.get(name, 0)
        if out and out[-1][1] == step * n:
            out[-1] = (out[-1][0] * n, step)
        else:
            out.append((n, step))
    return out


def link_of(domain: Domain, sep: Clique, res: Clique, place: Place) -> Link:
    """How the table at `place` lies inside the table [sep | res]."""
    if place.size >= HOSTED_CELLS:
        most = f"the limit is {HOSTED_CELLS - 1}; measure smaller marginals, or merge codes"
        raise ModelTooLargeError(
            f"the marginal {place.axes} inside a clique has {place.size} cells, {most}"
        )
    stride = strides(domain, place.axes)
    base = offsets(domain, sep, stride) if sep else None
    dims = runs(domain, (a for a in res if domain[a] > 1), stride)
    return Link(place.at, place.size, base, tuple(n for n, _ in dims), tuple(ts for _, ts in dims))


def divide_into_lanes(domain: Domain, node: Node) -> None:
    """Divide a node's rows into lanes for threads, along the first axis where it is long enough,
    and mark the links that lanes share. If no cell is written by two lanes, lanes cost nothing and
    there are many. For shared cells every lane has its own sums, which must be added up."""
    unit = node.rows // domain[node.sep[0]] if node.sep and domain[node.sep[0]] >= 8 else 1
    cells = node.rows * node.cells

    def cut_and_mark(lanes: int) -> np.ndarray:
        """Where lanes begin. Marks the links that several of these lanes write."""
        units = node.rows // unit
        lanes = min(lanes, units)
        longest = -(-units // lanes)
        lanes = -(-units // longest)  # as few as there are for this length
        cuts = np.rint(np.arange(lanes + 1) * (units / lanes)).astype(np.int64) * unit
        cuts[-1] = node.rows
        for link in node.links:
            link.shared = int(len(cuts) > 2 and _overlap(link, cuts))
        return cuts

    node.lane_at = cut_and_mark(min(UNSHARED * MAX_LANES, max(1, cells // LANE_CELLS)))
    lanes = min(MAX_LANES, max(1, cells // LANE_CELLS))
    while any(link.shared for link in node.links):
        node.lane_at = cut_and_mark(lanes)
        need = sum(link.size for link in node.links if link.shared)
        if need * lanes <= max(LANE_SUMS, cells):
            break
        lanes = max(1, lanes // 2)


def _overlap(link: Link, cuts: np.ndarray) -> bool:
    """Whether two lanes reach one cell of the linked table."""
    if link.base is None:
        return True
    span = 1 + sum((n - 1) * ts for n, ts in zip(link.n, link.ts))
    low = np.minimum.reduceat(link.base, cuts[:-1])
    high = np.maximum.reduceat(link.base, cuts[:-1]).astype(np.int64) + span
    by = np.argsort(low, kind="stable")
    return bool((high[by][:-1] > low[by][1:]).any())

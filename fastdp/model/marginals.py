"""Marginals of many cliques of a model at once, inside its cliques or across the junction tree.

A clique inside a node is a sum of that node's table. A pair (a, b) that no node holds is carried along the
tree: the nodes with a form a subtree; where an edge with separator S leaves it, P(a, S) is a sum of the last
node's table, and each further node of the way turns P(a, S) into P(a, T) = sum over S of P(a, S) P(T | S),
with T the next separator, or b. P(T | S) is the node's own and made once for all pairs that pass. Larger
cliques that no node holds go through `Model.marginal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._core import cliques as kernel
from ..domain import Clique, Domain
from ..errors import ModelTooLargeError

if TYPE_CHECKING:
    from .model import Model

CARRIED_CELLS = 1 << 24
"""Tables P(a, S) in flight (128 MB); sources beyond it wait for the next call of the kernel."""


def marginals(
    model: Model, cliques: Sequence[Clique], threads: int = 1, max_cells: int | None = None
) -> dict[Clique, np.ndarray]:
    """Expected rows in every cell of every clique, float64, axes in the clique's order. The same bits for any
    `threads`. With `max_cells`, cliques of three columns and more that no clique of the model contains are
    left out where they need a larger table."""
    domain = model.domain
    tree = _Tree(model)
    sums = _Sums(domain, tree)
    out: dict[Clique, np.ndarray] = {}
    pairs: dict[Clique, Clique] = {}
    for clique in dict.fromkeys(domain.check(c) for c in cliques):
        node = tree.smallest(clique)
        if node is not None and clique:
            out[clique] = sums.add(node, clique, 0).reshape(domain.shape(clique))
        elif len(clique) == 2:
            pairs[clique] = tuple(sorted(clique, key=lambda a: (domain[a], tree.number[a])))
        else:
            try:
                out[clique] = (
                    model.marginal(clique) if max_cells is None else model.marginal(clique, max_cells)
                )
            except ModelTooLargeError:
                if max_cells is None:
                    raise
    targets: dict[str, set[str]] = {}
    for source, target in pairs.values():
        targets.setdefault(source, set()).add(target)
    carried: dict[Clique, np.ndarray] = {}
    levels: list[list[tuple]] = []
    in_flight = 0
    for source, wanted in targets.items():
        in_flight += _Way(domain, tree, sums, source, wanted, levels, carried).cells
        if in_flight > CARRIED_CELLS:
            sums.run(levels, threads)
            levels, in_flight = [], 0
    sums.run(levels, threads)
    for clique, (source, target) in pairs.items():
        table = carried[source, target].reshape(domain.shape((source, target)))
        out[clique] = table if clique == (source, target) else np.ascontiguousarray(table.T)
    asked = dict.fromkeys(domain.check(c) for c in cliques)
    return {clique: out[clique] for clique in asked if clique in out}


class _Tree:
    """The model's nodes as an undirected tree whose separators may be empty: nodes with an attribute are
    connected."""

    def __init__(self, model: Model):
        self.axes = [node.axes for node in model.nodes]
        self.sets = [set(axes) for axes in self.axes]
        self.tables = [np.ascontiguousarray(node.table, np.float64).reshape(-1) for node in model.nodes]
        self.number = {name: i for i, name in enumerate(model.domain)}
        self.holding: dict[str, list[int]] = {name: [] for name in model.domain}
        for i, axes in enumerate(self.axes):
            for name in axes:
                self.holding[name].append(i)
        self.links: list[list[tuple[int, Clique]]] = [[] for _ in self.axes]
        for i, node in enumerate(model.nodes[1:], 1):
            parent = next(j for j in range(i) if self.sets[j].issuperset(node.sep))
            separator = model.domain.canonical(node.sep)
            self.links[i].append((parent, separator))
            self.links[parent].append((i, separator))
        self.beyond: dict[tuple[int, int], frozenset[str]] = {}
        for i in reversed(range(len(self.axes))):  # children before parents
            for parent, _ in self.links[i][:1] if i else ():
                below = [self.beyond[i, j] for j, _ in self.links[i] if j > i and (i, j) in self.beyond]
                self.beyond[parent, i] = frozenset(self.sets[i]).union(*below)
        for i in range(len(self.axes)):
            for child, _ in self.links[i]:
                if child > i:
                    around = [self.beyond[i, j] for j, _ in self.links[i] if j != child]
                    self.beyond[child, i] = frozenset(self.sets[i]).union(*around)

    def smallest(self, clique: Clique) -> int | None:
        """The smallest node that holds the clique."""
        if not clique:
            return None
        rarest = min((self.holding[name] for name in clique), key=len)
        inside = [i for i in rarest if self.sets[i].issuperset(clique)]
        return min(inside, key=lambda i: self.tables[i].size) if inside else None


class _Sums:
    """Sums of nodes' tables, noted down once each and run together with the products that read them."""

    def __init__(self, domain: Domain, tree: _Tree):
        self._domain, self._tree = domain, tree
        self._made: dict[tuple, np.ndarray] = {}
        self._steps: list[tuple] = []

    def add(self, node: int, axes: Clique, row: int) -> np.ndarray:
        """The node's table summed to `axes`, each run of `row` cells divided by its sum (0: as it is); filled
        by `run`."""
        key = (node, axes, row)
        if key not in self._made:
            place, size = {}, 1
            for name in reversed(axes):
                place[name] = size
                size *= self._domain[name]
            dims: list[list[int]] = []
            for name in self._tree.axes[node]:
                n, stride = self._domain[name], place.get(name, 0)
                if dims and dims[-1][1] == stride * n:
                    # one axis with the one before: both summed, or both kept side by side
                    dims[-1] = [dims[-1][0] * n, stride]
                else:
                    dims.append([n, stride])
            lengths, strides = (np.array([d[i] for d in dims], np.int64) for i in (0, 1))
            out = np.empty(size)
            self._steps.append((self._tree.tables[node], lengths, strides, row, out))
            self._made[key] = out
        return self._made[key]

    def run(self, levels: list, threads: int) -> None:
        kernel.run(self._steps, levels, threads)
        self._steps = []


class _Way:
    """All ways from one attribute to the wanted others, as products noted down in `levels`."""

    def __init__(
        self,
        domain: Domain,
        tree: _Tree,
        sums: _Sums,
        source: str,
        wanted: set[str],
        levels: list[list[tuple]],
        carried: dict[Clique, np.ndarray],
    ):
        self.cells = 0
        self._domain, self._tree, self._sums, self._levels = domain, tree, sums, levels
        stack = []
        for node in tree.holding[source]:
            for there, separator in tree.links[node]:
                if source not in tree.sets[there] and tree.beyond[node, there] & wanted:
                    start = sums.add(node, (source, *separator), 0)
                    stack.append((0, node, there, separator, start))
        while stack:
            level, before, node, separator, table = stack.pop()
            for target in (tree.sets[node] - set(separator)) & wanted:
                carried[source, target] = self._carry(level, node, separator, table, (target,))
            for there, further in tree.links[node]:
                ahead = tree.beyond[node, there] - tree.sets[node]
                if there != before and ahead & wanted:
                    moved = self._carry(level, node, separator, table, further)
                    stack.append((level + 1, node, there, further, moved))

    def _carry(self, level: int, node: int, separator: Clique, table: np.ndarray, to: Clique) -> np.ndarray:
        """P(a, to) from P(a, separator) by the node's P(to | separator)."""
        domain = self._domain
        fresh = tuple(name for name in to if name not in separator)
        row = domain.cells(fresh)
        step = self._sums.add(node, (*separator, *fresh), row)
        place, size = {}, 1
        for name in reversed(to):
            place[name] = size
            size *= domain[name]
        base = _offsets(domain, separator, place)
        offset = None if to[len(to) - len(fresh) :] == fresh else _offsets(domain, fresh, place)
        out = np.empty(table.size // base.size * size)
        while len(self._levels) <= level:
            self._levels.append([])
        self._levels[level].append((table, step, base, offset, out))
        self.cells += out.size
        return out


def _offsets(domain: Domain, axes: Clique, place: dict[str, int]) -> np.ndarray:
    """Where each cell over `axes` begins in a table whose strides are `place` (0 for axes it does not
    have)."""
    out = np.zeros(1, np.int64)
    for name in axes:
        out = (out[:, None] + place.get(name, 0) * np.arange(domain[name])).reshape(-1)
    return out

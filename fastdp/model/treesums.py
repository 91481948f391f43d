"""A model's nodes as an undirected tree, and sums of their tables for the kernel of
`_core.cliques`."""

from collections.abc import Hashable

import numpy as np

from .._core import cliques as kernel
from .._util.disjoint import DisjointSets
from ..domain import Clique, Domain
from .graphical_model import Model
from .inner_tables import offsets, runs, strides

CARRIED_CELLS = 1 << 24
"""Cells of tables in flight (128 MB) before the kernel is run; more wait for its next call."""


class Tree:
    """The model's nodes as an undirected tree whose separators may be empty: nodes with an
    attribute are connected."""

    def __init__(self, model: Model):
        self.axes = [node.axes for node in model.nodes]
        self.sets = [set(axes) for axes in self.axes]
        self.tables = [
            np.ascontiguousarray(node.table, np.float64).reshape(-1) for node in model.nodes
        ]
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
        self.part = self._parts()
        # beyond[i, j]: the attributes on the side of neighbour j, seen from node i.
        self._toward: dict[tuple[int, str], int] = {}
        self.beyond: dict[tuple[int, int], frozenset[str]] = {}
        for i in reversed(range(len(self.axes))):  # children before parents
            for parent, _ in self.links[i][:1] if i else ():
                below = [
                    self.beyond[i, j] for j, _ in self.links[i] if j > i and (i, j) in self.beyond
                ]
                self.beyond[parent, i] = frozenset(self.sets[i]).union(*below)
        for i in range(len(self.axes)):
            for child, _ in self.links[i]:
                if child > i:
                    around = [self.beyond[i, j] for j, _ in self.links[i] if j != child]
                    self.beyond[child, i] = frozenset(self.sets[i]).union(*around)

    def _parts(self) -> dict[str, Hashable]:
        """For each attribute, an identifier of the part of the tree that it lies in. Empty
        separators divide the tree into parts: attributes of different parts are independent."""
        joined = DisjointSets(range(len(self.axes)))
        for i, near in enumerate(self.links):
            for there, separator in near:
                if separator:
                    joined.merge(i, there)
        return {a: joined.find(nodes[0]) for a, nodes in self.holding.items()}

    def toward(self, node: int, name: str) -> int:
        """The number of the neighbour of `node` on the path to attribute `name`, which `node`
        lacks."""
        key = (node, name)
        if key not in self._toward:
            ways = (there for there, _ in self.links[node] if name in self.beyond[node, there])
            self._toward[key] = next(ways)
        return self._toward[key]

    def separator(self, node: int, there: int) -> Clique:
        """The attributes that two neighbours share, in the domain's order."""
        return next(separator for neighbour, separator in self.links[node] if neighbour == there)

    def smallest(self, clique: Clique) -> int | None:
        """The number of the smallest node, by cells, that holds the clique. None if there is none,
        or if the clique is empty."""
        if not clique:
            return None
        rarest = min((self.holding[name] for name in clique), key=len)
        inside = [i for i in rarest if self.sets[i].issuperset(clique)]
        return min(inside, key=lambda i: self.tables[i].size) if inside else None


class Sums:
    """A queue of sums of nodes' tables, each entered once. `run` computes them, with the products
    of tables that read them."""

    def __init__(self, domain: Domain, tree: Tree):
        self._domain = domain
        self._tree = tree
        self._made: dict[tuple, np.ndarray] = {}
        self._steps: list[tuple] = []
        self._places: dict[tuple[Clique, Clique], np.ndarray] = {}

    def add(self, node: int, axes: Clique, row: int) -> np.ndarray:
        """The array into which `run` will sum the node's table to `axes`. Each run of `row` cells
        is divided by its sum, which gives conditionals; 0: no division."""
        key = (node, axes, row)
        if key not in self._made:
            dims = runs(self._domain, self._tree.axes[node], strides(self._domain, axes))
            lengths, steps = (np.array([d[i] for d in dims], np.int64) for i in (0, 1))
            out = np.empty(self._domain.cells(axes))
            self._steps.append((self._tree.tables[node], lengths, steps, row, out))
            self._made[key] = out
        return self._made[key]

    def places(self, axes: Clique, within: Clique) -> np.ndarray:
        """The offset of each cell over `axes` in a flat table over `within`."""
        key = (axes, within)
        if key not in self._places:
            self._places[key] = offsets(self._domain, axes, strides(self._domain, within))
        return self._places[key]

    def run(self, levels: list, threads: int) -> None:
        """Compute the sums added since the last run, then the products of each level in order (see
        `_core.cliques.run`)."""
        kernel.run(self._steps, levels, threads)
        self._steps = []

"""The model of a junction tree whose marginals are given tables: scaling (raking) along the tree.

Every clique's table is held, calibrated with its neighbours. A visit to a clique scales its table to each
of its targets in turn; walking from clique to clique along the tree, only the separator crossed has to be
brought up to date, by the ratio of its new to its old marginal. This is iterative proportional fitting of
the whole distribution (Jirousek and Preucil 1995), at the price of the cliques' tables: it converges to the
model of largest entropy, relative to the start, that has the targets, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..domain import Clique, Domain
from .layout import Plan
from .tree import JunctionTree

FLOOR = 0.05
"""Added to target and marginal, in sigma, before their ratio is taken, so that nearly empty cells are not
scaled by their noise."""


@dataclass(frozen=True)
class Target:
    """A table of bins over `clique`, axis by axis (bins[k]: code -> bin of attribute k), with its standard
    error."""

    clique: Clique
    table: np.ndarray
    sigma: float
    bins: Sequence[np.ndarray | None]


class CliqueTables:
    """Calibrated tables of all cliques of a tree, axes in the cliques' order, in rows."""

    def __init__(self, domain: Domain, tree: JunctionTree, tables: list[np.ndarray]):
        self.domain, self.tree, self.tables = domain, tree, tables
        self._around = tree.neighbours()
        self._separator = {}
        for i, j in tree.edges:
            shared = set(tree.cliques[i]) & set(tree.cliques[j])
            first = min(i, j)
            self._separator[first, max(i, j)] = _sum(tables[first], tree.cliques[first], shared)

    @classmethod
    def independent(cls, domain: Domain, tree: JunctionTree, shares: Mapping[str, np.ndarray], total: float):
        """Every attribute by itself; `shares` add up to 1."""
        tables = []
        for clique in tree.cliques:
            table = np.full((), total)
            for a in clique:
                table = np.multiply.outer(table, shares[a])
            tables.append(table)
        return cls(domain, tree, tables)

    def calibrate(self, total: float) -> None:
        """Makes every root sum to the total and every other clique agree with the one above it, where that
        holds only nearly."""
        for i, j, down in self._walk():
            if down and i is None:
                self.tables[j] *= total / self.tables[j].sum()
            elif down:
                key, here = (min(i, j), max(i, j)), self.tree.cliques[j]
                shared = set(self.tree.cliques[i]) & set(here)
                kept = [a for a in here if a in shared]
                order = [a for a in self.tree.cliques[key[0]] if a in shared]
                self._separator[key] = _sum(self.tables[j], here, shared).transpose(
                    [kept.index(a) for a in order]
                )
                self._tell(i, j)

    def home(self, attrs) -> int:
        """The smallest clique that holds these attributes."""
        inside = [k for k, clique in enumerate(self.tree.cliques) if set(attrs) <= set(clique)]
        return min(inside, key=lambda k: self.tables[k].size)

    def marginal(self, clique: Clique) -> np.ndarray:
        k = self.home(clique)
        kept = [a for a in self.tree.cliques[k] if a in clique]
        return _sum(self.tables[k], self.tree.cliques[k], set(clique)).transpose(
            [kept.index(a) for a in clique]
        )

    def rake(self, targets: Sequence[Target], tours: int, floor: float = FLOOR) -> None:
        """Scales to the targets, so many times around the tree."""
        held: list[list[Target]] = [[] for _ in self.tables]
        for target in sorted(targets, key=lambda t: -t.table.size):
            held[self.home(target.clique)].append(target)
        for _ in range(tours):
            for i, j, down in self._walk():
                if down and i is not None:
                    self._tell(i, j)
                if down:
                    for target in held[j]:
                        self._scale(j, target, floor)
                else:
                    self._tell(j, i)
        for i, j, down in self._walk():
            if down and i is not None:
                self._tell(i, j)

    def _walk(self):
        """(parent, clique, True) when a clique is entered, (parent, clique, False) when it is left."""
        seen: set[int] = set()
        for root in range(len(self.tables)):
            if root in seen:
                continue
            seen.add(root)
            yield None, root, True
            stack = [(root, iter(self._around[root]))]
            while stack:
                i, rest = stack[-1]
                j = next((j for j in rest if j not in seen), None)
                if j is None:
                    stack.pop()
                    if stack:
                        yield stack[-1][0], i, False
                else:
                    seen.add(j)
                    yield i, j, True
                    stack.append((j, iter(self._around[j])))

    def _tell(self, i: int, j: int) -> None:
        """Scales clique j so that it agrees with its neighbour i on their separator."""
        key = (min(i, j), max(i, j))
        there, here = self.tree.cliques[i], self.tree.cliques[j]
        shared = set(there) & set(here)
        new, old = _sum(self.tables[i], there, shared), self._separator[key]
        first, second = (
            [a for a in there if a in shared],
            [a for a in self.tree.cliques[key[0]] if a in shared],
        )
        new = new.transpose([first.index(a) for a in second])
        ratio = np.divide(new, old, out=np.zeros_like(new), where=old > 0)
        kept = [a for a in here if a in shared]
        ratio = ratio.transpose([second.index(a) for a in kept])
        self.tables[j] *= ratio.reshape([self.domain[a] if a in shared else 1 for a in here])
        self._separator[key] = new

    def _scale(self, k: int, target: Target, floor: float) -> None:
        clique = self.tree.cliques[k]
        kept = [a for a in clique if a in target.clique]
        turn = [target.clique.index(a) for a in kept]
        now = _sum(self.tables[k], clique, set(kept))
        bins = [target.bins[i] for i in turn]
        least = floor * target.sigma
        ratio = (target.table.transpose(turn) + least) / (merged(now, bins) + max(least, 1e-300))
        for axis, b in enumerate(bins):
            if b is not None:
                ratio = ratio.take(b, axis)
        self.tables[k] *= ratio.reshape([self.domain[a] if a in kept else 1 for a in clique])

    def lay(self, plan: Plan) -> np.ndarray:
        """The tables of a plan's nodes, one after the other."""
        out = np.empty(plan.cells)
        for node in plan.nodes:
            out[node.table : node.table + node.rows * node.cells] = self.marginal(node.axes).reshape(-1)
        return out


def _sum(table: np.ndarray, clique: Clique, kept: set[str]) -> np.ndarray:
    drop = tuple(i for i, a in enumerate(clique) if a not in kept)
    return table.sum(axis=drop) if drop else table


def merged(table: np.ndarray, bins: Sequence[np.ndarray | None]) -> np.ndarray:
    """The table with each axis's codes added up by bin (None: as they are)."""
    for axis, b in enumerate(bins):
        if b is not None:
            order = np.argsort(b, kind="stable")
            starts = np.searchsorted(b[order], np.arange(int(b.max()) + 1))
            table = np.add.reduceat(table.take(order, axis), starts, axis)
    return table

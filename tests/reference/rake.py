"""Raking along the tree in plain numpy, table by table: twin of estimate/dual/raking.py and csrc/rake.c."""

import numpy as np

from fastdp.estimate.dual.raking import FLOOR, merge_codes


class CliqueTables:
    """Calibrated tables of all cliques of a tree, axes in the cliques' order, in rows."""

    def __init__(self, domain, tree, tables):
        self.domain, self.tree, self.tables = domain, tree, tables
        self._around = tree.neighbours()
        self._separator = {}
        for i, j in tree.edges:
            shared = set(tree.cliques[i]) & set(tree.cliques[j])
            first = min(i, j)
            self._separator[first, max(i, j)] = _sum(tables[first], tree.cliques[first], shared)

    @classmethod
    def independent(cls, domain, tree, shares, total):
        """Every attribute by itself; `shares` add up to 1."""
        tables = []
        for clique in tree.cliques:
            table = np.full((), total)
            for a in clique:
                table = np.multiply.outer(table, shares[a])
            tables.append(table)
        return cls(domain, tree, tables)

    def home(self, attrs) -> int:
        """The smallest clique that holds these attributes."""
        inside = [k for k, clique in enumerate(self.tree.cliques) if set(attrs) <= set(clique)]
        return min(inside, key=lambda k: self.tables[k].size)

    def marginal(self, clique):
        k = self.home(clique)
        kept = [a for a in self.tree.cliques[k] if a in clique]
        return _sum(self.tables[k], self.tree.cliques[k], set(clique)).transpose(
            [kept.index(a) for a in clique]
        )

    def rake(self, targets, tours, floor=FLOOR):
        """Scales to the targets, so many times around the tree."""
        held = [[] for _ in self.tables]
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
        seen = set()

        def visit(parent, i):
            seen.add(i)
            yield parent, i, True
            for j in self._around[i]:
                if j not in seen:
                    yield from visit(i, j)
            if parent is not None:
                yield parent, i, False

        for root in range(len(self.tables)):
            if root not in seen:
                yield from visit(None, root)

    def _tell(self, i, j):
        """Brings clique j up to date with its neighbour i."""
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

    def _scale(self, k, target, floor):
        clique = self.tree.cliques[k]
        kept = [a for a in clique if a in target.clique]
        turn = [target.clique.index(a) for a in kept]
        now = _sum(self.tables[k], clique, set(kept))
        bins = [target.bins[i] for i in turn]
        least = floor * target.sigma
        ratio = (target.table.transpose(turn) + least) / (merge_codes(now, bins) + max(least, 1e-300))
        for axis, b in enumerate(bins):
            if b is not None:
                ratio = ratio.take(b, axis)
        self.tables[k] *= ratio.reshape([self.domain[a] if a in kept else 1 for a in clique])


def _sum(table, clique, kept):
    drop = tuple(i for i, a in enumerate(clique) if a not in kept)
    return table.sum(axis=drop) if drop else table

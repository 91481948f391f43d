"""Marginals of cliques whose attributes come to one node of the tree from different sides.

For a node N let the attributes q of the clique that N lacks lie behind different links, with
separators S_q. Given N they are independent, each through its separator alone, so that

    P(clique) = sum over the other attributes of N of P(N) * product over q of P(q | S_q).

Three attributes have such a node in every tree: the meeting of the ways between them. P(N) is first
summed to what the clique and the separators need. Then each P(q | S_q) is multiplied in, and what
is no longer needed is summed out. For a separator S and an attribute q behind it, P(q | S) is
carried from q's nearest node, once for all cliques. P(q | S) = sum over T of P(T | S) P(q | T),
where T is the next separator towards q.
"""

import math

import numpy as np

from ..domain import Clique, Domain
from .treesums import CARRIED_CELLS, Sums, Tree


class OutOfClique:
    """The cliques' products, noted down by `add` and done by `run`. `limit`: cells of the largest
    product that is done."""

    def __init__(self, domain: Domain, tree: Tree, sums: Sums, limit: int):
        self._domain = domain
        self._tree = tree
        self._sums = sums
        self._limit = limit
        self._messages: dict[tuple[str, int, int], tuple[np.ndarray, Clique, int]] = {}
        self._joined: dict[Clique, tuple[Clique, np.ndarray]] = {}
        self._batches: list[list[list[tuple]]] = [[]]
        self._cells = 0

    def add(self, clique: Clique) -> bool:
        """Note a clique of two attributes or more that no node holds. False if no node is a meeting
        of its attributes, or the limit is too small."""
        tree = self._tree
        domain = self._domain
        node = self._meeting(clique)
        if node is None:
            return False
        inside = tree.sets[node].intersection(clique)
        outside = sorted((q for q in clique if q not in inside), key=domain.__getitem__)
        # The smallest attribute comes first, since each one makes the tables grow.
        sides = [tree.toward(node, q) for q in outside]
        separators = [tree.separator(node, there) for there in sides]
        axes = domain.canonical(inside.union(*separators))
        needed = [inside.union(*separators[i + 1 :]) for i in range(len(outside))]
        steps = [(axes, axes)]
        for q, rows, still in zip(outside, separators, needed):
            before = steps[-1][1]
            after = tuple(name for name in before if name not in rows or name in still)
            steps.append(((*before, q), (*after, q)))
        if max(math.prod(domain.shape(product)) for product, _ in steps) > self._limit:
            return False
        table = self._sums.add(node, axes, 0)
        level = 0
        for q, there, still in zip(outside, sides, needed):
            message, rows, depth = self._message(q, node, there)
            level = max(level, depth)
            axes, table = self._multiply(
                level, table=table, axes=axes, message=message, rows=rows, q=q, needed=still
            )
            level += 1
        self._joined[clique] = axes, table
        if self._cells > CARRIED_CELLS:
            self._batches.append([])
            self._messages = {key: (m, rows, 0) for key, (m, rows, _) in self._messages.items()}
            self._cells = 0
        return True

    def run(self, threads: int) -> dict[Clique, np.ndarray]:
        """The marginal of every clique that was noted down, axes in the clique's order."""
        while self._batches:
            self._sums.run(self._batches.pop(0), threads)
        out = {}
        for clique, (axes, table) in self._joined.items():
            cube = table.reshape(self._domain.shape(axes))
            out[clique] = np.ascontiguousarray(cube.transpose([axes.index(a) for a in clique]))
        return out

    def _meeting(self, clique: Clique) -> int | None:
        """Walks from a node of the first attribute towards any two that lie behind the same
        link."""
        tree = self._tree
        before = -1
        node = tree.holding[clique[0]][0]
        while True:
            behind = [tree.toward(node, q) for q in clique if q not in tree.sets[node]]
            twice = [there for there in behind if behind.count(there) > 1]
            if not twice:
                return node
            there = twice[0]
            if there == before:  # two on either side
                return None
            before = node
            node = there

    def _message(self, q: str, node: int, there: int) -> tuple[np.ndarray, Clique, int]:
        """(P(q | S) as [S, q], the order of S's axes in it, the level from which on it is there)
        for the separator S of node and there, q behind it."""
        key = (q, node, there)
        if key not in self._messages:
            tree = self._tree
            separator = tree.separator(node, there)
            if q in tree.sets[there]:
                own = self._sums.add(there, (*separator, q), self._domain[q])
                self._messages[key] = own, separator, 0
            else:
                further, rows, level = self._message(q, there, tree.toward(there, q))
                fresh = tuple(name for name in rows if name not in separator)
                step = self._sums.add(there, (*separator, *fresh), self._domain.cells(fresh))
                axes, out = self._multiply(
                    level,
                    table=step,
                    axes=(*separator, *fresh),
                    message=further,
                    rows=rows,
                    q=q,
                    needed=set(separator),
                )
                self._messages[key] = out, axes[:-1], level + 1
        return self._messages[key]

    def _multiply(
        self,
        level: int,
        *,
        table: np.ndarray,
        axes: Clique,
        message: np.ndarray,
        rows: Clique,
        q: str,
        needed: set[str],
    ) -> tuple[Clique, np.ndarray]:
        """(axes, table) of sum over `rows` without `needed` of table * message[rows, q]: the axes
        that are not rows, the needed rows, q."""
        domain = self._domain
        lines = tuple(name for name in axes if name not in rows)
        kept = tuple(name for name in rows if name in needed)
        after = (*lines, *kept, q)
        out = np.empty(math.prod(domain.shape(after)))
        self._cells += out.size
        levels = self._batches[-1]
        while len(levels) <= level:
            levels.append([])
        there = (self._sums.places(rows, (*kept, q)), None, out)
        levels[level].append(
            (table, message, *there, self._sums.places(lines, axes), self._sums.places(rows, axes))
        )
        return after, out

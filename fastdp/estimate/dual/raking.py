"""The model of a junction tree whose marginals are given tables: scaling (raking) along the tree.

Every clique's table is held, calibrated with its neighbours. A visit to a clique scales its table
to each of its targets in turn. Walking from clique to clique along the tree, only the separator
crossed is updated, by the ratio of its new to its old marginal. This is iterative proportional
fitting of the whole distribution (Jirousek and Preucil 1995), at the price of the cliques' tables.
It converges to the model with the targets that has the largest entropy relative to the start, if
there is one. A tour is a list of steps that csrc/rake.h carries out. In one pass, each step
multiplies a table by the last ratios and adds it up onto the next marginal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from ..._core.rake import Tour, View
from ..._core.tables import copied, outer, packed, rooms
from ..._core.team import Team
from ...domain import Clique, Domain
from ...model.junction_tree import JunctionTree
from ...model.layout import Plan
from .dual_plan import Link, Table, lanes_of
from .region_graph import axis_order

FLOOR = 0.05
"""Added to target and marginal, in sigma, before their ratio is taken, so that nearly empty cells
are not scaled by their noise."""

ROW = 16
"""A row of a table has at least so many cells, if need be of several attributes: shorter ones cost
more in loops than in cells."""


class Target(Struct, frozen=True):
    """A table of bins over `clique`, axis by axis (bins[k]: code -> bin of attribute k), with its
    standard error."""

    clique: Clique
    table: np.ndarray
    sigma: float
    bins: Sequence[np.ndarray | None]


class TourStep(NamedTuple):
    """A step of a tour (csrc/rake.h). `cells` is a clique's table, which `multiply` scales by the
    ratios of an earlier step (None: none wait). Its sums over `project` are compared with `goal`: a
    target's table, or with `to`, the neighbour's view, the separator as it was. `least` is added to
    both before their ratio is taken, in rows; `weight` is 1 / standard error of the target."""

    cells: np.ndarray
    multiply: View | None
    project: View | None = None
    goal: np.ndarray | None = None
    to: View | None = None
    least: float = 0.0
    weight: float = 0.0


class Frame:
    """How the tables of a tree's cliques lie: the axes of each `axis_order`, behind the attribute
    `first`. Views of marginals are made once, and serve all models of the tree in turn."""

    def __init__(
        self, domain: Domain, tree: JunctionTree, threads: int | Team = 1, first: str | None = None
    ):
        self.domain = domain
        self.tree = tree
        self.threads = threads
        self.axes = [axis_order(domain, clique, first) for clique in tree.cliques]
        self.around = tree.neighbours()
        self._holding: dict[str, list[int]] = {a: [] for a in domain}
        for k, axes in enumerate(self.axes):
            for a in axes:
                self._holding[a].append(k)
        self._views: dict[tuple, View] = {}
        self._crossings: dict[tuple[int, int], View] = {}

    def laid(self, k: int, table: np.ndarray, clique: Sequence[str]) -> np.ndarray:
        """A table with axes as in `clique` as that of clique k."""
        return np.ascontiguousarray(
            table.transpose([clique.index(a) for a in self.axes[k]]), np.float64
        )

    def home(self, attrs: Sequence[str]) -> int:
        """The smallest clique that holds these attributes."""
        near = min((self._holding[a] for a in attrs), key=len, default=range(len(self.axes)))
        inside = [k for k in near if set(attrs) <= set(self.axes[k])]
        return min(inside, key=lambda k: self.domain.cells(self.axes[k]))

    def crossing(self, i: int, j: int) -> View:
        """Where the cells of clique i lie in what it shares with its neighbour j."""
        if (i, j) not in self._crossings:
            one = self.axes[min(i, j)]
            other = self.axes[max(i, j)]
            shared = [a for a in one if a in other]  # in the same order from either side
            self._crossings[i, j] = self.view(i, shared, [None] * len(shared))
        return self._crossings[i, j]

    def view(self, k: int, clique: Sequence[str], bins: Sequence[np.ndarray | None]) -> View:
        """Where the cells of clique k lie in a table of bins over `clique`."""
        key = (k, tuple(clique), tuple(None if b is None else b.tobytes() for b in bins))
        if key in self._views:
            return self._views[key]
        codes = {a: np.arange(self.domain[a]) if b is None else b for a, b in zip(clique, bins)}
        offset = {}
        size = 1
        for a in reversed(clique):
            offset[a] = size * codes[a].astype(np.int64)
            size *= int(codes[a].max()) + 1
        axes = self.axes[k]
        split = len(self.axes[k]) - 1
        while split > 0 and self.domain.cells(axes[split:]) < ROW:
            split -= 1
        base, along = (_added(self.domain, part, offset) for part in (axes[:split], axes[split:]))
        shape: str | np.ndarray = along.astype(np.int32)
        if not along.any():
            shape = "row"
        elif (along == np.arange(along.size)).all():
            shape = "cell"
        rows = None if not base.any() else base.astype(np.int32)
        _, (spans,) = lanes_of(Table(base.size, along.size, 1.0, [Link(0, size, 1.0, rows, shape)]))
        self._views[key] = view = View(base.size, along.size, size, rows, shape, spans)
        return view

    def walk(self) -> Iterator[tuple[int | None, int, bool]]:
        """(parent, clique, True) when a clique is entered, (parent, clique, False) when it is
        left."""
        seen: set[int] = set()
        for root in range(len(self.axes)):
            if root in seen:
                continue
            seen.add(root)
            yield None, root, True
            stack = [(root, iter(self.around[root]))]
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
                    stack.append((j, iter(self.around[j])))


def _added(domain: Domain, axes: Sequence[str], offset: Mapping[str, np.ndarray]) -> np.ndarray:
    """The sum of the axes' offsets for every cell of a table; an axis without offsets counts
    nothing."""
    out = np.zeros(1, np.int64)
    for a in axes:
        out = (out[:, None] + offset.get(a, np.zeros(domain[a], np.int64))).reshape(-1)
    return out


class CliqueTables:
    """Calibrated tables of all cliques of a tree, axes as the frame has them, in rows."""

    def __init__(self, frame: Frame, tables: list[np.ndarray]):
        self.frame = frame
        self.tables = tables

    @classmethod
    def independent(
        cls, frame: Frame, shares: Mapping[str, np.ndarray], total: float
    ) -> CliqueTables:
        """Every attribute separately; `shares` add up to 1."""
        tables = []
        threads = frame.threads
        for axes, room in zip(
            frame.axes, rooms([frame.domain.cells(axes) for axes in frame.axes], threads)
        ):
            lead = np.full(1, total)
            for a in axes[:-1]:
                lead = np.multiply.outer(lead, shares[a]).reshape(-1)
            table = outer(lead, np.ascontiguousarray(shares[axes[-1]], np.float64), threads, room)
            tables.append(table.reshape(frame.domain.shape(axes)))
        return cls(frame, tables)

    def copy(self, to: CliqueTables | None = None) -> CliqueTables:
        """A copy, in the memory of a model that is not needed any more if one is given."""
        threads = self.frame.threads
        if to is None:
            made = packed(self.tables, threads)
        else:
            made = [copied(a, threads, b) for a, b in zip(self.tables, to.tables)]
        out = CliqueTables(self.frame, made)
        out._separators = {edge: sums.copy() for edge, sums in self._separators.items()}
        return out

    @cached_property
    def _separators(self) -> dict[tuple[int, int], np.ndarray]:
        return self._sums([(*edge, min(edge)) for edge in self.frame.tree.edges])

    def _sums(self, edges: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], np.ndarray]:
        """The separators of some edges (i, j), each added up from clique k: (i, j, k)."""
        out = {}
        steps = []
        for i, j, k in edges:
            view = self.frame.crossing(k, i + j - k)
            sums = out[min(i, j), max(i, j)] = np.zeros(view.size)
            steps.append(TourStep(self.tables[k].reshape(-1), None, view, goal=sums, to=view))
        Tour(steps, self.frame.threads).run()
        return out

    def calibrate(self, total: float) -> None:
        """Make every root sum to the total and every other clique agree with the one above it,
        where that holds only nearly."""
        entered = [(i, j) for i, j, down in self.frame.walk() if down]
        for root in (j for i, j in entered if i is None):
            self.tables[root] *= total / self.tables[root].sum()
        self._separators = self._sums([(i, j, j) for i, j in entered if i is not None])
        Tour(self._steps([[] for _ in self.tables], 0.0, up=False), self.frame.threads).run()

    def marginal(self, clique: Sequence[str]) -> np.ndarray:
        """The marginal over `clique`, axes in its order."""
        k = self.frame.home(clique)
        axes = self.frame.axes[k]
        table = self.tables[k]
        drop = tuple(i for i, a in enumerate(axes) if a not in clique)
        kept = [a for a in axes if a in clique]
        return (table.sum(axis=drop) if drop else table).transpose([kept.index(a) for a in clique])

    def rake(
        self, targets: Sequence[Target], tours: int, floor: float = FLOOR, stalled: float = 0.0
    ) -> int:
        """Scale to the targets, at most so many times around the tree. A tour that lowers the sum
        of their squared distances in sigma by less than the share `stalled` is the last one.
        Returns the number of tours. `floor`: see FLOOR."""
        held: list[list[Target]] = [[] for _ in self.tables]
        for target in sorted(targets, key=lambda t: -t.table.size):
            held[self.frame.home(target.clique)].append(target)
        tour = Tour(self._steps(held, floor, up=True), self.frame.threads)
        before = np.inf
        done = 0
        while done < tours:
            squares = tour.run()
            done = done + 1
            if stalled and squares >= (1 - stalled) * before:
                break
            before = squares
        Tour(self._steps([[] for _ in self.tables], floor, up=False), self.frame.threads).run()
        return done

    def _steps(self, held: Sequence[Sequence[Target]], floor: float, up: bool) -> list[TourStep]:
        """One tour as steps; `held`: the targets of each clique. `up`: cliques also learn from
        those below them."""
        frame = self.frame
        steps: list[TourStep] = []
        pending: dict[int, View] = {}
        cells = [table.reshape(-1) for table in self.tables]

        def tell(i: int, j: int) -> None:
            """Clique i updates the separator; its neighbour j is to be scaled by the ratios."""
            old = self._separators[min(i, j), max(i, j)]
            there = frame.crossing(j, i)
            steps.append(
                TourStep(cells[i], pending.pop(i, None), frame.crossing(i, j), goal=old, to=there)
            )
            pending[j] = there

        for i, j, down in frame.walk():
            if down and i is not None:
                tell(i, j)
            for target in held[j] if down else ():
                view = frame.view(j, target.clique, target.bins)
                least = floor * target.sigma
                table = np.ascontiguousarray(target.table, np.float64).reshape(-1)
                steps.append(
                    TourStep(
                        cells[j],
                        pending.pop(j, None),
                        view,
                        goal=table,
                        least=least,
                        weight=1 / target.sigma,
                    )
                )
                if not view.whole:
                    pending[j] = view
            if not down and up and i is not None:
                tell(j, i)
        return steps + [TourStep(cells[k], view) for k, view in pending.items()]

    def lay(self, plan: Plan) -> np.ndarray:
        """The tables of a plan's nodes, one after the other."""
        (out,) = rooms([plan.cells], self.frame.threads)
        for node in plan.nodes:
            copied(self.marginal(node.axes), self.frame.threads, out[node.table :])
        return out


def merge_codes(table: np.ndarray, bins: Sequence[np.ndarray | None]) -> np.ndarray:
    """The table with each axis's codes added up by bin (None: as they are)."""
    for axis, b in enumerate(bins):
        if b is not None:
            order = np.argsort(b, kind="stable")
            starts = np.searchsorted(b[order], np.arange(int(b.max()) + 1))
            table = np.add.reduceat(table.take(order, axis), starts, axis)
    return table

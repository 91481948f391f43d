"""A model's rows given evidence about some of their columns: exact draws and probabilities.

The nodes of the junction tree are divided into single columns, p(a | separator, columns before a).
Columns that other nodes hang on come first. So evidence touches small tables, and every column
below the last evidence keeps the model's own conditional. `csrc/condition.c` has the passes.
Evidence of a row is hard (a code), soft (a likelihood over the codes), or none, for each column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from .._core.condition import Tree
from .._util.threads import each, resolve
from ..domain import Clique, Domain
from .graphical_model import Model, Node

BLOCK_ROWS = 1 << 14
"""Rows that are worked on together, so that threads share a hundred thousand rows. A block repeats
the pass that its evidence needs."""
BLOCK_NUMBERS = 1 << 22
"""Numbers in the messages of one block: 32 MB for each thread."""
LEAST_SUM = float(np.finfo(np.float64).tiny)
"""A separator's cell with less weight counts as empty: the inverse of its sum would be infinite."""
FLOOR = 1e-6
"""The share of each softened table in which columns are independent
(`ConditionalModel.softened`)."""


class Evidence(Struct, frozen=True, eq=False):
    """What is known of each row. `hard` int32 [rows, columns]: a code or -1. `soft` int32 of the
    same shape: a row of the column's `likelihood`, or -1; where both are set, `hard` counts."""

    hard: np.ndarray
    soft: np.ndarray
    likelihood: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        return len(self.hard)

    def of_rows(self, rows: np.ndarray) -> Evidence:
        return Evidence(self.hard[rows], self.soft[rows], self.likelihood)


def no_evidence(domain: Domain, rows: int) -> Evidence:
    """Evidence that says nothing, to be filled in."""
    shape = (rows, len(domain))
    return Evidence(np.full(shape, -1, np.int32), np.full(shape, -1, np.int32), {})


class _Step(Struct, eq=False):
    """p(column | sep) as a table [cells of sep, codes]; `children`: steps whose `sep` lies in this
    one's."""

    column: str
    sep: Clique
    table: np.ndarray
    children: list[int]


class ConditionalModel:
    """A model made ready for evidence. It may be used by several threads at once.

    root: a column to start from, so that `posterior` can give its distribution. impossible:
    combinations of codes that no row has, for `softened`.
    """

    def __init__(
        self,
        model: Model,
        root: str | None = None,
        impossible: Mapping[Clique, np.ndarray] | None = None,
    ):
        self.model = model
        self.domain = model.domain
        self._impossible = impossible or {}
        self._soft: ConditionalModel | None = None
        self._rooted: dict[str, ConditionalModel] = {}
        self.steps = _steps(model.domain, model.nodes, root)
        number = {name: i for i, name in enumerate(model.domain)}
        self._number = number
        self.lowered = []
        for step in self.steps:
            sums = step.table.sum(axis=1)
            inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > LEAST_SUM)
            overall = np.ascontiguousarray(step.table.sum(axis=0))
            sep = [number[a] for a in step.sep]
            strides = _strides(model.domain.shape(step.sep))
            column = number[step.column]
            self.lowered.append((column, sep, strides, step.table, inverse, overall, step.children))
        self._tree = Tree(self.lowered, model.domain.shape(tuple(model.domain)))

    def draw(
        self,
        evidence: Evidence,
        seed: int,
        numbers: np.ndarray | None = None,
        threads: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(int32 [rows, columns] codes, log probability of each row's evidence). Rows of impossible
        evidence (-inf) have no meaning. Row i depends on its evidence, `seed` and numbers[i] (None:
        i) alone."""
        rows = evidence.rows
        numbers = np.arange(rows, dtype=np.int64) if numbers is None else numbers
        out = np.zeros((rows, len(self.domain)), np.int32)
        logs = np.zeros(rows)

        def block(part: _Block) -> None:
            # Threads write rows of their own.
            log, codes, _ = self._run(evidence, part, numbers[part.rows], seed, True, False)
            out[part.rows] = codes
            logs[part.rows] = np.repeat(log, np.diff(part.start))

        each(block, self._blocks(evidence), resolve(threads))
        return out, logs

    def log_probability(self, evidence: Evidence, threads: int | None = None) -> np.ndarray:
        """The logarithm of each row's evidence under the model; -inf: impossible."""
        return self.log_probabilities([evidence], threads)[:, 0]

    def log_probabilities(
        self, each_of: Sequence[Evidence], threads: int | None = None, root: str | None = None
    ) -> np.ndarray:
        """float64 [rows, len(each_of)]: the logarithms for several kinds of evidence about the same
        rows. Rows that agree in the first kind must agree in every other. What the kinds have in
        common is worked on once, the more of it the nearer to the `root` they differ."""
        tree = self if root is None else self._rooted_at(root)
        rows = each_of[0].rows
        stacked = _stacked(self.domain, each_of)
        logs = np.zeros((rows, len(each_of)))

        def block(part: _Block) -> None:
            kinds = len(part.start) - 1
            first = part.rows[part.start[:-1]]
            every = np.concatenate([first + i * rows for i in range(len(each_of))])
            alone = _Block(every, np.arange(len(every) + 1, dtype=np.int64))
            numbers = np.zeros(len(every), np.int64)
            log, _, _ = tree._run(stacked, alone, numbers, 0, False, False)
            times = np.diff(part.start)
            logs[part.rows] = np.repeat(log.reshape(len(each_of), kinds).T, times, axis=0)

        each(block, tree._blocks(each_of[0]), resolve(threads))
        return logs

    def _rooted_at(self, column: str) -> ConditionalModel:
        if column not in self._rooted:
            self._rooted[column] = ConditionalModel(self.model, column)
        return self._rooted[column]

    def posterior(
        self, column: str, evidence: Evidence, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(float64 [rows, codes] the distribution of a column given the evidence, log
        probabilities)."""
        tree = self._rooted_at(column)
        chances = np.zeros((evidence.rows, self.domain[column]))
        logs = np.zeros(evidence.rows)

        def block(part: _Block) -> None:
            numbers = np.zeros(len(part.rows), np.int64)
            log, _, found = tree._run(evidence, part, numbers, 0, False, True)
            times = np.diff(part.start)
            logs[part.rows] = np.repeat(log, times)
            assert found is not None
            chances[part.rows] = np.repeat(
                np.where(np.isfinite(log)[:, None], found, 0.0), times, 0
            )

        each(block, tree._blocks(evidence), resolve(threads))
        return chances, logs

    def softened(self) -> ConditionalModel:
        """The same model with a little independence in every table, for evidence that has no rows
        in it: every row that no constraint excludes becomes possible."""
        if self._soft is None:
            ones = {a: self.model.marginal((a,)) + 1e-9 * self.model.total for a in self.domain}
            ones = {a: one / one.sum() for a, one in ones.items()}
            nodes = [self._softened(node, ones) for node in self.model.nodes]
            soft = Model(self.domain, nodes, total=self.model.total)
            self._soft = ConditionalModel(soft, None, self._impossible)
        return self._soft

    def _softened(self, node: Node, ones: Mapping[str, np.ndarray]) -> Node:
        """A node's table with a little independence added."""
        shape = self.domain.shape(node.axes)
        added = np.ones(())
        for a in node.axes:
            added = np.multiply.outer(added, ones[a])
        for clique, mask in self._impossible.items():
            if set(clique) <= set(node.axes):
                order = sorted(range(len(clique)), key=lambda i: node.axes.index(clique[i]))
                sizes = [n if a in clique else 1 for a, n in zip(node.axes, shape)]
                added = np.where(mask.transpose(order).reshape(sizes), 0.0, added)
        table = np.asarray(node.table, np.float64)
        return Node(
            node.sep, node.res, table + FLOOR * self.model.total * added.reshape(table.shape)
        )

    def _run(
        self, evidence: Evidence, part: _Block, numbers, seed: int, draw: bool, posterior: bool
    ):
        """The kernel's passes over one block of rows."""
        likelihood = [evidence.likelihood.get(a) for a in self.domain]
        own = evidence.of_rows(part.rows[part.start[:-1]])
        key = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
        return self._tree.run(
            np.ascontiguousarray(own.hard),
            np.ascontiguousarray(own.soft),
            part.start,
            np.ascontiguousarray(numbers, np.int64),
            seed=key,
            likelihood=likelihood,
            draw=draw,
            posterior=posterior,
        )

    def _blocks(self, evidence: Evidence) -> list[_Block]:
        """The rows in blocks, those with the same evidence together."""
        if not evidence.rows or not len(self.domain):
            return []
        order, first, of_row = _distinct(evidence)
        cost = self._cost(evidence.of_rows(first))
        sorted_of = of_row[order]
        new = np.diff(sorted_of, prepend=-1) > 0
        spent = np.cumsum(np.where(new, cost[sorted_of], 0)) // BLOCK_NUMBERS
        turn = np.arange(evidence.rows) // BLOCK_ROWS
        block = (np.diff(spent, prepend=-1) > 0) | (np.diff(turn, prepend=-1) > 0)
        begins = np.append(np.flatnonzero(block), evidence.rows)
        out = []
        for begin, end in pairwise(begins):
            own = np.flatnonzero(new[begin:end])
            start = np.unique(np.append([0, end - begin], own)).astype(np.int64)
            out.append(_Block(order[begin:end], start))
        return out

    def _cost(self, evidence: Evidence) -> np.ndarray:
        """int64: numbers in all messages for each piece of evidence."""
        size = dict(self.domain)
        known = evidence.hard >= 0
        some = known | (evidence.soft >= 0)
        active: dict[int, np.ndarray] = {}
        cost = np.zeros(evidence.rows)
        for i in reversed(range(len(self.steps))):
            step = self.steps[i]
            own = some[:, self._number[step.column]].copy()
            for child in step.children:
                own |= active[child]
            active[i] = own
            cells = own.astype(np.float64)
            for a in step.sep:
                cells *= np.where(known[:, self._number[a]], 1, size[a])
            cost += cells
        return np.minimum(cost, 2.0**53).astype(np.int64) + 1


class _Block(Struct, frozen=True, eq=False):
    """Rows start[i] .. start[i + 1] of `rows` have the same evidence."""

    rows: np.ndarray
    start: np.ndarray


def _stacked(domain: Domain, each_of: Sequence[Evidence]) -> Evidence:
    """The rows of several kinds of evidence, one kind after the other. Equal likelihoods have equal
    numbers, so that their messages are shared."""
    if len(each_of) == 1:
        return each_of[0]
    soft = [evidence.soft.copy() for evidence in each_of]
    likelihood: dict[str, np.ndarray] = {}
    for i, a in enumerate(domain):
        listed: list[np.ndarray] = []
        begins: list[int] = []
        for evidence, numbers in zip(each_of, soft):
            own = evidence.likelihood.get(a)
            if own is None:
                continue
            same = [k for k, other in enumerate(listed) if np.array_equal(other, own)]
            if not same:
                begins.append(sum(map(len, listed)))
                listed.append(own)
            begin = begins[same[0] if same else -1]
            numbers[:, i] = np.where(numbers[:, i] < 0, -1, numbers[:, i] + begin)
        if listed:
            likelihood[a] = np.concatenate(listed)
    hard = np.concatenate([evidence.hard for evidence in each_of])
    return Evidence(hard, np.concatenate(soft), likelihood)


def _distinct(evidence: Evidence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows with equal evidence together, the first row of each kind, the kind of each row)."""
    both = np.concatenate([evidence.hard, evidence.soft], axis=1)
    both = np.ascontiguousarray(both[:, (both >= 0).any(axis=0)])
    key = np.zeros(len(both), np.uint64)
    for column in both.T:
        key = (key ^ column.astype(np.uint32)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    _, first, kind = np.unique(key, return_index=True, return_inverse=True)
    if not np.array_equal(both[first][kind], both):  # two kinds share a key
        _, first, kind = np.unique(both, axis=0, return_index=True, return_inverse=True)
    kind = kind.reshape(-1)
    return np.argsort(kind, kind="stable"), first, kind


def _strides(shape: Sequence[int]) -> list[int]:
    """Of an array in C order."""
    out = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        out[i] = out[i + 1] * shape[i + 1]
    return out


def _steps(domain: Domain, nodes: Sequence[Node], root: str | None) -> list[_Step]:
    """The tree column by column, parents first; with `root`, it begins with that column."""
    order, parent, cut = _directed(nodes, root)
    hung: dict[int, list[Clique]] = {i: [] for i in order}
    for i in order:
        above = parent[i]
        if above is not None:
            hung[above].append(cut[i])
    steps: list[_Step] = []
    chains: dict[int, list[int]] = {}
    for i in order:
        node = nodes[i]
        sep = cut[i]
        used = {a: sum(a in c for c in hung[i]) for a in node.axes}
        res = sorted((a for a in node.axes if a not in sep), key=lambda a: (a != root, -used[a]))
        axes = (*sep, *res)
        cube = np.asarray(node.table, np.float64).reshape(domain.shape(node.axes))
        cube = cube.transpose([node.axes.index(a) for a in axes])
        up = parent[i]
        chains[i] = [] if up is None else list(chains[up])
        last = _holder(steps, chains[i], sep)
        for k, column in enumerate(res, len(sep)):
            table = cube.sum(axis=tuple(range(k + 1, len(axes))), dtype=np.float64)
            table = np.ascontiguousarray(table).reshape(-1, domain[column])
            if last is not None:
                steps[last].children.append(len(steps))
            last = len(steps)
            chains[i].append(last)
            steps.append(_Step(column, axes[:k], table, []))
    return steps


def _holder(steps: Sequence[_Step], chain: Sequence[int], sep: Clique) -> int | None:
    """The first step of a chain, from a root down, that has all columns of `sep`; None for an empty
    one."""
    if not sep:
        return None
    return next(i for i in chain if set(sep) <= {*steps[i].sep, steps[i].column})


def _directed(
    nodes: Sequence[Node], root: str | None
) -> tuple[list[int], list[int | None], list[Clique]]:
    """(nodes in order, parents first; the parent of each; the columns that it shares with it). With
    `root`, the smallest node that has this column comes first, and edges point away from it."""
    near: list[list[tuple[int, Clique]]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        if node.sep:
            above = next(j for j in range(i) if set(node.sep) <= set(nodes[j].axes))
            near[above].append((i, node.sep))
            near[i].append((above, node.sep))
    starts = list(range(len(nodes)))
    if root is not None:
        first = min((i for i in starts if root in nodes[i].axes), key=lambda i: nodes[i].table.size)
        starts.remove(first)
        starts.insert(0, first)
    parent: list[int | None] = [None] * len(nodes)
    cut: list[Clique] = [()] * len(nodes)
    order: list[int] = []
    seen: set[int] = set()
    for start in starts:
        stack = [] if start in seen else [start]
        seen.add(start)
        while stack:
            i = stack.pop(0)
            order.append(i)
            for j, sep in near[i]:
                if j not in seen:
                    seen.add(j)
                    parent[j] = i
                    cut[j] = sep
                    stack.append(j)
    return order, parent, cut

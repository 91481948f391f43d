"""The plan of inference: where every table lies in memory and in which order passes visit them.
Made once per tree.

Vocabulary (see csrc/infer.h). A *node* is a table [separator | residual]. A *hosted* table is a
marginal that lies inside a node: a separator, or a measured marginal. Potentials and marginals of
all of them form one vector. Axes are ordered top-down, so that no pass ever permutes anything. A
hosted table's axes follow its host's, and a node's separator axes follow the hosted separator's.

Two rules keep rows short and many, which is what threads and caches want. The tree is rooted at its
smallest common separator. A node whose rows are longer than `ROW_LIMIT` cells gets a *prefix* node
over its first residual axes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec import Struct

from ..domain import Clique, Domain
from ..errors import ModelTooLargeError
from .junction_tree import JunctionTree
from .nodes import DENSE, DIRECT, SPARSE, HostedTable, Link, Node
from .schedule import Schedule, make_schedule

ROW_LIMIT = 4096
LANE_CELLS = 8192
MAX_LANES = 32
UNSHARED = 16
"""There may be more lanes by this factor where they share no cells."""

LANE_SUMS = 1 << 22
"""Sums that the lanes of a node may have of their own, all together, unless it has more cells."""

HOSTED_CELLS = 1 << 31
"""A table inside another has fewer cells than this: places in it are 32-bit numbers in the kernel.
"""

DIRECT_CELLS = 8
"""A node is direct only if its rows have at least this many cells, since three sums are kept per
row."""


class Place(Struct, frozen=True):
    """Where a set's marginal lies in the vector: its axes in order, its offset, and which cells are
    there."""

    axes: Clique
    at: int
    size: int
    cells: np.ndarray | None = None
    """Ascending flat cells (in `axes` order) of a sparse place; None: all."""


@dataclass
class Plan:
    """The plan of inference over one tree.

    `stages`: the nodes by depth, roots first. `places`: where the marginal of each set lies in the
    vector of `size` numbers. Its first part, of `shared` numbers, has separators and hosted tables; the
    nodes' local potentials follow. `folds`: (place of the outer table, link to the inner one) of hosted
    tables inside hosted ones. `direct`: nodes that the vector leaves out. `copied`: place and size of
    the tables that other tables are added into. `cells` and `rows`: of all nodes together.
    """

    domain: Domain
    tree: JunctionTree
    nodes: list[Node]
    folds: list[tuple[int, Link]]
    stages: list[list[Node]]
    places: dict[frozenset[str], Place]
    size: int
    shared: int
    cells: int
    rows: int
    direct: list[Node]
    copied: dict[int, int]

    @cached_property
    def schedule(self) -> Schedule:
        """How a pass is divided among threads."""
        return make_schedule(self.stages, self.copied)


def make_plan(
    domain: Domain,
    tree: JunctionTree,
    measured: Mapping[frozenset[str], tuple[Clique, np.ndarray] | None],
    direct: Collection[frozenset[str]] = (),
) -> Plan:
    """A plan whose vector holds every measured set. A set's value names the cells of it that are
    used (clique order and flat numbers), or is None for all. Only a node's own table may be stored
    sparsely. Sets in `direct` are measured in every cell and nowhere else. If such a set is a whole
    node, it is left out of the vector, and the node is *direct*."""
    nodes, hosts = _root_tree(domain, tree)
    separators = set(hosts)
    sets = [set(node.axes) for node in nodes]
    for attrs in measured:
        if attrs not in hosts:
            inside = [i for i, whole in enumerate(sets) if attrs <= whole]
            hosts[attrs] = min(inside, key=lambda i: nodes[i].rows * nodes[i].cells)
    places: dict[frozenset[str], Place] = {}
    folds: list[tuple[int, Link]] = []
    last: list[tuple[Node, frozenset[str]]] = []
    direct_nodes: list[Node] = []
    copied: dict[int, int] = {}
    size = table = row_at = 0
    for i, node in enumerate(nodes):
        node.table = table
        node.row_at = row_at
        table += node.rows * node.cells
        row_at += node.rows
        hosted_sets = [s for s, host in hosts.items() if host == i]
        whole = frozenset(node.axes)
        if whole in hosted_sets:
            hosted_sets.remove(whole)
            if whole in separators:
                places[whole] = _local_potential(domain, node, size, None)
                copied[size] = places[whole].size
                size += places[whole].size
            elif whole in direct and node.cells >= DIRECT_CELLS:
                node.local = DIRECT
                node.direct = len(direct_nodes)
                direct_nodes.append(node)
            else:
                last.append((node, whole))
        hosted_sets.sort(key=lambda s: (-domain.cells(s), -len(s), sorted(s)))
        hosted_group: dict[frozenset[str], list[tuple[frozenset[str], frozenset[str]]]] = {}
        top: dict[frozenset[str], frozenset[str]] = {}
        for attrs in hosted_sets:
            larger = [s for s in top if attrs < s]
            place = Place(tuple(a for a in node.axes if a in attrs), size, domain.cells(attrs))
            places[attrs] = place
            size += place.size
            if larger:
                above = min(larger, key=lambda s: (places[s].size, sorted(s)))
                top[attrs] = top[above]
                hosted_group[top[above]].append((attrs, above))
            else:
                top[attrs] = attrs
                hosted_group[attrs] = []
        for attrs, inner in hosted_group.items():
            node.links.append(_link(domain, node.sep, node.res, places[attrs]))
            place = places[attrs]
            parts = [part for part, _ in inner]
            late = not separators.isdisjoint((attrs, *parts))
            along = domain[place.axes[0]] if all(place.axes[0] in part for part in parts) else 1
            hosted = HostedTable(
                at=place.at,
                size=place.size,
                first_fold=len(folds),
                folds=len(inner),
                late=late,
                along=along,
            )
            node.hosted.append(hosted)
            taking = separators | {above for _, above in inner}
            for part, above in reversed(inner):
                link = _link(domain, (), places[above].axes, places[part])
                link.shared = int(part in taking)
                folds.append((places[above].at, link))
                if part in taking:
                    copied[places[part].at] = places[part].size
        _divide_into_lanes(domain, node)
    shared = size
    for node, whole in last:
        places[whole] = _local_potential(domain, node, size, measured[whole])
        size += places[whole].size
    depth: list[int] = []
    for node in nodes:
        if node.sep:
            host = nodes[hosts[frozenset(node.sep)]]
            node.separator = at = places[frozenset(node.sep)].at
            shared_by_lanes = {link.at: link.shared for link in host.links}
            if host.local == DENSE and host.local_at == at:
                node.needs = 0
            else:
                node.needs = shared_by_lanes.get(at, 2)
        depth.append(1 + depth[hosts[frozenset(node.sep)]] if node.sep else 0)
    stages = [
        [n for n, d in zip(nodes, depth) if d == k] for k in range(max(depth, default=-1) + 1)
    ]
    return Plan(
        domain=domain,
        tree=tree,
        nodes=nodes,
        folds=folds,
        stages=stages,
        places=places,
        size=size,
        shared=shared,
        cells=table,
        rows=row_at,
        direct=direct_nodes,
        copied=copied,
    )


def _root_tree(domain: Domain, tree: JunctionTree) -> tuple[list[Node], dict[frozenset[str], int]]:
    """Nodes from the roots down, and for every separator the node that hosts it."""
    often = {a: sum(a in c for c in tree.cliques) for a in domain}
    rank = {a: (-often[a], i) for i, a in enumerate(domain)}
    order = lambda names: tuple(sorted(names, key=rank.__getitem__))  # noqa: E731
    nodes: list[Node] = []
    hosts: dict[frozenset[str], int] = {}
    axes_of: dict[frozenset[str], Clique] = {}

    def add(sep: Clique, res: Clique) -> None:
        """Add [sep | res], preceded by a prefix node where its rows would be too long."""
        if domain.cells(res) > ROW_LIMIT and len(res) > 1:
            last = len(res) - 1
            cut = next(
                k for k in range(1, last + 1) if domain.cells(res[k:]) <= ROW_LIMIT or k == last
            )
            add(sep, res[:cut])
            sep = separator_axes(frozenset(sep + res[:cut]))
            res = res[cut:]
        nodes.append(Node(sep, res, domain.cells(sep), domain.cells(res)))

    def separator_axes(attrs: frozenset[str]) -> Clique:
        """The axes, in order, of a separator inside the smallest node so far that holds it."""
        if attrs and attrs not in hosts:
            inside = [i for i, node in enumerate(nodes) if attrs <= set(node.axes)]
            hosts[attrs] = min(inside, key=lambda i: nodes[i].rows * nodes[i].cells)
            axes_of[attrs] = tuple(a for a in nodes[hosts[attrs]].axes if a in attrs)
        return axes_of.get(attrs, ())

    around = tree.neighbours()
    seen: set[int] = set()
    for start in range(len(tree.cliques)):
        if start in seen:
            continue
        component = []
        stack = [start]
        seen.add(start)
        while stack:
            i = stack.pop()
            component.append(i)
            fresh = [j for j in around[i] if j not in seen]
            seen.update(fresh)
            stack.extend(fresh)
        root, core = _root(domain, tree, component, around)
        if core and len(core) < len(tree.cliques[root]):
            add((), order(core))
        beyond = core and len(core) < len(tree.cliques[root])
        queue = [(root, separator_axes(frozenset(core)) if beyond else ())]
        placed = {root}
        while queue:
            i, sep = queue.pop(0)
            rest = [a for a in tree.cliques[i] if a not in sep]
            if rest:
                add(sep, order(rest))
            for j in around[i]:
                if j not in placed:
                    placed.add(j)
                    shared = frozenset(tree.cliques[i]) & frozenset(tree.cliques[j])
                    queue.append((j, separator_axes(shared)))
    return nodes, hosts


def _root(domain, tree, component, around) -> tuple[int, frozenset[str]]:
    """The clique to start from, and the attribute set to root the component at: what all cliques
    share, else the smallest separator."""
    sets = [frozenset(tree.cliques[i]) for i in component]
    if len(component) == 1:
        return component[0], frozenset()
    core = frozenset.intersection(*sets)
    if not core:
        edges = [(i, j) for i in component for j in around[i]]
        separators = [frozenset(tree.cliques[i]) & frozenset(tree.cliques[j]) for i, j in edges]
        core = min(separators, key=lambda s: (domain.cells(s), sorted(s)))
    root = max((i for i in component if core <= set(tree.cliques[i])), key=lambda i: len(around[i]))
    return root, core


def _local_potential(domain: Domain, node: Node, at: int, used) -> Place:
    """The node's own part of the vector: all its cells, or only the used ones where they are
    few."""
    total = node.rows * node.cells
    node.local_at = at
    if used is not None:
        clique, cells = used
        if cells.size * 4 < total:
            cells = np.unique(permute_cells(domain, clique, cells, node.axes))
            node.local = SPARSE
            node.local_cell = (cells % node.cells).astype(np.int32)
            node.local_row = np.searchsorted(cells, np.arange(node.rows + 1) * node.cells).astype(
                np.int64
            )
            return Place(node.axes, at, cells.size, cells)
    node.local = DENSE
    return Place(node.axes, at, total)


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


def _link(domain: Domain, sep: Clique, res: Clique, place: Place) -> Link:
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


def _divide_into_lanes(domain: Domain, node: Node) -> None:
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

"""The plan of inference: where every table lies in memory and in which order passes visit them.
Made once per tree.

Vocabulary (see csrc/infer.h). A *node* is a table [separator | residual]. A *hosted* table is a
marginal that lies inside a node: a separator, or a measured marginal. Potentials and marginals of
all of them form one vector. Axes are ordered top-down, so that no pass ever permutes anything. A
hosted table's axes follow its host's, and a node's separator axes follow the hosted separator's.

`rooted_nodes` has the nodes in order, `inner_tables` says how a table lies inside another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..domain import Clique, Domain
from .inner_tables import divide_into_lanes, link_of, permute_cells
from .junction_tree import JunctionTree
from .nodes import DENSE, DIRECT, SPARSE, HostedTable, Link, Node, Place
from .rooted_nodes import RootedNodes
from .schedule import Schedule, make_schedule

DIRECT_CELLS = 8
"""A node is direct only if its rows have at least this many cells, since three sums are kept per
row."""


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
    rooted = RootedNodes(domain, tree)
    separators = frozenset(rooted.hosts)
    hosts = dict(rooted.hosts)
    for attrs in measured:
        if attrs not in hosts:
            hosts[attrs] = rooted.smallest_holding(attrs)
    vector = _Vector(domain, separators, direct)
    for i, node in enumerate(rooted.nodes):
        vector.host_tables(node, [attrs for attrs, host in hosts.items() if host == i])
        divide_into_lanes(domain, node)
    shared = vector.size
    for node in vector.own_last:
        vector.add_own_table(node, measured[frozenset(node.axes)])
    _number_cells(rooted.nodes)
    _point_to_separators(rooted.nodes, hosts, vector.places)
    return Plan(
        domain=domain,
        tree=tree,
        nodes=rooted.nodes,
        folds=vector.folds,
        stages=_stages(rooted.nodes, hosts),
        places=vector.places,
        size=vector.size,
        shared=shared,
        cells=sum(node.rows * node.cells for node in rooted.nodes),
        rows=sum(node.rows for node in rooted.nodes),
        direct=vector.direct_nodes,
        copied=vector.copied,
    )


class _Vector:
    """The vector of potentials and marginals while tables are given their places in it.

    `places`, `folds`, `size`, `copied`: those of the plan. `own_last`: nodes whose own tables come
    after all tables that take messages.
    """

    def __init__(
        self,
        domain: Domain,
        separators: Collection[frozenset[str]],
        direct: Collection[frozenset[str]],
    ):
        self.domain = domain
        self.separators = frozenset(separators)
        self.direct = direct
        self.places: dict[frozenset[str], Place] = {}
        self.folds: list[tuple[int, Link]] = []
        self.size = 0
        self.copied: dict[int, int] = {}
        self.own_last: list[Node] = []
        self.direct_nodes: list[Node] = []

    def host_tables(self, node: Node, hosted: list[frozenset[str]]) -> None:
        """Give these tables, which lie inside the node, places and links."""
        whole = frozenset(node.axes)
        if whole in hosted:
            hosted.remove(whole)
            self._store_own_table(node, whole)
        for outer, inner in self._nested(node, hosted).items():
            self._link(node, outer, inner)

    def add_own_table(self, node: Node, used: tuple[Clique, np.ndarray] | None) -> None:
        """The node's own part of the vector: all its cells, or only the used ones where they are
        few."""
        place = _own_table(self.domain, node, self.size, used)
        self.places[frozenset(node.axes)] = place
        self.size += place.size

    def _store_own_table(self, node: Node, whole: frozenset[str]) -> None:
        """Decide how a node is stored that is measured itself, or is a separator."""
        if whole in self.separators:
            at = self.size
            self.add_own_table(node, None)
            self.copied[at] = self.places[whole].size
        elif whole in self.direct and node.cells >= DIRECT_CELLS:
            node.local = DIRECT
            node.direct = len(self.direct_nodes)
            self.direct_nodes.append(node)
        else:
            self.own_last.append(node)

    def _nested(
        self, node: Node, hosted: list[frozenset[str]]
    ) -> dict[frozenset[str], list[_Inner]]:
        """Each outermost table with those that lie inside it, largest first; all get places."""
        inside: dict[frozenset[str], list[_Inner]] = {}
        outermost: dict[frozenset[str], frozenset[str]] = {}
        cells = self.domain.cells
        for attrs in sorted(hosted, key=lambda s: (-cells(s), -len(s), sorted(s))):
            larger = [s for s in outermost if attrs < s]
            place = Place(tuple(a for a in node.axes if a in attrs), self.size, cells(attrs))
            self.places[attrs] = place
            self.size += place.size
            if larger:
                above = min(larger, key=lambda s: (self.places[s].size, sorted(s)))
                outermost[attrs] = outermost[above]
                inside[outermost[above]].append(_Inner(attrs, above))
            else:
                outermost[attrs] = attrs
                inside[attrs] = []
        return inside

    def _link(self, node: Node, outer: frozenset[str], inner: Sequence[_Inner]) -> None:
        """Link an outermost table to the node, and the tables inside it to those that hold them."""
        place = self.places[outer]
        node.links.append(link_of(self.domain, node.sep, node.res, place))
        attrs = [one.attrs for one in inner]
        in_all = all(place.axes[0] in one for one in attrs)
        node.hosted.append(
            HostedTable(
                at=place.at,
                size=place.size,
                first_fold=len(self.folds),
                folds=len(inner),
                late=not self.separators.isdisjoint((outer, *attrs)),
                along=self.domain[place.axes[0]] if in_all else 1,
            )
        )
        taking = self.separators | {one.above for one in inner}
        for one in reversed(inner):
            part = self.places[one.attrs]
            link = link_of(self.domain, (), self.places[one.above].axes, part)
            link.shared = int(one.attrs in taking)
            self.folds.append((self.places[one.above].at, link))
            if one.attrs in taking:
                self.copied[part.at] = part.size


class _Inner(NamedTuple):
    """A table inside another, and the smallest one that it lies in."""

    attrs: frozenset[str]
    above: frozenset[str]


def _number_cells(nodes: Sequence[Node]) -> None:
    """Set where the cells and rows of each node begin among those of all."""
    table = 0
    row_at = 0
    for node in nodes:
        node.table = table
        node.row_at = row_at
        table += node.rows * node.cells
        row_at += node.rows


def _point_to_separators(
    nodes: Sequence[Node],
    hosts: Mapping[frozenset[str], int],
    places: Mapping[frozenset[str], Place],
) -> None:
    """Set where each node's separator lies, and what a node needs of it on the way down."""
    for node in nodes:
        if not node.sep:
            continue
        host = nodes[hosts[frozenset(node.sep)]]
        node.separator = places[frozenset(node.sep)].at
        if host.local == DENSE and host.local_at == node.separator:
            node.needs = 0
        else:
            shared_by_lanes = {link.at: link.shared for link in host.links}
            node.needs = shared_by_lanes.get(node.separator, 2)


def _stages(nodes: Sequence[Node], hosts: Mapping[frozenset[str], int]) -> list[list[Node]]:
    """The nodes by depth, roots first."""
    depth: list[int] = []
    stages: list[list[Node]] = []
    for node in nodes:
        depth.append(1 + depth[hosts[frozenset(node.sep)]] if node.sep else 0)
        if depth[-1] == len(stages):
            stages.append([])
        stages[depth[-1]].append(node)
    return stages


def _own_table(
    domain: Domain, node: Node, at: int, used: tuple[Clique, np.ndarray] | None
) -> Place:
    """A place for all cells of the node, or only for the used ones where they are few."""
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

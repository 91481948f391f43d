"""A junction tree as nodes [separator | residual], from the roots down.

Two rules keep rows short and many, which is what threads and caches want. The tree is rooted at its
smallest common separator. A node whose rows are longer than `ROW_LIMIT` cells gets a *prefix* node
over its first residual axes.
"""

from collections.abc import Collection, Sequence

from ..domain import Clique, Domain
from .junction_tree import JunctionTree
from .nodes import Node

ROW_LIMIT = 4096


class RootedNodes:
    """`nodes`: from the roots down. `hosts`: for every separator, the number of the node that hosts
    its table."""

    def __init__(self, domain: Domain, tree: JunctionTree):
        self.domain = domain
        self.tree = tree
        self.nodes: list[Node] = []
        self.hosts: dict[frozenset[str], int] = {}
        self._around = tree.neighbours()
        self._axes_of: dict[frozenset[str], Clique] = {}
        often = {a: sum(a in c for c in tree.cliques) for a in domain}
        # Attributes of many cliques come first, so that axes are in the same order wherever they are.
        self._rank = {a: (-often[a], i) for i, a in enumerate(domain)}
        for component in _components(self._around):
            self._add_component(component)

    def smallest_holding(self, attrs: Collection[str]) -> int:
        """The number of the smallest node so far that has all these attributes."""
        holding = [i for i, node in enumerate(self.nodes) if set(attrs) <= set(node.axes)]
        return min(holding, key=lambda i: self.nodes[i].rows * self.nodes[i].cells)

    def _add_component(self, component: Sequence[int]) -> None:
        """Add the cliques of one connected part of the tree, breadth first from its root."""
        cliques = self.tree.cliques
        root, core = _root(self.domain, self.tree, component, self._around)
        first: Clique = ()
        if core and len(core) < len(cliques[root]):
            self._add((), self._ordered(core))
            first = self._separator_axes(core)
        queue = [(root, first)]
        placed = {root}
        while queue:
            i, sep = queue.pop(0)
            rest = [a for a in cliques[i] if a not in sep]
            if rest:
                self._add(sep, self._ordered(rest))
            for j in self._around[i]:
                if j not in placed:
                    placed.add(j)
                    shared = frozenset(cliques[i]) & frozenset(cliques[j])
                    queue.append((j, self._separator_axes(shared)))

    def _add(self, sep: Clique, res: Clique) -> None:
        """Add [sep | res], preceded by a prefix node where its rows would be too long."""
        cells = self.domain.cells
        if cells(res) > ROW_LIMIT and len(res) > 1:
            last = len(res) - 1
            cut = next(k for k in range(1, last + 1) if cells(res[k:]) <= ROW_LIMIT or k == last)
            self._add(sep, res[:cut])
            sep = self._separator_axes(frozenset(sep + res[:cut]))
            res = res[cut:]
        self.nodes.append(Node(sep, res, cells(sep), cells(res)))

    def _separator_axes(self, attrs: frozenset[str]) -> Clique:
        """The axes, in order, of a separator inside the smallest node so far that holds it."""
        if attrs and attrs not in self.hosts:
            self.hosts[attrs] = self.smallest_holding(attrs)
            axes = self.nodes[self.hosts[attrs]].axes
            self._axes_of[attrs] = tuple(a for a in axes if a in attrs)
        return self._axes_of.get(attrs, ())

    def _ordered(self, names: Collection[str]) -> Clique:
        return tuple(sorted(names, key=self._rank.__getitem__))


def _components(around: Sequence[Sequence[int]]) -> list[list[int]]:
    """The connected parts of the tree, each as numbers of its cliques."""
    out = []
    seen: set[int] = set()
    for start in range(len(around)):
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
        out.append(component)
    return out


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

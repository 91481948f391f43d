"""Marginals of many cliques of a model at once, inside its cliques or across the junction tree.

A clique inside a node is a sum of that node's table. A pair (a, b) that no node holds is carried
along the tree. The nodes with a form a subtree. Where an edge with separator S leaves it, P(a, S)
is a sum of the last node's table. Each further node of the way turns P(a, S) into P(a, T) = sum
over S of P(a, S) P(T | S), where T is the next separator, or b. P(T | S) is the node's own and made
once for all pairs that pass. A pair of attributes that no way connects is the product of both. Of
larger cliques, those whose attributes come to one node from different sides (all triples) are
joined there (`meeting`); others go through `Model.marginal`.
"""

import numpy as np

from ..domain import Clique, Cliques, Domain
from ..errors import ModelTooLargeError
from .graphical_model import MARGINAL_CELLS, Model
from .out_of_clique import OutOfClique
from .treesums import CARRIED_CELLS, Sums, Tree

LEAST_ROWS = 1e-300
"""Stands for the sum of a table without rows: its shares are 0."""


def marginals(
    model: Model, cliques: Cliques, threads: int = 1, max_cells: int | None = None
) -> dict[Clique, np.ndarray]:
    """Expected rows in every cell of every clique, float64, axes in the clique's order. The same
    bits for any `threads`. With `max_cells`, cliques of three columns and more that no clique of
    the model contains are left out where they need a larger table."""
    domain = model.domain
    asked = [*dict.fromkeys(domain.check(clique) for clique in cliques)]
    tree = Tree(model)
    sums = Sums(domain, tree)
    meetings = OutOfClique(domain, tree, sums, MARGINAL_CELLS if max_cells is None else max_cells)
    out: dict[Clique, np.ndarray] = {}
    pairs: list[Clique] = []
    apart: list[Clique] = []
    for clique in asked:
        node = tree.smallest(clique)
        if node is not None and clique:
            out[clique] = sums.add(node, clique, 0).reshape(domain.shape(clique))
        elif len(clique) == 2:
            connected = tree.part[clique[0]] == tree.part[clique[1]]
            (pairs if connected else apart).append(clique)
        elif not meetings.add(clique):
            larger = _by_larger_table(model, clique, max_cells)
            if larger is not None:
                out[clique] = larger
    singles = {a: sums.add(tree.holding[a][0], (a,), 0) for pair in apart for a in pair}
    carried = _carried_pairs(domain, tree, sums, pairs, threads)
    out.update(meetings.run(threads))
    for clique in pairs:
        source, target = _source_first(domain, tree, clique)
        table = carried[source, target].reshape(domain.shape((source, target)))
        out[clique] = table if clique == (source, target) else np.ascontiguousarray(table.T)
    for one, other in apart:
        shares = singles[other] / max(float(singles[other].sum()), LEAST_ROWS)
        out[one, other] = np.multiply.outer(singles[one], shares)
    return {clique: out[clique] for clique in asked if clique in out}


def _by_larger_table(model: Model, clique: Clique, max_cells: int | None) -> np.ndarray | None:
    """The marginal by a table over all that lies between its columns. None where this has more than
    `max_cells`; without a limit of the caller's it is an error."""
    if max_cells is None:
        return model.marginal(clique)
    try:
        return model.marginal(clique, max_cells)
    except ModelTooLargeError:
        return None


def _source_first(domain: Domain, tree: Tree, pair: Clique) -> tuple[str, str]:
    """The pair from the attribute with fewer codes: its tables are carried along the tree."""
    source, target = sorted(pair, key=lambda a: (domain[a], tree.number[a]))
    return source, target


def _carried_pairs(
    domain: Domain, tree: Tree, sums: Sums, pairs: Cliques, threads: int
) -> dict[Clique, np.ndarray]:
    """Tables of (source, target) for pairs that no node holds, filled, as are all sums so far. At
    most about CARRIED_CELLS are in flight at a time."""
    targets: dict[str, set[str]] = {}
    for pair in pairs:
        source, target = _source_first(domain, tree, pair)
        targets.setdefault(source, set()).add(target)
    carried: dict[Clique, np.ndarray] = {}
    levels: list[list[tuple]] = []
    in_flight = 0
    for source, wanted in targets.items():
        in_flight += _ways(
            domain=domain,
            tree=tree,
            sums=sums,
            source=source,
            wanted=wanted,
            levels=levels,
            carried=carried,
        )
        if in_flight > CARRIED_CELLS:
            sums.run(levels, threads)
            levels = []
            in_flight = 0
    sums.run(levels, threads)
    return carried


def _ways(
    domain: Domain,
    tree: Tree,
    sums: Sums,
    source: str,
    wanted: set[str],
    levels: list[list[tuple]],
    carried: dict[Clique, np.ndarray],
) -> int:
    """Notes down in `levels` the products along all ways from one attribute to the wanted others,
    and the tables that they will fill in `carried`. Returns the number of cells of all products."""
    cells = 0

    def carry(
        level: int, node: int, separator: Clique, table: np.ndarray, to: Clique
    ) -> np.ndarray:
        """P(source, to) from P(source, separator) by the node's P(to | separator)."""
        nonlocal cells
        fresh = tuple(name for name in to if name not in separator)
        step = sums.add(node, (*separator, *fresh), domain.cells(fresh))
        base = sums.places(separator, to)
        offset = None if to[len(to) - len(fresh) :] == fresh else sums.places(fresh, to)
        out = np.empty(table.size // base.size * domain.cells(to))
        while len(levels) <= level:
            levels.append([])
        levels[level].append((table, step, base, offset, out, None, None))
        cells += out.size
        return out

    stack = []
    for node in tree.holding[source]:
        for there, separator in tree.links[node]:
            if source not in tree.sets[there] and tree.beyond[node, there] & wanted:
                stack.append((0, node, there, separator, sums.add(node, (source, *separator), 0)))
    while stack:
        level, before, node, separator, table = stack.pop()
        for target in (tree.sets[node] - set(separator)) & wanted:
            carried[source, target] = carry(level, node, separator, table, (target,))
        for there, further in tree.links[node]:
            ahead = tree.beyond[node, there] - tree.sets[node]
            if there != before and ahead & wanted:
                moved = carry(level, node, separator, table, further)
                stack.append((level + 1, node, there, further, moved))
    return cells

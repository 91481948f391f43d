"""Junction trees: which cliques a model of these measurements needs, how they hang together, how
large they are.

The size is known before anything is allocated: elimination only handles sets of names.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

from msgspec import Struct

from .._util.disjoint import DisjointSets
from ..domain import Clique, Domain, maximal
from ..errors import ModelTooLargeError

DEFAULT_MAX_CELLS = 250_000_000
"""Two float64 tables of this many cells are 4 GB; callers raise it where they have the memory."""

NO_LIMIT = 1 << 200
"""For those who want to know a tree's size, whatever it is."""


class JunctionTree(Struct, frozen=True):
    """Maximal cliques of a triangulated graph and the edges of a maximum-weight spanning forest
    over them."""

    cliques: tuple[Clique, ...]
    edges: tuple[tuple[int, int], ...]
    cells: int

    def neighbours(self) -> list[list[int]]:
        out: list[list[int]] = [[] for _ in self.cliques]
        for a, b in self.edges:
            out[a].append(b)
            out[b].append(a)
        return out


def junction_tree(
    domain: Domain, cliques: Iterable[Sequence[str]], max_cells: int | None = None
) -> JunctionTree:
    """The smallest junction tree found among several elimination heuristics, covering every
    attribute.

    Raises ModelTooLargeError, naming the size, the largest clique and the measured cliques that
    caused it.
    """
    wanted = [domain.canonical(c) for c in maximal([c for c in cliques if c])]
    graph: dict[str, set[str]] = {a: set() for a in domain}
    for clique in wanted:
        for a in clique:
            graph[a].update(b for b in clique if b != a)
    tried = [_eliminate(domain, graph, cost) for cost in (_weight, _fill, _weighted_fill)]
    best = min(tried, key=lambda found: sum(map(domain.cells, found)))
    best_cells = sum(map(domain.cells, best))
    limit = DEFAULT_MAX_CELLS if max_cells is None else max_cells
    if best_cells > limit:
        worst = max(best, key=domain.cells)
        blame = sorted(
            (c for c in wanted if len(set(c) & set(worst)) > 1), key=domain.cells, reverse=True
        )
        raise ModelTooLargeError(
            f"the model's junction tree would have {best_cells:,} cells, the limit is "
            f"{limit:,}. Its largest clique {worst} has {domain.cells(worst):,}, because of "
            "the measured cliques "
            f"{', '.join(map(str, blame[:4]))}{' ...' if len(blame) > 4 else ''}: leave one "
            "out, coarsen a column, or raise max_cells"
        )
    return JunctionTree(tuple(best), tuple(_span(domain, best)), best_cells)


def _weight(domain, graph, a):
    return domain.cells({a} | graph[a])


def _fill(domain, graph, a):
    pairs = sum(len(far) - 1 for _, far in _apart(graph, a))
    return pairs // 2, _weight(domain, graph, a)


def _weighted_fill(domain, graph, a):
    sizes = domain.shape
    cells = sum(domain[b] * (sum(sizes(far)) - domain[b]) for b, far in _apart(graph, a))
    return cells // 2, _weight(domain, graph, a)


def _apart(graph, a):
    """Each neighbour of an attribute, with those that it is not next to and itself. A pair that is
    apart is there twice, once from either side."""
    around = graph[a]
    fars = ((b, around - graph[b]) for b in around)
    return [(b, far) for b, far in fars if len(far) > 1]


def _eliminate(domain: Domain, graph: dict[str, set[str]], cost) -> list[Clique]:
    """The cliques of an elimination order that is greedy by `cost`."""
    graph = {a: set(b) for a, b in graph.items()}
    costs = {a: cost(domain, graph, a) for a in graph}
    eliminated: list[frozenset[str]] = []
    while graph:
        a = min(graph, key=lambda name: costs[name])
        around = graph.pop(a)
        eliminated.append(frozenset(around | {a}))
        for b in around:
            graph[b] |= around
            graph[b] -= {a, b}
        touched = set(around).union(*(graph[b] for b in around)) if around else set()
        for b in touched:
            costs[b] = cost(domain, graph, b)
    return [domain.canonical(c) for c in maximal(map(tuple, eliminated))]


def _span(domain: Domain, cliques: Sequence[Clique]) -> list[tuple[int, int]]:
    """Maximum spanning forest by separator (number of attributes, then cells): the running
    intersection holds."""
    holding: dict[str, list[int]] = {}
    for i, clique in enumerate(cliques):
        for a in clique:
            holding.setdefault(a, []).append(i)
    sets = [set(clique) for clique in cliques]
    meeting = {pair for there in holding.values() for pair in combinations(there, 2)}
    both = [(sets[i] & sets[j], i, j) for i, j in meeting]
    pairs = [(len(shared), domain.cells(shared), i, j) for shared, i, j in both]
    pairs.sort(key=lambda p: (-p[0], -p[1], p[2], p[3]))
    joined = DisjointSets(range(len(cliques)))
    return [(i, j) for _, _, i, j in pairs if joined.merge(i, j)]

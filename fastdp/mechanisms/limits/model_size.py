"""How large the model of a run can become, from public facts alone: known before anything is
reserved or built."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from ..._util.disjoint import DisjointSets
from ...domain import Clique, Cliques, Domain
from ...errors import ModelTooLargeError
from ...model.junction_tree import DEFAULT_MAX_CELLS, NO_LIMIT, junction_tree


class LargestModel(Struct, frozen=True):
    """An upper bound on the `cells` of a run's largest table (the junction tree of its model, or
    its histogram of users; 0: it has neither). `exact`: the structure is fixed before the run, so
    the bound is the size itself. `cliques`: those of that structure. `limit`: the mechanism's own
    limit on these cells."""

    cells: int = 0
    exact: bool = True
    cliques: tuple[Clique, ...] = ()
    limit: int | None = None

    def within(self, max_cells: int) -> LargestModel:
        """The same where a mechanism leaves out what would make its model larger than
        `max_cells`."""
        return self if self.cells <= max_cells else LargestModel(max_cells, False, self.cliques)


def tree_size(domain: Domain, cliques: Sequence[Sequence[str]]) -> LargestModel:
    """The junction tree of a structure that is known; 0 cells where there are no cliques."""
    if not cliques:
        return LargestModel()
    asked = tuple(domain.check(c) for c in cliques)
    return LargestModel(junction_tree(domain, asked, NO_LIMIT).cells, True, asked)


def largest_forest(domain: Domain, max_pair: int, fixed: Cliques = ()) -> LargestModel:
    """The largest model of a spanning forest of pairs of at most `max_pair` cells each, whichever
    are chosen, together with the cliques that are `fixed`. A pair either joins two columns that
    neither fixed cliques nor other pairs connect, or lies within a fixed clique and costs nothing.

    A forest of pairs is its own junction tree. So its model has the sum of the pairs' cells, and of
    the attributes that no pair names. Forests are the independent sets of the graphic matroid,
    where Kruskal's greedy choice of the largest pair first gives a basis of the largest sum. With
    fixed cliques contracted it is a graphic matroid again, and each pair is a bridge, so that
    nothing is filled in.
    """
    groups = DisjointSets(domain)
    pairs = [p for p in combinations(domain, 2) if domain.cells(p) <= max_pair]
    chosen: list[Clique] = []
    for clique in fixed:
        for a in clique[1:]:
            groups.merge(a, clique[0])
    for a, b in sorted(pairs, key=domain.cells, reverse=True):
        if groups.merge(a, b):
            chosen.append((a, b))
    inside = {a for clique in fixed for a in clique}
    joined = inside | {a for p in chosen for a in p}
    # A column of one value counts as two: merging it is not free.
    held = Domain({a: max(2, n) for a, n in domain.items() if a in inside})
    kept = junction_tree(held, fixed, NO_LIMIT).cliques if held else ()
    cliques = (*kept, *chosen, *((a,) for a in domain if a not in joined))
    return LargestModel(sum(map(domain.cells, cliques)), False, cliques)


def fixed_size(domain: Domain, cliques: Cliques, fixed: Cliques, limit: int) -> LargestModel | None:
    """The junction tree of what is measured in any case (`cliques`) and of constraints, where that
    alone is above a mechanism's own limit; None if it is not."""
    if not fixed:
        return None
    least = tree_size(domain, [*cliques, *fixed])
    return replace(least, limit=limit) if least.cells > limit else None


def check_size(largest: LargestModel, domain: Domain, max_cells: int | None) -> None:
    """ModelTooLargeError, before anything is reserved, where a run could end with a larger model
    than `max_cells` (None: the default of `fit`)."""
    limit = DEFAULT_MAX_CELLS if max_cells is None else max_cells
    limit = limit if largest.limit is None else min(limit, largest.limit)
    if largest.cells <= limit:
        return
    if largest.exact and len(largest.cliques) > 1:
        try:
            junction_tree(domain, largest.cliques, limit)  # its error names the cliques
        except ModelTooLargeError as error:
            raise ModelTooLargeError(
                f"{error} (max_cells=), or memory= where that is the limit; nothing was charged"
            ) from None
    worst = max(largest.cliques, key=domain.cells, default=())
    of = f" (largest part: {' x '.join(worst)}, {domain.cells(worst):,} cells)" if worst else ""
    would = "would have" if largest.exact else "is chosen in the run and could have up to"
    raise ModelTooLargeError(
        f"the model {would} {largest.cells:,} cells{of}, the limit is {limit:,}; nothing was"
        " charged. Leave a column out, coarsen one, or raise max_cells= or memory="
    )

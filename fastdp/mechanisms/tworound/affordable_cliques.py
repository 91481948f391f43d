"""Which marginals a model can afford: by their own size, and by the junction tree that they make
together."""

from collections.abc import Mapping, Sequence

from ...domain import Clique, Domain
from ...model.junction_tree import NO_LIMIT, junction_tree


def affordable(
    domain: Domain,
    cliques: Sequence[Clique],
    max_marginal: int,
    max_cells: int,
    fixed: Sequence[Clique] = (),
    weight: Mapping[Clique, float] | None = None,
) -> tuple[list[Clique], dict[Clique, str]]:
    """(cliques that stay, why each of the others goes).

    Cliques of more than `max_marginal` cells are dropped first. Then cliques are dropped while the
    junction tree of the rest (and of `fixed`, which always stays) has more than `max_cells` cells.
    The clique whose removal saves the most cells per squared weight goes first. Only cliques that
    share two attributes or more with the tree's largest clique can shrink the tree.
    """
    large = {c: cells for c in cliques if (cells := domain.cells(c)) > max_marginal}
    dropped = {c: f"{cells:,} cells, more than {max_marginal:,}" for c, cells in large.items()}
    left = [c for c in cliques if c not in dropped]
    tree = junction_tree(domain, [*left, *fixed], NO_LIMIT)
    while tree.cells > max_cells and left:
        worst = set(max(tree.cliques, key=domain.cells))
        suspects = [c for c in left if len(worst & set(c)) > 1] or left
        trees = {
            c: junction_tree(domain, [*(d for d in left if d != c), *fixed], NO_LIMIT)
            for c in suspects
        }

        def price(c: Clique) -> tuple[float, float]:
            saved = max(0, tree.cells - trees[c].cells)  # noqa: B023  used before `tree` changes
            importance = weight[c] if weight and c in weight else 1.0
            return saved / importance**2, domain.cells(c) / importance**2

        out = max(suspects, key=price)
        dropped[out] = f"the model would have {tree.cells:,} cells, more than {max_cells:,}"
        left.remove(out)
        tree = trees[out]
    return left, dropped

"""The public distribution as a graphical model: what `refine` starts from.

Each node of a junction tree over the public cliques is p(residual | separator) from public counts,
with Witten-Bell smoothing. If a condition occurs n times with t different outcomes, weight t / (n +
t) goes to the distribution with one condition column less. The column that is least informative
about the outcome is left out. So every combination of the domain has positive probability, and
counts of rare conditions have little weight.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..._core.infer import Engine
from ..._util.threads import resolve
from ...domain import Clique, Domain
from ...errors import UsageError
from ...model.graphical_model import Model, Node
from ...model.junction_tree import junction_tree
from ...model.layout import make_plan

Counts = Mapping[Clique, tuple[np.ndarray, np.ndarray]]


def prior_model(
    domain: Domain, counts: Counts, total: float = 1.0, threads: int | None = None
) -> Model:
    """The model of public marginals, given as (cells, counts). The cliques of `counts` must contain
    all cliques of the junction tree; `tree_cliques` returns such cliques."""
    tree = junction_tree(domain, list(counts))
    plan = make_plan(domain, tree, {frozenset(c): None for c in counts})
    nodes = []
    for node in plan.nodes:
        sep = tuple(node.sep)
        res = tuple(node.res)
        nodes.append(
            Node(sep, res, smoothed(domain, _joint(domain, counts, (*sep, *res)), sep, res))
        )
    # A model's tables are joint marginals: one pass over the tree turns the conditionals into them.
    plan = make_plan(domain, tree, {frozenset(node.axes): None for node in nodes})
    tables = np.empty(plan.cells)
    marginals = np.empty(max(plan.size, 1))
    theta = Model(domain, nodes, total=total).potentials(plan)
    Engine(plan, resolve(threads)).infer(theta, total, tables, marginals)
    return Model.from_plan(plan, tables, total=total, ended="public counts")


def tree_cliques(domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
    """The cliques of a junction tree over `cliques` and all other columns: these have to be
    counted."""
    covered = {a for c in cliques for a in c}
    wanted = [*cliques, *((a,) for a in domain if a not in covered)]
    plan = make_plan(domain, junction_tree(domain, wanted), {frozenset(c): None for c in wanted})
    return list(dict.fromkeys(domain.canonical((*n.sep, *n.res)) for n in plan.nodes))


def smoothed(domain: Domain, joint: np.ndarray, sep: Clique, res: Clique) -> np.ndarray:
    """float64 [cells of sep, cells of res]: smoothed p(res | sep), from counts with axes (*sep,
    *res)."""
    width = domain.cells(res)
    if not sep:
        return _blend(joint.reshape(1, width), np.full((1, width), 1.0 / width))
    drop = _least(joint, len(sep))
    below = smoothed(domain, joint.sum(axis=drop), sep[:drop] + sep[drop + 1 :], res)
    shape = domain.shape(sep)
    wide = below.reshape(*shape[:drop], 1, *shape[drop + 1 :], width)
    return _blend(
        joint.reshape(-1, width), np.broadcast_to(wide, (*shape, width)).reshape(-1, width)
    )


def _blend(counts: np.ndarray, below: np.ndarray) -> np.ndarray:
    seen = counts.sum(axis=1, keepdims=True)
    kinds = np.maximum((counts > 0).sum(axis=1, keepdims=True), 1)
    return (counts + kinds * below) / (seen + kinds)


def _least(joint: np.ndarray, conditions: int) -> int:
    """The condition column (an axis of `joint`) whose removal leaves the largest log likelihood,
    the sum of n(res, rest) log p(res | rest)."""
    if conditions == 1:
        return 0

    def likelihood(axis: int) -> float:
        table = joint.sum(axis=axis).astype(np.float64)
        table = table.reshape(int(np.prod(table.shape[: conditions - 1])), -1)
        sums = np.broadcast_to(table.sum(axis=1, keepdims=True), table.shape)
        seen = table > 0
        return float((table[seen] * np.log(table[seen] / sums[seen])).sum())

    return max(range(conditions), key=likelihood)


def _joint(domain: Domain, counts: Counts, axes: Clique) -> np.ndarray:
    """Public counts over `axes`, summed from the smallest counted clique that contains them."""
    holders = [c for c in counts if set(axes) <= set(c)]
    if not holders:
        raise UsageError(f"the public model has no counts of {', '.join(axes)}; fit it again")
    clique = min(holders, key=domain.cells)
    cells, times = counts[clique]
    codes = dict(zip(clique, np.unravel_index(cells, domain.shape(clique))))
    shape = domain.shape(axes)
    flat = np.ravel_multi_index([codes[a] for a in axes], shape)
    return np.bincount(flat, times, minlength=int(np.prod(shape))).reshape(shape)

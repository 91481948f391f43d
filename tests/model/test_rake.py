"""Raking along the tree against iterative proportional fitting of the whole joint table."""

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.model.rake import CliqueTables, Target, merged
from fastdp.model.tree import junction_tree

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5, "e": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("b", "d")]
NAMES = list(DOMAIN)


def marginal(joint, clique):
    kept = [a for a in NAMES if a in clique]
    table = joint.sum(axis=tuple(i for i, a in enumerate(NAMES) if a not in clique))
    return table.transpose([kept.index(a) for a in clique])


def targets_of(joint, rng, bins=False):
    out = []
    for clique in CLIQUES:
        maps = [rng.permutation(np.arange(DOMAIN[a]) // 2) if bins and a in "bd" else None for a in clique]
        out.append(Target(clique, merged(marginal(joint, clique), maps), 1.0, maps))
    return out


def raked(targets, tours, floor=0.0):
    shares = {a: np.full(n, 1 / n) for a, n in DOMAIN.items()}
    cliques = CliqueTables.independent(DOMAIN, junction_tree(DOMAIN, CLIQUES), shares, 1000.0)
    cliques.rake(targets, tours, floor)
    return cliques


def fitted(targets, sweeps):
    """Iterative proportional fitting on all cells at once."""
    joint = np.full(DOMAIN.shape(NAMES), 1000.0 / DOMAIN.cells(NAMES))
    for _ in range(sweeps):
        for target in targets:
            ratio = target.table / merged(marginal(joint, target.clique), target.bins)
            for axis, b in enumerate(target.bins):
                ratio = ratio if b is None else ratio.take(b, axis)
            order = [a for a in NAMES if a in target.clique]
            ratio = ratio.transpose([target.clique.index(a) for a in order])
            joint = joint * ratio.reshape([DOMAIN[a] if a in target.clique else 1 for a in NAMES])
    return joint


@pytest.mark.parametrize("bins", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_it_converges_to_the_fit_of_the_whole_table(seed, bins):
    rng = np.random.default_rng(seed)
    truth = rng.gamma(0.5, size=DOMAIN.shape(NAMES)) + 0.05
    targets = targets_of(truth * 1000 / truth.sum(), rng, bins)
    cliques, joint = raked(targets, 300), fitted(targets, 300)
    for clique in [*CLIQUES, *junction_tree(DOMAIN, CLIQUES).cliques]:
        np.testing.assert_allclose(cliques.marginal(tuple(clique)), marginal(joint, clique), rtol=1e-5)


def test_cliques_stay_calibrated_after_any_number_of_tours():
    rng = np.random.default_rng(1)
    truth = rng.gamma(0.5, size=DOMAIN.shape(NAMES))
    for tours in (1, 2, 5):
        cliques = raked(targets_of(truth * 1000 / truth.sum(), rng), tours, floor=0.05)
        cliques.calibrate(1000.0)
        for i, j in cliques.tree.edges:
            shared = [a for a in cliques.tree.cliques[i] if a in cliques.tree.cliques[j]]
            sides = []
            for k in (i, j):
                names = cliques.tree.cliques[k]
                table = cliques.tables[k].sum(axis=tuple(n for n, a in enumerate(names) if a not in shared))
                order = [a for a in names if a in shared]
                sides.append(table.transpose([order.index(a) for a in shared]))
            np.testing.assert_allclose(sides[0], sides[1], rtol=1e-9)
        assert all(table.sum() == pytest.approx(1000.0) for table in cliques.tables)


def test_zeros_stay_zero():
    rng = np.random.default_rng(2)
    truth = rng.gamma(0.5, size=DOMAIN.shape(NAMES))
    cliques = raked(targets_of(truth, rng), 0)
    k = cliques.home(("a", "b"))
    axis = cliques.tree.cliques[k].index("a")
    np.moveaxis(cliques.tables[k], axis, 0)[1] = 0
    cliques.calibrate(1000.0)
    cliques.rake(targets_of(truth * 1000 / truth.sum(), rng), 3)
    assert cliques.marginal(("a", "b"))[1].sum() == 0

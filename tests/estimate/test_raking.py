"""Raking along the tree against iterative proportional fitting of the whole joint table."""

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.estimate.dual.raking import FLOOR, CliqueTables, Frame, Target, merge_codes
from fastdp.model.junction_tree import junction_tree

from ..reference.cliques import projection

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5, "e": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "d"), ("b", "d")]


def targets_of(joint, rng, bins=False):
    out = []
    for clique in CLIQUES:
        maps = [
            rng.permutation(np.arange(DOMAIN[a]) // 2) if bins and a in "bd" else None
            for a in clique
        ]
        out.append(Target(clique, merge_codes(projection(DOMAIN, joint, clique), maps), 1.0, maps))
    return out


def raked(targets, tours, floor=0.0, stalled=0.0):
    shares = {a: np.full(n, 1 / n) for a, n in DOMAIN.items()}
    cliques = CliqueTables.independent(
        Frame(DOMAIN, junction_tree(DOMAIN, CLIQUES)), shares, 1000.0
    )
    cliques.rake(targets, tours, floor, stalled)
    return cliques


def fitted(domain, joint, targets, sweeps, floor=0.0):
    """Iterative proportional fitting on all cells at once: the slow twin."""
    for target in list(targets) * sweeps:
        least = floor * target.sigma
        now = merge_codes(projection(domain, joint, target.clique), target.bins)
        ratio = (target.table + least) / (now + least)
        for axis, b in enumerate(target.bins):
            ratio = ratio if b is None else ratio.take(b, axis)
        order = [a for a in domain if a in target.clique]
        ratio = ratio.transpose([target.clique.index(a) for a in order])
        joint = joint * ratio.reshape([domain[a] if a in target.clique else 1 for a in domain])
    return joint


@pytest.mark.parametrize("bins", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_it_converges_to_the_fit_of_the_whole_table(seed, bins):
    rng = np.random.default_rng(seed)
    shape = DOMAIN.shape(tuple(DOMAIN))
    truth = rng.gamma(0.5, size=shape) + 0.05
    targets = targets_of(truth * 1000 / truth.sum(), rng, bins)
    cliques = raked(targets, 300)
    joint = fitted(DOMAIN, np.full(shape, 1000 / truth.size), targets, 300)
    for clique in [*CLIQUES, *junction_tree(DOMAIN, CLIQUES).cliques]:
        expected = projection(DOMAIN, joint, clique)
        np.testing.assert_allclose(cliques.marginal(tuple(clique)), expected, rtol=1e-5)
    # What is off falls by more than that until rounding is left.
    ended = raked(targets, 10**4, stalled=1e-3)
    for target in targets:
        found = merge_codes(ended.marginal(target.clique), target.bins)
        np.testing.assert_allclose(found, target.table, rtol=1e-6)


def random_targets(domain, cliques, total, rng):
    """Tables that need not agree, some of merged codes."""
    out = []
    for clique in cliques:
        bins = [
            rng.integers(0, 3, domain[a]) if rng.random() < 0.3 and domain[a] > 4 else None
            for a in clique
        ]
        bins = [b if b is None or np.unique(b).size == 3 else None for b in bins]
        table = rng.gamma(0.5, size=[domain[a] if b is None else 3 for a, b in zip(clique, bins)])
        out.append(Target(tuple(clique), table * total / table.sum(), 2.0, bins))
    return out


@pytest.mark.parametrize("seed", range(4))
def test_every_step_is_one_on_the_whole_table(seed, monkeypatch):
    """Three tours, in the order of the walk, of targets that contradict each other. Cliques of
    several sizes: rows of one attribute and of several, measured whole and in part, in few lanes
    and in many."""
    monkeypatch.setattr("fastdp.estimate.dual.dual_plan.LANE_CELLS", 4096 >> 4 * seed)
    rng = np.random.default_rng(seed)
    domain = Domain({f"c{i}": int(n) for i, n in enumerate(rng.permutation([2, 3, 3, 5, 17, 19]))})
    names = list(domain)
    cliques = [tuple(rng.permutation(names)[: rng.integers(2, 4)]) for _ in range(9)]
    frame = Frame(domain, junction_tree(domain, cliques))
    shares = {a: rng.dirichlet(np.ones(n)) for a, n in domain.items()}
    targets = random_targets(domain, cliques, 500.0, rng)
    ours = CliqueTables.independent(frame, shares, 500.0)
    assert ours.rake(targets, 3) == 3
    first_large = sorted(targets, key=lambda t: -t.table.size)
    entered = [j for _, j, down in frame.walk() if down]
    order = [t for j in entered for t in first_large if frame.home(t.clique) == j]
    joint = 500.0 * np.einsum(*(part for i, a in enumerate(names) for part in (shares[a], [i])))
    joint = fitted(domain, joint, order, 3, FLOOR)
    for clique in [*cliques, *frame.tree.cliques]:
        expected = projection(domain, joint, clique)
        np.testing.assert_allclose(ours.marginal(clique), expected, rtol=1e-9, atol=1e-12)

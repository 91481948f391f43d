"""The benchmark's stand-ins for the peers are right: queries, belief propagation, loss, mirror descent."""

from itertools import product as cartesian

import numpy as np
import pytest

from bench import adagrid_queries as grid
from bench import measurements, reference_pgm
from fastdp.domain import Domain, downward_closure
from fastdp.queries import AdaGrid, Grid


def random_masks(domain, outer, rng):
    fine, above = {}, {}
    for clique in sorted(downward_closure(outer), key=len):
        fine[clique] = grid.plausible(domain, clique, above)
        above[clique] = fine[clique] & (rng.random(domain.cells(clique)) < 0.7)
    return fine


@pytest.mark.parametrize("seed", range(5))
def test_matrices_projections_and_fastdp_agree(seed):
    rng = np.random.default_rng(seed)
    domain = Domain(dict(zip("abcd", rng.integers(2, 6, 4).tolist(), strict=True)))
    fine = random_masks(domain, [tuple("abcd")], rng)
    matrices, grids = grid.explicit_adagrid(domain, fine), {}
    for clique, mask in fine.items():
        below = tuple(grids[c] for c in grid.children(clique))
        grids[clique] = Grid(clique, domain.shape(clique), np.flatnonzero(mask), below)
        x = rng.random(mask.size)
        rows, scalar = grid.product(domain, fine, clique, x), grid.scalars(domain, fine, clique)
        assert np.allclose(matrices[clique] @ x, scalar * rows)
        assert np.allclose(matrices[clique].power(2).sum(axis=0), 1)
        query = AdaGrid(grids[clique])
        assert np.allclose(query.product(x), rows)
        assert np.allclose(np.divide(*query.coef2), scalar**2)


def small_problem(kind, rng, sigma=2.0):
    domain = Domain({"p": 3, "s": 1, "f": 4, "t": 2, "d": 3})
    outer = [("p", "s", "f", "t"), ("p", "f", "d")]
    joint = rng.dirichlet(np.full(72, 0.3)).reshape(domain.shape(domain)) * 1000
    true = {c: joint.sum(axis=tuple(i for i, a in enumerate(domain) if a not in c)).ravel() for c in outer}
    fine = random_masks(domain, outer, rng) if kind == "adagrid" else {}
    measured = []
    for clique in sorted(downward_closure(outer), key=len):
        source = next(c for c in outer if set(clique) <= set(c))
        x = grid.project(domain, source, true[source], clique)
        mask, spread = fine.get(clique), np.full(x.size, sigma)
        if mask is not None:
            x = grid.product(domain, fine, clique, x)
            spread = sigma / grid.scalars(domain, fine, clique)
        y = x + rng.normal(size=x.size) * spread
        measured.append(measurements.Measured(clique, y, spread, mask))
    tables = [true[c] for c in outer]
    return measurements.Problem("small", domain, measured, outer, tables, tables, 1000)


def test_belief_propagation_equals_brute_force():
    rng = np.random.default_rng(1)
    problem = small_problem("identity", rng)
    domain = problem.domain
    potentials = {c: rng.normal(size=domain.shape(c)) * 3 for c in problem.outer}
    joint = np.zeros(domain.shape(domain))
    for cell in cartesian(*(range(n) for n in domain.values())):
        code = dict(zip(domain, cell, strict=True))
        joint[cell] = np.exp(sum(t[tuple(code[a] for a in c)] for c, t in potentials.items()))
    joint *= 50 / joint.sum()
    got = reference_pgm.belief_propagation(reference_pgm.junction_order(problem.outer), potentials, 50.0)
    for c, table in got.items():
        want = joint.sum(axis=tuple(i for i, a in enumerate(domain) if a not in c))
        assert np.allclose(table, want, rtol=1e-12)


@pytest.mark.parametrize("kind", ["identity", "adagrid"])
def test_objective_gradient_and_descent(kind):
    rng = np.random.default_rng(2)
    problem = small_problem(kind, rng)
    objective = reference_pgm.Objective(problem)
    x = {c: rng.random(problem.domain.shape(c)) * 30 for c in problem.outer}
    x = reference_pgm.belief_propagation(
        reference_pgm.junction_order(problem.outer), {c: np.log(t) for c, t in x.items()}, 1000.0
    )
    loss, slope = objective(x)
    assert np.isclose(loss, problem.loss({c: t.ravel() for c, t in x.items()}))
    way = {c: rng.normal(size=t.shape) for c, t in x.items()}
    ahead, behind = (objective({c: x[c] + h * way[c] for c in x})[0] for h in (1e-3, -1e-3))
    assert np.isclose((ahead - behind) / 2e-3, sum(np.vdot(slope[c], way[c]) for c in x), rtol=1e-6)
    fitted, trace = reference_pgm.mirror_descent(problem, 1000.0, 300)
    assert all(b <= a + 1e-9 * abs(a) for a, b in zip(trace.loss, trace.loss[1:], strict=False))
    truth = problem.loss(dict(zip(problem.outer, problem.truth, strict=True)))
    assert trace.loss[-1] < truth  # the fit explains the noise at least as well as the truth does
    assert np.isclose(sum(fitted[problem.outer[0]].ravel()), 1000)


@pytest.mark.parametrize("kind", ["identity", "adagrid"])
@pytest.mark.parametrize("seed", range(3))
def test_both_oracles_take_the_same_way(kind, seed):
    problem = small_problem(kind, np.random.default_rng(seed), sigma=20.0)
    start = reference_pgm.one_ways(problem, 1000.0, 50)
    assert set(start) == {(a,) for a in problem.domain}
    slow = reference_pgm.Slow(reference_pgm.Objective(problem), 1000.0, start)
    fast = reference_pgm.Fast(problem, 1000.0, start, threads=1)
    ours, theirs = (reference_pgm.descend(p, 40) for p in (slow, fast))
    assert np.allclose(ours.loss, theirs.loss, rtol=1e-9)
    assert ours.calls == theirs.calls
    model = fast.model()
    for c, table in slow.marginals.items():
        assert np.allclose(model.marginal(c), table, rtol=1e-7, atol=1e-9)

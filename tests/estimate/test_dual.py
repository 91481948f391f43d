"""The dual against its dense twin, differential equations and mirror descent."""

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp import Measurement
from fastdp._core.dual import Dual, Dual as Core
from fastdp.domain import Domain
from fastdp.estimate.dual import dual_plan, local_consistency, newton
from fastdp.estimate.dual.dual_plan import Link, Table, plan_dual
from fastdp.estimate.dual.region_graph import make_regions, with_meets
from fastdp.estimate.estimator import fit
from fastdp.queries import Binned

from ..reference import dual as twin
from ..reference.cliques import projection
from .test_estimator import measure, skewed, stated_loss
from .test_flow import measured

DOMAIN = Domain({"a": 5, "b": 4, "c": 3, "d": 6, "e": 2})
CLIQUES = [
    ("a",),
    ("b",),
    ("d",),
    ("a", "b"),
    ("b", "c"),
    ("d", "a"),
    ("a", "b", "c"),
    ("e", "d"),
    ("c",),
]


def problem_of(seed, cliques=None, louder=1.0):
    """Random regions: some merged, some repeated, some with a sigma per cell; `louder` noise."""
    rng = np.random.default_rng(seed)
    joint = skewed(DOMAIN, rng, 2000.0)
    if cliques is None:
        cliques = [CLIQUES[i] for i in rng.permutation(len(CLIQUES))[: rng.integers(2, 7)]]
    seen = []
    for clique in cliques:
        counts = projection(DOMAIN, joint, clique).reshape(-1)
        query = None
        if rng.random() < 0.5:
            maps = [rng.integers(0, max(1, n - 1), n).tolist() for n in DOMAIN.shape(clique)]
            query = Binned(DOMAIN.shape(clique), maps)
            counts = query.product(counts)
        for _ in range(rng.integers(1, 3)):
            sigma = louder * (rng.uniform(5, 30, counts.size) if rng.random() < 0.3 else 12.0)
            seen.append(
                Measurement(clique, counts + sigma * rng.normal(size=counts.size), sigma, query)
            )
    return seen, make_regions(DOMAIN, seen), joint


def made(problem, total, rng, threads=1):
    """A dual with random centres."""
    solver = newton.Dual(problem, total, threads)
    around = [rng.gamma(1.0, 20.0, r.shape) + 0.1 for r in problem.regions]
    for i, centre in enumerate(around):
        solver.centre(i, centre)
    return solver, around


@given(st.floats(-6, 12), st.floats(1e-3, 50), st.floats(0.01, 10))
@settings(max_examples=20, deadline=None)
def test_phi_is_the_mirror_flow(v, c, tau):
    from scipy.integrate import solve_ivp

    flow = solve_ivp(lambda _, t: -(np.exp(t) - v), (0, tau), [math.log(c)], rtol=1e-9, atol=1e-11)
    core = Core(plan_dual([Table(1, 1, 1.0, [Link(0, 1, 1.0, None, "row")])]), np.zeros(1), 1)
    core.y[:] = v
    core.inverse[:] = 1 / c
    cells = np.empty(1)
    core.evaluate(np.zeros(1), np.array([tau]), np.ones(1), cells)
    assert cells[0] == pytest.approx(math.exp(flow.y[0, -1]), rel=1e-6)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_exact_marginals_satisfy_all_constraints(seed):
    """Tables of one distribution satisfy every constraint, whatever was merged."""
    _, problem, joint = problem_of(seed)
    if problem is None:
        return
    matrix, totals = twin.matrix(problem)
    tables = []
    for r in problem.regions:
        cube = projection(DOMAIN, joint, r.clique)
        bins = [problem.partitions.bins[a][dict(r.names)[a]] for a in r.clique]
        tables.append(local_consistency.merge_codes(cube, bins).reshape(-1))
    lack = matrix @ np.concatenate(tables) - np.where(totals, joint.sum(), 0)
    np.testing.assert_allclose(lack, 0, atol=1e-8)
    assert totals.any()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_evaluate_solve_and_probe_are_those_of_the_twin(seed):
    """However the work is cut into lanes and pieces: no entry is lost or counted twice."""
    _, problem, _ = problem_of(seed)
    if problem is None:
        return
    rng = np.random.default_rng(seed + 1)
    cut = {"LANE_CELLS": int(rng.choice([1, 7, 16384])), "PIECE": int(rng.choice([1, 5, 4096]))}
    with mock.patch.multiple(dual_plan, **cut):
        solver, centres = made(problem, 2000.0, rng)
    n = len(problem.regions)
    tau = rng.choice([0.1, 1.0, 4.0, math.inf], n)
    kappa = rng.choice([1.0, 0.01], n)
    x = rng.normal(size=solver.x.size) * 0.01
    cells = np.empty(solver.core.cells)
    sums = solver.core.evaluate(x, tau, kappa, cells)
    g, hessian, u, s, _ = twin.evaluate(problem, 2000.0, x, tau, kappa, centres)
    np.testing.assert_allclose(cells, u, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(solver.core.gradient, g, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(sums, s, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(solver.core.diagonal, np.diag(hessian), rtol=1e-5, atol=1e-5)
    deviations = np.abs(g) / np.sqrt(np.maximum(np.diag(hessian), 1e-12))
    assert solver.core.worst == pytest.approx(deviations.max(), rel=1e-4)
    assert solver.core.rms == pytest.approx(np.sqrt(np.mean(deviations**2)), rel=1e-4)
    b = hessian @ rng.normal(size=x.size)
    np.testing.assert_allclose(
        hessian @ solver.core.solve(b, 1e-10, 500), b, rtol=1e-3, atol=1e-3 * np.abs(b).max()
    )
    smooth = np.where(np.isinf(tau), 2.0, tau)
    solver.core.evaluate(x, smooth, kappa)
    expected = twin.through_multipliers(problem, 2000.0, x, smooth, kappa, centres, 7)
    np.testing.assert_allclose(solver.core.probe(7, 1e-10, 500), expected, rtol=1e-3, atol=1e-3)


def blocks_of(seed, sizes, lane_cells, threads=1):
    """A dual, evaluated, whose regions all have the first and the last attribute, some with a sigma
    per cell."""
    domain = Domain(dict(zip("fbcdl", sizes)))
    rng = np.random.default_rng(seed)
    seen = []
    for clique in ["fbcl", "fcdl", "fcl", "fbdl", "fbl"][: 5 - seed % 2]:
        cells = domain.cells(tuple(clique))
        sigma = rng.uniform(5, 30, cells) if rng.random() < 0.5 else 12.0
        noisy = rng.gamma(0.5, 40, cells) + sigma * rng.normal(size=cells)
        seen.append(Measurement(tuple(clique), noisy, sigma))
    problem = make_regions(domain, seen)
    ones = np.ones(len(seen))
    with mock.patch.object(dual_plan, "LANE_CELLS", lane_cells):
        solver, centres = made(problem, 2000.0, rng, threads)
    x = rng.normal(size=solver.x.size) * 0.01
    solver.core.evaluate(x, ones, ones)
    return problem, solver.core, (2000.0, x, ones, ones, centres)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_are_solved_as_the_twin(seed):
    problem, core, at = blocks_of(seed, (3, 2, 4, 3, 17), 100)
    hessian = twin.evaluate(problem, *at)[1]
    b = hessian @ np.random.default_rng(seed).normal(size=core.size)
    assert core.n_blocks == 3 * 2  # codes of f, parts of l
    np.testing.assert_allclose(
        hessian @ core.solve(b, 1e-10, 500), b, rtol=1e-3, atol=1e-3 * np.abs(b).max()
    )


@pytest.mark.parametrize("tol, most", [(1e-10, 500), (0.1, 500), (0.0, 3), (0.0, 0)])
def test_blocks_do_not_depend_on_threads(tol, most):
    cores = [blocks_of(0, (7, 9, 8, 3, 60), 1000, threads)[1] for threads in (1, 2, 5)]
    first, *others = [core.solve(core.gradient, tol, most) for core in cores]
    assert cores[0].n_blocks == 7 * 7 and first.any() == (most > 0)
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_candidates_are_multiplied_and_mixed_cell_by_cell():
    _, problem, _ = problem_of(3, [("a", "b"), ("b", "c"), ("a",)])
    rng = np.random.default_rng(1)
    n = len(problem.regions)
    solver, around = made(problem, 2000.0, rng)
    seen = rng.gamma(1.0, size=(3, solver.core.cells)).astype(np.float32)
    weights = rng.gamma(1.0, size=(n, 3))
    sigmas = [np.broadcast_to(r.sigma, r.y.shape) for r in problem.regions]
    y = np.concatenate([r.y / sigma for r, sigma in zip(problem.regions, sigmas)])
    inverse = np.concatenate([sigma / centre.reshape(-1) for sigma, centre in zip(sigmas, around)])
    np.testing.assert_allclose(solver.core.y, y, rtol=1e-12)
    np.testing.assert_allclose(solver.core.inverse, inverse, rtol=1e-12)
    gaps = [(seen - y)[:, span] for span in solver.spans]
    np.testing.assert_allclose(solver.core.gram(seen), [g @ g.T for g in gaps], rtol=1e-9)
    solver.core.inverse[0] = 0
    solver.core.mix(seen, weights)
    mixed = np.concatenate([weights[i] @ seen[:, span] for i, span in enumerate(solver.spans)])
    np.testing.assert_allclose(solver.core.y, mixed, rtol=1e-9)
    np.testing.assert_allclose(solver.core.inverse, np.append(0, 1 / mixed[1:]), rtol=1e-9)


def test_the_divergence_is_that_of_the_solution():
    """Freedom is the sum of du/dy: against central differences of whole solves, all cells, mean of
    many probes."""
    _, problem, _ = problem_of(3, [("a",), ("b",), ("a", "b"), ("b", "c")])
    rng = np.random.default_rng(0)
    solver, _ = made(problem, 2000.0, rng)
    n = len(problem.regions)
    tau = np.full(n, 1.0)
    ones = np.ones(n)
    sums = solver.solve(tau, ones, 1e-9)
    probes = np.mean([solver.core.probe(k, 1e-9, 500) for k in range(400)], axis=0)
    at = solver.core.y.copy()
    h = 1e-4
    exact = np.zeros(n)
    for i, span in enumerate(solver.spans):
        for cell in range(span.start, span.stop):
            sides = []
            for sign in (1, -1):
                solver.core.y[:] = at
                solver.core.y[cell] += sign * h
                tables = solver.tables(tau, ones, 1e-9)[0][i].reshape(-1) / problem.regions[i].sigma
                sides.append(tables[cell - span.start])
            exact[i] += (sides[0] - sides[1]) / (2 * h)
    # 400 probes of at most 20 cells: their mean is within 6 standard errors (below 0.1 each) of the
    # trace
    np.testing.assert_allclose(sums[:, 1] + probes, exact, atol=0.6)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_mixture_is_the_least_of_the_simplex(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, 4, 5))
    gram = np.einsum("nij,nkj->nik", root, root)
    gain = rng.normal(size=(2, 4))
    weights = newton.mixture(gram, gain)
    assert (weights >= 0).all() and np.allclose(weights.sum(1), 1)
    for q, b, w in zip(gram, gain, weights):
        others = rng.dirichlet(np.full(4, 0.5), 3000)
        value = np.einsum("ni,ij,nj->n", others, q, others) + 2 * others @ b
        assert w @ q @ w + 2 * b @ w <= value.min() + 1e-6


@given(st.integers(0, 10**6), st.floats(0.05, 4))
def test_weights_are_blended_up_to_the_bound(seed, part):
    """Towards the first candidate where the squares are below the bound, else the last: as far as
    the squares meet it, or to the end, or where they are nearest to it."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(3, 4, 4))
    weights = rng.dirichlet(np.ones(4), 3)
    gram = roots @ roots.swapaxes(1, 2)

    def squares(w):
        return np.einsum("ni,nij,nj->", w, gram, w)

    below = part > 1
    way = np.eye(4)[[0 if below else 3] * 3] - weights
    all_ways = [squares(weights + t * way) for t in np.linspace(0, 1, 2001)]
    made = newton._blend(gram, weights, bound := part * squares(weights))
    assert made.sum(1) == pytest.approx(np.ones(3)) and (made >= -1e-12).all()
    share = (made - weights)[0, 0 if below else 3] / way[0, 0 if below else 3]
    assert made == pytest.approx(weights + share * way)
    reached = max(all_ways) >= bound if below else min(all_ways) <= bound
    if reached:
        assert squares(made) == pytest.approx(bound, rel=1e-3)
    elif not below:
        assert squares(made) == pytest.approx(min(all_ways), rel=1e-3)
    else:
        assert share == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(2))
def test_least_loss_is_that_of_mirror_descent(seed):
    """Trees of pairs and triples, merged codes, repeats: the same loss and the same marginals."""
    cliques = [("a",), ("b",), ("c",), ("d",), ("a", "b"), ("b", "c"), ("b", "d")]
    cliques = cliques if seed % 2 else [("a",), ("d",), ("a", "b", "c"), ("b", "c"), ("c", "d")]
    rng = np.random.default_rng(seed)
    domain = Domain({a: DOMAIN[a] for a in "abcd"})
    joint = skewed(domain, rng, 5000.0)
    seen = measure(domain, joint, cliques, 20.0, rng) + measure(
        domain, joint, cliques[:1], 8.0, rng
    )
    if seed % 2:
        query = Binned((4, 6), [[0, 1, 1, 2], [0, 1, 2, 2, 2, 0]])
        seen = [m for m in seen if m.clique != ("b", "d")]
        counts = query.product(projection(domain, joint, ("b", "d")).reshape(-1))
        seen.append(
            Measurement(("b", "d"), counts + 20 * rng.normal(size=counts.size), 20.0, query)
        )
    ours = fit(domain, seen, stop="tol", method="dual")
    theirs = fit(domain, seen, stop="tol", tol=1e-12, iters=6_000, method="accelerated")
    assert ours.ended == "tolerance" and ours.iterations < 100
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-4)
    assert ours.loss <= theirs.loss * (1 + 1e-6)
    for m in seen:
        np.testing.assert_allclose(ours.marginal(m.clique), theirs.marginal(m.clique), atol=0.5)


@pytest.mark.parametrize("stop", ["noise", "risk"])
@pytest.mark.parametrize(
    "cliques", [CLIQUES[:6], [("a", "b"), ("b", "c"), ("c", "a"), ("a",)], CLIQUES]
)
def test_the_stated_loss_is_the_loss_of_its_marginals(cliques, stop):
    """Trees, loops and triples over pairs; all marginals sum to the total; passes stay few."""
    rng = np.random.default_rng(5)
    seen = measure(DOMAIN, skewed(DOMAIN, rng, 20_000.0), cliques, 15.0, rng)
    model = fit(DOMAIN, seen, stop=stop)
    assert model.loss == pytest.approx(stated_loss(model, seen), rel=1e-9)
    assert model.iterations <= 150
    for a in DOMAIN:
        assert model.marginal((a,)).sum() == pytest.approx(model.total, rel=1e-9)
    rows = sum(m.values.size for m in seen)
    if stop == "noise":
        assert model.ended == "noise level" and model.loss <= rows / 2


def test_float32_is_the_same_model_rounded():
    rng = np.random.default_rng(2)
    seen = measure(DOMAIN, skewed(DOMAIN, rng, 3000.0), [("a", "b"), ("b", "c"), ("a",)], 10.0, rng)
    full, half = (fit(DOMAIN, seen, stop="risk", tables=t) for t in ("float64", "float32"))
    assert half.nodes[0].table.dtype == np.float32
    for node, other in zip(full.nodes, half.nodes):
        np.testing.assert_allclose(other.table, node.table, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("stop", ["noise", "risk", "refined"])
@pytest.mark.parametrize(
    "method, rows", [("auto", "cells"), ("accelerated", "cells"), ("auto", "grids")]
)
def test_progress_and_cancel_go_through_every_stage(stop, method, rows):
    rng = np.random.default_rng(3)
    ticks = []
    seen = measure(DOMAIN, joint := skewed(DOMAIN, rng, 9000.0), CLIQUES, 10.0, rng)
    seen = (
        seen if rows == "cells" else measured(DOMAIN, joint, [("a", "b", "c"), ("a", "d")], 5.0, 4)
    )
    model = fit(DOMAIN, seen, stop=stop, method=method, callback=lambda *tick: ticks.append(tick))
    calls = [tick[0] for tick in ticks]
    assert calls == sorted(calls) and [t[:2] for t in ticks] == [t[:2] for t in model.trace]
    assert calls[-1] <= model.iterations

    class Cancelled(Exception):
        pass

    def cancel_after(when):
        def cancel(calls, loss, seconds):
            if calls >= when:
                raise Cancelled

        return cancel

    for when in (1, calls[len(calls) // 2], calls[-1]):
        with pytest.raises(Cancelled):
            fit(DOMAIN, seen, stop=stop, method=method, callback=cancel_after(when))


def test_a_product_with_an_inner_table_is_the_same():
    """All segments of the region lie in one of 30 x 20 entries: by its entries or by all cells,
    conjugate gradients are the same but for float32 slopes (2^-24 each) through 5 steps."""
    rng = np.random.default_rng(3)
    rows = 600
    cols = 20
    base = np.repeat(np.arange(30), 20).astype(np.int32)
    fine = (0, 600, 1.0)
    coarse = (600, 30, -1.0)
    links = [Link(*fine, (cols * base).astype(np.int32), "cell"), Link(*coarse, base, "row")]
    own = np.arange(30, dtype=np.int32)
    inner = Table(30, 20, 2.0, [Link(*fine, 20 * own, "cell"), Link(*coarse, own, "row")])
    table = Table(rows, cols, 2.0, links)
    y = rng.normal(size=rows * cols)
    steps = []
    for given_table in (table, table._replace(inner=(0, inner))):
        core = Dual(plan_dual([given_table]), np.zeros(630), 2)
        core.centre(0, np.full(y.size, 2.0), 2 * y)
        core.evaluate(np.linspace(-0.1, 0.1, 630), np.ones(1), np.ones(1))
        steps.append(core.solve(core.gradient, 0.0, 5, -1.0))
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-4, atol=1e-6 * np.abs(steps[0]).max())


@pytest.mark.parametrize("seed", range(6))
def test_sets_found_by_attribute_are_all_meets(seed):
    """The closure looks only at sets that share an attribute: all others have no meet. Comparing
    all with all gives the same sets, merged codes included."""
    _, problem, _ = problem_of(seed)
    if problem is None:
        return
    partitions = problem.partitions
    sets = [r.names for r in problem.regions]
    closed = set(sets)
    while more := {partitions.meet(x, y) for x in closed for y in closed} - closed - {frozenset()}:
        closed |= more
    assert set(with_meets(partitions, sets)) == closed
    for constraint in problem.constraints:
        assert constraint.names in closed


def test_regions_about_an_attribute_are_those_that_have_it():
    _, problem, _ = problem_of(1)
    for a in DOMAIN:
        having = [i for i, r in enumerate(problem.regions) if a in r.clique]
        assert list(problem.about(a)) == having


class SteepSlope:
    """A core whose full step goes a million times too far: the slope ahead is that of exp(length 1e6)."""

    worst = rms = 1.0

    def step(self, *arguments):
        return -1.0

    def at(self, length):
        self.along = -1.0 + length * 1e6
        self.worst = 0.0 if self.along <= 0.7 else 1e17


def test_a_step_that_goes_far_too_long_is_shortened_until_it_does_not():
    """The planted bug, steps of at least a thousandth, takes one that ends at 1e17: so a run with public
    data of other people ended with numbers that are not finite, after its charge."""
    dual = object.__new__(newton.Dual)
    dual.core = SteepSlope()
    dual.x, dual._ahead = np.zeros(1), np.zeros(1)
    dual.evaluate = lambda tau, kappa, cells, length=None: length and dual.core.at(length)
    dual.solve(np.ones(1), np.ones(1), 0.1)
    assert dual.core.worst == 0.0 and dual.core.along <= newton.ENOUGH
    dual.core = SteepSlope()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(newton, "SHORTEST", 1e-3)
        dual.solve(np.ones(1), np.ones(1), 0.1)
    assert dual.core.worst == 1e17

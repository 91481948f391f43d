"""AdaGrid's rows: distinct functionals, the approximate inverse and strides against the twin,
fits."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from fastdp import Measurement
from fastdp._core.ancestors import SparseRows
from fastdp._core.infer import Engine
from fastdp._core.team import Team
from fastdp.domain import Domain, downward_closure
from fastdp.estimate.estimator import fit
from fastdp.estimate.flow import flow_solver
from fastdp.estimate.flow.flow_solver import Flow, adopted, denoise
from fastdp.estimate.flow.functionals import Functionals, are_adagrid_rows
from fastdp.estimate.linear_rows import check, usage
from fastdp.estimate.lower import lower
from fastdp.estimate.solver import Clock
from fastdp.model.junction_tree import junction_tree
from fastdp.model.layout import make_plan
from fastdp.queries import AdaGrid, Grid

from ..reference import flow as twin
from ..reference.cliques import projection
from .test_estimator import measure, stated_loss

SMALL = Domain({"a": 4, "b": 3, "c": 5, "d": 3})
OUTER = [("a", "b", "c"), ("a", "c", "d")]


def table(domain, seed, rows):
    """A joint table with large and small cells and clear dependence."""
    rng = np.random.default_rng(seed)
    joint = np.exp(rng.normal(size=domain.shape(tuple(domain))))
    for i in range(len(domain) - 1):
        pair = rng.normal(size=joint.shape[i : i + 2]) * 1.5
        joint = joint * np.exp(
            pair.reshape([n if i <= k <= i + 1 else 1 for k, n in enumerate(joint.shape)])
        )
    return rows * joint / joint.sum()


def measured(domain, joint, outer, sigma, seed, threshold=5.0):
    """AdaGrid's measurements with numpy's noise, as the mechanism makes them."""
    rng = np.random.default_rng(seed)
    grids = {}
    passed = {}
    out = []
    for clique in sorted(downward_closure([domain.check(c) for c in outer]), key=len):
        shape = domain.shape(clique)
        mask = np.ones(shape, bool)
        children = []
        for part in combinations(clique, len(clique) - 1) if len(clique) > 1 else ():
            ok = np.zeros(domain.shape(part), bool)
            ok.reshape(-1)[passed[part]] = True
            mask &= ok.reshape([domain[a] if a in part else 1 for a in clique])
            children.append(grids[part])
        grid = grids[clique] = Grid(clique, shape, np.flatnonzero(mask), tuple(children))
        query = AdaGrid(grid)
        spread = query.row_sigma(sigma)
        rows = query.product(projection(domain, joint, clique).reshape(-1))
        values = rows + rng.normal(size=rows.size) * spread
        passed[clique] = grid.fine[values[: grid.fine.size] > threshold * sigma]
        out.append(Measurement(clique, values, spread, query))
    return out


def prepared(domain, seen, threads=1):
    parts = check(domain, seen)
    assert are_adagrid_rows(parts)
    plan = make_plan(domain, junction_tree(domain, [m.clique for m in seen], None), usage(parts))
    quadratic = lower(plan, parts)
    return plan, quadratic, Functionals(plan, quadratic), Engine(plan, threads)


def masks_of(domain, plan, lines):
    """Every functional as a mask over all combinations, and the cell that it is or is left of as
    one."""
    shape = domain.shape(tuple(domain))
    vector = np.zeros((max(plan.size, 1), int(np.prod(shape))))
    codes = dict(zip(domain, np.unravel_index(np.arange(vector.shape[1]), shape), strict=True))
    for place in plan.places.values():
        number = np.zeros(vector.shape[1], np.int64)
        for a in place.axes:
            number = number * domain[a] + codes[a]
        cells = np.arange(place.size) if place.cells is None else place.cells
        vector[place.at : place.at + place.size] = number[None, :] == cells[:, None]
    masks = np.stack([lines.answers(column) for column in np.ascontiguousarray(vector.T)], axis=1)
    hulls = masks.copy()
    for i in range(lines.rest.shape[0]):
        row = lines.rest[[i]].tocoo()
        hulls[lines.at.size + i] = vector[lines.active[row.coords[1][row.data > 0][0]]]
    return masks, hulls


def _orders(masks):
    """How many attributes a cell's mask fixes: those of which it holds one value."""
    cubes = masks.reshape(-1, *SMALL.shape(tuple(SMALL))).astype(bool)
    n = len(SMALL)
    values = [
        cubes.any(axis=tuple(1 + j for j in range(n) if j != i)).sum(axis=1) for i in range(n)
    ]
    return np.sum([v == 1 for v in values], axis=0)


@pytest.fixture(scope="module")
def problem():
    joint = table(SMALL, 1, 20_000)
    seen = measured(SMALL, joint, OUTER, 40.0, 2)
    plan, quadratic, lines, engine = prepared(SMALL, seen)
    return joint, seen, plan, quadratic, lines, engine, *masks_of(SMALL, plan, lines)


def start(engine, plan, total):
    tables = np.empty(plan.cells)
    m = np.empty(max(plan.size, 1))
    engine.infer(np.zeros(max(plan.size, 1)), total, tables, m)
    return tables


def test_functionals_are_distinct_sets_with_the_same_loss(problem):
    joint, seen, _, quadratic, lines, _, masks, _ = problem
    assert set(np.unique(masks)) == {0.0, 1.0}
    assert masks.any(axis=1).all() and lines.size < quadratic.rows
    cells = {mask.tobytes() for mask in masks[: lines.at.size]}
    assert len(cells) == lines.at.size and not cells & {
        mask.tobytes() for mask in masks[lines.at.size :]
    }
    for other in (joint, table(SMALL, 9, 15_000)):
        loss = sum(
            0.5 * np.sum(((m.query.product(x) - m.values) / m.sigma) ** 2)
            for m in seen
            for x in [projection(SMALL, other, m.clique).reshape(-1)]
        )
        assert lines.loss(masks @ other.reshape(-1)) == pytest.approx(loss, rel=1e-12)


def test_change_is_the_transpose_of_answers(problem):
    _, _, plan, _, lines, *_ = problem
    rng = np.random.default_rng(0)
    m = rng.random(plan.size)
    multipliers = rng.normal(size=lines.size)
    delta = np.zeros(plan.size)
    delta[lines.active] = lines.potential_change(multipliers)
    assert delta @ m == pytest.approx(-multipliers @ lines.answers(m), rel=1e-12)


def test_the_direction_is_that_of_bfgs_matrices(problem):
    """The two loops against the update of the whole inverse, H <- V' H V + s s' / s'y with V = 1 -
    y s' / s'y, from the approximate inverse times the newest s'y / y'Hy; a pair of negative
    curvature is left out."""
    _, _, plan, _, lines, *_ = problem
    rng = np.random.default_rng(8)
    n = lines.size
    inverse = lines.ancestors(2)
    soft = rng.gamma(2.0, size=n)
    slope = rng.normal(size=n)
    inverse.fill(
        rng.gamma(5.0, 20.0, max(plan.size, 1)), rng.gamma(5.0, 20.0, n), lines.variance, 0.1, 2e4
    )
    steps = [rng.normal(size=n) for _ in range(4)]
    pairs = [(s, sign * rng.gamma(1.0, size=n) * s) for s, sign in zip(steps, (1, 1, -9, 1))]
    h = np.stack([inverse.solve(e) for e in np.eye(n)])
    kept = [(s, c + soft * s) for s, c in pairs if s @ (c + soft * s) > 0]
    assert len(kept) == 3
    s, y = kept[-1]
    h *= (s @ y) / (y @ h @ y)
    for s, y in kept:
        v = np.eye(n) - np.outer(y, s) / (s @ y)
        h = v.T @ h @ v + np.outer(s, s) / (s @ y)
    np.testing.assert_allclose(
        inverse.direction(pairs, slope, soft)[0], -h @ slope, rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(
        inverse.direction([], slope, soft)[0], -inverse.solve(slope), rtol=1e-12
    )


def test_approximate_inverse_is_the_twin_s(problem):
    """Ancestors by structure are those by containment, and rows solve their blocks."""
    _, _, plan, _, lines, engine, masks, hulls = problem
    total = 20_000.0
    state = engine.state(start(engine, plan, total))
    engine.adopt(state, total)
    # a model of the tree that is not uniform
    delta = np.random.default_rng(5).normal(size=max(plan.size, 1)) * 0.4
    there = engine.state()
    engine.move(
        state,
        x=state.cells,
        weight=0.0,
        delta=delta,
        size=1.0,
        mix=1.0,
        total=total,
        out=there,
        sums=np.zeros((0, 3)),
    )
    joint = np.ones(SMALL.shape(tuple(SMALL))).reshape(-1)
    shape = SMALL.shape(tuple(SMALL))
    codes = dict(zip(SMALL, np.unravel_index(np.arange(joint.size), shape), strict=True))
    for place in plan.places.values():
        number = np.zeros(joint.size, np.int64)
        for a in place.axes:
            number = number * SMALL[a] + codes[a]
        cells = np.arange(place.size) if place.cells is None else place.cells
        at = np.searchsorted(cells, number)
        hit = (at < cells.size) & (cells[np.minimum(at, cells.size - 1)] == number)
        joint *= np.exp(np.where(hit, delta[place.at + np.minimum(at, place.size - 1)], 0.0))
    joint *= total / joint.sum()
    f = lines.answers(there.m)
    np.testing.assert_allclose(f, masks @ joint, rtol=1e-9, atol=1e-7)
    inverse = lines.ancestors(1)
    inverse.fill(there.m, f, lines.variance, 3.0, total)
    factor = twin.inverse_factor(joint, masks, hulls, range(lines.at.size), lines.variance, 3.0)
    x = np.random.default_rng(6).normal(size=lines.size)
    np.testing.assert_allclose(inverse.factor(x), factor @ x, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(inverse.solve(x), factor.T @ (factor @ x), rtol=1e-6, atol=1e-9)


def test_strides_are_the_twin_s(problem, monkeypatch):
    """Two strides to convergence: the first by backward Euler, the second by BDF2 with another
    length."""
    _, _, plan, _, lines, engine, masks, _ = problem
    for name, value in {"CLOSE": 1e-9, "NEAR": 0.0, "MOST": 400}.items():
        monkeypatch.setattr(flow_solver, name, value)
    total = 20_000.0
    state = Flow(engine, lines, adopted(engine, start(engine, plan, total), total), total)
    joint = np.full(int(np.prod(SMALL.shape(tuple(SMALL)))), 1.0)
    joint *= total / joint.size
    velocity = np.zeros(lines.size)
    last = 0.0
    for length in (0.02, 0.035):
        ratio = length / last if last else 0.0
        keep = ratio**2 / (1 + 2 * ratio)
        share = (1 + ratio) / (1 + 2 * ratio)
        joint, velocity = twin.stride(
            joint, masks, lines.target, lines.variance, share * length * state.unit, keep * velocity
        )
        last = length
        state.stride(length, Clock(None))
        assert np.abs((state.f - masks @ joint) / np.sqrt(lines.variance)).max() < 1e-5
    assert state.loss == pytest.approx(lines.loss(masks @ joint), rel=1e-6)


def test_a_stride_of_some_moves_by_them_alone(problem):
    """The last stride of "refined": single attributes and pairs pull, the others follow."""
    _, _, plan, _, lines, engine, masks, _ = problem
    assert (lines.order[: lines.at.size] == _orders(masks)[: lines.at.size]).all()
    state = Flow(engine, lines, adopted(engine, start(engine, plan, 20_000.0), 20_000.0), 20_000.0)
    state.stride(0.02, Clock(None))
    low = lines.order <= 2
    before = (state.f - lines.target) ** 2 / lines.variance
    state.stride(0.05, Clock(None), low)
    after = (state.f - lines.target) ** 2 / lines.variance
    assert 0 < low.sum() < low.size and after[low].sum() < before[low].sum()
    assert np.abs(state._velocity[~low]).max() < 1e-5 < np.abs(state._velocity[low]).max()


def test_denoiser_is_the_flow():
    """du/dt = u (x - u) from the centre, by small steps."""
    x = np.linspace(-6, 30, 37)
    u = np.full(37, 2.0)
    steps = 40_000
    for _ in range(steps):
        u = u * np.exp(0.7 / steps * (x - u))
    np.testing.assert_allclose(denoise(x, 2.0, 0.7), u, rtol=2e-3)


@pytest.fixture(scope="module")
def case():
    domain = Domain({"a": 14, "b": 10, "c": 12, "d": 6})
    joint = table(domain, 3, 400_000)
    return domain, joint, measured(domain, joint, [("a", "b", "c"), ("b", "c", "d")], 12.0, 4)


class TestFit:
    def error(self, domain, joint, model):
        return sum(
            np.abs(model.marginal(c) - projection(domain, joint, c)).sum() / joint.sum()
            for c in (("a", "b", "c"), ("b", "c", "d"))
        )

    @pytest.mark.slow
    def test_ends_where_it_says_with_fewer_calls_and_no_larger_error(self, case):
        domain, joint, seen = case
        rows = sum(m.values.size for m in seen)
        plain = fit(domain, seen, stop="noise", method="mirror-descent")
        noise = fit(domain, seen, stop="noise")
        settled = fit(domain, seen, stop="refined")
        assert noise.ended == "noise level" and noise.loss <= rows / 2
        assert settled.ended == "noise level, settled" and settled.loss < noise.loss
        assert max(noise.iterations, settled.iterations) < plain.iterations / 3
        assert self.error(domain, joint, settled) <= 1.02 * self.error(domain, joint, plain)
        assert noise.loss == pytest.approx(stated_loss(noise, seen), rel=1e-6)
        capped = fit(domain, seen, stop="refined", iters=9)
        assert capped.ended == "iterations" and capped.iterations == 9

    def test_zeros_are_exact_and_float32_is_near(self, case):
        domain, _, seen = case
        banned = np.zeros((14, 10), bool)
        banned[2, 3:7] = True
        model = fit(domain, seen, stop="refined", zeros={("a", "b"): banned}, iters=300)
        assert (np.asarray(model.marginal(("a", "b")))[banned] == 0).all()
        wide, small = (fit(domain, seen, stop="noise", tables=t) for t in ("float64", "float32"))
        assert small.ended == wide.ended and small.loss == pytest.approx(wide.loss, rel=0.02)

    def test_a_start_below_the_level_is_kept(self, case):
        domain, _, seen = case
        model = fit(domain, seen, stop="noise")
        again = fit(domain, seen, stop="noise", warm_start=model)
        assert again.iterations == 1 and again.ended == "noise level"
        for clique in (("a", "b", "c"), ("b", "c", "d")):
            np.testing.assert_allclose(
                again.marginal(clique), model.marginal(clique), rtol=1e-9, atol=1e-9
            )

    def test_other_rows_and_methods_keep_their_ways(self, case):
        domain, _, seen = case
        plain = fit(domain, seen, stop="iters", iters=5)
        assert plain.ended == "iterations" and plain.iterations == 5
        assert not are_adagrid_rows(check(domain, [Measurement(("a",), np.ones(14), 1.0)]))


FITS = {
    "flow": {"stop": "refined", "iters": 12},
    "dual": {"stop": "risk"},
    "accelerated": {"method": "accelerated", "stop": "iters", "iters": 8},
    "mirror descent": {"method": "mirror-descent", "stop": "iters", "iters": 8},
}


@pytest.mark.parametrize("how", FITS)
def test_no_bit_of_a_fit_depends_on_the_number_of_threads(how):
    """Tables so large that every loop is shared: AdaGrid's rows, or cells one by one."""
    domain = Domain({"a": 40, "b": 50, "c": 60, "d": 6})
    joint = table(domain, 7, 3_000_000)
    outer = [("a", "b", "c"), ("a", "b", "d")]
    cells = measure(domain, joint, [*outer, ("b", "c"), ("a",)], 30.0, np.random.default_rng(8))
    seen = measured(domain, joint, outer, 4.0, 8) if how == "flow" else cells
    one, *more = (fit(domain, seen, threads=n, **FITS[how]) for n in (1, 3))
    for other in more:
        assert (one.loss, one.iterations) == (other.loss, other.iterations)
        assert all((p.table == q.table).all() for p, q in zip(one.nodes, other.nodes, strict=True))


# The threaded product with measured rows is scipy's, for any number of threads.


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 5), (40_000, 300)])
def test_a_product_is_scipys(shape):
    rng = np.random.default_rng(1)
    matrix = sp.random_array(shape, density=0.02, format="csr", rng=rng)
    x = rng.normal(size=shape[1])
    alone = SparseRows(matrix).product(x, 1)
    np.testing.assert_allclose(alone, matrix @ x, rtol=1e-12, atol=1e-13)
    assert (SparseRows(matrix).product(x, Team(4)) == alone).all()

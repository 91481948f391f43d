"""A step from tables (`Engine.move`) against inference at the changed potentials, and against its
laws in plain numpy."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp import Measurement
from fastdp._core.infer import Engine
from fastdp.domain import Domain
from fastdp.estimate.estimator import fit
from fastdp.model import layout
from fastdp.model.junction_tree import junction_tree

from ..model.test_infer import IMPOSSIBLE, random_case
from ..reference.cliques import projection
from .test_estimator import stated_loss

TOTAL = 1000.0


def planned(domain, cliques, direct=(), sparse=()):
    measured = {frozenset(c): None for c in cliques}
    measured.update({frozenset(c): (c, cells) for c, cells in sparse})
    tree = junction_tree(domain, [*cliques, *(c for c, _ in sparse)])
    return layout.make_plan(domain, tree, measured, {frozenset(c) for c in direct})


def inferred(plan, theta, threads=1, dtype=np.float64, targets=()):
    """An engine, and the state at these potentials."""
    engine = Engine(plan, threads, dtype, targets)
    tables = np.empty(plan.cells, dtype)
    m = np.empty(max(plan.size, 1))
    assert engine.infer(theta, TOTAL, tables, m) is not None
    state = engine.state(tables)
    engine.adopt(state, TOTAL)
    assert np.allclose(state.m, m, rtol=1e-6 if dtype == np.float32 else 1e-12, atol=1e-6)
    return engine, state


def moved(engine, z, delta, size=1.0, mix=1.0, x=None, weight=0.0, targets=0):
    out = engine.state()
    sums = np.zeros((targets, 3))
    x = z.cells.copy() if x is None else x
    log_z, far = engine.move(
        z, x=x, weight=weight, delta=delta, size=size, mix=mix, total=TOTAL, out=out, sums=sums
    )
    return out, sums, log_z, far


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equals_inference_at_the_changed_potentials(seed):
    rng, domain, potentials = random_case(seed)
    plan = planned(domain, list(potentials) or [tuple(domain)[:1]])
    theta = rng.normal(size=max(plan.size, 1))
    delta = rng.normal(size=theta.size) * rng.choice([0.01, 1.0, 20.0])
    engine, z = inferred(plan, theta)
    out, _, _, far = moved(engine, z, delta)
    assert not far
    engine.normalise(out, TOTAL)
    _, want = inferred(plan, theta + delta)
    assert np.allclose(out.cells, want.cells, rtol=1e-9, atol=1e-9 * TOTAL)
    assert np.allclose(out.m, want.m, rtol=1e-9, atol=1e-9 * TOTAL)
    again, _, _, _ = moved(engine, out, -delta)
    engine.normalise(again, TOTAL)
    assert np.allclose(again.cells, z.cells, rtol=1e-8, atol=1e-8 * TOTAL)


def test_sparse_own_cells_and_float32():
    rng = np.random.default_rng(1)
    domain = Domain({"a": 6, "b": 7, "c": 5, "d": 4})
    cells = rng.choice(210, 20, replace=False)
    plan = planned(domain, [("b", "d"), ("a", "c")], sparse=[(("a", "b", "c"), cells)])
    assert plan.places[frozenset("abc")].cells is not None
    theta = rng.normal(size=plan.size)
    delta = rng.normal(size=plan.size)
    for dtype, close in ((np.float64, 1e-10), (np.float32, 1e-5)):
        engine, z = inferred(plan, theta, dtype=dtype)
        out, _, _, far = moved(engine, z, delta)
        engine.normalise(out, TOTAL)
        _, want = inferred(plan, theta + delta)
        assert not far and np.allclose(out.cells, want.cells, rtol=close, atol=close * TOTAL)


CUT = Domain({"a": 9, "b": 5, "c": 13, "d": 3, "e": 40})
OUTER = [("a", "b", "c"), ("b", "a", "e"), ("c", "d")]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zeros_stay_and_everything_else_can_come_back(dtype):
    domain = Domain({"a": 3, "b": 40})
    plan = planned(domain, [("a",), ("a", "b")])
    theta = np.zeros(plan.size)
    place = plan.places[frozenset("ab")]
    theta[place.at + 7] = IMPOSSIBLE
    engine, z = inferred(plan, theta, dtype=dtype)
    delta = np.zeros(plan.size)
    far_down = -400.0 if dtype == np.float64 else -40.0
    delta[place.at + 3] = far_down
    low = z
    for _ in range(4):  # four steps down leave the number format ...
        low, _, _, far = moved(engine, low, delta)
        assert not far
    assert low.cells[3] > 0 and low.cells[7] == 0
    delta[place.at + 3] = -far_down
    back = low
    for _ in range(4):
        back, _, _, far = moved(engine, back, delta)
        assert not far
    engine.normalise(back, TOTAL)
    assert back.cells[7] == 0 and back.cells[3] > 0.1 * TOTAL  # ... and it returns


def test_a_step_too_long_is_told_not_taken():
    domain = Domain({"a": 3, "b": 40})
    plan = planned(domain, [("a",), ("a", "b")])
    engine, z = inferred(plan, np.zeros(plan.size))
    delta = np.zeros(plan.size)
    delta[plan.places[frozenset("ab")].at] = 2000.0
    assert moved(engine, z, delta)[3]
    delta[:] = 0
    delta[plan.places[frozenset("a")].at] = np.nan
    assert moved(engine, z, delta)[3]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_fit_is_the_same_with_and_without_direct_nodes(seed):
    """Whole fits by both paths: identity measurements, some repeated, some with a sigma per
    cell."""
    rng = np.random.default_rng(seed)
    joint = rng.gamma(0.3, 1.0, CUT.shape(tuple(CUT))) * 20
    seen = []
    for clique in [*OUTER, ("b", "a", "e")]:
        values = projection(CUT, joint, clique).reshape(-1)
        sigma = rng.uniform(1, 3, values.size) if rng.random() < 0.5 else 2.0
        seen.append(Measurement(clique, values + rng.normal(size=values.size) * sigma, sigma))
    losses = {}
    for least in (1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layout, "DIRECT_CELLS", least)
            for method in ("accelerated", "mirror-descent"):
                model = fit(CUT, seen, stop="tol", tol=1e-9, method=method, iters=3000)
                assert model.loss == pytest.approx(stated_loss(model, seen), rel=1e-9)
                losses[least, method] = model.loss
    assert losses[1, "accelerated"] == pytest.approx(losses[10**9, "accelerated"], rel=1e-6)
    assert losses[1, "mirror-descent"] == pytest.approx(losses[10**9, "mirror-descent"], rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_are_almost_empty_do_not_make_a_step_look_long(dtype):
    """Deep in a tree true cells fall below the least that is stored; standing still must stay
    possible there."""
    domain = Domain({"b": 4, "c": 5, "d": 12, "x": 12, "y": 12})
    plan = planned(domain, [("b", "x"), ("b", "c", "y"), ("b", "c", "d"), ("b", "c"), ("b",)])
    engine, z = inferred(plan, np.zeros(plan.size), dtype=dtype)

    def changed(clique, by):
        delta = np.zeros(plan.size)
        delta[plan.places[frozenset(clique)].at] = by
        return delta

    # A cell is moved to the least there is, then the row it is in.
    first = [changed(("b", "c"), -500.0)] * 3
    for delta in [*first, changed(("b",), -5000.0), np.zeros(plan.size), np.zeros(plan.size)]:
        z, _, log_z, far = moved(engine, z, delta)
        assert not far and np.isfinite(log_z)
    assert abs(log_z) < 1e-3
    back, _, _, far = moved(engine, z, changed(("b",), 40.0))
    assert not far and back.m[plan.places[frozenset("b")].at] > 0

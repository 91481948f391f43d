"""Belief propagation against brute force, on trees, cycles, disconnected graphs, zeros and lone
attributes."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp._core import infer
from fastdp._core.infer import Engine
from fastdp._core.team import Team
from fastdp.domain import Domain
from fastdp.model import inner_tables, layout, rooted_nodes, schedule
from fastdp.model.junction_tree import junction_tree

from ..reference.brute import marginals

IMPOSSIBLE = -1e30


def random_case(seed, most=8):
    rng = np.random.default_rng(seed)
    names = [f"a{i}" for i in range(rng.integers(1, most + 1))]
    domain = Domain({a: int(rng.integers(1, 5)) for a in names})
    cliques = []
    for _ in range(rng.integers(0, 7)):
        k = int(rng.integers(1, min(3, len(names)) + 1))
        cliques.append(tuple(rng.permutation(names)[:k]))
    cliques = list({frozenset(c): c for c in cliques}.values())
    scale = rng.choice([0.1, 3.0, 400.0])
    potentials = {c: rng.normal(size=domain.shape(c)) * scale for c in cliques}
    return rng, domain, potentials


def run(domain, potentials, total, threads, dtype=np.float64, sparse=()):
    measured = {frozenset(c): None for c in potentials}
    for c in sparse:
        measured[frozenset(c)] = (c, np.flatnonzero(np.asarray(potentials[c]).reshape(-1)))
    plan = layout.make_plan(domain, junction_tree(domain, potentials), measured)
    engine = Engine(plan, threads, dtype)
    theta = np.zeros(max(plan.size, 1))
    for c, value in potentials.items():
        place = plan.places[frozenset(c)]
        cells = inner_tables.permute_cells(domain, c, None, place.axes)
        dense = np.zeros(domain.cells(c))
        dense[cells] = np.asarray(value).reshape(-1)
        theta[place.at : place.at + place.size] += (
            dense if place.cells is None else dense[place.cells]
        )
    tables = np.empty(plan.cells, dtype)
    m = np.empty(max(plan.size, 1))
    log_z = engine.infer(theta, total, tables, m)
    return plan, tables, m, log_z


def check(domain, potentials, total, plan, tables, m, log_z, rtol):
    wanted = list(potentials) + [node.axes for node in plan.nodes]
    expected, expected_z = marginals(domain, potentials, total, wanted)
    assert log_z == pytest.approx(expected_z, rel=1e-9, abs=1e-9)
    for c in potentials:
        place = plan.places[frozenset(c)]
        got = m[place.at : place.at + place.size]
        want = expected[c].transpose([c.index(a) for a in place.axes]).reshape(-1)
        want = want if place.cells is None else want[place.cells]
        assert np.allclose(got, want, rtol=rtol, atol=rtol * total)
    for node in plan.nodes:
        got = tables[node.table : node.table + node.rows * node.cells]
        assert np.allclose(got, expected[node.axes].reshape(-1), rtol=rtol, atol=rtol * total)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_marginals_equal_brute_force(seed):
    rng, domain, potentials = random_case(seed)
    total = float(rng.choice([1.0, 1e6, 1e12]))
    check(domain, potentials, total, *run(domain, potentials, total, 1), rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_impossible_cells_stay_at_zero(seed):
    rng, domain, potentials = random_case(seed)
    for c in potentials:
        mask = rng.random(domain.shape(c)) < 0.3
        potentials[c] = np.where(mask, IMPOSSIBLE, np.clip(potentials[c], -5, 5))
    plan, tables, m, log_z = run(domain, potentials, 1000.0, 1)
    _expected, z = marginals(domain, potentials, 1000.0, list(potentials))
    if z < -1e29:
        assert log_z is None
        return
    check(domain, potentials, 1000.0, plan, tables, m, log_z, rtol=1e-9)
    for c in potentials:
        place = plan.places[frozenset(c)]
        got = m[place.at : place.at + place.size]
        flat = np.asarray(potentials[c]).transpose([c.index(a) for a in place.axes]).reshape(-1)
        assert (got[flat <= -1e29] == 0).all()


@pytest.mark.parametrize("limit", [1, 4, 64])
def test_prefix_nodes_lanes_and_slices_change_nothing(monkeypatch, limit):
    """Nor does a row get lost, or scaled twice, however the work of threads is cut."""
    monkeypatch.setattr(rooted_nodes, "ROW_LIMIT", limit)
    monkeypatch.setattr(inner_tables, "LANE_CELLS", 8)
    monkeypatch.setattr(schedule, "SLICE_CELLS", 2 * limit)
    monkeypatch.setattr(schedule, "PIECE", 3)
    monkeypatch.setattr(schedule, "LARGE_STAGE", 0)
    # Lanes share bc, and b in it is a separator.
    inside = Domain({"a": 3, "b": 4, "c": 5, "e": 2, "f": 2})
    made = {
        tuple(c): np.random.default_rng(0).normal(size=inside.shape(c))
        for c in "abc bc be af".split()
    }
    for domain, potentials in [
        *(random_case(seed, most=6)[1:] for seed in range(40)),
        (inside, made),
    ]:
        potentials = {c: np.clip(v, -20, 20) for c, v in potentials.items()}
        one = run(domain, potentials, 100.0, 1)
        two = run(domain, potentials, 100.0, 3)
        assert (one[1] == two[1]).all() and one[3] == two[3]
        if potentials:
            assert (one[2] == two[2]).all()
        check(domain, potentials, 100.0, *two, rtol=1e-9)


def test_potentials_that_are_mostly_zero_give_the_marginals_of_dense_ones():
    rng = np.random.default_rng(3)
    domain = Domain({"a": 6, "b": 7, "c": 5, "d": 4})
    big = np.where(rng.random((6, 7, 5)) < 0.1, rng.normal(size=(6, 7, 5)), 0.0)
    potentials = {("c", "a", "b"): big.transpose(2, 0, 1), ("b", "d"): rng.normal(size=(7, 4))}
    plan, tables, m, log_z = run(domain, potentials, 50.0, 2, sparse=[("c", "a", "b")])
    assert plan.places[frozenset("abc")].cells is not None
    check(domain, potentials, 50.0, plan, tables, m, log_z, rtol=1e-9)


# Vector kernels of the descent against numpy, at lengths on both sides of their chunks.


CHUNK = 16_384
LENGTHS = [0, 1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5, 8 * CHUNK + 3]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("threads", [1, 3])
def test_steps_distances_blends_and_averages_are_those_of_numpy(length, threads):
    m, t, dz, w, delta, out = np.random.default_rng(length).normal(size=(6, length))
    team = Team(threads)
    near = {"rtol": 1e-13, "atol": 1e-14}
    size = 1e-12 * max(1, len(m))
    infer.step(a=0.3, dx=m, b=-1.7, dz=dz, w=w, out=out, threads=team)
    assert np.allclose(out, -w * (0.3 * m - 1.7 * dz), **near)
    distance, curvature = infer.arrive(m=m, t=t, dz=dz, w=w, delta=delta, out=out, threads=team)
    gap = m - t - dz
    assert np.allclose(out, m - t, rtol=0, atol=0)
    assert abs(distance - 0.5 * float(delta @ gap)) < size
    assert abs(curvature - 0.5 * float(w @ gap**2)) < size
    mixed = 0.2 * m + 0.8 * t
    for kind, close in ((np.float64, 5e-14), (np.float32, 5e-6)):
        x, y = m.astype(kind), t.astype(kind)
        infer.average(0.2, x, y, team)
        assert np.allclose(y, mixed, rtol=0, atol=close)
    loss = infer.blend(0.2, m, w, t, team)
    assert np.allclose(t, mixed, **near) and abs(loss - 0.5 * float(w @ mixed**2)) < size

"""Errors of the model where nothing was measured: as large as its distance says, none where margins say
more."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import fastdp
from fastdp.answers.answer import answer
from fastdp.answers.evidence import Marginal
from fastdp.answers.facts import Facts
from fastdp.answers.misfit import COUNTS, NORMAL, misfit, shrunk
from fastdp.measurement import Measurement


def margin(name, size, sigma):
    return Marginal((name,), (np.arange(size),), np.zeros(size), np.full(size, sigma**2))


@pytest.mark.parametrize("sigma", [1e-3, 5.0])
def test_cells_err_as_far_as_the_distance_and_margins_only_by_their_noise(sigma):
    rng = np.random.default_rng(0)
    cells = rng.gamma(0.5, 200, (6, 4))
    maps = (np.arange(6), np.arange(4))
    table = misfit(cells, maps, ("a", "b"), 500.0, [margin("a", 6, sigma), margin("b", 4, sigma)])
    deviations = np.sqrt(table.variances(sparse.eye_array(24, format="csr")))
    total = NORMAL * deviations.sum()
    assert total == pytest.approx(500, rel=0.01) if sigma < 1 else total > 500
    rows = sparse.csr_array(np.kron(np.eye(6), np.ones(4)))
    margins = np.sqrt(table.variances(rows))
    assert (margins <= sigma * 1.001).all() and (margins > 0).all()


def test_distances_are_drawn_to_their_mean_as_far_as_they_are_noise():
    rng = np.random.default_rng(1)
    alike = {frozenset((f"a{i}", "b")): (1000 + 100 * rng.normal(), 100.0) for i in range(200)}
    spread = np.array(list(shrunk(alike).values()))
    assert np.ptp(spread) < np.ptp([d for d, _ in alike.values()]) / 2
    apart = {frozenset((f"a{i}", "b")): (1000.0 * i, 100.0) for i in range(50)}
    least = 0.25 * np.mean([d for d, _ in apart.values()])
    for names, value in shrunk(apart).items():
        assert value == pytest.approx(max(apart[names][0], least) + 50, abs=60)
    assert shrunk({frozenset("ab"): (-500.0, 100.0)}) == {frozenset("ab"): 50.0}


def test_an_unmeasured_pair_is_answered_by_the_model_and_marked():
    rng = np.random.default_rng(2)
    truth = rng.integers(20, 400, (5, 3)).astype(float)
    sizes = {"a": 5, "b": 3}
    ones = [Measurement(("a",), truth.sum(1), 1.0), Measurement(("b",), truth.sum(0), 1.0)]
    model = fastdp.fit(sizes, ones)
    schema = fastdp.Schema.from_domain(sizes)
    gap = float(np.abs(truth - model.marginal(("a", "b"))).sum())
    distances = pa.table({"columns": [["b", "a"]], "distance": [gap], "standard_error": [1.0]})
    facts = Facts.of({}, schema, ones, {"distances": distances}, model)
    lines = answer(facts, "count", ("a", "b")).to_pylist()
    assert {r["basis"] for r in lines} == {"model"} and all("approximate" in r["note"] for r in lines)
    assert all(r["noise"] == 0 < r["model"] == pytest.approx(r["error"]) for r in lines)
    inside = [r["low"] <= truth[r["a"], r["b"]] <= r["high"] for r in lines]
    assert sum(inside) >= 14, "errors of this table are as large as their distance: at most one of 15 misses"
    assert {r["basis"] for r in answer(facts, "count", "a").to_pylist()} == {"measured"}
    assert COUNTS[2] > 1.96

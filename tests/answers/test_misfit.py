"""Errors of the model where nothing was measured: as large as its distance says, none where margins
say more."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import fastdp
from fastdp.answers.answer import answer
from fastdp.answers.evidence import Marginal
from fastdp.answers.facts import Facts
from fastdp.answers.misfit import DOUBT, MEANS, NORMAL, VARIED, empirical_bayes, misfit
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


def test_ratios_of_distance_to_size_are_drawn_together_as_far_as_they_are_noise():
    rng = np.random.default_rng(1)
    sizes = {frozenset((f"a{i}", "b")): 500.0 * (1 + i % 4) for i in range(200)}
    noisy = {s: (2 * size + 900 * rng.normal(), 900.0) for s, size in sizes.items()}
    found = np.array([value / (2 * sizes[s]) for s, value in empirical_bayes(noisy, sizes).items()])
    raw = np.array([d / (2 * sizes[s]) for s, (d, _) in noisy.items()])
    assert found.std() < raw.std() / 2, "all have the same ratio: what differs is noise"
    assert found.mean() == pytest.approx(np.hypot(1, DOUBT * VARIED), abs=0.15)
    apart = {frozenset((f"a{i}", "b")): (1000.0 * i, 100.0) for i in range(1, 50)}
    alike = dict.fromkeys(apart, 700.0)
    for names, value in empirical_bayes(apart, alike).items():
        least = 0.25 * 25_000
        assert value == pytest.approx(max(apart[names][0], least), rel=0.03), (
            "differences stand out"
        )
    (alone,) = empirical_bayes({frozenset("ab"): (-500.0, 100.0)}, {frozenset("ab"): 7.0}).values()
    assert 25 < alone < 200, "noise alone: at least a part of it"


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
    assert {r["basis"] for r in lines} == {"model"} and all(
        "approximate" in r["note"] for r in lines
    )
    assert all(r["noise"] == 0 < r["model"] == pytest.approx(r["error"]) for r in lines)
    inside = [r["low"] <= truth[r["a"], r["b"]] <= r["high"] for r in lines]
    assert sum(inside) >= 14, (
        "errors of this table are as large as their distance: at most one of 15 misses"
    )
    assert {r["basis"] for r in answer(facts, "count", "a").to_pylist()} == {"measured"}
    assert MEANS > 1.96


def test_a_distance_that_is_not_known_well_widens_intervals_to_their_level():
    """Errors of cells are normal with a scale that is known up to a normal error of relative size
    r: half of the runs have a smaller scale, and the interval must be wider for those with a larger
    one."""
    rng = np.random.default_rng(3)
    for r in (0.1, 0.25, 0.5):
        errors = rng.normal(size=100_000) * np.abs(1 + r * rng.normal(size=100_000))
        inside = np.mean(np.abs(errors) <= 1.96 * np.hypot(1, DOUBT * r))
        assert inside == pytest.approx(0.95, abs=0.003)

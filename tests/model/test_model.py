"""The model's answers against the whole joint table, on random trees."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import fastdp
from fastdp.domain import Domain
from fastdp.errors import SchemaError, UsageError
from fastdp.estimate.estimator import fit
from fastdp.measurement import Measurement
from fastdp.model.given import sample_given
from fastdp.queries import AdaGrid, Grid, Sparse

from ..estimate.test_estimator import measure, skewed
from ..reference import cliques as reference

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5, "e": 3, "free": 2})


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    joint = skewed(DOMAIN, rng)
    cliques = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "b", "c"), ("a",), ("d",)]
    return fit(DOMAIN, measure(DOMAIN, joint, cliques, 20.0, rng), stop="tol", iters=200)


@pytest.fixture(scope="module")
def joint(fitted):
    return reference.joint(fitted)


def test_marginal_of_nothing_and_of_the_unknown(fitted):
    assert float(fitted.marginal(())) == fitted.total
    with pytest.raises(SchemaError):
        fitted.marginal(("nobody",))


def test_answers_of_a_model_have_the_errors_of_its_measurements():
    seen = [
        Measurement(("a", "b"), np.arange(6.0) * 100, 10.0),
        Measurement(("a",), np.array([300.0, 1200.0]), 2.0),
    ]
    model = fit({"a": 2, "b": 3, "c": 2}, seen)
    values, errors = model.answer(None, ("a",))
    assert np.allclose(values, model.marginal(("a",))) and np.allclose(errors, (1 / 4) ** -0.5)
    both = sp.csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]))
    values, errors = model.answer(both, ("b",))
    assert np.allclose(values, both @ model.marginal(("b",)))
    assert np.allclose(errors, [math.sqrt(4 * 100), math.sqrt(4 * 2 * 100)])
    assert np.isinf(model.answer(None, ("c",))[1]).all()


def test_cells_that_nobody_measured_have_infinite_errors_and_no_warning():
    """A grid measures two cells by themselves, a matrix none."""
    ones = Grid(("a",), (2,), np.arange(2)), Grid(("b",), (3,), np.arange(3))
    single = Grid(("a", "b"), (2, 3), np.array([1, 4]), ones)
    seen = [
        Measurement(("a", "b"), AdaGrid(single).product(np.arange(6.0)), 2.0, AdaGrid(single)),
        Measurement(
            ("a", "b"), np.array([9.0]), 1.0, sp.csr_array(np.array([[0, 0, 1.0, 1, 1, 0]]))
        ),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        errors = fit({"a": 2, "b": 3}, seen).answer(None, ("a", "b"))[1]
    assert np.isfinite(errors).tolist() == [False, True, False, False, True, False]


def test_conditional_sampling_is_exact(fitted, joint):
    """Chi-square of 40,000 conditional rows against the conditional joint, false-alarm rate
    1e-6."""
    from scipy.stats import chi2

    rows = fitted.sample(40_000, seed=3, where={"d": 2, "a": 1}, method="independent")
    assert (rows["d"] == 2).all() and (rows["a"] == 1).all()
    want = joint[1, :, :, 2].reshape(-1)
    want = want / want.sum() * 40_000
    index = np.ravel_multi_index([rows[n] for n in ("b", "c", "e", "free")], (4, 2, 3, 2))
    got = np.bincount(index, minlength=want.size)
    keep = want > 5
    statistic = (((got - want) ** 2 / np.where(want > 0, want, 1))[keep]).sum()
    assert statistic < chi2.isf(1e-6, keep.sum())
    tilted = want * np.where(np.arange(want.size) % 2, 1.05, 0.95)
    assert (((got - tilted) ** 2 / tilted)[keep]).sum() > chi2.isf(1e-6, keep.sum()), (
        "the test can fail"
    )


def test_conditioned_model_has_the_expected_total(fitted):
    part = fitted.conditioned({"c": 1})
    assert part.total == pytest.approx(float(fitted.marginal(("c",))[1]))
    assert np.allclose(part.marginal(("a",)), fitted.marginal(("a", "c"))[:, 1])
    for where in [{"c": 2}, {"c": -1}, {"c": True}]:
        with pytest.raises(UsageError):
            fitted.conditioned(where)


class Own(AdaGrid):
    """A query of one's own: some of AdaGrid's rows twice and thrice, with either sign."""

    def product(self, x):
        return super().product(x) * np.resize([2.0, -3.0, 0.5], self.rows)


def test_any_query_has_the_errors_of_its_matrix():
    """Queries that are no matrices (AdaGrid's cells and remainders) against the same rows written
    out."""
    rng = np.random.default_rng(3)
    domain = Domain({"a": 3, "b": 4})
    seen = [Measurement(("a", "b"), 100 * rng.random(12), 1 + rng.random(12))]
    seen.append(Measurement(("b",), 300 * rng.random(4), 2.0))
    model = fit(domain, seen)
    for clique, cells in ((("a", "b"), 12), (("b",), 4)):
        children = tuple(Grid((a,), (domain[a],), np.arange(domain[a])) for a in clique)
        query = Own(children[0])
        if cells == 12:
            query = Own(Grid(clique, (3, 4), np.array([1, 2, 7]), children))
        matrix = np.array([query.product(row) for row in np.eye(cells)]).T
        assert len(matrix) >= cells / 2
        mine, want = (model.answer(q, clique) for q in (query, sp.csr_array(matrix)))
        np.testing.assert_allclose(mine[0], want[0], rtol=1e-12)
        np.testing.assert_allclose(mine[1], want[1], rtol=1e-12)
        scaled = Sparse(sp.csr_array(3.0 * matrix))
        np.testing.assert_allclose(model.answer(scaled, clique)[1], 3 * mine[1], rtol=1e-12)


# Rows given some of their columns follow the model's conditional distribution.


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    domain = {"p": 3, "q": 2, "x": 4, "y": 3, "z": 2}
    cliques = [("p", "x"), ("q", "x"), ("p", "q"), ("x", "y"), ("y", "z"), ("q", "z")]
    shape = lambda c: tuple(domain[a] for a in c)  # noqa: E731
    whole = rng.gamma(0.6, size=shape(domain)) * 1000
    axes = list(domain)

    def marginal(clique):
        away = tuple(i for i, a in enumerate(axes) if a not in clique)
        return whole.sum(axis=away).reshape(-1)

    measured = [fastdp.Measurement(c, marginal(c), 1.0) for c in cliques]
    return fastdp.fit(domain, measured, stop="tol")


def test_rows_follow_the_conditional_distribution(model):
    """The slow twin conditions the whole model on one combination at a time. The total variation of
    n rows in k cells from their distribution is at most sqrt(k / n) / 2 on average; three times
    that is allowed."""
    n = 40_000
    combos = [(0, 0), (2, 1), (1, 0)]
    given = {"p": np.repeat([p for p, _ in combos], n), "q": np.repeat([q for _, q in combos], n)}
    drawn = sample_given(model, given, seed=1)
    assert set(drawn) == {"x", "y", "z"}
    for i, (p, q) in enumerate(combos):
        here = slice(i * n, (i + 1) * n)
        cells = np.ravel_multi_index([drawn[a][here] for a in ("x", "y", "z")], (4, 3, 2))
        found = np.bincount(cells, minlength=24) / n
        wanted = model.conditioned({"p": p, "q": q}).marginal(("x", "y", "z")).reshape(-1)
        assert np.abs(found - wanted / wanted.sum()).sum() / 2 < 1.5 * np.sqrt(24 / n)


def test_a_combination_without_rows_gets_possible_rows():
    """The model has no rows with p = 1, and none with x = 0 and y = 1: the latter stays so."""
    table = np.zeros((2, 2, 2))
    table[0] = [[5, 0], [3, 2]]
    measured = [fastdp.Measurement(("p", "x", "y"), table.reshape(-1), 1.0)]
    zeros = {("p", "x", "y"): table == 0}
    model = fastdp.fit({"p": 2, "x": 2, "y": 2}, measured, zeros=zeros)
    drawn = sample_given(model, {"p": np.ones(5000, np.uint8)}, seed=0)
    assert set(zip(drawn["x"].tolist(), drawn["y"].tolist())) == {(0, 0), (1, 0), (1, 1)}


def test_no_rows_are_drawn_for_no_rows(model):
    assert all(
        len(c) == 0 for c in sample_given(model, {"p": np.empty(0, np.uint8)}, seed=0).values()
    )


def test_a_tilted_model_has_the_shares_and_rows_of_each_code_as_before(fitted):
    """What is wanted of the column holds, and given its codes nothing changes."""
    name = next(iter(fitted.domain))
    other = [a for a in fitted.domain if a != name][-1]
    size = fitted.domain[name]
    shares = np.arange(1.0, size + 1)
    tilted = fitted.tilted(name, shares)
    before, after = (m.marginal((name, other)) for m in (fitted, tilted))
    assert np.allclose(after.sum(axis=1) / after.sum(), shares / shares.sum())
    assert np.allclose(
        after / after.sum(axis=1, keepdims=True), before / before.sum(axis=1, keepdims=True)
    )
    assert np.isclose(tilted.total, fitted.total)

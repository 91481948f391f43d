"""The estimator as a whole: the loss it states, gradients, convergence, stopping, totals, zeros,
bad input."""

import contextlib
import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree

from fastdp._core.infer import Engine
from fastdp.domain import Domain
from fastdp.errors import MeasurementError, ModelTooLargeError, UsageError
from fastdp.estimate.estimator import fit
from fastdp.estimate.linear_rows import FARTHEST, check, usage
from fastdp.estimate.lower import lower
from fastdp.estimate.total import estimate_total
from fastdp.measurement import Measurement
from fastdp.model.graphical_model import Model
from fastdp.model.grow import grow
from fastdp.model.junction_tree import junction_tree
from fastdp.model.layout import make_plan
from fastdp.queries import AdaGrid, Binned

from ..reference.cliques import projection
from ..test_queries import family


def skewed(domain, rng, total=10_000.0):
    """A random joint distribution with strong dependence, as an array over the whole domain."""
    joint = rng.gamma(0.3, size=domain.shape(domain)) + 1e-3
    return joint * (total / joint.sum())


def measure(domain, joint, cliques, sigma, rng, query=None):
    out = []
    for clique in cliques:
        x = projection(domain, joint, clique).reshape(-1)
        q = query(clique) if query else None
        answer = x if q is None else q.product(x)
        noise = sigma if q is None else q.row_sigma(sigma)
        out.append(Measurement(clique, answer + noise * rng.normal(size=answer.size), noise, q))
    return out


def stated_loss(model, measurements):
    total = 0.0
    for m in measurements:
        x = model.marginal(m.clique).reshape(-1)
        if hasattr(m.query, "product"):
            x = m.query.product(x)
        elif m.query is not None:
            x = m.query @ x
        total += 0.5 * float((((x - m.values) / m.sigma) ** 2).sum())
    return total


DOMAIN = Domain({"a": 4, "b": 5, "c": 3, "d": 6})
TREE = [("a", "b"), ("b", "c"), ("c", "d"), ("a",), ("d",)]
CYCLE = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]


def test_mirror_descent_is_monotone():
    rng = np.random.default_rng(4)
    seen = measure(DOMAIN, skewed(DOMAIN, rng), CYCLE, 50.0, rng)
    losses = []
    fit(
        DOMAIN,
        seen,
        stop="tol",
        method="mirror-descent",
        callback=lambda i, loss, s: losses.append(loss),
    )
    assert len(losses) > 5 and all(b <= a for a, b in itertools.pairwise(losses))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_gradient_equals_finite_differences(seed):
    """d loss(marginals(theta)) / d m, for a mixture of all kinds of queries."""
    rng = np.random.default_rng(seed)
    domain = Domain({"a": 3, "b": 4, "c": 2})
    joint = skewed(domain, rng, 100.0)
    seen = measure(domain, joint, [("c", "a"), ("b",)], 2.0, rng)
    # 0: no cell of a pair is asked for by itself.
    grid = family(dict(domain), rng.choice([0.0, 0.6]), rng)
    seen += measure(domain, joint, [("a", "b", "c")], 1.5, rng, lambda c: AdaGrid(grid))
    seen += measure(
        domain, joint, [("b", "a")], 1.0, rng, lambda c: Binned((4, 3), [[0, 0, 1, 1], None])
    )
    matrix = sp.random_array((5, 8), density=0.5, rng=rng, format="csr")
    seen.append(Measurement(("b", "c"), rng.normal(size=5), 0.7, matrix))
    parts = check(domain, seen)
    plan = make_plan(domain, junction_tree(domain, [m.clique for m in seen]), usage(parts))
    quadratic = lower(plan, parts)
    theta = rng.normal(size=plan.size)
    m = np.empty(plan.size)
    tables = np.empty(plan.cells)
    Engine(plan, 1).infer(theta, 100.0, tables, m)
    model = Model.from_plan(plan, tables, total=100.0)
    m = m[quadratic.active]
    here = quadratic.residual(m)
    loss = quadratic.loss(here)
    g = quadratic.gradient(here)
    assert loss == pytest.approx(stated_loss(model, seen), rel=1e-9)
    assert loss == pytest.approx(sum(x for _, x, _ in quadratic.by_order(here)), rel=1e-9)
    assert quadratic.rows == sum(s.values.size for s in seen)
    stepped = np.empty(m.size)
    quadratic.step(here, here, 0.3, 2.0, stepped, 1)
    assert np.allclose(stepped, -2.0 * g)
    for i in rng.choice(m.size, 12):
        step = 1e-4 * max(1.0, abs(m[i]))
        up, down = m.copy(), m.copy()
        up[i] += step
        down[i] -= step
        slope = (
            quadratic.loss(quadratic.residual(up)) - quadratic.loss(quadratic.residual(down))
        ) / (2 * step)
        assert slope == pytest.approx(g[i], rel=1e-5, abs=1e-6)


class TestStopping:
    def test_unreachable_noise_level_ends_by_tolerance(self):
        seen = [
            Measurement(("a",), np.array([0.0, 100.0]), 1e-3),
            Measurement(("a",), np.array([100.0, 0.0]), 1e-3),
        ]
        assert fit({"a": 2}, seen).ended == "tolerance"


class TestTotal:
    def test_minimum_variance(self):
        seen = [
            Measurement(("a",), np.array([60.0, 60.0]), 1.0),
            Measurement(("b",), np.array([20.0, 30.0, 30.0, 0.0]), 2.0),
        ]
        total, error = estimate_total(Domain({"a": 2, "b": 4}), seen)
        assert total == pytest.approx((120 / 2 + 80 / 16) / (1 / 2 + 1 / 16))
        assert error == pytest.approx((1 / 2 + 1 / 16) ** -0.5)

    def test_adagrid_and_sparse_queries_know_the_total(self):
        rng = np.random.default_rng(11)
        domain = Domain({"a": 4, "b": 3, "c": 3})
        joint = skewed(domain, rng, 5000.0)
        grid = AdaGrid(family(dict(domain), 0.7, rng))
        x = joint.reshape(-1)
        exact = [Measurement(("a", "b", "c"), grid.product(x), grid.row_sigma(3.0), grid)]
        assert estimate_total(domain, exact)[0] == pytest.approx(5000)
        both = sp.csr_array(np.array([[1.0, 1, 0, 0], [0, 0, 2, 2], [1, 1, 1, 1]]))
        # variances 1 + 4, and 9
        y = both @ projection(domain, joint, ("a",))
        sigma = np.array([1.0, 4.0, 3.0])
        found = estimate_total(domain, [Measurement(("a",), y, sigma, both)])
        assert found == pytest.approx((5000, (1 / 5 + 1 / 9) ** -0.5))
        part = sp.csr_array(np.array([[1.0, 1, 0, 0]]))
        assert estimate_total(domain, [Measurement(("a",), y[:1], 1.0, part)]) == (1.0, math.inf)

    def test_negative_answers_give_a_total_of_at_least_one(self):
        model = fit({"a": 2}, [Measurement(("a",), np.array([-50.0, -40.0]), 10.0)])
        assert model.total == 1.0 and np.isfinite(model.loss)


def test_warm_start_begins_where_the_model_was():
    rng = np.random.default_rng(13)
    joint = skewed(DOMAIN, rng)
    seen = measure(DOMAIN, joint, TREE, 20.0, rng)
    first = fit(DOMAIN, seen, stop="tol", iters=300)
    losses = []
    follow = {"warm_start": first, "callback": lambda i, x, s: losses.append(x)}
    again = fit(DOMAIN, seen, total=first.total, stop="tol", **follow)
    assert losses[0] == pytest.approx(first.loss, rel=1e-6)
    assert again.loss <= first.loss * (1 + 1e-9)


@pytest.mark.parametrize(
    "measurement, text",
    [
        (("z", [1.0, 2.0], 1.0), "no column 'z'"),
        (((), [1.0], 1.0), "clique is empty"),
        ((("a", "a"), [1.0, 2.0], 1.0), "twice"),
        (("a", [1.0, 2.0, 3.0], 1.0), "got 3"),
        (("a", [1.0, math.nan], 1.0), "NaN"),
        (("a", [1.0, 2.0], 0.0), "positive"),
        (("a", [1.0, 2.0], -1.0), "positive"),
        (("a", [1.0, 2.0], [1.0, 2.0, 3.0]), "sigma"),
        (("a", [1.0, 2.0], 0.9e-25), r"sigma must lie between 1e-25 and 1e\+100"),
        (("a", [1.0, 2.0], [1.0, 1.1e100]), r"sigma must lie between 1e-25 and 1e\+100"),
        (("a", [1.0, -1.1e36], 1.0), r"a value is more than 1e\+36 times its sigma"),
    ],
)
def test_bad_measurements_are_named(measurement, text):
    class Raw:  # what a caller without `Measurement`'s own checks might hand over
        clique = (measurement[0],) if isinstance(measurement[0], str) else measurement[0]
        values = np.array(measurement[1])
        sigma = np.array(measurement[2])
        query = None

    good = Measurement(("a",), np.ones(2), 1.0)
    with pytest.raises(MeasurementError, match=text) as error:
        fit({"a": 2, "b": 2}, [good, Raw])
    assert "measurement 1" in str(error.value)


def test_too_large_names_size_and_blame():
    domain = {f"c{i}": 100 for i in range(6)}
    names = list(domain)
    seen = [
        Measurement((a, b), np.ones(10_000), 1.0)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
    ]
    with pytest.raises(
        ModelTooLargeError, match=r"1,000,000,000,000 cells.*limit is 1,000,000.*c0"
    ):
        fit(domain, seen, max_cells=1_000_000)


@pytest.mark.parametrize("method", ["auto", "dual", "accelerated", "mirror-descent"])
@pytest.mark.parametrize(
    "sigma, value", [(1e-25, 1e11), (1e100, 1.0), (1e100, 1e136), (1e60, 1e96), (1.0, 0.0)]
)
def test_sigmas_at_the_ends_of_their_range_are_fitted(method, sigma, value):
    """Every strategy ends with a model of finite numbers, and near the answers where they are
    sharp."""
    answers = value * np.array([1.0, 0.5])
    seen = [
        Measurement(("a",), answers, sigma),
        Measurement(("a", "b"), np.repeat(answers, 2) / 2, sigma),
    ]
    model = fit({"a": 2, "b": 2}, seen, method=method)
    made = model.marginal(("a",))
    assert np.isfinite(made).all() and made.sum() == pytest.approx(model.total)
    if value > sigma:
        assert made == pytest.approx(answers, rel=0.02)


@pytest.mark.parametrize("sigma", [1e-6, 1.0, 1e6])
def test_a_value_may_be_as_far_from_zero_as_its_sigma_allows(sigma):
    for factor, fine in ((0.99, True), (1.01, False)):
        seen = [
            Measurement(
                ("a",), np.array([factor * FARTHEST * sigma, 0.0]), np.array([sigma, 2 * sigma])
            )
        ]
        with (
            contextlib.nullcontext()
            if fine
            else pytest.raises(MeasurementError, match="times its sigma")
        ):
            assert np.isfinite(fit({"a": 2}, seen).total)


# Measurements, zeros and starts that do not fit the domain are refused with a sentence that names
# them.


SMALL = Domain({"a": 2, "b": 3})
SEEN = [Measurement(("a", "b"), np.arange(6.0) + 1, 1.0)]


@pytest.mark.parametrize(
    "zeros, text",
    [
        ({("z",): [True, False]}, "zeros: "),
        ({("a",): [True, False, False]}, "one bool for each of its 2 cells"),
        ({("a",): [1, 0]}, "one bool for each of its 2 cells"),
        ({("a",): [True, True]}, "every combination is excluded"),
        ({("a",): [True, False], ("a", "b"): [False] * 3 + [True] * 3}, "no possible row"),
    ],
)
def test_zeros_are_one_bool_per_cell_and_leave_something(zeros, text):
    masks = {clique: np.array(mask) for clique, mask in zeros.items()}
    with pytest.raises(MeasurementError, match=text):
        fit(SMALL, SEEN, zeros=masks)


def test_a_start_is_over_the_same_domain():
    start = fit(Domain({"a": 2, "b": 4}), [Measurement(("b",), np.ones(4), 1.0)])
    with pytest.raises(UsageError, match="'b' has 4 codes in that model and 3 in this domain"):
        fit(SMALL, SEEN, warm_start=start)


def test_methods_and_queries_that_do_not_apply():
    with pytest.raises(UsageError, match='method="flow" takes'):
        fit(SMALL, SEEN, method="flow")
    model = fit(SMALL, SEEN)
    with pytest.raises(UsageError, match="over 3 cells"):
        model.answer(sp.csr_array(np.eye(3)), ("a",))
    with pytest.raises(MeasurementError, match="query: expected None"):
        model.answer("all", ("a",))
    with pytest.raises(UsageError, match="got 0"):
        grow(SMALL, {}, 0, 100)


@given(
    st.lists(st.integers(0, 99), min_size=10, max_size=10),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([30, 10**6]),
)
@settings(max_examples=30, deadline=None)
def test_cliques_grow_into_a_junction_tree_of_the_strongest_pairs(strengths, ways, most):
    """All columns are covered and no clique is too large or inside another; the tree needs no
    further cells. Cliques of two are a maximum spanning forest, by scipy."""
    domain = Domain(dict(zip("abcde", (4, 3, 7, 2, 5))))
    pairs = dict(zip(itertools.combinations("abcde", 2), map(float, strengths)))
    cliques = grow(domain, pairs, ways, most)
    assert {a for c in cliques for a in c} == set(domain)
    assert all(len(c) <= ways and (len(c) == 1 or domain.cells(c) <= most) for c in cliques)
    assert not any(set(c) < set(d) for c in cliques for d in cliques)
    assert sorted(map(sorted, junction_tree(domain, cliques, 10**9).cliques)) == sorted(
        map(sorted, cliques)
    )
    if ways == 2 and most > 100:
        weights = np.array([[pairs.get((a, b), 0.0) for b in "abcde"] for a in "abcde"])
        assert (
            sum(pairs[tuple(sorted(c))] for c in cliques if len(c) == 2)
            == -minimum_spanning_tree(-weights).sum()
        )

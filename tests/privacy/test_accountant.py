"""Events, their composition, and the second accountant."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.errors import PrivacyError, UsageError
from fastdp.privacy import calibrate, crosscheck, gdp
from fastdp.privacy.accountant import (
    BoundedRange,
    Gaussian,
    Pure,
    compose,
    event_from_dict,
    mu_of,
    spent,
)

from .test_calibrate import curve

AUTODP = "autodp is not installed: fastdp[verify]"
positive = st.floats(1e-4, 5.0)
events = st.one_of(
    st.builds(Gaussian, positive), st.builds(Pure, positive), st.builds(BoundedRange, positive)
)


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        {"law": "magic", "mu": 1.0},
        {"law": "gaussian"},
        {"law": "gaussian", "mu": 1.0, "more": 1},
        {"law": "gaussian", "mu": -1.0},
        {"law": "pure", "epsilon": float("nan")},
        {"law": "pure", "epsilon": "a lot"},
        {"law": "bounded-range", "epsilon": True},
        {"law": ["pure"], "epsilon": 1.0},
        {"law": "threshold", "mu": 1.0},
        {"law": "threshold", "mu": 1.0, "delta": 1.0},
        {"law": "threshold", "mu": 1.0, "delta": 0.1, "x": 1},
    ],
)
def test_malformed_events_are_refused(data):
    with pytest.raises(UsageError):
        event_from_dict(data)


def test_known_compositions_have_their_published_budgets():
    assert spent([Pure(1.0)], 0.0) == 1.0
    assert spent([Pure(1.0)], 1e-5) == 1.0
    assert spent([Pure(0.1)] * 10, 0.0) == 1.0  # as written, not 1 + 2^-52
    assert spent([BoundedRange(0.5), Pure(0.5)], 0.0) == 1.0
    assert spent([Gaussian(0.1)], 0.0) == math.inf
    assert spent([], 0.0) == 0.0
    assert spent([], 1e-5) == 0.0
    # epsilon 1 and 10 together are 10.12 at the same delta
    two = [Gaussian(gdp.mu_from(e, 2.5e-5)) for e in (1.0, 10.0)]
    assert spent(two, 2.5e-5) == pytest.approx(10.12, abs=0.006)  # published to two digits
    # Laplace alone is wasteful as mu: epsilon 1 would read 5.3
    assert 5.2 < compose([Pure(1.0)]).routes(2.5e-5)["all-mu"] < 5.4


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("count", [1, 2, 66, 1000])
def test_a_budget_split_and_composed_again_still_fits(epsilon, count):
    delta = 2.5e-5
    mu = gdp.mu_from(epsilon, delta)
    parts = [Gaussian(mu / math.sqrt(count))] * count
    assert epsilon * (1 - 1e-9) < spent(parts, delta) <= epsilon
    sigma = calibrate.calibrate(epsilon, delta, 150.0, count)
    # mu and sigma exchange roles.
    measured = [Gaussian(calibrate.sigma_from_mu(sigma, 150.0))] * count
    assert spent(measured, delta) <= epsilon
    shares = np.random.default_rng(count).dirichlet(np.ones(count))
    assert spent([Gaussian(mu * math.sqrt(s)) for s in shares], delta) <= epsilon


@given(st.lists(events, max_size=12))
def test_sums_are_rounded_up(listed):
    total = compose(listed)
    mus = sum((Fraction(mu_of(e)) ** 2 for e in listed), Fraction(0))
    gaussian = sum((Fraction(e.mu) ** 2 for e in listed if isinstance(e, Gaussian)), Fraction(0))
    pure = sum(
        (Fraction(repr(e.epsilon)) for e in listed if not isinstance(e, Gaussian)), Fraction(0)
    )
    assert Fraction(total.mu) ** 2 >= mus
    assert Fraction(total.gaussian_mu) ** 2 >= gaussian
    assert Fraction(repr(total.pure_epsilon)) >= pure
    assert Fraction(total.mu) ** 2 <= mus * Fraction(1 + 1e-13)


@settings(deadline=None, max_examples=25)
@given(st.lists(events, min_size=1, max_size=8), st.sampled_from([1e-12, 1e-6, 0.05]))
def test_more_events_cost_more_and_order_does_not_matter(listed, delta):
    assert spent(listed[:-1], delta) <= spent(listed, delta)
    assert spent(listed[::-1], delta) == pytest.approx(spent(listed, delta), rel=1e-12)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, float("nan"), "x"])
def test_bad_deltas_are_refused(delta):
    with pytest.raises(UsageError):
        spent([Pure(1.0)], delta)


def range_tradeoff_mu(epsilon: float, t: float) -> float:
    """The smallest mu for the worst pair with privacy loss in [t - epsilon, t] (Dong, Durfee,
    Rogers 2020).

    Any such pair is a post-processing of Bernoulli(p) against Bernoulli(q) with p/q = e^t and
    (1-p)/(1-q) = e^(t-epsilon); its trade-off curve has one vertex, at (1-p, q).
    """
    with mpmath.workdps(40):
        t = mpmath.mpf(t)
        epsilon = mpmath.mpf(epsilon)
        q = (mpmath.exp(-t) - mpmath.exp(-epsilon)) / (1 - mpmath.exp(-epsilon))
        p = q * mpmath.exp(t)
        root2 = mpmath.sqrt(2)
        return float(root2 * (mpmath.erfinv(2 * p - 1) - mpmath.erfinv(2 * q - 1)))


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 12.0])
def test_bounded_range_covers_its_exact_worst_case(epsilon):
    worst = max(range_tradeoff_mu(epsilon, epsilon * i / 40) for i in range(1, 40))
    mu = gdp.mu_of_range(epsilon)
    assert worst <= mu
    assert worst == pytest.approx(mu, rel=1e-12)  # reached at t = epsilon/2


def test_a_range_charged_as_half_would_be_seen():
    assert range_tradeoff_mu(1.0, 0.5) > gdp.mu_of_range(0.5)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=6), st.floats(0.05, 4.0), st.data())
def test_exponential_mechanisms_stay_inside_the_range_charge(scores, epsilon, data):
    """Neighbouring score vectors (each score moves by at most D): every test of the two output laws
    obeys mu."""
    d = 7
    moves = data.draw(st.lists(st.integers(-d, d), min_size=len(scores), max_size=len(scores)))
    first = np.array(scores, dtype=float)
    second_scores = first + np.array(moves)
    p, q = (np.exp(epsilon * (s - s.max()) / (2 * d)) for s in (first, second_scores))
    p, q = p / p.sum(), q / q.sum()
    mu = gdp.mu_of_range(epsilon)
    order = np.argsort(p / q)
    alpha = np.cumsum(p[order])[:-1]
    power = np.cumsum(q[order])[:-1]
    from scipy.stats import norm

    assert np.all(norm.ppf(power) - norm.ppf(alpha) <= mu + 1e-9)


def test_autodp_agrees_over_its_range():
    pytest.importorskip("autodp", reason=AUTODP)
    for epsilon, delta in product([1e-4, 0.01, 1.0, 10.0, 100.0], [1e-15, 1e-9, 2.5e-5, 0.1]):
        mu = gdp.mu_from(epsilon, delta)
        parts = [Gaussian(mu / math.sqrt(8))] * 8
        name, value = crosscheck.evaluate(parts, delta, expected=spent(parts, delta))
        assert name.startswith("autodp")
        assert value == pytest.approx(epsilon, rel=crosscheck.TOLERANCE / 10)
        assert crosscheck.agree(parts, epsilon, delta) == name


@settings(deadline=None, max_examples=10)
@given(st.lists(events, min_size=1, max_size=5), st.sampled_from([1e-20, 1e-12, 1e-6, 0.05]))
def test_high_precision_agrees_on_mixed_runs(listed, delta):
    listed = [*listed, Pure(0.5)]
    epsilon = spent(listed, delta)
    assert crosscheck.agree(listed, epsilon, delta).startswith("mpmath")


def test_pure_runs_and_what_is_outside_autodps_range_are_answered_by_high_precision():
    assert crosscheck.agree([Pure(0.1)] * 10, 1.0, 0.0).startswith("mpmath")
    with pytest.raises(PrivacyError, match="pure events only"):
        crosscheck.agree([Pure(0.1), Gaussian(0.1)], 1.0, 0.0)
    mu = gdp.mu_from(1.0, 1e-30)
    assert crosscheck.agree([Gaussian(mu)], 1.0, 1e-30).startswith("mpmath")
    mu = gdp.mu_from(500.0, 1e-6)
    assert crosscheck.agree([Gaussian(mu)], 500.0, 1e-6).startswith("mpmath")


@pytest.mark.parametrize("kind", [Gaussian, BoundedRange])
def test_disagreement_stops_the_run(kind, monkeypatch):
    listed = [kind(0.2), kind(0.3)]
    monkeypatch.setattr(crosscheck.accountant, "spent", lambda *_: spent(listed, 1e-6) * (1 + 2e-6))
    with pytest.raises(PrivacyError, match="disagree"):
        crosscheck.agree(listed, 50.0, 1e-6)


def test_a_missing_square_root_of_the_count_is_caught():
    """The planted bug: 66 measurements calibrated as if they were one."""
    sigma = calibrate.calibrate(1.0, 2.5e-5, 150.0, 1)
    measured = [Gaussian(calibrate.sigma_from_mu(sigma, 150.0))] * 66
    with pytest.raises(PrivacyError, match="more than the stated"):
        crosscheck.agree(measured, 1.0, 2.5e-5)


def test_the_least_delta_has_a_mu():
    """Down to the smallest epsilon and delta that may be asked for, mu_from gives the largest that
    holds."""
    for epsilon in (0.0, 1e-300, 1e-12):
        mu = gdp.mu_from(epsilon, 1e-300)
        with mpmath.workdps(700):
            assert 1e-300 <= mu and curve(mu, epsilon) <= 1e-300 < curve(1.01 * mu, epsilon)


@pytest.mark.parametrize("error", [RuntimeError, ValueError, AssertionError])
def test_where_autodp_has_no_answer_nothing_is_drawn(error, monkeypatch):
    dp_bank = pytest.importorskip("autodp.dp_bank", reason=AUTODP)

    def fails(*_):
        raise error("no root")

    monkeypatch.setattr(dp_bank, "get_eps_ana_gaussian", fails)
    parts = [Gaussian(0.3)]
    with pytest.raises(PrivacyError, match="did not answer; nothing was drawn"):
        crosscheck.agree(parts, spent(parts, 1e-6), 1e-6)

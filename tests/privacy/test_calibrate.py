"""Calibration against golden figures and 60-digit arithmetic over the promised range."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.privacy import calibrate as c, gdp

EPSILONS = [1e-4, 1e-3, 0.03, 0.3, 1.0, 8.0, 33.0, 100.0]
DELTAS = [1e-15, 1e-12, 1e-9, 2.5e-5, 1e-3, 0.1]


def curve(mu, epsilon):
    """delta(mu, epsilon) as the textbook writes it."""
    mu = mpmath.mpf(mu)
    epsilon = mpmath.mpf(epsilon)
    tail = mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)
    return mpmath.ncdf(-epsilon / mu + mu / 2) - tail


def exact_mu(epsilon, delta, near):
    """The root in mu at 60 digits."""

    def f(mu):
        return mpmath.log(curve(mu, epsilon)) - mpmath.log(mpmath.mpf(delta))

    return mpmath.findroot(f, (mpmath.mpf(near), mpmath.mpf(near) * (1 + mpmath.mpf("1e-9"))))


@pytest.mark.parametrize(
    ("epsilon", "clip", "method", "sigma"),
    [
        (1.0, 150, "gdp", 4290.2421),
        (10.0, 200, "gdp", 784.1204),
        (1.0, 150, "classic-rdp", 5739.3613),
        (10.0, 200, "classic-rdp", 895.4163),
    ],
)
def test_calibrated_noise_is_that_of_published_figures(epsilon, clip, method, sigma):
    """Published to four digits after the point."""
    assert c.calibrate(epsilon, 2.5e-5, clip, 66, method) == pytest.approx(sigma, abs=6e-5)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(EPSILONS) | st.floats(-4, 2).map(lambda x: 10.0**x),
    st.sampled_from(DELTAS) | st.floats(-15, -1).map(lambda x: 10.0**x),
)
def test_mu_sigma_and_back_over_the_whole_range(epsilon, delta):
    """1e-9 relative (in fact 1e-12), each on its safe side."""
    with mpmath.workdps(60):
        mu = gdp.mu_from(epsilon, delta)
        true = exact_mu(epsilon, delta, mu)
        assert 0 <= 1 - mu / true < 1e-12
        sigma = c.calibrate(epsilon, delta, 150.0, 66)
        exact = 150 * mpmath.sqrt(66) / true
        assert 0 <= sigma / exact - 1 < 1e-12
        back = gdp.epsilon_of(mu, delta)
        assert back <= epsilon
        assert curve(mu, back) <= delta
        assert curve(mu, mpmath.mpf(back) * (1 - mpmath.mpf("1e-9"))) > delta


def test_a_sigma_rounded_down_would_be_seen():
    with mpmath.workdps(60):
        sigma = c.calibrate(1.0, 2.5e-5)
        planted = mpmath.mpf(sigma) * (1 - mpmath.mpf("1e-12"))
        assert curve(1 / mpmath.mpf(sigma), 1.0) <= 2.5e-5 < curve(1 / planted, 1.0)


@settings(deadline=None)
@given(st.floats(1e-3, 30.0), st.floats(0.0, 200.0))
def test_the_error_bound_of_log_delta_holds(mu, epsilon):
    value, error = gdp._log_delta(mu, epsilon)
    if value > -700:
        with mpmath.workdps(80 + int(epsilon)):
            assert abs(mpmath.log(curve(mu, epsilon)) - mpmath.mpf(value)) < error


@settings(deadline=None, max_examples=8)
@given(st.floats(1e-6, 600.0))
def test_pure_and_range_are_the_stated_formula_rounded_up(epsilon):
    mu = gdp.mu_of_pure(epsilon)
    with mpmath.workdps(60 + int(epsilon)):
        tail = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        assert mpmath.ncdf(-mpmath.mpf(mu) / 2) <= tail
        assert mpmath.ncdf(-mpmath.mpf(mu) * (1 - mpmath.mpf("1e-12")) / 2) > tail
        # Of a budget: never more than it allows.
        down = mpmath.mpf(c.mu_of_method(epsilon, 0.0, "pure"))
        assert mpmath.ncdf(-down / 2) >= tail > mpmath.ncdf(-down * (1 + mpmath.mpf("1e-11")) / 2)
    assert gdp.mu_of_range(2 * epsilon) == mu


@settings(deadline=None)
@given(st.floats(1e-6, 30.0))
def test_what_a_selection_may_use_fits_its_share(mu):
    epsilon = gdp.range_epsilon_from(mu)
    assert gdp.mu_of_range(epsilon) <= mu
    assert gdp.mu_of_range(epsilon * (1 + 1e-11)) > mu
    assert gdp.range_epsilon_from(mu) == 2 * gdp.pure_epsilon_from(mu)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e6), st.integers(1, 1000))
def test_sigma_from_mu_is_rounded_up_in_exact_arithmetic(mu, sensitivity, count):
    sigma = c.sigma_from_mu(mu, sensitivity, count)
    bound = count * Fraction(sensitivity) ** 2
    assert (Fraction(sigma) * Fraction(mu)) ** 2 >= bound
    assert (Fraction(sigma) * Fraction(mu)) ** 2 <= bound * Fraction(1 + 1e-14)


def test_classic_gaussian_is_the_textbook_with_its_cap():
    delta = 1e-5
    sigma = math.sqrt(2 * math.log(1.25e5))
    how = "classic-gaussian"
    first, capped, whole = (
        c.calibrate(e, delta, s, 1, how) for e, s in ((0.5, 3), (10, 1), (1, 1))
    )
    assert math.isclose(first, 6 * sigma, rel_tol=1e-12) and capped == whole
    ratio = c.calibrate(10.0, 2.5e-5, method="classic-gaussian") / c.calibrate(10.0, 2.5e-5)
    assert ratio > 9


@pytest.mark.parametrize("method", ["gdp", "classic-rdp", "classic-gaussian"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_mu_of_method_is_never_more_than_the_tight_one(method, epsilon):
    mu = c.mu_of_method(epsilon, 1e-6, method)
    assert mu <= gdp.mu_from(epsilon, 1e-6)
    assert math.isclose(c.calibrate(epsilon, 1e-6, method=method) * mu, 1.0, rel_tol=1e-12)
    assert gdp.epsilon_of(mu, 1e-6) <= epsilon


def test_conversions_at_the_edges():
    none = (gdp.epsilon_of(0.0, 1e-9), gdp.epsilon_of(0.1, 0.5), gdp.mu_of_pure(0.0))
    assert none == (0.0,) * 3
    # Two answers of sensitivity 3, pure epsilon 2.
    assert c.calibrate(2.0, 0.0, 3.0, 2, "laplace") == 3.0
    assert math.isclose(gdp.epsilon_of(gdp.mu_from(1e4, 1e-9), 1e-9), 1e4, rel_tol=1e-9)
    assert math.isclose(gdp.epsilon_of(gdp.mu_from(1.0, 1e-200), 1e-200), 1.0, rel_tol=1e-9)

"""Scales are rounded up and cover the sensitivity in exact arithmetic; what does not is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.errors import PrivacyError
from fastdp.privacy import noise, scale
from fastdp.privacy.gdp import least

MUS = st.floats(1e-3, 1e3)
SENSITIVITY = st.integers(1, 2**70)
SQUARES = st.lists(
    st.sampled_from([(1, 1), (1, 2), (1, 3), (4, 9), (7, 1), (2**40, 3)]), min_size=1, max_size=12
)


def arrays(pairs) -> scale.Coef2:
    return np.array([p[0] for p in pairs], np.int64), np.array([p[1] for p in pairs], np.int64)


@given(SENSITIVITY, MUS)
def test_a_gaussian_scale_is_the_least_of_its_neighbours_that_covers(sensitivity2, mu):
    """sigma^2 mu^2 >= D^2 exactly, and not with a scale a few roundings smaller."""
    sigma = scale.gaussian_sigma(sensitivity2, mu)
    assert Fraction(sigma) ** 2 * Fraction(mu) ** 2 >= sensitivity2
    assert Fraction(sigma * (1 - 1e-15)) ** 2 * Fraction(mu) ** 2 < sensitivity2


@given(SENSITIVITY, MUS, SQUARES)
def test_every_row_gets_the_noise_of_its_own_scalar(sensitivity2, mu, pairs):
    """sigma_i^2 c_i^2 mu^2 >= D^2, row by row and as tightly as for one row; one number where all
    scalars are equal."""
    sigmas = scale.row_sigmas(scale.gaussian_sigma(sensitivity2, mu), arrays(pairs))
    assert isinstance(sigmas, float) == (len(set(pairs)) == 1)
    for sigma, (num, den) in zip(np.broadcast_to(sigmas, len(pairs)).tolist(), pairs, strict=True):
        covered = Fraction(sigma) ** 2 * Fraction(num, den) * Fraction(mu) ** 2
        assert sensitivity2 <= covered <= sensitivity2 * Fraction(1 + 1e-14)


@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (-1, 1), (1, -1)])
def test_scalars_that_are_no_positive_fractions_are_refused(pair):
    with pytest.raises(PrivacyError, match="positive fraction"):
        scale.row_sigmas(1.0, arrays([(1, 1), pair]))


@given(st.integers(2**20, 2**60), st.floats(1e-2, 10), SQUARES, st.data())
def test_noise_that_is_short_in_any_one_row_is_refused(sensitivity2, mu, pairs, data):
    """The check passes what the rules make, and fails where one row's noise is 1e-12 short,
    whichever."""
    coef2 = arrays(pairs)
    sigmas = np.broadcast_to(
        scale.row_sigmas(scale.gaussian_sigma(sensitivity2, mu), coef2), len(pairs)
    ).copy()
    if not noise.SCALE_MIN <= sigmas.min() <= sigmas.max() <= noise.SCALE_MAX:
        return
    scale.check_gaussian(sigmas, coef2, sensitivity2, mu)
    row = data.draw(st.integers(0, len(pairs) - 1))
    sigmas[row] *= 1 - 1e-12
    with pytest.raises(PrivacyError, match=f"query row {row}:"):
        scale.check_gaussian(sigmas, coef2, sensitivity2, mu)


@pytest.mark.parametrize("coef2", [None, arrays([(1, 1)] * 3)])
def test_one_number_for_all_rows_is_checked_too(coef2):
    sigma = scale.gaussian_sigma(10**12, 0.5)
    scale.check_gaussian(sigma, coef2, 10**12, 0.5)
    for short in (math.nextafter(sigma * (1 - 1e-15), 0.0), sigma / 2):
        with pytest.raises(PrivacyError, match="does not cover"):
            scale.check_gaussian(short, coef2, 10**12, 0.5)


@given(st.integers(1, 10**6), st.floats(1e-3, 100))
def test_a_laplace_scale_is_the_least_float_that_covers(sensitivity, epsilon):
    """scale * epsilon >= sensitivity, epsilon read as the smaller of the double and its shortest
    decimal; the next smaller float does not cover."""
    width = scale.laplace_scale(sensitivity, epsilon)
    assert Fraction(width) * least(epsilon) >= sensitivity
    assert Fraction(math.nextafter(width, 0.0)) * least(epsilon) < sensitivity
    if noise.SCALE_MIN <= width <= noise.SCALE_MAX:
        scale.check_laplace(width, sensitivity, epsilon)
        with pytest.raises(PrivacyError, match="Laplace"):
            scale.check_laplace(math.nextafter(width, 0.0), sensitivity, epsilon)


@settings(max_examples=30)
@given(st.floats(0.05, 50))
def test_the_standard_deviation_is_that_of_the_discrete_law(width):
    k = np.arange(-3000, 3001, dtype=np.float64)
    law = np.exp(-np.abs(k) / width)
    assert scale.laplace_std(width) == pytest.approx(
        math.sqrt((law * k * k).sum() / law.sum()), rel=1e-9
    )


def test_scales_outside_the_samplers_range_are_refused():
    most = min(noise.SCALE_MAX, scale.MAX_SCALE)
    scale.check_range(np.array([noise.SCALE_MIN, most]))
    scale.check_range(np.empty(0))
    for bad in (math.nextafter(noise.SCALE_MIN, 0.0), math.nextafter(most, math.inf)):
        with pytest.raises(PrivacyError, match="scales must be between"):
            scale.check_range(np.array([1.0, bad]))
        with pytest.raises(PrivacyError, match="scales must be between"):
            scale.check_laplace(bad, 1, 1e6)
        with pytest.raises(PrivacyError, match="scales must be between"):
            scale.check_gaussian(bad, None, 1, 1e12)


def test_no_count_with_noise_leaves_int64():
    """MAX_ROWS rows in a cell, in units of 2^-20 rows, and 128 scales of noise, are below 2^63."""
    assert scale.MAX_ROWS * 2**20 + 128 * min(noise.SCALE_MAX, scale.MAX_SCALE) < 2**63

"""What is rare is merged: shapes of 1-ways, limits of pairs, means of two measurements, crowding."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import merged_codes, one_ways
from fastdp.model.adjust import onto_simplex


def one(values, sigma):
    return Measurement(("a",), np.asarray(values, float), sigma)


def shrunk(values, noise, count):
    """James and Stein's rule, towards the mean, as it is printed: 1 - (n - 3) variance / sum of squares."""
    mean = sum(values) / count
    squares = sum((v - mean) ** 2 for v in values)
    factor = max(0.0, 1 - (count - 3) * noise**2 / squares) if squares else 0.0
    return [mean + factor * (v - mean) for v in values]


@given(
    st.lists(st.floats(10, 200), min_size=4, max_size=30),
    st.floats(0.5, 60),
    st.lists(st.floats(0, 50), max_size=3),
)
def test_rare_values_are_shrunk_as_far_as_noise_explains_their_differences(rare, sigma, common):
    values = [*rare, *common]
    total = float(sum(values))
    is_rare = np.arange(len(values)) < len(rare)
    shape = merged_codes.shape_of(one(values, sigma), is_rare, total)
    expected = values
    if 2 * sum(common) < total:
        expected = [*shrunk(rare, sigma, len(rare)), *common]
    assert np.allclose(shape, onto_simplex(np.array(expected), total), rtol=1e-9, atol=1e-7)
    assert math.isclose(shape.sum(), total, rel_tol=1e-9) and (shape >= 0).all()


@pytest.mark.parametrize("sigma, kept", [(1e-6, 1.0), (1e6, 0.0)])
def test_without_noise_nothing_is_shrunk_and_under_noise_alone_everything(sigma, kept):
    values = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    shape = merged_codes.shape_of(one(values, sigma), np.ones(5, bool), 150.0)
    assert np.allclose(shape, 30 + kept * (values - 30))


def test_where_most_rows_have_common_values_answers_stay():
    values = np.array([500.0, 1.0, 9.0, 4.0, 2.0, 6.0])
    shape = merged_codes.shape_of(one(values, 5.0), np.arange(6) > 0, values.sum())
    assert np.allclose(shape, values)


def test_crowding_is_the_distance_that_noise_causes():
    """Of values far above the noise 0.4 sigma / N each; of values below it less; never above 1."""
    many = one([1000.0] * 8, 10.0)
    assert one_ways.noise_ratio([many], 8000.0, 1.0) == pytest.approx(one_ways.NOISE * 10 * 8 / 16_000)
    assert one_ways.noise_ratio([many], 8000.0, 2.0) == pytest.approx(2 * one_ways.NOISE * 10 * 8 / 16_000)
    few = one([8000.0 - 7, *[1.0] * 7], 10.0)
    assert one_ways.noise_ratio([few], 8000.0, 1.0) == pytest.approx(one_ways.NOISE * 10 * 1.7 / 16_000)
    both = one_ways.noise_ratio([many, few], 8000.0, 1.0)
    assert both == pytest.approx(one_ways.NOISE * 10 * (8 + 1.7) / 2 / 16_000)
    assert one_ways.noise_ratio([many], 8000.0, 1e9) <= 1.0
    for total in (0.0, -1.0):
        assert one_ways.noise_ratio([many], total, 1.0) == 1.0
    assert one_ways.noise_ratio([one([0.9, 0.0], 1e-3)], 0.9, 1.0) < 0.01

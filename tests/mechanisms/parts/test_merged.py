"""What is rare is merged: shapes of 1-ways, limits of pairs, means of two measurements, crowding."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.parts import merged
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
    shape = merged.shape_of(one(values, sigma), is_rare, total)
    expected = values
    if 2 * sum(common) < total:
        expected = [*shrunk(rare, sigma, len(rare)), *common]
    assert np.allclose(shape, onto_simplex(np.array(expected), total), rtol=1e-9, atol=1e-7)
    assert math.isclose(shape.sum(), total, rel_tol=1e-9) and (shape >= 0).all()


@pytest.mark.parametrize("sigma, kept", [(1e-6, 1.0), (1e6, 0.0)])
def test_without_noise_nothing_is_shrunk_and_under_noise_alone_everything(sigma, kept):
    values = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    shape = merged.shape_of(one(values, sigma), np.ones(5, bool), 150.0)
    assert np.allclose(shape, 30 + kept * (values - 30))


def test_where_most_rows_have_common_values_answers_stay():
    values = np.array([500.0, 1.0, 9.0, 4.0, 2.0, 6.0])
    shape = merged.shape_of(one(values, 5.0), np.arange(6) > 0, values.sum())
    assert np.allclose(shape, values)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 3000))
def test_the_largest_cut_within_a_limit(sizes, most):
    def cells(n):
        return sum(min(a, n) * min(b, n) for a, b in combinations(sizes, 2))

    n = merged.largest_within(dict(enumerate(sizes)), most)
    fitting = [k for k in range(2, max(2, *sizes, 2) + 1) if cells(k) <= most]
    assert n == max(fitting, default=2)


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=1, max_size=5), st.floats(0.1, 9))
def test_two_measurements_average_by_precision(pairs, sigma):
    a, b = map(np.array, zip(*pairs, strict=True))
    (mean,) = merged.averaged([one(a, 1.0)], [one(b, sigma)])
    weight = sigma**2 / (1 + sigma**2)
    assert np.allclose(mean.values, weight * a + (1 - weight) * b, atol=1e-9)
    assert np.allclose(mean.sigma, sigma / math.sqrt(1 + sigma**2))
    (cells,) = merged.averaged([one(a, np.full(a.size, 1.0))], [one(b, sigma)])
    assert np.allclose(cells.values, mean.values) and np.allclose(cells.sigma, mean.sigma)


def test_pairs_that_are_left_have_the_largest_smaller_column():
    domain = Domain({"a": 2, "b": 9, "c": 7, "d": 1, "e": 50})
    assert merged.all_pairs(domain, 100, 10**6) == list(combinations("abce", 2))
    assert merged.all_pairs(domain, 100, 63) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert merged.all_pairs(domain, 1, 10**6) == [("b", "e")]
    assert merged.all_pairs(domain, 3, 10**6) == [("b", "c"), ("b", "e"), ("c", "e")]


def test_crowding_is_the_distance_that_noise_causes():
    """Of values far above the noise 0.4 sigma / N each; of values below it less; never above 1."""
    many = one([1000.0] * 8, 10.0)
    assert merged.crowding([many], 8000.0, 1.0) == pytest.approx(merged.NOISE * 10 * 8 / 16_000)
    assert merged.crowding([many], 8000.0, 2.0) == pytest.approx(2 * merged.NOISE * 10 * 8 / 16_000)
    few = one([8000.0 - 7, *[1.0] * 7], 10.0)
    assert merged.crowding([few], 8000.0, 1.0) == pytest.approx(merged.NOISE * 10 * 1.7 / 16_000)
    both = merged.crowding([many, few], 8000.0, 1.0)
    assert both == pytest.approx(merged.NOISE * 10 * (8 + 1.7) / 2 / 16_000)
    assert merged.crowding([many], 8000.0, 1e9) <= 1.0
    for total in (0.0, -1.0):
        assert merged.crowding([many], total, 1.0) == 1.0
    assert merged.crowding([one([0.9, 0.0], 1e-3)], 0.9, 1.0) < 0.01

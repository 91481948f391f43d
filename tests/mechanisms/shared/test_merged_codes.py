"""What is rare is merged: shapes of 1-ways, limits of pairs, means of two measurements, crowding."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import merged_codes
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

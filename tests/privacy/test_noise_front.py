"""The Python face of the samplers: shapes, ranges, seeds and bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdp._core import noise as core
from fastdp.errors import PrivacyError, UsageError
from fastdp.privacy import noise


@given(st.lists(st.integers(1, 70), min_size=1, max_size=8), st.integers(0, 10**6))
def test_bits_go_on_where_they_ended(sizes, seed):
    """A take uses whole bytes of one seeded sequence, one after the other, and gives their upper bits."""
    bits, at = noise.Bits(seed), 0
    data = noise.fill_random_bytes(sum(-(-n // 8) for n in sizes), seed)
    for n in sizes:
        count = -(-n // 8)
        whole = int.from_bytes(data[at : at + count], "little")
        value = bits.take(n)
        assert value == whole >> (8 * count - n) and 0 <= value < 2**n
        at += count


def test_bits_without_a_seed_are_fresh():
    assert noise.Bits().take(128) != noise.Bits().take(128)
    bits = noise.Bits()
    assert bits.take(128) != bits.take(128)


def test_bits_use_their_whole_range():
    """A bit that is never 0, or never 1, in 200 draws has probability below 1e-58."""
    drawn = [noise.Bits(seed).take(13) for seed in range(200)]
    assert all(len({value >> bit & 1 for value in drawn}) == 2 for bit in range(13))


@pytest.mark.parametrize("law", [noise.gaussian, noise.laplace])
def test_shapes_and_scales(law):
    assert law(5.0, 7, seed=1).shape == (7,) and law(5.0, (2, 3), seed=1).shape == (2, 3)
    assert law(5.0, [2, 3], seed=1).shape == (2, 3) and law(5.0, (), seed=1).shape == ()
    assert law(5.0, np.int64(4), seed=1).shape == (4,) and law(5.0, 0).shape == (0,)
    flat = law(5.0, 6, seed=1)
    assert np.array_equal(law(5.0, (2, 3), seed=1).reshape(-1), flat)
    assert np.array_equal(law(np.array([5.0]), 6, seed=1), flat)
    assert np.array_equal(law(np.full((2, 3), 5.0), (2, 3), seed=1).reshape(-1), flat)
    wide = law(np.array([1.0, 1e9]), (500, 2), seed=2)
    assert np.abs(wide[:, 0]).max() < 200 and np.median(np.abs(wide[:, 1])) > 1e8


@pytest.mark.parametrize("law", [noise.gaussian, noise.laplace])
def test_the_ends_of_the_range_are_in_it(law):
    for scale in (noise.SCALE_MIN, noise.SCALE_MAX):
        assert law(scale, 3, seed=1).shape == (3,)
    for scale in (np.nextafter(noise.SCALE_MIN, 0), np.nextafter(noise.SCALE_MAX, np.inf)):
        with pytest.raises(UsageError, match="must be between"):
            law(scale, 3)
        with pytest.raises(UsageError, match="must be between"):
            law([1.0, 1.0, scale], 3)


def test_seeds_are_whole_numbers():
    one = noise.gaussian(1e6, 20, seed=3)
    assert np.array_equal(one, noise.gaussian(1e6, 20, seed=np.int64(3)))
    assert not np.array_equal(one, noise.gaussian(1e6, 20, seed=-3))
    for bad in (True, 3.0, "3"):
        with pytest.raises(UsageError, match="seed"):
            noise.gaussian(1e6, 20, seed=bad)


def test_the_two_laws_do_not_share_their_numbers():
    assert not np.array_equal(noise.gaussian(1e6, 50, seed=3), noise.laplace(1e6, 50, seed=3))


def test_no_bytes_and_a_negative_number_of_them():
    assert noise.fill_random_bytes(0) == b"" and len(noise.fill_random_bytes(9)) == 9
    with pytest.raises(UsageError, match="negative"):
        noise.fill_random_bytes(-1)


@pytest.mark.parametrize("error, text", [(OSError(5, "x"), "no random bits"), (ValueError("x"), "rejected")])
def test_where_the_sampler_fails_no_noise_was_drawn(error, text, monkeypatch):
    def fails(*_, **__):
        raise error

    with pytest.raises(PrivacyError, match=rf"{text}.*; no noise was drawn") as caught, noise._drawing():
        fails()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    for name in ("gaussian", "laplace", "random_bytes"):
        monkeypatch.setattr(core, name, fails)
    for draw in (lambda: noise.gaussian(2.0, 3), lambda: noise.laplace(2.0, 3)):
        with pytest.raises(PrivacyError, match=f"{text}.*; no noise was drawn"):
            draw()
    with pytest.raises(PrivacyError, match=f"{text}.*; no noise was drawn"):
        noise.fill_random_bytes(3)

"""The noise kernel against its slow twin, the RFC and high-precision arithmetic: no statistics
here."""

import os
import threading
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp._core import noise as core
from fastdp.errors import PrivacyError, UsageError
from fastdp.privacy import noise
from tests.reference import noise as twin
from tools import noise_table


def words(text: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(text), dtype="<u4").astype(np.uint32)


def test_chacha20_block_of_rfc_8439_section_2_3_2():
    key = words("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
    expected = words(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    nonce = words("000000090000004a00000000")
    assert np.array_equal(core.chacha20_block(key, 1, nonce), expected)
    assert twin.chacha20_block(key.tolist(), 1, nonce.tolist()) == expected.tolist()


@given(st.binary(min_size=44, max_size=44), st.integers(0, 2**32 - 1))
def test_lanes_are_consecutive_blocks(data, counter):
    key = words(data[:32].hex())
    nonce = words(data[32:].hex())
    lanes = core.chacha20_lanes(key, counter, nonce)
    for lane in range(core.LANES):
        block = core.chacha20_block(key, (counter + lane) % 2**32, nonce)
        assert np.array_equal(lanes[:, lane], block)


def test_tables_are_those_of_high_precision_arithmetic():
    header = Path(__file__).parents[2] / "csrc" / "noise_table.h"
    assert header.read_text() == noise_table.header()


@given(st.integers(0, int(0.875 * 2**128)))
def test_exponential_is_within_eight_units(z):
    with mpmath.workprec(400):
        exact = mpmath.exp(-mpmath.mpf(z) / mpmath.mpf(2) ** 128) * mpmath.mpf(2) ** 128
        assert abs(core.exp_minus(z) - exact) < 8


@given(st.integers(0, 223), st.integers(0, 2**128 - 1))
def test_gaussian_exponent_is_short_by_less_than_four_units(strip, u):
    with mpmath.workprec(400):
        exact = mpmath.mpf(2 * strip * u * 2**128 + u * u) / 512 / mpmath.mpf(2) ** 128
        assert 0 <= exact - core.gauss_exponent(strip, u) < 4


@settings(max_examples=20, deadline=None)
@given(st.floats(-2.99, 11.99), st.integers(0, 10**9))
def test_draws_equal_the_twin_at_any_scale(exponent, seed):
    scale = 10.0**exponent
    key = noise._key(seed).tolist()
    assert noise.gaussian(scale, 20, seed=seed).tolist() == twin.gaussian(scale, 20, key)
    assert noise.laplace(scale, 20, seed=seed).tolist() == twin.laplace(scale, 20, key)


def test_seeded_draws_do_not_depend_on_threads_and_continue_by_chunk():
    one = noise.gaussian(1e6, 5 * twin.CHUNK + 7, seed=5, threads=1)
    many = noise.gaussian(1e6, 5 * twin.CHUNK + 7, seed=5, threads=4)
    assert np.array_equal(one, many)
    key = noise._key(5).tolist()
    start = 3 * twin.CHUNK
    assert one[start : start + 30].tolist() == twin.gaussian(1e6, 30, key, chunk=3)


def test_a_seed_repeats_and_its_absence_does_not():
    assert np.array_equal(noise.laplace(1e6, 100, seed=1), noise.laplace(1e6, 100, seed=1))
    assert not np.array_equal(noise.laplace(1e6, 100, seed=1), noise.laplace(1e6, 100, seed=-1))
    for bad in (True, 3.0, "3"):
        with pytest.raises(UsageError, match="seed"):
            noise.gaussian(1e6, 20, seed=bad)
    # two fresh keys: 100 equal draws of scale 1e6 have a probability below 1e-500
    assert not np.array_equal(noise.gaussian(1e6, 100), noise.gaussian(1e6, 100))
    assert noise.fill_random_bytes(40) != noise.fill_random_bytes(40)
    assert noise.fill_random_bytes(40, seed=3)[:13] == noise.fill_random_bytes(13, seed=3)
    assert noise.Bits().take(128) != noise.Bits().take(128)
    bits = noise.Bits()
    assert bits.take(128) != bits.take(128)
    assert not np.array_equal(noise.gaussian(1e6, 50, seed=3), noise.laplace(1e6, 50, seed=3))


def test_parent_and_child_of_a_real_fork_draw_differently():
    noise.gaussian(1e9, 10**5, threads=2)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, noise.gaussian(1e9, 4 * twin.CHUNK, threads=2)[:1000].tobytes())
        finally:
            os._exit(0)
    os.close(write)
    parents = noise.gaussian(1e9, 4 * twin.CHUNK, threads=2)[:1000]
    with os.fdopen(read, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), dtype=np.int64)
    os.waitpid(child, 0)
    assert theirs.size == 1000
    # 1e6 pairs, each equal with probability below 3e-10: more than 8 equal is below 1e-30
    assert np.intersect1d(parents, theirs).size <= 8


def test_threads_of_one_process_draw_differently():
    drawn: list[np.ndarray] = []
    workers = [
        threading.Thread(target=lambda: drawn.append(noise.gaussian(1e9, 1000))) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(drawn) == 8
    assert np.unique(np.concatenate(drawn)).size >= 8000 - 30  # 32 million pairs at 3e-10 each


@pytest.mark.parametrize("size", [-1, (2, -1), "x", 1.5, (2, 0.5), None])
def test_bad_sizes_are_refused(size):
    with pytest.raises(UsageError):
        noise.gaussian(1.0, size)
    with pytest.raises(UsageError, match="negative"):
        noise.fill_random_bytes(-1)
    assert noise.fill_random_bytes(0) == b"" and len(noise.fill_random_bytes(9)) == 9


def test_the_kernel_refuses_what_the_front_would_not_pass_on():
    out = np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="out of range"):
        core.gaussian(np.array([1e-5]), None, 1, out)
    with pytest.raises(ValueError, match="out of range"):
        core.laplace(np.array([1.0, np.nan]), None, 1, out)
    assert not out.any()


@given(st.lists(st.integers(1, 70), min_size=1, max_size=8), st.integers(0, 10**6))
def test_bits_go_on_where_they_ended(sizes, seed):
    """A take uses whole bytes of one seeded sequence, one after the other, and gives their upper
    bits."""
    bits = noise.Bits(seed)
    at = 0
    data = noise.fill_random_bytes(sum(-(-n // 8) for n in sizes), seed)
    for n in sizes:
        count = -(-n // 8)
        whole = int.from_bytes(data[at : at + count], "little")
        value = bits.take(n)
        assert value == whole >> (8 * count - n) and 0 <= value < 2**n
        at += count


@pytest.mark.parametrize("law", [noise.gaussian, noise.laplace])
def test_noise_has_the_shape_and_the_scales_that_are_asked_for(law):
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
def test_the_ends_of_the_range_are_in_it_and_nothing_beyond(law):
    for bad in (0.0, -1.0, float("nan"), float("inf"), "one", None):
        with pytest.raises(UsageError):
            law(bad, 3)
    for scale in (noise.SCALE_MIN, noise.SCALE_MAX):
        assert law(scale, 3, seed=1).shape == (3,) and law(scale, 0).shape == (0,)
    for scale in (np.nextafter(noise.SCALE_MIN, 0), np.nextafter(noise.SCALE_MAX, np.inf)):
        with pytest.raises(UsageError, match="must be between"):
            law(scale, 3)
        with pytest.raises(UsageError, match="must be between"):
            law([1.0, 1.0, scale], 3)


@pytest.mark.parametrize(
    "error, text", [(OSError(5, "x"), "did not provide random bits"), (ValueError("x"), "rejected")]
)
def test_where_the_sampler_fails_no_noise_was_drawn(error, text, monkeypatch):
    def fails(*_, **__):
        raise error

    with (
        pytest.raises(PrivacyError, match=rf"{text}.*; no noise was drawn") as caught,
        noise._drawing(),
    ):
        fails()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    for name in ("gaussian", "laplace", "random_bytes"):
        monkeypatch.setattr(core, name, fails)
    for draw in (lambda: noise.gaussian(2.0, 3), lambda: noise.laplace(2.0, 3)):
        with pytest.raises(PrivacyError, match=f"{text}.*; no noise was drawn"):
            draw()
    with pytest.raises(PrivacyError, match=f"{text}.*; no noise was drawn"):
        noise.fill_random_bytes(3)

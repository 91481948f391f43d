"""The samplers on crafted words: branches that a random stream reaches once in many millions of
draws.

The source of the kernel itself is compiled into a small library (crafted.c) whose streams are
handed to it.
"""

import ctypes
import errno
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

from fastdp._core import noise as kernel
from tests.reference import noise as twin
from tests.tiers import first
from tools import noise_table
from tools.noise_table import EXPO_STRIPS

GAUSS = noise_table.gauss()
EXPO = noise_table.expo()
HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")
WORDS = 64
TOP = 2**64 - 1

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C compiler"),
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="getrandom is replaced as on Linux"
    ),
]


@pytest.fixture(scope="module")
def crafted(tmp_path_factory):
    library = tmp_path_factory.mktemp("crafted") / "crafted.so"
    flags = ["-shared", "-fPIC", "-O1", "-std=gnu11", "-Wno-psabi", f"-I{HERE.parents[1] / 'csrc'}"]
    subprocess.run([COMPILER, *flags, "-o", library, HERE / "crafted.c", "-pthread"], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.crafted_draw.restype = ctypes.c_int64
    return loaded


def words(values) -> ctypes.Array:
    """The stream's buffer: these words, then words that accept whatever is asked."""
    return (ctypes.c_uint64 * WORDS)(*values, *[0] * (WORDS - len(values)))


def accepted(crafted, v, low, more, z64, strip, u) -> tuple[bool, int]:
    used = ctypes.c_int()
    answer = crafted.crafted_accept(
        words([v, low, more]), ctypes.c_uint64(z64), strip, ctypes.c_uint64(u), ctypes.byref(used)
    )
    return bool(answer), used.value


def exponent(u: int, strip: int):
    """z of u in units of 2^-128; a strip below 0 is the Laplace exponent."""
    real = mpmath.mpf(u) / mpmath.mpf(2) ** 128
    return real / 16 if strip < 0 else (2 * strip * real + real * real) / 512


@pytest.mark.parametrize("strip", first(4, [-1, 0, 1, 3, 17, 40, 48, 55, 100, 160, 223]))
def test_a_point_is_accepted_just_where_v_is_below_the_exponential(crafted, strip):
    """Law: v < exp(-z), whatever rule decides it. Where the first word of v decides alone, it must
    be right for every continuation of u and v; elsewhere the wide comparison may err by 16 units of
    2^-128 at most. v is put around 1 - z, 1 - z + z^2 / 2, exp(-z), and evenly between."""
    rng = np.random.default_rng(strip + 1)
    quick = {True: 0, False: 0}
    for u in [0, 1, TOP, *map(int, rng.integers(0, TOP, 16, np.uint64))]:
        z64 = u >> 4 if strip < 0 else (2 * strip * u + (u * u >> 64)) >> 9
        with mpmath.workprec(300):
            least = exponent(u << 64, strip)
            most = exponent((u + 1) << 64, strip)
            unit = mpmath.mpf(2) ** 64
            wide = mpmath.mpf(2) ** 128
            line = 1 - least
            curve = 1 - least + least**2 / 2
            exact = mpmath.exp(-least)
            marks = [
                line,
                curve,
                exact,
                (line + exact) / 2,
                (exact + curve) / 2,
                line + (curve - line) / 4,
            ]
            near = [
                int(m * unit) + d for m in marks for d in (-40, -9, -3, -2, -1, 0, 1, 2, 3, 9, 40)
            ]
            spread = [int((line + (curve - line) * k / 13) * unit) for k in range(1, 13)]
            for v in {min(max(v, 0), TOP) for v in near + spread + [0, TOP - 2, TOP - 1, TOP]}:
                low, more = (int(x) for x in rng.integers(0, TOP, 2, np.uint64))
                verdict, used = accepted(crafted, v, low, more, z64, strip, u)
                if used == 1 and verdict:
                    assert (v + 1) / unit <= mpmath.exp(-most), (
                        "accepted, and some continuation is above"
                    )
                elif used == 1:
                    assert v / unit >= mpmath.exp(-least), "refused, and some continuation is below"
                else:
                    truth = mpmath.exp(-exponent(u << 64 | low, strip)) * wide
                    gap = (v << 64 | more) - truth
                    assert abs(gap) < 16 or verdict == (gap < 0)
                quick[verdict] += used == 1
    assert all(quick.values()), "neither quick rule was reached"


class Crafted(twin.Stream):
    """The twin's stream over given words."""

    def __init__(self, values):
        self._words = iter([*values, *[0] * (WORDS - len(values))])
        self._bits = []


def both(crafted, law, scale, values) -> tuple[int, int]:
    """(the kernel's draw, the twin's) from the same words, of which both use the same number."""
    used = ctypes.c_int()
    stream = Crafted(values)
    drawn = crafted.crafted_draw(law, ctypes.c_double(scale), words(values), ctypes.byref(used))
    slow = (
        twin.draw_laplace(stream, scale, EXPO) if law else twin.draw_gaussian(stream, scale, GAUSS)
    )
    assert used.value == WORDS - sum(1 for _ in stream._words)
    return drawn, slow


def ties(u: int, scale: float, strip: int, k: int, depth: int) -> list[int]:
    """Words after `u` that leave it open on which side of k scale * (strip + u) / 16 + 1/2 lies,
    word after word, and the last but one of which the next word decides."""
    point = Fraction(2 * k - 1, 2) * 16 / Fraction(scale) - strip
    rest = point * 2**64 - u
    out = []
    for _ in range(depth):
        assert 0 < rest < 1
        word, rest = divmod(rest * 2**64, 1)
        out.append(int(word))
    return out


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("scale", [37.5, 0.7, 1234.567, 1e6])
def test_bits_are_drawn_until_they_decide(crafted, scale, slow):
    """Near the middle between two whole numbers the first 64 bits of u do not decide: further ones
    are drawn, one word at a time, each used once, whether or not the first was drawn to accept the
    point."""
    reached = 0
    for strip in range(1, 60, 3):
        k = int(Fraction(scale) * (2 * strip + 1) / 32) + 1
        point = (Fraction(2 * k - 1, 2) * 16 / Fraction(scale) - strip) * 2**64
        u = int(point)
        if not 0 <= u < 2**64 or u == point:
            continue
        z64 = (2 * strip * u + (u * u >> 64)) >> 9
        start = [(GAUSS[strip - 1] >> 64) + 1, u, TOP - z64 - 1 if slow else 0]
        for depth in (1, 2, 3):
            *before, last = ties(u, scale, strip, k, depth)
            for word in (last - 1, last + 1, 0, TOP):
                after = [*before, word]
                drawn, expected = both(
                    crafted,
                    0,
                    scale,
                    [*start, after[0], *([7] if slow else []), *after[1:], 1, TOP // 3],
                )
                assert drawn == expected and abs(drawn) == (k if word > last else k - 1)
                reached += 1
    assert reached


@pytest.mark.parametrize("scale", [1.0, 0.3, 37.5, 1e6])
@pytest.mark.parametrize("laps", [0, 1, 2, 3, 7, 11, 15])
def test_the_tail_of_the_laplace_law_goes_on_lap_after_lap(crafted, laps, scale):
    """By the lack of memory a lap of 8 scales that ends in "8 or more" is followed by another one;
    the tail is cut after 16 laps, at 128 scales."""
    table = [entry >> 64 for entry in EXPO]
    again = table[EXPO_STRIPS - 1] + 1  # the first word of the last strip, "8 or more"
    for last in (table[5] + 1, table[100] + 1, 0):
        for sign in (0, 1):
            drawn, slow = both(crafted, 1, scale, [*[again] * laps, last, sign, TOP // 3, 0, 5])
            assert drawn == slow
            assert 8 * laps * scale - 1 <= abs(drawn) <= 8 * (laps + 1) * scale
            assert drawn == 0 or (drawn < 0) == bool(sign)


def test_the_laplace_tail_is_cut_at_128_scales(crafted):
    again = (EXPO[EXPO_STRIPS - 1] >> 64) + 1
    used = ctypes.c_int()
    drawn = crafted.crafted_draw(1, ctypes.c_double(1e6), words([again] * 16), ctypes.byref(used))
    assert 127.9e6 < drawn <= 128e6


@pytest.mark.parametrize("law", [0, 1])
def test_crafted_words_draw_what_the_twin_draws(crafted, law):
    """Words on the edges of every table: 0, all ones, entries and their neighbours, and grid
    boundaries."""
    rng = np.random.default_rng(law)
    edges = [0, 1, TOP, TOP - 1]
    for entry in EXPO if law else GAUSS:
        edges += [entry >> 64, (entry >> 64) - 1, min(TOP, (entry >> 64) + 1)]
    edges = [e for e in edges if 0 <= e <= TOP]
    for scale in (2.0**-7, 0.3, 1.0, 16.0, 2.0**20, 1e12, 2.0**54):
        for _ in range(120):
            values = [edges[i] for i in rng.integers(0, len(edges), 12)]
            values += [int(x) for x in rng.integers(0, TOP, WORDS - 12, np.uint64)]
            drawn, slow = both(crafted, law, scale, values)
            assert drawn == slow


def test_the_key_is_wiped_after_every_call(crafted):
    """Every copy of the key that a call made, in the job and in each thread's stream, is zero
    afterwards; and what was wiped was the key."""
    key = np.arange(1, 9, dtype=np.uint32) * 0x01010101
    pointer = key.ctypes.data_as(ctypes.c_void_p)
    sizes = (ctypes.c_size_t * 64)()
    heads = ctypes.create_string_buffer(64 * 32)
    whole = ctypes.c_size_t()
    for kind, n, threads in ((0, 100, 1), (1, 100, 1), (0, 60_000, 3), (2, 24, 1)):
        count = crafted.crafted_wipes(kind, pointer, n, threads, sizes, heads, ctypes.byref(whole))
        wiped = sorted(sizes[:count])
        assert wiped == [32] + [whole.value] * (count - 1), (
            "the key, and the stream of every thread"
        )
        assert count == 1 + threads
        held = [heads.raw[32 * i : 32 * i + 32] == key.tobytes() for i in range(count)]
        # A thread may find no work left.
        assert held[-1] and any(held[:-1]) and (all(held) or threads > 1)


def test_nothing_of_key_or_stream_is_left_on_the_stack(crafted):
    """Below the frame of a caller, where the calls that drew kept their state and words."""
    key = np.arange(1, 9, dtype=np.uint32) * 0x01230567
    pointer = key.ctypes.data_as(ctypes.c_void_p)
    nonce = np.array([1, 0, 0], np.uint32)
    words = np.ascontiguousarray(kernel.chacha20_lanes(key, 0, nonce).reshape(-1))
    for kind in (0, 1, 2):
        held = words.copy() if kind == 0 else words[:0]
        place = held.ctypes.data_as(ctypes.c_void_p)
        assert crafted.crafted_left_behind(kind, pointer, place, len(held)) == 0


def test_wiping_sets_all_and_nothing_else_to_zero(crafted):
    assert all(crafted.crafted_wipe(n) for n in (0, 1, 32, 200))


def test_a_key_is_32_bytes_of_the_system_or_an_error(crafted):
    """Randomness that comes in pieces is collected, an interrupted call is repeated, and any other
    failure is an error: never a key with bytes that were not filled."""

    def key_of(*script):
        key = ctypes.create_string_buffer(32)
        calls = ctypes.c_int()
        code = crafted.crafted_key((ctypes.c_int * len(script))(*script), key, ctypes.byref(calls))
        return code, key.raw, calls.value

    assert key_of(32) == (0, b"\1" * 32, 1)
    assert key_of(5, 20, 7) == (0, b"\1" * 5 + b"\2" * 20 + b"\3" * 7, 3)
    assert key_of(-errno.EINTR, 31, -errno.EINTR, 1) == (0, b"\2" * 31 + b"\4", 4)
    for script in ((-errno.ENOSYS,), (31, 0), (16, -errno.EIO)):
        code, _, calls = key_of(*script)
        assert code != 0 and calls == len(script)

"""Partitions and bins are those of the twin (`tests.reference.cells`), for any counts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastdp.release.cells import Line, digits_of, shared
from tests.reference import cells as twin

UNITS = ["int64", "uint8", "int32", "decimal128(10, 2)", "date32", "timestamp[s]"]
SIGMA = 4.0


@pytest.mark.parametrize(
    "line, powers, largest, more",
    [
        (Line("int64"), range(0, 39), 9.3e18, []),
        (Line("decimal128(10, 2)"), range(-2, 39), 5e7, []),
        (Line("float64", digits=3), range(-3, 39), 1e38, []),
        (Line("float32"), range(-12, 39), 1e38, []),
        (Line("float64"), range(-12, 39), 1e38, [*range(-300, -12, 24), *range(48, 308, 24)]),
    ],
)
def test_numbers_begin_with_one_two_and_five_times_powers_of_ten(line, powers, largest, more):
    steps = [float(m * Fraction(10) ** d) for d in powers for m in (1, 2, 5)]
    steps = [s for s in steps if s <= largest] + [float(Fraction(10) ** d) for d in more]
    expected = sorted({0.0, line.after(0.0), *steps, *(-s for s in steps)})
    edges = line.first()
    end = {"int64": 2.0**63, "decimal128(10, 2)": 1e8}.get(line.dtype, math.inf)
    assert edges[0] == -end and edges[-1] == end and len(edges) == len(expected) + 2
    assert np.allclose(edges[1:-1], expected, rtol=1e-13, atol=0)


@given(
    st.sampled_from([*UNITS, "float64"]), st.floats(1e-6, 1e9), st.sampled_from([1, 2, 5]), st.integers(-6, 9)
)
@example("timestamp[s]", 43_200.0, 1, 0)
@example("timestamp[s]", 43_201.0, 1, 0)
@settings(deadline=None)
def test_steps_are_the_smallest_round_ones(dtype, width, m, d):
    line = Line(dtype)
    for w in (width, float(f"{m}e{d}"), math.nextafter(m * 10.0**d, math.inf) * (1 + 1e-9)):
        assert line.step(w) == twin.step(line, w)


@given(st.sampled_from([1, 2, 5]), st.integers(-2, 2), st.integers(-900, 900), st.floats(0, 300))
@settings(deadline=None)
def test_multiples_of_a_step_are_all_of_them(m, d, start, width):
    line, size = Line("float64"), float(f"{m}e{d}")
    for low in (start / 8, float(start) * size):
        for high in (low + width * size, low + 3 * size):
            assert line.multiples(low, high, size) == twin.multiples(low, high, size)


counts_of = st.lists(st.floats(-20, 60).map(lambda c: round(c, 1)), min_size=2, max_size=40)


@given(
    st.lists(st.sampled_from([0.0, 1.0, 3.0, 5.0, 40.0, 950.0]), min_size=1, max_size=7), st.floats(0.01, 40)
)
@example([900.0, 0.0, 20.0], 0.01)
@settings(max_examples=300, deadline=None)
def test_digits_are_the_fewest_that_next_to_no_rows_exceed(counts, sigma):
    assert digits_of(np.array(counts), sigma) == twin.digits(counts, sigma)


@given(
    st.sampled_from([*UNITS, "float64"]), counts_of, st.integers(0, 200), st.integers(8, 90), st.booleans()
)
@settings(max_examples=100, deadline=None)
def test_partitions_are_refined_as_the_twin_does(dtype, pattern, place, cells, bounded):
    """A first partition and the one after it, rows anywhere on the line."""
    line = Line(dtype, low=1.0, high=90.0) if bounded and dtype[:2] != "da" else Line(dtype)
    edges, span = line.first(), None
    for _ in range(3):
        counts = np.zeros(len(edges) - 1)
        at = place % len(counts)
        counts[at : at + len(pattern)] = pattern[: len(counts) - at]
        expected, inside = twin.refine(line, edges, counts, SIGMA, cells, 16, span)
        edges, span = line.refine(edges, counts, SIGMA, cells, 16, span)
        assert edges.tolist() == expected and span == inside


@given(
    st.sampled_from(UNITS),
    counts_of,
    st.lists(st.sampled_from([1, 2, 3, 31, 32, 64, 160, 320, 1000]), min_size=40, max_size=40),
    st.integers(2, 24),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_bins_are_those_of_the_twin(dtype, pattern, widths, number, spanned):
    """Cells of one value and of many, counted anew or inside a span; noise alone gives one bin."""
    line = Line(dtype)
    edges = line.unit * np.concatenate([[0.0], np.cumsum(widths[: len(pattern)])])
    counts = np.array(pattern)
    for known in ((edges[0], edges[-1]) if spanned else None, (edges[1], edges[-1])):
        assert line.bins(edges, counts, SIGMA, number, known) == twin.bins(
            line, edges, counts, SIGMA, number, known
        )
    nothing = np.zeros(len(counts))
    for ends in (edges, np.concatenate([[-math.inf], edges[1:]]), np.concatenate([edges - 9e5, [math.inf]])):
        empty = nothing if len(ends) == len(edges) else np.zeros(len(counts) + 1)
        assert line.bins(ends, empty, SIGMA, number) == twin.bins(line, ends, empty, SIGMA, number, None)


@given(st.integers(0, 40), st.lists(st.sampled_from([0.0, 1.0, 2.5, 7.0, 100.0]), min_size=1, max_size=9))
def test_bins_are_dealt_in_proportion(more, masses):
    assert shared(len(masses) + more, masses) == twin.dealt(len(masses) + more, masses)

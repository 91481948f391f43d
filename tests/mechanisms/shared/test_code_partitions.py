"""Candidates over partitions of codes: sums over groups, and the one formula of what they gain."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from fastdp.mechanisms.shared.code_partitions import CODES, Partition, composed
from fastdp.mechanisms.shared.one_ways import NOISE
from fastdp.mechanisms.shared.screening import Candidate

from ..growing import RowsSession

GROUPS = Partition("groups", {"a": np.array([0, 0, 1, 2, 2]), "c": np.array([1, 0, 1])})
CLIQUE = ("a", "b", "c")


def test_sums_over_groups_are_those_of_the_query_and_of_the_recoded_rows():
    rng = np.random.default_rng(1)
    codes = {"a": np.array([0, 1, 1, 2, 3, 4, 4])}  # seven values, merged to five
    sizes = {"a": 7, "b": 4, "c": 3}
    session = RowsSession(sizes, {a: rng.integers(0, n, 200) for a, n in sizes.items()})
    merged = session.marginal(CLIQUE, codes).reshape(5, 4, 3)
    sums = GROUPS.sums(CLIQUE, merged)
    assert sums.shape == (3, 4, 2)
    assert np.array_equal(GROUPS.query(CLIQUE, merged.shape).product(merged.ravel()), sums.ravel())
    recoded = session.marginal(CLIQUE, composed(codes, GROUPS.maps))
    assert np.array_equal(sums.ravel(), recoded)


def test_a_column_without_groups_keeps_its_codes():
    table = np.arange(4.0)
    assert GROUPS.query(("b",), (4,)) is None and GROUPS.sums(("b",), table) is table
    assert CODES.query(CLIQUE, (5, 4, 3)) is None and not CODES.coarsens(CLIQUE)


def over(distance, part, cells, partition=GROUPS):
    """A candidate whose groups see `part` of its distance over all codes."""
    between = part * distance
    within = math.sqrt(max(0.0, distance**2 - between**2))
    return Candidate(("a", "b"), between, cells, partition=partition, within=within)


@given(st.floats(1, 1e5), st.floats(0, 1), st.floats(0.1, 1e5))
def test_groups_gain_what_stands_out_of_their_noise(distance, part, sigma):
    noise = NOISE * sigma * 4
    assume(abs(part * distance - noise) > 1e-6 * distance)
    assert (over(distance, part, 4.0).gain(sigma) > 0) == (part * distance > noise)


@given(st.floats(1, 1e5), st.floats(0.1, 1e5))
def test_over_all_codes_the_formula_is_distance_less_noise(distance, sigma):
    """Groups that see all of the distance are all codes."""
    fine = Candidate(("a", "b"), distance, 4.0).gain(sigma)
    assert fine == pytest.approx(distance - NOISE * sigma * 4, rel=1e-9, abs=1e-9 * distance)
    nearly = over(distance, 1 - 1e-12, 4.0).gain(sigma)
    assert nearly == pytest.approx(fine, rel=1e-4, abs=1e-4 * distance)


@given(st.floats(1, 1e3), st.floats(0.05, 0.95), st.floats(1, 1e3), st.integers(0, 99))
def test_the_gain_is_that_of_independent_deviations(distance, part, noise, seed):
    """Against 40,000 cells: deviations between groups, inside them, and of the answer's noise. The
    standard error of either mean is .4 % of it."""
    candidate = over(distance, part, 4.0)
    between, within, answer = np.random.default_rng(seed).normal(size=(3, 40_000))
    within *= candidate.within
    before = np.abs(between * part * distance + within).mean() / NOISE
    after = np.abs(answer * noise + within).mean() / NOISE
    gain = candidate.gain(noise / (NOISE * 4))
    assert gain == pytest.approx(before - after, abs=0.03 * (before + after))

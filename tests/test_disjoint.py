"""Disjoint sets against scipy's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import DisjointSet

from fastdp._util.disjoint import DisjointSets

NUMBERS = st.integers(0, 11)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40))
def test_they_are_those_of_scipy(pairs):
    sets, reference = DisjointSets(range(12)), DisjointSet(range(12))
    for a, b in pairs:
        assert sets.merge(a, b) == reference.merge(a, b)
        assert sets.count == reference.n_subsets
    for a in range(12):
        assert sets.size(a) == reference.subset_size(a)
        assert [sets.connected(a, b) for b in range(12)] == [reference.connected(a, b) for b in range(12)]

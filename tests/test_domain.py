"""Domains and cliques: maximal sets, recodings, batches; disjoint sets against scipy's."""

import pytest
from hypothesis import given, strategies as st
from scipy.cluster.hierarchy import DisjointSet

from fastdp._util.disjoint import DisjointSets
from fastdp.domain import Domain, batches, maximal
from fastdp.errors import SchemaError

cliques = st.lists(
    st.lists(st.sampled_from("abcde"), unique=True, max_size=4).map(tuple), max_size=12
)


@given(cliques)
def test_maximal_against_every_pair(given_cliques):
    unique = list({frozenset(c): c for c in given_cliques}.values())
    slow = [c for c in unique if not any(set(c) < set(d) for d in unique)]
    assert maximal(given_cliques) == slow


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 60))
def test_batches_cover_everything_once(cells, limit):
    ranges = list(batches(cells, limit))
    assert [i for start, stop in ranges for i in range(start, stop)] == list(range(len(cells)))
    assert all(stop - start == 1 or sum(cells[start:stop]) <= limit for start, stop in ranges)
    assert all(sum(cells[a:b]) + cells[b] > limit for a, b in ranges[:-1]), "as many as fit"


def test_recoded_sizes():
    domain = Domain({"a": 4, "b": 2})
    assert dict(domain.recoded({"a": [0, 1, 1, 1]})) == {"a": 2, "b": 2}
    for wrong in ({"c": [0]}, {"a": [0, 1]}, {"a": [0, 1, -1, 0]}):
        with pytest.raises(SchemaError, match="recoding"):
            domain.recoded(wrong)


def test_the_order_of_a_clique_hides_no_wrong_name():
    """A mechanism's field with a typo would else measure the columns that are left."""
    domain = Domain({"a": 4, "b": 2})
    assert domain.canonical({"b", "a"}) == ("a", "b")
    for wrong in (("a", "c"), ("a", "a")):
        with pytest.raises(SchemaError):
            domain.canonical(wrong)


NUMBERS = st.integers(0, 11)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40))
def test_disjoint_sets_are_those_of_scipy(pairs):
    sets = DisjointSets(range(12))
    reference = DisjointSet(range(12))
    for a, b in pairs:
        assert sets.merge(a, b) == reference.merge(a, b)
        assert sets.count == reference.n_subsets
    for a in range(12):
        assert sets.size(a) == reference.subset_size(a)
        assert [sets.connected(a, b) for b in range(12)] == [
            reference.connected(a, b) for b in range(12)
        ]

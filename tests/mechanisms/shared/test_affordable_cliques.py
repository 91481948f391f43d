"""Marginals a model can afford: which go, in what order."""

from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from fastdp.domain import Domain
from fastdp.mechanisms.tworound import affordable_cliques
from fastdp.model.junction_tree import NO_LIMIT, junction_tree

SIZES = {"a": 3, "b": 5, "c": 2, "d": 7, "e": 4}
DOMAIN = Domain(SIZES)
PAIRS = list(combinations(SIZES, 2))


def cells(cliques) -> int:
    return junction_tree(DOMAIN, list(cliques), NO_LIMIT).cells


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from(PAIRS), min_size=1, max_size=8, unique=True),
    st.integers(20, 900),
    st.data(),
)
def test_what_stays_fits_and_no_more_goes_than_must(cliques, most, data):
    """In the order in which they went, each went from a tree that was too large, and saved the most
    cells per squared weight."""
    weight = {c: data.draw(st.sampled_from([1.0, 3.0])) for c in cliques}
    stay, dropped = affordable_cliques.affordable(DOMAIN, cliques, 10**6, most, (), weight)
    left = list(cliques)
    for gone in dropped:
        size = cells(left)
        worst = set(max(junction_tree(DOMAIN, left, NO_LIMIT).cliques, key=DOMAIN.cells))
        near = [c for c in left if worst.issuperset(c)] or left  # only these can shrink the tree
        saved = {c: (size - cells([d for d in left if d != c])) / weight[c] ** 2 for c in near}
        assert size > most and saved[gone] == pytest.approx(max(saved.values()))
        left.remove(gone)
    assert left == stay and (cells(stay) <= most or not stay)


@pytest.mark.parametrize("slack, kept", [(0, 2), (-1, 1)])
def test_a_tree_just_as_large_as_allowed_is_allowed(slack, kept):
    cliques = [("a", "b"), ("c", "d")]
    assert (
        len(affordable_cliques.affordable(DOMAIN, cliques, 10**6, cells(cliques) + slack)[0])
        == kept
    )

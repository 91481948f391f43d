"""Marginals a model can afford: which go, in what order."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.domain import Domain
from fastdp.mechanisms.tworound import affordable_cliques

SIZES = {"a": 3, "b": 5, "c": 2, "d": 7, "e": 4}
DOMAIN = Domain(SIZES)
PAIRS = list(combinations(SIZES, 2))


def cells(cliques) -> int:
    return affordable_cliques._tree(DOMAIN, list(cliques)).cells


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(PAIRS), min_size=1, max_size=8, unique=True),
    st.integers(20, 900),
    st.dictionaries(st.sampled_from(PAIRS), st.sampled_from([0.5, 1.0, 2.0, 3.0])),
)
def test_what_goes_is_what_saves_most_per_squared_weight(cliques, most, weight):
    """Replayed: while the tree is too large, the clique goes (of those that share two attributes with the
    largest one) whose loss saves most cells per squared weight; of equal ones the largest per
    squared weight."""
    stay, dropped = affordable_cliques.affordable(DOMAIN, cliques, 10**6, most, weight=weight)
    left = list(cliques)
    for gone in dropped:
        assert cells(left) > most
        worst = set(max(affordable_cliques._tree(DOMAIN, left).cliques, key=DOMAIN.cells))
        suspects = [c for c in left if len(worst & set(c)) > 1] or left

        def price(c, left=left):
            importance = weight.get(c, 1.0) ** 2
            saved = max(0, cells(left) - cells([d for d in left if d != c]))
            return saved / importance, DOMAIN.cells(c) / importance

        assert price(gone) == max(map(price, suspects))
        left.remove(gone)
    assert left == stay and (cells(stay) <= most or not stay)


@pytest.mark.parametrize("slack, kept", [(0, 2), (-1, 1)])
def test_a_tree_just_as_large_as_allowed_is_allowed(slack, kept):
    cliques = [("a", "b"), ("c", "d")]
    assert len(affordable_cliques.affordable(DOMAIN, cliques, 10**6, cells(cliques) + slack)[0]) == kept

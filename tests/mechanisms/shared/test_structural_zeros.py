"""StructuralZeros of a model: whether a row is left, codes that may be merged, trees that make no
loops."""

from itertools import product

import numpy as np
from hypothesis import given, settings, strategies as st

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.limits.model_size import largest_forest
from fastdp.mechanisms.limits.structural_zeros import StructuralZeros, has_possible_row
from fastdp.mechanisms.shared.merged_codes import merge
from fastdp.mechanisms.shared.one_ways import measure_ones
from fastdp.mechanisms.shared.spanning_tree import spanning_tree
from fastdp.model.junction_tree import junction_tree
from fastdp.schema import Schema
from tests.mechanisms.fakes import FakeSession

NAMES = "abcde"


@st.composite
def masks(draw, share=0.5):
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    domain = Domain(dict(zip(NAMES, sizes)))
    cliques = draw(
        st.lists(
            st.lists(st.sampled_from(list(domain)), min_size=1, max_size=3, unique=True), max_size=4
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    out = {}
    for clique in cliques:
        if not any(set(clique) == set(c) for c in out):
            out[tuple(clique)] = rng.random(domain.shape(clique)) < share
    return domain, out


def possible_rows(domain, impossible):
    names = list(domain)
    for row in product(*(range(n) for n in domain.values())):
        at = dict(zip(names, row))
        if not any(mask[tuple(at[a] for a in clique)] for clique, mask in impossible.items()):
            yield row


@settings(max_examples=30)
@given(masks(share=0.65))
def test_a_row_is_possible_exactly_if_one_is_found(given_masks):
    domain, impossible = given_masks
    assert has_possible_row(domain, impossible) == (
        next(possible_rows(domain, impossible), None) is not None
    )


@settings(max_examples=30)
@given(masks(), st.integers(0, 1000))
def test_merging_commutes_with_the_zeros(given_masks, seed):
    """A merged combination is impossible exactly if every combination behind it is, and then none
    is not."""
    domain, impossible = given_masks
    rng = np.random.default_rng(seed)
    ones = [Measurement((a,), rng.normal(0, 4, n), 1.0) for a, n in domain.items()]
    merged = merge(domain, ones, 3.0, impossible=impossible)
    for clique, mask in impossible.items():
        small = merged.zeros.get(clique, np.zeros(merged.domain.shape(clique), bool))
        for full in np.ndindex(mask.shape):
            at = tuple(merged.compression.code_map(a)[i] for a, i in zip(clique, full))
            assert small[at] == mask[full]


@settings(max_examples=30)
@given(masks(share=0.3), st.integers(0, 1000))
def test_a_tree_beside_constraints_has_no_loop_and_keeps_within_the_bound(given_masks, seed):
    domain, impossible = given_masks
    rng = np.random.default_rng(seed)
    session = FakeSession(domain, rng.integers(0, 50, domain.shape(domain)), mu=1.0)
    ones = measure_ones(session, 1.0)
    zeros = StructuralZeros(impossible)
    tree = spanning_tree(session, ones, 0.5, zeros=zeros)
    pairs = [p for p in tree if len(p) == 2]
    together = junction_tree(domain, [*tree, *impossible])
    assert together.cells <= largest_forest(domain, 1_000_000, zeros.cliques).cells
    assert len(set(pairs)) == len(pairs) == len(domain) - 1


def test_a_pair_that_follows_is_not_measured():
    domain = Domain({"a": 4, "b": 2, "c": 3})
    mask = np.arange(2)[None, :] != (np.arange(4) // 2)[:, None]
    session = FakeSession(domain, np.random.default_rng(0).integers(0, 50, (4, 2, 3)), mu=1.0)
    ones = measure_ones(session, 1.0)
    tree = spanning_tree(
        session, ones, 0.5, zeros=StructuralZeros({("a", "b"): mask}, (("a", "b"),))
    )
    assert len(tree) == 1 and "c" in tree[0]


def test_a_pair_is_settled_where_one_column_follows_from_the_other_alone():
    whole = {name: {"kind": "integer", "max": 3} for name in "abcd"}
    follows = [
        {"column": "b", "follows": "3 - a", "model": True},
        {"column": "d", "follows": "max(a, c)", "model": True},
    ]
    zeros = StructuralZeros.of(Schema.from_dict({"columns": whole, "constraints": follows}))
    assert zeros.settled == (("a", "b"),)

"""Choices from public data: outer marginals, habits, the clip."""

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.errors import DataError, UsageError
from fastdp.public import choice, data
from tests.run.test_synthesize import small_data, small_schema


def public_table():
    return data.PublicTable(fastdp.read(small_data(), small_schema(), public=True))


def test_what_public_data_must_be():
    with pytest.raises(UsageError, match="public=True"):
        data.PublicTable(fastdp.read(small_data(10), small_schema()))
    schema = fastdp.Schema.from_domain({"a": 4, "b": 3, "c": 2})
    public = data.PublicTable(fastdp.read(small_data().drop_columns(["u"]), schema, public=True))
    with pytest.raises(DataError, match="user column"):
        public.habits(("a",))
    assert public_table().habits(("a", "b")).rows == 3000


def test_larger_cliques_form_a_junction_tree_within_the_limit():
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(8)]
    domain = Domain({n: int(rng.integers(2, 9)) for n in names})
    strength = {(a, b): float(rng.random()) for i, a in enumerate(names) for b in names[i + 1 :]}
    chosen = choice.grow(domain, strength, 3, 200)
    assert {a for c in chosen for a in c} == set(names)
    assert all(domain.cells(c) <= 200 and len(c) <= 3 for c in chosen)
    from fastdp.model.junction_tree import junction_tree

    assert {frozenset(c) for c in junction_tree(domain, chosen).cliques} == {frozenset(c) for c in chosen}


def test_attributes_too_large_to_pair_stand_alone():
    domain = Domain({"a": 1000, "b": 1000, "c": 2})
    chosen = choice.grow(domain, {("a", "c"): 1.0, ("b", "c"): 0.5}, 3, 5000)
    assert {frozenset(c) for c in chosen} == {frozenset("ac"), frozenset("bc")}
    assert choice.grow(domain, {}, 3, 10) == [("a",), ("b",), ("c",)]


def test_the_public_table_finds_the_dependence_that_is_there():
    chosen = public_table().choose_outer(ways=2)
    assert any(set(c) == {"a", "b"} for c in chosen)

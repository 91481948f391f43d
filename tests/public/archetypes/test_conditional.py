"""Draws from groups against a slow twin; fallbacks where public data saw nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp._core import draw as core
from fastdp.public.archetypes import conditional
from fastdp.public.archetypes.conditional import Groups, Link
from tests.reference import archetypes as twin


@settings(deadline=None, max_examples=60)
@given(
    tables=st.lists(st.lists(st.integers(1, 2**40), min_size=1, max_size=9), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
)
def test_draws_equal_the_twin(tables, seed):
    rng = np.random.default_rng(seed)
    counts = np.concatenate(tables).astype(np.int64)
    start = np.cumsum([0, *map(len, tables)])
    values = rng.integers(0, 2**32, counts.size, dtype=np.uint32)
    groups = Groups(np.arange(len(tables)), start, values, counts)
    wanted = rng.integers(0, len(tables), 50)
    uniform = rng.random(50)
    uniform[:2] = 0.0, np.nextafter(1.0, 0.0)
    drawn = core.draw(start, groups.upto, values, wanted, uniform)
    assert drawn.tolist() == twin.draw(start, counts, values, wanted, uniform)


@pytest.mark.parametrize("group", [[-1], [1], [2**40]])
def test_a_group_that_is_not_there_is_refused(group):
    with pytest.raises(ValueError, match="out of range"):
        Groups.of(np.arange(3), np.ones(3, int), 3).draw(np.array(group), np.random.default_rng(0))


def make_link(rows, levels, shapes, target, width):
    tables = []
    for level, shape in zip(levels, shapes):
        cells = np.array(
            [np.ravel_multi_index((*[r[c] for c in level], r[target]), (*shape, width)) for r in rows]
        )
        tables.append(Groups.of(*np.unique(cells, return_counts=True), width))
    return Link(target, levels, shapes, tuple(tables))


@pytest.mark.parametrize("dense", [1 << 24, 0])
def test_fallbacks_follow_the_levels(dense, monkeypatch):
    monkeypatch.setattr(conditional, "DENSE", dense)
    rng = np.random.default_rng(1)
    rows = [{"a": int(a), "b": int(b), "t": int(t)} for a, b, t in rng.integers(0, [4, 3, 5], (12, 3))]
    rows = [r for r in rows if r["a"] != 3 and (r["a"], r["b"]) != (0, 0)]
    levels, shapes = (("a", "b"), ("b",), ()), ((4, 3), (3,), ())
    link = make_link(rows, levels, shapes, "t", 5)
    slow = twin.conditional(rows, levels, "t")
    a, b = (np.repeat(g.ravel(), 400).astype(np.uint32) for g in np.meshgrid(range(4), range(3)))
    values = link.draw({"a": a, "b": b}, a.size, np.random.default_rng(2))
    for i in range(4):
        for j in range(3):
            keys = [(i, j), (j,), ()]
            level = next(k for k in range(3) if keys[k] in slow[k])
            drawn = set(values[(a == i) & (b == j)].tolist())
            assert drawn == set(slow[level][keys[level]]), (i, j, level)

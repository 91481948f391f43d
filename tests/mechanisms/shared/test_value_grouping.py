"""Grouped values of large sets, shares by size, values spread evenly: against brute force."""

import math
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.division import best_shares
from fastdp.domain import Domain
from fastdp.mechanisms.cliquetree.value_grouping import (
    LEVEL,
    STANDS_OUT,
    grouped,
    level,
    row_bounds,
)
from fastdp.mechanisms.shared.code_compression import Compression, Expansion, merge_outside
from fastdp.mechanisms.shared.code_partitions import CODES


def test_bounds_are_those_of_the_cells_below():
    rng = np.random.default_rng(0)
    domain = Domain({"a": 4, "b": 3, "c": 5})
    table = rng.poisson(3, domain.shape(("a", "b", "c"))).astype(float)
    children = {
        pair: table.sum(axis=next(i for i, n in enumerate("abc") if n not in pair))
        for pair in combinations("abc", 2)
    }
    bounds = row_bounds(("a", "b", "c"), domain, children)
    for i, name in enumerate("abc"):
        for value in range(domain[name]):
            rows = [cell for cell in product(range(4), range(3), range(5)) if cell[i] == value]
            best = max(
                min(children[p][tuple(cell["abc".index(n)] for n in p)] for p in children)
                for cell in rows
            )
            assert bounds[i][value] == best
        assert (bounds[i] >= table.max(axis=tuple(j for j in range(3) if j != i))).all()


def test_values_that_stand_out_are_kept_apart_and_the_rest_shares_a_code():
    domain = Domain({"a": 30, "b": 4})
    ones = {"a": np.array([1000.0] * 5 + [3.0] * 25)[::-1].copy(), "b": np.full(4, 1250.0)}
    partition = grouped(("a", "b"), domain, [ones["a"], ones["b"]], ones, sigma=10.0)
    query = partition.query(("a", "b"), (30, 4))
    codes, untouched = query.maps
    apart = level(5, 30)
    assert 5 <= apart < 5 * LEVEL + 1
    assert sorted(np.bincount(codes)) == [1] * apart + [30 - apart]
    assert len(set(codes[-5:])) == 5 and np.array_equal(untouched, np.arange(4))
    assert query.column_norm2() == 1
    fine = grouped(("a", "b"), domain, [ones["a"], ones["b"]], ones, sigma=3.0 / STANDS_OUT)
    assert fine is CODES and fine.query(("a", "b"), (30, 4)) is None


def test_groupings_of_a_column_are_nested():
    rng = np.random.default_rng(1)
    domain = Domain({"a": 60, "b": 5})
    ones = {"a": rng.pareto(1, 60) * 50, "b": np.full(5, 1e4)}
    maps = []
    for sigma in (2.0, 5.0, 20.0, 60.0):
        partition = grouped(("a", "b"), domain, [ones["a"], ones["b"]], ones, sigma)
        maps.append(partition.maps.get("a", np.arange(60)))
    for fine, coarse in pairwise(maps):
        assert all(len(set(coarse[fine == v])) == 1 for v in np.unique(fine))


@given(st.dictionaries(st.integers(0, 9), st.floats(0.1, 1e4), min_size=2, max_size=6))
@settings(max_examples=30, deadline=None)
def test_shares_by_size_are_the_best(harms):
    """Moving a tenth of one's part to another costs more than it saves."""
    parts = best_shares(harms)
    assert math.isclose(sum(parts.values()), 1)

    def cost(shares):
        return sum(harm / math.sqrt(shares[key]) for key, harm in harms.items())

    for giver, taker in combinations(harms, 2):
        moved = dict(parts)
        moved[giver] -= 0.1 * parts[giver]
        moved[taker] += 0.1 * parts[giver]
        assert cost(moved) >= cost(parts) * (1 - 1e-12)


@pytest.mark.parametrize("spread", [None, {"a": ("b",)}])
def test_merged_values_are_spread_evenly_where_asked(spread):
    """With it, every merged value is off its share by less than 3 rows for every value of b;
    without it by more somewhere (a chance of under 1e-9 that 400 binomials of standard deviation 4
    all stay below 3)."""
    domain = Domain({"a": 21, "b": 20})
    weights = np.ones(21)
    compression = Compression(domain, {"a": merge_outside(np.arange(21) == 0)})
    rng = np.random.default_rng(3)
    merged_code = compression.code_map("a")[5]
    rows = {"a": np.full(8000, merged_code), "b": rng.permutation(np.repeat(np.arange(20), 400))}
    made = Expansion(compression, {"a": weights}, seed=4, spread=spread)(rows)
    counts = np.zeros((21, 20))
    np.add.at(counts, (made["a"], made["b"]), 1)
    off = np.abs(counts[1:] - 20).max()
    assert (off < 3) == (spread is not None)
    assert counts[0].sum() == 0

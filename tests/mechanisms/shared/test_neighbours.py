"""Rare numbers that share codes with their neighbours, and pairs with less than a row per cell."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.cliquetree import CliqueTree, dense_tables, resolutions
from fastdp.mechanisms.shared import code_partitions, merged_codes
from fastdp.mechanisms.shared.code_compression import merge_neighbours, merge_outside
from fastdp.mechanisms.shared.merged_codes import merge, rare_groups
from fastdp.schema import Schema
from tests.tiers import slow_cases

from ..growing import RowsSession, job_of

CODES = st.lists(st.tuples(st.booleans(), st.floats(0, 100)), min_size=6, max_size=80)


@given(CODES, st.integers(2, 12), st.integers(0, 2))
def test_bins_are_in_the_order_of_numbers(codes, count, blanks):
    """A kept code has a bin of its own. Groups are runs of rare numbers with about equally many
    rows. Codes that are no numbers come last."""
    keep = np.array([kept for kept, _ in codes] + [False] * blanks)
    rows = np.array([mass for _, mass in codes] + [1.0] * blanks)
    blank = np.arange(keep.size) >= len(codes)
    numbers = ~keep & ~blank
    if not numbers.any():
        return
    before = merge_outside(keep, blank.astype(np.int64))
    bins = merge_neighbours(before, numbers, rows, count)
    assert sorted(set(bins.tolist())) == list(range(bins.max() + 1))
    assert (np.bincount(bins)[bins[keep]] == 1).all()
    assert (np.diff(bins[numbers]) >= 0).all() and (np.diff(bins[keep]) > 0).all()
    assert len(set(bins[numbers].tolist())) <= count
    mass = rows[numbers].sum() + 1e-9 * numbers.sum()
    for g in set(bins[numbers].tolist()):
        inside = rows[numbers & (bins == g)]
        assert inside.sum() <= mass / count + inside.max() + 1e-6
    if blanks:
        assert bins[blank].min() > bins[~blank].max()
    means = np.bincount(bins, np.arange(keep.size)) / np.bincount(bins)
    assert (np.diff(means) > -1).all()  # a kept code may lie inside a group's run


@given(st.integers(8, 500), st.floats(0.5, 50), st.floats(1, 5))
def test_groups_stand_out_of_their_noise(count, sigma, rare):
    rows = np.full(count, 10.0)
    one = Measurement("a", rows, sigma)
    groups = rare_groups(one, rows, np.ones(count, bool), rare)
    if groups:
        assert 10.0 * count / groups >= rare * sigma * math.sqrt(count / groups) * (1 - 1e-9)
    few = np.arange(count) < count * merged_codes.RARE_ROWS / 2
    assert rare_groups(one, rows, few, rare) == 0


def test_numbers_without_frequent_values_keep_their_order():
    """Four hundred values of ten rows each, noise of 20: no value stands out. The planted bug, one code
    for all, has nothing to tell a pair from independence by."""
    schema = Schema.from_domain({"a": 400})
    values = 10 + 20 * np.random.default_rng(0).standard_normal(400)
    merged = merge(Domain({"a": 400}), [Measurement("a", values, 20.0)], 3.0, schema=schema)
    assert merged.neighbours == {"a"} and merged.domain["a"] >= code_partitions.LEAST_GROUPS
    assert not resolutions.ordered(merged, schema)["a"].any()
    without = merge(Domain({"a": 400}), [Measurement("a", values, 20.0)], 3.0)
    assert without.domain["a"] < merged.domain["a"]


def correlated(rows, size, columns, correlation, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 1)) * math.sqrt(correlation)
    numbers = common + rng.normal(size=(rows, columns)) * math.sqrt(1 - correlation)
    codes = numbers.argsort(axis=0).argsort(axis=0) * size // rows
    return dict(zip("abcd", codes.T))


@pytest.mark.parametrize("planted", ["", *slow_cases("one code for all")])
def test_correlations_of_columns_of_many_codes_are_kept(monkeypatch, planted):
    """600 codes of 20 rows each; a pair has 30 cells for each row. By the tree alone."""
    monkeypatch.setattr(dense_tables, "possible", lambda _: False)
    if planted:
        monkeypatch.setattr(merged_codes, "RARE_ROWS", 2.0)
    rows = correlated(12_000, 600, 3, 0.8)
    session = RowsSession(dict.fromkeys("abc", 600), rows, mu=0.4, seed=1)
    outcome = CliqueTree().run(session, job_of(session))
    made = outcome.rows.some(12_000, 1)
    found = np.corrcoef([made[a] for a in "abc"])[np.triu_indices(3, 1)]
    if planted:
        assert found.mean() < 0.55
    else:
        assert found.min() > 0.65


def test_numbers_merged_for_size_share_codes_with_their_neighbours():
    """Three columns of 100 equally frequent numbers, and room for half of the codes: the others have
    as many rows, and one code for all of them would be a number far from most. Where they have
    few, one code does."""
    columns = dict.fromkeys("abc", 100)
    ones = [Measurement((a,), np.full(100, 50.0), 1e-3) for a in columns]
    most = 3 * 50**2
    found = merge(Domain(columns), ones, 3.0, most, schema=Schema.from_domain(columns))
    assert found.merged_for_size.keys() == columns.keys()
    for a in columns:
        bins = found.codes[a]
        assert bins.max() < 50 and found.neighbours == frozenset(columns)
        widths = [np.ptp(np.flatnonzero(bins == g)) for g in range(bins.max() + 1)]
        assert max(widths) < 50
    few = [Measurement((a,), np.r_[np.full(45, 80.0), np.full(55, 0.1)], 1e-3) for a in columns]
    rest = merge(Domain(columns), few, 3.0, most, schema=Schema.from_domain(columns))
    assert rest.merged_for_size.keys() == columns.keys() and not rest.neighbours

"""User ids: the deal's laws, against a slow twin, and against the published heuristic on the
conjunction score."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp._core import ids as core
from fastdp.public import ids


def random_case(rng, rows, users, shape):
    codes = {f"c{i}": rng.integers(0, n, rows).astype(np.uint8) for i, n in enumerate(shape)}
    return codes, np.sort(rng.integers(0, users, rows)).astype(np.uint32)


@given(st.integers(0, 200), st.integers(1, 9), st.integers(0, 2**63 - 1))
@settings(max_examples=30, deadline=None)
def test_group_orders_by_key_and_keeps_every_position(n, keys, seed):
    key = np.random.default_rng(seed % 1000).integers(0, keys, n).astype(np.uint32)
    order, start = core.group(key, keys, seed)
    assert sorted(order.tolist()) == list(range(n)) and start[0] == 0 and start[-1] == n
    for g in range(keys):
        assert (key[order[start[g] : start[g + 1]]] == g).all()


def test_group_refuses_a_key_out_of_range():
    with pytest.raises(ValueError):
        core.group(np.array([0, 3], np.uint32), 3, 1)


def test_every_order_of_a_group_is_equally_likely():
    """Chi-square over the 24 orders of 4 positions, 24,000 shuffles, false alarms 1e-6: below 69.9
    (23 degrees)."""
    seen = {}
    for seed in range(24_000):
        order = tuple(core.group(np.zeros(4, np.uint32), 1, seed)[0].tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    assert sum((n - 1000) ** 2 / 1000 for n in seen.values()) < 69.9


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_deal_pairs_as_many_as_the_slow_twin(seed):
    """Equal keys are paired one to one; what is left over is left over."""
    rng = np.random.default_rng(seed)
    keys = int(rng.integers(1, 6))
    row_key = rng.integers(0, keys, rng.integers(1, 40)).astype(np.uint32)
    unit_key = rng.integers(0, keys, rng.integers(1, 40)).astype(np.uint32)
    user = np.arange(unit_key.size, dtype=np.uint32)
    owner, again = np.full((2, row_key.size), 2**32 - 1, np.uint32)
    groups = (*core.group(row_key, keys, seed), *core.group(unit_key, keys, seed + 1))
    places = [np.arange(key.size, dtype=np.uint32) for key in (row_key, unit_key)]
    rows, units = core.deal(*groups, *places, user, owner)
    having = Counter(row_key.tolist())
    wanted = Counter(unit_key.tolist())
    assert (rows.size, units.size) == ((having - wanted).total(), (wanted - having).total())
    dealt = owner != 2**32 - 1
    assert dealt.sum() == row_key.size - rows.size
    assert (unit_key[owner[dealt]] == row_key[dealt]).all()
    assert np.unique(owner[dealt]).size == dealt.sum()
    rest = core.deal(*groups, None, None, user, again)
    assert (again == owner).all() and (rest[0] == rows).all() and (rest[1] == units).all()


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_units_are_what_the_public_users_have(seed):
    rng = np.random.default_rng(seed)
    indptr = np.cumsum([0, *rng.integers(1, 5, 6)]).astype(np.int64)
    counts = rng.integers(0, 4, indptr[-1]).astype(np.int64)
    cells = rng.integers(0, 2**32, indptr[-1]).astype(np.uint32)
    taken = rng.integers(0, 6, rng.integers(1, 20)).astype(np.int64)
    asked = [
        (i, cells[e])
        for i, u in enumerate(taken)
        for e in range(indptr[u], indptr[u + 1])
        for _ in range(counts[e])
    ]
    user, cell = core.units(indptr, counts, cells, taken, len(asked))
    assert list(zip(user, cell)) == asked
    for wrong in (len(asked) + 1, len(asked) - 1):
        if wrong > 0:
            with pytest.raises(ValueError):
                core.units(indptr, counts, cells, taken, wrong)


@given(
    st.integers(0, 400),
    st.integers(1, 400),
    st.integers(1, 30),
    st.integers(1, 12),
    st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_every_row_gets_a_user_and_nobody_exceeds_the_bound(rows, public_rows, users, bound, seed):
    rng = np.random.default_rng(seed)
    shape = (3, 4)
    public, owner = random_case(rng, public_rows, users, shape)
    habits = ids.Habits.from_rows(("c0", "c1"), shape, owner, public)
    assert habits.rows == public_rows
    synthetic, _ = random_case(rng, rows, 1, shape)
    dealt, n = ids.deal(synthetic, rows, habits, bound=bound, seed=seed)
    assert dealt.shape == (rows,)
    if rows:
        assert np.bincount(dealt, minlength=n).max() <= bound
        again, _ = ids.deal(synthetic, rows, habits, bound=bound, seed=seed, threads=2)
        assert (again == dealt).all()


def test_habits_count_what_pandas_counts():
    import pandas as pd

    rng = np.random.default_rng(5)
    codes, owner = random_case(rng, 500, 20, (3, 5))
    habits = ids.Habits.from_rows(("c0", "c1"), (3, 5), owner, codes)
    frame = pd.DataFrame({"u": owner, "cell": codes["c0"].astype(int) * 5 + codes["c1"]})
    want = frame.groupby(["u", "cell"]).size()
    assert habits.counts.tolist() == want.tolist()
    assert habits.cells.tolist() == [cell for _, cell in want.index]
    assert habits.rows_per_user().tolist() == frame.groupby("u").size().tolist()


def test_the_public_rows_themselves_come_back_with_their_profiles():
    """Dealing the public rows themselves meets every demand exactly: each user's counts are a
    public user's. They are enough for several threads, on which nothing depends."""
    rng = np.random.default_rng(3)
    codes, owner = random_case(rng, 200_000, 60, (4, 6))
    habits = ids.Habits.from_rows(("c0", "c1"), (4, 6), owner, codes)
    mixed = rng.permutation(200_000)
    rows = {k: v[mixed] for k, v in codes.items()}
    (dealt, n), (alone, _) = (
        ids.deal(rows, 200_000, habits, bound=None, seed=1, threads=t) for t in (3, 1)
    )

    def profiles(user, c):
        table = np.zeros((n, 24), int)
        np.add.at(table, (user, c["c0"].astype(int) * 6 + c["c1"]), 1)
        return sorted(map(tuple, table))

    assert n == 60 and (dealt == alone).all()
    assert profiles(dealt, rows) == profiles(owner, codes)


def test_deal_by_size_follows_the_histogram():
    sizes = np.array([1, 5, 50])
    owner, n = ids.deal_by_size(100_000, sizes, np.array([3000.0, -20.0, 1500.0]), seed=2)
    per_user = np.bincount(owner, minlength=n)
    assert per_user.max() <= 50 and owner.size == 100_000
    share = (per_user <= 1).mean()
    assert abs(share - 2 / 3) < 0.01
    owner, n = ids.deal_by_size(10, np.array([1, 4]), np.array([-1.0, -3.0]), seed=2)
    assert owner.size == 10 and np.bincount(owner, minlength=n).max() <= 4

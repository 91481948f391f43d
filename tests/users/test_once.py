"""Users who have one row for each period: periods are moved apart, rows stay whole."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from fastdp.mechanisms.with_users.user_questions import UserQuestions
from fastdp.schema import Schema
from fastdp.user_views import UserFacts
from fastdp.users.gaps import Gaps
from fastdp.users.once import moved_apart, once_per_period, with_gaps
from fastdp.users.people import Histogram, Sizes, piles_up, size_bins
from fastdp.users.siblings import Likeness
from fastdp.users.user_choice import Choice
from fastdp.users.user_table import Marginal

SCHEMA = Schema.from_domain({"land": 3, "year": 12, "paid": 5})
ALIKE = Likeness(("land",), ("paid",), ("year",), 12, 12, 12)


def pool(users=1_500, seed=1):
    """Up to 6 years of each user near each other, of which some come twice."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(users), rng.integers(1, 7, users))
    near = rng.integers(0, 12, users)[owner] + rng.integers(-2, 3, len(owner))
    codes = {"land": rng.integers(0, 3, users)[owner], "year": np.clip(near, 0, 11)}
    codes["paid"] = rng.integers(0, 5, len(owner))
    order = np.lexsort((codes["year"], owner))
    return {n: c[order].astype(np.uint32) for n, c in codes.items()}, owner.astype(np.uint32)


def test_codes_are_moved_apart_inside_the_domain_and_no_further_than_needed():
    rng = np.random.default_rng(2)
    rows = rng.integers(1, 8, 400)
    start = np.append(0, np.cumsum(rows))
    codes = np.concatenate([np.sort(rng.integers(0, 7, r)) for r in rows])
    made = moved_apart(codes, start, 7)
    assert made.min() >= 0 and made.max() < 7
    for a, b in pairwise(start):
        assert (np.diff(made[a:b]) > 0).all()
        if (np.diff(codes[a:b]) > 0).all():
            assert (made[a:b] == codes[a:b]).all()
    assert moved_apart(np.array([3, 3, 3]), np.array([0, 3]), 9).tolist() == [2, 3, 4]
    assert moved_apart(np.array([0, 0]), np.array([0, 2]), 1).tolist() == [0, 0]  # no room
    null = np.array([3, 3, 9, 3, 3])
    assert moved_apart(null, np.array([0, 3, 5]), 9).tolist() == [3, 3, 9, 2, 3]


def test_users_of_a_panel_have_no_period_twice_and_rows_stay_whole():
    """Every row is one of somebody in the same land; users with nothing twice keep theirs."""
    codes, owner = pool()
    made = once_per_period(codes, owner, ALIKE, None, 5)
    cells = owner.astype(np.int64) * 12 + made["year"]
    assert len(np.unique(cells)) == len(cells)
    assert (np.diff(owner)[np.diff(made["year"].astype(int)) <= 0] > 0).all()  # in order
    assert (made["land"] == codes["land"]).all()

    def rows(table):
        return set(zip(*(table[n].tolist() for n in table)))

    assert rows(made) <= rows(codes)
    twice = np.bincount(owner[1:], (np.diff(owner) == 0) & (np.diff(codes["year"]) == 0)) > 0
    kept = ~twice[owner]
    assert kept.mean() > 0.2 and all((made[n][kept] == codes[n][kept]).all() for n in codes)
    again = once_per_period(codes, owner, ALIKE, None, 5)
    assert all((again[n] == made[n]).all() for n in made)


def test_rows_whose_period_moves_keep_what_is_known_of_users():
    """Who pays the same every year pays it in the moved years too, as far as anybody does in these."""
    codes, owner = pool(6_000)
    paid = np.random.default_rng(3).integers(0, 5, int(owner.max()) + 1)[owner]
    codes["paid"] = paid.astype(np.uint32)
    made = once_per_period(codes, owner, ALIKE, None, 5)
    assert (made["paid"] == paid).mean() > 0.999


def test_gaps_of_a_panel_are_the_released_ones_but_for_noise():
    """Every period or some with a pause: a pool with too many pauses loses them, one with too few gets
    some. What noise explains stays, and codes stay in the domain, where there is room."""
    rng = np.random.default_rng(4)
    rows = rng.integers(1, 9, 3_000)
    start = np.append(0, np.cumsum(rows))
    codes = np.concatenate([np.sort(rng.choice(24, r, replace=False)) for r in rows])

    def shares(codes):
        found = gaps.of_users({"year": codes}, {"year": 24}, start)
        return found.sum(axis=1) / (rows > 1).sum()

    for goal in ([0, 1, 0, 0, 0, 0], [0, 0.6, 0.3, 0.1, 0, 0]):
        gaps = Gaps(("year",), np.array(goal), 0.005)
        made = with_gaps(codes, start, 24, gaps, np.random.default_rng(1))
        assert np.abs(shares(made) - goal).max() < 0.03
        assert made.min() >= 0 and made.max() < 24
        each = [np.diff(made[a:b]) > 0 for a, b in pairwise(start)]
        assert all(rising.all() for rising in each)
        moved = np.add.reduceat(made - codes, start[:-1]) / rows
        assert np.abs(moved).mean() < 3
    noisy = Gaps(("year",), shares(codes) + 0.01, 0.02)
    assert (with_gaps(codes, start, 24, noisy, rng) == codes).all()
    full = np.tile(np.arange(24), 5)
    gaps = Gaps(("year",), np.array([0, 0.5, 0.5, 0, 0, 0]), 0.001)
    assert (with_gaps(full, np.arange(0, 121, 24), 24, gaps, rng) == full).all()  # no room


@pytest.mark.parametrize("once", [True, False])
def test_chosen_users_of_a_panel_have_no_period_twice(once):
    codes, owner = pool()
    view = UserFacts((1, 2, 4), "rows", (("first", "first", "year", (12,), ()),))
    first = Marginal(("first",), (np.arange(12),), np.full(12, 25.0), np.full(12, 5.0))
    alike = Likeness(("land",), ("paid",), ("year",), 12, 12, 12 * once)
    made, user = Choice(view, [first], SCHEMA, 5, 300.0, alike=alike).choose(
        codes, owner, len(owner) // 5, 1
    )
    cells = user.astype(np.int64) * 12 + made["year"]
    assert (len(np.unique(cells)) == len(cells)) is once


@pytest.mark.parametrize(
    "rate, error, chance, once",
    [(0.001, 0.004, 0.2, True), (0.02, 0.004, 0.2, False), (0.03, 0.05, 0.2, False)],
)
def test_rows_are_once_per_period_if_rates_are_surely_small_and_not_surely_above_0(
    rate, error, chance, once
):
    rates = SimpleNamespace(
        columns=("paid", "year"), overall=np.array([0.5, rate]), error=np.array([0.1, error])
    )

    def decided(*order):
        job = SimpleNamespace(schema=SimpleNamespace(order_columns=order))
        by_chance = np.array([0.5, chance])
        asked = SimpleNamespace(
            rates=rates, by_chance=by_chance, job=job, full=False, gaps=lambda: None
        )
        return UserQuestions.once(asked)  # type: ignore[arg-type]

    assert decided("year", "month") is once
    assert not decided() and not decided("month")


def test_users_pile_up_where_surely_more_have_so_many_rows_than_one_more_or_less():
    """The number of periods is public, so a row for each has a bin of its own. Beside it, bins count by
    their width."""
    edges = size_bins(64, periods=40)
    assert {40, 41} <= set(edges) and set(size_bins(64)) == set(edges) - {41}
    assert size_bins(40, periods=40)[-1] == 40
    values = np.zeros(len(edges))
    values[edges.index(40)] = 100.0
    assert piles_up(Histogram(edges, values, 20.0), 40, 64)
    assert not piles_up(Histogram(edges, values, 40.0), 40, 64)  # noise
    assert not piles_up(Histogram(edges, values, 20.0), 41, 64)
    for beside in (32, 41):  # eight and seven numbers of rows that many users have
        near = values.copy()
        near[edges.index(beside)] = 700.0
        assert not piles_up(Histogram(edges, near, 20.0), 40, 64)
    assert not piles_up(Histogram(edges, values, 20.0), 1, 64)


@pytest.mark.parametrize(
    "rate, full, again, once",
    [
        (0.0, True, 0.0, True),
        (0.0, False, 0.0, False),
        (0.2, True, 0.0, False),
        (0.0, True, 0.2, True),
        (0.0, True, 0.38, False),
    ],
)
def test_rows_are_once_per_period_if_users_have_a_row_for_each(rate, full, again, once):
    """Few users: the rate's error is as large as chance, but all of them have a row for each period.
    Twelve rows in any of twelve months are no panel: .38 of them come in the month of the one before,
    where two rows share a month in .083 of all pairs. `again`: the released share of such gaps."""
    gaps = Gaps(("year",), np.array([again, 1 - again]), 0.08)
    rates = SimpleNamespace(columns=("year",), overall=np.array([rate]), error=np.array([0.03]))
    job = SimpleNamespace(schema=SimpleNamespace(order_columns=("year",)))
    asked = SimpleNamespace(
        rates=rates, by_chance=np.array([0.025]), job=job, full=full, gaps=lambda: gaps
    )
    assert UserQuestions.once(asked) is once  # type: ignore[arg-type]


def test_users_of_a_panel_have_at_most_as_many_rows_as_there_are_periods():
    """Rows per user are known in bins: noise must not give users of 10 periods 11 rows."""
    sizes = Sizes((1, 8, 10), 15, np.array([50.0, 20.0, 30.0]), 700.0, 1.0, limit=10)
    rows = sizes.draw(2_000, np.random.default_rng(1))
    assert rows.max() == 10 and (rows == 10).mean() == pytest.approx(0.3, abs=0.04)
    mean = sizes.rows_by((1,), (1,)).sum() / 100
    assert mean == pytest.approx(rows.mean(), rel=0.05)
    assert replace(sizes, limit=np.inf).draw(2_000, np.random.default_rng(1)).max() > 10

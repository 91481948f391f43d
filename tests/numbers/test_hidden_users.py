"""Ends of sums that need no model: they count every user up to the stated amount, and cover."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

from fastdp.numbers import group_estimates as groups, hidden_users, tail_posterior
from fastdp.numbers.encoding_grid import UNIT, octaves
from fastdp.numbers.encodings import CappedSum, DirectionHats, Hats
from fastdp.numbers.hidden_users import Ends, Masses, Side

from .test_measure_numbers import by_group, measured, no_test, one_entry

CORNERS = octaves(1 << 20)
T = np.array(CORNERS, float)


def hats(amounts, signed=False):
    """Exact masses of users, one row for each sign."""
    found = Hats(corners=CORNERS, signed=signed).add_up(one_entry(np.array(amounts))) / UNIT
    rows = [found[-len(T) :]] + ([found[: len(T)][::-1]] if signed else [])
    return np.array(rows)


def releases(amounts, cap, s=1.0, signed=False):
    cents = one_entry(np.array(amounts))
    encoding = CappedSum(cap=cap, signed=signed)
    value = float(encoding.add_up(cents)[0]) / encoding.unit
    return [Masses(T, hats(amounts, signed), s), hidden_users.capped(cap, value, s * cap)]


@given(
    st.lists(st.integers(0, 50_000), min_size=1, max_size=30),
    st.sampled_from([50_000.0, 65_536.0, 70_000.0, 98_304.0, 130_000.0]),
    st.sampled_from([100, 1024, 3000]),
)
@settings(max_examples=30, deadline=None)
def test_without_noise_ends_hold_every_user(amounts, most, cap):
    """Exact masses with noise that is said to be nearly nothing: the upper end is at least the sum,
    the lower at most, whatever the amounts, the cap and the stated amount. Rounding to the grid
    takes at most a unit of 2^-24 from each of two corners."""
    tiny = 1e-9
    seen = releases(amounts, cap, tiny)
    ends = Ends([Side((1024.0, 4096.0), most)], seen)
    slack = 1e-4 * len(amounts) + 1e-3
    assert ends.high() >= sum(amounts) - slack
    assert ends.low() <= sum(amounts) + slack
    value, _ = hidden_users.best_sum(1, seen)
    assert value == pytest.approx(sum(amounts), abs=slack + 1e-6 * most)


def test_signs_are_counted_apart():
    amounts = [500, -300, 20_000, -7_000, -7_000]
    seen = releases(amounts, 1000, 1e-9, signed=True)
    sides = [Side((32_768.0,), 40_000.0), Side((32_768.0,), 40_000.0)]
    ends = Ends(sides, seen)
    assert ends.low() <= sum(amounts) + 0.01 and ends.high() >= sum(amounts) - 0.01
    assert hidden_users.best_sum(2, seen)[0] == pytest.approx(sum(amounts), abs=0.1)


def test_the_combination_has_the_least_noise_of_all():
    """Twin: the pseudo-inverse of what a user adds to each mass. A second release with few corners
    leaves the noise of its last corner, not of all octaves."""
    first = Masses(T, np.zeros((1, len(T))), 2.0)
    second = Masses(np.array([1.0, 1024.0, 65_536.0]), np.zeros((1, 3)), 2.0)
    points = T[T <= 65_536]
    rows = np.vstack([first.rows(points, 1), second.rows(points, 1)]).T / 2.0
    twin = np.linalg.pinv(rows) @ points
    within = np.ones(len(points), bool)
    _, sd = hidden_users.least_noise([first, second], points, points, within)
    assert sd == pytest.approx(float(np.linalg.norm(twin)), rel=1e-6)
    alone = hidden_users.least_noise([second], points, points, within)[1]
    assert sd < alone == pytest.approx(2.0 * 65_536, rel=1e-3)


@pytest.mark.parametrize("index", [1.2, 2.0, 3.0])
def test_what_some_users_exceed_is_read_from_masses(index):
    x = 100 * (1 - (np.arange(40_000) + 0.5) / 40_000) ** (-1 / index)
    masses = hats(np.floor(x))[0]
    for users in (20, 100, 1000):
        found = hidden_users.exceeded_by(masses, T, users)
        assert found == pytest.approx(np.sort(x)[-users], rel=0.1)
    assert hidden_users.exceeded_by(np.zeros(len(T)), T, 5) < 1


def test_the_nearest_round_number_has_one_or_two_digits():
    assert [hidden_users.nearest_round(x) for x in (0.3, 1, 97, 1337, 2400, 9900)] == [
        *(1, 1, 100, 1200, 2500, 10_000)
    ]


def hidden_misses(runs, amount):
    """Upper ends below the total: k users, as many as no mechanism tells from none, have `amount`
    times what k others exceed."""
    mu = 0.12
    k = round(hidden_users.Z / mu)
    missed = 0
    for run in range(runs):
        rng = np.random.default_rng([run, 8])
        cents = np.floor(5000 * np.exp(0.7 * rng.standard_normal(6000)))
        cents[:k] = amount * np.sort(cents)[-k]
        (line,), _ = measured({"sum(amount)": one_entry(cents)}, mu, run, 300 + run)
        missed += line.high is not None and line.high < cents.sum() / 100
    return missed


def test_hidden_users_are_covered_and_a_smaller_claim_misses_them(monkeypatch):
    """Hidden users of four times what others exceed: upper ends miss in 2.5 % of runs, more than the
    limit once in 10^4. Planted: the claim ends where users are visible, and nothing tests it."""
    runs = 30
    limit = binom.ppf(1 - 1e-4, runs, 0.025)
    assert hidden_misses(runs, 4) <= limit
    no_test(monkeypatch)
    monkeypatch.setattr(hidden_users, "TIMES", 1.0)
    monkeypatch.setattr(hidden_users, "MEANS", 1.0)
    assert hidden_misses(runs, 4) > limit


def alike_misses(runs, users, times):
    """Upper ends below the total: amounts are alike, but so many users have so many times the mean."""
    missed = 0
    for run in range(runs):
        rng = np.random.default_rng([run, 9])
        cents = np.floor(rng.uniform(2000, 6000, 2400))
        cents[:users] = times * cents.mean()
        (line,), _ = measured({"sum(amount)": one_entry(cents)}, 0.12, run, 500 + run)
        missed += line.high is not None and line.high < cents.sum() / 100
    return missed


def test_users_with_many_times_the_mean_are_covered(monkeypatch):
    """16 of 2,400 users, whom no mechanism tells from none, have 80 times the mean, a third of the
    total. The claim holds them. Planted: a claim of 8 times what others exceed is about 12 times the
    mean, nothing tests it, and the upper end misses."""
    runs = 20
    limit = binom.ppf(1 - 1e-4, runs, 0.025)
    assert alike_misses(runs, 16, 80) <= limit
    no_test(monkeypatch)
    monkeypatch.setattr(hidden_users, "MEANS", 1.0)
    assert alike_misses(runs, 16, 80) > limit


def test_signs_of_users_end_no_claim_before_them(monkeypatch):
    """Users of 300 times the mean who give signs at 3 to 5 standard deviations: nothing is measured
    of them, but the claim reaches as far. Planted: without it, and without a test of the claim, most
    upper ends miss."""
    noise = 1.96 / hidden_users.Z / 0.12
    runs, users = 20, int(5 * noise)
    before = alike_misses(runs, users, 300)
    monkeypatch.setattr(tail_posterior, "suspected", lambda c, s, last, least=3.0: -1)
    no_test(monkeypatch)
    assert alike_misses(runs, users, 300) > runs / 2 > 2 * before


def test_noise_alone_gives_signs_in_few_runs():
    """1 of 70, as `SIGNS` says: of 2,000 runs 28 +- 5."""
    rng = np.random.default_rng(3)
    runs = 2000
    found = sum(
        tail_posterior.suspected(rng.standard_normal(24), 1.0, 15) >= 0 for _ in range(runs)
    )
    assert 0.005 * runs <= found <= 0.03 * runs


def test_a_claim_is_no_more_than_the_schema_allows():
    assert hidden_users.within(200.0, 60.0, 16.0) == 60.0
    assert hidden_users.within(200.0, None, 16.0) == 200.0
    assert hidden_users.within(40.0, 60.0, 16.0) == 40.0
    assert hidden_users.within(200.0, 60.0, 128.0) == 200.0, "users are visible above"


def test_capped_sums_by_group_follow_from_hats_at_few_corners():
    """The second hats give each group's sum with users cut to the length of the cap, exactly."""
    rng = np.random.default_rng(2)
    table = np.floor(rng.pareto(1.2, (300, 4)) * 200) * (rng.random((300, 4)) < 0.6)
    corners = (1, 1000, 20_000, 1 << 20)
    found = DirectionHats(corners=corners, groups=4).add_up(by_group(table)) / UNIT
    again = groups.Again(corners, found.reshape(4, 1, 4), 3.0)
    length = np.sqrt((table**2).sum(1))
    cut = table * np.minimum(1, 1000 / np.maximum(length, 1))[:, None]
    for g in range(4):
        value, noise = again.capped(g, 1000)
        assert value == pytest.approx(cut[:, g].sum(), rel=2e-3)
        assert noise == pytest.approx(3.0 * math.sqrt(1 + 3 * 1000**2))
    assert hidden_users.best_sum(1, [again.masses(0)])[0] == pytest.approx(
        table[:, 0].sum(), rel=2e-3
    )


def test_tails_without_a_sum_are_withheld():
    """Log-normal amounts of sigma 3: a few users have most. The note says what to declare."""
    rng = np.random.default_rng(4)
    cents = np.floor(500 * np.exp(3 * rng.standard_normal(2400)))
    lines = [measured({"sum(amount)": one_entry(cents)}, 0.12, run, run)[0][0] for run in range(5)]
    assert sum(line.estimate is None for line in lines) >= 4
    withheld = next(line for line in lines if line.estimate is None)
    assert "declared maximum" in withheld.note and withheld.capped is not None
    with_maximum, _ = measured({"sum(amount)": one_entry(cents)}, 0.12, maximum=1 << 20)
    assert with_maximum[0].low <= np.minimum(cents, 1 << 20).sum() / 100 <= with_maximum[0].high

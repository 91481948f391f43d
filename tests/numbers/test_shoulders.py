"""Of users who have far more than most, a law describes what lies beyond those that are seen, and not
how many lie between them and the others."""

import numpy as np
import pytest

from fastdp.numbers import asked_means, asked_sums, group_estimates, tail_posterior
from fastdp.numbers.asking import ASSUMES, IN_ALL
from fastdp.numbers.declared import Declared
from fastdp.numbers.tail_posterior import shoulder, visible
from fastdp.significance import SURE

from .test_measure_numbers import by_group, measured, no_test, one_entry

MU = 0.3
"""About what a sum has of epsilon 3 with a fifth of mu^2."""


def two_kinds(run, part=0.2, times=30, users=2400):
    """Log-normal amounts; a part of the users has so many times as much, without a gap between."""
    rng = np.random.default_rng([run, 22])
    more = np.where(rng.random(users) < part, times, 1)
    return np.floor(4000 * np.exp(0.8 * rng.standard_normal(users)) * more)


def held(text, runs, **shape):
    """(Lines that are given, those of them that hold the truth)."""
    given = []
    for run in range(runs):
        cents = two_kinds(run, **shape)
        (line,), _ = measured({text: one_entry(cents)}, MU, run, 40 + run)
        truth = cents.sum() / 100 / (len(cents) if text.startswith("mean") else 1)
        if line.estimate is not None:
            given.append(line.low <= truth <= line.high)
    return len(given), sum(given)


@pytest.mark.parametrize("shape", [{}, {"part": 0.1, "times": 20}])
def test_a_second_kind_of_users_that_is_seen_voids_no_total(monkeypatch, shape):
    """One with a mode of its own, one that is a shoulder only. Planted, as it was: one law from the mode
    of all users on. It falls so slowly that it has no sum, and the total is withheld."""
    runs = 8
    given, right = held("sum(amount)", runs, **shape)
    assert given >= runs - 1 and right >= given - 1
    monkeypatch.setattr(tail_posterior, "shoulder", lambda c, s, at: at)
    assert held("sum(amount)", runs, **shape)[0] <= runs / 2


def end_of(c, s):
    at = visible(c, s)
    return at, shoulder(c, s, at)


def test_a_shoulder_starts_at_the_last_mode_and_reaches_over_few_octaves():
    c = np.zeros(41)
    c[8:20] = [40, 300, 700, 420, 150, 70, 120, 170, 100, 30, 2, 1]
    at, later = end_of(c, 6.0)
    assert (at.mode, at.start, at.last) == (10, 11, 17)
    assert later.start == 15, "masses rise again, and not by noise"
    c[13:18] = [140, 110, 80, 50, 30]
    at, later = end_of(c, 6.0)
    assert later.start == at.last - tail_posterior.DESCENT, "one mode, but a long way down"
    c[14:18] = [20, 35, 35, 20]
    at, later = end_of(c, 6.0)
    assert later.start == 15, "not at the dip: a law that falls would be as low from there on"
    c[8:20] = 0
    c[8] = 900
    assert {one.start for one in end_of(c, 6.0)} == {8}, "users who are alike are their own start"


def test_noise_is_no_mode():
    """Masses that only fall: three standard deviations of a difference are seldom made by noise at one
    of a handful of corners. A law that starts at noise would say nothing about users."""
    rng = np.random.default_rng(5)
    c = np.zeros(41)
    c[8:20] = [900, 600, 400, 250, 150, 90, 60, 30, 10, 5, 2, 1]
    moved = 0
    for _ in range(400):
        noisy = c + 10 * rng.standard_normal(41)
        at, later = end_of(noisy, 10.0)
        moved += tail_posterior.last_mode(noisy, 10.0, at.mode, at.last) != 8
        assert noisy[later.start] >= SURE * 10.0
    assert moved <= 8


def test_where_the_law_from_the_mode_has_a_sum_it_stays():
    """A few users of a second kind are too few to say how a tail falls: they count as they are."""
    c = np.zeros(41)
    c[9:20] = [1900, 6200, 8600, 5300, 1400, 160, 20, 30, 40, 25, 5]
    assert tail_posterior.seen_law(c, 9.0)[0] == visible(c, 9.0)
    c[9:20] = [40, 300, 700, 420, 150, 70, 120, 170, 100, 30, 2]
    at, masses, chance, infinite = tail_posterior.seen_law(c, 6.0)
    assert at == shoulder(c, 6.0, visible(c, 6.0)) != visible(c, 6.0)
    assert infinite <= tail_posterior.INFINITE
    assert masses.shape[1] == len(c) - at.start and chance.sum() == pytest.approx(1)


def test_a_tail_is_judged_by_how_masses_fall_above_the_last_visible_one():
    """Masses that fall more and more have a sum, whatever their first octaves look like. At the last
    visible corner itself these fall by less than a half, from there on by more."""
    c = np.zeros(41)
    c[10:16] = [400, 380, 330, 200, 60, 3]
    at = visible(c, 5.0)
    grid = tail_posterior.levels(c, 5.0, at)
    assert tail_posterior.law(c, 5.0, at.last + 1, at, grid)[2] < 0.05
    flat = np.zeros(41)
    flat[10:30] = 300
    at = visible(flat, 5.0)
    grid = tail_posterior.levels(flat, 5.0, at)
    assert tail_posterior.law(flat, 5.0, at.last, at, grid)[2] > 0.9


def test_means_notice_users_above_their_claim(monkeypatch):
    """One user in fifty has 500 times as much. Planted: nothing tests the claim."""

    def missed():
        count = 0
        for run in range(10):
            rng = np.random.default_rng([run, 23])
            more = np.where(rng.random(2400) < 0.02, 500, 1)
            cents = np.floor(rng.uniform(500, 6000, 2400) * more)
            (line,), _ = measured({"mean(amount)": one_entry(cents)}, 0.16, run, 60 + run)
            count += line.estimate is not None and line.high < cents.mean() / 100
        return count

    now = missed()
    no_test(monkeypatch)
    assert now <= 3 and missed() >= now + 3


def months(run, users=6000):
    """Amounts of users in one of six months; 30 of them have 40 times as much."""
    rng = np.random.default_rng([run, 24])
    amount = np.floor(4000 * np.exp(0.6 * rng.standard_normal(users)))
    amount[:30] *= 40
    table = np.zeros((users, 6))
    table[np.arange(users), rng.integers(0, 6, users)] = amount
    return table


def test_a_claim_by_group_holds_what_noise_hides(monkeypatch):
    """Five users of a month have 40 times what others have: noise hides them, the claim does not leave
    them out. Planted: nobody exceeds what that many hidden users exceed, and not 50 times the mean."""

    def misses():
        count = 0
        for run in range(4):
            table = months(run)
            found, _ = measured({"sum(amount) by month": by_group(table)}, 0.3, run, 80 + run)
            for line in found:
                if line.estimate is not None and line.group < 6:
                    truth = table[:, line.group].sum() / 100
                    count += line.high < truth
                    assert line.note.startswith(ASSUMES) and IN_ALL in line.note
        return count

    assert misses() <= 2
    monkeypatch.setattr(group_estimates.hidden_users, "GROUP_MEANS", 0.0)
    monkeypatch.setattr(group_estimates.hidden_users, "GROUP_TIMES", 0.2)
    assert misses() >= 6


def test_claims_by_group_are_apart_by_octaves():
    """So second hats have a corner for each octave and not for each group. With a corner for each of
    twelve months, the noise of a capped month would be that of twelve corners in place of one."""
    near = group_estimates._alike(np.array([900.0, 1000.0, 1100.0, 2100.0]), np.ones(4, bool))
    assert near.tolist() == [1000.0, 1000.0, 1000.0, 2000.0]
    assert group_estimates._alike(np.array([5.0]), np.zeros(1, bool)).tolist() == [5.0]


def test_the_capped_sum_of_a_mean_with_a_maximum_has_half():
    """Both are combined exactly there, and the capped sum is the better of the two."""
    assert asked_means.hats_part(Declared(False, 1000)) == asked_sums.HATS
    assert asked_means.hats_part(Declared(False)) == 1 - asked_sums.LEAST_CAPPED

"""Totals and means by group rest on a claim that is tested for all groups together."""

import numpy as np
import pytest

from fastdp.numbers import length_tests
from fastdp.numbers.asking import ASSUMES
from fastdp.numbers.hidden_users import SIGNS
from fastdp.numbers.length_tests import FEW, LOST, Judgement, judged

from .test_measure_numbers import by_group, measured, no_test

TEST = "users above the claim"


def months(run, users, part=0.02, times=500):
    """Amounts that are alike in six months, but so many users have so many times as much."""
    rng = np.random.default_rng([run, 31])
    amount = np.floor(rng.uniform(500, 6000, users) * np.where(rng.random(users) < part, times, 1))
    table = np.zeros((users, 6))
    table[np.arange(users), rng.integers(0, 6, users)] = amount
    return table


def lines(text, runs, mu, **shape):
    """(Lines that are given, those of them above which the truth lies, notes of the others)."""
    given = missed = 0
    notes = []
    for run in range(runs):
        table = months(run, **shape)
        found, _ = measured({text: by_group(table)}, mu, run, 500 + run)
        for line in found[:6]:
            truth = table[:, line.group].sum() / 100
            if text.startswith("mean"):
                truth /= np.count_nonzero(table[:, line.group])
            given += line.estimate is not None
            missed += line.estimate is not None and line.high < truth
            notes += [line.note] * (line.estimate is None)
    return given, missed, notes


@pytest.mark.parametrize("text", ["sum(amount) by month", "mean(amount) by month"])
def test_users_above_the_claim_of_groups_are_noticed(monkeypatch, text):
    """60 of 3,000 users have ten of eleven parts of the sum. Planted: every claim holds. Then nearly
    every month is stated, with an upper end at a fifth of the truth."""
    shape = {"mu": 0.32, "users": 3000}
    given, missed, notes = lines(text, 4, **shape)
    assert missed <= 2 and given + len(notes) == 24
    assert all(note.startswith(("withheld: some users", "withheld: too few")) for note in notes)
    no_test(monkeypatch)
    assert lines(text, 4, **shape)[1] >= missed + 8


def test_too_few_users_for_a_test_have_no_totals_by_group():
    """Noise of 30 users cannot exclude that 8 of 800 have far more, whatever is released: what a test
    could notice decides, and not luck. The capped sums stay."""
    table = months(1, 800, part=0.0)
    for run in range(5):
        found, _ = measured({"sum(amount) by month": by_group(table)}, 0.3, run, run)
        assert [line.estimate for line in found[:6]] == [None] * 6
        assert all(line.capped is not None for line in found)


@pytest.mark.slow
def test_a_claim_without_users_above_is_seldom_contradicted():
    """Six of six months of nearly all tables of 24,000 users are given, and their notes name the test."""
    given, missed, _ = lines("sum(amount) by month", 5, mu=0.15, users=24_000, part=0.0)
    assert given >= 24 and missed <= 1
    table = months(1, 24_000, part=0.0)
    found, session = measured({"sum(amount) by month": by_group(table)}, 0.15)
    asked = [mu for label, mu, _ in session.asked if TEST in label]
    assert asked == [pytest.approx(0.15 * length_tests.PART**0.5)]
    noted = [line for line in found[:6] if "would have been noticed" in line.note]
    assert noted and all(line.note.startswith(ASSUMES) for line in noted)


def test_no_test_where_nothing_is_claimed():
    """A declared maximum is no claim: all of mu^2 goes to what is measured."""
    table = months(1, 3000, part=0.0)
    _, session = measured({"sum(amount) by month": by_group(table)}, 0.3, maximum=10_000)
    assert not any(TEST in label for label, _, _ in session.asked)
    assert sum(mu**2 for _, mu, _ in session.asked) == pytest.approx(0.09)
    _, session = measured({"sum(amount) by month": by_group(table)}, 0.3)
    assert sum(mu**2 for _, mu, _ in session.asked) == pytest.approx(0.09)


def test_what_the_counts_say_of_a_claim():
    """A claim holds, holds so many times as far, or nothing tells how far."""

    def times(*counts, s=10.0):
        return judged(np.array(counts, float), s, 100.0).times

    assert times(50_000, 5, -5) == 1.0
    assert times(50_000, 20, 10) == SIGNS, "28 are what noise explains of two masses"
    assert times(50_000, 90, 10) == SIGNS
    assert times(50_000, 90, 24) == np.inf
    assert times(4_000, 12, 0) == 1.0, "40 users are to be excluded, of whom noise hides 28"
    assert times(4_000, 13, 0) == SIGNS
    assert times(3_000, 0, 5) == SIGNS and times(2_000, 5, 5) == np.inf
    assert judged(np.array([50_000, 9, 60.0]), 10.0, 1.0).note == LOST
    assert judged(np.array([2_000, 9, 6.0]), 10.0, 1.0).note == FEW


def test_so_many_users_as_the_note_says_are_noticed():
    """In all but 2.5 % of runs; noise of 10 users."""
    rng = np.random.default_rng(3)
    found = judged(np.array([50_000, 0.0, 0.0]), 10.0, 100.0)
    noise = 10 * rng.standard_normal((4000, 2))
    above = np.array([0.0, found.unnoticed]) + noise
    passed = [judged(np.array([50_000, *pair]), 10.0, 100.0).times == 1.0 for pair in above]
    assert np.mean(passed) < 0.025 + 3 * (0.025 * 0.975 / 4000) ** 0.5
    assert found.covers(100.0) and not found.covers(99.0)
    assert not Judgement(100.0, SIGNS, 5).covers(100.0)

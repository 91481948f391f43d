"""Few people: noise hides nearly everything, and intervals that are given cover all the same."""

import numpy as np
import pytest
from scipy.stats import binom

from fastdp.numbers import (
    adding_up,
    asked_people,
    sum_estimates as sums,
    tail_posterior,
)
from fastdp.numbers.asking import NumberResult
from fastdp.numbers.declared import Declared
from tests.tiers import first

from .test_measure_numbers import MONTHS, TEXTS, measured, no_test, number, one_entry

MU = 0.12
"""About epsilon 1 with a fifth of mu^2: one mass has noise of 12 to 17 users."""
MAXIMUM = 100_000
SHAPES = {
    "log-normal": lambda g, n: 5000 * np.exp(1.5 * g.standard_normal(n)),
    "Weibull": lambda g, n: 4000 * g.weibull(0.5, n),
    "half zero": lambda g, n: 5000 * np.exp(g.standard_normal(n)) * (g.random(n) < 0.5),
    "uniform": lambda g, n: g.uniform(0, 50_000, n),
}


def misses(text, truth_of, people, maximum, signed=False, runs=10):
    """(intervals that do not hold the truth, intervals that were given)."""
    wrong = given = 0
    for draw in SHAPES.values():
        for run in range(runs):
            rng = np.random.default_rng([run, people])
            amount = np.minimum(np.floor(draw(rng, people)), MAXIMUM)
            if signed:
                amount = amount * np.where(rng.random(people) < 0.3, -1, 1)
            rows = rng.geometric(0.3, people)
            months = rng.multinomial(1, np.full(MONTHS, 1 / MONTHS), people) * amount[:, None]
            values = {text: TEXTS[text](amount, rows, months)}
            found, _ = measured(values, MU, run, 100 + run, signed, maximum)
            truth = truth_of(amount, rows, months)
            for line in found:
                if line.estimate is not None and (line.group or 0) < len(truth):
                    given += 1
                    wrong += not line.low <= truth[line.group or 0] <= line.high
    return wrong, given


def most(given):
    """Misses of 95 % intervals that chance exceeds once in 10^4."""
    return binom.ppf(1 - 1e-4, given, 0.05)


def in_all(amount, rows, months):
    return [amount.sum() / 100]


CASES = {
    "sum": ("sum(amount)", in_all, False),
    "signed": ("sum(amount)", in_all, True),
    "months": ("sum(amount) by month", lambda a, r, m: m.sum(0) / 100, False),
    "mean": ("mean(amount)", lambda a, r, m: [a.sum() / r.sum() / 100], False),
}


@pytest.mark.parametrize("people", first(1, [200, 50]))
@pytest.mark.parametrize("case", list(CASES))
def test_intervals_cover_with_a_maximum(case, people):
    """A maximum bounds what noise hides. So nothing is withheld, but for means: nobody declares how
    many rows a user has."""
    text, truth, signed = CASES[case]
    wrong, given = misses(text, truth, people, MAXIMUM, signed)
    assert given >= (0 if case == "mean" else 40)
    assert wrong <= most(given)


@pytest.mark.slow
def test_intervals_cover_without_a_maximum():
    """Of 50 people no total is given, of 500 nearly half are, and they cover."""
    wrong, given = misses("sum(amount)", in_all, 50, None)
    assert given <= 2
    wrong, given = misses("sum(amount)", in_all, 500, None)
    assert given >= 15 and wrong <= most(given)


def test_a_model_of_noise_would_not_cover(monkeypatch):
    """Planted: totals are modelled whatever stands out, as they once were, and nothing tests them."""
    no_test(monkeypatch)
    monkeypatch.setattr(tail_posterior, "stands_out", lambda c, s, at: True)
    monkeypatch.setattr(tail_posterior, "INFINITE", 1.0)
    wrong, given = misses("sum(amount)", in_all, 50, None)
    assert given == 40 and wrong > most(given)


def test_a_withheld_total_keeps_its_capped_sum():
    amount = np.full(30, 5000.0)
    (line,), _ = measured({"sum(amount)": one_entry(amount)}, MU)
    assert line.estimate is None and line.low is None and line.high is None
    assert line.capped_low <= line.capped <= line.capped_high and "withheld" in line.note


def test_shares_cover_for_any_number_of_users():
    """15 users under noise of 8: the interval is exact where n itself is hardly known."""
    rng = np.random.default_rng(4)
    runs = 2000
    wrong = 0
    for _ in range(runs):
        found = asked_people.share_of(
            0.3 * 15 + 4 * rng.standard_normal(), 4.0, 15 + 8 * rng.standard_normal(), 8.0
        )
        assert 0 <= found.low <= found.estimate <= found.high <= 1
        wrong += not found.low <= 0.8 <= found.high
    assert wrong <= most(runs)


def line(number, group, estimate, half, capped=None):
    low = None if estimate is None else estimate - half
    high = None if estimate is None else estimate + half
    cut = None if capped is None else capped - half
    return NumberResult(
        number,
        group,
        estimate=estimate,
        low=low,
        high=high,
        cap=5.0,
        capped=capped,
        capped_low=cut,
        capped_high=None,
    )


ASKED = ["sum(amount)", "sum(amount) by home", "sum(amount) by month"]


def joined(results):
    numbers = [number(text) for text in ASKED]
    return adding_up.consistent(numbers, [Declared(False)] * len(numbers), results)


def test_two_groupings_of_one_total_both_add_up():
    homes = [line(1, g, 40.0, 4.0) for g in range(3)]
    months = [line(2, g, 20.0, 3.0) for g in range(MONTHS)]
    found = joined([line(0, None, 125.0, 5.0), *homes, *months])
    total = found[0].estimate
    assert 120 < total < 125
    assert sum(r.estimate for r in found[1:4]) == pytest.approx(total, rel=1e-6)
    assert sum(r.estimate for r in found[4:]) == pytest.approx(total, rel=1e-6)


def test_withheld_groups_do_not_pull_a_total_down():
    """Their capped sums leave out what lies above the cap: here half of the total."""
    homes = [line(1, g, None, 1.0, capped=20.0) for g in range(3)]
    found = joined([line(0, None, 120.0, 20.0), *homes, line(2, 0, None, 1.0, capped=0.0)])
    assert found[0].estimate == pytest.approx(120.0)


def test_what_is_not_the_same_stays():
    homes = [line(1, g, 40.0, 1.0) for g in range(3)]
    before = [line(0, None, 400.0, 5.0), *homes, line(2, 0, None, 1.0, capped=0.0)]
    assert joined(before) == before
    withheld = [line(0, None, None, 5.0, capped=90.0), *before[1:]]
    assert joined(withheld) == withheld


def test_the_best_guess_of_where_users_are_joins_neighbours():
    """Seven corners of 3 users each stand out together, and one of 5 alone does not."""
    c = np.array([0, 0, 5, 0, 0, 0, 3, 3, 3, 3, 3, 0, 0], float)
    assert sums.busiest(c) == 10

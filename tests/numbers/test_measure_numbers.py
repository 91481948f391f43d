"""Estimators: intervals cover what they should, lines agree with each other, and nothing but
released numbers, declarations and the seed decides."""

import math

import numpy as np
import pytest

from fastdp.errors import UsageError
from fastdp.numbers import (
    allocation,
    asked_people,
    asked_sums,
    asking,
    claim_tests,
    hidden_users,
    length_tests,
    number_words,
    public_bounds,
    quantile_zoom,
    sum_estimates as sums,
    tail_posterior,
    typed,
)
from fastdp.numbers.asking import NumberResult
from fastdp.numbers.declared import Declared
from fastdp.numbers.encoding_grid import UNIT, octaves
from fastdp.numbers.encodings import Hats
from fastdp.numbers.measure_numbers import measure_numbers
from fastdp.numbers.stand_in import Simulated, expected_widths
from fastdp.numbers.user_values import UserValues
from fastdp.schema import Schema
from tests.tiers import first

MONTHS = 6
SCHEMA = Schema.from_dict(
    {
        "user": {"column": "who", "max_rows": 100},
        "columns": {
            "amount": {"kind": "numeric", "edges": [0, 10, 100, 1000], "digits": 2},
            "month": {"kind": "string", "values": [f"m{i}" for i in range(MONTHS)], "null": "drop"},
            "home": {"kind": "string", "values": list("abc"), "null": "drop", "user": "constant"},
        },
    }
)
MU = 0.27
USERS = 3000


def number(text):
    return typed.check(text, SCHEMA)


def one_entry(value, weight=None):
    n = len(value)
    weight = np.ones(n, np.int64) if weight is None else weight
    return UserValues(np.arange(n + 1), np.zeros(n, np.int32), value.astype(np.int64), weight)


def by_group(table):
    """Entries of a table users x groups."""
    user, group = np.nonzero(table)
    offsets = np.searchsorted(user, np.arange(len(table) + 1))
    value = table[user, group].astype(np.int64)
    return UserValues(offsets, group.astype(np.int32), value, np.ones(len(value), np.int64))


class Watched(Simulated):
    """Keeps what was asked: labels and mu."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked = []

    def user_vector(self, plan, *, mu, label):
        self.asked.append((label, mu, type(plan.encoding).__name__))
        return super().user_vector(plan, mu=mu, label=label)


def measured(values, mu=MU, seed=1, noise=1, signed=False, maximum=None):
    numbers = [number(text) for text in values]
    declared = [Declared(signed, maximum)] * len(numbers)
    session = Watched(values, np.random.default_rng(noise))
    found = measure_numbers(session, numbers, declared, mu=mu, seed=seed, users=USERS)
    return found, session


def no_test(monkeypatch):
    """Planted: nobody looks at the users above a claim."""
    for name in ("contradicts", "doubts"):
        monkeypatch.setattr(claim_tests.Beyond, name, lambda *args: False)
    holds = length_tests.Judgement(0.0, 1.0, 0)
    monkeypatch.setattr(length_tests, "judged", lambda counts, s, claim: holds)


def population(seed=0, users=USERS):
    rng = np.random.default_rng(seed)
    amount = np.floor(5000 * np.exp(rng.standard_normal(users)))
    rows = rng.geometric(0.3, users)
    months = rng.multinomial(1, np.full(MONTHS, 1 / MONTHS), users) * amount[:, None]
    return amount, rows, months


TEXTS = {
    "sum(amount)": lambda a, r, m: one_entry(a, r),
    "sum(amount) by month": lambda a, r, m: by_group(m),
    "mean(amount)": lambda a, r, m: one_entry(a, r),
    "share of users where rows > 1": lambda a, r, m: one_entry(r > 1),
    "count of users": lambda a, r, m: one_entry(r > 1),
    "count of users where rows > 3": lambda a, r, m: one_entry(r > 3),
    "count of users by month": lambda a, r, m: by_group(m > 0),
    "count of users by home": lambda a, r, m: by_group((m > 0)[:, :3]),
    "share of users where rows > 1 by home": lambda a, r, m: by_group((m > 0)[:, :3]),
    "mean(amount) by month": lambda a, r, m: by_group(m),
    "median(sum(amount)) per user": lambda a, r, m: one_entry(a),
    "share of rows where amount > 5": lambda a, r, m: one_entry(np.minimum(r, 2), r),
}


@pytest.fixture(scope="module")
def everything():
    content = population()
    values = {text: make(*content) for text, make in TEXTS.items()}
    return measured(values, mu=1.0)


def test_all_kinds_at_once_have_ordered_intervals(everything):
    found, _ = everything
    assert {r.number for r in found} == set(range(len(TEXTS)))
    for r in found:
        if r.estimate is not None:
            assert r.low <= r.estimate <= r.high, r
        if r.capped is not None:
            assert r.capped_low <= r.capped <= r.capped_high
            assert r.cap > 0


def test_all_of_mu_is_spent_and_no_more(everything):
    """Rounding of shares and the reserve of 1e-12 leave 1 part in 10^9 at most."""
    _, session = everything
    spent = math.sqrt(sum(mu * mu for _, mu, _ in session.asked))
    assert spent <= 1.0 and spent == pytest.approx(1.0, rel=1e-9)
    labels = [label for label, _, _ in session.asked]
    assert len(set(labels)) == len(labels), "each release has a label of its own"


def test_totals_and_groups_add_up(everything):
    found, _ = everything
    texts = list(TEXTS)
    total = [r for r in found if texts[r.number] == "sum(amount)"]
    months = [r for r in found if texts[r.number] == "sum(amount) by month"]
    given = [r for r in months if r.estimate is not None]
    assert [r.group for r in months if r.estimate is None] == [MONTHS], "nobody is in (other)"
    rest = total[0].estimate - sum(r.estimate for r in given)
    other = months[MONTHS]
    assert abs(rest - other.capped) <= 2 * (other.capped_high - other.capped)


def test_the_same_releases_and_seed_give_the_same_lines():
    content = population()
    values = {text: TEXTS[text](*content) for text in ("sum(amount)", "mean(amount)")}
    first, _ = measured(values)
    again, _ = measured(values)
    other, _ = measured(values, seed=2)
    assert first == again
    assert first[0].estimate != other[0].estimate, "draws follow the seed"
    assert first[0].capped == other[0].capped, "the capped sum has no draws"


COVER = {
    "sum(amount)": lambda a, r, m: a.sum() / 100,
    "mean(amount)": lambda a, r, m: a.sum() / r.sum() / 100,
    "share of users where rows > 1": lambda a, r, m: np.mean(r > 1),
    "count of users where rows > 3": lambda a, r, m: np.sum(r > 3),
    "median(sum(amount)) per user": lambda a, r, m: np.sort(a)[(len(a) + 1) // 2 - 1] / 100,
}


@pytest.mark.parametrize("text", first(3, COVER))
def test_intervals_cover_the_true_number_as_often_as_stated(text):
    """20 runs of 95 % intervals: below 15 hits has a chance of 3e-4 if they cover 95 %."""
    hits = 0
    for run in range(20):
        content = population(run, 800)
        found, _ = measured({text: TEXTS[text](*content)}, mu=0.5, seed=run, noise=1000 + run)
        hits += found[0].low <= COVER[text](*content) <= found[0].high
    assert hits >= 15


def test_intervals_by_group_cover():
    hits = shown = 0
    for run in range(12):
        content = population(run)
        found, _ = measured(
            {"sum(amount) by month": TEXTS["sum(amount) by month"](*content)}, 0.7, run, run
        )
        truth = content[2].sum(0) / 100
        given = [r for r in found if r.estimate is not None]
        shown += len(given)
        hits += sum(r.low <= truth[r.group] <= r.high for r in given)
        assert all(r.capped is not None for r in found)
    assert shown >= 60 and hits >= 0.85 * shown


@pytest.mark.parametrize("planted", [False, True])
def test_a_group_whose_users_are_in_more_groups_than_others_is_covered(monkeypatch, planted):
    """One group is of users who are in another as well: so much of it is left out as of no other.
    Planted: the upper end that was, twice the group's share of what is left out in all."""
    last = MONTHS - 1
    there = np.zeros((6000, MONTHS), bool)
    there[np.arange(6000), np.random.default_rng(2).integers(0, last, 6000)] = True
    there[:150, last] = True
    # As where there are more groups.
    monkeypatch.setattr(asked_people, "octaves", lambda most: (1,))
    if planted:
        share = asked_people.Missing.entries.fget
        monkeypatch.setattr(
            asked_people.Missing, "most", lambda self, counted: 2 * share(self) / 6000 * counted
        )
    hits = 0
    for run in range(20):
        found, _ = measured({"count of users by month": by_group(there)}, 0.25, run, run)
        small = found[last]
        hits += small.low <= 150 <= small.high
    assert hits <= 12 if planted else hits >= 17


def decreasing(counts, noise):
    """Planted: the rule that was. A bin that noise hides holds at most a quarter of the bin before,
    though nobody shows there."""
    users = []
    for count in counts.tolist():
        before = users[-1] if users else 0.0
        users.append(count if count > 2 * noise else min(noise, before / 4))
    most = tuple(np.cumsum(users[::-1])[::-1].tolist())
    return asked_people.Spread(tuple(users), most, "")


@pytest.mark.parametrize("planted", [False, True])
def test_users_in_all_groups_are_covered_where_noise_hides_in_how_many_they_are(
    monkeypatch, planted
):
    """400 users, each in all six groups, at noise of 280 and more: nobody shows at any number of groups.
    A cap of one group then counts each as .41. An upper end that takes users for being in one
    group, as nobody shows in more, misses."""
    if planted:
        monkeypatch.setattr(asked_people, "_spread", decreasing)
    there = np.ones((400, MONTHS), bool)
    hits = 0
    for run in range(20):
        found, _ = measured({"count of users by month": by_group(there)}, 0.008, run, run)
        hits += sum(r.low <= 400 <= r.high for r in found[:MONTHS])
    runs = 20 * MONTHS
    assert hits <= 0.85 * runs if planted else hits >= 0.93 * runs


def test_a_note_says_how_many_users_of_several_groups_may_be_there():
    """Users of one group show and no others: the upper end allows for few others, which the note says.
    Where others show, it allows for all of them and says nothing."""
    counts = np.array([3000.0, 10.0, -20.0, 5.0])
    alone = asked_people._spread(counts, 40.0)
    assert "up to 131 may be there" in alone.note  # -5 + 1.96 * 40 * sqrt(3)
    both = asked_people._spread(counts + np.array([0, 0, 0, 500]), 40.0)
    assert both.note == "" and both.or_more[-1] == pytest.approx(505 + 1.96 * 40, rel=1e-3)
    none = asked_people._spread(counts - np.array([3000, 0, 0, 0]), 40.0)
    assert "noise hides" in none.note and none.or_more[0] >= none.or_more[-1] > 40


def test_a_capped_sum_is_exactly_gaussian():
    """Over 30 runs: misses of its own truth are binomial, and more than 7 with a chance of 2e-4."""
    amount, rows, _ = population()
    misses = 0
    for run in range(30):
        found, _ = measured({"sum(amount)": one_entry(amount, rows)}, noise=run)
        truth = np.minimum(amount, round(found[0].cap * 100)).sum() / 100
        misses += not found[0].capped_low <= truth <= found[0].capped_high
    assert misses <= 7


def test_a_declared_maximum_cuts_and_narrows():
    amount, rows, _ = population()
    values = {"sum(amount)": one_entry(amount, rows)}
    free, _ = measured(values)
    cut, _ = measured(values, maximum=10_000)
    assert cut[0].cap <= 100
    truth = np.minimum(amount, 10_000).sum() / 100
    assert cut[0].low <= truth <= cut[0].high
    assert cut[0].high - cut[0].low < (free[0].high - free[0].low) / 2
    # hats and capped sum together: 7 % more noise than all of mu on a capped sum alone, not 41 %
    alone = 2 * 1.96 * 100 / MU
    assert cut[0].high - cut[0].low < 1.15 * alone


def test_a_mean_is_of_amounts_that_were_cut_as_those_of_its_sum():
    """One user in twenty has 100 times the declared maximum, one in ten refunds that were not
    declared, and one in fifty has 300 rows, ten times the maximum at the mean of all rows. At next
    to no noise, the mean is that of the cut amounts, in all and by group."""
    rng = np.random.default_rng(6)
    cents = np.floor(5_000 * rng.gamma(4.0, 0.25, USERS)).astype(np.int64)
    cents[::20] = 100 * 20_000
    cents[3::10] = -cents[3::10]
    rows = rng.integers(1, 5, USERS)
    rows[7::50] = 300
    table = np.zeros((USERS, MONTHS), np.int64)
    table[np.arange(USERS), rng.integers(0, MONTHS, USERS)] = cents
    grouped = by_group(table)
    values = {"mean(amount)": one_entry(cents, rows), "mean(amount) by month": grouped}
    found, _ = measured(values, mu=40.0, maximum=20_000)
    cut = np.clip(cents, 0, 20_000)
    wanted = {None: cut.sum() / rows.sum() / 100}
    whole = np.clip(table, 0, 20_000)
    for g in range(MONTHS):
        wanted[g] = whole[:, g].sum() / np.count_nonzero(table[:, g]) / 100
    lines = {line.group: line for line in found}
    for group, mean in wanted.items():
        assert lines[group].estimate == pytest.approx(mean, rel=0.02), group


def test_signs_are_declared_and_not_looked_up():
    """Undeclared refunds count as zero: the same releases as if they were zero."""
    amount, rows, _ = population()
    refunds = np.where(np.arange(len(amount)) % 5 == 0, -amount, amount)
    zeros = np.maximum(refunds, 0)
    first, _ = measured({"sum(amount)": one_entry(refunds, rows)})
    second, _ = measured({"sum(amount)": one_entry(zeros, rows)})
    assert first == second
    signed, _ = measured({"sum(amount)": one_entry(refunds, rows)}, signed=True)
    assert signed[0].low <= refunds.sum() / 100 <= signed[0].high


def test_without_noise_sums_come_back():
    """At a large mu the estimate is the truth: nothing is biased but by rounding."""
    content = population()
    for text, truth in COVER.items():
        found, _ = measured({text: TEXTS[text](*content)}, mu=300.0)
        expected = truth(*content)
        assert found[0].estimate == pytest.approx(expected, rel=0.003), text


def test_empty_data_gives_lines_and_no_error():
    empty = UserValues(
        np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64)
    )
    found, _ = measured(dict.fromkeys(TEXTS, empty))
    assert all(isinstance(r, NumberResult) for r in found)
    assert all(r.estimate is None or math.isfinite(r.estimate) for r in found)


def test_users_are_released_once_and_shares_follow_the_widths():
    numbers = [number(text) for text in TEXTS]
    declared = [Declared(False)] * len(numbers)
    shares = allocation.shares(numbers, declared, 24_000, MU)
    assert shares.users + sum(shares.numbers) == pytest.approx(1)
    by_text = dict(zip(TEXTS, shares.numbers, strict=True))
    assert by_text["count of users"] == 0, "it is the number of users, which all share"
    assert by_text["sum(amount)"] > 5 * by_text["share of users where rows > 1"]
    few = allocation.shares(numbers, declared, 20, MU)
    assert max(few.numbers) < 3 / len(numbers), "hopeless numbers do not take everything"


def test_the_default_share_is_least_in_all():
    """Of the relative variances of numbers and rows together, at any number of users and any mu; it
    rises with what is asked and falls with what the rows have to say."""
    one = [number("sum(amount)")]
    many = [number(text) for text in ("sum(amount)", "mean(amount)", "sum(amount) by month")]
    people = [number("share of users where rows > 1")]
    assert allocation.default_share(people) < allocation.default_share(one)
    assert allocation.default_share(one) <= allocation.default_share(many) <= 0.3
    rows = allocation.rows_width(SCHEMA)
    e = allocation.scaled_width(one[0])
    shares = np.linspace(0.01, 0.99, 981)
    best = shares[np.argmin(e**2 / shares + rows**2 / (1 - shares))]
    expected = min(max(best, allocation.LEAST_NUMBERS), allocation.MOST_NUMBERS)
    assert allocation.default_share(one) == pytest.approx(expected, abs=0.011)


def test_a_quantile_by_group_is_refused_before_the_charge():
    with pytest.raises(UsageError, match="by group"):
        measured({"median(sum(amount)) per user by home": None})


def test_expected_widths_shrink_with_users_and_mark_the_hopeless():
    numbers = [number(t) for t in ("sum(amount)", "share of users where rows > 1")]
    declared = [Declared(False)] * 2
    few = expected_widths(numbers, declared, 300, MU)
    many = expected_widths(numbers, declared, 100_000, MU)
    assert few[0].hopeless and "maximum" in few[0].note
    assert not many[0].hopeless and many[0].high < 0.1
    assert [e.unit for e in many] == ["relative", "points"]
    assert many[1].low < few[1].low / 50


def test_caps_one_corner_lower_cost_the_total_nothing():
    """The variance of docs/explain: with half of mu^2 each, a cap of half the last measured corner
    leaves less noise than the corner itself."""

    def variance(cap):
        t = 2.0 ** np.arange(12)
        cut = np.minimum(t, cap)
        s2 = 2.0
        sigma2 = 2.0 * cap**2
        return s2 * t @ t - (s2 * t @ cut) ** 2 / (sigma2 + s2 * cut @ cut)

    assert variance(2.0**10) < variance(2.0**11)


def test_zoomed_edges_are_whole_and_ascend():
    for low, high in ((0, 1), (0, 10), (5, 1 << 40), (-(1 << 40), 1 << 40), (1000, 1010), (-9, -3)):
        for parts in (12, 16):
            edges = quantile_zoom.zoomed(low, high, parts)
            assert edges[0] == low and edges[-1] == high
            assert list(edges) == sorted(set(edges)) and len(edges) <= parts + 1


def test_hats_of_one_corner_can_be_read():
    look = sums.look(np.array([5.0, 3.0]), 1.0, np.array(octaves(1)), False, 1.0)
    draws = sums.total(look, np.random.default_rng(1))
    assert np.isfinite(draws.interval().estimate)
    assert Hats(corners=octaves(1)).size == 2


def test_ends_of_a_quantile_err_once_however_many_edges_follow():
    """Between the truth and the next amount nobody is: 40 edges have the same rank. Each end may err
    in 2.5 % of runs. Taking the outermost edge that is clear (planted) errs at any of them."""
    rng = np.random.default_rng(5)
    edges = tuple(range(41))
    runs = 400
    exact = np.zeros(42)
    # the median is 0: half are above 40
    exact[0] = 480
    exact[1] = 40
    exact[-1] = 480
    wrong = 0
    planted = 0
    for _ in range(runs):
        ranked = quantile_zoom.ranks(exact + 10 * rng.standard_normal(42), 10.0, edges, 0.5)
        low, high = ranked.bracket(1.96, -1000, 1000)
        wrong += not low <= 0 < high
        below = np.flatnonzero(ranked.gap + 1.96 * ranked.sd < 0)
        planted += len(below) > 0 and edges[below[-1]] > 0
    assert wrong <= 0.05 * runs + 3 * math.sqrt(runs * 0.05 * 0.95)
    assert planted > 2 * wrong


@pytest.mark.slow
def test_the_lower_end_needs_no_model():
    """Amounts end suddenly, so every modelled tail is too much. Misses below are at most 2.5 %."""
    rng = np.random.default_rng(3)
    runs = 60
    missed = 0
    for run in range(runs):
        amount = np.floor(rng.uniform(0, 50_000, 2400))
        found, _ = measured({"sum(amount)": one_entry(amount)}, mu=0.12, noise=run)
        missed += amount.sum() / 100 < found[0].low
    assert missed <= 0.025 * runs + 3 * math.sqrt(runs * 0.025 * 0.975)


GAPS = {
    "fifty times": lambda g, n: (
        np.where(g.random(n) < 0.005, 50, 1) * np.exp(0.7 * g.normal(size=n))
    ),
    "gamma": lambda g, n: np.where(g.random(n) < 0.003, g.gamma(2, 38, n), g.gamma(1.5, 1.5, n)),
}


def gap_misses(runs=10, users=24_000):
    """Intervals of totals that do not hold the truth. Half a per cent of users are far above all
    others: 120 users, of whom noise of 9 leaves 4 standard deviations at each of a few corners."""
    wrong = 0
    for draw in GAPS.values():
        for run in range(runs):
            rng = np.random.default_rng([run, users])
            cents = np.floor(4000 * draw(rng, users)).astype(np.int64)
            (line,), _ = measured({"sum(amount)": one_entry(cents)}, 0.12, run, 50 + run)
            if line.estimate is not None:
                wrong += not line.low <= cents.sum() / 100 <= line.high
    return wrong


def test_users_beyond_a_gap_are_measured(monkeypatch):
    """Of 20 intervals at most 5 may miss: 95 % intervals miss more often once in 3,000 times. Planted:
    a falling law alone says what is measured, and a corner stands out only by itself."""
    assert gap_misses() <= 5
    with monkeypatch.context() as patch:
        patch.setattr(tail_posterior, "with_visible", lambda full, c, s, last: full)
        patch.setattr(tail_posterior, "isolated", lambda c, s, last: -1)
        patch.setattr(hidden_users, "TIMES", 1.0)
        patch.setattr(hidden_users, "MEANS", 1.0)
        no_test(patch)
        assert gap_misses() > 8


def test_noise_alone_shows_no_users_beyond_a_gap():
    """A corner of 2^30 that noise made visible would make a total a thousand times too large. The
    chance is about 1 in 10^5; of 4,000 draws, 3 or more would have one once in 10^5 times."""
    rng = np.random.default_rng(3)
    found = [tail_posterior.isolated(c, 1.0, 12) for c in rng.standard_normal((4000, 41))]
    assert np.count_nonzero(np.array(found) > 0) < 3
    assert max(found) <= 12 + tail_posterior.NEAR + 3


def test_isolated_users_are_seen_up_to_the_last_of_them():
    c = np.array([100.0, 500, 90, 0, 0.4, 3.3, 3.4, 2.8, 0, 0, 0, 9, 0, 0])
    assert tail_posterior.isolated(c, 1.0, 2) == 11
    assert tail_posterior.isolated(c[:10], 1.0, 2) == 7  # none of three stands out alone
    assert tail_posterior.isolated(c[:6], 1.0, 2) == -1
    assert tail_posterior.isolated(c[:1], 1.0, 0) == -1


def test_a_capped_sum_that_is_too_wide_gets_a_round_cap_and_more_of_mu():
    """At a corner the capped sum of gamma amounts would be wider than 5 %. Between corners it is
    within, keeps 90 %, and its interval stays exact."""
    rng = np.random.default_rng(9)
    amount = np.floor(rng.gamma(0.5, 20_000, 2400))
    found, session = measured({"sum(amount)": one_entry(amount)}, mu=0.12)
    (line,) = found
    cap = round(line.cap * 100)
    assert cap in sums.round_numbers(cap) and cap & (cap - 1), "a round number, no power of two"
    truth = np.minimum(amount, cap).sum() / 100
    assert truth >= 0.85 * amount.sum() / 100
    assert (line.capped_high - line.capped_low) / 2 < 0.05 * truth
    spent = {label.split(")")[0]: mu for label, mu, _ in session.asked}
    assert spent["number 1 (capped sum"] > spent["number 1 (hats"]


def test_many_users_leave_mu_to_the_tail():
    """24,000 users: the capped sum needs little, so the hats are measured again."""
    amount, rows, _ = population(users=24_000)
    found, session = measured({"sum(amount)": one_entry(amount, rows)}, mu=0.12)
    parts = {label: (mu / 0.12) ** 2 for label, mu, _ in session.asked}
    assert len(parts) == 3 and sum(parts.values()) == pytest.approx(1.0)
    assert [round(part, 2) for part in parts.values()] == [0.25, 0.6, 0.15]
    assert found[0].low <= amount.sum() / 100 <= found[0].high


def test_a_cap_between_corners_predicts_the_capped_sum():
    """As many users in each of three octaves, evenly inside: hat weights, and what is added for a
    cap in the middle octave, give the capped sum."""
    x = np.concatenate([np.linspace(a, 2 * a, 1000, endpoint=False) for a in (512, 1024, 2048)])
    corners = np.array(octaves(4096), float)
    whole = Hats(corners=octaves(4096)).add_up(one_entry(np.floor(x)))
    masses = whole[1:] / UNIT
    for cap in (1200, 1500, 1900):
        predicted = masses @ np.minimum(corners, cap)
        predicted += sums.between_corners(cap, corners, masses)
        assert predicted == pytest.approx(np.minimum(np.floor(x), cap).sum(), rel=2e-3)
    assert sums.between_corners(1024, corners, masses) == 0


def test_a_number_is_hopeless_only_if_all_of_the_run_would_not_save_it():
    """Two sums share a tenth of mu^2, which is too little; each alone with all of mu is fine. What is
    found of the first must not decide about the second."""
    numbers = [number("sum(amount)"), number("sum(amount) where amount > 5")]
    declared = [Declared(False, 50_000)] * 2
    tight = expected_widths(numbers, declared, 2_000.0, 0.05)
    roomy = expected_widths(numbers, declared, 2_000.0, 0.05, 1.0)
    assert [line.hopeless for line in tight] == [True, True]
    assert [line.hopeless for line in roomy] == [False, False]
    assert [line.high for line in roomy] == [line.high for line in tight]


def test_figures_have_two_digits_of_their_half_width_and_ends_are_rounded_outwards():
    row = {
        "number": "sum(x)",
        "estimate": 3_729_846.0,
        "low": 3_162_894.0,
        "high": 6_607_609.0,
        "cap": 5000.0,
        "capped": 3_092_854.0,
        "capped_high": 3_200_665.0,
        "note": "",
    }
    found = number_words.shown(row)
    assert found["estimate"] == "3,700,000" and found["interval"] == "3,100,000 to 6,700,000"
    assert found["capped"] == "3,090,000 ± 110,000 (each user up to 5,000)"
    share = {"number": "share of users where x", "estimate": 0.8763, "low": 0.87185, "high": 0.8808}
    assert number_words.shown(share | {"capped": None}) == {
        "estimate": "87.63 %",
        "interval": "87.18 % to 88.08 %",
        "capped": "",
    }
    assert number_words.figure(0.0, 0.0) == "0" and number_words.figure(None, 1.0) == "-"


def test_the_table_for_people_says_in_each_line_what_it_rests_on():
    """The last column has no head: it is never cut, however long."""
    claim = "if no user has more than 5,000"
    given = {"number": "sum(x)", "estimate": 9.0, "low": 8.0, "high": 30.0, "capped": None}
    given |= {"note": f"{claim}; declare a maximum per user to make sure of it"}
    withheld = {"number": "mean(x)", "estimate": None, "low": None, "high": None, "capped": None}
    withheld |= {"note": "withheld: too few users stand out of the noise; declare a maximum"}
    heads, first, second = number_words.table_rows([given, withheld])
    assert heads[-1] == "" and first == ["sum(x)", "9", "8 to 30", claim]
    assert second[1:3] == ["-", "withheld"] and second[-1].endswith("declare a maximum")


def test_notes_say_which_claim_an_interval_rests_on():
    """A declared maximum far above what users have leaves the claim; planted before: it was hidden."""
    far = Declared(False, 1 << 30)
    assert asking.note_above(far, 1 << 30, 0.01) == "each user counted up to the declared maximum"
    assert asking.note_above(far, 5000, 0.01) == f"{asking.ASSUMES}50; {asking.LOWER}"
    by_schema = Declared(False, None, 60)
    assert asking.note_above(by_schema, 60, 1) == f"{asking.ASSUMES}60; {asking.ALLOWED}"
    assert asking.note_above(by_schema, 40, 1) == f"{asking.ASSUMES}40; {asking.DECLARE}"
    cents, _, _ = population(users=20_000)
    (line,), _ = measured({"sum(amount)": one_entry(cents)}, mu=0.5, maximum=1 << 36)
    assert line.note.startswith(asking.ASSUMES) and line.note.endswith(asking.LOWER)


def claim_of(line):
    words = line.note.removeprefix(asking.ASSUMES).partition(";")[0]
    return float(words.removesuffix(asking.IN_ALL).replace(",", ""))


def test_months_do_not_exclude_users_of_whom_their_total_shows_signs(monkeypatch):
    """Of 24,000 users 120 have 250 times as much. The total shows signs of them, its months do not:
    planted, each number for itself without a test, months take nobody to have half of it."""
    monkeypatch.setattr(length_tests, "judged", lambda *_: length_tests.Judgement(0.0, 1.0, 0))
    rng = np.random.default_rng(3)
    cents = np.floor(rng.gamma(4.0, 1000, 24_000))
    cents[:120] = 1_000_000
    months = rng.multinomial(1, np.full(MONTHS, 1 / MONTHS), len(cents)) * cents[:, None]
    by_month = {"sum(amount) by month": by_group(months)}
    alone, _ = measured(by_month, mu=0.12)
    both, session = measured(by_month | {"sum(amount)": one_entry(cents)}, mu=0.12)
    *given, total = (line for line in both if line.estimate is not None)
    assert [line.group for line in given] == list(range(MONTHS)), "in the order of the questions"
    assert max(claim_of(line) for line in alone[:MONTHS]) < 5_000
    assert min(claim_of(line) for line in given) >= 10_000
    assert session.asked[0][0].startswith("number 2"), "but totals are measured first"
    true = months.sum(0) / 100
    assert all(line.low <= x <= line.high for line, x in zip(given, true))
    assert total.low <= cents.sum() / 100 <= total.high


def test_claims_by_group_are_of_all_groups_together():
    """What is bounded is the length of a user's vector: in one group alone it may have as much in
    each of them."""
    _, _, months = population(users=20_000)
    found, _ = measured({"sum(amount) by month": by_group(months)}, mu=0.5)
    notes = [line.note for line in found if line.estimate is not None]
    assert len(notes) == MONTHS
    assert all(f"{asking.IN_ALL}; " in note for note in notes)
    assert all(
        note.endswith(f" with more would have been noticed, fewer may not be; {asking.DECLARE}")
        for note in notes
    )


@pytest.mark.parametrize("users", [1500, 3000])
def test_a_total_is_at_least_its_capped_sum(users):
    """Where nobody is below zero, a lower end of the capped sum is one of the total. Amounts of which
    half are zero: the total's own lower end would often lie below it."""
    for noise in range(6):
        cents, rows, _ = population(noise, users)
        cents *= np.arange(users) % 2
        found, _ = measured({"sum(amount)": one_entry(cents, rows)}, mu=0.15, noise=noise)
        (line,) = found
        assert line.estimate >= line.capped and line.low >= line.capped_low
        assert line.low <= cents.sum() / 100 <= line.high


def test_an_exact_interval_stays_exact_beside_its_capped_sum():
    """Its upper end has nothing to spare for a lower end that misses more often. So each of two lower
    ends misses in 1.25 % of runs. Planted: the higher of two ends of 2.5 %, with nobody above the
    cap. 1,000 draws; the bar is five standard deviations above 2.5 %."""
    rng = np.random.default_rng(4)
    missed = planted = 0
    for a, b in rng.standard_normal((1000, 2)).tolist():
        capped, exact = sums.normal(100 + a, 1.0), sums.normal(100 + 4 * b, 4.0)
        found = asked_sums.higher_end(exact, capped)
        assert found.low <= found.estimate <= found.high >= exact.high
        missed += found.low > 100
        planted += max(exact.low, capped.low) > 100
    assert missed <= 50 and missed < planted
    near = sums.normal(100.0, 2.9)
    assert asked_sums.higher_end(near, sums.normal(100.0, 1.0)) is near


def test_a_quantile_ends_at_what_the_schema_allows():
    """Ten users and much noise: nobody has more than 60 rows. Planted: the interval reached 2^40."""
    number = typed.check("quantile(rows, 0.9) per user", SCHEMA)
    session = Simulated({number.text: one_entry(np.full(10, 3))}, np.random.default_rng(1))
    facts = [Declared(False, None, 60)]
    (line,) = measure_numbers(session, [number], facts, mu=0.05, seed=1)
    assert 0 <= line.low <= line.estimate <= line.high <= 60


def test_what_the_schema_allows_ends_claims_and_cuts_nothing():
    """Users with at most 60 rows of 1: a claim of 60, where it was 200. Users above what the schema
    allows, who should not be there, are counted all the same."""
    rng = np.random.default_rng(5)
    rows = np.minimum(rng.geometric(0.22, 8000), 60)
    number = typed.check("count of rows", SCHEMA)

    def found(values, allowed):
        session = Simulated({number.text: one_entry(values)}, np.random.default_rng(4))
        facts = [Declared(False, None, allowed)]
        return measure_numbers(session, [number], facts, mu=0.1, seed=1, users=8000)[0]

    free, bounded = found(rows, None), found(rows, 60)
    assert bounded.note == f"{asking.ASSUMES}60; {asking.ALLOWED}"
    assert bounded.low <= rows.sum() <= bounded.high < 0.9 * free.high
    false = found(np.where(np.arange(8000) < 1000, 500, rows), 60)
    assert false.low <= rows[1000:].sum() + 500_000 <= false.high
    small = np.minimum(rows[:200], 8)
    few = found(small, 8)
    assert few.low <= small.sum() <= few.high and few.note.endswith(asking.ALLOWED)
    assert found(rows[:200], 1 << 30).estimate is None


def test_noise_far_above_all_users_is_not_where_users_stand_out():
    """Users stand out less than one corner of noise twenty octaves above them: planted, counting all
    users below that corner made a total a million times too large."""
    c = np.zeros(41)
    c[9:17] = [2, 3, 3, 3.5, 3.4, 2, 1, 0.5]
    c[33] = 4.1
    at = tail_posterior.visible(c, 1.0)
    assert at.start == 33 and c[: at.last + 1].sum() > tail_posterior.NEED
    assert not tail_posterior.stands_out(c, 1.0, at)
    c[13] = 5.0
    assert tail_posterior.stands_out(c, 1.0, tail_posterior.visible(c, 1.0))


@pytest.mark.parametrize("text", ["sum(amount)", "sum(amount) by month"])
def test_refunds_that_noise_hides_reach_no_further_than_the_claim(text):
    """Users below zero are few. Planted: the last corner of their side that counted as measured was
    one of noise, and the lower end some thousand times the total."""
    totals = 0
    for noise in range(8):
        cents, rows, months = population(noise, 6000)
        sign = np.where(np.arange(len(cents)) % 100, 1, -1)
        values = one_entry(cents * sign, rows)
        if text.endswith("month"):
            values = by_group(months * sign[:, None])
        found, _ = measured({text: values}, mu=0.3, noise=noise, signed=True)
        given = [line for line in found if line.estimate is not None]
        whole = (cents * sign).sum() / 100
        assert all(line.high - line.low < 8 * whole for line in given)
        assert all(abs(line.estimate) < 2 * whole for line in given)
        totals += bool(given)
    assert totals >= 6, "noise may raise an alarm, and few users below zero seem to have no end"


def test_what_cannot_be_below_zero_keeps_its_reach_above():
    """Noise puts an empty group below zero: its interval still says how uncertain it is. Planted:
    "0 to 0"."""
    cut = asking.at_least(sums.Interval(-30.0, -50.0, -10.0), 0.0)
    assert (cut.estimate, cut.low, cut.high) == (0.0, 0.0, 20.0)
    inside = sums.Interval(3.0, -2.0, 8.0)
    assert asking.at_least(inside, 0.0) == sums.Interval(3.0, 0.0, 8.0)
    for y in (-600.0, 600.0):
        found = asked_people.share_of(y, 20.0, 1000.0, 40.0)
        assert 0.03 < found.high - found.low < 0.06 and 0 <= found.low < found.high <= 1


@pytest.mark.parametrize(
    ("text", "below_zero"),
    [
        ("sum(x)", True),
        ("sum(x) where x > 0", False),
        ("sum(x) where 0 <= x and y < 3", False),
        ("sum(x * y) where x >= 0 and y > 1.5", False),
        ("sum(x - y) where x - y > 0", False),
        ("sum(-x) where x < 0", False),
        ("sum(-x) where 0 >= x", False),
        ("sum(x) where x < 0", True),
        ("sum(-x) where x > 0", True),
        ("sum(x) where x > -3", True),
        ("sum(x) where x > 0 or y > 0", True),
        ("sum(x) where not x > 0", True),
        ("sum(y) where x > 0", True),
        ("sum(x + y) where x > 0", True),
    ],
)
def test_a_condition_tells_the_sign_of_a_sum(text, below_zero):
    """What is added is not below zero where x > 0, so that no side below zero is measured."""
    columns = {n: {"kind": "numeric", "edges": [-10, 0, 10], "digits": 2} for n in "xy"}
    assert typed.check(text, Schema.from_dict({"columns": columns})).signed == below_zero


def test_a_cap_is_not_looked_for_where_nobody_thinks_that_amounts_lie():
    """Nothing stands out, and the largest noise lies at 10 billion. Edges of bins are a guess of where
    values lie: a cap is below the first corner above them."""
    corners = np.array(octaves(1 << 40), float)
    noisy = np.zeros(41)
    noisy[40] = 3.0
    look = sums.look(noisy, 1.0, corners, False, 1.0)
    assert look.cap == 1 << 40
    assert sums.look(noisy, 1.0, corners, False, 1.0, likely=5000.0).cap <= 8192
    number = typed.check("sum(amount)", SCHEMA)
    assert public_bounds.most_of_user(number, edges=True) == 100 * 100_000
    assert public_bounds.most_of_user(number) is None

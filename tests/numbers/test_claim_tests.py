"""Second hats test what a total rests on: users who have more than is claimed are noticed."""

import numpy as np
import pytest

from fastdp.numbers import asked_sums, claim_tests, length_tests, typed
from fastdp.numbers.asking import ASSUMES
from fastdp.numbers.claim_tests import Beyond
from fastdp.numbers.declared import Declared
from fastdp.numbers.encoding_grid import UNIT, octaves
from fastdp.numbers.encodings import Hats
from fastdp.numbers.measure_numbers import measure_numbers
from fastdp.numbers.stand_in import Simulated
from fastdp.numbers.user_values import UserValues

from .test_measure_numbers import SCHEMA, measured, no_test, one_entry

CORNERS = octaves(1 << 30)
T = np.array(CORNERS, float)


def giants(run, users=2400, part=0.02, times=500):
    """Amounts that are alike, but so many users have so many times as much."""
    rng = np.random.default_rng([run, 21])
    return np.floor(rng.uniform(500, 6000, users) * np.where(rng.random(users) < part, times, 1))


def totals(runs, **shape):
    """(Totals that are given, those above which the truth lies)."""
    given = missed = 0
    for run in range(runs):
        cents = giants(run, **shape)
        (line,), _ = measured({"sum(amount)": one_entry(cents)}, 0.12, run, 700 + run)
        given += line.estimate is not None
        missed += line.estimate is not None and line.high < cents.sum() / 100
    return given, missed


def test_users_above_a_claim_are_noticed(monkeypatch):
    """48 of 2,400 users have 500 times as much, ten of eleven parts of the total; noise is 8 users
    with all of mu. Before, 12 of 20 totals missed by a factor of ten. Planted: no test."""
    runs = 20
    _, missed = totals(runs)
    no_test(monkeypatch)
    _, planted = totals(runs)
    assert missed <= runs / 4 and planted >= 2 * missed and planted >= runs / 3


@pytest.mark.slow
def test_a_true_claim_is_seldom_contradicted():
    """1 of 100 by noise; more than 4 of 40 once in 1,000 times."""
    given, _ = totals(40, part=0.0)
    assert given >= 36


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("end", [3, 12, 25])
def test_both_hats_count_users_alike_up_to_the_claim(signed, end):
    """Without noise the combined masses up to `end` are those of the first hats, and the last mass of
    the second ones has everybody further away, in full from the next corner on."""
    rng = np.random.default_rng(end)
    cents = np.floor(np.exp(rng.uniform(0, 20, 400))) * (rng.choice([-1, 1], 400) if signed else 1)
    hats = Hats(corners=CORNERS, signed=signed)
    again, found = claim_tests.ending_at(hats, 1.5 * CORNERS[end], None)
    assert found == end and again.corners == CORNERS[: end + 2]
    first = hats.add_up(one_entry(cents)) / UNIT
    second = again.add_up(one_entry(cents)) / UNIT
    values, noise, beyond = claim_tests.combined((first, 2.0), (second, 1.0), T, end)
    assert values == pytest.approx(first, abs=1e-4), "the same functions of a user"
    assert noise[end] == pytest.approx(2 / np.sqrt(5)) and noise[end + 1] == 2.0
    for side, amounts in zip(beyond.users, (cents, -cents)):
        above = np.clip((amounts - T[end]) / (T[end + 1] - T[end]), 0, 1)
        assert side == pytest.approx(above.sum(), abs=1e-4)
    assert len(beyond.users) == 1 + signed and len(beyond.releases) == 2
    assert [r.values.shape for r in beyond.releases] == [
        (1 + signed, len(T)),
        (1 + signed, end + 2),
    ]


def test_a_claim_that_cannot_be_false_is_not_tested():
    """What the schema allows, or the last corner: second hats have all corners."""
    hats = Hats(corners=CORNERS)
    for claim, allowed in ((1000.0, 1000.0), (float(1 << 29), None), (float(1 << 30), None)):
        assert claim_tests.ending_at(hats, claim, allowed) == (hats, -1)
    values = np.arange(len(T) + 1.0)
    found, noise, beyond = claim_tests.combined((values, 1.0), (values + 2, 1.0), T, -1)
    assert found == pytest.approx(values + 1) and noise == pytest.approx(0.5**0.5)
    assert beyond is None


def test_noticed_users_end_the_claim_where_first_hats_show_them_or_nowhere():
    beyond = Beyond(10, (30.0,), 10.0, [])
    assert beyond.contradicts(0, T[10], T) and not beyond.contradicts(0, T[11], T)
    assert not Beyond(10, (20.0,), 10.0, []).contradicts(0, T[10], T)
    c = np.zeros(len(T))
    assert beyond.place(c, 10.0, T) == -1
    c[12] = 20.0
    assert beyond.place(c, 10.0, T) == 12 + 2
    c[12], c[16] = 0.0, 200.0
    assert beyond.place(c, 10.0, T) == -1, "more than eight times the claim away"


def test_a_claim_in_doubt_reaches_further():
    """Users above it who are too few for the alarm: noise has so many in 1 of 40 runs."""
    beyond = Beyond(10, (21.0,), 10.0, [])
    assert beyond.doubts(0, T[10], T) and not beyond.contradicts(0, T[10], T)
    assert not beyond.doubts(0, T[11], T), "the claim before was tested"
    assert not Beyond(10, (19.0,), 10.0, []).doubts(0, T[10], T)


def test_the_note_says_how_many_would_have_been_noticed():
    """3.9 standard deviations of the last mass: 1.96 put the claim in doubt, 1.96 are missed by noise."""
    (line,), session = measured({"sum(amount)": one_entry(giants(1, part=0.0))}, 0.12)
    sigma = next(1 / mu for label, mu, _ in session.asked if "hats again" in label)
    assert line.note.startswith(ASSUMES)
    stated = int(line.note.partition("; ")[2].partition(" with more would have been noticed")[0])
    assert stated == pytest.approx(2 * 1.96 * sigma, abs=1)


def test_the_note_names_a_test_only_of_the_claim_that_was_tested(monkeypatch):
    """A claim that was moved because users were noticed lies beyond what was tested: those who were
    noticed are below it. Its note had promised that 48 users above it would have been noticed too."""
    named = []
    again = []
    ending_at = claim_tests.ending_at
    monkeypatch.setattr(
        claim_tests, "ending_at", lambda *args: again.append(ending_at(*args)) or again[-1]
    )
    for run in range(6):
        (line,), _ = measured({"sum(amount)": one_entry(giants(run))}, 0.12, run, 900 + run)
        if line.estimate is None:
            continue
        claim = 100 * float(line.note.removeprefix(ASSUMES).partition(";")[0].replace(",", ""))
        before, last = again[-1][0].corners[-2:]
        tested = before <= claim < last
        assert ("would have been noticed" in line.note) == tested
        named.append(tested)
    assert set(named) == {False, True}


def test_months_are_withheld_with_a_total_whose_users_are_lost():
    """The total shows that users have far more than its claim, and not how much: months would rest on
    the same. Their capped sums stay."""
    cents = giants(3, users=3000, part=0.0)
    values = UserValues(
        np.arange(len(cents) + 1),
        (np.arange(len(cents)) % 4).astype(np.int32),
        cents.astype(np.int64),
        np.ones(len(cents), np.int64),
    )
    number = typed.check("sum(amount) by month", SCHEMA)
    session = Simulated({number.text: values}, np.random.default_rng(1))
    ask = asked_sums.Asking(session, number, 0.5, 1, 0)
    lines = asked_sums.sum_by_group(ask, number, Declared(False), np.inf)
    assert all(line[1] is None and line[2] is not None for line in lines)
    assert sum(line[3].startswith(length_tests.LOST) for line in lines) == 4
    found = measure_numbers(session, [number], [Declared(False)], mu=0.5, seed=1)
    assert sum(line.estimate is not None for line in found) == 4

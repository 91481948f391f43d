"""Columns with one value per user are found at the noise of epsilon 1, and others are not."""

import math

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.engines.local import local
from fastdp.measurement import Measurement
from fastdp.rows_per_user import runs_of
from fastdp.significance import LIKELY
from fastdp.userkeys import Agreement, Disagreement, RowsPerUser
from fastdp.users.constancy import (
    EXCEPTIONS,
    columns_to_test,
    constancy_test,
    constant_by_rate,
    disagreeing_if_repeated,
)
from fastdp.users.people import Histogram
from fastdp.users.rates import Chance, chance, rates_of
from tests.builders import schema_with_users

EDGES = (1, 2, 4, 8, 16, 32, 64, 128)
SIZES = {"even": 5, "two": 2, "rare": 3, "moved": 4, "habit": 6, "most": 3, "often": 2, "free": 9}
CONSTANT = {"even", "two", "rare", "moved"}
MU = 0.268  # epsilon 1, delta 1e-5


def people(users, mean, rng):
    """Four columns with one value per user, of which one changes for two users in 100; two with a
    usual value, one with a frequent value, one at random."""
    rows = 2 + rng.poisson(mean - 2, users)
    who = np.repeat(np.arange(users), rows)
    anew = rng.random((3, len(who)))
    home = {n: rng.integers(0, size, users)[who] for n, size in SIZES.items()}
    home["rare"] = rng.choice(3, users, p=[0.88, 0.07, 0.05])[who]
    home["most"] = rng.choice(3, users, p=[0.8, 0.1, 0.1])[who]
    moves = (rng.random(users) < 0.02)[who] & (anew[0] < 0.5)
    home["moved"] = np.where(moves, (home["moved"] + 1) % 4, home["moved"])
    home["habit"] = np.where(anew[1] < 0.85, home["habit"], rng.integers(0, 6, len(who)))
    home["most"] = np.where(anew[2] < 0.9, home["most"], rng.integers(0, 3, len(who)))
    home["often"] = (rng.random(len(who)) < 0.05).astype(int)
    home["free"] = rng.integers(0, 9, len(who))
    schema = schema_with_users(SIZES, "who", max_rows=256)
    return fastdp.read(pa.table({"who": who, **home}), schema)


def noisy(engine, key, mu, rng):
    exact = engine.user_histogram(key, 1) / key.units
    sigma = math.sqrt(getattr(key, "numbers", 1)) / mu
    return Measurement(("users",), exact + rng.normal(0, sigma, len(exact)), sigma)


@pytest.mark.parametrize(("users", "mean"), [(1000, 15), (600, 60)])
def test_planted_constants_are_found_where_users_have_many_rows(users, mean):
    """40 runs each. The rule by rates finds the rare constant in none of them. A test misses or
    finds too much with probability .023 at most, so among 40 more than 6 happen with probability
    1e-5; columns that are no constants of all rows of a user are never near the limit."""
    rng = np.random.default_rng(7)
    table = people(users, mean, rng)
    engine = local(table, 1)
    columns = tuple(SIZES)
    exactly = chance(table.codes, columns)
    by_chance = exactly.two
    missed = 0
    wrong = 0
    by_rates = 0
    for _ in range(40):
        histogram = noisy(engine, RowsPerUser(EDGES), MU / 10, rng)
        sizes = Histogram(EDGES, histogram.values, float(np.max(histogram.sigma)))
        overall = noisy(engine, Agreement(tuple((n,) for n in columns)), MU * 0.015**0.5, rng)
        rates = rates_of(columns, overall, exactly, sizes)
        by_rates += "rare" in constant_by_rate(rates, by_chance)
        different = disagreeing_if_repeated(by_chance, sizes)
        tested = columns_to_test(rates, by_chance, different, MU / 10, ())
        passed, refuted = constancy_test(
            tested, noisy(engine, Disagreement(tested), MU / 10, rng), rates, different
        )
        missed += not CONSTANT <= set(passed)
        wrong += bool(set(passed) - CONSTANT) or bool(set(refuted) & CONSTANT)
    assert by_rates == 0 and missed <= 6 and wrong <= 6


def test_the_limits_of_the_test():
    """Without noise: a column passes up to EXCEPTIONS, and only if users who repeat a value would
    disagree more often. With much noise nothing is tested."""
    by_chance = np.array([0.2])
    users = 1000.0
    sizes = Histogram((1, 8, 16), np.array([0.0, users, 0.0]), 1.0)
    exactly = Chance(("x",), by_chance, by_chance**2, np.zeros(1), 1e9)
    rates = rates_of(("x",), Measurement(("a",), np.array([users, users]), 1e-3), exactly, sizes)
    different = disagreeing_if_repeated(by_chance, sizes)
    inside = sum(part * 0.84 ** (rows / 2) for rows, part in runs_of(8, 16))
    assert different[0] == pytest.approx(1 - inside, rel=2e-3), "all users in the second bin"
    for share, constant in ((0.0, True), (EXCEPTIONS - 0.01, True), (EXCEPTIONS + 0.01, False)):
        answers = np.array([(2 * share - 1) * users, users])
        passed, refuted = constancy_test(
            ("x",), Measurement(("a",), answers, 1e-3), rates, different
        )
        assert (passed, refuted) == ((("x",), ()) if constant else ((), ("x",)))
    assert columns_to_test(rates, by_chance, different, 1.0, ()) == ("x",)
    assert columns_to_test(rates, by_chance, different, 1.0, ("x",)) == ()
    least = 2 * LIKELY * math.sqrt(2) / 2 / users / different[0]  # the users are known
    assert columns_to_test(rates, by_chance, different, least * 1.1, ()) == ("x",)
    assert columns_to_test(rates, by_chance, different, least * 0.9, ()) == ()
    assert disagreeing_if_repeated(np.ones(1), sizes) == pytest.approx(0, abs=1e-12)


def test_a_slip_in_many_users_leaves_a_column_constant():
    """One row in 1,000 differs, so one user in five disagrees: the rate says that it is constant."""
    by_chance = np.array([0.2, 0.2])
    answers = Measurement(("a",), np.array([0.998, 0.9, 1.0]) * 10_000, 20.0)
    exactly = Chance(("slips", "habit"), by_chance, by_chance**2, np.zeros(2), 1e9)
    rates = rates_of(exactly.columns, answers, exactly)
    assert constant_by_rate(rates, by_chance, sure=True) == ("slips",)
    assert constant_by_rate(rates, by_chance, without=("slips",)) == ()

"""What the noise sampler's error adds to delta, and which runs are refused for it."""

import math
import re

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from fastdp.errors import PrivacyError
from fastdp.privacy import gdp, noise, recompute, sampler_distance as distance
from fastdp.release import reserve
from fastdp.release.gateway import Request

from ..audit.world import SCHEMA, Swap, table

CUT = 14
"""Standard deviations at which Gaussian noise ends (docs/explain/noise.md)."""


def true_delta(mu, epsilon):
    """delta at epsilon of one Gaussian draw of this mu whose tails are cut at CUT: 40 digits,
    closed form.

    P is the cut law moved by mu, Q the cut law. Beyond CUT only P has mass; below, P > e^epsilon Q
    where x > epsilon / mu + mu / 2.
    """
    with mp.workdps(40):
        mu = mp.mpf(mu)
        whole = 1 - 2 * mp.ncdf(-CUT)
        start = epsilon / mu + mu / 2
        beyond = mp.ncdf(-(CUT - mu)) - mp.ncdf(-CUT)
        inside = mp.mpf(0)
        if start < CUT:
            inside = (mp.ncdf(CUT - mu) - mp.ncdf(start - mu)) - mp.exp(epsilon) * (
                mp.ncdf(CUT) - mp.ncdf(start)
            )
        return float((beyond + max(inside, 0)) / whole)


EPSILONS = [35, 36.5, 40, 45, 46, 50, 75, 100, 200, 500, 1000]
DELTAS = [1e-2, 1e-5, 1e-9, 1e-15, 1e-20, 1e-25, 1e-30]


def test_the_cut_tails_matter_at_large_epsilon():
    """The figure that started this: 29 times the stated delta."""
    mu = gdp.mu_from(100.0, 1e-5)
    assert 25 < true_delta(mu, 100.0) / 1e-5 < 35


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", [1, 10, 20, 30, *EPSILONS])
def test_what_is_admitted_keeps_its_delta(epsilon, delta):
    """A run that is let in has a true delta within the allowed share of the stated one; others are
    refused."""
    draws = distance.allowed_draws(epsilon, delta)
    if draws < distance.FEWEST:
        assert epsilon > distance.largest_epsilon(delta)
        return
    assert distance.added_delta(epsilon, draws) <= delta * distance.SHARE * (1 + 1e-6)
    told = [
        [*recompute.sampler_problems(epsilon, delta, n, {})] for n in (draws, draws + draws // 8)
    ]
    assert not told[0] and (told[1] or draws == 1 << 62)  # the most that is counted
    assert true_delta(gdp.mu_from(epsilon, delta), epsilon) <= delta * (1 + distance.SHARE)


@pytest.mark.parametrize("delta", DELTAS)
def test_the_term_is_the_proved_one(delta):
    for epsilon in (1e-3, 1.0, 10.0, 35.0):
        with mp.workdps(40):
            exact = (1 + mp.exp(epsilon)) * mp.mpf(2) ** noise.LOG2_DISTANCE * 1000
        assert float(exact) <= distance.added_delta(epsilon, 1000) <= float(exact) * (1 + 1e-8)
    largest = distance.largest_epsilon(delta)
    if largest:
        assert (
            distance.allowed_draws(largest * (1 - 1e-9), delta)
            >= distance.FEWEST
            > distance.allowed_draws(largest * (1 + 1e-6), delta)
        )
    assert distance.added_delta(1e9, 1) == math.inf and distance.allowed_draws(1e9, delta) == 0


@pytest.fixture
def engine():
    return Swap(table([np.zeros(4, np.int64)] * 3, np.arange(4)))


@pytest.mark.parametrize(
    "epsilon,delta", [(e, 1e-5) for e in (50, 100, 1000, 1e5)] + [(1.0, 1e-30), (25.0, 0.0)]
)
def test_runs_whose_delta_would_not_hold_are_refused_before_anything(engine, epsilon, delta):
    ask = reserve.BudgetRequest(epsilon=float(epsilon), delta=delta, clip=3)
    with pytest.raises(
        PrivacyError, match=r"sampler's error .* ask for (an epsilon of at most|a larger delta)"
    ):
        reserve.reserve(SCHEMA, [ask])


def stated(engine, epsilon, seed=None):
    ask = reserve.BudgetRequest(epsilon=epsilon, delta=1e-5, clip=3)
    reserved = reserve.reserve(SCHEMA, [ask], seed=seed)
    (session,) = reserved.sessions(engine)
    session.measure([Request(("a",), session.mu)], "a")
    return reserved.statement()


def test_a_run_at_epsilon_40_states_what_the_sampler_adds(engine):
    made = stated(engine, 40.0)
    assert made["noise"]["draws"] == 3
    assert (
        made["noise"]["adds_to_delta"]
        == distance.added_delta(made["epsilon"], 3)
        < 1e-5 * distance.SHARE
    )
    assert any("epsilon 40 is above 20" in note for note in made["notes"])
    assert recompute.problems(made) == []


def test_verify_refuses_statements_of_versions_that_let_them_through(engine):
    """A statement at epsilon 100 does not hold, whoever wrote it; one from a seed promises nothing
    anyway."""
    made = stated(engine, 100.0, seed=1)
    assert recompute.problems(made) == []
    made["private"] = True
    made["noise"]["source"] = "operating system, ChaCha20"
    assert any("sampler's error" in text for text in recompute.problems(made))


def test_pure_promises_are_exact_to_two_to_the_minus_sixty():
    assert distance.added_delta(20.0, distance.allowed_draws(20.0, 0.0)) <= distance.PURE * (
        1 + 1e-6
    )
    assert distance.largest_epsilon(0.0) < 25


@given(st.floats(0.0, 12.0), st.floats(0.01, 3.0))
def test_advice_can_be_followed(epsilon, largest):
    """A smaller epsilon where 0.1 or more is left at this delta, else a larger delta; both are
    taken."""
    delta = distance.FEWEST * 2.0**noise.LOG2_DISTANCE * (1 + math.exp(largest)) / distance.SHARE
    assert math.isclose(distance.largest_epsilon(delta), largest, rel_tol=1e-6)
    epsilon += largest * 1.001
    with pytest.raises(PrivacyError) as refused:
        distance.check_sampler(epsilon, delta)
    smaller = re.search(r"epsilon of at most ([0-9.]+)\.", str(refused.value))
    if largest < 0.1 * (1 - 1e-6):
        assert smaller is None
        advised = float(re.search(r"\(from (\S+)\)", str(refused.value)).group(1))
        assert distance.check_sampler(epsilon, advised) >= distance.FEWEST
        with pytest.raises(PrivacyError):
            distance.check_sampler(epsilon, advised / 2.01)  # it is rounded up to one digit
    elif largest > 0.1 * (1 + 1e-6):
        assert largest - 0.1001 < float(smaller.group(1)) <= largest
        assert distance.check_sampler(float(smaller.group(1)), delta) >= distance.FEWEST

"""The attacks at their smallest (seeded, so that nothing depends on chance), and that they notice
leaks."""

import math
from unittest.mock import patch

import numpy as np
import pytest

from fastdp import mechanisms
from fastdp.privacy import noise
from tools.membership import attack, world
from tools.membership.__main__ import problem

from ..tiers import slow_cases

CASES = {case.name: case for case in world.cases()}


def test_every_mechanism_is_attacked():
    assert {case.recipe["mechanism"] for case in world.cases()} == set(mechanisms.names())


@pytest.mark.parametrize("name", CASES)
def test_what_is_shown_is_below_the_claim(name):
    shown = attack.on_releases(CASES[name], 10.0, 250, seed=5)
    assert shown.holds and shown.lower > 0
    if not math.isnan(shown.exact):
        assert 0.95 * shown.claim < shown.exact <= shown.claim, (
            "the user is one who moves the answers most"
        )


@pytest.mark.parametrize("name", ["usercounts, laplace", *slow_cases("adagrid", "mst")])
def test_attacks_on_whole_runs_win_no_more_than_the_statement_allows(name):
    for shown in attack.on_pipeline(CASES[name], 10.0, 12, seed=5):
        assert shown.holds and shown.runs in (8, 12) and shown.errors <= 2 * shown.runs


def test_noise_that_is_too_small_is_noticed():
    """Planted: draws of half the stated scale."""
    real = noise.gaussian

    def planted(sigma, size, **options):
        return real(np.asarray(sigma) / 2, size, **options)

    with patch.object(noise, "gaussian", planted):
        shown = attack.on_releases(CASES["tworound"], 10.0, 2000, seed=5)
    assert not shown.holds and "more than the claim" in problem(shown)


def test_a_session_that_forgets_its_noise_is_noticed():
    """Planted: whole runs whose answers are exact."""

    def planted(sigma, size, **_):
        return np.zeros(size, np.int64)

    with patch.object(noise, "gaussian", planted):
        releases, rows = attack.on_pipeline(CASES["usercounts, gaussian"], 1.0, 20, seed=5)
    assert not releases.holds and not rows.holds


@pytest.mark.parametrize("pure", [False, True])
def test_bounds_enclose_what_is_true(pure):
    """Of errors at the least rate that theory allows, both bounds lie around the parameter; no
    errors show something finite."""
    parameter = 1.5
    runs = 100_000
    rate = 1 / (1 + math.exp(parameter)) if pure else 0.5 * math.erfc(parameter / 2 / math.sqrt(2))
    shown = attack.verdict("", round(2 * runs * rate), runs, parameter, pure)
    assert 0.97 * parameter < shown.lower < parameter < shown.upper < 1.03 * parameter
    assert math.isfinite(attack.verdict("", 0, 100, 1.0, pure).lower)
    assert attack.verdict("", 100, 100, 1.0, pure).lower == 0

"""Distances of many marginals from a model: one user moves them by no more than the noise covers, and planted
bugs are caught."""

import math
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest

from fastdp.errors import FastdpError, PrivacyError, UsageError
from fastdp.privacy import noise, statement
from fastdp.privacy.ledger import Ledger
from fastdp.release import counts, distances, gateway
from fastdp.release.gateway import Session
from fastdp.tables import bound

from . import checks
from .world import CLIP, DELTA, EPSILON, SIZES, Swap, open_door, table

CLIQUES = [c for k in (1, 2, 3) for c in combinations(SIZES, k)]
WEIGHTS = [1.0, 0.25, 3.0, 1.0, 0.5, 1.0, 2.0]


def estimates(fill=0.0):
    return {c: np.full([SIZES[a] for a in c], fill) for c in CLIQUES}


def look(door, weights=None, fill=0.0):
    """A run that spends all its mu on one look. Against estimates of 0 a user moves every distance by the
    whole clip."""
    return [door.distances(CLIQUES, estimates(fill), mu=door.mu, label="look", weights=weights)]


def weighted(door):
    return look(door, WEIGHTS, 0.5)


def fails(check, *arguments, **options):
    with pytest.raises((AssertionError, FastdpError)) as caught:
        check(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("ask", [look, weighted])
def test_one_user_is_covered_and_the_bound_is_met(ask):
    with patch.object(checks, "ask_everything", ask):
        checks.neighbours(100, seed=2)
        checks.residuals(seed=4)


@pytest.mark.slow
def test_the_audit_finds_what_is_claimed_and_no_more():
    with patch.object(checks, "ask_everything", look):
        checks.audit(1500, seed=5, tightness=0.9)


def test_the_noise_is_that_of_the_law():
    door = open_door(Swap(small()))
    (answer,) = look(door)
    assert np.allclose(answer.sigma, CLIP * math.sqrt(len(CLIQUES)) / door.mu, rtol=1e-12)
    (answer,) = look(open_door(Swap(small())), WEIGHTS)
    assert math.isclose(np.sum((CLIP / answer.sigma) ** 2), door.mu**2, rel_tol=1e-9)
    assert np.allclose(answer.sigma * WEIGHTS, answer.sigma[0] * WEIGHTS[0])


def small(rows=30):
    return table(checks.random_codes(np.random.default_rng(1), rows), np.arange(rows) % 4)


# Planted bugs


@pytest.mark.parametrize("ask", [look, weighted])
def test_the_square_root_of_k_is_missing(ask):
    def planted(weights):
        return np.ones(len(weights), np.int64), np.ones(len(weights), np.int64)

    with patch.object(distances, "squared_shares", planted), patch.object(checks, "ask_everything", ask):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)
        assert "leaks" in fails(checks.audit, 150, seed=5)


def test_noise_for_half_the_clip():
    real = distances.plan_distances

    def planted(domain, clip, *rest):
        return real(domain, clip // 2, *rest)

    with patch.object(gateway, "plan_distances", planted), patch.object(checks, "ask_everything", look):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)


def test_a_distance_without_noise():
    real = noise.gaussian

    def planted(sigma, size, **options):
        return real(sigma, size, **options) * (np.arange(size) > 0)

    with patch.object(noise, "gaussian", planted), patch.object(checks, "ask_everything", look):
        assert "without noise" in fails(checks.residuals, seed=9)


def test_estimates_that_are_not_public():
    """An estimate taken from the data, all of its rows in the cell where the data has fewest: a user moves
    both sides."""

    def planted(table, grid):
        table = table.reshape(-1)
        estimate = np.where(np.arange(table.size) == np.argmin(table), table.sum(), 0)
        return int(np.abs(table - estimate).sum(dtype=np.int64))

    with (
        patch.object(counts, "l1_distance", planted),
        patch.object(checks, "ask_everything", weighted),
    ):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)


def test_clipping_off():
    with (
        patch.object(bound, "user_weights", lambda table, clip: None),
        patch.object(checks, "ask_everything", look),
    ):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)


def test_a_check_that_was_left_out_is_made_at_the_draw():
    """A plan whose noise was made smaller after it was checked is refused before anything is drawn."""
    real = distances.plan_distances

    def planted(*arguments):
        plan = real(*arguments)
        object.__setattr__(plan, "sigma", plan.sigma / 2)
        return plan

    with patch.object(gateway, "plan_distances", planted), pytest.raises(PrivacyError, match="cover"):
        look(open_door(Swap(small())))


# Charges, resuming, refusals


def test_it_is_charged_before_it_counts_and_once():
    steps = []

    class Watching(Swap):
        def marginals(self, *arguments, **options):
            steps.append("counted")
            return super().marginals(*arguments, **options)

    door = open_door(Watching(small()))
    real = Session._Session__answer

    def noting(self, label, question, events, draw, draws):
        steps.append([e.mu for e in events])
        return real(self, label, question, events, draw, draws)

    with patch.object(Session, "_Session__answer", noting):
        look(door)
    assert steps == [[door.mu], "counted"]
    with pytest.raises(FastdpError, match="does not cover"):
        look(door)


def test_resumed_runs_get_the_stored_distances_and_other_estimates_are_refused(tmp_path):
    ledger = Ledger(tmp_path / "b.db")
    ledger.open("d", epsilon=EPSILON, delta=DELTA)
    options = {"ledger": ledger, "dataset": "d", "run": "r"}
    (first,) = look(open_door(Swap(small()), **options))
    (again,) = look(open_door(Swap(None), **options))  # reads no data
    assert (first.values == again.values).all()
    with pytest.raises(FastdpError):
        look(open_door(Swap(small()), **options), fill=2.0**-20)


def test_what_is_not_public_or_not_whole_is_refused():
    door = open_door(Swap(small()))
    short = {c: estimates()[c][:1] for c in CLIQUES}
    for bad in (short, {}, estimates(np.nan)):
        with pytest.raises(FastdpError):
            door.distances(CLIQUES, bad, mu=0.1, label="x")
    for weights in ([0.0] * 7, [1.0], [300.0] * 7, [-1.0] * 7):
        with pytest.raises(UsageError, match="weight"):
            door.distances(CLIQUES, estimates(), mu=0.1, label="x", weights=weights)
    with pytest.raises(UsageError, match="candidate"):
        door.distances([], {}, mu=0.1, label="x")
    assert door.releases == []


# The statement


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_statement_is_checked(weights):
    door = open_door(Swap(small()))
    look(door, weights)
    (line,) = door.releases

    def problems(**changes):
        return list(statement._release_problems(line | changes, CLIP))

    assert problems() == []
    assert problems(sigma=line["sigma"] * 0.99)
    assert problems(sensitivity=float(CLIP))
    assert problems(count=3)
    if weights is not None:
        assert problems(weights=[1] * 7) and problems(weights=[0] * 7)

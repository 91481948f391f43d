"""Releases of many numbers at once: distances of marginals from a model and from public starts,
numbers of guessed rows, and contrasts. One user moves them by no more than the noise covers,
and planted bugs are caught."""

import math
from itertools import combinations, permutations
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from fastdp.errors import FastdpError, UsageError
from fastdp.mechanisms.shared.prior_screening import PublicPriors
from fastdp.mechanisms.shared.public_prior import PublicMarginals
from fastdp.privacy import release_checks
from fastdp.release import counts, distances, gateway
from fastdp.release.counts import Counts
from fastdp.release.gateway import Session
from tests.builders import open_ledger
from tests.mechanisms.growing import RowsPublic
from tests.tiers import slow_cases

from . import checks
from .checks import asked, fails, small_table as small
from .world import CLIP, DELTA, EPSILON, SCHEMA, SIZES, Swap, open_session

CLIQUES = [c for k in (1, 2, 3) for c in combinations(SIZES, k)]
WEIGHTS = [1.0, 0.25, 3.0, 1.0, 0.5, 1.0, 2.0]
PAIRS = list(permutations(SIZES, 2))
UNORDERED = list(combinations(SIZES, 2))


def estimates(fill=0.0):
    return {c: np.full([SIZES[a] for a in c], fill) for c in CLIQUES}


def look(session, weights=None, fill=0.0):
    """A run that spends all its mu on one look. Against estimates of 0 a user moves every distance
    by the whole clip."""
    return [
        session.distances(CLIQUES, estimates(fill), mu=session.mu, label="look", weights=weights)
    ]


def weighted(session):
    return look(session, WEIGHTS, 0.5)


def guess(session):
    """A run that spends all its mu on one release of guesses."""
    return [session.guesses(PAIRS, mu=session.mu, label="guesses")]


SIGNS = {"a": np.array([-1, 0, 1]), "b": np.array([1, 1, -1, 1]), "c": np.array([-1, 1])}


def contrast(session):
    """A run that spends all its mu on one release of contrasts, of one to three columns."""
    return [session.contrasts(CLIQUES, SIGNS, mu=session.mu, label="contrasts")]


def both(session, share=0.5):
    """A run that spends its mu on a look at a model of no rows and on one at public starts of a
    thousand rows a cell, whose noise is the first's: a user moves every distance by the whole clip.
    """
    draw = np.random.default_rng(3).integers(0, 10, 500)
    public = RowsPublic(SIZES, {a: draw % n for a, n in SIZES.items()})
    answers = []

    def distances(*arguments, **options):
        answers.append(session.distances(*arguments, **options))
        return answers[-1]

    recorded = SimpleNamespace(mu=session.mu, distances=distances)
    starts = PublicPriors(PublicMarginals.of(public), recorded, {})
    estimates = {c: np.full([SIZES[a] for a in c], 1000.0) for c in UNORDERED}
    distances(
        UNORDERED,
        {c: 0 * e for c, e in estimates.items()},
        mu=session.mu * math.sqrt(share),
        label="look",
    )
    took = starts.screen(
        estimates, dict.fromkeys(UNORDERED, 1.0), 1e-3, share, "look, public starts"
    )
    assert math.isclose(took, share) and len(answers) == 2
    assert np.allclose(answers[1].sigma, answers[0].sigma, rtol=1e-9)
    return answers


ASKS = [look, weighted, guess, contrast, both]


@pytest.mark.parametrize("ask", [*slow_cases(look, weighted, guess, contrast), both])
def test_one_user_is_covered_and_the_bound_is_met(ask):
    with asked(ask):
        checks.neighbours(200 if ask is guess else 50, seed=2)
        checks.residuals(runs=20, seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("ask", [look, guess])
def test_the_audit_finds_what_is_claimed_and_no_more(ask):
    """The user of the audit has all rows in one cell, where some pairs of a guess already have a
    larger one: a little less than its bound can be shown."""
    with asked(ask):
        checks.audit(1500, seed=5, tightness=0.9 if ask is look else 0.8)


def test_two_looks_for_the_price_of_one():
    """The planted bug: a first look that leaves nothing for the second is refused by the
    session."""
    with pytest.raises(FastdpError):
        both(open_session(Swap(small())), share=0.6)


def test_the_noise_is_that_of_the_law():
    session = open_session(Swap(small()))
    (answer,) = look(session)
    assert np.allclose(answer.sigma, CLIP * math.sqrt(len(CLIQUES)) / session.mu, rtol=1e-12)
    (answer,) = look(open_session(Swap(small())), WEIGHTS)
    assert math.isclose(np.sum((CLIP / answer.sigma) ** 2), session.mu**2, rel_tol=1e-9)
    assert np.allclose(answer.sigma * WEIGHTS, answer.sigma[0] * WEIGHTS[0])


# Planted bugs


@pytest.mark.parametrize("ask", [*slow_cases(look, weighted, guess, contrast), both])
def test_the_square_root_of_k_is_missing(ask):
    def planted(weights):
        return np.ones(len(weights), np.int64), np.ones(len(weights), np.int64)

    with patch.object(distances, "squared_shares", planted), asked(ask):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)
        if ask in (look, weighted):
            assert "leaks" in fails(checks.audit, 150, seed=5)


def test_noise_for_half_the_clip():
    real = distances.plan_distances

    def planted(clip, **asked):
        return real(clip=clip // 2, **asked)

    with patch.object(gateway, "plan_distances", planted), asked(look):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)


def test_signs_larger_than_one():
    """The planted bug: a sign of 2 passes the check, and is counted as 2."""

    def planted(domain, signs, label):
        return {name: np.asarray(sign, np.int64) + 1 for name, sign in signs.items()}

    def doubled(session):
        signs = SIGNS | {"a": np.array([2, 0, 2])}
        return [session.contrasts(CLIQUES, signs, mu=session.mu, label="contrasts")]

    with pytest.raises(UsageError, match="expected -1, 0 or 1"):
        doubled(open_session(Swap(small())))
    with patch.object(gateway, "signed_codes", planted), asked(doubled):
        assert "more than the noise covers" in fails(checks.neighbours, 200, seed=1)


def test_contrasts_are_those_of_the_twin():
    """The sum of all cells times the product of their signs, by hand from the marginals of one, two
    and three columns."""
    engine = Swap(small(300))
    domain = SCHEMA.modelled
    codes = distances.signed_codes(domain, SIGNS, "contrasts")
    made = Counts(engine, domain.recoded(codes), codes, CLIP).contrasts(CLIQUES)
    want = []
    for names in CLIQUES:
        table = engine.marginals([names], CLIP)[names]
        signs = [[int(SIGNS[a][i]) for a, i in zip(names, c)] for c in np.ndindex(*table.shape)]
        want.append(sum(math.prod(s) * int(n) for s, n in zip(signs, table.reshape(-1))))
    assert made.tolist() == want


@pytest.mark.parametrize("sets", [[], [()], [("a", "b"), ()]])
def test_contrasts_of_no_columns_are_refused(sets):
    with pytest.raises(UsageError, match="one column or more"):
        open_session(Swap(small())).contrasts(sets, SIGNS, mu=0.1, label="x")


def test_estimates_that_are_not_public():
    """An estimate taken from the data, all of its rows in the cell where the data has fewest: a
    user moves both sides."""

    def planted(table, grid):
        table = table.reshape(-1)
        estimate = np.where(np.arange(table.size) == np.argmin(table), table.sum(), 0)
        return int(np.abs(table - estimate).sum(dtype=np.int64))

    with patch.object(counts, "l1_distance", planted), asked(weighted):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)


# Charges, resuming, refusals


def test_it_is_charged_before_it_counts_and_once():
    steps = []

    class Watching(Swap):
        def marginals(self, *arguments, **options):
            steps.append("counted")
            return super().marginals(*arguments, **options)

    session = open_session(Watching(small()))
    real = Session._Session__answer

    def noting(self, label, question, events, draw, draws):
        steps.append([e.mu for e in events])
        return real(self, label, question, events, draw, draws)

    with patch.object(Session, "_Session__answer", noting):
        look(session)
    assert steps == [[session.mu], "counted"]
    with pytest.raises(FastdpError, match="does not cover"):
        look(session)


def test_resumed_runs_get_the_stored_distances_and_other_estimates_are_refused(tmp_path):
    ledger = open_ledger(tmp_path, epsilon=EPSILON, delta=DELTA)
    options = {"ledger": ledger, "dataset": "d", "run": "r"}
    (first,) = look(open_session(Swap(small()), **options))
    (again,) = look(open_session(Swap(None), **options))  # reads no data
    assert (first.values == again.values).all()
    with pytest.raises(FastdpError):
        look(open_session(Swap(small()), **options), fill=2.0**-20)


def test_what_is_not_public_or_not_whole_is_refused():
    session = open_session(Swap(small()))
    short = {c: estimates()[c][:1] for c in CLIQUES}
    for bad in (short, {}, estimates(np.nan)):
        with pytest.raises(FastdpError):
            session.distances(CLIQUES, bad, mu=0.1, label="x")
    for weights in ([0.0] * 7, [1.0], [300.0] * 7, [-1.0] * 7):
        with pytest.raises(UsageError, match="weight"):
            session.distances(CLIQUES, estimates(), mu=0.1, label="x", weights=weights)
    with pytest.raises(UsageError, match="candidate"):
        session.distances([], {}, mu=0.1, label="x")
    assert session.releases == []


# The statement


@pytest.mark.parametrize("weights", [None, WEIGHTS, contrast])
def test_the_statement_is_checked(weights):
    session = open_session(Swap(small()))
    if weights is contrast:
        weights = None
        contrast(session)
    else:
        look(session, weights)
    (line,) = session.releases

    def problems(**changes):
        return list(release_checks.release_problems(line | changes, CLIP))

    assert problems() == []
    assert problems(sigma=line["sigma"] * 0.99)
    assert problems(sensitivity=float(CLIP))
    assert problems(count=2)
    if weights is not None:
        assert problems(weights=[1] * 7) and problems(weights=[0] * 7)

"""Two releases about wide pairs: numbers of guessed rows against a slow twin (one user:
test_distances); a filtered marginal has the distribution of dense noise and a threshold. Planted
bugs are caught."""

import math
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import chi2, norm

from fastdp.engines.local import local
from fastdp.errors import FastdpError, UsageError
from fastdp.measurement import SCALE
from fastdp.privacy import release_checks, tail
from fastdp.release import gateway
from fastdp.release.counts import Counts
from fastdp.release.filtered_marginals import FilterPlan
from tests.tiers import first

from ..builders import open_ledger
from . import checks
from .checks import asked, fails, small_table as small
from .test_distances import PAIRS, guess
from .world import CLIP, DELTA, EPSILON, SCHEMA, Swap, open_session


def guesses_of(table, skip):
    """The slow twin: for every pair, the sum over a of the largest count among its cells."""
    out = []
    for a, b in PAIRS:
        marginal = local(table, 1).marginals([(a, b)], CLIP)[a, b].tolist()
        rows = [r for i, r in enumerate(marginal) if i != skip.get(a)]
        out.append(sum(max(x for j, x in enumerate(r) if j != skip.get(b)) for r in rows))
    return out


@pytest.mark.parametrize("skip", [{}, {"b": 1, "c": 0}])
@pytest.mark.parametrize("sparse", [False, True])
def test_exact_numbers_are_those_of_the_twin(sparse, skip):
    content = small(300)
    engine = local(content, 1) if sparse else Swap(content)
    rows = Counts(engine, SCHEMA.modelled, {}, CLIP).guessed(PAIRS, skip)
    assert rows.tolist() == guesses_of(content, skip)


@pytest.mark.slow
def test_counting_every_cell_above_the_mean_instead_of_the_largest():
    """A statistic that looks alike but whose cells are chosen by the data: a user moves the mean,
    and with it which cells count."""

    def planted(self, pairs, skip):
        out = []
        for pair in pairs:
            cells, sums = self.cells(self.domain.canonical(pair))
            out.append(int(sums[sums > sums.mean()].sum()) if len(cells) else 0)
        return np.array(out, np.int64)

    with patch.object(Counts, "guessed", planted), asked(guess):
        assert "more than the noise covers" in fails(checks.neighbours, 200, seed=1)


@pytest.mark.parametrize("guess", range(-5, 30))
def test_the_inverse_of_a_tail_is_found_from_any_guess(guess):
    """Of 2^-k, whose inverse is known: the least k with 2^-k < 2^-n, above the threshold, is n +
    1."""
    for n in range(3, 20):
        assert tail._inverse(lambda k: 2.0**-k, 2.0**-n, guess, 3) == n + 1


def test_no_two_draws_of_a_release_share_a_seed():
    asked = []
    plan().noisy((np.arange(3), np.full(3, SCALE)), lambda draw: asked.append(draw) or draw)
    assert len(asked) == len(set(asked)) == 3


# Filtered marginals: the distribution of dense noise and a threshold

SIZE = 120
FILLED = 40
SIGMA = 1.5
BAR = 2.0
RUNS = 200


def plan():
    sigma = SIGMA * SCALE
    bar = round(BAR * SCALE)
    return FilterPlan(("a", "b"), (SIZE, 1), SIZE, 1.0001 / SIGMA, 1, SCALE**2, sigma, bar)


def same_distribution(runs=RUNS, alarm=1e-6):
    """Chi-square tests (each with a false-alarm rate of 1e-6) against what dense noise and a
    threshold give: how often each cell passes, how the number of empty cells that pass varies, and
    the values of all that pass, as numbers that are uniform under the dense law."""
    cells = np.arange(0, 3 * FILLED, 3)
    rows = np.linspace(0.5, 5, FILLED)
    exact = np.zeros(SIZE)
    exact[cells] = np.round(rows * SCALE) / SCALE
    passed = np.zeros(SIZE)
    empty = []
    uniform = []
    for k in range(runs):
        counted = np.round(rows * SCALE).astype(np.int64)
        where, values = plan().noisy((cells, counted), partial(int.__add__, 9 * k))
        assert (np.diff(where) > 0).all(), "or one twice"
        passed[where] += 1
        empty.append(len(where) - np.isin(where, cells).sum())
        above = norm.sf((values / SCALE - exact[where]) / SIGMA)
        uniform.append(above / norm.sf((BAR - exact[where]) / SIGMA))
    p = norm.sf((BAR - exact) / SIGMA)
    fit = np.sum((passed - runs * p) ** 2 / (runs * p * (1 - p)))
    assert fit < chi2.isf(alarm, SIZE), "cells pass more or less often than under dense noise"
    count = SIZE - FILLED
    q = norm.sf(BAR / SIGMA)
    low, high = chi2.ppf([alarm / 2, 1 - alarm / 2], runs)
    spread = np.sum((np.array(empty) - count * q) ** 2) / (count * q * (1 - q))
    assert low < spread < high * 1.1, (
        "the number of empty cells that pass does not vary as under dense noise"
    )
    seen = np.bincount(np.minimum((np.concatenate(uniform) * 20).astype(int), 19), minlength=20)
    assert np.sum((seen - seen.mean()) ** 2) / seen.mean() < chi2.isf(alarm, 19), (
        "values of another law"
    )


def test_a_filtered_marginal_is_a_dense_one_and_a_threshold():
    same_distribution()


REAL = tail.exceeding, tail.places
PLANTED = {
    "all cells get a chance, also those that are not empty": (
        "exceeding",
        "more or less often",
        lambda sigma, bar, cells, seed: REAL[0](sigma, bar, cells + FILLED, seed=seed),
    ),
    "always the expected number": (
        "exceeding",
        "does not vary",
        lambda sigma, bar, cells, seed: np.full(round(cells * norm.sf(bar / sigma)), bar + 1),
    ),
    "all at the threshold": (
        "exceeding",
        "another law",
        lambda sigma, bar, cells, seed: np.full(
            len(REAL[0](sigma, bar, cells, seed=seed)), bar + 1
        ),
    ),
    "places among all cells": (
        "places",
        "",
        lambda cells, taken, count, seed: REAL[1](cells, taken[:0], count, seed=seed),
    ),
    "places that are not uniform": (
        "places",
        "more or less often",
        lambda cells, taken, count, seed: np.setdiff1d(np.arange(cells), taken)[:count],
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_fault_of_the_threshold_is_found(bug):
    name, text, broken = PLANTED[bug]
    with patch.object(tail, name, broken):
        assert text in fails(same_distribution, 150)


@pytest.mark.parametrize(("sigma", "bar", "cells"), first(1, [(1.3, 1, 6), (40.0, 50, 60)]))
def test_the_tail_is_exact_on_the_grid(sigma, bar, cells):
    """Numbers and values against the law of rounded noise, where both have few values."""
    drawn = [tail.exceeding(sigma, bar, cells, seed=k) for k in range(150)]
    p = norm.sf((bar + 0.5) / sigma)
    mean = np.mean([len(d) for d in drawn])
    error = math.sqrt(cells * p * (1 - p) / len(drawn))
    assert abs(mean - cells * p) < 5 * error  # two-sided false-alarm rate below 6e-7
    values = np.concatenate(drawn)
    assert values.min() > bar
    for k in (bar + 1, bar + 2):
        share = (norm.sf((k - 0.5) / sigma) - norm.sf((k + 0.5) / sigma)) / p
        assert abs(np.mean(values == k) - share) < 5 * math.sqrt(share / len(values))


def test_the_shortcut_in_floating_point_decides_as_high_precision_does():
    """A margin as wide as the line sends every number the long way: the same seeds give the same
    numbers."""
    quick = [tail.exceeding(9e6, int(2.7e7), 20_000, seed=k) for k in range(4)]
    with patch.object(tail, "MARGIN", 1.0):
        assert all(
            (tail.exceeding(9e6, int(2.7e7), 20_000, seed=k) == quick[k]).all() for k in range(4)
        )


@pytest.mark.parametrize("sparse", [False, True])
def test_a_session_filters_and_charges_once(tmp_path, sparse):
    ledger = open_ledger(tmp_path, epsilon=EPSILON, delta=DELTA)
    options = {"ledger": ledger, "dataset": "d", "run": "r"}
    content = small(4000)

    def ask(engine):
        session = open_session(engine, **options)
        return session, session.filtered(("b", "a"), mu=session.mu, lifted=1, label="b and a")

    session, first = ask(local(content, 1) if sparse else Swap(content))
    _, again = ask(Swap(None))  # reads no data
    assert (first.cells == again.cells).all() and (first.values == again.values).all()
    assert (first.values > first.threshold).all() and first.shape == (4, 3)
    exact = local(content, 1).marginals([("b", "a")], CLIP)["b", "a"].reshape(-1) / SCALE
    assert (np.abs(first.values - exact[first.cells]) < 6 * first.sigma).all()  # 12 cells: 2e-8
    (line,) = session.releases
    assert list(release_checks.release_problems(line, CLIP)) == []
    assert list(release_checks.release_problems(line | {"sigma": line["sigma"] * 0.99}, CLIP))
    with pytest.raises(FastdpError, match="does not cover"):
        session.filtered(("a", "b"), mu=session.mu, lifted=1, label="more")


def test_the_statement_of_a_filtered_marginal_is_checked_and_wrong_requests_are_refused():
    session = open_session(Swap(small()))
    guess(session)
    (line,) = session.releases
    assert list(release_checks.release_problems(line, CLIP)) == []
    assert list(release_checks.release_problems(line | {"sensitivity": float(CLIP)}, CLIP))
    for pairs in ([], [("a",)], [("a", "b", "c")]):
        with pytest.raises(UsageError, match="pairs"):
            session.guesses(pairs, mu=0.1, label="x")
    with (
        patch.object(gateway, "DENSE_CELLS", 5),
        pytest.raises(UsageError, match="limit for a filtered marginal is 5"),
    ):
        session.filtered(("a", "b"), mu=0.1, lifted=1, label="x")


@pytest.mark.parametrize("error", [MemoryError, ValueError])
def test_an_error_does_not_name_the_number_of_cells_that_are_not_empty(error):
    """It is private, and numpy's own errors name the shapes of arrays."""

    def failing(plan, cells, sums, seed):
        raise error(f"array with shape ({len(cells)},)")

    session = open_session(Swap(small()))
    with (
        patch.object(FilterPlan, "noisy", failing),
        pytest.raises((FastdpError, MemoryError)) as raised,
    ):
        session.filtered(("a", "b"), mu=session.mu, lifted=1, label="x")
    assert "shape" not in str(raised.value) and raised.value.__context__ is None

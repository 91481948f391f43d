"""Public starts: weight where they are right, none where they are wrong, and what is asked of the
session."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import one_ways, public_prior
from fastdp.mechanisms.shared.public_prior import (
    PublicPrior,
    assess_public_prior,
    prior_as_measurement,
    pseudo_bayes,
)
from fastdp.queries import Binned
from tests.tiers import slow_cases


def risk(public, truth, sigma, draws=300):
    """Mean squared error of the answers averaged with the public table, over that of the answers
    alone."""
    rng = np.random.default_rng(0)
    alone = 0.0
    both = 0.0
    for _ in range(draws):
        y = truth + sigma * rng.standard_normal(truth.size)
        answer = Measurement(("a",), y, sigma)
        start = prior_as_measurement(answer, public, 1.0)
        mean = answer if start is None else one_ways.averaged([answer], [start])[0]
        alone += np.square(y - truth).sum()
        both += np.square(mean.values - truth).sum()
    return both / alone


def test_the_error_of_a_public_table_is_its_gap_beyond_the_noise_or_that_of_its_own_rows():
    public = np.array([10.0, 20, 30, 40])
    near, off = (Measurement(("a",), y, 1.0) for y in (public, np.array([20.0, 10, 40, 30])))
    assert prior_as_measurement(near, public, 0.5).variances == pytest.approx(1.5 * (public + 0.5))
    assert prior_as_measurement(off, public, 0.5).variances == pytest.approx(
        np.full(4, 400 / 2 - 1)
    )
    for far in ([40.0, 30, 20, 10], [30.0, 10, 40, 20]):  # closer to equal cells
        assert prior_as_measurement(Measurement(("a",), far, 1.0), public, 0.5) is None
    prior = PublicPrior(("a", "b"), public.reshape(2, 2), 0.5)
    assert prior.apart(public) == 0 and prior.apart(public + np.array([0, 3, -1, 0])) == 4


@pytest.mark.parametrize("size", [3, *slow_cases(4, 10), 40])
@pytest.mark.parametrize("gap", [0.5, 1.5, *slow_cases(3.0), 10.0])
def test_a_wrong_public_table_costs_nothing(size, gap):
    """James and Stein: wherever the public table is, here off by `gap` standard deviations a cell,
    most of it where it has least."""
    truth = np.random.default_rng(size).dirichlet(np.ones(size)) * 2000 * size
    off = np.roll(truth, 1) - truth
    wrong = np.maximum(0.0, truth + off * gap * 50.0 / np.sqrt(np.mean(np.square(off))))
    assert risk(wrong, truth, 50.0) < 1.01


# Judging


distances = st.floats(-1e4, 1e5)
judged = st.tuples(distances, st.none() | distances, st.floats(0.1, 1e5), st.floats(1, 1e4))


@given(st.lists(judged, max_size=8))
@settings(max_examples=30, deadline=None)
def test_priors_are_judged_like_studies_of_one_effect(rows):
    """DerSimonian and Laird, one by one: what a prior explains is known to a variance of 2 (noise /
    apart)^2, and drawn towards the mean of all by the spread among them. A prior that was not asked
    about has the mean alone; the distance left is the average of both answers."""
    seen = [
        (apart**2 / noise**2 / 2, (far - near) / apart)
        for far, near, apart, noise in rows
        if near is not None
    ]
    verdicts = assess_public_prior(*zip(*rows)) if rows else []
    if not sum(w for w, _ in seen):
        assert verdicts == [None] * len(rows)
        return
    whole = sum(w for w, _ in seen)
    mean = sum(w * f for w, f in seen) / whole
    free = whole - sum(w * w for w, _ in seen) / whole
    excess = sum(w * (f - mean) ** 2 for w, f in seen) - (len(seen) - 1)
    prior = 1 / max(excess / free if free > 1e-9 * whole else 0.0, 1e-12)
    for verdict, (far, near, apart, noise) in zip(verdicts, rows, strict=True):
        w, f = (0.0, 0.0) if near is None else (apart**2 / noise**2 / 2, (far - near) / apart)
        best = min(1.0, (w * f + prior * mean) / (w + prior))
        doubt = (w + prior) ** -0.5 + prior / (w + prior) / math.sqrt(whole)
        bar = max(public_prior.BELIEF * doubt, public_prior.LEAST_EXPLAINED)
        if abs(best - bar) > 1e-6:
            assert (verdict is not None) == (best > bar)
        if verdict is not None:
            left = [far - apart * best, *([] if near is None else [near])]
            assert verdict.explained == pytest.approx(apart * best, rel=1e-6)
            assert verdict.distance == pytest.approx(
                max(0.0, np.mean(left)), rel=1e-6, abs=1e-6 * apart
            )


def test_public_tables_are_shrunk_as_far_as_chance_explains_their_gap():
    """Of 200 tables of 50 rows drawn from the estimate, the shrunk ones are much closer to it on
    average; a table that is far from the estimate, or of very many rows, stays."""
    rng = np.random.default_rng(2)
    estimate = np.array([5.0, 10, 15, 20])
    drawn = rng.multinomial(50, estimate / 50, 200).astype(float)
    off = np.array(
        [
            [np.abs(t - estimate).sum(), np.abs(pseudo_bayes(t, estimate, 50) - estimate).sum()]
            for t in drawn
        ]
    )
    assert off[:, 1].mean() < 0.4 * off[:, 0].mean() and (off[:, 1] <= off[:, 0] + 1e-9).all()
    table = np.array([20.0, 15, 10, 5])
    # squared, of the shares; chance explains (1 - 0.3) / rows of it
    p = table / 50
    gap = 0.2
    for rows in (50, 10**6):
        weight = rows / (rows + (1 - np.square(p).sum()) / (gap - (1 - np.square(p).sum()) / rows))
        assert pseudo_bayes(table, estimate, rows) == pytest.approx(
            weight * table + (1 - weight) * estimate
        )


def test_answers_over_other_groups_of_cells_are_not_averaged():
    """A clique may be measured over few groups of its cells, and again over more: a run failed, once
    charged. The error of the prior is judged by the answers over the most groups."""
    table = np.arange(1.0, 13.0) * 100
    few, more = (Binned((12,), [np.arange(12) // width]) for width in (4, 2))
    other = Binned((12,), [np.arange(12) % 6])
    answers = [Measurement(("a",), q.product(table), 5.0, q) for q in (few, more, more, other)]
    prior = PublicPrior(("a",), table, 1.0)
    found = prior.measurement(0.0, answers)
    alone = prior.measurement(0.0, answers[1:3])
    assert np.array_equal(found.values, alone.values) and np.array_equal(found.sigma, alone.sigma)

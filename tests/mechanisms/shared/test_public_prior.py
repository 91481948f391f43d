"""Public starts: weight where they are right, none where they are wrong, and what is asked of the
session."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import one_ways
from fastdp.mechanisms.shared.public_prior import (
    PublicPrior,
    assess_public_prior,
    drawn_to_model,
    prior_as_measurement,
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
def test_a_prior_is_used_where_it_is_expected_to_be_nearer_than_the_model(rows):
    """What it explains is at most all that is between prior and model, and what is left is the mean of
    what both distances say. A prior that was not asked about has the part of the mean of all."""
    verdicts = assess_public_prior(*zip(*rows)) if rows else []
    asked = [row for row in rows if row[1] is not None]
    if not asked:
        assert verdicts == [None] * len(rows)
        return
    parts = {
        v.explained / apart for v, (_, near, apart, _) in zip(verdicts, rows) if v and near is None
    }
    assert not parts or max(parts) == pytest.approx(min(parts))
    for verdict, (far, near, apart, _) in zip(verdicts, rows, strict=True):
        if verdict is not None:
            assert 0 < verdict.explained <= apart * (1 + 1e-9)
            left = [far - verdict.explained, *([] if near is None else [near])]
            assert verdict.distance == pytest.approx(
                max(0.0, np.mean(left)), rel=1e-6, abs=1e-6 * apart
            )


def test_priors_that_noise_hides_are_judged_by_all_others():
    """Half of 40 priors explain nine tenths, by distances that noise of half of what is between prior
    and model blurs: one of them alone says little, but the part that all explain is known. Of the same
    priors, half of which are as far off as the model is near, those that noise does not hide are told
    apart."""
    rng = np.random.default_rng(3)
    apart = np.full(40, 1000.0)

    def believed(part, noise):
        far = 1500 + noise * rng.standard_normal(40)
        near = 1500 - part * apart + noise * rng.standard_normal(40)
        found = assess_public_prior(far.tolist(), near.tolist(), apart.tolist(), [noise] * 40)
        return np.array([v is not None for v in found])

    assert believed(np.full(40, 0.9), 500.0).mean() > 0.95
    assert believed(np.full(40, -0.9), 500.0).sum() == 0
    mixed = np.where(np.arange(40) < 20, 0.9, -0.9)
    assert np.array_equal(believed(mixed, 50.0), mixed > 0)


def test_public_tables_are_shrunk_as_far_as_chance_explains_their_gap():
    """Of 200 tables of 50 rows drawn from the estimate, the shrunk ones are much closer to it on
    average; a table that is far from the estimate, or of very many rows, stays."""
    rng = np.random.default_rng(2)
    estimate = np.array([5.0, 10, 15, 20])
    drawn = rng.multinomial(50, estimate / 50, 200).astype(float)
    off = np.array(
        [
            [np.abs(t - estimate).sum(), np.abs(drawn_to_model(t, estimate, 50) - estimate).sum()]
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
        assert drawn_to_model(table, estimate, rows) == pytest.approx(
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

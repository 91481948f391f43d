"""Public starts: weight where they are right, none where they are wrong, and what is asked of the session."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import one_ways
from fastdp.mechanisms.shared.prior_screening import PublicPriors
from fastdp.mechanisms.shared.public_prior import (
    PublicMarginals,
    assess_public_prior,
    prior_as_measurement,
    shrunk,
)
from fastdp.mechanisms.shared.screening import candidates
from tests.mechanisms.growing import RowsPublic, RowsSession, dependent_rows


def risk(public, truth, sigma, draws=300):
    """Mean squared error of the answers averaged with the public table, over that of the answers alone."""
    rng = np.random.default_rng(0)
    alone, both = 0.0, 0.0
    for _ in range(draws):
        y = truth + sigma * rng.standard_normal(truth.size)
        answer = Measurement(("a",), y, sigma)
        start = prior_as_measurement(answer, public, 1.0)
        mean = answer if start is None else one_ways.averaged([answer], [start])[0]
        alone += np.square(y - truth).sum()
        both += np.square(mean.values - truth).sum()
    return both / alone


SKEWED = np.geomspace(2000, 2, 40)


def test_a_right_public_table_halves_the_error_of_a_noisy_answer():
    drawn = np.random.default_rng(1).poisson(SKEWED).astype(float)
    assert risk(drawn, SKEWED, 100.0) < 0.5


@pytest.mark.parametrize("size", [3, 4, 10, 40])
@pytest.mark.parametrize("gap", [0.5, 1.5, 3.0, 10.0])
def test_a_wrong_public_table_costs_nothing(size, gap):
    """James and Stein: wherever the public table is, here off by `gap` standard deviations a cell, most of
    it where it has least."""
    truth = np.random.default_rng(size).dirichlet(np.ones(size)) * 2000 * size
    off = np.roll(truth, 1) - truth
    wrong = np.maximum(0.0, truth + off * gap * 50.0 / np.sqrt(np.mean(np.square(off))))
    assert risk(wrong, truth, 50.0) < 1.01


def test_a_table_believed_whatever_the_answer_says_would_be_noticed():
    """The planted bug: variance of a draw from one population, without the gap that the answer shows."""
    answer = Measurement(("a",), SKEWED.copy(), 50.0)
    wrong = SKEWED[::-1].copy()
    naive = Measurement(("a",), wrong, np.sqrt(2 * (wrong + 1)))
    (mean,) = one_ways.averaged([answer], [naive])
    assert np.square(mean.values - SKEWED).sum() > 100 * SKEWED.size * 50.0**2


def test_few_public_rows_of_independent_columns_become_the_estimate_and_many_rows_stay():
    rng = np.random.default_rng(3)
    estimate = np.outer(rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(9))) * 1000
    gaps = []
    for _ in range(20):
        counts = rng.multinomial(200, (estimate / 1000).ravel()).reshape(8, 9) * 5.0
        gaps.append(np.abs(shrunk(counts, estimate, 200) - estimate).sum() / np.abs(counts - estimate).sum())
    assert np.mean(gaps) < 0.3
    other = rng.dirichlet(np.ones(72)).reshape(8, 9) * 1000
    assert np.abs(shrunk(other, estimate, 10**6) - other).sum() < 0.01 * np.abs(other - estimate).sum()


# Judging


def distances(f, apart, noise, seed=0):
    """Noisy distances of starts that explain f of how far they are from the model."""
    rng = np.random.default_rng(seed)
    f, apart = np.broadcast_to(f, len(apart)), np.asarray(apart, float)
    near = 0.5 * apart
    return (near + f * apart + noise * rng.standard_normal(f.size)), near + noise * rng.standard_normal(
        f.size
    )


def test_weak_starts_are_judged_by_how_all_fare():
    apart, noise = np.full(60, 50.0), 60.0
    for f, most in ((0.7, 60), (-0.7, 0), (0.0, 20)):
        far, near = distances(f, apart, noise)
        believed = [j for j in assess_public_prior(far, near, apart, [noise] * 60) if j is not None]
        assert len(believed) >= 55 if f > 0 else len(believed) <= most, f
    far, near = distances(0.7, apart, noise)
    asked = [*near[:50].tolist(), *[None] * 10]
    assert all(j is not None for j in assess_public_prior(far, asked, apart, [noise] * 60)[50:])
    far, near = distances(-0.7, apart, noise)
    asked = [*near[:50].tolist(), *[None] * 10]
    assert not any(assess_public_prior(far, asked, apart, [noise] * 60)[50:])


@given(
    st.lists(
        st.tuples(
            st.floats(-1e4, 1e5),
            st.one_of(st.none(), st.floats(-1e4, 1e5)),
            st.floats(0.1, 1e5),
            st.floats(1, 1e4),
        ),
        max_size=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_verdicts_are_finite_and_bounded(rows):
    for verdict, (_, _, apart, _) in zip(assess_public_prior(*zip(*rows)) if rows else [], rows, strict=True):
        if verdict is not None:
            assert 0 < verdict.explained <= apart * (1 + 1e-9)
            assert verdict.distance >= 0 and math.isfinite(verdict.distance)


# With a session


def looked(public, rows, domain, mu=1.0, share=0.25):
    session = RowsSession(domain, rows, mu=mu)
    starts = PublicPriors(PublicMarginals.of(RowsPublic(domain, public)), session, {})
    total = len(next(iter(rows.values())))
    pairs = [(a, b) for i, a in enumerate(domain) for b in list(domain)[i + 1 :]]
    ones = {a: session.marginal((a,)) for a in domain}
    estimates = {(a, b): np.outer(ones[a], ones[b]) / total for a, b in pairs}
    weight = dict.fromkeys(pairs, 1.0)
    look = session.distances(pairs, estimates, mu=mu * math.sqrt(share), label="look")
    noise = float(look.sigma[0])
    took = starts.screen(estimates, weight, noise, share, "prior_and_answers")
    scored = candidates(pairs, estimates, look.values.tolist(), 50.0, total, weight)
    return starts, starts.improved(scored, estimates, noise, 50.0, total), took, session


def test_a_right_table_explains_the_chain_and_a_shuffled_one_is_hardly_asked_for():
    domain, rows = dependent_rows()
    _, public = dependent_rows(seed=5)
    starts, seen, took, session = looked(public, rows, domain)
    strong = {c.clique for c in seen if c.explained > 500}
    assert {(f"c{i}", f"c{i + 1}") for i in range(5)} <= strong
    assert 0 < took <= 0.25 and math.isclose(session.spent, 0.25 + took)
    starts.take([c.clique for c in seen])
    assert {m.clique for m in starts.measurements([])} >= strong

    rng = np.random.default_rng(6)
    shuffled = {a: rng.permutation(c) for a, c in public.items()}
    _, seen, took, session = looked(shuffled, rows, domain)
    assert took < 0.05 and math.isclose(session.spent, 0.25 + took)
    assert max(c.explained for c in seen) < 100


def test_the_noise_beside_a_look_is_the_looks():
    """With weights too: sigma_i w_i is the same in both, whatever part of the candidates is asked for."""
    domain, rows = dependent_rows()
    session = RowsSession(domain, rows, mu=1.0)
    _, public = dependent_rows(seed=5)
    starts = PublicPriors(PublicMarginals.of(RowsPublic(domain, public)), session, {})
    pairs = [("c0", "c1"), ("c1", "c2"), ("c0", "c5"), ("c2", "c3")]
    estimates = {p: np.full((4, 4), len(rows["c0"]) / 16) for p in pairs}
    weights = [1.0, 0.3, 0.7, 2.0]
    look = session.distances(pairs, estimates, mu=0.5, label="look", weights=weights)
    noise = float(look.sigma[0]) * weights[0]
    seen = []
    real = session.distances

    def watched(cliques, tables, **options):
        answer = real(cliques, tables, **options)
        seen.extend(np.asarray(answer.sigma) * options["weights"])
        return answer

    session.distances = watched
    took = starts.screen(estimates, dict(zip(pairs, weights)), noise, 0.25, "prior_and_answers")
    assert len(seen) >= 2 and np.allclose(seen, noise)
    assert math.isclose(session.spent, 0.25 + took)


def test_a_table_that_says_less_than_equal_cells_is_left_out():
    answer = Measurement(("a",), SKEWED.copy(), 400.0)  # so much noise that James and Stein would average
    assert prior_as_measurement(answer, SKEWED[::-1].copy(), 1.0) is None
    assert prior_as_measurement(answer, np.full(SKEWED.size, SKEWED.mean()), 1.0) is not None
    assert prior_as_measurement(answer, SKEWED * 0.9 + SKEWED.mean() * 0.1, 1.0) is not None


@pytest.mark.parametrize(("sigma", "use_prior_only"), [(1.0, False), (1000.0, True)])
def test_what_a_start_leaves_is_measured_unless_noise_would_be_worse(sigma, use_prior_only):
    domain, rows = dependent_rows()
    _, public = dependent_rows(seed=5)
    starts, _, _, _ = looked(public, rows, domain)
    pair, total = ("c0", "c1"), len(rows["c0"])
    truth = np.bincount(rows["c0"] * 4 + rows["c1"], minlength=16).reshape(4, 4)
    estimate = np.outer(truth.sum(1), truth.sum(0)) / total
    far = float(np.abs(truth - estimate).sum())
    scored = candidates([pair], {pair: estimate}, [far], sigma, total, {pair: 1.0})
    (c,) = starts.improved(scored, {pair: estimate}, 1.0, sigma, total)
    assert c.explained > 0.5 * far and c.use_prior_only == use_prior_only
    assert (c.gain(sigma) > 0) == (not use_prior_only)
    assert c.worth(sigma) == max(c.explained, c.gain(sigma))

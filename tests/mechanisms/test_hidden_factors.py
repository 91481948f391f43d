"""Hidden factors: from contrasts to correlations, loadings and tables by class."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import qmc

from fastdp.mechanisms.cliquetree import hidden_factors as hf


def equal(columns, correlation):
    return np.full((columns, columns), correlation) + (1 - correlation) * np.eye(columns)


@given(st.floats(-0.9, 0.9))
def test_contrasts_of_median_splits_are_the_arcsine_of_the_correlation(correlation):
    """Sheppard's formula, against Mehler's series. What the series leaves out is at most
    .9^49 / 49."""
    terms = hf.step_terms(np.zeros(2))
    contrast = 2 / math.pi * math.asin(correlation)
    found = hf.correlations(np.full((2, 2), contrast), terms)[0, 1]
    assert found == pytest.approx(correlation, abs=1e-3)


def test_correlations_of_uneven_splits_come_back_from_counted_signs():
    """Signs of two million normal pairs, at quantiles other than the median. A contrast of so many
    rows has a standard error of .0007, which an uneven split (slope 1 / 4) makes .003 of R."""
    rng = np.random.default_rng(1)
    splits = np.array([0.2, 0.65])
    want = -0.55
    one, noise = rng.normal(size=(2, 2_000_000))
    two = want * one + math.sqrt(1 - want**2) * noise
    quantiles = np.array([NormalDist().inv_cdf(p) for p in splits])
    signs = [np.where(x > t, 1, -1) for x, t in zip((one, two), quantiles)]
    centred = np.mean(signs[0] * signs[1]) - np.prod(1 - 2 * splits)
    found = hf.correlations(np.full((2, 2), centred), hf.step_terms(quantiles))[0, 1]
    assert found == pytest.approx(want, abs=0.015)


def test_noise_is_taken_out_of_a_matrix_of_low_rank():
    """Thirty equal contrasts: errors fall to less than half of the noise. Of pure noise nothing is
    left that a factor would be made of."""
    rng = np.random.default_rng(2)
    noise = 0.02
    upper = np.triu(rng.normal(size=(30, 30)) * noise, 1)
    off = ~np.eye(30, dtype=bool)
    for level, most in ((0.2, 0.5), (0.0, 0.3)):
        smooth = hf.denoised(level + upper + upper.T, noise)
        assert np.abs(smooth - level)[off].mean() < most * np.abs(upper + upper.T)[off].mean()
        assert (np.diag(smooth) == 0).all()
    nothing = hf.loadings(smooth, np.ones(30), max(hf.LEAST_FACTOR, math.sqrt(30) * noise))
    assert nothing.shape == (30, 0)


@pytest.mark.parametrize("factors", [1, 3])
def test_loadings_give_back_the_correlations_that_they_made(factors):
    rng = np.random.default_rng(factors)
    truth = rng.normal(size=(20, factors))
    truth *= np.sqrt(rng.uniform(0.3, 0.8, 20) / (truth**2).sum(axis=1))[:, None]
    correlation = truth @ truth.T
    made = hf.loadings(correlation, np.full(20, 0.8), 0.05)
    assert made.shape == (20, factors)
    assert np.allclose(made * hf.GRID, np.round(made * hf.GRID))
    off = ~np.eye(20, dtype=bool)
    assert np.abs(made @ made.T - correlation)[off].max() < 0.01


def test_loadings_do_not_depend_on_the_last_bits():
    """Eigenvectors of equal eigenvalues come out rotated if the last bits change; loadings do
    not."""
    correlation = np.kron(np.eye(4), equal(5, 0.6))
    bits = np.random.default_rng(3).normal(size=(20, 20)) * 1e-14
    made = [
        hf.loadings(matrix, np.full(20, 0.8), 0.05)
        for matrix in (correlation, correlation + bits + bits.T)
    ]
    assert made[0].shape == (20, 4)
    assert np.array_equal(*made)


@pytest.mark.parametrize("factors", [1, 2, 6, hf.MOST_FACTORS])
def test_points_have_the_moments_of_independent_normals(factors):
    classes = hf.class_count(factors, 1 << 20)
    points = hf.class_points(classes, factors)
    assert np.abs(points.mean(axis=0)).max() < 1e-9
    assert np.allclose(points.T @ points / classes, np.eye(factors), atol=1e-9)
    assert np.mean(np.abs(points)) == pytest.approx(math.sqrt(2 / math.pi), abs=0.02)


def test_points_are_those_of_sobol():
    """Against scipy's, which come in the order of Gray's code."""
    theirs = qmc.Sobol(hf.MOST_FACTORS, scramble=False).random(2048)[1024:]
    ours = hf.sobol(1024, 2048, hf.MOST_FACTORS)
    assert sorted(ours.tolist()) == sorted(theirs.tolist())


@given(
    st.lists(st.floats(0.0, 1000.0), min_size=3, max_size=12),
    st.floats(-0.98, 0.98),
    st.booleans(),
)
def test_tables_by_class_have_the_one_way_as_their_mean(rows, loading, blank):
    """Codes without a place in the order have the same chance in every class; the mean place of the
    others rises with the factor, or falls."""
    rows = np.array(rows) + np.array([1.0, 1.0] + [0.0] * (len(rows) - 2))
    placed = np.ones(len(rows), bool)
    placed[-1] = not blank
    points = hf.class_points(64, 1)
    table = hf.class_tables(points, np.array([loading]), rows, placed)
    shares = rows / rows.sum()
    assert np.allclose(table.sum(axis=1), 1)
    assert np.allclose(table.mean(axis=0), shares, atol=1e-5)
    assert np.allclose(table[:, ~placed], shares[~placed])
    places = table[:, placed] @ np.arange(placed.sum()) * (1 if loading >= 0 else -1)
    assert (np.diff(places) >= -1e-6).all()


def test_rows_of_the_classes_have_the_correlation():
    """Two columns of eight bins: the correlation of codes in the mixture, against counted normals
    (a million rows: standard error .001)."""
    rng = np.random.default_rng(5)
    points = hf.class_points(128, 1)
    table = hf.class_tables(points, np.array([math.sqrt(0.7)]), np.ones(8), np.ones(8, bool))
    centred = table @ np.arange(8) - 3.5
    made = np.mean(centred**2) / np.mean((np.arange(8) - 3.5) ** 2)
    normal = rng.normal(size=(1_000_000, 2)) @ np.linalg.cholesky(equal(2, 0.7)).T
    cuts = [NormalDist().inv_cdf(k / 8) for k in range(1, 8)]
    truth = np.corrcoef(np.searchsorted(cuts, normal).T)[0, 1]
    assert made == pytest.approx(truth, abs=0.006)

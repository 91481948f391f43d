"""Hidden classes: from noisy tables of all pairs to a mixture of products, and what contrasts by random
signs tell about it beforehand."""

from types import SimpleNamespace

import numpy as np
import pytest

from fastdp.mechanisms.cliquetree import dense_classes as dc, hidden_classes as hc


def mixture(sizes, classes, seed=0):
    """(blocks, single columns, tables of all pairs) of a mixture of products."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet([5.0] * classes)
    shares = np.concatenate([rng.dirichlet([0.7] * n, classes).T for n in sizes])
    return hc.Blocks(sizes), shares @ weights, (shares * weights) @ shares.T


def apart(blocks):
    return blocks.own[:, None] != blocks.own


def test_a_basis_of_vectors_whose_sum_is_0():
    basis = hc.without_sums(7)
    assert basis.T @ basis == pytest.approx(np.eye(6)) and basis.sum(axis=0) == pytest.approx(0)


def test_loadings_give_back_the_tables_of_a_mixture():
    """But for the threshold, which noise of .0001 sets; blocks of a column with itself converge."""
    blocks, ones, tables = mixture([3, 5, 2, 6, 4, 5, 3, 4, 6, 5] * 2, 3)
    found = hc.loadings(blocks, tables, ones, 1e-4)
    made = np.outer(ones, ones) + found @ found.T
    assert found.shape[1] == 2
    assert np.abs(made - tables)[apart(blocks)].max() < 1e-3


def test_noise_is_taken_out_of_tables_of_few_classes():
    """Tables of 20 columns: errors fall to a third of the noise. The planted bug: shares of all rows as
    noise, so that nothing is taken out. Of noise alone no factor is left."""
    blocks, ones, tables = mixture([5] * 20, 3)
    rng = np.random.default_rng(1)
    upper = np.triu(rng.normal(size=tables.shape), 1) * 0.01
    noisy = upper + upper.T

    def error(noise):
        found = hc.loadings(blocks, tables + noisy, ones, noise)
        off = np.outer(ones, ones) + found @ found.T - tables
        return np.abs(off)[apart(blocks)].mean()

    assert error(0.01) < 0.35 * np.abs(noisy).mean() < 0.7 * error(1e-6)
    assert hc.loadings(blocks, np.outer(ones, ones) + noisy, ones, 0.0101).shape[1] == 0


def test_classes_are_a_mixture_with_these_tables_and_single_columns():
    blocks, ones, tables = mixture([4] * 15, 3, seed=3)
    weights, shares = hc.fitted(blocks, hc.loadings(blocks, tables, ones, 1e-4), ones)
    assert len(weights) == 3 and weights.sum() == pytest.approx(1) and (shares >= 0).all()
    assert np.add.reduceat(shares, blocks.ends[:-1]) == pytest.approx(1, abs=1e-5)
    raked = [hc.raked(shares[blocks.of(j)], weights, ones[blocks.of(j)]) for j in range(15)]
    whole = np.concatenate(raked)
    assert whole @ weights == pytest.approx(ones, abs=1e-6)
    off = np.abs((whole * weights) @ whole.T - tables)[apart(blocks)]
    independent = np.abs(np.outer(ones, ones) - tables)[apart(blocks)]
    assert off.mean() < 0.1 * independent.mean()


def test_shares_are_on_a_grid_that_hides_a_processor_s_last_bits():
    blocks, ones, tables = mixture([4] * 10, 3, seed=4)
    found = hc.loadings(blocks, tables, ones, 1e-4)
    again = hc.fitted(blocks, found, ones * (1 + 1e-15))
    for one, other in zip(hc.fitted(blocks, found, ones), again):
        assert np.abs(one - other).max() <= 1.01 / hc.GRID and np.mean(one == other) > 0.9


def test_squares_of_contrasts_by_random_signs_are_squared_distances_of_tables():
    """On average over signs, for codes of equal counts and halves of them: exactly (n / (n - 1))^2 of
    |table|^2 whose sums are 0."""
    n = 6
    rng = np.random.default_rng(5)
    basis = hc.without_sums(n)
    table = basis @ rng.normal(size=(n - 1, n - 1)) @ basis.T
    merged = SimpleNamespace(
        ones_shape={"a": np.ones(n)}, compression=SimpleNamespace(code_map=lambda _: np.arange(n))
    )
    signs = np.array([dc.random_signs(merged, "a", number) for number in range(6000)])
    assert (signs.sum(axis=1) == 0).all()
    squares = np.square(np.einsum("ri,ij,rj->r", signs[:3000], table, signs[3000:]))
    want = (n / (n - 1)) ** 2 * np.square(table).sum()
    assert squares.mean() == pytest.approx(want, abs=5 * squares.std() / np.sqrt(3000))


def look_at(tables, ones, blocks, noise, seed=0):
    """(a look at these tables, by random signs and with noise; tables of independent columns, true ones)."""
    rng = np.random.default_rng(seed)
    names = [f"c{j}" for j in range(len(blocks.sizes))]
    own = {a: ones[blocks.of(j)] for j, a in enumerate(names)}
    merged = SimpleNamespace(
        ones_shape=own,
        shape=own,
        compression=SimpleNamespace(code_map=lambda a: np.arange(len(own[a]))),
        fitted_total=1.0,
    )
    signs = {a: dc.random_signs(merged, a, j) for j, a in enumerate(names)}
    values = np.concatenate(list(signs.values()))
    whole = np.add.reduceat(
        np.add.reduceat(values[:, None] * tables * values, blocks.ends[:-1]),
        blocks.ends[:-1],
        axis=1,
    )
    upper = np.triu(whole + noise * rng.normal(size=whole.shape), 1)
    look = dc.Look(merged, signs, upper + upper.T, noise)
    place = {a: blocks.of(j) for j, a in enumerate(names)}
    independent = {(a, b): np.outer(own[a], own[b]) for a, b in look.pairs}
    return look, independent, {(a, b): tables[place[a], place[b]] for a, b in look.pairs}


def test_a_forecast_says_whether_classes_are_worth_their_tables():
    """Classes beat independent columns where the tables' noise is small, and not where it hides them,
    nor a tree that has the truth."""
    blocks, ones, tables = mixture([5] * 24, 3, seed=6)
    look, independent, truth = look_at(tables, ones, blocks, 0.01)
    assert look.forecast(independent, 1e-4, blocks.free).better(2.0, 0.75)
    assert look.forecast(independent, 1e-4, blocks.free).factors == 2
    assert not look.forecast(independent, 0.2, blocks.free).better(2.0, 0.75)
    assert not look.forecast(truth, 1e-4, blocks.free).better(2.0, 0.75)


@pytest.mark.parametrize("seed", range(8))
def test_independent_columns_and_pairs_that_hang_together_are_not_taken_for_classes(seed):
    """Contrasts of noise, and of twelve pairs of columns that are the same: no few factors explain
    them."""
    blocks, ones, _ = mixture([5] * 24, 2, seed=seed)
    tables = np.outer(ones, ones)
    look, independent, _ = look_at(tables, ones, blocks, 0.02, seed)
    assert not look.forecast(independent, 1e-4, blocks.free).better(2.0, 0.75)
    for j in range(0, 24, 2):
        a, b = blocks.of(j), blocks.of(j + 1)
        ones[b] = ones[a]
    tables = np.outer(ones, ones)
    for j in range(0, 24, 2):
        a, b = blocks.of(j), blocks.of(j + 1)
        tables[a, b] = tables[b, a] = np.diag(ones[a])
    look, independent, _ = look_at(tables, ones, blocks, 0.02, seed)
    found = look.forecast(independent, 1e-4, blocks.free)
    assert not found.better(2.0, 0.75) or not dc.ENOUGH * found.factors < 24


@pytest.mark.parametrize("size", [0.8, 1.5, 4.0])
def test_what_noise_leaves_of_an_eigenvalue_is_known_beforehand(size):
    """A matrix of one factor under noise, whose edge is 1: the squared error of what `of_factors` finds.
    With 250 rows the formula is off by less than .08 of the square."""
    n = 250
    rng = np.random.default_rng(7)
    vector = rng.normal(size=n)
    signal = size * np.outer(vector, vector) / (vector @ vector)
    noise = np.triu(rng.normal(size=(n, n)), 1) / np.sqrt(n)
    values, vectors = np.linalg.eigh(signal + noise + noise.T)
    kept = np.sqrt(np.maximum(values**2 - 4, 0.0)) * (values > 0)
    error = np.square((vectors * kept) @ vectors.T - signal).sum()
    assert hc.squares_left(np.array([size]), 1.0) == pytest.approx(error, abs=0.08 * size**2 + 0.1)


def test_a_tree_that_will_be_as_near_as_sampling_is_not_exchanged_for_classes():
    """What the tree will leave is foreseen less what sampling explains, so it may be below 0. Squared, it
    would count as if the tree were far off: classes would be bought for a tree that nothing can beat."""
    forecast = dc.Forecast(classes=0.1, tree=1.0, error=0.01, factors=2)
    assert forecast.better(2.0, 1.0) and forecast.better(2.0, 0.5)
    assert not forecast.better(2.0, 0.3)
    assert not forecast.better(2.0, 0.0) and not forecast.better(0.0, -1.2)

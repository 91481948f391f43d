"""Expected counts of single columns: closer to the truth than noisy counts, and no rows made or lost."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.expected_counts import expected_counts, parts_kept
from fastdp.mechanisms.shared.halved_counts import halved_counts
from fastdp.significance import onto_simplex
from tests.tiers import slow_cases

TOTAL = 1_000.0


def measured(truth: np.ndarray, sigma: float, seed: int, name: str = "a") -> Measurement:
    noise = sigma * np.random.default_rng(seed).standard_normal(truth.size)
    return Measurement((name,), truth + noise, sigma)


def off(values: np.ndarray, truth: np.ndarray) -> float:
    """Total variation."""
    return float(np.abs(values - truth).sum()) / (2 * truth.sum())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.floats(0.1, 5_000),
    st.floats(1.0, 1e5),
    st.integers(0, 1000),
)
def test_counts_add_up_to_the_rows_and_codes_have_no_order_unless_stated(sizes, sigma, total, seed):
    rng = np.random.default_rng(seed)
    ones = [
        measured(total * rng.dirichlet(np.full(k, 0.3)), sigma, seed + i, f"c{i}")
        for i, k in enumerate(sizes)
    ]
    found = expected_counts(ones, total)
    names = {m.clique[0] for m in ones}
    for m in [*found, *expected_counts(ones, total, names)]:
        if m.values.size > 1:
            assert (m.values >= 0).all()
            assert m.values.sum() == pytest.approx(total, abs=1e-4 * m.values.size)
    turned = [Measurement(m.clique, m.values[::-1], m.sigma) for m in ones]
    for m, other in zip(found, expected_counts(turned, total)):
        assert np.allclose(m.values, other.values[::-1], atol=1e-5 * total)


@pytest.mark.parametrize("ordered", [(), ("a",)])
def test_noise_alone_gives_equal_counts_and_clear_counts_stay(ordered):
    truth = np.full(12, TOTAL / 12)
    errors = [
        off(expected_counts([measured(truth, 60.0, s)], TOTAL, ordered)[0].values, truth)
        for s in range(20)
    ]
    noisy = [off(onto_simplex(measured(truth, 60.0, s).values, TOTAL), truth) for s in range(20)]
    assert np.mean(errors) < 0.4 * np.mean(noisy)
    clear = measured(np.arange(1.0, 13.0) * 100, 0.5, 3)
    found = expected_counts([clear], float(clear.values.sum()), ordered)[0]
    assert np.abs(found.values - clear.values).max() < 0.5


@pytest.mark.parametrize(
    ("alpha", "most"),
    [(0.05, 0.95), *slow_cases((0.3, 1.0), (1.0, 0.9), (10.0, 0.7)), (1000.0, 0.4)],
)
@pytest.mark.parametrize("ordered", [False, True])
def test_counts_are_closer_to_the_truth_than_their_projection(alpha, most, ordered):
    """Ten columns of one kind, from few common codes to equal ones: mean error over 12 tables. The planted
    bug is the projection itself. With few common codes, cutting off noise below 0 is nearly best."""
    found, without = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = [
            TOTAL * rng.dirichlet(np.full(k, alpha)) for k in (2, 3, 4, 6, 8, 10, 16, 20, 30, 40)
        ]
        ones = [measured(t, 40.0, 100 * seed + i, f"c{i}") for i, t in enumerate(truth)]
        names = {m.clique[0] for m in ones} if ordered else ()
        made = expected_counts(ones, TOTAL, names)
        found.append(np.mean([off(m.values, t) for m, t in zip(made, truth)]))
        without.append(
            np.mean([off(onto_simplex(m.values, TOTAL), t) for m, t in zip(ones, truth)])
        )
    assert np.mean(found) < most * np.mean(without)


def test_two_codes_have_the_mean_by_bayes():
    """Of a column of two codes with known alpha 1 the share is uniform before looking: its mean given the
    difference is a ratio of two integrals, done here on a fine grid. Many columns tell the alpha."""
    rng = np.random.default_rng(0)
    shares = rng.random(400)
    sigma = 150.0
    ones = [
        measured(TOTAL * np.array([p, 1 - p]), sigma, 1000 + i, f"c{i}")
        for i, p in enumerate(shares)
    ]
    grid = (np.arange(2000) + 0.5) / 2000
    apart = []
    for m, near in zip(ones, expected_counts(ones, TOTAL)):
        difference = m.values[0] - m.values[1]
        chance = np.exp(-0.25 * np.square((difference - TOTAL * (2 * grid - 1)) / sigma))
        apart.append(near.values[0] / TOTAL - chance @ grid / chance.sum())
    assert np.abs(apart).mean() < 0.02


def test_an_order_that_matters_is_found():
    """A hundred ordered codes in a bell: neighbours are averaged. Without the order the noise of each code
    stays. In turned-about order nothing is lost against no order."""
    codes = np.arange(100)
    bell = np.exp(-0.5 * np.square((codes - 35) / 15.0))
    truth = 2_000 * bell / bell.sum()
    mixed = truth[np.random.default_rng(1).permutation(100)]
    errors = {}
    for name, values in (("bell", truth), ("mixed", mixed)):
        for ordered in ((), ("a",)):
            errors[name, bool(ordered)] = np.mean(
                [
                    off(
                        expected_counts([measured(values, 25.0, s)], 2_000.0, ordered)[0].values,
                        values,
                    )
                    for s in range(10)
                ]
            )
    assert errors["bell", True] < 0.7 * errors["bell", False]
    assert errors["mixed", True] < 1.1 * errors["mixed", False]


def test_halved_counts_keep_a_single_code_that_stands_out():
    truth = np.full(64, 5.0)
    truth[37] = 600.0
    _, found = halved_counts(measured(truth, 8.0, 2).values, 8.0, float(truth.sum()))
    assert found.sum() == pytest.approx(truth.sum())
    assert abs(found[37] - 600) < 30
    others = np.delete(found, 37)
    assert np.abs(others - 5).mean() < 4


def test_very_many_codes_take_no_table_of_codes_by_points():
    """Noisy counts are told apart on a grid, and ranges are looked at in parts: 300,000 codes are a second,
    where a table of every code and every true count would have 40 million cells."""
    truth = np.zeros(300_000)
    truth[:40] = 500.0
    found = expected_counts([measured(truth, 10.0, 5)], 20_000.0, ("a",))[0]
    assert off(found.values, truth) < 0.2


def test_the_part_that_is_kept():
    clear, noise = np.array([0.0, 100.0]), np.array([49.0, 51.0])
    ones = [Measurement("a", clear, 1.0), Measurement("b", noise, 10.0)]
    kept = parts_kept(ones, [clear, np.array([49.9, 50.1])])
    assert kept["a"] == 1.0
    assert kept["b"] == pytest.approx(0.1)


def unlisted_columns(seed: int, part: float) -> tuple[list[Measurement], np.ndarray]:
    """Twelve columns of six values each, and of codes of other values and of nulls; the last three columns
    have nulls in this part of the rows. (The noisy counts, the true ones.)"""
    rng = np.random.default_rng(seed)
    truth = np.zeros((12, 8))
    truth[:, :6] = TOTAL * rng.dirichlet(np.full(6, 1.0), 12)
    truth[9:, :6] *= 1 - part
    truth[9:, 7] = TOTAL * part
    return [measured(t, 30.0, 50 * seed + i, f"c{i}") for i, t in enumerate(truth)], truth


def test_codes_that_may_not_occur_have_no_rows_where_noise_explains_them():
    """The planted bug is no knowledge of which codes may not occur: the code of nulls of a column without
    them then has half a standard error of rows."""
    unlisted = {f"c{i}": np.arange(8) >= 6 for i in range(12)}
    there, without, known, errors = [], [], [], []
    for seed in range(8):
        ones, truth = unlisted_columns(seed, 0.3)
        none = truth == 0
        found = np.array([m.values for m in expected_counts(ones, TOTAL, (), unlisted)])
        plain = np.array([m.values for m in expected_counts(ones, TOTAL)])
        there.append(found[none].mean())
        without.append(plain[none].mean())
        known.append(np.abs(found - truth)[9:, 7].mean())
        sure = np.array([m.sigma for m in expected_counts(ones, TOTAL, (), unlisted)])
        errors.append(sure[none].mean())
        assert np.allclose(sure[:, :6], 30.0)
        assert np.allclose(sure[9:, 7], 30.0, rtol=0.01)  # nulls that are there
        assert np.allclose(found.sum(axis=1), TOTAL, atol=0.01)
    assert np.mean(without) > 8
    assert np.mean(there) < 0.3 * np.mean(without)
    assert np.mean(known) < 30
    assert np.mean(errors) < 15


def test_a_column_of_nulls_alone_keeps_its_rows():
    ones = [measured(np.array([0.0, 0.0, 0.0, TOTAL]), 20.0, 4)]
    (found,) = expected_counts(ones, TOTAL, (), {"a": np.array([False, False, True, True])})
    assert found.values[3] > 0.9 * TOTAL
    assert found.values.sum() == pytest.approx(TOTAL)

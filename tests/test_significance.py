"""Numbers that stand out, and means of noisy numbers given all others."""

import numpy as np
import pytest

from fastdp.significance import (
    SURE,
    centre_and_spread,
    chance_distance,
    drawn_towards,
    likeliest,
    posterior_means,
    spread_beyond_noise,
    stand_out_together,
    stands_out,
    threshold,
)


@pytest.mark.parametrize("looks", [1, 100])
def test_false_alarms_are_as_rare_as_stated(looks):
    """Of 4,000 looks at noise alone at most 5 % give an alarm, within four standard errors."""
    largest = np.random.default_rng(looks).normal(size=(4000, looks)).max(axis=1)
    rate = np.mean([stands_out(z, looks) for z in largest])
    assert rate <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.parametrize("looks", [1, 2, 6, 40])
def test_numbers_stand_out_together_as_rarely_as_stated_and_more_often_than_alone(looks):
    """4,000 tables, so a share of .05 has a standard error of .0035; the margin is four of them. Six numbers
    of about 1.5 standard errors stand out together far more often than one of them does."""
    rng = np.random.default_rng(looks)
    noise = rng.standard_normal((4000, looks))
    false = np.mean([stand_out_together(z) for z in noise])
    assert abs(false - 0.05) < 0.014
    together = np.mean([stand_out_together(z + 1.5) for z in noise[:500]])
    alone = stands_out(noise[:500] + 1.5, looks).any(axis=1).mean()
    assert together >= alone
    if looks == 6:
        assert together > alone + 0.15
    assert not stand_out_together(np.full(looks, -4.0)) and stand_out_together(np.full(looks, 6.0))
    assert not stand_out_together(np.empty(0))
    # Of 3,000 numbers the sum of squares is 1,500 by chance, give or take 61; the ways to choose half
    # of them are no float.
    assert stand_out_together(np.ones(3000)) and not stand_out_together(np.full(3000, 0.5))


def test_means_have_less_error_than_the_numbers_and_signals_stay():
    """Numbers of noise alone are drawn to their mean: nine tenths of their squared error goes. A
    few large ones stay within two standard errors of themselves."""
    rng = np.random.default_rng(3)
    truth = np.zeros(200)
    truth[:4] = 40.0
    values = truth + rng.normal(size=200)
    means = posterior_means(values, np.ones(200))
    assert np.square(means - truth)[4:].sum() < 0.1 * np.square(values - truth)[4:].sum()
    assert (np.abs(means - values)[:4] < 2).all()


def test_numbers_without_noise_and_single_ones_stay():
    assert posterior_means(np.array([3.0]), np.array([1.0])) == [3.0]
    np.testing.assert_array_equal(posterior_means([1.0, 5.0], np.zeros(2)), [1.0, 5.0])
    apart = posterior_means([0.0, 1000.0], np.ones(2))
    np.testing.assert_allclose(apart, [0.0, 1000.0], atol=0.5)


def test_numbers_far_from_all_others_are_not_rounded():
    """Numbers many standard errors apart stay within half of one: the grid is fine where they are. A
    grid of 64 values between the ends, as it was once, moved them by up to eight."""
    values = np.random.default_rng(5).uniform(0, 1e5, 40)
    means = posterior_means(values, np.full(40, 100.0))
    apart = np.diff(np.sort(values)).min()
    assert apart < 1e5 / 64
    alone = np.abs(values[:, None] - values + np.diag(np.full(40, 1e9))).min(axis=1) > 800
    assert alone.sum() > 10
    assert np.abs(means - values)[alone].max() <= 50
    assert np.abs(means - values).max() <= threshold(40) * 100


@pytest.mark.parametrize("spread", [0.0, 0.3, 5.0])
def test_numbers_are_drawn_as_far_as_noise_explains_their_differences(spread):
    """Their mean squared error is that of the best linear estimate, which knows the true spread,
    within what estimating one variance from 2,000 numbers costs (four standard errors)."""
    rng = np.random.default_rng(9)
    truth = 10 + np.sqrt(spread) * rng.normal(size=2000)
    variances = rng.uniform(0.5, 2.0, 2000)
    values = truth + np.sqrt(variances) * rng.normal(size=2000)
    error = np.square(drawn_towards(10.0, values, variances) - truth)
    best = np.square(drawn_towards(10.0, values, variances, spread) - truth)
    assert error.mean() <= best.mean() + 4 * np.sqrt(2 / 2000)


@pytest.mark.parametrize("away", [0.5, 2.0, 5.0])
def test_few_numbers_drawn_by_james_and_stein_never_lose(away):
    """300 times three numbers, wherever the centre is: their squared error is at most that of the
    numbers as they are, within four standard errors. By the likeliest spread it is larger, beyond four,
    if the centre is somewhat off."""
    noise = np.random.default_rng(7).standard_normal((300, 3))
    lost = {
        n: [np.square(_drawn(away + e, n) - away).sum() - np.square(e).sum() for e in noise]
        for n in (0, 2)
    }
    assert np.mean(lost[2]) < 4 * np.std(lost[2]) / np.sqrt(300)
    assert away != 2.0 or np.mean(lost[0]) > 4 * np.std(lost[0]) / np.sqrt(300)
    assert spread_beyond_noise(np.full(2, 9.0), np.ones(2), lost=2) == 0.0


def _drawn(y, lost):
    return drawn_towards(0.0, y, 1.0, spread_beyond_noise(y, np.ones(y.size), lost=lost))


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_common_mean_and_the_spread_around_it_are_found_together(spread):
    """150 times six numbers of unequal noise: the spread has no bias (with the degree of freedom that
    the mean costs; without it, a sixth would be missing), and the mean counts precise ones more
    where there is no spread."""
    rng = np.random.default_rng(4)
    variances = np.array([0.2, 0.3, 0.5, 1.0, 2.0, 30.0])
    found = []
    for _ in range(150):
        truth = 7 + np.sqrt(spread) * rng.standard_normal(6)
        found.append(
            centre_and_spread(truth + np.sqrt(variances) * rng.standard_normal(6), variances)
        )
    means, spreads = np.array(found).T
    assert abs(means.mean() - 7) < 4 * means.std() / np.sqrt(150)
    least = 1 / np.sum(1 / (variances + spread))
    assert np.square(means - 7).mean() < 1.3 * least
    if spread:
        assert abs(spreads.mean() - spread) < 4 * spreads.std() / np.sqrt(150)
    assert centre_and_spread(np.array([5.0]), np.array([2.0])) == (5.0, 0.0)


@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0])
def test_a_spread_that_grows_with_the_numbers_is_found(spread):
    """Counts of 1 to 400 with noise of 5, whose true values spread by sqrt(spread) times
    themselves: within four standard errors of what 4,000 of them can tell. The mean of squares,
    which a few large ones decide, is off by more."""
    rng = np.random.default_rng(8)
    centres = np.exp(rng.uniform(0, 6, 4000))
    variances = np.full(4000, 25.0)
    whole = variances + spread * centres**2
    away = rng.normal(size=4000) * np.sqrt(whole)
    error = 1 / np.sqrt(0.5 * np.square(centres**2 / whole).sum())
    found = spread_beyond_noise(away, variances, centres**2)
    assert abs(found - spread) < 4 * error
    assert spread_beyond_noise(np.zeros(0), np.zeros(0)) == 0.0


def test_the_likeliest_spread_has_less_error_than_one_step_of_it():
    """200 counts around priors of 0 to some 5,000, noise of 20: the ratio by moments had followed the
    few largest."""
    rng = np.random.default_rng(9)
    errors = {"moments": 0.0, "likeliest": 0.0}
    for _ in range(40):
        prior = np.exp(rng.normal(2, 2, 200))
        truth = prior * rng.gamma(2.0, 0.5, 200)
        answers = truth + rng.normal(0, 20, 200)
        away = answers - prior
        weight = np.square(prior) / 400**2
        moments = max(0.0, float(weight @ (away**2 - 400) / (weight @ prior**2)))
        ratios = {
            "moments": moments,
            "likeliest": spread_beyond_noise(away, np.full(200, 400.0), prior**2),
        }
        for name, ratio in ratios.items():
            drawn = drawn_towards(prior, answers, 400.0, ratio * prior**2)
            errors[name] += float(np.square(drawn - truth).mean())
    assert errors["likeliest"] < 0.95 * errors["moments"]


def test_numbers_without_noise_are_not_drawn_and_noise_alone_is():
    np.testing.assert_array_equal(drawn_towards(0.0, [3.0, -2.0], 0.0), [3.0, -2.0])
    np.testing.assert_array_equal(drawn_towards(1.0, [1.1, 0.9], 4.0), [1.0, 1.0])
    np.testing.assert_array_equal(drawn_towards(0.0, [0.0], 0.0), [0.0])
    assert threshold(1, 1 / 741) == pytest.approx(SURE, abs=1e-3)


def test_means_keep_to_their_bounds():
    means = posterior_means(np.array([-5.0, 3.0, 90.0]), np.full(3, 2.0), 0.0, 10.0)
    assert means.min() >= 0 and means.max() <= 10


def test_chance_puts_counts_as_far_off_as_drawn_ones():
    """The distance of Poisson counts from their expectation, within two per cent of many rows."""
    expected = np.full(500, 30.0)
    drawn = np.random.default_rng(1).poisson(30.0, (200, 500))
    assert chance_distance(expected) == pytest.approx(
        np.abs(drawn - expected).sum(axis=1).mean(), rel=0.02
    )
    assert chance_distance(np.array([0.0, -1.0])) == 0


def test_noise_beyond_the_bounds_does_not_move_the_mean():
    """Distances of at most 1 under noise of .8: half of the noisy ones lie outside [0, 1]. Their
    means stay at the true mean within four standard errors (the noise of a mean of 800, .028), and
    the largest does not follow noise. Values cut at the bounds, and an ascent that hardly moves
    where noise is large, had put the mean at .36 in place of .15."""
    rng = np.random.default_rng(12)
    truth = 0.15 + 0.05 * rng.uniform(-1, 1, 800)
    means = posterior_means(truth + rng.normal(0, 0.8, 800), np.full(800, 0.8), 0.0, 1.0)
    assert abs(means.mean() - 0.15) <= 4 * 0.8 / np.sqrt(800)
    assert means.max() <= 0.15 + 0.8 / 2


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_the_distribution_found_is_nearly_the_likeliest(noise):
    """No distribution on the grid is likelier by more than two (logarithm): the bound that the
    largest gradient gives (Lindsay), computed here anew from all numbers."""
    rng = np.random.default_rng(4)
    values = rng.exponential(1.0, 300) + noise * rng.normal(size=300)
    grid = np.linspace(0, 5, 80)
    likelihood = np.exp(-np.square((values[:, None] - grid) / noise) / 2)
    prior = likeliest(likelihood, np.ones(300))
    assert prior.sum() == pytest.approx(1)
    gradient = (likelihood / (likelihood @ prior)[:, None]).sum(axis=0)
    assert gradient.max() - 300 <= 2

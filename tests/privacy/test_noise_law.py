"""The laws of the noise, tested statistically on fresh operating-system randomness.

Every test here has a false-alarm rate of at most ALARM = 1e-6, from which each critical value is
derived; the tests are two-sided where the statistic is. Planted bugs show that they can fail.
"""

import mpmath
import numpy as np
import pytest
from scipy import stats

from fastdp.privacy import noise
from tests.tiers import first

ALARM = 1e-6
SCALES = [0.3, 1.0, 7.7, 4500.5, 1e6, 1e12, 1.7e16]
N = 1_000_000
N_SLOW = 10_000_000


def gaussian_cdf(k: np.ndarray, sigma: float) -> np.ndarray:
    """P(K <= k) of the rounded Gaussian."""
    return stats.norm.cdf((np.asarray(k, dtype=float) + 0.5) / sigma)


def laplace_cdf(k: np.ndarray, scale: float) -> np.ndarray:
    """P(K <= k) of the discrete Laplace: e^(k/s)/(1+q) below 0 and 1 - e^(-(k+1)/s)/(1+q) from 0, q
    = e^(-1/s)."""
    k = np.asarray(k, dtype=float)
    q = np.exp(-1.0 / scale)
    below = np.exp(np.minimum(k, 0.0) / scale) / (1.0 + q)
    above = 1.0 - np.exp(-(np.maximum(k, 0.0) + 1.0) / scale) / (1.0 + q)
    return np.where(k < 0, below, above)


LAWS = {
    "gaussian": (noise.gaussian, gaussian_cdf, 4.5),
    "laplace": (noise.laplace, laplace_cdf, 11.0),
}


def chi_square(draws: np.ndarray, cdf, scale: float, reach: float, bins: int = 40):
    """Pearson's statistic over at most `bins` intervals of integers, and its critical value.

    Intervals with fewer than 20 expected draws are merged into their neighbours, so that the
    chi-square law is a good approximation at the far quantile too.
    """
    last = np.floor(reach * scale) + 1
    edges = np.unique(np.round(np.linspace(-last, last, bins - 1)))
    expected = np.diff(np.concatenate([[0.0], cdf(edges, scale), [1.0]])) * draws.size
    place = np.searchsorted(edges, draws, side="left")
    observed = np.bincount(place, minlength=expected.size).astype(float)
    groups = merge(expected, 20.0)
    expected = np.add.reduceat(expected, groups)
    observed = np.add.reduceat(observed, groups)
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    return statistic, float(stats.chi2.isf(ALARM, max(1, expected.size - 1)))


def merge(expected: np.ndarray, least: float) -> np.ndarray:
    """Starts of runs whose expectations reach `least`; what is left over joins the last run."""
    starts = [0]
    total = 0.0
    for i, value in enumerate(expected):
        if total >= least and expected[i:].sum() >= least:
            starts.append(i)
            total = 0.0
        total += value
    return np.array(starts)


def kolmogorov(draws: np.ndarray, cdf, scale: float) -> tuple[float, float]:
    """The Kolmogorov-Smirnov distance over the integers, and the continuous law's critical value.

    For a discrete law the distance is stochastically smaller, so the false-alarm rate is at most
    ALARM.
    """
    values, counts = np.unique(draws, return_counts=True)
    right = np.cumsum(counts) / draws.size
    left = right - counts / draws.size
    distance = max(
        np.max(np.abs(right - cdf(values, scale))), np.max(np.abs(left - cdf(values - 1, scale)))
    )
    return float(distance), float(stats.kstwobign.isf(ALARM) / np.sqrt(draws.size))


SIZES = [(scale, N) for scale in SCALES]
SIZES += [
    pytest.param(scale, N_SLOW, marks=pytest.mark.slow) for scale in (*SCALES, 0.05, 33.3, 1e9)
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale, n", first(3, SIZES))
def test_chi_square_and_kolmogorov_smirnov(law, scale, n):
    draw, cdf, reach = LAWS[law]
    draws = draw(scale, n)
    statistic, critical = chi_square(draws, cdf, scale, reach)
    assert statistic <= critical
    distance, critical = kolmogorov(draws, cdf, scale)
    assert distance <= critical


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("error", first(1, [0.98, 1.02]))
def test_a_scale_wrong_by_two_percent_is_caught(law, scale, error):
    # noncentrality n I 4e-4 (I = 2 and 1): at 2e6 draws above 800, against a critical value near 97
    draw, cdf, reach = LAWS[law]
    statistic, critical = chi_square(draw(scale * error, 2 * N), cdf, scale, reach)
    assert statistic > critical


def exact_gaussian(k: int, sigma: float):
    return mpmath.ncdf((k + 0.5) / mpmath.mpf(sigma)) - mpmath.ncdf((k - 0.5) / mpmath.mpf(sigma))


def exact_laplace(k: int, scale: float):
    q = mpmath.exp(-1 / mpmath.mpf(scale))
    return (1 - q) / (1 + q) * q ** abs(k)


@pytest.mark.parametrize("law, exact", [("gaussian", exact_gaussian), ("laplace", exact_laplace)])
@pytest.mark.parametrize("scale", [0.001, 0.05, 0.3, 1.0])
def test_small_scales_match_the_exact_probabilities(law, exact, scale):
    """Each of the 17 cells by an exact binomial test at ALARM / 17."""
    draws = LAWS[law][0](scale, N)
    for k in range(-8, 9):
        count = int(np.count_nonzero(draws == k))
        with mpmath.workdps(40):
            probability = min(1.0, float(exact(k, scale)))
        low = stats.binom.cdf(count, draws.size, probability)
        high = stats.binom.sf(count - 1, draws.size, probability)
        assert min(low, high) >= ALARM / 17 / 2


def correlation_is_null(x: np.ndarray, y: np.ndarray) -> None:
    """Sample correlation of independent columns is nearly normal with deviation 1/sqrt(n)."""
    r = np.corrcoef(x.astype(float), y.astype(float))[0, 1]
    assert abs(r) * np.sqrt(x.size) <= stats.norm.isf(ALARM / 2) * 1.02


@pytest.mark.parametrize("law", first(1, LAWS))
def test_consecutive_draws_and_chunks_are_independent(law):
    draw = LAWS[law][0]
    x = draw(1000.0, N, threads=2)
    size = np.abs(x)
    for lag in (
        1,
        2,
        3,
        16384,
        32768,
    ):  # 16384: the same place of the next chunk, that is, of another stream
        correlation_is_null(x[:-lag], x[lag:])
        correlation_is_null(np.minimum(size[:-lag], 3000), np.minimum(size[lag:], 3000))
    octile = np.searchsorted(np.quantile(x, np.arange(1, 8) / 8), x)
    table = np.bincount(octile[0:-1:2] * 8 + octile[1::2], minlength=64).reshape(8, 8)
    statistic = stats.chi2_contingency(table).statistic
    assert statistic <= stats.chi2.isf(ALARM, 49)


def test_a_reused_stream_would_be_seen():
    x = noise.gaussian(1000.0, 16384, seed=1)
    planted = np.concatenate([x, noise.gaussian(1000.0, 16384, seed=1)])
    with pytest.raises(AssertionError):
        correlation_is_null(planted[:-16384], planted[16384:])


def impossible(outputs: np.ndarray, other: float) -> int:
    """Released values that the neighbour with count `other` could never give: `other` plus any
    double does not reach them. This is the float-gap attack on noise added in floating point."""
    return int(np.count_nonzero(other + (outputs - other) != outputs))


@pytest.mark.parametrize("sigma_rows", [150.0, 4290.2421])
def test_float_gap_attack_finds_nothing(sigma_rows):
    unit = 2**20
    n = 2_000_000
    drawn = noise.gaussian(sigma_rows * unit, n)
    for x, other in ((0, 150), (150, 0)):
        released = (x * unit + drawn) / unit
        assert impossible(released, float(other)) == 0
        # and exactly: the noise that the neighbour would have needed is an integer within the
        # sampler's support
        needed = drawn + (x - other) * unit
        assert np.array_equal((needed + other * unit) / unit, released)
        assert np.max(np.abs(needed)) <= 14 * sigma_rows * unit


def test_float_gap_attack_breaks_floating_point_noise():
    rng = np.random.default_rng(1)
    planted = 0.0 + rng.normal(0.0, 150.0, 2_000_000)
    assert impossible(planted, 150.0) > 100_000

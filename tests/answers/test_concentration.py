"""The share that the largest users have: bounds that hold wherever users lie in their bins, and
intervals that cover under noise."""

from itertools import pairwise

import numpy as np
import pytest

from fastdp.answers.concentration import top_share

EDGES = [0.0, *(2.0**k for k in range(-3, 17))]


def people(seed, spread=1.5, users=4_000):
    sums = np.random.default_rng(seed).lognormal(3, spread, users)
    counts = np.histogram(sums, EDGES)[0].astype(float)
    largest = np.sort(sums)[::-1]
    return sums, counts, largest[: users // 10].sum() / sums.sum()


def test_without_noise_the_bounds_hold_and_finer_bins_make_them_narrower():
    fine = np.unique([*EDGES, *(e * 2**0.25 for e in EDGES), *(e * 2**0.5 for e in EDGES)])
    for seed, spread in enumerate((0.5, 1.0, 1.5, 2.0)):
        sums, counts, true = people(seed, spread)
        none = np.zeros(len(counts))
        coarse = top_share(counts, none, EDGES, (sums.sum(), 0.0, 0.0), (len(sums), 0.0))
        assert coarse.least <= coarse.low <= true <= coarse.high <= coarse.most
        assert coarse.low <= coarse.estimate <= coarse.high
        assert coarse.high - coarse.low < 0.55 * (coarse.most - coarse.least)
        more = np.histogram(sums, fine)[0].astype(float)
        close = top_share(more, np.zeros(len(more)), fine, (sums.sum(), 0.0, 0.0), (len(sums), 0.0))
        assert close.low <= true <= close.high
        assert close.high - close.low < 0.8 * (coarse.high - coarse.low)


def test_bounds_hold_where_users_have_one_amount_in_a_bin():
    """Everybody in a bin pays its lower edge, or nearly its upper one: the interval of straight densities
    misses, the wider one does not."""
    for sums in (np.repeat([8.0, 64.0], [3600, 400]), np.repeat([15.99, 64.0], [3600, 400])):
        counts = np.histogram(sums, EDGES)[0].astype(float)
        total = (sums.sum(), 0.0, 0.0)
        found = top_share(counts, np.zeros(len(counts)), EDGES, total, (4000.0, 0.0))
        true = np.sort(sums)[-400:].sum() / sums.sum()
        assert found.least <= true + 1e-9 and true - 1e-9 <= found.most
        assert not found.low <= true <= found.high


@pytest.mark.parametrize("shape", ["gamma", "pareto", "uniform"])
def test_straight_densities_are_near_enough_for_sums_of_many_shapes(shape):
    rng = np.random.default_rng(5)
    sums = {
        "gamma": rng.gamma(0.7, 60, 20_000),
        "pareto": 20 * (rng.pareto(2.2, 20_000) + 1),
        "uniform": rng.uniform(0, 300, 20_000),
    }[shape]
    counts = np.histogram(sums, EDGES)[0].astype(float)
    total = (sums.sum(), 0.0, 0.0)
    found = top_share(counts, np.zeros(len(counts)), EDGES, total, (20_000.0, 0.0))
    assert found.low <= np.sort(sums)[-2000:].sum() / sums.sum() <= found.high


@pytest.mark.slow
def test_intervals_cover_where_counts_and_the_total_are_noisy():
    """Bins alone make the interval wide, so it covers more often than in 95 %."""
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(1_000 + seed)
        sums, counts, true = people(seed)
        error = np.full(len(counts), 25.0)
        noisy = counts + error * rng.standard_normal(len(counts))
        total = sums.sum() * (1 + 0.02 * rng.standard_normal())
        found = top_share(
            noisy,
            error,
            EDGES,
            (total, 0.02 * sums.sum(), 0.02 * sums.sum()),
            (len(sums) + 9.0, 9.0),
        )
        held += found.low <= true <= found.high
    assert held >= 54
    assert found.high - found.low < 0.5


def test_more_users_have_more_and_all_of_them_everything():
    sums, counts, _ = people(3)
    none = np.zeros(len(counts))
    shares = [
        top_share(counts, none, EDGES, (sums.sum(), 0.0, 0.0), (4_000.0, 0.0), part)
        for part in (0.05, 0.2, 0.9)
    ]
    assert all(a.estimate < b.estimate for a, b in pairwise(shares))
    assert shares[-1].high <= 1.0 and shares[0].low > 0.05


def test_no_part_of_the_users_has_less_than_that_part_of_the_total():
    """Wide bins and an uncertain total had given the largest tenth 9 % of the total, from 0 % on."""
    sums, _, true = people(3, spread=0.2)
    edges = [0.0, 16.0, 4096.0]
    counts = np.histogram(sums, edges)[0].astype(float)
    found = top_share(
        counts, np.full(2, 9.0), edges, (sums.sum(), sums.sum() / 4, sums.sum() / 4), (4_000.0, 9.0)
    )
    assert 0.1 <= found.low <= found.estimate <= found.high
    assert found.low <= true <= found.high


def test_sums_lie_evenly_by_their_logarithm_inside_bins():
    """Log-uniform sums in octaves. In the middle of its bin each would have 4 % more, and the largest
    tenth a fifth less of the total than it has. Bins that start at 0 keep their middle."""
    rng = np.random.default_rng(8)
    sums = np.exp2(rng.uniform(0, 12, 50_000))
    edges = [0.0, *2.0 ** np.arange(13)]
    counts = np.histogram(sums, edges)[0].astype(float)
    found = top_share(counts, np.zeros(13), edges, (sums.sum(), 0.0, 0.0), (len(sums), 0.0))
    truth = np.sort(sums)[-5000:].sum() / sums.sum()
    assert abs(found.estimate - truth) < 0.01


def test_users_whom_noise_hides_may_have_most_of_the_total():
    """The total has an upper end for them, and so has the share. With the lower side's noise alone (planted)
    it misses a hundred users who have two thirds of the total."""
    sums, counts, _ = people(3, spread=0.5)
    hidden = 2 * sums.sum()
    true = (np.sort(sums)[::-1][:300].sum() + hidden) / (sums.sum() + hidden)
    seen = (sums.sum(), 0.01 * sums.sum())
    errors = np.full(len(counts), 9.0)
    found = top_share(counts, errors, EDGES, (*seen, 1.1 * sums.sum()), (4_000.0, 9.0))
    planted = top_share(counts, errors, EDGES, (*seen, seen[1]), (4_000.0, 9.0))
    assert planted.high < true <= found.high
    assert found.low == pytest.approx(planted.low, abs=0.02)


def test_the_largest_users_have_what_is_seen_of_them():
    """Clinic bills of 8,000 people at the noise of epsilon 1. From the others' sum alone, whose low bins are
    uncertain, the lower end was .24 to .28 below the truth; users who are seen in bins of large sums
    have at least that much. Few and noisy bins beyond them (planted users of noise) add nothing."""
    rng = np.random.default_rng(7)
    edges = np.array([0, *(5 * 2.0 ** np.arange(15))])
    below, held = [], 0
    for _ in range(20):
        sums = rng.gamma(0.6, 120.0, 8_000) * (1 + rng.poisson(2, 8_000))
        users = np.histogram(sums, edges)[0] + 55 * rng.standard_normal(len(edges) - 1)
        true = np.sort(sums)[-800:].sum() / sums.sum()
        total = (float(sums.sum()), 0.03 * sums.sum(), 0.03 * sums.sum())
        found = top_share(users, np.full(len(users), 55.0), edges, total, (8_000.0, 55.0))
        below.append(true - found.low)
        held += found.low <= true <= found.high and found.least <= true <= found.most
    assert np.median(below) < 0.23 and held >= 18

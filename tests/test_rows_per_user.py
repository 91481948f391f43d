"""The posterior of rows per user: what it assumes, against slow twins, and how often it holds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.errors import UsageError
from fastdp.rows_per_user import (
    RowsPosterior,
    _nonnegative,
    last_bin,
    last_run,
    last_users,
    mean_rows,
    places,
    runs_of,
    size_edges,
    standing_bar,
)

COUNTS = st.lists(st.floats(-40, 120), min_size=1, max_size=20)


@given(COUNTS, st.floats(0.5, 30))
def test_users_end_where_the_last_sum_stands_out(values, sigma):
    """Against the definition: of the runs of bins that stand out, the one that starts last, and of
    those the shortest, says where users end."""
    n = len(values)
    bar = sigma * math.sqrt(2 * math.log(20 * max(n * (n + 1) // 2, 2)))
    runs = [(k, j) for k in range(n) for j in range(k, n)]
    sums = {(k, j): math.fsum(values[k : j + 1]) - bar * math.sqrt(j - k + 1) for k, j in runs}
    if min(map(abs, sums.values())) > 1e-6:
        out = [(-k, j) for (k, j), above in sums.items() if above > 0]
        assert last_bin(values, sigma) == (min(out)[1] if out else -1)


def slow_last_run(values, errors):
    """Every start, from the last one on, with every end."""
    bar = standing_bar(values.size)
    for k in reversed(range(values.size)):
        above = np.cumsum(values[k:])
        found = np.flatnonzero(above > bar * np.sqrt(np.cumsum(np.square(errors[k:]))))
        if len(found):
            return k, k + int(found[0])
    return -1, -1


def test_users_with_thousands_of_rows_have_to_be_clearer_than_others():
    """A false run at 6,144 rows would be a thousand times the rows of 300 users. At 12 rows the same
    run is taken, and at 6,144 a clearer one."""
    edges = size_edges(8192)
    values = np.zeros(len(edges))
    values[0] = 300.0
    bar = standing_bar(len(edges))
    for rows, above, taken in ((12, 1.5, True), (6144, 1.1, False), (6144, 1.5, True)):
        at = edges.index(rows)
        some = values.copy()
        some[at] = 20 * bar * above
        assert last_bin(some, 20.0) == at
        assert (last_users(some, 20.0, edges, 8192) == at) == taken


@given(
    cells=st.integers(1, 400),
    length=st.integers(1, 500),
    part=st.floats(0.8, 1.2),
    noisy=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_starts_that_are_left_out_begin_no_run_that_stands_out(cells, length, part, noisy, seed):
    """Equal cells of which so many together reach the bar, but for a part: each start is nearly one."""
    rng = np.random.default_rng(seed)
    errors = rng.uniform(0.5, 2.0, cells)
    errors[rng.random(cells) < 0.1] = 0.0
    values = np.full(cells, part * standing_bar(cells) / math.sqrt(length))
    values += noisy * rng.normal(0, 1, cells) * errors
    assert last_run(values, errors) == slow_last_run(values, errors)


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 40))
def test_inside_a_bin_the_share_of_users_is_linear_in_the_logarithm(low, more):
    """Bins are at most an octave wide; the twin integrates 1 / r over the whole numbers."""
    high = low + 1 + more % low
    found = runs_of(low, high)
    assert math.fsum(part for _, part in found) == pytest.approx(1)
    assert low <= found[0][0] <= found[-1][0] <= high - 1
    mean = math.fsum(rows * part for rows, part in found)
    if high - low < 4096:
        numbers = np.arange(low, high)
        twin = numbers @ np.log1p(1 / numbers) / math.log(high / low)
    else:
        twin = (high - low) / math.log(high / low) - 0.5
    assert mean == pytest.approx(twin, rel=2e-3)


def test_drawn_rows_have_the_means_of_their_bins():
    edges = np.array(size_edges(1000))
    ends = np.append(edges[1:], 1001)
    codes = np.repeat(np.arange(len(edges)), 4001)
    uniform = np.tile(np.linspace(0, 1, 4001, endpoint=False), len(edges))
    rows = places(codes, edges, ends, uniform).reshape(len(edges), -1)
    assert (rows.min(1) == edges).all() and (rows.max(1) == ends - 1).all()
    assert np.allclose(rows.mean(1), mean_rows(edges, 1000), rtol=5e-3)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_the_least_squares_solution_with_signs_is_that_of_scipy(seed, n):
    from scipy.optimize import nnls

    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n + 3, n))
    answers = rng.normal(size=n + 3)
    found = _nonnegative(half.T @ half, half.T @ answers)
    assert np.allclose(found, nnls(half, answers)[0], atol=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=14, max_size=14), st.floats(1e-3, 1e5))
@settings(max_examples=40, deadline=None)
def test_hostile_histograms_give_a_distribution(values, sigma):
    edges = size_edges(150)
    found = RowsPosterior.of(edges, values, sigma, 150, limit=1 << 14)
    sizes, users = found.points()
    assert all(1 <= r <= 1 << 14 for r in sizes) and all(0 <= n < math.inf for n in users)
    assert (found.by_bin() >= 0).all() and found.error(mean_rows(edges, 150)) >= 0
    assert found.rows(tail=False) <= found.rows() < math.inf
    tail = found.tail
    assert 0 <= tail.rows <= tail.most_rows * (1 + 1e-9) + 1e-9


def test_a_histogram_of_another_bound_is_refused():
    with pytest.raises(UsageError, match="expected 5 bins"):
        RowsPosterior.of(size_edges(7), [1.0, 2.0], 1.0, 7)


def test_nothing_depends_on_the_last_bits():
    """A statement is verified on other machines: numbers that differ in their last bits give the
    same sizes, and users that differ as little."""
    rng = np.random.default_rng(4)
    edges = size_edges(1 << 14)
    exact = 4000 * 0.8 ** np.arange(len(edges))
    for _ in range(30):
        values = exact + rng.normal(0, 30, len(edges))
        near = values * (1 + rng.normal(0, 1e-14, len(edges)))
        (sizes, users), (sizes_too, users_too) = (
            RowsPosterior.of(edges, v, 30.0, 1 << 14).points() for v in (values, near)
        )
        assert sizes == sizes_too and np.allclose(users, users_too, rtol=1e-9, atol=1e-9)


SHAPES = {
    "geometric": lambda rng: rng.geometric(1 / 12, 6000),
    "panel": lambda rng: np.full(6000, 17),
    "pareto": lambda rng: np.minimum(np.ceil(3 * rng.random(6000) ** (-1 / 1.8)), 1 << 14),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_number_of_rows_is_found_with_its_tail(shape):
    """Noise of epsilon 1. The planted bug: without the tail, the rows of the Pareto table are a
    fifth too few in most draws; the tail adds next to nothing to a panel."""
    rng = np.random.default_rng(7)
    edges = size_edges(1 << 14)
    off = []
    without = []
    inside = 0
    for _ in range(40):
        rows = SHAPES[shape](rng).astype(np.int64)
        counts = np.bincount(np.searchsorted(edges, rows, "right") - 1, minlength=len(edges))
        found = RowsPosterior.of(edges, counts + rng.normal(0, 26, len(edges)), 26.0, 1 << 14)
        total = rows.sum()
        off.append(found.rows() / total - 1)
        without.append(found.rows(tail=False) / total - 1)
        inside += found.rows(tail=False) - 0.2 * total <= total
        highest = (
            found.rows(tail=False)
            + found.tail.most_rows
            + 2 * found.error(mean_rows(edges, 1 << 14))
        )
        inside += total <= 1.16 * highest
    if shape == "pareto":
        assert abs(np.median(off)) < 0.1 < abs(np.median(without))
    if shape == "geometric":
        assert abs(np.median(off)) < 0.06
    if shape == "panel":
        assert np.median(np.subtract(off, without)) < 0.02
    assert inside >= 72, "of 80 ends, one of the two of an interval each"


def test_a_tail_that_noise_leaves_open_is_not_invented():
    """2,400 users at epsilon 1, few of whom have many rows. The planted bug: with the median of the
    likely tails, numbers of rows are off by .3 in the mean, and once by a factor of five."""
    rng = np.random.default_rng(7)
    edges = size_edges(1 << 14)
    off = []
    for _ in range(100):
        rows = np.ceil(rng.lognormal(1.1, 1.1, 2_400)).astype(np.int64)
        counts = np.bincount(np.searchsorted(edges, rows, "right") - 1, minlength=len(edges))
        found = RowsPosterior.of(edges, counts + rng.normal(0, 26, len(edges)), 26.0, 1 << 14)
        off.append(found.rows() / rows.sum() - 1)
    assert np.abs(off).mean() < 0.2 and max(off) < 1


def test_ids_are_dealt_where_no_user_stands_out():
    """A histogram of noise alone once stopped a charged run by a division by 0."""
    from types import SimpleNamespace

    from fastdp.measurement import Measurement
    from fastdp.public.ids import deal_by_size
    from fastdp.run.id_source import id_source

    values = np.where(np.arange(len(size_edges(64))) % 2, 3.0, -3.0)
    outcome = SimpleNamespace(
        owners=None, counts=None, dealer=None, users=Measurement("n", values, 40.0)
    )
    schema = SimpleNamespace(user="id", max_rows_per_user=64)
    own = SimpleNamespace(ids=SimpleNamespace(source="private", columns=None), clip=8)
    source = id_source(schema, outcome, own, None)
    owner, users = deal_by_size(500, source.sizes, source.users, seed=1)
    assert len(owner) == 500 and users > 1

"""The estimate from many marginals: the least-squares one, with the covariance that its noise
has."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from scipy import sparse

from fastdp.answers.best_linear import estimate
from fastdp.answers.evidence import Contrast, Marginal, marginals_of
from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.code_compression import merge_outside
from fastdp.queries import AdaGrid, Binned, Grid

from ..tiers import slow_cases

SIZES = {"a": 4, "b": 3, "c": 2}


def noisy(rng, truth, axes, maps=(), sigma=None):
    """A marginal of `truth` (an array over a, b, c) over `axes`, codes grouped by `maps`, with its
    noise."""
    x = np.einsum(truth.astype(float), [0, 1, 2], [list(SIZES).index(a) for a in axes])
    full = tuple(np.arange(SIZES[a]) for a in axes)
    sigma = rng.uniform(0.5, 3) if sigma is None else sigma
    m = Marginal(tuple(axes), full, x, np.full(x.shape, sigma**2))
    for i, a in enumerate(axes):
        if a in maps:
            m = m.grouped(i, maps[a], int(maps[a].max()) + 1)
    m = Marginal(m.axes, m.maps, m.values, np.full(m.values.shape, sigma**2))
    return Marginal(m.axes, m.maps, m.values + rng.normal(size=m.values.shape) * sigma, m.variances)


def least_squares(marginals, wanted, target):
    """The slow twin: one dense row per answer about sums of wanted cells, normal equations,
    inverse."""
    shape = [int(t.max()) + 1 for t in target]
    rows = []
    answers = []
    variances = []
    grid = np.indices([SIZES[a] for a in wanted]).reshape(len(wanted), -1)
    cell = np.ravel_multi_index([target[i][grid[i]] for i in range(len(wanted))], shape)
    for m in marginals:
        part = tuple(a for a in wanted if a in m.axes)
        s = m.summed(part)
        places = [s.maps[i][grid[wanted.index(a)]] for i, a in enumerate(part)]
        at = np.ravel_multi_index(places, s.values.shape) if part else np.zeros(len(cell), int)
        # Only answers that are sums of whole cells of the target; finer ones are summed to it.
        joined = {}
        for c, r in zip(cell, at):
            joined.setdefault(int(r), set()).add(int(c))
        owner = {}
        for r, cells in joined.items():
            owner.setdefault(frozenset(cells), []).append(r)
        for cells, rs in owner.items():
            row = np.zeros(int(np.prod(shape)))
            row[list(cells)] = 1
            rows.append(row)
            answers.append(s.values.reshape(-1)[rs].sum())
            variances.append(s.variances.reshape(-1)[rs].sum())
    a = np.array(rows)
    y = np.array(answers)
    r = np.array(variances)
    information = a.T @ (a / r[:, None])
    covariance = np.linalg.inv(information)
    return covariance @ a.T @ (y / r), covariance


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_it_is_the_least_squares_estimate_with_its_covariance(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 50, tuple(SIZES.values()))
    maps = {"a": np.array([0, 1, 2, 2])}
    sets = [("a", "b"), ("b", "a"), ("a", "b", "c"), ("a",), ("b",), ("c",), ("b", "c"), ("a", "c")]
    chosen = [("a", "b"), *(sets[i] for i in rng.choice(len(sets), 4))]
    found = [noisy(rng, truth, s, maps if rng.random() < 0.5 else ()) for s in chosen]
    wanted = [("a", "b"), ("b", "a"), ("a",), ("b",)][rng.integers(4)]
    table = estimate(found, wanted)
    x, covariance = least_squares(found, wanted, table.maps)
    np.testing.assert_allclose(table.x, x, rtol=1e-8, atol=1e-8)
    weights = sparse.csr_array(rng.normal(size=(5, x.size)))
    less = rng.normal(size=5)
    dense = weights.toarray() - less[:, None]
    for w, got in (
        (weights.toarray(), table.variances(weights)),
        (dense, table.variances(weights, less)),
    ):
        np.testing.assert_allclose(
            got, np.einsum("ij,jk,ik->i", w, covariance, w), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("scaled", [False, True])
def test_variances_of_cells_are_the_same_by_sparse_and_by_dense_sums(monkeypatch, scaled):
    """Of large tables, few products for each cell take the place of a triangular system. One sum
    has no cell of its own, and one cell no noise."""
    rng = np.random.default_rng(7)
    truth = rng.integers(0, 50, tuple(SIZES.values()))
    sets = [("a", "b", "c"), ("a",), ("b",), ("b", "c"), ()]
    found = [
        noisy(rng, truth, s, {"a": np.array([0, 1, 2, 2])} if s == ("a",) else ()) for s in sets
    ]

    def variances():
        table = estimate(found, ("a", "b", "c"))
        if scaled:
            factors = rng.uniform(0, 2, table.x.size)
            factors[3] = 0.0
            table = table.scaled(factors, 1.3)
        return table.cell_variances(), table.variances(sparse.csr_array(np.eye(table.x.size)))

    dense, by_functional = variances()
    np.testing.assert_allclose(dense, by_functional, rtol=1e-10)
    monkeypatch.setattr("fastdp.answers.best_linear.FEW", 0)
    sums, by_functional = variances()
    np.testing.assert_allclose(sums, by_functional, rtol=1e-8, atol=1e-12)
    if not scaled:
        np.testing.assert_allclose(sums, dense, rtol=1e-8)


def signed(rng, truth, axes, sigma):
    """A contrast of a table of two by two by two."""
    x = truth.sum(axis=tuple(i for i, a in enumerate("abc") if a not in axes))
    maps = (np.array([0, 1]),) * len(axes)
    one = Contrast(tuple(axes), maps, 0.0, sigma**2)
    return replace(one, value=float((one.signs * x).sum() + sigma * rng.normal()))


@pytest.mark.parametrize("wanted", ["a", "ab", "ba", "abc"])
def test_contrasts_are_rows_of_the_least_squares(wanted):
    """1-ways and contrasts of all sets, by hand: one row for each cell of a 1-way, and one of signs
    for each contrast. The planted bug: with a sign turned round the estimate is another."""
    rng = np.random.default_rng(5)
    truth = rng.integers(50, 400, (2, 2, 2)).astype(float)
    axes = {a: i for i, a in enumerate("abc")}
    ones = []
    for a, i in axes.items():
        x = truth.sum(axis=tuple(j for j in range(3) if j != i))
        ones.append(Marginal((a,), (np.arange(2),), x + rng.normal(size=2), np.ones(2)))
    sets = ["a", "ab", "bc", "ac", "abc"]
    contrasts = {frozenset(c): signed(rng, truth, c, 3.0) for c in sets}
    found = estimate(ones, tuple(wanted), contrasts)
    index = np.indices((2,) * len(wanted)).reshape(len(wanted), -1)
    rows, answers, variances = [], [], []
    for one in ones:
        (a,) = one.axes
        if a in wanted:
            rows += [index[wanted.index(a)] == code for code in (0, 1)]
            answers += one.values.tolist()
            variances += [1.0, 1.0]
        else:
            rows.append(np.ones(index.shape[1]))
            answers.append(one.values.sum())
            variances.append(2.0)
    for c in contrasts.values():
        if set(c.axes) <= set(wanted):
            rows.append(np.prod([1 - 2 * index[wanted.index(a)] for a in c.axes], axis=0))
            answers.append(c.value)
            variances.append(c.variance)
    matrix = np.array(rows, float)
    weight = 1 / np.array(variances)
    covariance = np.linalg.inv(matrix.T * weight @ matrix)
    expected = covariance @ (matrix.T * weight @ np.array(answers))
    assert found.x == pytest.approx(expected, abs=0.05)
    assert found.cell_variances() == pytest.approx(np.diag(covariance), rel=1e-3)
    turned = {k: replace(c, value=-c.value) for k, c in contrasts.items()}
    assert estimate(ones, tuple(wanted), turned).x != pytest.approx(expected, abs=1.0)


def test_codes_without_a_sign_have_at_most_their_own_rows():
    """A third code, of 30 rows by its 1-way, has the sign 0. The truth of each cell lies within its
    error, which grows by what those 30 rows may hide and no more. The planted bug: with a third code of
    3,000 rows, contrasts say next to nothing of the cells."""
    truth = np.array([[4000.0, 1000.0, 10.0], [500.0, 3000.0, 12.0], [6.0, 2.0, 0.0]])
    codes = np.arange(3)
    few, many = 1.0, 300.0
    errors = {}
    for times in (few, many):
        table = truth * np.where(np.outer([1, 1, 0], [1, 1, 0]), 1.0, times)
        ones = [
            Marginal((a,), (codes,), table.sum(axis=1 - i), np.full(3, 100.0))
            for i, a in enumerate("ab")
        ]
        none = Contrast(("a", "b"), (codes, codes), 0.0, 100.0)
        pair = replace(none, value=float((none.signs * table).sum()))
        assert none.signs.tolist() == [[1, -1, 0], [-1, 1, 0], [0, 0, 0]]
        found = estimate(ones, ("a", "b"), {frozenset("ab"): pair})
        errors[times] = np.sqrt(found.cell_variances()).reshape(3, 3)
        assert (np.abs(found.x.reshape(3, 3) - table) <= 2 * errors[times]).all()
    assert errors[few][:2, :2].max() < 20
    assert errors[many][:2, :2].min() > 200


def test_a_set_whose_contrasts_are_not_all_there_has_no_estimate():
    rng = np.random.default_rng(5)
    truth = rng.integers(50, 400, (2, 2, 2)).astype(float)
    ones = [Marginal((a,), (np.arange(2),), np.full(2, 100.0), np.ones(2)) for a in "abc"]
    contrasts = {frozenset(c): signed(rng, truth, c, 3.0) for c in ("ab", "bc", "abc")}
    assert estimate(ones, ("a", "b"), contrasts) is not None
    assert estimate(ones, ("a", "c"), contrasts) is None
    assert estimate(ones, ("a", "b", "c"), contrasts) is None


def test_the_total_follows_from_everything():
    """40 with variance 4 and 48 with variance 12."""
    ones = (("a", 4, 10.0, 1.0), ("b", 3, 16.0, 4.0))
    table = estimate(
        [Marginal((a,), (np.arange(n),), np.full(n, x), np.full(n, v)) for a, n, x, v in ones], ()
    )
    assert (table.x[0], table.variances(sparse.csr_array([[1.0]]))[0]) == pytest.approx((42.0, 3.0))


def test_measurements_are_read_by_their_partition():
    """Merged codes are known by the number of cells, bins and AdaGrid's single cells by the
    query."""
    domain = Domain({"a": 4, "b": 3})
    codes = {"a": np.array([0, 1, 1, 1])}
    values = np.arange(6.0)
    merged = Measurement(("a", "b"), values, 1.0)
    whole = Measurement(("a",), np.arange(4.0), 1.0)
    binned = Measurement(("b",), np.arange(2.0), 1.0, Binned([3], [np.array([0, 0, 1])]))
    children = (Grid(("a",), (4,), np.arange(4)), Grid(("b",), (3,), np.arange(3)))
    grid = AdaGrid(Grid(("a", "b"), (4, 3), np.array([5, 7]), children))
    fine = Measurement(("a", "b"), np.arange(float(grid.rows)), 1.0, grid)
    users = Measurement(("users by RowsPerUser",), np.ones(3), 1.0)
    got = marginals_of([merged, whole, binned, fine, users], domain, codes)
    assert [m.values.shape for m in got] == [(2, 3), (4,), (2,), (4, 3)]
    assert got[0].maps[0].tolist() == [0, 1, 1, 1] and got[2].maps[0].tolist() == [0, 0, 1]
    assert np.isfinite(got[3].variances).sum() == 2
    assert got[3].values.reshape(-1)[[5, 7]].tolist() == [0.0, 1.0]
    assert not got[3].complete and estimate(got[3:], ("a", "b")).known.sum() == 2


@pytest.mark.parametrize("told", [True, False])
def test_merging_by_noise_does_not_move_sums(told):
    """Of 40 codes at the limit noise decides which share a code with 40 empty ones. If all sums of
    merged codes counted, rows of the first 40 would go to the others."""
    rng = np.random.default_rng(6)
    truth = np.repeat([90.0, 0.0], 40)
    z = []
    first = sparse.csr_array((truth > 0).astype(float)[None, :])
    for _ in range(100):
        ones = Measurement(("a",), truth + rng.normal(0, 30, 80), 30.0)
        codes = merge_outside(ones.values >= 90)
        pair = np.repeat(np.bincount(codes, truth) / 2, 2)
        pair = Measurement(("a", "b"), pair + rng.normal(0, 10, pair.size), 10.0)
        found = marginals_of([ones, pair], Domain({"a": 80, "b": 2}), {"a": codes})
        table = estimate([m if told else replace(m, unsure={}) for m in found], ("a",))
        z.append((first @ (table.x - truth))[0] / np.sqrt(table.variances(first)[0]))
    assert (abs(np.mean(z)) < 0.45) == told, "4.5 standard errors of the mean"


REPLICATES = 800
TOLERANCE = 4.5 * np.sqrt(0.95 * 0.05 / REPLICATES)
"""A false alarm in one of a few hundred thousand runs: one cell of each replicate is looked at."""


def covered(scale):
    """How often a 95 % interval of a cell holds its truth, if the stated noise is `scale` times the
    true."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 50, tuple(SIZES.values()))
    pair = truth.sum(2).reshape(-1)
    hits = 0
    for i in range(REPLICATES):
        found = [noisy(rng, truth, s, sigma=2.0) for s in (("a", "b"), ("a",), ("b", "c"))]
        found = [Marginal(m.axes, m.maps, m.values, m.variances * scale**2) for m in found]
        table = estimate(found, ("a", "b"))
        cell = i % pair.size
        weights = sparse.csr_array(np.eye(pair.size)[[cell]])
        hits += abs(table.x[cell] - pair[cell]) <= 1.96 * np.sqrt(table.variances(weights)[0])
    return hits / REPLICATES


@pytest.mark.parametrize(("scale", "right"), [(1.0, True), *slow_cases((0.8, False), (1.3, False))])
def test_intervals_cover_at_their_level_and_wrong_noise_would_be_seen(scale, right):
    assert (abs(covered(scale) - 0.95) < TOLERANCE) == right

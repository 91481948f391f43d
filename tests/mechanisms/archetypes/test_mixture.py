"""The mixture: weights are repetitions, densities follow the formula, scikit-learn agrees."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp._core import draw as core
from fastdp.mechanisms.archetypes import conditional, mixture
from fastdp.mechanisms.archetypes.conditional import Groups, Link
from tests.reference import archetypes as twin


def blobs(seed=0, rows=3000):
    """Three clusters of whole-number points in three dimensions, as distinct points and counts."""
    rng = np.random.default_rng(seed)
    centres = np.array([[5, 5, 60], [30, 40, 10], [60, 10, 35]])
    points = np.rint(centres[rng.integers(0, 3, rows)] + rng.normal(0, 3, (rows, 3))).astype(int)
    distinct, counts = np.unique(points, axis=0, return_counts=True)
    return points, distinct, counts


def test_likelihood_never_falls_and_clusters_are_found():
    _, distinct, counts = blobs()
    share = counts / counts.sum()
    x = (distinct - share @ distinct) / 10.0
    phi = mixture.monomials(x)
    rng = np.random.default_rng(3)
    state = mixture.maximise(phi, share, rng.dirichlet(np.ones(4), len(x)), np.zeros((3, 3)))
    last = -np.inf
    for _ in range(30):
        state, now = mixture.climb(phi, share, state, np.zeros((3, 3)), 0.0, 1)
        assert now >= last - 1e-9
        last = now
    fitted = mixture.fit(distinct, counts, 3)
    assert np.allclose(np.sort(fitted.weights), 1 / 3, atol=0.03)


@pytest.mark.slow
def test_the_mixture_is_as_likely_as_that_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.mixture")
    rows, distinct, counts = blobs(4)
    ours = mixture.fit(distinct, counts, 3, floor=1e-6, tol=1e-8)
    scaled = ours.standardised(rows)
    peer = sklearn.GaussianMixture(3, random_state=0, tol=1e-8, max_iter=500).fit(scaled)
    shift = np.log(ours.spread).sum()
    mean = float(counts @ ours.log_density(distinct) / counts.sum())
    assert mean + shift == pytest.approx(peer.score(scaled), abs=1e-5)
    same = mixture.Mixture(ours.centre, ours.spread, peer.weights_, peer.means_, peer.covariances_)
    assert (same.labels(rows) == peer.predict(scaled)).all()
    assert np.allclose(same.log_density(rows) + shift, peer.score_samples(scaled))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_ragged_cases_give_numbers_and_labels_in_range(size):
    """Fewer points than components, a constant column, a single point: no NaN, every label in
    range."""
    for points in ([[3, 3]], [[0, 7], [1, 7]], [[0, 0], [0, 1], [5, 0]]):
        fitted = mixture.fit(np.array(points), np.arange(1, len(points) + 1), size)
        assert np.isfinite(fitted.log_density(points)).all()
        assert fitted.weights.sum() == pytest.approx(1)
        assert set(fitted.labels(points)) <= set(range(size))


# Draws from groups against a slow twin; fallbacks where public data saw nothing.


@settings(deadline=None, max_examples=30)
@given(
    tables=st.lists(
        st.lists(st.integers(1, 2**40), min_size=1, max_size=9), min_size=1, max_size=6
    ),
    seed=st.integers(0, 2**32),
)
def test_draws_equal_the_twin(tables, seed):
    rng = np.random.default_rng(seed)
    counts = np.concatenate(tables).astype(np.int64)
    start = np.cumsum([0, *map(len, tables)])
    values = rng.integers(0, 2**32, counts.size, dtype=np.uint32)
    groups = Groups(np.arange(len(tables)), start, values, counts)
    wanted = rng.integers(0, len(tables), 50)
    uniform = rng.random(50)
    uniform[:2] = 0.0, np.nextafter(1.0, 0.0)
    drawn = core.draw(start, groups.running_sums, values, wanted, uniform)
    assert drawn.tolist() == twin.draw(start, counts, values, wanted, uniform)


@pytest.mark.parametrize("group", [[-1], [1], [2**40]])
def test_a_group_that_is_not_there_is_refused(group):
    with pytest.raises(ValueError, match="out of range"):
        Groups.of(np.arange(3), np.ones(3, int), 3).draw(np.array(group), np.random.default_rng(0))


def make_link(rows, levels, shapes, target, width):
    tables = []
    for level, shape in zip(levels, shapes):
        cells = np.array(
            [
                np.ravel_multi_index((*[r[c] for c in level], r[target]), (*shape, width))
                for r in rows
            ]
        )
        tables.append(Groups.of(*np.unique(cells, return_counts=True), width))
    return Link(target, levels, shapes, tuple(tables))


@pytest.mark.parametrize("dense", [1 << 24, 0])
def test_fallbacks_follow_the_levels(dense, monkeypatch):
    monkeypatch.setattr(conditional, "DENSE", dense)
    rng = np.random.default_rng(1)
    rows = [
        {"a": int(a), "b": int(b), "t": int(t)} for a, b, t in rng.integers(0, [4, 3, 5], (12, 3))
    ]
    rows = [r for r in rows if r["a"] != 3 and (r["a"], r["b"]) != (0, 0)]
    levels = (("a", "b"), ("b",), ())
    shapes = ((4, 3), (3,), ())
    link = make_link(rows, levels, shapes, "t", 5)
    slow = twin.conditional(rows, levels, "t")
    a, b = (np.repeat(g.ravel(), 400).astype(np.uint32) for g in np.meshgrid(range(4), range(3)))
    values = link.draw({"a": a, "b": b}, a.size, np.random.default_rng(2))
    for i in range(4):
        for j in range(3):
            keys = [(i, j), (j,), ()]
            level = next(k for k in range(3) if keys[k] in slow[k])
            drawn = set(values[(a == i) & (b == j)].tolist())
            assert drawn == set(slow[level][keys[level]]), (i, j, level)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4))
def test_means_find_clusters_that_lie_far_apart(seed, clusters, columns):
    """With as many means as clusters, every cluster is one label. With more, only points of one
    cluster share a label. No point is nearer to another label's mean than to its own."""
    rng = np.random.default_rng(seed)
    cluster = rng.permutation(np.repeat(np.arange(clusters), rng.integers(1, 5, clusters)))
    x = 1e6 * cluster[:, None] + rng.random((len(cluster), columns))
    share = rng.dirichlet(np.ones(len(cluster)))
    for size in (clusters, clusters + 2):
        label = mixture.kmeans(x, share, size, rng)

        labels = set(label)
        assert all(len(set(cluster[label == k])) == 1 for k in labels)
        assert len(labels) == clusters if size == clusters else len(labels) >= clusters
        means = {k: np.average(x[label == k], axis=0, weights=share[label == k]) for k in labels}
        for point, k in zip(x, label):
            nearest = min(np.linalg.norm(point - mean) for mean in means.values())
            assert np.linalg.norm(point - means[k]) <= nearest + 1e-3

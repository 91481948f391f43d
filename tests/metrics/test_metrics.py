"""The other scores against their slow twins, and what must hold for each."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.errors import UsageError
from fastdp.metrics import coverage, kmarginal, pairwise, utility
from fastdp.metrics import total_variation as distance
from fastdp.metrics.challenges import sprint1
from fastdp.metrics.inputs import pair_up
from tests.reference import scores as slow


def frames(seed: int, rows=(300, 200)) -> list[pd.DataFrame]:
    rng = np.random.default_rng(seed)
    out = []
    for n in rows:
        a = rng.integers(0, 4, n)
        out.append(
            pd.DataFrame(
                {
                    "a": a,
                    "b": (a + rng.integers(0, 2, n)) % 4,
                    "c": rng.choice(["x", "y", "z"], n),
                    "d": rng.integers(0, 7, n),
                }
            )
        )
    return out


@given(st.integers(0, 10_000), st.integers(1, 80), st.integers(1, 80))
@settings(max_examples=15, deadline=None)
def test_kmarginal_is_the_mean_of_total_variations(seed, n, m):
    truth, synthetic = frames(seed, (n, m))
    result = kmarginal.score(pair_up(truth, synthetic, None), 2)
    pairs = [["a", "b"], ["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"], ["c", "d"]]
    mean = np.mean([slow.total_variation(truth, synthetic, p) for p in pairs])
    assert result["score"] == pytest.approx(1000 * (1 - mean), abs=1e-9)
    assert result["marginals"] == result["possible"] == 6


def test_sparse_counting_gives_the_same(monkeypatch):
    pair = pair_up(*frames(1), None)
    dense = distance.total_variation(pair, [("a", "b", "c"), ("d",), ("a", "d")])
    monkeypatch.setattr(distance, "DENSE_CELLS", 1)
    assert distance.total_variation(pair, [("a", "b", "c"), ("d",), ("a", "d")]) == pytest.approx(dense)
    assert pairwise.two_way(pair)[1]["truth"][0][1] > 0.3


def test_kmarginal_samples_by_seed():
    pair = pair_up(*frames(2), None)
    one, same, other = (kmarginal.score(pair, 2, limit=3, seed=s) for s in (1, 1, 2))
    assert one == same and one["sampled"] and one["marginals"] == 3
    assert {tuple(w["columns"]) for w in one["worst"]} != {tuple(w["columns"]) for w in other["worst"]}
    for bad in (0, -1, True, 1.5):
        with pytest.raises(UsageError, match="k must be"):
            kmarginal.score(pair, bad)


def test_pairwise_against_scipy():
    truth, synthetic = frames(4)
    pair = pair_up(truth, synthetic, None)
    variation, association = pairwise.two_way(pair)
    names = variation["columns"]
    for i, x in enumerate(names):
        for j, y in enumerate(names):
            if i != j:
                assert variation["matrix"][i][j] == pytest.approx(
                    slow.total_variation(truth, synthetic, [x, y])
                )
                assert association["truth"][i][j] == pytest.approx(slow.cramers_v(truth[x], truth[y]))
    one = pairwise.one_way(pair)
    assert one["by_column"]["c"] == pytest.approx(slow.total_variation(truth, synthetic, ["c"]))


def test_correlation_against_numpy():
    truth, synthetic = frames(5)
    result = pairwise.correlation(pair_up(truth, synthetic, None))
    assert result["columns"] == ["a", "b", "d"]
    assert np.allclose(result["truth"], np.corrcoef(truth[["a", "b", "d"]].T))
    assert pairwise.correlation(pair_up(truth[["c"]], synthetic[["c"]], None)) is None


def test_coverage_counts_values_and_rows():
    truth = pd.DataFrame({"a": ["x", "x", "y", "z"]})
    synthetic = pd.DataFrame({"a": ["x", "w"]})
    result = coverage.score(pair_up(truth, synthetic, None))
    column = result["columns"]["a"]
    assert (column["missing"], column["missing_rows"], column["missing_values"]) == (2, 0.5, ["y", "z"])
    assert (column["invented"], column["invented_rows"], column["invented_values"]) == (1, 0.5, ["w"])
    assert result["missing"] == pytest.approx(2 / 3) and result["invented"] == 0.5


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_sprint1_rows_against_scipy(seed):
    rng = np.random.default_rng(seed)
    truth = rng.poisson(rng.choice([0, 1, 40, 300]), (6, 9))
    synthetic = truth + rng.integers(-30, 31, (6, 9)) * rng.integers(0, 2, (6, 1))
    synthetic = np.maximum(synthetic, 0)
    expected = [slow.sprint1_row(a, b) for a, b in zip(truth, synthetic, strict=True)]
    assert sprint1.rows_score(truth, synthetic) == pytest.approx(expected, abs=1e-9)


def test_utility_tells_signal_from_noise():
    pytest.importorskip("sklearn")
    truth, good = frames(6, (1500, 1500))
    result = utility.score(pair_up(truth, good, None), "b")
    assert result["measure"] == "accuracy" and result["truth"] > result["constant"] + 0.1
    assert result["score"] > 0.7
    noise = good.assign(b=np.random.default_rng(1).permutation(good["b"]))
    assert utility.score(pair_up(truth, noise, None), "b")["score"] < 0.4
    with pytest.raises(UsageError, match="target"):
        utility.score(pair_up(truth, good, None), "nope")

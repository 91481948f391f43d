"""The sprint 3 score: the official figures, a slow twin, edge cases, invariances."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from fastdp import simulate
from fastdp._core import score
from fastdp.metrics.challenges import deid2
from tests.reference import scores as slow

SHARED = Path(__file__).parents[3] / "../shared/data/deid2"
NAMES = ("k_marginal_score", "pickup_dropoff_score", "higher_order_conjunction")


def small(rows: int, seed: int) -> pd.DataFrame:
    return simulate.taxi(rows, seed=seed).to_pandas()


def agree(truth: pd.DataFrame, synthetic: pd.DataFrame) -> None:
    fast = deid2.score(truth, synthetic, threads=2)
    twins = (slow.k_marginal, slow.pickup_dropoff, slow.conjunction)
    for name, twin in zip(NAMES, twins, strict=True):
        assert fast[name] == pytest.approx(twin(truth, synthetic), abs=1e-9), name
    assert fast["overall"] == pytest.approx(1000 * np.mean([fast[n] for n in NAMES]))


def test_scores_of_the_official_sample_are_the_official_ones():
    if not SHARED.exists():
        pytest.skip("the official sample is not here")
    official = json.loads((SHARED / "sample-scores.json").read_text())
    scores = deid2.score(SHARED / "sample-truth.parquet", SHARED / "sample-synthetic.parquet")
    for name, value in official.items():
        assert scores[name] == pytest.approx(value, abs=1e-9), name


def test_odd_sides_score_as_defined():
    table = small(50, 8)
    assert deid2.score(table, table.head(0))["overall"] == 0.0
    assert deid2.score(table.head(0), table)["overall"] == 0.0
    assert deid2.score(table.head(0), table.head(0))["overall"] == 1000.0
    truth = small(300, 15)
    synthetic = small(300, 16)
    synthetic["company_id"] = np.arange(300) + 500
    truth["company_id"] = np.arange(300)
    agree(truth, synthetic)
    truth, synthetic = (small(500, s).drop(columns="taxi_id") for s in (17, 18))
    scores = deid2.score(truth, synthetic)
    assert scores["higher_order_conjunction"] is None
    assert scores["overall"] == pytest.approx(
        500 * (scores["k_marginal_score"] + scores["pickup_dropoff_score"])
    )


@given(st.integers(0, 10_000), st.lists(st.integers(1, 5), min_size=2, max_size=8))
def test_distances_of_groups_equal_the_twin_whether_cells_or_rows_are_fewer(seed, sizes):
    rng = np.random.default_rng(seed)
    groups = 5
    sides = []
    for rows in rng.integers(0, 200, 2):
        group = rng.integers(0, rng.integers(1, groups + 1), rows)
        sides.append((group, [rng.integers(0, size, rows) for size in sizes]))
    small = [(g.astype(np.uint32), [c.astype(np.uint8) for c in cs]) for g, cs in sides]
    packed = [score.group_rows(*side, groups) for side in small]
    found = score.grouped_pairs(*packed[0], *packed[1], np.array(sizes, np.int32), 2)
    for g, line in enumerate(found):
        for (i, j), distance in zip(combinations(range(len(sizes)), 2), line, strict=True):
            pairs = [list(zip(cs[i][of == g], cs[j][of == g])) for of, cs in sides]
            assert distance == pytest.approx(slow.l1(*pairs) if any(pairs) else 0.0, abs=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 120), st.integers(1, 120))
@settings(max_examples=8, deadline=None)
def test_twin_on_random_small_tables(seed, rows, others):
    rng = np.random.default_rng(seed)

    def table(n):
        out = {name: rng.integers(-1, 120, n) for name in deid2.COLUMNS} | {
            "shift": rng.integers(0, 3, n),
            "pickup_community_area": rng.integers(1, 4, n),
        }
        return pd.DataFrame(out | {"taxi_id": rng.integers(1_000_000, 1_000_006, n)})

    agree(table(rows), table(others))

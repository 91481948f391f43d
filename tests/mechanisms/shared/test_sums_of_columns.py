"""What answers about several columns say about each of them."""

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.code_compression import Compression
from fastdp.mechanisms.shared.column_sums import sums_of_columns, with_sums_of_groups
from fastdp.mechanisms.shared.merged_codes import merge
from fastdp.queries import Binned

HALVES = np.array([0, 0, 1, 1])


def test_sums_are_over_what_each_answer_tells_apart():
    """A pair over all codes and one over halves of a column: its own sums, with the variances of the
    cells added up. Answers about the same groups are averaged."""
    compression = Compression(Domain({"a": 4, "b": 3}), {"b": np.array([0, 1, 1])})
    query = Binned((4, 2), [HALVES, None])
    answers = [
        Measurement(("a", "b"), np.arange(8.0), 2.0),
        Measurement(("a", "b"), np.arange(4.0), 1.0, query),
        Measurement(("a", "b"), np.full(8, 2.0), 2.0),
    ]
    sums = sums_of_columns(answers, compression)
    fine, coarse = sums["a"]
    assert fine.groups.tolist() == [0, 1, 2, 3] and coarse.groups.tolist() == HALVES.tolist()
    assert fine.values == pytest.approx((np.array([1.0, 5, 9, 13]) + 4) / 2)
    assert fine.variances == pytest.approx(np.full(4, 2 * 4 / 2))
    assert coarse.values.tolist() == [1.0, 5.0] and coarse.variances.tolist() == [2.0, 2.0]
    (both,) = sums["b"]
    assert both.groups.tolist() == [0, 1, 1]
    precision = np.array([1 / (4 * 4), 1 / (2 * 1), 1 / (4 * 4)])
    values = np.array([[12.0, 16], [2, 4], [8, 8]])
    assert both.values == pytest.approx(precision @ values / precision.sum())


def test_a_1_way_with_sums_is_the_least_squares_of_both():
    """Against normal equations. The planted bug: counts that share a change evenly."""
    one = Measurement(("a",), np.array([10.0, 4, 7, 1]), np.array([1.0, 2, 3, 1]))
    sums = sums_of_columns(
        [Measurement(("a", "b"), np.array([9.0, 9, 3, 3]), 1.5, Binned((4, 2), [HALVES, None]))],
        Compression(Domain({"a": 4, "b": 2}), {}),
    )["a"]
    made = with_sums_of_groups(one, sums)
    design = np.vstack([np.eye(4), np.eye(2)[HALVES].T])
    weight = 1 / np.concatenate([one.variances, sums[0].variances])
    precision = design.T * weight @ design
    right = design.T @ (weight * np.concatenate([one.values, sums[0].values]))
    assert made.values == pytest.approx(np.linalg.solve(precision, right))
    assert made.variances == pytest.approx(np.diag(np.linalg.inv(precision)))
    assert with_sums_of_groups(one, ()) is one


def test_shape_and_total_are_by_all_answers():
    """Ten answers about a pair make the 1-way nearly exact, and rows still add up to the total."""
    rng = np.random.default_rng(1)
    true = rng.gamma(2.0, 300.0, (4, 3))
    ones = [
        Measurement((a,), t + 40 * rng.standard_normal(t.size), 40.0)
        for a, t in (("a", true.sum(axis=1)), ("b", true.sum(axis=0)))
    ]
    merged = merge(Domain({"a": 4, "b": 3}), ones, 3.0)
    answers = [
        Measurement(("a", "b"), (true + 3 * rng.standard_normal(true.shape)).reshape(-1), 3.0)
        for _ in range(10)
    ]
    better = merged.with_sums(answers)
    for a, axis in (("a", 1), ("b", 0)):
        before, after = (np.abs(m.shape[a] - true.sum(axis=axis)).sum() for m in (merged, better))
        assert after < 0.25 * before
        assert better.shape[a].sum() == pytest.approx(better.total)

"""Trends of the clique tree: scores of groups, and which trends a share pays for."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.cliquetree import trends
from fastdp.mechanisms.shared.merged_codes import merge


@given(st.lists(st.tuples(st.integers(1, 900), st.booleans()), min_size=4, max_size=30), st.data())
def test_scores_of_groups_have_mean_0_and_variance_1_over_all_rows(codes, data):
    """They follow the order of the mean codes, and are 0 for codes without a place in the order."""
    rows = np.array([float(n) for n, _ in codes])
    alone = np.array([a for _, a in codes])
    some = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(codes), max_size=len(codes))))
    groups = np.unique(np.where(alone, 3, some), return_inverse=True)[1]
    merged = merge(Domain({"a": len(codes)}), [Measurement("a", rows, 1e-3)], 0.0)

    each = trends.group_scores(merged, "a", groups, alone)[groups]

    assert (each[alone] == 0).all()
    assert (np.diff(each[~alone]) >= 0).all()
    if len(set(groups[~alone])) > 1:
        assert rows @ each == pytest.approx(0, abs=1e-6)
        assert rows @ each**2 / rows.sum() == pytest.approx(1, abs=1e-6)


@given(st.floats(1e-4, 1.0), st.floats(1e-6, 1e4), st.floats(10, 1e6))
def test_trends_are_released_of_the_farthest_pairs_with_noise_within_bounds(share, unit, total):
    distances = {
        (a, b): float(7 * i % 11) for i, (a, b) in enumerate(zip("abcdefghijk", "bcdefghijkl"))
    }
    pairs, each = trends.affordable(distances, share, unit, total)
    assert pairs == sorted(distances, key=distances.get, reverse=True)[: len(pairs)]
    if pairs:
        part = 1 / math.sqrt(unit * each) / total  # the noise of a sum
        assert trends.FINEST * (1 - 1e-9) <= part <= trends.COARSEST * (1 + 1e-9)
        assert each * len(pairs) <= trends.TRENDS * share * (1 + 1e-9)
    least = 1 / (unit * (trends.COARSEST * total) ** 2)  # of the share, for one more
    assert len(pairs) == 11 or (len(pairs) + 1) * least > trends.TRENDS * share * (1 - 1e-9)

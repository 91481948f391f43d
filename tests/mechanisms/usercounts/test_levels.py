"""Totals of a hierarchy: measured and summed, weighted by precision, against one total at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.mechanisms.usercounts.count_estimates import Level


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 40)), min_size=1, max_size=12),
    st.lists(st.floats(0, 60), min_size=3, max_size=3),
    st.floats(0.1, 9),
    st.floats(0.1, 9),
    st.sampled_from([1.0, 0.01]),
)
def test_a_total_is_the_mean_by_precision_of_both(groups, answers, variance, own, size):
    """What was measured is first brought to the groups' sum; sums below 1 count as 1."""
    at = np.array([g for g, _ in groups])
    fine = size * np.array([x for _, x in groups])
    level = Level(("a",), np.arange(len(at)), at, (np.arange(3),))
    plain, around = level.estimate(fine, variance)
    asked = size * np.array(answers)
    totals, errors = level.measured(asked, own).estimate(fine, variance)
    factor = max(1.0, fine.sum()) / max(1.0, asked.sum())
    for k in range(3):
        here = [x for g, x in zip(at, fine) if g == k]
        assert plain[k] == pytest.approx(sum(here)) and around[k] == pytest.approx(len(here) * variance)
        if not here:
            continue
        weights = 1 / (len(here) * variance), 1 / (own * factor**2)
        mean = (weights[0] * sum(here) + weights[1] * asked[k] * factor) / sum(weights)
        assert totals[k] == pytest.approx(mean) and errors[k] == pytest.approx(1 / sum(weights))

"""Rows of users that were counted in bins of rows per user."""

from types import SimpleNamespace

import numpy as np
import pytest

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.user_histogram import size_edges
from fastdp.mechanisms.usercounts.mechanism import in_bins, total_rows

BOUND = 1000
EDGES = np.array(size_edges(BOUND))
BINS = list(zip(EDGES, [*EDGES[1:], BOUND + 1]))
"""(first, end) of each bin of rows per user."""
JOB = SimpleNamespace(rows=None, schema=SimpleNamespace(max_rows_per_user=BOUND))


def test_rows_of_users_in_bins_lie_near_the_middle_of_their_bin():
    """Inside a bin users are even in the logarithm, at most 3 % below the middle of half an octave;
    noise of 1 % of the users moves neighbours by less."""
    users = Measurement("n", np.arange(1.0, len(EDGES) + 1) * 100, 1.0)
    middles = [np.arange(first, end).mean() for first, end in BINS]
    assert total_rows(users, JOB) == pytest.approx(users.values @ middles, rel=0.04)


def test_rows_of_users_that_were_counted_one_number_at_a_time_count_exactly():
    users = Measurement("n", np.arange(1.0, BOUND + 1), np.arange(1.0, BOUND + 1))
    assert total_rows(users, JOB) == pytest.approx(sum(k * k for k in range(1, BOUND + 1)))


def test_exact_counts_become_bins_whose_variances_add_up():
    exact = Measurement("n", np.arange(1.0, BOUND + 1), np.arange(1.0, BOUND + 1))
    binned = in_bins(exact, BOUND)
    assert binned.values.sum() == exact.values.sum()
    for i, (first, end) in enumerate(BINS):
        assert binned.values[i] == sum(range(first, end))
        assert binned.sigma[i] ** 2 == pytest.approx(sum(k * k for k in range(first, end)))


def test_counts_in_bins_stay_as_they_are():
    users = Measurement("n", np.arange(1.0, len(EDGES) + 1), 1.0)
    assert in_bins(users, BOUND) is users

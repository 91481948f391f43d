"""Weights of a pool's users: the minimum of their dual, and what it is made of."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fastdp._core import choose as core
from fastdp.users.descent import minimum
from fastdp.users.user_weights import MOST_LOG, Cells, Lines, Shares, _numbered


def test_the_minimum_of_a_parabola_is_where_its_equations_say():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((30, 30))
    curved = root @ root.T + np.eye(30)
    right = rng.standard_normal(30)

    def function(x):
        return float(0.5 * x @ curved @ x - right @ x), curved @ x - right

    found = minimum(function, np.zeros(30), 0.0, 1e-9, 500)
    assert found == pytest.approx(np.linalg.solve(curved, right), abs=1e-6)


def test_steep_and_flat_directions_both_reach_their_minimum():
    """Exponentials, as in the dual of weights: a full first step would overflow, and a short one is far away
    from the minimum."""
    wanted = np.array([1e-3, 1.0, 1e4])

    def function(x):
        with np.errstate(over="ignore"):
            return float((np.exp(x) - wanted * x).sum()), np.exp(x) - wanted

    assert minimum(function, np.zeros(3), 0.0, 1e-9, 500) == pytest.approx(np.log(wanted), abs=1e-3)


def test_it_ends_at_once_where_nothing_is_to_be_gained():
    calls = []

    def function(x):
        calls.append(x)
        return float((x * x).sum()), 2 * x

    assert minimum(function, np.zeros(4), 0.0, 1e-3, 100).tolist() == [0.0] * 4
    assert len(calls) == 1


def test_a_function_that_falls_less_than_asked_ends_the_search():
    """The last step is the first full one that lowers the value by no more than `near`."""
    seen = []

    def function(x):
        seen.append(float(np.cosh(x).sum()))
        return seen[-1], np.sinh(x)

    minimum(function, np.full(3, 2.0), 0.5, 0.0, 100)
    assert len(seen) < 10 and seen[-2] - seen[-1] <= 0.5


def test_weights_and_counts_are_those_of_the_slow_twin():
    rng = np.random.default_rng(1)
    users = 50
    even = rng.random(users)
    tables = [
        Cells(rng.integers(0, 4, users), np.ones(4), np.ones(4)),
        Shares(rng.random((2, users)), np.ones(2), np.ones(2)),
        Cells(rng.integers(0, 3, users), np.ones(3), np.ones(3)),
        Lines(rng.standard_normal((1, users)), np.ones(1), np.ones(1)),
    ]
    factors = rng.standard_normal(10)
    factors[0] = 2 * MOST_LOG  # weights are cut off there
    total, counts = core.weigh(*_numbered(tables), even, MOST_LOG, factors)
    parts = np.split(factors, [4, 6, 9])
    logs = sum(table.change(part) for table, part in zip(tables, parts))
    weights = even * np.exp(np.minimum(logs, MOST_LOG))
    assert total == pytest.approx(weights.sum())
    assert counts == pytest.approx(np.concatenate([table.tally(weights) for table in tables]))


WEIGHTS = """
import hashlib
import numpy as np
from fastdp.users.user_weights import Cells, raked
rng = np.random.default_rng(0)
tables = [
    Cells(rng.integers(0, 15_000, 30_000), rng.random(15_000), np.full(15_000, 0.3)),
    Cells(rng.integers(0, 9, 30_000), np.full(9, 800.0), np.full(9, 5.0)),
]
weights, _ = raked(tables, 7_000.0, np.ones(30_000))
print(hashlib.sha256(weights.tobytes()).hexdigest())
"""


def test_threads_of_blas_change_no_weight():
    """Its threads add up long vectors in an order of their own; rows were others with more of them."""
    found = [
        subprocess.run(
            [sys.executable, "-c", WEIGHTS],
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    ]
    assert len(found[0]) == 65 and found[0] == found[1]

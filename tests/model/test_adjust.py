"""Raking of one table against plain sweeps."""

from __future__ import annotations

import numpy as np
import pytest

from fastdp.model.adjust import rake


def swept(start, margins, count):
    """The table after each sweep, and how far the first margin is off then."""
    out, after = start, []
    for _ in range(count):
        for at, totals in margins:
            now = np.bincount(at, weights=out, minlength=len(totals))
            out = out * (np.asarray(totals) / now)[at]
        at, totals = margins[0]
        after.append((out, np.abs(np.bincount(at, weights=out) - totals).max()))
    return after


def problem(seed):
    rng = np.random.default_rng(seed)
    truth, start = rng.gamma(1.0, 5.0, (3, 4)), rng.gamma(1.0, 5.0, 12)
    row, column = np.indices(truth.shape).reshape(2, -1)
    return start, [(row, truth.sum(axis=1)), (column, truth.sum(axis=0))]


@pytest.mark.parametrize("seed", range(5))
def test_sweeps_end_as_soon_as_the_first_margin_is_within_the_tolerance(seed):
    start, margins = problem(seed)
    after = swept(start, margins, 6)
    for table, off in after[:5]:
        assert np.array_equal(rake(start, margins, 6, tolerance=off), table)
        assert not np.array_equal(rake(start, margins, 6, tolerance=np.nextafter(off, 0)), table)
    assert np.array_equal(rake(start, margins, 6), after[-1][0])
    assert np.array_equal(rake(start, margins, 2, tolerance=0.0), after[1][0])


@pytest.mark.parametrize("tolerance", [None, 0.0, 1.0])
def test_one_margin_takes_one_sweep_and_zeros_stay(tolerance):
    start, margins = problem(1)
    start[[2, 5]] = 0
    made = rake(start, margins[:1], 9, tolerance)
    assert np.array_equal(made, swept(start, margins[:1], 1)[0][0])
    assert (made[[2, 5]] == 0).all() and np.allclose(np.bincount(margins[0][0], made), margins[0][1])
    assert np.array_equal(rake(start, margins, 0), start)

"""Distances from the model and from public starts, as a run asks for them: one user is covered by both
together, and planted bugs are caught."""

import math
from itertools import combinations
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from fastdp.errors import FastdpError
from fastdp.mechanisms.shared.prior_screening import PublicPriors
from fastdp.mechanisms.shared.public_prior import PublicMarginals
from fastdp.release import distances
from tests.mechanisms.growing import RowsPublic

from . import checks
from .world import SIZES, Swap, open_door, table

PAIRS = list(combinations(SIZES, 2))


def both(door, share=0.5):
    """A run that spends its mu on a look at a model of no rows and on one at public starts of a thousand rows
    a cell, whose noise is the first's: a user moves every distance by the whole clip."""
    draw = np.random.default_rng(3).integers(0, 10, 500)
    public = RowsPublic(SIZES, {a: draw % n for a, n in SIZES.items()})
    asked = []

    def distances(*arguments, **options):
        asked.append(door.distances(*arguments, **options))
        return asked[-1]

    session = SimpleNamespace(mu=door.mu, distances=distances)
    starts = PublicPriors(PublicMarginals.of(public), session, {})
    estimates = {c: np.full([SIZES[a] for a in c], 1000.0) for c in PAIRS}
    distances(PAIRS, {c: 0 * e for c, e in estimates.items()}, mu=door.mu * math.sqrt(share), label="look")
    took = starts.screen(estimates, dict.fromkeys(PAIRS, 1.0), 1e-3, share, "look, public starts")
    assert math.isclose(took, share) and len(asked) == 2
    assert np.allclose(asked[1].sigma, asked[0].sigma, rtol=1e-9)
    return asked


def fails(check, *arguments, **options):
    with pytest.raises((AssertionError, FastdpError)) as caught:
        check(*arguments, **options)
    return str(caught.value)


def test_one_user_is_covered_by_both_together():
    with patch.object(checks, "ask_everything", both):
        checks.neighbours(80, seed=2)
        checks.residuals(seed=4)


def test_two_looks_for_the_price_of_one():
    """The planted bug: a first look that leaves nothing for the second is refused by the session."""
    small = table(checks.random_codes(np.random.default_rng(1), 30), np.arange(30) % 4)
    with pytest.raises(FastdpError):
        both(open_door(Swap(small)), share=0.6)


def test_the_square_root_of_k_is_missing():
    def planted(weights):
        return np.ones(len(weights), np.int64), np.ones(len(weights), np.int64)

    with patch.object(distances, "squared_shares", planted), patch.object(checks, "ask_everything", both):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)

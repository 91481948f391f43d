"""AdaGrid's rounds: the worked example of the text, thresholds, copies, shares, the published
counts."""

import math

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms import adagrid
from fastdp.mechanisms.base import Job
from fastdp.queries import AdaGrid as GridQuery
from tests.mechanisms.fakes import FakeModel, FakeSession

W = ("letter", "digit")
LETTERS = [10000, 300, 5000, 6000]
DIGITS = [15000, 6100, 200]


def worked_example():
    """W,X,Y,Z x 1,2,3 where X and 3 are small, with the counts of the text."""
    joint = np.outer(LETTERS, DIGITS) / sum(DIGITS)
    return FakeSession({"letter": 4, "digit": 3}, np.rint(joint).astype(np.int64), mu=1.0, clip=100)


def job_for(session, kept, **options):
    def fit(domain, measurements, **rest):
        kept.update(measurements=measurements, options=rest)
        return FakeModel(session.joint.sum())

    return Job(schema=session.schema, epsilon=1.0, fit=fit, **options)


def test_the_worked_example_has_six_fine_cells_and_seven_coarse_rows():
    session = worked_example()
    kept = {}
    config = adagrid.AdaGrid(outer=(W,), threshold=5.0)
    config.run(session, job_for(session, kept))
    query = session.asked[-1].query
    assert session.asked[-1].clique == W
    fine = [np.ravel_multi_index((i, j), (4, 3)) for i in (0, 2, 3) for j in (0, 1)]
    assert query.grid.fine.tolist() == sorted(fine)
    assert query.grid.fine.size == 6
    assert query.rows - query.grid.fine.size == 7
    num, den = query.coef2
    assert query.column_norm2() == 1
    per_column = query.transpose((num * 2 // den).astype(np.int64))
    assert (per_column == 2).all()


def test_cells_are_fine_by_the_mean_of_copies_and_over_plausible_children_only():
    domain = Domain({"a": 3, "b": 2})
    grid = adagrid.grid_of(domain, ("a",), {}, {})
    # One copy alone would pass cell 1 (6 > 5); the average of four, 3, is above 5 / sqrt(4) = 2.5
    # for cell 2 only.
    one = [
        Measurement(("a",), [9.0, v, w], 1.0)
        for v, w in ((6.0, 3.0), (2.0, 3.0), (0.0, 3.0), (1.0, 3.0))
    ]
    assert adagrid.plausible(grid, one, 5.0).tolist() == [0, 2]
    assert adagrid.plausible(grid, one[:1], 5.0).tolist() == [0, 1]
    rng = np.random.default_rng(1)
    joint = rng.poisson(40, (4, 3, 3, 2)) * rng.integers(0, 2, (4, 3, 3, 2))
    session = FakeSession({"a": 4, "b": 3, "c": 3, "d": 2}, joint, mu=0.5, noise=1.0)
    adagrid.AdaGrid(outer=(("a", "b", "c", "d"),), threshold=2.0).run(session, job_for(session, {}))
    grids = {r.clique: r.query.grid for r in session.asked}
    assert len(grids) == 15
    for grid in grids.values():
        for child in grid.children:
            assert set(grid.project(grid.fine, child)) <= set(child.fine.tolist())
        assert len(grid.children) == (len(grid.clique) if len(grid.clique) > 1 else 0)
        assert GridQuery(grid).column_norm2() == 1


def test_round_shares_split_the_budget_by_round():
    config = adagrid.AdaGrid(outer=(W,), rounds=(1.0, 3.0))
    session = worked_example()
    config.run(session, job_for(session, {}))
    spent = {1: 0.0, 2: 0.0}
    for r in session.asked:
        spent[len(r.clique)] += r.mu**2
    assert math.isclose(spent[2], 3 * spent[1]) and math.isclose(spent[1] + spent[2], 1.0)
    with pytest.raises(ValueError, match="2 shares for 2 rounds"):
        adagrid.AdaGrid(outer=(W,), rounds=(1.0,))

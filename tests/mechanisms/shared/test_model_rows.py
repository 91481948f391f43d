"""Rows of a model, drawn group by group."""

import numpy as np

from fastdp.domain import Domain
from fastdp.estimate.estimator import fit
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.model_rows import GroupedRows, ModelRows


def test_rows_of_groups_have_the_shares_and_the_odds_asked_for():
    """Each group gets its part of the shard; each kind of row in it, as many as its odds leave."""
    table = np.array([[300.0, 200, 100], [10, 40, 50]])
    odds = np.array([[1.0, 0.5, 0.0], [0.25, 1.0, 3.0]])
    model = fit(Domain({"g": 2, "a": 3}), [Measurement(("g", "a"), table.reshape(-1), 0.01)])
    rows = GroupedRows(ModelRows(model, 9001, 3), "g", np.array([2.0, 1.0]), {"a": odds})

    made = rows.shard(0)

    found = np.zeros((2, 3))
    np.add.at(found, (made["g"], made["a"]), 1)
    assert found.sum(axis=1).tolist() == [6001, 3000]
    left = table * np.minimum(odds, 1)
    wanted = left / left.sum(axis=1, keepdims=True) * [[6001], [3000]]
    assert (np.abs(found - wanted) < 5 * np.sqrt(wanted) + 1).all()
    assert found[0, 2] == 0


def test_rows_that_are_drawn_again_have_the_same_shares_of_groups():
    table = np.array([[300.0, 200, 100], [10, 40, 50]])
    model = fit(Domain({"g": 2, "a": 3}), [Measurement(("g", "a"), table.reshape(-1), 0.01)])
    rows = GroupedRows(ModelRows(model, 9001, 3), "g", np.array([2.0, 1.0]), {})
    assert rows.again(50, 1).shard(0)["g"].tolist().count(0) == 33

"""Rows of a model, drawn group by group."""

import numpy as np

from fastdp.domain import Domain
from fastdp.estimate.estimator import fit
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.model_rows import GroupedRows, ModelRows


def test_rows_of_groups_have_the_shares_asked_for():
    """Each group gets its part of the shard, of rows as the model has them."""
    table = np.array([[300.0, 200, 100], [10, 40, 50]])
    model = fit(Domain({"g": 2, "a": 3}), [Measurement(("g", "a"), table.reshape(-1), 0.01)])
    rows = GroupedRows(ModelRows(model, 9001, 3), "g", np.array([2.0, 1.0]))

    made = rows.shard(0)

    found = np.zeros((2, 3))
    np.add.at(found, (made["g"], made["a"]), 1)
    assert found.sum(axis=1).tolist() == [6001, 3000]
    wanted = table / table.sum(axis=1, keepdims=True) * [[6001], [3000]]
    assert (np.abs(found - wanted) < 5 * np.sqrt(wanted) + 1).all()


def test_rows_that_are_drawn_again_have_the_same_shares_of_groups():
    table = np.array([[300.0, 200, 100], [10, 40, 50]])
    model = fit(Domain({"g": 2, "a": 3}), [Measurement(("g", "a"), table.reshape(-1), 0.01)])
    rows = GroupedRows(ModelRows(model, 9001, 3), "g", np.array([2.0, 1.0]))
    assert rows.again(50, 1).shard(0)["g"].tolist().count(0) == 33

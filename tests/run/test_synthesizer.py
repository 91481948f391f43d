"""The estimator keeps the habits of scikit-learn, and its samples are a run's own rows."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import fastdp
from fastdp.errors import UsageError

from .test_synthesize import small_data, small_schema


@pytest.fixture(scope="module")
def rows():
    return small_data(3000)


def estimator(**more):
    return fastdp.Synthesizer(epsilon=3.0, delta=1e-6, mechanism="mst", schema=small_schema(), **more)


@pytest.fixture(scope="module")
def fitted(rows):
    return estimator(random_state=5).fit(rows)


def test_parameters_go_in_and_out_as_scikit_learn_wants():
    made = estimator(clip=3)
    assert made.get_params()["clip"] == 3
    copy = clone(made)
    assert copy is not made and copy.get_params() == made.get_params()
    assert made.set_params(epsilon=2.0) is made and made.epsilon == 2.0
    with pytest.raises(UsageError, match="no parameter 'epsilom'"):
        made.set_params(epsilom=1.0)
    assert "epsilon=2.0" in repr(made) and "threads" not in repr(made)


def test_a_sample_has_the_asked_number_of_rows_and_the_runs_columns(fitted):
    table = fitted.sample(777)
    assert isinstance(table, pa.Table) and table.num_rows == 777
    assert table.schema.equals(fitted.run_.to_arrow().schema, check_metadata=False)
    assert fitted.sample().equals(fitted.run_.to_arrow())


def test_samples_are_fixed_by_the_state_and_differ_from_call_to_call(rows):
    first, second = (estimator(random_state=5).fit(rows) for _ in range(2))
    first.run_ = second.run_  # the noise differs from run to run, the rows of one run do not
    calls = [second.sample(500) for _ in range(2)]
    assert [first.sample(500) for _ in range(2)] == calls
    assert not calls[0].equals(calls[1])


def test_the_kind_of_frame_comes_back(rows):
    assert isinstance(estimator().fit(rows.to_pandas()).sample(5), pd.DataFrame)
    assert isinstance(estimator().fit(pl.from_arrow(rows)).sample(5), pl.DataFrame)


def test_many_samples_agree_with_the_models_marginals(fitted):
    """5 standard errors a cell: false alarm below 1e-6 a cell."""
    n = 200_000
    column = "a"
    drawn = fitted.run_.sample(n, seed=1)
    values, counts = np.unique(drawn[column].to_numpy(zero_copy_only=False), return_counts=True)
    own = fitted.run_.to_arrow()
    base_values, base = np.unique(own[column].to_numpy(zero_copy_only=False), return_counts=True)
    share = dict(zip(base_values.tolist(), base / own.num_rows, strict=True))
    for value, count in zip(values.tolist(), counts, strict=True):
        p = share.get(value, 0.0)
        assert abs(count / n - p) <= 5 * np.sqrt(max(p, 1e-3) / own.num_rows + max(p, 1e-3) / n)


def test_what_does_not_fit_is_said(rows):
    with pytest.raises(UsageError, match="before sample"):
        estimator().sample(3)
    with pytest.raises(UsageError, match="y must be None"):
        estimator().fit(rows, [1, 2])

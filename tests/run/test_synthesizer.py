"""The estimator keeps the habits of scikit-learn, and its samples are a run's own rows."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import fastdp
from fastdp.errors import RunError, UsageError

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


def test_what_does_not_fit_is_said(rows, tmp_path):
    with pytest.raises(UsageError, match="before sample"):
        estimator().sample(3)
    with pytest.raises(UsageError, match="y must be None"):
        estimator().fit(rows, [1, 2])
    fastdp.synthesize(rows, "mst", 2.0, 1e-6, schema=small_schema(), out=tmp_path / "run")
    with pytest.raises(RunError, match="folder of rows"):
        fastdp.load_run(tmp_path / "run").sample(3)

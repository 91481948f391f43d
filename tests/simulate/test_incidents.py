"""The incidents simulator: domains, the bound per resident, habits, determinism."""

import numpy as np
import polars as pl
import pytest

from fastdp import simulate


@pytest.fixture(scope="module")
def calls() -> pl.DataFrame:
    return pl.from_arrow(simulate.incidents(400_000, seed=2))


def test_domains(calls):
    assert calls.columns == ["sim_resident", "year", "month", "neighborhood", "incident_type"]
    assert set(calls["year"].unique()) == {2019}
    assert set(calls["month"].unique()) == set(range(1, 13))
    assert calls["neighborhood"].min() >= 0 and calls["neighborhood"].max() <= 277
    assert calls["neighborhood"].n_unique() > 270
    assert calls["incident_type"].min() >= 0 and calls["incident_type"].max() <= 173


def test_residents_are_bounded_and_have_habits(calls):
    people = calls.group_by("sim_resident").agg(
        pl.len().alias("calls"),
        (pl.col("neighborhood") == pl.col("neighborhood").mode().first()).mean().alias("home"),
    )
    assert people["calls"].max() == 20
    assert people["calls"].median() <= 2
    assert people.filter(pl.col("calls") >= 10)["home"].mean() > 0.6
    repeated = calls.group_by("sim_resident", "neighborhood", "year", "month", "incident_type").len()
    assert (repeated["len"] > 1).mean() > 0.01


def test_deterministic_and_drifting():
    one = simulate.incidents(200_000, seed=1, threads=1)
    assert one.equals(simulate.incidents(200_000, seed=1, threads=3))
    other = simulate.incidents(200_000, seed=1, year=2020)
    counts = [np.bincount(t["incident_type"].to_numpy(), minlength=174) / 2e5 for t in (one, other)]
    assert 0.01 < 0.5 * np.abs(counts[0] - counts[1]).sum() < 0.2


@pytest.mark.parametrize("rows", [0, 1, 131_073])
def test_any_number_of_rows(rows):
    assert simulate.incidents(rows).num_rows == rows

"""The taxi simulator: domains, determinism, and the structure a mechanism is meant to find."""

import polars as pl
import pytest

from fastdp import simulate
from fastdp.errors import UsageError


@pytest.fixture(scope="module")
def trips() -> pl.DataFrame:
    return pl.from_arrow(simulate.taxi(300_000, seed=3))


@pytest.mark.parametrize("rows", [0, 1, 2, 131_072, 131_073])
def test_any_number_of_rows(rows):
    table = simulate.taxi(rows)
    assert table.num_rows == rows
    assert all(c.null_count == 0 for c in table.columns)


def test_same_arguments_same_table_whatever_the_threads():
    one = simulate.taxi(300_000, seed=5, threads=1)
    assert one.equals(simulate.taxi(300_000, seed=5, threads=4))
    assert not one.equals(simulate.taxi(300_000, seed=6))
    assert not one.equals(simulate.taxi(300_000, seed=5, year=2021))


def test_taxis_are_bounded_skewed_and_loyal(trips):
    taxis = trips.group_by("taxi_id").agg(
        pl.len().alias("trips"),
        pl.col("company_id").n_unique().alias("companies"),
        pl.col("shift").mode().first().alias("usual"),
        (pl.col("shift") == pl.col("shift").mode().first()).mean().alias("share"),
    )
    assert taxis["trips"].max() == 200
    assert taxis["trips"].mean() > 1.4 * taxis["trips"].median()
    assert taxis["companies"].max() == 1
    assert taxis["taxi_id"].min() >= 1_000_000 and taxis["taxi_id"].max() <= 9_999_999
    habitual = taxis.filter(pl.col("trips") >= 100)
    assert habitual["share"].mean() > 0.2  # a taxi without habits would be near 0.1
    assert habitual["usual"].n_unique() == 21


def test_day_and_hour_agree_with_the_shift(trips):
    derived = trips["trip_day_of_week"].cast(pl.Int32) * 3 + trips["trip_hour_of_day"].cast(pl.Int32) // 8
    assert (derived == trips["shift"].cast(pl.Int32)).all()


@pytest.mark.parametrize(
    "bad", [{"rows": -1}, {"rows": 1.5}, {"rows": True}, {"rows": 1, "year": 20}, {"rows": 1, "seed": -1}]
)
def test_bad_arguments_are_named(bad):
    with pytest.raises(UsageError, match=r"rows|year|seed"):
        simulate.taxi(**bad)

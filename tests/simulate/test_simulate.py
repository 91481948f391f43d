"""The simulators: domains, determinism, valid codes, and the structure a mechanism is meant to
find."""

from importlib import import_module

import numpy as np
import polars as pl
import pytest

import fastdp
from fastdp import simulate


@pytest.fixture(scope="module")
def trips() -> pl.DataFrame:
    return pl.from_arrow(simulate.taxi(300_000, seed=3))


@pytest.mark.parametrize("rows", [0, 1, 2, 131_072, 131_073])
def test_any_number_of_rows(rows):
    table = simulate.taxi(rows)
    assert table.num_rows == rows
    assert all(c.null_count == 0 for c in table.columns)


def test_same_arguments_same_table_whatever_the_threads(monkeypatch):
    monkeypatch.setattr("fastdp.simulate._draw.CHUNK", 5_000)  # several chunks of few rows
    one = simulate.taxi(14_000, seed=5, threads=1)
    assert one.equals(simulate.taxi(14_000, seed=5, threads=4))
    few = simulate.taxi(1_000, seed=5)
    assert not few.equals(simulate.taxi(1_000, seed=6))
    assert not few.equals(simulate.taxi(1_000, seed=5, year=2021))
    one = simulate.census(14_000, seed=7, threads=1)
    assert one.equals(simulate.census(14_000, seed=7, threads=3))
    assert [simulate.census(n).num_rows for n in (0, 1)] == [0, 1]


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


def test_chained_trips_follow_each_other():
    """A trip is in the same shift as the last in nine cases of ten, and then starts where that
    ended in two of five, else where chance or habit says; no two trips of a taxi start at the same
    time."""
    table = simulate.taxi(60_000, seed=3, chained=True)
    assert (
        table.equals(simulate.taxi(60_000, seed=3, chained=True, threads=3))
        and table.num_rows == 60_000
    )
    assert simulate.taxi(0, chained=True).schema == table.schema
    trips = pl.from_arrow(table).sort("taxi_id", "trip_start")
    last = trips.select(pl.all().shift(1).over("taxi_id").name.prefix("last_"), pl.all())
    steps = last.filter(pl.col("last_trip_start").is_not_null())
    assert (steps["trip_start"] > steps["last_trip_start"]).all()
    follows = (steps["pickup_community_area"] == steps["last_dropoff_community_area"]).mean()
    error = (0.25 / len(steps)) ** 0.5
    assert 0.9 * 0.4 - 4 * error < follows < 0.9 * (0.4 + 0.6 * 0.25) + 0.1 * 0.25 + 4 * error
    assert (trips["trip_start"].dt.epoch("s") % 900 == 0).all()
    read = fastdp.read(table, "taxi-chained", public=True)
    assert read.rows == 60_000  # every value is in the domain
    quarters = table["trip_start"].cast("int64").to_numpy() // 900_000_000
    codes = [read.codes[name].astype("int64") for name in ("date", "hour", "minute")]
    assert (codes[0] * 96 + codes[1] * 4 + codes[2] == quarters - quarters.min() // 96 * 96).all()


# The census


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray]:
    table = simulate.census(40_000, seed=4)
    return {name: table[name].to_numpy() for name in table.column_names}


def test_details_refine_the_general_codes(people):
    for general, by in [
        ("METAREA", 10),
        ("GQTYPE", 100),
        ("OWNERSHP", 10),
        ("RACE", 100),
        ("HISPAN", 100),
        ("BPL", 100),
        ("MBPL", 100),
        ("FBPL", 100),
        ("MTONGUE", 100),
        ("HIGRADE", 10),
        ("EDUC", 10),
        ("EMPSTAT", 10),
        ("CLASSWKR", 10),
        ("MIGRATE5", 10),
        ("VETSTAT", 10),
    ]:
        assert np.array_equal(people[general + "D"] // by, people[general]), general
    for part, whole in [
        ("COUNTY", "SEA"),
        ("COUNTY", "SUPDIST"),
        ("CITY", "CITYPOP"),
        ("OCC", "OCC1950"),
    ]:
        pairs = np.unique(np.stack([people[part], people[whole]]), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1], (part, whole)


def test_purchases_have_the_planted_cohorts_decline_tail_and_levels():
    """What `bench.users` asks for back: each figure within four standard errors of the plan."""
    plan = import_module("fastdp.simulate.purchases")
    table = simulate.purchases(20_000, seed=4)
    assert table.equals(simulate.purchases(20_000, seed=4))
    assert simulate.purchases(0).schema == table.schema
    people = (
        pl.from_arrow(table)
        .group_by("customer")
        .agg(
            pl.len().alias("rows"),
            pl.col("month").min().alias("first"),
            pl.col("country").n_unique().alias("countries"),
            pl.col("amount").sum().alias("spent"),
        )
    )
    assert people["countries"].max() == 1 and people["first"].max() == plan.LAST_START
    for first, (count, again) in enumerate(
        people.group_by("first")
        .agg(pl.len(), (pl.col("rows") > 1).mean().alias("again"))
        .sort("first")
        .select("len", "again")
        .iter_rows()
    ):
        assert abs(again - plan.AGAIN[first]) < 4 * 0.5 / count**0.5
    spent = people["spent"].sort(descending=True)
    assert spent.head(len(spent) // 10).sum() > 0.5 * spent.sum()
    between = plan.BETWEEN**2 / (plan.BETWEEN**2 + plan.WITHIN**2)
    many = pl.from_arrow(table).filter(pl.len().over("customer") > 1)
    two = many.group_by("customer").agg(pl.col("amount").log().head(2))
    pairs = np.array(two["amount"].to_list())
    assert abs(np.corrcoef(pairs.T)[0, 1] - between) < 0.05  # shops and countries add a little

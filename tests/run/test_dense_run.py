"""A whole run on a dense table: rows, file, answers and conditions come from the model of hidden
factors."""

from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

import fastdp
from fastdp.mechanisms.cliquetree.dense_tables import HIDDEN, DenseTable

QUESTIONS = [f"q{i}" for i in range(9)]


def answers(rows=5000, seed=0):
    """Nine questions about one thing with missing answers in one; an amount of many values, a text
    with two values, and a text with three that follows one question."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 1)) * np.sqrt(0.75)
    numbers = common + rng.normal(size=(rows, 11)) * 0.5
    codes = np.clip(np.floor(1.4 * numbers + 3.5), 0, 6).astype(int)
    frame = pl.DataFrame({q: codes[:, i] for i, q in enumerate(QUESTIONS)})
    missing = pl.Series(rng.random(rows) < 0.2)
    return frame.with_columns(
        pl.when(missing).then(None).otherwise(pl.col("q3")).alias("q3"),
        pl.Series("amount", np.clip(np.round(90 * numbers[:, 9] + 300), 0, 599).astype(int)),
        pl.Series("yes", np.where(numbers[:, 10] > 0.4, "y", "n")),
        pl.Series("mood", np.array(["low", "mid", "high"])[np.digitize(codes[:, 0], [2, 5])]),
    )


SCHEMA = fastdp.Schema.from_dict(
    {
        "columns": {q: {"kind": "integer", "min": 0, "max": 6} for q in QUESTIONS}
        | {"amount": {"kind": "integer", "min": 0, "max": 599}}
        | {"yes": {"kind": "categorical", "values": ["n", "y"]}}
        | {"mood": {"kind": "categorical", "values": ["low", "mid", "high"]}}
    }
)


def go(frame, **options):
    table = fastdp.read(frame, SCHEMA)
    return fastdp.synthesize(table, "auto", 3.0, 1e-6, seed=1, sample_seed=1, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("dense") / "run"
    frame = answers()
    return frame, go(frame, out=out, threads=1), fastdp.load_run(out)


def test_rows_follow_the_truth_and_have_no_hidden_column(made):
    frame, run, _ = made
    rows = pl.DataFrame(run.data)
    assert run.model.ended == "hidden factors" and rows.columns == frame.columns
    for pair in (("q0", "q8"), ("q1", "q5"), ("q2", "amount")):
        truth, here = (
            np.corrcoef(of.select(pair).drop_nulls().to_numpy().T)[0, 1] for of in (frame, rows)
        )
        assert here == pytest.approx(truth, abs=0.08)
    assert rows["q3"].null_count() == pytest.approx(frame["q3"].null_count(), rel=0.15)
    means = [dict(of.group_by("yes").agg(pl.col("q1").mean()).iter_rows()) for of in (frame, rows)]
    assert means[1]["y"] - means[1]["n"] == pytest.approx(means[0]["y"] - means[0]["n"], abs=0.3)
    by_mood = dict(rows.group_by("mood").agg(pl.col("q0").mean()).iter_rows())
    assert by_mood["low"] + 1 < by_mood["mid"] < by_mood["high"] - 1


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_other_threads_and_has_the_same_rows(made, tmp_path):
    """It dies when the contrasts are paid for. Resumed, it asks for the same distances, or the ledger
    would refuse them."""
    frame, run, _ = made
    with (
        patch.object(DenseTable, "finished", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        go(frame, out=tmp_path / "run", threads=1)
    resumed = go(frame, out=tmp_path / "run", threads=2, resume=True)
    assert resumed.data.equals(run.data)


def test_a_loaded_run_draws_the_same_rows_under_conditions(made):
    """They have the means of the true rows under the condition: a standard error of .1 for the
    model, and of .03 for 2,000 rows."""
    frame, run, loaded = made
    drawn = run.sample(2000, where={"q0": 5}, seed=2)
    assert loaded.sample(2000, where={"q0": 5}, seed=2).equals(drawn)
    there = frame.filter(pl.col("q0") == 5)
    for q in ("q4", "q7"):
        assert pl.Series(drawn[q]).mean() == pytest.approx(there[q].mean(), abs=0.3)


def test_partial_rows_are_completed(made):
    frame, _, loaded = made
    given = frame.select("q0", "q1", "q2").head(400)
    full = pl.DataFrame(loaded.complete(given, seed=3))
    assert full.columns == frame.columns and full.select(given.columns).equals(given)
    assert np.corrcoef(full["q1"], full["q6"])[0, 1] > 0.6


def test_answers_about_pairs_come_from_the_model_and_its_distances(made):
    frame, run, loaded = made
    told = run.answer("count", by=["q5", "q8"])
    assert str(loaded.answer("count", by=["q5", "q8"])) == str(told)
    truth = dict.fromkeys(map(tuple, frame.select("q5", "q8").unique().rows()), 0)
    truth |= {(a, b): n for a, b, n in frame.group_by("q5", "q8").len().rows()}
    lines = told.table.to_pylist()
    inside = [
        line["low"] <= truth.get((line["q5"], line["q8"]), 0) <= line["high"]
        for line in lines
        if isinstance(line["q5"], int) and isinstance(line["q8"], int)
    ]
    assert len(inside) == 49 and np.mean(inside) > 0.85


def test_the_statement_names_the_contrasts_and_verifies(made):
    _, run, _ = made
    releases = run.privacy["parts"][0]["releases"]
    kinds = [r for r in releases if r["kind"] == "contrasts"]
    assert [r["count"] for r in kinds] == [
        66,
        55,
    ]  # the first of all columns, the second of those with an order
    assert not fastdp.verify(run.out).problems
    assert not any(HIDDEN in str(r) for r in releases)
    assert run.privacy["mechanism"]["hidden_factors"]["columns"] == 11

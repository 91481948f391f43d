"""Totals of rows where noise may hide the users who have most of them."""

import math

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.run.answer_numbers import with_numbers

USERS = 1_500


def table():
    """One user in a hundred has most of the rows, and only these are of kind 3."""
    rng = np.random.default_rng(1)
    rows = 1 + rng.poisson(2.0, USERS)
    rows[:15] = 700
    user = np.repeat(np.arange(USERS), rows)
    kind = np.where(user < 15, 3, rng.integers(0, 3, len(user)))
    return pa.table(
        {"user": user, "kind": kind, "paid": rng.integers(1, 9, len(user)).astype(float)}
    )


def run_on(max_rows=None, **more):
    user = {"column": "user", "amounts": ["paid"]} | ({"max_rows": max_rows} if max_rows else {})
    schema = fastdp.Schema.from_dict(
        {
            "user": user,
            "columns": {
                "kind": {"kind": "integer", "min": 0, "max": 3},
                "paid": {"kind": "numeric", "edges": list(range(11)), "null": "drop"},
            },
        }
    )
    return fastdp.synthesize(
        table(), epsilon=1.0, delta=1e-6, schema=schema, seed=2, sample_seed=3, threads=1, **more
    )


@pytest.fixture(scope="module")
def run():
    return run_on()


def one(answer):
    (line,) = answer.to_pylist()
    return line


def test_totals_that_noise_may_multiply_have_no_interval(run):
    """The table has four times the rows that are seen. By a Pareto tail of what is seen the upper end was
    a fifth above the estimate. Nothing shows these users, so it says so, and what to do."""
    count = one(run.answer("count"))
    assert count["low"] is None and count["high"] is None and count["basis"] == "unknown"
    assert "withheld: noise may hide users" in count["note"] and "set max_rows" in count["note"]
    assert count["rows_up_to_low"] <= count["rows_up_to"] <= count["rows_up_to_high"]
    assert {line["high"] for line in run.answer("count", by="kind")} == {None}
    assert one(run.answer("sum(paid)"))["high"] is None
    for of in ("mean(rows) of users", "mean(sum(paid)) of users"):
        assert one(run.answer(of))["high"] is None, "a total over the number of users"


def test_shares_say_whose_rows_they_are_of(run):
    """Shares stay, as those of each user's first rows: the note says how many users may have more."""
    lines = run.answer("share", by="kind").to_pylist()
    assert all("of each user's first" in line["note"] for line in lines)
    assert all("may be there without a sign" in line["note"] for line in lines)


def test_a_bound_of_the_schema_gives_an_end_that_holds():
    """With `max_rows` nothing has to be assumed: the end holds users with so many rows each. A tail's
    end was at 9,000 of 14,800 rows."""
    run = run_on(max_rows=800)
    count = one(run.answer("count"))
    rows = table().num_rows
    assert count["low"] <= rows <= count["high"]
    assert "holds if no user has more than 800 rows, as the schema says" in count["note"]
    # Of few rows each the mean is of use, and its interval no wider than that of the total says.
    few = run_on(max_rows=3)
    mean, total, users = (
        one(few.answer(of)) for of in ("mean(rows) of users", "count", "count of users")
    )
    assert mean["estimate"] == pytest.approx(total["estimate"] / users["estimate"])
    parts = [(total["high"] - total["estimate"]) / total["estimate"]]
    parts.append((users["estimate"] - users["low"]) / users["estimate"])
    assert mean["high"] == pytest.approx(mean["estimate"] * (1 + math.hypot(*parts)))
    assert mean["low"] < mean["estimate"] < mean["high"] < 1.2 * mean["estimate"]


NUMBER = {
    "number": "count of rows",
    "estimate": 900.0,
    "low": 700.0,
    "high": 3000.0,
    "note": "if no user",
}
OWN = {"estimate": 880.0, "error": 20.0, "low": 840.0, "high": 1000.0, "basis": "measured"}
PARTS = {"noise": 10.0, "clipping": 15.0, "bins": 0.0, "model": 0.0, "note": "own"}


@pytest.mark.parametrize("claimed", [True, False])
def test_a_number_does_not_take_away_what_is_known_better(run, claimed):
    """A number asked for is nine times as wide as the run's own interval. That one stays if it assumes no
    more than the number; else the number is given, and its note keeps the other. Neither is lost."""
    asked = pa.Table.from_pylist([NUMBER])
    own = pa.Table.from_pylist([OWN | PARTS])
    (line,) = with_numbers(own, asked, "count of rows", run.schema, claimed).to_pylist()
    kept, told = ("840", "700 to 3,000") if claimed else ("700", "840 to 1,000")
    assert line["low"] == float(kept)
    assert told in line["note"]

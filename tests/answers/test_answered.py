"""Answers as people ask for them and read them: typed values, a table that shows itself."""

from datetime import date

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import fastdp
from fastdp.answers.question import parsed
from fastdp.errors import UsageError


@pytest.fixture(scope="module")
def run():
    rng = np.random.default_rng(8)
    n = 4000
    start = np.datetime64("2024-01-01T00:00:00")
    table = pa.table(
        {
            "cancelled": rng.random(n) < 0.25,
            "shop": pa.array(rng.choice(["North", "South", "?", None], n, p=[0.5, 0.3, 0.1, 0.1])),
            "code": pa.array(rng.choice([1, 2, 9, None], n, p=[0.5, 0.3, 0.1, 0.1]), pa.int64()),
            "at": start + rng.integers(0, 10 * 86_400, n).astype("timedelta64[s]"),
        }
    )
    schema = fastdp.Schema.from_dict(
        {
            "columns": {
                "cancelled": {"kind": "categorical", "dtype": "bool", "values": [False, True]},
                "shop": {"kind": "string", "values": ["North", "South"]},
                "code": {"kind": "categorical", "dtype": "int64", "values": [1, 2]},
                "at": {
                    "kind": "numeric",
                    "dtype": "timestamp[us]",
                    "edges": [f"2024-01-{day:02}" for day in range(1, 12)],
                },
            }
        }
    )
    return table, fastdp.synthesize(table, schema=schema, mechanism="mst", epsilon=20.0, delta=1e-9)


def inside(answer, truth):
    (row,) = answer.to_pylist()
    return row["low"] <= truth <= row["high"]


def test_true_and_other_cases_are_accepted_as_people_type_them(run):
    table, made = run
    truth = sum(table["cancelled"].to_pylist())
    for typed in (True, "true", "True", parsed("count where cancelled = true")[2]["cancelled"]):
        assert inside(made.answer("count", where={"cancelled": typed}), truth)
    north = table["shop"].to_pylist().count("North")
    assert inside(made.answer("count", where={"shop": "north"}), north)
    with pytest.raises(UsageError, match="not one of its values"):
        made.answer("count", where={"shop": "west"})


def test_a_date_on_a_column_of_times_is_that_day(run):
    table, made = run
    day = date(2024, 1, 3)
    truth = sum(at.date() == day for at in table["at"].to_pylist())
    for typed in (day, "2024-01-03", parsed("count where at = 2024-01-03")[2]["at"]):
        found = made.answer("count", where={"at": typed})
        assert inside(found, truth)
        assert found["estimate"][0].as_py() < 2 * truth, "one day of ten"


def test_an_answer_is_a_table_that_shows_itself(run):
    _, made = run
    found = made.answer("count", by="code")
    assert found.num_rows == len(found) == 4 and found["estimate"].type == pa.float64()
    assert pa.table(found).equals(found.table) and pl.DataFrame(found).height == 4
    shown = repr(found)
    for key in ("1", "2", "(missing values)", "(values outside the schema)"):
        assert key in shown and key in found._repr_html_()
    assert len(set(found.keys())) == 4, "two null keys have two names"
    for note in found.notes:
        assert shown.count(note) == 1 and found._repr_html_().count(note) == 1
    assert found._repr_html_().count("<svg") == 4
    assert list(found.to_pandas()["estimate"]) == found["estimate"].to_pylist()


def test_a_listed_value_called_other_is_not_what_lies_outside_the_schema():
    rng = np.random.default_rng(9)
    words = pa.array(rng.choice(["(other)", "north", "?", None], 2000, p=[0.6, 0.2, 0.1, 0.1]))
    column = {"kind": "string", "values": ["(other)", "north"]}
    made = fastdp.synthesize(
        pa.table({"shop": words}),
        schema=fastdp.Schema.from_dict({"columns": {"shop": column}}),
        mechanism="mst",
        epsilon=20.0,
        delta=1e-9,
    )
    found = made.answer("count", by="shop")
    names = [key for (key,) in found.keys()]
    assert names == ["(other)", "north", "(values outside the schema)", "(missing values)"]
    listed = words.to_pylist().count("(other)")
    assert inside(made.answer("count", where={"shop": "(other)"}), listed)

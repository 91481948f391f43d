"""Public data of another year: moved to the schema's year, by public facts alone."""

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import DataError, SchemaError, UsageError
from fastdp.run.public_data import read_public


def schema(**year):
    month = {"kind": "integer", "min": 1, "max": 12, "overflow": "drop"}
    return fastdp.Schema.from_dict({"columns": {"year": {"kind": "integer"} | year, "month": month}})


def rows(*years, n=240):
    rng = np.random.default_rng(0)
    return pa.table({"year": rng.choice(years, n), "month": rng.integers(1, 13, n)})


def test_one_value_takes_all_rows_and_several_are_shifted():
    for one in ({"min": 2020, "max": 2020, "overflow": "drop"}, {"min": 2020, "max": 2020}):
        table = read_public(rows(2016, 2018), schema(**one), ("year",))
        assert table.rows == 240 and set(table.codes["year"]) == {0}
        assert table.schema == schema(**one)
    for values, dtype in (([2020], "int16"), (["this year"], "string")):
        alone = schema(kind="categorical", dtype=dtype, values=values, overflow="drop", null="drop")
        table = read_public(rows(2016, 2018), alone, ("year",))
        assert table.rows == 240 and set(table.codes["year"]) == {0}
    both = schema(min=2019, max=2020, overflow="drop")
    moved = read_public(rows(2016, 2017), both, ["year"])
    assert moved.rows == 240 and set(moved.codes["year"]) == {0, 1}
    assert np.array_equal(moved.codes["year"], rows(2016, 2017)["year"].to_numpy() - 2016)
    listed = schema(kind="categorical", dtype="int16", values=[2019, 2020], overflow="drop")
    same = read_public(rows(2019, 2020), listed, ["year"])  # nothing to move
    assert np.array_equal(same.codes["year"], rows(2019, 2020)["year"].to_numpy() - 2019)


def test_what_cannot_be_moved_is_said(tmp_path):
    words = schema(kind="categorical", dtype="string", values=["a", "b"])
    with pytest.raises(UsageError, match="'year' must hold whole numbers"):
        read_public(rows(2018), words, ["year"])
    with pytest.raises(SchemaError, match="did you mean 'year'"):
        read_public(rows(2018), schema(max=2020), ["years"])
    nothing = rows(2018).set_column(1, "month", pa.array(np.full(240, 77)))
    with pytest.raises(DataError, match="even after relabelling year"):
        read_public(nothing, schema(min=5, max=5), ["year"])


def test_private_rows_decide_nothing():
    """The same public data is read the same way whatever the private rows are: they are not even opened."""
    public = fastdp.simulate.incidents(4000, seed=2, year=2017)
    made = [
        fastdp.synthesize(
            fastdp.simulate.incidents(3000, seed=s), "incidents-usercounts", 2.0, 1e-6, public=public, seed=4
        ).privacy["parts"][0]["releases"]
        for s in (1, 5)
    ]
    assert made[0] == made[1]

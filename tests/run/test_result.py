"""What comes back: frames of the types that went in, files, and something to look at in a notebook."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import UsageError
from tests.run.test_synthesize import go, small_data, small_schema

AWKWARD = """
[columns.size]
kind = "categorical"
values = ["s", "m", "l"]
dtype = "enum"

[columns.place]
kind = "categorical"
values = ["here", "there"]
null = "drop"

[columns.named]
kind = "categorical"
values = ["x", "y"]
other = "elsewhere"
null = "drop"

[columns.price]
kind = "numeric"
edges = [0, 10, 100]
dtype = "float64"
null = "drop"
"""


@pytest.fixture(scope="module")
def awkward(tmp_path_factory):
    path = tmp_path_factory.mktemp("awkward") / "awkward.toml"
    path.write_text(AWKWARD)
    return path


@pytest.fixture(scope="module")
def run(awkward):
    """Half of the places and prices lie outside the lists."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "size": pl.Series(rng.choice(["s", "m", "l", None], 4000), dtype=pl.Categorical),
            "place": rng.choice(["here", "there", "nowhere"], 4000),
            "named": rng.choice(["x", "y", "z"], 4000),
            "price": rng.choice([5.0, 50.0, 500.0], 4000),
        }
    )
    return go(frame, schema=awkward, mechanism="mst", seed=2)


def test_enums_are_dictionaries_of_different_values(run):
    column = run.to_arrow()["size"]
    assert pa.types.is_dictionary(column.type)
    words = column.chunk(0).dictionary.to_pylist()
    assert len(set(words)) == len(words)
    assert set(run.to_pandas()["size"].cat.categories) == {"s", "m", "l"}
    assert run.to_polars()["size"].null_count() > 0


def test_a_column_that_drops_nulls_has_none_in_the_output(run):
    rows = run.to_polars()
    for name in ("place", "named", "price"):
        assert rows[name].null_count() == 0, name
    assert set(rows["place"]) == {"here", "there"}
    assert set(rows["named"]) == {"x", "y", "elsewhere"}
    assert rows["price"].min() >= 0 and rows["price"].max() <= 100


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a", "b"])])
def test_polars_categories_can_be_drafted_and_scored(dtype):
    frame = pl.DataFrame({"c": pl.Series(["a", "b", "a", None], dtype=dtype), "n": [1, 2, 3, 4]})
    drafted = fastdp.draft(frame).schema
    assert drafted.columns["c"].values == ("a", "b")
    scores = fastdp.evaluate(frame, frame, metrics="tv1", baselines=())
    assert scores["tv1"]["max"] == 0
    assert fastdp.evaluate(frame, frame, drafted, metrics="tv1", baselines=())["tv1"]["max"] == 0


def test_rows_as_frames_and_files(tmp_path):
    memory = go(small_data(), schema=small_schema(), seed=1)
    kept = go(small_data(), schema=small_schema(), seed=1, out=tmp_path / "run")
    for run in (memory, kept):
        rows = run.to_arrow()
        assert rows.to_pydict() == memory.data.to_pydict()
        assert run.to_polars().shape == run.to_pandas().shape == rows.shape
        for name in ("rows.parquet", "rows.csv", "rows.arrow"):
            run.write(tmp_path / name)
        assert pq.read_table(tmp_path / "rows.parquet").to_pydict() == rows.to_pydict()
        assert pl.read_csv(tmp_path / "rows.csv").shape == rows.shape
        assert pl.read_ipc(tmp_path / "rows.arrow").shape == rows.shape
    with pytest.raises(UsageError, match="parquet"):
        kept.write(tmp_path / "rows.xlsx")


def test_an_enum_is_written_as_text_to_csv(run, tmp_path):
    run.write(tmp_path / "rows.csv")
    assert set(pl.read_csv(tmp_path / "rows.csv")["size"].drop_nulls()) <= {"s", "m", "l"}


def test_no_rows_are_a_table_and_fewer_than_none_are_refused(run):
    assert run.sample(0).num_rows == 0 and run.sample(0).schema == run.to_arrow().schema
    assert run.sample(1).num_rows == 1
    with pytest.raises(UsageError, match="n must be a whole number >= 0"):
        run.sample(-1)

"""`spark.read.format("fastdp")` gives the rows of a run folder, in one file or in shards."""

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.run import output


@pytest.mark.parametrize("shards", [False, True], ids=["one file", "shards"])
def test_a_run_folder_is_a_format_of_spark(spark, tmp_path, monkeypatch, shards):
    if shards:
        monkeypatch.setattr(output, "ONE_FILE_SHARDS", 0)
    rng = np.random.default_rng(0)
    rows = pa.table(
        {"a": rng.integers(0, 4, 500).astype("uint8"), "b": rng.choice(["x", "y"], 500)}
    )
    columns = {
        "a": {"kind": "integer", "min": 0, "max": 3, "dtype": "uint8"},
        "b": {"kind": "string", "values": ["x", "y"]},
    }
    schema = fastdp.Schema.from_dict({"columns": columns})
    run = fastdp.synthesize(rows, epsilon=1.0, delta=1e-6, schema=schema, out=tmp_path / "run")
    fastdp.register_spark(spark)
    read = spark.read.format("fastdp").option("verify", "true").load(str(tmp_path / "run"))
    assert read.dtypes == [("a", "smallint"), ("b", "string")]
    found = sorted(map(tuple, read.collect()), key=str)
    assert found == sorted(run.to_polars().rows(), key=str)


def test_errors_of_the_reader_are_told(spark, tmp_path):
    fastdp.register_spark(spark)
    with pytest.raises(Exception, match="did you mean 'table'"):
        spark.read.format("fastdp").option("tabel", "a").load(str(tmp_path)).count()

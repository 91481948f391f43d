"""Released folders are easy to read with other tools: a pattern finds rows and nothing else."""

import shutil
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import RunError, UsageError
from fastdp.run import output
from fastdp.run.spark_reader import rows_of_folder


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Three run folders as a nightly job makes them; the last one has its rows in shards."""
    place = tmp_path_factory.mktemp("nights")
    rng = np.random.default_rng(0)
    schema = fastdp.Schema.from_domain({"a": 4, "b": 3})
    for night in range(3):
        rows = pa.table({"a": rng.integers(0, 4, 500), "b": rng.integers(0, 3, 500)})
        with pytest.MonkeyPatch.context() as patch:
            if night == 2:
                patch.setattr(output, "ONE_FILE_SHARDS", 0)
            out = place / "out" / f"night={night}"
            fastdp.synthesize(rows, epsilon=1.0, delta=1e-6, schema=schema, out=out)
    assert (place / "out" / "night=2" / "synthetic").is_dir()
    return place / "out"


def all_rows(nights):
    return sum(fastdp.load_run(folder).data.num_rows for folder in nights.glob("night=?"))


def test_a_pattern_finds_rows_and_nothing_else_in_polars(nights):
    found = pl.scan_parquet(nights / "**" / "*.parquet", hive_partitioning=True).collect()
    assert found.columns == ["a", "b", "night"] and found.height == all_rows(nights)


def test_a_pattern_finds_rows_and_nothing_else_in_duckdb(nights):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    query = f"select count(a), count(b) from read_parquet('{nights}/**/*.parquet')"
    found = duckdb.connect().execute(query).fetchall()
    assert found == [(all_rows(nights), all_rows(nights))]


def test_scan_is_lazy_and_gives_the_rows_of_a_run_of_its_folder_and_of_shards(nights):
    for folder in sorted(nights.glob("night=?")):
        frame = fastdp.scan(folder)
        assert isinstance(frame, pl.LazyFrame)
        run = fastdp.load_run(folder)
        assert frame.collect().equals(run.to_polars())
        assert fastdp.scan(run).collect().equals(run.to_polars())


def test_scan_gives_a_frame_for_each_linked_table(tmp_path):
    tables = fastdp.simulate.households(100, seed=1)
    run = fastdp.synthesize(tables, "households", epsilon=3.0, delta=1e-6, out=tmp_path / "run")
    frames = fastdp.scan(tmp_path / "run")
    assert {name: frame.collect().height for name, frame in frames.items()} == {
        name: table.num_rows for name, table in run.data.items()
    }


def test_scan_of_a_run_in_memory(nights):
    rows = pa.table({"a": [0, 1], "b": [0, 1]})
    schema = fastdp.Schema.from_domain({"a": 4, "b": 3})
    run = fastdp.synthesize(rows, epsilon=1.0, delta=1e-6, schema=schema)
    assert fastdp.scan(run).collect().equals(run.to_polars())


def test_folders_of_earlier_versions_still_have_their_measurements(nights, tmp_path):
    """They have the same files under names that end in .parquet."""
    older = tmp_path / "older"
    shutil.copytree(nights / "night=0", older)
    new = fastdp.load_run(nights / "night=0")
    for path in [*older.glob("*.pq")]:
        path.rename(path.with_suffix(".parquet"))
    found = fastdp.load_run(older)
    assert [m.clique for m in found.measurements] == [m.clique for m in new.measurements]
    assert set(found.tables) == set(new.tables) != set()


def test_the_reader_of_spark_finds_the_files_of_rows_in_types_of_spark(nights, tmp_path):
    """What the driver decides; tests/spark/test_reader.py reads with Spark itself."""
    for folder in sorted(nights.glob("night=?")):
        files, schema = rows_of_folder({"path": str(folder), "verify": "true"})
        assert sum(pq.read_table(file).num_rows for file in files) == (
            fastdp.load_run(folder).data.num_rows
        )
        assert not any(pa.types.is_unsigned_integer(kind) for kind in schema.types)
    path = {"path": str(nights / "night=0")}
    for options, said in (
        ({}, "give the run folder"),
        (path | {"tabel": "a"}, "did you mean 'table'"),
        (path | {"table": "a"}, "one table only"),
    ):
        with pytest.raises(UsageError, match=said):
            rows_of_folder(options)
    with pytest.raises(RunError):
        rows_of_folder({"path": str(tmp_path)})


def test_without_pyspark_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    with pytest.raises(UsageError, match="fastdp\\[spark\\]"):
        fastdp.register_spark(object())

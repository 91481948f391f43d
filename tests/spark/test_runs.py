"""Whole runs and their rows on Spark: the same to the bit as on this machine."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.engines import spark as engine
from fastdp.engines.local import local
from fastdp.errors import Cancelled, RunError, UsageError
from fastdp.run import spark_output
from fastdp.userkeys import RowsPerUser

from ..builders import open_ledger
from ..cli.test_app import fastdp_cli
from ..run.runs import ADAGRID, rows, run, same, schema
from .conftest import MODE, RETRIES


@pytest.mark.parametrize("mechanism", [ADAGRID, "cliquetree", "aim"])
def test_runs_are_the_same(spark, mechanism):
    """A clip chosen in private, recoding, and rounds that depend on one another."""
    clip = {} if mechanism is ADAGRID else {"clip": 3}
    want = run(rows(), mechanism=mechanism, schema=schema(), **clip)
    made = run(
        spark.createDataFrame(rows()), mechanism=mechanism, schema=schema(), partitions=3, **clip
    )
    same(want, made)


@pytest.mark.parametrize("partitions", [1, 2, 8, 97])
def test_any_number_of_partitions_gives_the_same(spark, partitions):
    """From columns of narrow types."""
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.string()]
    source = rows().cast(pa.schema(list(zip(rows().column_names, kinds, strict=True))))
    frame = spark.createDataFrame(source)
    key = RowsPerUser((1, 2, 4, 8))
    want = local(fastdp.read(source, schema()), 1).user_histogram(key, 1)
    with engine.spark(frame, schema(), partitions) as counter:
        assert counter.partitions.partitions == partitions
        assert counter.user_histogram(key, 1).tolist() == want.tolist()
    fixed = {"mechanism": "mst", "clip": 3, "schema": schema()}
    same(run(source, **fixed), run(frame, partitions=partitions, **fixed))


@pytest.mark.parametrize("only", [None, "2026-02"])
def test_user_months_are_the_same(spark, only):
    """Pairs of a user and a month in Tokyo, and one month of them."""
    numbers = np.arange(600)
    hours = pa.array(np.datetime64("2026-01-01T00", "us") + numbers * np.timedelta64(4, "h"))
    source = pa.table({"u": numbers % 7, "t": hours.cast(pa.timestamp("us", "UTC"))})
    source = source.append_column("b", pa.array(numbers % 4))
    source = source.append_column("c", pa.array(numbers // 3 % 3))
    plain_schema = {"user": {"column": "u", "max_rows": 20}}
    plain_schema["columns"] = {name: {"kind": "integer", "max": 3} for name in "bc"}
    unit = {"kind": "user-period", "period": "month", "of": "t", "zone": "Asia/Tokyo", "only": only}
    protected = fastdp.Schema.from_dict(plain_schema | {"unit": unit})
    fixed = {"mechanism": "mst", "clip": 3, "schema": protected}
    same(run(source, **fixed), run(spark.createDataFrame(source), partitions=3, **fixed))


def test_key_selection_is_the_same(spark):
    fields = {"mechanism": "usercounts", "columns": ["a", "b", "c"]}
    want = fastdp.synthesize(rows(), fields, 2.0, 1e-6, schema=schema(), seed=7, sample_seed=8)
    frame = spark.createDataFrame(rows())
    made = fastdp.synthesize(
        frame, fields, 2.0, 1e-6, schema=schema(), seed=7, sample_seed=8, partitions=2
    )
    assert made.data.equals(want.data) and want.data.num_rows
    assert arrow(made.to_spark(spark)).equals(plain(want.data))


def test_a_frame_may_be_read_through_the_driver(spark):
    same(
        run(rows(), schema=schema()),
        run(spark.createDataFrame(rows()), schema=schema(), engine="local"),
    )


def test_linked_tables_are_the_same(spark, tmp_path):
    """All rows of a key meet in one partition; the rows that are made can be written by Spark."""
    truth = fastdp.simulate.households(400, seed=3)
    fixed = {"epsilon": 2.0, "delta": 1e-6, "seed": 7, "sample_seed": 8}
    want = fastdp.synthesize(truth, "households", **fixed)
    frames = {name: spark.createDataFrame(table) for name, table in truth.items()}
    for more in ({"partitions": 3, "out": tmp_path / "run"}, {"engine": "local"}):
        made = fastdp.synthesize(frames, "households", **fixed, **more)
        assert made.data == want.data and want.data["persons"].num_rows
    for name in truth:
        assert want.runs[name].to_spark(spark).count() == want.data[name].num_rows
    with pytest.raises(UsageError, match="give all of them as Spark"):
        fastdp.synthesize({**frames, "persons": truth["persons"]}, "households", **fixed)


def test_what_cannot_be_asked_is_refused(spark, tmp_path):
    frame = spark.createDataFrame(rows(10))
    with pytest.raises(UsageError, match="got a Table"):
        run(rows(10), schema=schema(), engine="spark")
    with pytest.raises(UsageError, match="report="):
        run(frame, schema=schema(), report=True, out=tmp_path / "run")


def test_what_is_not_for_release_lies_elsewhere(spark, tmp_path):
    """`private_dir` with Spark: an interrupted run, resumed from the same folder, is charged once;
    without the folder it is refused."""
    shared = tmp_path / "shared"
    private = tmp_path / "mine"
    ledger = open_ledger(tmp_path, epsilon=20.0, delta=1e-5)
    frame = spark.createDataFrame(rows())

    def synthesize(**options):
        fixed = {"epsilon": 2.0, "delta": 1e-6, "clip": 3, "schema": schema(), "partitions": 2}
        place = {"out": shared / "run", "ledger": ledger, "dataset": "d"}
        return fastdp.synthesize(frame, "mst", **fixed, **place, **options)

    def cancel():
        return any(entry["steps"] for entry in ledger.entries("d"))

    with pytest.raises(Cancelled, match="charged"):
        synthesize(private_dir=private, cancel=cancel)
    (charged,) = ledger.entries("d")
    assert [path.name for path in shared.iterdir()] == ["run.unfinished"]
    with pytest.raises(RunError, match="private_dir="):
        synthesize()
    synthesize(private_dir=private, resume=True)
    assert [path.name for path in shared.iterdir()] == ["run"]
    (entry,) = ledger.entries("d")
    drawn = {step["label"]: step["answers"] for step in entry["steps"]}
    assert all(drawn[s["label"]] == s["answers"] for s in charged["steps"] if s["answered"])
    assert {path.stat().st_mode & 0o777 for path in private.iterdir()} == {0o600}
    assert private.stat().st_mode & 0o777 == 0o700
    assert fastdp.verify(shared / "run", ledger).ok


def plain(table):
    return table.cast(spark_output.spark_schema(table.schema)).replace_schema_metadata()


def arrow(frame):
    return frame.toArrow().replace_schema_metadata()


def small_shards(made):
    """The run's rows in many blocks."""
    small = type("Small", (type(made._output.rows),), {"shard_rows": 16})
    made._output.rows.__class__ = small
    return made, pa.concat_tables(made._output.tables())


def fails_once(output, asked, batches):
    """`make` whose task fails halfway through at its first attempt."""
    from pyspark import TaskContext

    for batch in spark_output.make(output, asked, batches):
        yield batch.slice(0, 3)
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")
        yield batch.slice(3)


def test_rows_are_made_in_the_executors(spark, monkeypatch):
    from pyspark.sql import functions

    made, want = small_shards(run(rows(), schema=schema()))
    assert made._output.blocks > 5
    frame = made.to_spark(spark)
    assert arrow(frame).equals(plain(want))
    sizes = frame.groupBy(functions.spark_partition_id().alias("p")).count().orderBy("p").collect()
    assert [row["count"] for row in sizes][:-1] == [16 * 16] * (made._output.blocks - 1)
    assert [row["p"] for row in sizes] == list(range(made._output.blocks))
    assert frame.schema.fields[0].metadata == {"fastdp.private": "false"}
    monkeypatch.setattr(spark_output, "make", fails_once)
    assert arrow(made.to_spark(spark)).equals(plain(want))


def test_rows_of_a_run_with_a_folder(spark, tmp_path):
    made = run(rows(), schema=schema(), out=tmp_path / "run")
    want = plain(made.to_arrow())
    assert arrow(made.to_spark(spark)).equals(want)
    loaded = fastdp.load_run(tmp_path / "run").to_spark(spark)
    assert sorted(map(tuple, loaded.collect())) == sorted(
        map(tuple, made.to_spark(spark).collect())
    )


@pytest.mark.skipif(MODE == "connect", reason="a session of its own, of the classic kind")
def test_on_the_command_line(tmp_path, monkeypatch, spark):
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # the tests' session is used
    source = tmp_path / "rows.parquet"  # whole: Spark's own process was started in another folder
    pq.write_table(rows(), source)
    schema().save(tmp_path / "rows.toml")
    common = "-m mst -e 2 -d 1e-6 --clip 3 --seed 7 --sample-seed 8 --quiet".split()
    spark_options = ["--engine", "spark", "--master", RETRIES, "--partitions", "2"]
    for name, more in (
        ("one", []),
        ("two", [*spark_options, "--private-dir", str(tmp_path / "mine")]),
    ):
        fastdp_cli("synth", source, *common, "--out", name, *more, cwd=tmp_path)
    data = [fastdp.load_run(tmp_path / name).data for name in ("one", "two")]
    assert data[0].equals(data[1])
    assert (tmp_path / "mine" / "timings.json").exists() and not (tmp_path / "two.private").exists()
    for wrong in (["rows.csv", "--engine", "spark"], [source, "--master", RETRIES]):
        asked = ["synth", *wrong, *common, "--out", "three"]
        assert fastdp_cli(*asked, cwd=tmp_path, check=False).returncode == 2


@pytest.mark.skipif(
    MODE == "connect", reason="a job starts a session of its own, of the classic kind"
)
def test_the_example_of_a_spark_job_runs(spark, tmp_path, monkeypatch):
    """In this process, with the tests' session."""
    import runpy
    from pathlib import Path

    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    pq.write_table(rows(), tmp_path / "rows.parquet")
    schema().save(tmp_path / "rows.toml")
    path = Path(__file__).parents[2] / "examples" / "spark_job.py"
    given = {"source": "rows.parquet", "schema": "rows.toml", "state": "state", "out": "synthetic"}
    words = [word for name, value in given.items() for word in (f"--{name}", str(tmp_path / value))]
    monkeypatch.setattr(sys, "argv", [str(path), *words, "--delta", "1e-6", "--partitions", "2"])
    runpy.run_path(str(path), run_name="__main__")
    made = fastdp.load_run(tmp_path / "state")
    want = sorted(map(tuple, plain(made.to_arrow()).to_pandas().itertuples(index=False)))
    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "synthetic")).collect())) == want

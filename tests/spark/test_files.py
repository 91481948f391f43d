"""Parquet files that executors read themselves: which frames Spark says are such, and equal
integers."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastdp.engines import spark as engine, sparkfiles
from fastdp.engines.local import local
from fastdp.schema import Schema
from fastdp.tables import ingest

from ..engines.conformance import CLIQUES, cases

KINDS = {"a": "int16", "b": "int64"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("some files") / "rows"
    place.mkdir()
    table = pa.table({"a": pa.array(np.arange(60) % 50, pa.uint8()), "b": pa.array(np.arange(60))})
    for number in range(2):
        pq.write_table(table, place / f"{number}.parquet", row_group_size=25)
    return place


def test_plain_scans_are_known(spark, folder):
    for frame, files in (
        (spark.read.parquet(str(folder)), 2),
        (spark.read.parquet(f"{folder}/"), 2),
        (spark.read.parquet(f"file://{folder}"), 2),
        (spark.read.parquet(str(folder / "1.parquet")), 1),
        (spark.read.format("parquet").load([str(folder)]), 2),
        (spark.read.parquet(str(folder)).select("b", "a"), 2),
    ):
        groups = sparkfiles.scanned(frame, KINDS, 1)
        assert groups is not None and sum(map(len, groups)) == 3 * files


def test_anything_else_is_left_to_spark(spark, folder):
    frame = spark.read.parquet(str(folder))
    first, second = str(folder / "0.parquet"), str(folder / "1.parquet")
    for other in (
        spark.read.parquet(first, second, first),
        spark.read.parquet(first, first),
        spark.read.parquet(str(folder), str(folder)),
        frame.where("a > 1"),
        frame.limit(3),
        frame.union(frame),
        frame.sample(0.5, 3),
        frame.distinct(),
        frame.selectExpr("cast(a + 1 as smallint) as a", "b"),
        frame.selectExpr("b as a", "a as b"),
        frame.join(frame.select("a").distinct(), "a"),
        spark.read.option("mergeSchema", "true").parquet(str(folder)),
        spark.read.option("modifiedAfter", "2000-01-01T00:00:00").parquet(str(folder)),
        spark.createDataFrame([(1, 2)], "a int, b long"),
    ):
        assert sparkfiles.scanned(other, KINDS, 1) is None


def test_files_give_the_integers_of_the_local_engine(spark, tmp_path, monkeypatch):
    # Rows would be taken from Spark by it.
    monkeypatch.setattr(engine.SparkPartitions, "_from_rows", None)
    for case in cases():
        if case.name == "no rows":
            continue
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        pq.write_table(case.source, path, row_group_size=900)
        want = local(ingest.read(str(path), case.schema), 1).marginals(CLIQUES, 2)
        with engine.spark(spark.read.parquet(str(path)), case.schema, 3) as counter:
            made = counter.marginals(CLIQUES, 2)
        assert all(np.array_equal(made[c], want[c]) for c in CLIQUES), case.name


def test_days_and_times_of_files_are_those_that_spark_reads(spark, tmp_path):
    """Days before 1582 too, where Spark wrote them: by both calendars."""
    parts = {"kind": "timestamp", "dtype": "date32", "parts": ["month", "day_of_week"]}
    schema = Schema.from_dict({"columns": {"d": parts}})
    first = datetime.date(1500, 1, 1)
    days = [first + datetime.timedelta(days=971 * i) for i in range(200)]
    for rebase in ("CORRECTED", "LEGACY"):
        spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", rebase)
        spark.createDataFrame([(day,) for day in days], "d date").write.parquet(
            str(tmp_path / rebase)
        )
    spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    cliques = [tuple(schema.domain)]
    made = []
    for rebase in ("CORRECTED", "LEGACY"):
        frame = spark.read.parquet(str(tmp_path / rebase))
        direct = sparkfiles.scanned(frame, {"d": "date32[day]"}, 1)
        assert (direct is None) == (rebase == "LEGACY")
        with engine.spark(frame, schema, 2) as counter:
            made.append(counter.marginals(cliques)[cliques[0]])
    assert np.array_equal(made[0], made[1]) and made[0].sum() == len(days)


def test_the_shuffle_s_hash_is_spark_s(spark):
    numbers = [*range(-40, 400), 2**31 - 1, -(2**31)]
    rows = (
        spark.createDataFrame([(n,) for n in numbers], "n int")
        .selectExpr("n", "hash(n) as h")
        .collect()
    )
    seen = {row["n"]: row["h"] for row in rows}
    made = engine.spark_hash(np.array(numbers, np.int32)).tolist()
    assert made == [seen[n] for n in numbers]
    for partitions in (1, 2, 97, 1000):
        keys = engine.shuffle_keys(partitions)
        assert len(set((engine.spark_hash(keys) % partitions).tolist())) == partitions

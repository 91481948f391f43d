"""The Spark back end, on a classic session and on Spark Connect: conformance, planted faults, what
it keeps and what reaches the driver."""

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastdp.engines import messages, spark as engine, sparktasks as tasks
from fastdp.engines.local import local
from fastdp.errors import DataError, UsageError
from fastdp.schema import Schema
from fastdp.tables import ingest
from fastdp.userkeys import RowsPerUser

from ..engines import coding_cases
from ..engines.conformance import (
    CLIQUES,
    SIZES,
    cases,
    check,
    check_codes,
    check_numbers,
    schema_with,
)

MANY = "one user with many rows"
TEXTS = "texts that differ in case, blanks and accents"


def opener(spark, partitions=3):
    def open_engine(source, schema):
        frame = spark.createDataFrame(source.cast(source.schema))
        return engine.spark(frame, schema, partitions)

    return open_engine


def named(*names):
    return lambda case: case.name in names


def one(name):
    return next(case for case in cases() if case.name == name)


@pytest.mark.parametrize("case", [case.name for case in cases() if case.name != "no rows"])
def test_spark_counts_as_every_engine_must(spark, case):
    check(opener(spark), named(case))


@pytest.mark.parametrize("part", range(4))
def test_spark_gives_the_integers_of_numbers_that_are_asked_for(spark, part):
    check_numbers(opener(spark), part, 4)


def test_without_a_number_there_are_two_partitions_for_each_task_at_once(spark):
    case = one(MANY)
    assert engine.default_parallelism(spark) == 2
    frame = spark.createDataFrame(case.source.cast(case.source.schema))
    want = local(ingest.read(case.source, case.schema), 2).marginals(CLIQUES, 3)
    with engine.spark(frame, case.schema) as counter:
        assert counter.partitions.partitions == 4
        assert equal(counter.marginals(CLIQUES, 3), want)


def test_a_frame_without_rows(spark):
    frame = spark.createDataFrame([], "who long, a long, b long, c long")
    with engine.spark(frame, schema_with("who", "own"), 2) as counter:
        assert counter.marginals([("a", "b")], 2)[("a", "b")].sum() == 0
        assert counter.user_histogram(RowsPerUser((1, 2)), 1).tolist() == [0, 0]


def lowered(message, batches):
    """`encode` of texts without case."""
    from fastdp.engines import sparktasks

    def changed():
        for batch in batches:
            columns = [pc.utf8_lower(c) if pa.types.is_string(c.type) else c for c in batch.columns]
            yield pa.record_batch(columns, names=batch.schema.names)

    yield from sparktasks.encode(message, changed())


def twice(message, batches):
    """`count` that tells everything twice."""
    from fastdp.engines import sparktasks

    for batch in sparktasks.count(message, batches):
        yield batch
        yield batch


def failing(message, batches):
    """`count` whose task fails halfway through at its first attempt."""
    from pyspark import TaskContext

    from fastdp.engines import sparktasks

    for batch in sparktasks.count(message, batches):
        yield batch.slice(0, 1)
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")
        yield batch.slice(1)


def quoting(message, batches):
    """`encode` that fails on a value."""
    from fastdp.engines import sparktasks

    def work(arguments, source):
        raise ValueError("SECRET")
        yield

    return sparktasks._task(work, message, batches)


def test_ids_collated_without_case_are_caught(spark, monkeypatch):
    monkeypatch.setattr(tasks, "encode", lowered)
    with pytest.raises(AssertionError, match="other integers"):
        check(opener(spark), named(TEXTS))


@contextmanager
def counted(spark, case):
    """(counter, what its marginals must be)"""
    with opener(spark)(case.source, case.schema) as counter:
        yield counter, local(ingest.read(case.source, case.schema), 1).marginals(CLIQUES, 2)


def equal(made, want):
    return all(np.array_equal(made[c], want[c]) for c in CLIQUES)


def test_answers_that_come_twice_and_tasks_that_fail_change_nothing(spark, monkeypatch):
    with counted(spark, one(MANY)) as (counter, want):
        monkeypatch.setattr(tasks, "count", failing)
        assert equal(counter.marginals(CLIQUES, 2), want)
        monkeypatch.setattr(tasks, "count", twice)
        assert equal(counter.marginals(CLIQUES, 2), want)


def test_errors_tell_no_values(spark, monkeypatch):
    case = one(MANY)
    frame = spark.createDataFrame(case.source)
    broken = frame.selectExpr(
        "a", "b", "c", "if(who > 20, raise_error(concat('SECRET', who)), who) as who"
    )
    with pytest.raises(DataError, match="Spark failed") as ended:
        engine.spark(broken, case.schema, 2)
    assert "SECRET" not in str(ended.value)
    assert ended.value.__cause__ is None and ended.value.__context__ is None
    monkeypatch.setattr(tasks, "encode", quoting)
    with pytest.raises(DataError, match=r"a partition failed \(ValueError\)"):
        engine.spark(frame, case.schema, 2)


def test_executors_without_fastdp_are_told_of():
    def call():
        raise RuntimeError("in a task: ModuleNotFoundError: No module named 'fastdp'")

    with pytest.raises(DataError, match="cannot import fastdp; install"):
        engine.guarded(call)


def test_what_is_wrong_is_said_before_rows_are_read(spark):
    schema = schema_with("who")
    for columns, text in (
        ("a long, c long, who long", "'b' is missing"),
        ("a long, b long, c long, who long, b long", "'b' occurs 2 times"),
        ("a long, b array<long>, c long, who long", "'b'"),
        ("a long, b long, c long, who map<int, int>", "user column 'who': expected .* got map"),
    ):
        with pytest.raises(DataError, match=text):
            engine.spark(spark.createDataFrame([], columns), schema, 2)
    frame = spark.createDataFrame([], "a long, b long, c long, who long")
    with pytest.raises(UsageError, match="whole number from 1 to 32768"):
        engine.spark(frame, schema, 0)
    with pytest.raises(UsageError, match="got a Table"):
        engine.spark(pa.table({"a": [1]}), schema, 2)


def test_names_that_differ_in_case_and_collations_are_left_alone(spark):
    case = one(TEXTS)
    source = case.source.append_column("A", pa.array(np.zeros(case.source.num_rows, np.int64)))
    frame = spark.createDataFrame(source)
    names = [f"`{name}`" for name in case.source.column_names]
    numbered = frame.toDF(*(f"c{i}" for i in range(len(source.column_names))))
    collated = numbered.selectExpr("c0", "c1", "c2", "c3 collate UTF8_LCASE", "c4").toDF(
        *source.column_names
    )
    assert names[3] == "`who`"
    want = local(ingest.read(case.source, case.schema), 1).marginals(CLIQUES, 2)
    with engine.spark(collated, case.schema, 2) as counter:
        assert equal(counter.marginals(CLIQUES, 2), want)


def test_times_are_read_as_from_files_whatever_the_session_s_zone(spark, tmp_path):
    parts = {"kind": "timestamp", "dtype": "timestamp[us]", "parts": ["hour", "day_of_week"]}
    schema = Schema.from_dict({"columns": {"t": parts}})
    hours = np.arange(0, 3000, 7).astype("datetime64[h]").astype("datetime64[us]")
    source = pa.table({"t": pa.array(hours, pa.timestamp("us", "UTC"))})
    pq.write_table(source, tmp_path / "t.parquet")
    want = local(ingest.read(str(tmp_path / "t.parquet"), schema), 1)
    cliques = [tuple(schema.domain)]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.read.parquet(str(tmp_path / "t.parquet"))
        with engine.spark(frame, schema, 2) as counter:
            made = [
                counter.marginals(cliques),
                local(ingest.read(frame, schema), 1).marginals(cliques),
            ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for tables in made:  # in the executors, and through the driver
        assert np.array_equal(tables[cliques[0]], want.marginals(cliques)[cliques[0]])


def test_no_row_and_no_id_reaches_the_driver(spark, monkeypatch):
    seen = []
    collected = engine.collected

    def watched(frame):
        for row in collected(frame):
            seen.append(messages.unpacked(row[2]))
            yield row

    monkeypatch.setattr(engine, "collected", watched)
    case = one(TEXTS)
    with opener(spark)(case.source, case.schema) as counter:
        counter.marginals(CLIQUES, 2)
    facts = [message for message in seen if "rows" in message]
    assert [set(m) for m in facts] == [{"rows", "users", "dropped", "null_ids", "fingerprint"}] * 3
    (answer,) = [message for message in seen if "rows" not in message]
    assert set(answer) == {"partition", "digest", "tables"}
    ((cells, sums),) = answer["tables"]
    assert len(cells) == len(sums) <= sum(SIZES["b"] * SIZES[n] for n in "ac")


def held(values):
    """Spark has no unsigned numbers and no dictionaries, and its times have microseconds."""
    t = pa.types
    kind = values.type
    if t.is_dictionary(kind):
        return values.dictionary_decode()
    if t.is_uint64(kind):
        return values.cast(pa.decimal128(20, 0))
    if t.is_unsigned_integer(kind):
        return values.cast(pa.int64())
    if t.is_timestamp(kind):
        return values.cast(pa.timestamp("us", kind.tz))
    return values


@pytest.mark.slow
@pytest.mark.parametrize("kind", coding_cases.sources())
def test_spark_has_the_codes_of_the_local_engine(spark, kind):
    """Values of every type by every kind of column; what Spark hands over is read as elsewhere."""
    assert check_codes(opener(spark, 2), (kind,), held) == {}

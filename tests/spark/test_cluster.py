"""Executors that are processes of their own, and one that is killed in the middle of a count."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastdp.engines import spark as engine, sparktasks as tasks
from fastdp.engines.local import local
from fastdp.tables import ingest

from ..engines.conformance import CLIQUES, schema_with
from ..run.runs import rows, run, schema
from .test_runs import arrow, plain, small_shards


def executors(spark):
    """Process ids of the executors of this session."""
    application = spark.sparkContext.applicationId
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and application.encode() in command:
            pids.append(int(entry.name))
    return pids


def slow_count(message, batches):
    """`count` that takes its time, so that somebody can get in between."""
    import time

    from fastdp.engines import sparktasks

    time.sleep(1.5)
    yield from sparktasks.count(message, batches)


def until(true, what, seconds=120):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_an_executor_killed_in_the_middle_of_a_count_changes_no_integer(
    spark, tmp_path, monkeypatch
):
    count = 300_000
    rng = np.random.default_rng(4)
    columns = {
        "who": (rng.random(count) ** 3 * 20_000).astype(int),
        "a": rng.integers(0, 5, count),
        "b": rng.integers(0, 300, count),
        "c": rng.integers(0, 2, count),
    }
    source = pa.table(columns)
    pq.write_table(source, tmp_path / "rows.parquet", row_group_size=50_000)
    schema = schema_with("who")
    want = local(ingest.read(source, schema), 2).marginals(CLIQUES, 3)
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    tracker = spark.sparkContext.statusTracker()
    with engine.spark(frame, schema, 6) as counter, ThreadPoolExecutor(1) as pool:
        first = executors(spark)
        assert len(first) == 2
        monkeypatch.setattr(tasks, "count", slow_count)
        counting = pool.submit(counter.marginals, CLIQUES, 3)

        def busy():
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            return any(stage is not None and stage.numActiveTasks for stage in stages)

        until(busy, "no task ran")
        time.sleep(0.5)
        os.kill(first[0], signal.SIGKILL)
        assert not counting.done()
        made = counting.result(300)
        assert all(np.array_equal(made[c], want[c]) for c in CLIQUES)
        until(lambda: first[0] not in executors(spark), "the executor lives")
        monkeypatch.undo()
        made = counter.marginals(CLIQUES, 3)
        assert all(np.array_equal(made[c], want[c]) for c in CLIQUES)


def test_rows_are_made_by_executors(spark):
    made, want = small_shards(run(rows(), schema=schema()))
    assert arrow(made.to_spark(spark)).equals(plain(want))

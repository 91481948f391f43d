"""The engine over partitions: conformance, faults it must stand, and faults that conformance must catch."""

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastdp.domain import Domain
from fastdp.engines import messages, processes
from fastdp.engines import partitioned as engine
from fastdp.engines.local import local
from fastdp.engines.partitioned import Answer, MarginalRequest, PartitionedCounter
from fastdp.errors import BudgetError, DataError, SchemaError, UsageError
from fastdp.tables import ingest, split, spool
from fastdp.tables.table import Table
from fastdp.userkeys import Agreement, Groups, MostCommon, RowGroups, RowsPerUser, RowsUpTo, UserTable

from .conformance import CLIQUES, cases, check, schema_with


class Held:
    """Partitions that are tables in this process."""

    def __init__(self, tables, threads=1):
        self.tables, self.threads = list(tables), threads
        self.count = len(self.tables)
        self.has_users = all(table.user is not None for table in self.tables)

    def answers(self, request):
        for number, table in enumerate(self.tables):
            yield engine.answer(table, number, request, self.threads)

    def close(self):
        self.tables = []


def dealt_tables(source, schema, partitions, folder, change=lambda table: table):
    """The partitions of a source as tables of this process, by the code that processes run. change: of each
    one's rows."""
    folder.mkdir()
    dealt = split.deal(source, schema, folder, partitions, threads=2)
    out = []
    for streams in dealt.streams:
        parts = split.parts_of(streams)
        if change is not None and parts:
            rows = [
                batch
                for part in parts
                for unit in part.units([*schema.domain, *([schema.user] if schema.user else [])], None)
                for batch in unit()
            ]
            parts = ingest.sources.open_parts(change(pa.Table.from_batches(rows)))
        out.append(ingest.read_parts(parts, schema, threads=1))
    return out


def held(tmp_path, partitions, wrap=lambda back_end: back_end, change=lambda table: table):
    """An opener for `conformance.check`."""

    @contextmanager
    def open_engine(source, schema):
        folder = tmp_path / f"{time.monotonic_ns()}"
        tables = dealt_tables(source, schema, partitions, folder, change)
        yield PartitionedCounter(schema, wrap(Held(tables)))

    return open_engine


def test_the_local_engine_conforms():
    check(lambda source, schema: nullcontext(local(ingest.read(source, schema), 2)))


@pytest.mark.parametrize("partitions", [1, 2, 8, 97])
def test_partitions_conform(tmp_path, partitions):
    check(held(tmp_path, partitions))


@pytest.mark.parametrize("partitions", [2, pytest.param(97, marks=pytest.mark.slow)])
def test_processes_conform(partitions):
    check(
        lambda source, schema: processes.partitioned(source, schema, partitions, 2),
        lambda case: partitions == 97 or case.name in ("null ids, each a user", "no users"),
    )


class Fault:
    """A back end whose answers somebody tampers with."""

    def __init__(self, inner, answers):
        self.inner, self.count, self.has_users = inner, inner.count, inner.has_users
        self._answers = answers

    def answers(self, request):
        return self._answers(list(self.inner.answers(request)))

    def close(self):
        self.inner.close()


def wrapped(answers):
    return lambda inner: Fault(inner, answers)


def test_a_partition_that_answers_twice_is_counted_once(tmp_path):
    check(held(tmp_path, 8, wrapped(lambda answers: [*answers, *answers[::-1]])))


def test_adding_up_every_answer_would_be_caught(tmp_path, monkeypatch):
    def careless(answers, request, count, sizes):
        out = [np.zeros(size, np.int64) for size in sizes]
        for one in answers:
            for table, (cells, sums) in zip(out, one.tables, strict=True):
                table[cells] += sums
        return out

    monkeypatch.setattr(engine, "added", careless)
    check(held(tmp_path, 3))
    with pytest.raises(AssertionError, match="other integers"):
        check(held(tmp_path, 3, wrapped(lambda answers: [*answers, answers[0]])))
    with pytest.raises(AssertionError, match="other integers"):
        check(held(tmp_path, 3, wrapped(lambda answers: answers[1:])))


def test_a_partition_that_does_not_answer_is_an_error(tmp_path):
    with pytest.raises(DataError, match="did not answer"):
        check(held(tmp_path, 8, wrapped(lambda answers: answers[:-1])))


def test_partitions_that_split_a_user_are_caught(tmp_path, monkeypatch):
    rows = iter(range(1 << 40))

    def by_row(hashes, partitions):
        return np.array([next(rows) % partitions for _ in hashes], np.int64)

    monkeypatch.setattr(split, "by_user", by_row)
    with pytest.raises(AssertionError, match=r"many rows.*other integers"):
        check(held(tmp_path, 2))


def test_ids_collated_without_case_are_caught(tmp_path):
    def collated(rows):
        if "who" not in rows.column_names or not pa.types.is_string(rows.schema.field("who").type):
            return rows
        where = rows.column_names.index("who")
        return rows.set_column(where, "who", pc.utf8_lower(rows["who"]))

    check(held(tmp_path, 2), lambda case: "case" in case.name)
    with pytest.raises(AssertionError, match=r"case.*other integers"):
        check(held(tmp_path, 1, change=collated))


def test_answers_that_are_no_answers_are_refused():
    request = MarginalRequest((("a",),), None)
    good = (np.array([0, 2]), np.array([5, 1]))

    def add(cells, sums, partition=0, digest=None):
        return engine.added([Answer(partition, digest or request.digest(), [(cells, sums)])], request, 1, [3])

    assert add(*good)[0].tolist() == [5, 0, 1]
    for cells, sums in [([2, 0], [1, 5]), ([0, 0], [1, 1]), ([0, 3], [1, 1]), ([-1, 0], [1, 1])]:
        with pytest.raises(DataError, match="a partition"):
            add(np.array(cells), np.array(sums))
    with pytest.raises(DataError, match="exact integers"):
        add(np.array([0]), np.array([0.5]))
    with pytest.raises(DataError, match="another question"):
        add(*good, digest=MarginalRequest((("a",),), 1).digest())
    with pytest.raises(DataError, match="another question"):
        add(*good, partition=1)


def test_messages_give_back_what_was_sent():
    """Also where a column has the name that marks an array."""
    recode = {"array": np.array([0, 1, 1]), "a": np.array([1, 0], np.uint8)}
    key = Groups(("array", "c"), t_max=2, cells=np.array([0, 3, 5])).bind(Domain({"array": 3, "c": 2}))
    labels = MostCommon(("a",), labels=np.array([0, -1, 1])).bind(Domain({"a": 3}))
    for request in (
        MarginalRequest((("array", "a"), ("c",)), 3, recode),
        MarginalRequest(((),), None),
        engine.UserRequest(key, 2),
        engine.UserRequest(labels, 1),
        engine.UserRequest(RowsPerUser((1, 5)), 1),
        engine.UserRequest(RowsUpTo(5), 1),
        engine.UserRequest(Agreement((("a",), ("a", "c")), (2, 9)), 1),
        MarginalRequest((("a",),), 1, {}, UserTable((1, 3), columns=("a",))),
        MarginalRequest((("a",),), 4, recode, RowGroups((1, 3), name="g")),
    ):
        file = io.BytesIO()
        messages.send(file, messages.of_request(request))
        file.seek(0)
        assert messages.to_request(messages.receive(file)).digest() == request.digest()
    with pytest.raises(EOFError):
        messages.receive(io.BytesIO(file.getvalue()[:-1]))
    assert type(messages.to_error("BudgetError", "x")) is BudgetError
    assert type(messages.to_error("os", "x")) is DataError


def test_refused_before_any_partition_is_asked(tmp_path):
    table = Table.from_codes({"a": 3, "b": 1 << 20, "c": 1 << 20}, {n: [0] for n in "abc"})

    def asked(answers):
        raise AssertionError("a partition was asked")

    counter = PartitionedCounter(table.schema, Fault(Held([table]), asked))
    with pytest.raises(SchemaError, match="no attribute"):
        counter.marginals([("z",)])
    with pytest.raises(UsageError, match="clip"):
        counter.marginals([("a",)], 0)
    with pytest.raises(UsageError, match="2\\^32"):
        counter.marginals([("b", "c")])
    with pytest.raises(UsageError, match="cap"):
        counter.user_histogram(RowsPerUser((1,)), 0)
    assert counter.marginals([]) == {}
    for wrong in (0, 513, 1.5, True):
        with pytest.raises(UsageError, match="partitions"):
            split.check_partitions(wrong)


BOTH = next(case for case in cases() if case.name == "null ids, each a user")


def truth():
    return local(ingest.read(BOTH.source, BOTH.schema), 1).marginals(CLIQUES, 2)


def equal(counts):
    want = truth()
    return all(np.array_equal(counts[c], want[c]) for c in CLIQUES)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_processes_that_die_are_replaced_and_spools_rebuilt(temporary, monkeypatch):
    """One pool for all of this: a process takes a second or two to start."""
    pool = processes.ProcessPartitions(BOTH.source, BOTH.schema, 4, 2)
    counter = PartitionedCounter(BOTH.schema, pool)
    (root,) = temporary.iterdir()
    assert root.stat().st_mode & 0o777 == 0o700
    assert sorted(p.name for p in root.iterdir()) == [f"codes-{i}" for i in range(4)]  # no rows are left
    assert (pool.rows, pool.users, pool.dropped) == (3000, len(set(BOTH.owners)), 0)
    assert equal(counter.marginals(CLIQUES, 2))

    send, killed = processes._Process._send, []

    def send_and_kill(self, message):
        send(self, message)
        if message.get("task") == "count" and len(killed) < 2:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(processes._Process, "_send", send_and_kill)
        assert equal(counter.marginals(CLIQUES, 2))
    assert len(killed) == 2 and not set(killed) & set(pool.workers.pids())

    (root / "codes-1" / "user").unlink()
    (root / "codes-3" / "c0").write_bytes(b"")
    assert equal(counter.marginals(CLIQUES, 2))

    (root / "codes-2" / spool.MANIFEST).unlink()
    pool._source = BOTH.source.slice(1)
    with pytest.raises(DataError, match="same rows"):
        counter.marginals(CLIQUES, 2)
    counter.close()
    assert not root.exists() and pool.workers.pids() == []


def test_a_partition_that_kills_every_process_is_an_error(temporary, monkeypatch):
    table = ingest.read(BOTH.source, BOTH.schema)
    with processes.partitioned(table, BOTH.schema, 2, 1) as counter:
        send = processes._Process._send

        def send_and_kill(self, message):
            send(self, message)
            os.kill(self.pid, signal.SIGKILL)

        with monkeypatch.context() as patch:
            patch.setattr(processes._Process, "_send", send_and_kill)
            with pytest.raises(DataError, match="died 3 times"):
                counter.marginals(CLIQUES, 2)
        assert equal(counter.marginals(CLIQUES, 2))
    assert list(temporary.iterdir()) == []


def test_what_is_wrong_with_a_source_is_said_and_nothing_is_left(temporary):
    schema = schema_with("who")
    with pytest.raises(DataError, match="column 'b' is missing"):
        processes.partitioned(pa.table({"who": [1], "a": [1], "c": [1]}), schema, 2, 1)
    codes = {"a": [1], "b": [1], "c": [1]}
    with pytest.raises(DataError, match="of type integer in one part of the source and string in another"):
        processes.partitioned(
            [pa.table({"who": [1], **codes}), pa.table({"who": ["x"], **codes})], schema, 2, 1
        )
    assert list(temporary.iterdir()) == []


def test_text_files_and_types_that_change_from_part_to_part(tmp_path):
    """Text is parsed in the partitions; whole numbers of two widths are one kind of id."""
    rng = np.random.default_rng(0)
    rows = pa.table({n: rng.integers(0, k, 500) for n, k in {"who": 30, "a": 5, "b": 300, "c": 2}.items()})
    narrow = rows.set_column(0, "who", rows["who"].cast(pa.int16()))
    pq.write_table(rows, tmp_path / "1.parquet")
    pq.write_table(narrow, tmp_path / "2.parquet")
    lines = [
        "who,a,b,c",
        *(",".join(map(str, row.values())) for row in rows.to_pylist()),
        '7,1,"2',
        "x,y,1,1",
    ]
    (tmp_path / "3.csv").write_text("\n".join(lines) + "\n")
    schema = schema_with("who")
    for sources in ([str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")], [str(tmp_path / "3.csv")]):
        whole = local(ingest.read(sources, schema), 1)
        counter = PartitionedCounter(
            schema, Held(dealt_tables(sources, schema, 5, tmp_path / f"d{len(sources)}", None))
        )
        for clip in (None, 3):
            want, counts = whole.marginals(CLIQUES, clip), counter.marginals(CLIQUES, clip)
            assert all(np.array_equal(want[c], counts[c]) for c in CLIQUES)
    assert split.deal(str(tmp_path / "3.csv"), schema, tmp_path / "d1", 5).malformed == 1


KILLED = """
import os, signal, sys
import pyarrow as pa
from fastdp.schema import Schema
from fastdp.engines.processes import partitioned

rows = pa.table({"who": list(range(50)), "a": [1] * 50})

def stop():
    print(*os.listdir(os.environ["TMPDIR"]), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def batches():
    for number in range(100):
        if number == 90 and sys.argv[1] == "dealing":
            stop()
        yield from rows.to_batches()

source = pa.RecordBatchReader.from_batches(rows.schema, batches())
partitioned(source, Schema.from_domain({"a": 3}, user="who"), 2, 2)
stop()
"""


@pytest.mark.parametrize("when", ["dealing", "encoded"])
def test_after_the_driver_was_killed_nothing_private_is_left(tmp_path, when):
    """A script without a guard around its main part; its processes notice, and clean up."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, script, when], capture_output=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL and b"fastdp-partitions-" in done.stdout, done.stderr
    for _ in range(600):
        if not any(folder.iterdir()):
            break
        time.sleep(0.1)
    assert not any(folder.iterdir())


def test_a_table_is_split_by_its_users():
    for case in cases():
        table = ingest.read(case.source, case.schema)
        pieces = [split.part_of_table(table, p, 7) for p in range(7)]
        assert sum(piece.rows for piece in pieces) == table.rows
        assert sum(piece.users for piece in pieces) == table.users
        counter = PartitionedCounter(case.schema, Held(pieces))
        want, counts = local(table, 1).marginals(CLIQUES, 3), counter.marginals(CLIQUES, 3)
        assert all(np.array_equal(want[c], counts[c]) for c in CLIQUES)

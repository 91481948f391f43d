"""Files that Spark's tasks read themselves, without Spark: which frames and files are read so, every row
group once, and the integers of every engine."""

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastdp.engines import messages, sparkfiles
from fastdp.engines import sparktasks as tasks
from fastdp.engines.build import build

from .conformance import check
from .test_sparktasks import CASES, Frame, engine_over

REBASED = {sparkfiles.REBASE: "CORRECTED"}


class Scan(Frame):
    """A frame of files, opened by `roots`; equal scans have equal roots and columns."""

    def __init__(self, roots, files, chosen=None):
        super().__init__([pq.read_table(file) for file in files])
        self.roots, self.files, self.chosen = list(roots), files, chosen
        self.schema, self.read, self.conf = None, Reader(self), self

    def inputFiles(self):
        return [f"file://{file}" for file in self.files]

    def sameSemantics(self, other):
        return (self.roots, self.chosen) == (other.roots, other.chosen)

    def parquet(self, *paths):
        return Scan(paths, self.files)

    def select(self, *names):
        if all(name.startswith("c") and name[1:].isdigit() for name in names):
            return super().select(*names)
        return Scan(self.roots, self.files, names)

    def get(self, name):
        return REBASED[name]

    def range(self, start, end, step, tasks):
        assert (start, step) == (0, 1) and end == tasks
        return Frame([pa.table({"id": [number]}) for number in range(end)])


class Reader:
    """`spark.read` of a `Scan`."""

    def __init__(self, frame):
        self.frame = frame

    def schema(self, form):
        return self.frame

    def parquet(self, *paths):
        return self.frame.parquet(*paths)


@pytest.fixture
def trips(tmp_path):
    """Two files of one table, and the table."""
    table = pa.table({"a": pa.array(range(50), pa.int8()), "who": pa.array(range(50), pa.int64())})
    files = []
    for number in range(2):
        files.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(table.slice(25 * number, 25), files[-1], row_group_size=10)
    return files


KINDS = {"a": "int8", "who": "int64"}


def test_plain_scans_are_read_by_tasks_and_nothing_else(trips, tmp_path, monkeypatch):
    folder = str(tmp_path)
    monkeypatch.chdir(tmp_path.parent)
    groups = [(file, number) for file in trips for number in range(3)]
    for roots in ([folder], [f"file://{folder}"], [f"{folder}/"], [tmp_path.name]):
        for chosen in (None, ("a", "who")):
            lists = sparkfiles.scanned(Scan(roots, trips, chosen), KINDS, 2)
            assert lists is not None and [group[:2] for one in lists for group in one] == groups
    for roots in ([f"{folder}/*"], trips, [trips[0], *trips], [folder, folder]):
        assert sparkfiles.scanned(Scan(roots, trips), KINDS, 2) is None
    assert sparkfiles.scanned(Scan(trips, [*trips, trips[0]]), KINDS, 2) is None
    assert sparkfiles.scanned(Frame([pq.read_table(trips[0])]), KINDS, 2) is None
    elsewhere = Scan([folder], trips)
    elsewhere.inputFiles = lambda: ["s3a://lake/1.parquet"]
    assert sparkfiles.scanned(elsewhere, KINDS, 2) is None
    monkeypatch.setattr(sparkfiles, "MAX_FILES", 1)
    assert sparkfiles.scanned(Scan([folder], trips), KINDS, 2) is None


@pytest.mark.parametrize(
    ("stored", "kind", "same"),
    [
        (pa.int8(), "int8", True),
        (pa.int32(), "int64", False),
        (pa.uint8(), "int16", True),
        (pa.uint32(), "int64", True),
        (pa.uint64(), "decimal128(20, 0)", False),
        (pa.large_string(), "string", True),
        (pa.binary(), "string", False),
        (pa.dictionary(pa.int32(), pa.string()), "string", False),
        (pa.date32(), "date32[day]", True),
        (pa.timestamp("us"), "timestamp[us]", True),
        (pa.timestamp("us"), "timestamp[us, tz=UTC]", False),
        (pa.timestamp("us", "UTC"), "timestamp[us, tz=America/New_York]", True),
        (pa.timestamp("us", "America/New_York"), "timestamp[us, tz=UTC]", False),
        (pa.timestamp("ns"), "timestamp[us]", False),
        (pa.timestamp("ms"), "timestamp[us]", False),
        (pa.decimal128(9, 2), "decimal128(9, 2)", True),
    ],
)
def test_files_hold_the_values_that_spark_reads_from_them(stored, kind, same):
    assert sparkfiles._same(pa.schema([("x", stored), ("y", pa.int8())]), {}, {"x": kind}) is same
    assert not sparkfiles._same(pa.schema([("X", stored)]), {}, {"x": kind})
    assert not sparkfiles._same(pa.schema([("x", stored), ("x", stored)]), {}, {"x": kind})


@pytest.mark.parametrize("tasks_wanted", [1, 2, 3, 50])
@pytest.mark.parametrize("size", [1, 1 << 27])
def test_every_row_group_is_in_one_list(trips, tasks_wanted, size, monkeypatch):
    monkeypatch.setattr(sparkfiles, "TASK_BYTES", size)
    lists = sparkfiles._shares(trips, KINDS, tasks_wanted)
    assert [group[:2] for one in lists for group in one] == [(file, n) for file in trips for n in range(3)]
    assert all(lists) and (len(lists) == 6 if size == 1 else len(lists) >= min(tasks_wanted, 6) // 2)


@contextmanager
def of_files(source, schema, folder, leave_out=False):
    """The engine over a table in two files, which must be read by the tasks."""
    half = source.num_rows // 2
    files = []
    for number, part in enumerate((source.slice(0, half), source.slice(half))):
        files.append(str(folder / f"{number}.parquet"))
        pq.write_table(part, files[-1], row_group_size=max(1, half // 3))
    frame = Scan([str(folder)], files)
    frame.selectExpr = None  # rows would be taken from Spark by it
    if leave_out:
        lists = sparkfiles.scanned(frame, {}, 2)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sparkfiles, "scanned", lambda *_: lists[:-1])
            with engine_over(frame, schema) as counter:
                yield counter
        return
    with engine_over(frame, schema) as counter:
        yield counter


@pytest.mark.parametrize("name", [name for name in CASES if name != "no rows"])
def test_the_tasks_conform_on_files(name, tmp_path):
    check(lambda source, schema: of_files(source, schema, tmp_path), lambda case: case.name == name)


def test_row_groups_that_are_left_out_are_caught(tmp_path):
    name = "one user with many rows"
    with pytest.raises(AssertionError, match="other integers"):
        check(lambda *given: of_files(*given, tmp_path, True), lambda case: case.name == name)


def failures(groups):
    """What `encode_files` reports of these row groups."""
    arguments = {"build": dict(build()), "groups": [groups], "keys": np.zeros(1, np.int32)}
    rows = tasks.encode_files(messages.packed(arguments), iter([pa.record_batch({"id": [0]})]))
    return [text for batch in rows for text in batch["failed"].to_pylist() if text is not None]


def test_a_file_that_is_damaged_or_another_is_named_and_not_quoted(trips):
    ((first, *_), *_) = sparkfiles._shares(trips, KINDS, 1)
    pq.write_table(pq.read_table(trips[0]), trips[0], row_group_size=9)
    (failed,) = failures([first])
    assert failed.startswith('["DataError"') and "0.parquet" in failed and "another one" in failed
    with open(trips[0], "r+b") as file:
        file.truncate(40)
    (failed,) = failures([first])
    assert failed.startswith('["DataError"') and "0.parquet" in failed and "damaged" in failed


def test_a_file_without_rows_gives_a_table_without_rows(tmp_path):
    case = CASES["no rows"]
    path = str(tmp_path / "none.parquet")
    pq.write_table(case.source, path)
    frame = Scan([path], [path])
    assert sparkfiles.scanned(frame, {}, 2) is not None
    with engine_over(frame, case.schema) as counter:
        assert counter.partitions.rows == 0

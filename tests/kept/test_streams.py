"""How sources are streamed, as it is kept: rows of every unit of every kind of source, what drivers and
engines of others are asked for, how far threads run ahead, files of rows and codes with their modes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from fastdp import Schema
from fastdp.tables import identity, ingest, objects, parts, sources, split, spool, sql
from fastdp.tables.parts import Part
from fastdp.tables.table import Table

from .figures import check, given, plain

ROWS = pa.table(
    {"who": [f"u{i % 5}" for i in range(13)], "n": list(range(13)), "s": ["a", None, "b"] * 4 + ["c"]}
)
ASKED = ["s", "who"]


@contextlib.contextmanager
def _small(rows: int = 5) -> Any:
    """An empty folder to work in, and batches of few rows."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        pytest.MonkeyPatch.context() as patch,
    ):
        for module in (parts, split):
            patch.setattr(module, "BATCH_ROWS", rows)
        yield Path(folder)


def _units(opened: list[Part], user: str | None = "who") -> Any:
    """Of every part its name, types and texts; of every unit the rows, names and types of its batches."""
    out: list[Any] = []
    for part in opened:
        out.append([part.where, str(part.schema), sorted(part.text), part.any_name, part.hint])
        for unit in part.units(ASKED, user):
            batches = list(unit())
            out.append([[b.num_rows, str(b.schema), plain(b)] for b in batches])
    return out


def _sources() -> Any:
    out: list[Any] = []
    frame = pl.DataFrame(ROWS)
    with _small():
        pq.write_table(ROWS, "t.parquet", row_group_size=7)
        for name, make in (("t.arrow", pa.ipc.new_file), ("t.arrows", pa.ipc.new_stream)):
            with pa.OSFile(name, "w") as file, make(file, ROWS.schema) as writer:
                writer.write_table(ROWS, 7)
        frame.write_csv("t.csv")
        frame.write_ndjson("t.jsonl")
        os.makedirs("hive/s=x%20y/_no")
        pq.write_table(ROWS.select(["who"]), "hive/s=x%20y/p.parquet")
        pq.write_table(ROWS.select(["who"]), "hive/s=x%20y/_no/p.parquet")
        connection = sqlite3.connect(":memory:")
        connection.execute("create table t (who, n, s)")
        connection.executemany("insert into t values (?, ?, ?)", zip(*ROWS.to_pydict().values()))
        reader = pa.RecordBatchReader.from_batches(ROWS.schema, ROWS.to_batches(7))
        given_sources: list[Any] = ["t.parquet", "t.arrow", "t.arrows", "t.csv", "t.jsonl", "hive"]
        given_sources += [
            ROWS,
            ROWS.to_batches()[0],
            frame,
            frame["who"].to_frame().with_columns(s=frame["s"]),
        ]
        frames = ROWS.to_pandas().astype({"who": object, "s": object})  # pandas 3 has texts of its own
        given_sources += [ds.dataset(ROWS), frames, dict(ROWS.to_pydict()), reader]
        given_sources += [sql.sql(connection, "select * from t"), [ROWS, "t.parquet"]]
        for source in given_sources:
            out.append([type(source).__name__, given(lambda: _units(sources.open_parts(source)))])
        out.append(given(lambda: _units(sources.open_parts("t.parquet"), None)))
        out.append(given(lambda: _units([sources.row_groups("t.parquet", [1])])))
        for odd in (object(), pl.Series([1]), pandas.Series([1, "a"]), pandas.DataFrame({"x": [[1], "a"]})):
            out.append([type(odd).__name__, given(lambda: str(objects.open_object(odd).schema))])
        pq.write_table(ROWS, "cut.parquet")
        os.truncate("cut.parquet", 90)
        out += [given(sources.open_parts, name) for name in ("cut.parquet", "none", "n*", [], "hive/none")]
        out.append(given(objects.open_object, ds.dataset("t.csv", format="csv")))
        connection.close()
    return out


class Lazy:
    """A LazyFrame whose engine writes down what it is asked for."""

    __module__ = "polars.lazyframe"

    def __init__(self, pieces: list[Any], error: BaseException | None = None):
        self.pieces, self.error, self.told = pieces, error, []

    def collect_schema(self) -> Any:
        return pl.Schema({"who": pl.String, "s": pl.String})

    def select(self, columns: Any) -> Any:
        self.told.append([str(c) for c in columns])
        return self

    def sink_batches(self, put: Any, **options: Any) -> None:
        self.told.append(options)
        for piece in self.pieces:
            if put(piece):
                self.told.append("stopped")
                return
        if self.error is not None:
            raise self.error
        self.told.append("ended")


def _lazy() -> Any:
    """Engines are asked for batches in order and no longer than ours; one that stops, fails or is left."""
    out: list[Any] = []
    pieces = [pl.DataFrame({"s": [str(i)] * 3, "who": ["u"] * 3}) for i in range(9)]
    with _small(2):
        for error in (None, pl.exceptions.ComputeError("row 7"), ValueError("row 7")):
            frame = Lazy(pieces[:3], error)
            out.append([given(lambda: _units([objects.open_object(frame)])), given(lambda: frame.told)])
        frame = Lazy(pieces)
        rows = objects._stream(frame)
        out.append([next(rows)["s"][0], next(rows)["s"][0]])
        rows.close()
        out.append(frame.told)
    return out


class Cursor:
    """A cursor that writes down what it is asked for."""

    def __init__(self, rows: list[Any] | None):
        self.rows, self.told, self.at = rows, [], 0
        self.description = None if rows is None else [("who",), ("s",), (7,)]

    def execute(self, query: str) -> None:
        self.told.append(query)

    def fetchmany(self, size: int) -> list[Any]:
        self.told.append(size)
        rows, self.at = (self.rows or [])[self.at : self.at + size], self.at + size
        return rows

    def close(self) -> None:
        self.told.append("closed")


class Reader:
    """A stream of an ADBC cursor."""

    schema = ROWS.schema

    def __init__(self, told: list[Any]):
        self.told = told

    def __iter__(self) -> Any:
        return iter(ROWS.to_batches(7))

    def close(self) -> None:
        self.told.append("reader closed")


def _cursors() -> Any:
    """Rows of drivers: how many at a time, and what is closed; a cursor that was handed over stays open."""
    out: list[Any] = []
    values = [("u", "a", 1), (None, b"\xff", 2.5), ("v", 7, None)] * 4
    with _small(12):
        for own in (True, False):
            for rows in (values, [], None):
                cursor = Cursor(rows)
                to: Any = SimpleNamespace(cursor=lambda cursor=cursor: cursor) if own else cursor
                made = given(lambda: _units([sql.open_query(sql.Query(to, "select"))]))
                out.append([own, made, list(cursor.told)])
            cursor = Cursor(values)
            cursor.fetch_record_batch = lambda cursor=cursor: Reader(cursor.told)
            to = SimpleNamespace(cursor=lambda cursor=cursor: cursor) if own else cursor
            out.append([own, given(lambda: _units([sql.open_query(sql.Query(to, "select"))])), cursor.told])
    return out


def _asked_of_datasets() -> Any:
    """What an Arrow dataset and a relation of DuckDB are asked for."""
    told: list[Any] = []

    class Dataset:
        __module__ = "pyarrow._dataset"
        schema, format = ROWS.schema, None

        def get_fragments(self) -> Any:
            return []

        def to_batches(self, **options: Any) -> Any:
            told.append(options)
            return ROWS.select(options["columns"]).to_batches(7)

    class Relation:
        columns = ("who", "s", 'q"')

        def limit(self, rows: int) -> Any:
            told.append(f"limit {rows}")
            return self

        def to_arrow_table(self) -> Any:
            return ROWS

        def project(self, text: str) -> Any:
            told.append(text)
            return self

        def to_arrow_reader(self, rows: int) -> Any:
            told.append(rows)
            return ROWS.select(ASKED).to_batches(rows)

    with _small():
        made = [_units([objects.open_object(Dataset())]), _units([objects.of_duckdb(Relation(), "<r>")])]
    return [told, made]


def _ahead() -> Any:
    """How many jobs are begun when the first, second, ... result is taken, for any number of threads."""
    out: list[Any] = []
    for threads in (1, 2, 3):
        begun: list[int] = []

        def jobs(begun: list[int] = begun) -> Any:
            for i in range(9):
                begun.append(i)
                yield lambda i=i: [i, -i]

        out.append([[made, len(begun)] for made in ingest.in_order(jobs(), threads)])
    for sizes in ([], [0], [5], [4, 1], [3, 3, 3], [4, 0, 0], [12, 1]):
        batches = [pa.record_batch({"a": np.arange(n), "b": np.zeros(n)}) for n in sizes]
        with _small():
            out.append([[b.num_rows for b in unit()] for unit in split.units_of(batches, ["a"])])
            out.append([[b.num_rows for b in parts.cut(batch)] for batch in batches])
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 9, 4], "i4")), pa.py_buffer(b"abcd")]
    )
    for array in (
        broken,
        broken.view(pa.binary()),
        pa.DictionaryArray.from_arrays(pa.array([5], pa.int8()), ["a"], safe=False),
    ):
        try:
            out.append([b.num_rows for b in parts.checked(pa.record_batch({"x": array}))])
        except pa.ArrowInvalid:
            out.append("refused")
    odd = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], "i4")), pa.py_buffer(b"\xff")]
    )
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        array = odd if kind == pa.string() else odd.view(pa.binary()).cast(pa.large_binary())
        array = array if kind != pa.large_string() else array.view(pa.large_string())
        out.append([b.num_rows for b in parts.checked(pa.record_batch({"x": array}))])
    return out


def _kept_files() -> Any:
    """Files of dealt rows and of codes: names, modes, contents, what is replaced."""
    out: list[Any] = []
    schema = Schema.from_domain({"n": 13}, user="who")
    numbers = ROWS.select(["who", "n"])
    with _small() as folder:
        pq.write_table(numbers, "a.parquet", row_group_size=3)
        pl.DataFrame(numbers).write_csv("b.csv")
        folder.joinpath("to").mkdir()
        dealt = split.deal(["a.parquet", "b.csv", "a.parquet"], schema, "to", 2, threads=2)
        for path in sorted(Path("to").rglob("*")):
            mode = oct(path.stat().st_mode & 0o777) if path.is_dir() else ""
            out.append([str(path), mode, [] if path.is_dir() else pa.ipc.open_stream(path).read_all()])
        out.append([[s.path, sorted(s.text)] for streams in dealt.streams for s in streams])
        out.append(given(split.deal, "a.parquet", schema, "none", 2))
        other = numbers.set_column(0, "who", pa.array(range(13)))
        for number, pair in enumerate(([numbers, other], [other, numbers], [numbers.slice(0, 0), other])):
            folder.joinpath(f"two{number}").mkdir()
            out.append(given(lambda: len(split.deal(pair, schema, f"two{number}", 2).streams)))
        table = Table.from_codes(
            {"n": 13, "m": 300}, {"n": np.arange(13), "m": np.arange(13)}, np.arange(13) // 3
        )
        for name in ("codes", "codes"):
            Path("codes.part").mkdir()
            Path("codes.part/left").touch()
            out.append(spool.save(table, name))
        out.append([[p.name, p.stat().st_size] for p in sorted(Path("codes").iterdir())])
        out += [oct(Path("codes").stat().st_mode & 0o777), Path("codes/table.json").read_text()]
        out += [sorted(p.name for p in folder.iterdir()), given(spool.load, "none", schema)]
        bare = Table.from_codes({"n": 13}, {"n": np.arange(0)})
        out += [spool.save(bare, "bare"), sorted(p.name for p in Path("bare").iterdir())]
        again = spool.load("bare", Schema.from_domain({"n": 13}))
        out.append([again.rows, again.users, again.user, dict(again.codes)])
    return out


def _shared() -> Any:
    """Which sources share rows, slice by slice and byte by byte."""
    out: list[Any] = []
    numbers = np.arange(40)
    arrays: list[pa.Array] = [
        pa.array(numbers),
        pa.array([str(i) for i in numbers]),
        pa.array(numbers % 2 == 0),
    ]
    arrays += [
        arrays[1].cast(pa.large_string()),
        arrays[1].cast(pa.string_view()),
        arrays[1].dictionary_encode(),
    ]
    arrays += [pa.array([b"ab"] * 40, pa.binary(2)), pa.array([[1]] * 40), pa.nulls(40)]
    for array in arrays:
        out.append(
            [
                str(array.type),
                [
                    sum(b - a for a, b in identity._array(array.slice(i, n)))
                    for i, n in ((0, 40), (8, 8), (0, 0), (39, 1), (3, 1))
                ],
            ]
        )
        out.append(
            [
                identity.overlap(pa.table({"x": array.slice(0, 16)}), pa.table({"x": array.slice(at, 8)}))
                for at in (0, 8, 15, 16, 17, 24)
            ]
        )
    frame = pl.DataFrame({"x": numbers})
    held = frame.to_pandas()
    for one, other in (
        (frame, frame.slice(3)),
        (frame.slice(0, 3), frame.slice(3)),
        (frame, frame["x"]),
        (held, held["x"]),
        (held, held.copy()),
        ({"x": numbers}, {"y": numbers[5:]}),
        ({"x": numbers[:5]}, {"y": numbers[5:]}),
        ([frame, {"x": numbers}], (held, {"y": numbers})),
        (7, 7.0),
        ("none", "none2"),
    ):
        out.append(identity.overlap(one, other))
    for pair in (([], []), ([(0, 4)], [(4, 8)]), ([(0, 5)], [(4, 8)]), ([(0, 1), (6, 7)], [(1, 6), (7, 9)])):
        out += [identity._meet(*pair), identity._meet(*pair[::-1])]
    out.append(identity._meet([(0, 1), (2, 3), (8, 9)], [(1, 2), (4, 5), (8, 10)]))
    return out


CASES: dict[str, Any] = {
    "sources": _sources,
    "lazy": _lazy,
    "cursors": _cursors,
    "asked of datasets": _asked_of_datasets,
    "ahead": _ahead,
    "kept files": _kept_files,
    "shared": _shared,
}


@pytest.mark.parametrize("name", CASES)
def test_sources_are_streamed_as_it_is_kept(name):
    check("streams", name, CASES[name]())

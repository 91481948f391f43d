"""What a run writes, file by file, as it is kept: rows in shards and blocks with users of every type,
measurements, states of run folders, how JSON is laid out, what is said of a run that is interrupted."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp import Schema
from fastdp.errors import FastdpError
from fastdp.measurement import Measurement
from fastdp.mechanisms.base import Outcome
from fastdp.privacy import statement
from fastdp.public.ids import Habits
from fastdp.queries import Weighted
from fastdp.run import asked, counting, fitting, idsource, making, output, standing
from fastdp.run.folder import RunFolder, whole_file
from fastdp.run.result import Run, load_run

from .figures import check, given, plain

SIZES = {"a": 3, "b": 5}
USERS = ["int8", "uint16", "int32", "uint64", "int64", "float32", "float64", "string", "large_string"]
USERS += [
    "string_view",
    "binary",
    "bool",
    "date32",
    "timestamp[us]",
    "decimal128(9, 2)",
    "dictionary<string>",
]


def _schema(user: str | None = None, **options: Any) -> Schema:
    document = Schema.from_domain(SIZES).to_dict()
    if user is not None:
        document["user"] = {"column": "who", "dtype": user, **options}
    return Schema.from_dict(document)


class Rows:
    """Rows whose codes follow from their numbers, in shards of three."""

    columns: Any = None

    def __init__(self, total: int, columns: Any = None):
        self.total, self.shard_rows, self.columns = total, 3, columns

    def shard(self, i: int) -> dict[str, np.ndarray]:
        row = np.arange(3 * i, min(3 * i + 3, self.total))
        return {n: (row * (k + 2) % s).astype(np.uint8) for k, (n, s) in enumerate(SIZES.items())}


class Reporter:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def update(self, *told: Any) -> None:
        self.told.append(" ".join(map(str, told)))

    def check(self) -> None:
        self.told.append("check")

    @contextlib.contextmanager
    def stage(self, name: str, text: str = "") -> Any:
        self.told.append(f"{name} begins {text}")
        yield
        self.told.append(f"{name} ends")


def _user_ids() -> Any:
    """User numbers in every type that ids may have."""
    owner, out = np.array([0, 2, 2, 1, 299], np.uint32), []
    for dtype in [None, *USERS]:
        for first in (0, 7):
            schema = Schema.from_domain(SIZES, user="who") if dtype is None else _schema(dtype)
            out.append([dtype, given(output.user_values, schema, owner, first)])
    return out


HABITS = Habits.from_rows(("a",), (3,), np.array([0, 0, 1, 2, 2, 2]), {"a": np.array([0, 1, 1, 2, 2, 0])})
SOURCES: dict[str, Any] = {
    "nobody": (None, {}, None),
    "no source": ("int64", {}, None),
    "sizes": ("int32", {}, output.IdSource(sizes=np.array([1, 3]), users=np.array([2.0, 3.0]), bound=3)),
    "habits": ("string", {}, output.IdSource(habits=HABITS, bound=2)),
    "owners": ("float64", {"owners": lambda i: np.full(3, i + 2, np.uint32)[: 3 if i < 6 else 1]}, None),
    "counts": (None, {"counts": lambda i: np.arange(3)[: 3 if i < 6 else 1] * 10 + i}, None),
}


def _outputs(name: str) -> Any:
    """Tables of no shard, one, four and five (files), two and three (blocks): values, types, files, steps."""
    user, options, source = SOURCES[name]
    out: list[Any] = []
    totals = (0, 1, 3, 12, 13, 19) if name not in ("owners", "counts") else (18, 19)
    for total, private, threads in itertools.product(totals, (True, False), (1, 3)):
        made = output.Output(
            _schema(user), Outcome(Rows(total), **options), source, 5, threads, False, private
        )
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
            patch.setattr(output, "BLOCK_SHARDS", 2)
            reporter = Reporter()
            tables = list(made.tables(reporter))
            out.append([total, made.shards, made.blocks, made._has_user, _form(made.arrow_schema())])
            out.append([plain(table) for table in tables] if private else len(tables))
            if threads == 1:
                out.append(reporter.told)
                again = [plain(t) for i in range(made.blocks) for t in made.block_tables(i)]
                assert again == [plain(t) for t in tables if total]
            hashes = made.write(Path(place))
            for path in sorted(p for p in Path(place).rglob("*") if p.is_file()):
                known = path.relative_to(place).as_posix()
                out.append([known, known in hashes, _parquet(path)])
                assert hashes.get(known) in (None, statement.file_hash(path))
            out.append(given(made.write, Path(place, "none")).replace(place, "PLACE"))
        twin = made.shipped()
        out.append([twin._threads, twin.outcome.measurements, twin.rows.total, given(made.again, 3, 1)])
    return out


def _form(schema: pa.Schema) -> Any:
    return [[f.name, str(f.type)] for f in schema] + sorted(map(str, (schema.metadata or {}).items()))


def _parquet(path: Path) -> Any:
    file = pq.ParquetFile(path)
    out: list[Any] = [file.metadata.num_rows, _form(file.schema_arrow)]
    for i in range(file.metadata.num_columns if file.num_row_groups else 0):
        column = file.metadata.row_group(0).column(i)
        packed = [e for e in column.encodings if e in ("DELTA_BINARY_PACKED", "RLE_DICTIONARY")]
        out.append([column.compression, sorted(packed), column.is_stats_set])
    return out


def _chosen_columns() -> Any:
    """Rows of some columns only, and those that break a constraint."""
    chosen = output.Output(_schema(), Outcome(Rows(9, ("b", "a"))), None, 5, 1)
    out: list[Any] = [_form(chosen.arrow_schema()), [plain(t) for t in chosen.tables()]]
    ordered = Schema.from_dict(
        {
            "columns": {n: {"kind": "integer", "min": 0, "max": s - 1} for n, s in SIZES.items()},
            "constraints": [{"order": ["b", "a"]}],
        }
    )
    return [*out, given(lambda: list(output.Output(ordered, Outcome(Rows(9)), None, 5, 1).tables()))]


def _id_sources() -> Any:
    out: list[Any] = []
    values = np.array([40.0, 9.0, 0.2, -3.0, 7.0])
    for user, most, ids, clip, seen in itertools.product(
        (None, "int64"), (None, 1, 7, 20), ("auto", "none", "private"), (3, "private"), (None, 0.1, 4.0)
    ):
        schema = _schema(user, **({} if most is None else {"max_rows": most})) if user else _schema()
        config: Any = SimpleNamespace(ids=SimpleNamespace(source=ids), clip=clip)
        users = None if seen is None else Measurement(("rows",), values, np.full(5, seen))
        out.append(given(idsource.id_source, schema, Outcome(Rows(3), users=users), config, None))
    public: Any = SimpleNamespace(habits=lambda columns: HABITS)
    for ids, options in itertools.product(
        ("auto", "private"), ({}, SOURCES["owners"][1], SOURCES["counts"][1])
    ):
        config = SimpleNamespace(ids=SimpleNamespace(source=ids), clip=3)
        made = idsource.id_source(_schema("int64", max_rows=4), Outcome(Rows(3), **options), config, public)
        out.append(None if made is None else [made.habits is HABITS, made.bound, made.sizes, made.users])
    return out


def _measurements() -> Any:
    """The files of released answers, byte by byte of the JSON."""
    out: list[Any] = []
    answers = [
        Measurement(("a",), np.array([1.0, 2.5, -1.0]), 2.0, label="ones"),
        Measurement(("a", "b"), np.arange(15.0), np.linspace(1, 2, 15)),
        Measurement(("a",), np.array([4.0, 1.0, 0.0]), np.array([1.0, 2.0, 3.0]), Weighted([1, 4, 9])),
    ]
    for chosen, private in itertools.product(([], answers[:1], answers), (True, False)):
        with tempfile.TemporaryDirectory() as place:
            output.write_measurements(Path(place), chosen, private)
            out.append(Path(place, "measurements.json").read_text("utf-8"))
            table = pq.read_table(Path(place, "measurements.parquet"))
            out += [_form(table.schema), table, _parquet(Path(place, "measurements.parquet"))]
    return out


def _layouts() -> Any:
    """Texts of the JSON files that a run writes, with line ends and blanks."""
    out: list[Any] = []
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        Path("run/inner").mkdir(parents=True)
        Path("run/inner/z.txt").write_text("z")
        Path("run/a.txt").write_text("a")
        Path("run/privacy.json").write_text("old")
        facts = {"b": {"ü": [1, 2.5]}, "a": None}
        out.append(statement.write("run", facts, {"a.txt": "given", "gone": "not there"}))
        out.append(Path("run/privacy.json").read_text("utf-8"))
        out.append(given(statement.write, "run", {"x": float("nan")}))
        Path("run/privacy.json").unlink()
        Path("run/privacy.json").mkdir()
        out.append(given(statement.write, "run", facts))
        Path("run/eps-1").mkdir()
        Path("run/eps-1/privacy.json").write_text("one")
        Path("run/other").mkdir()
        Path("run/other/privacy.json").write_text("two")
        out.append(given(lambda: [n for n, _ in statement.files_of(Path("run"))]))
        Path("run/privacy.json").rmdir()
        Path("run/privacy.json").write_text("whole")
        out.append(statement.statement_hashes(Path("run")))
        making._write_json(Path("x.json"), {"b": [1, {"ü": 2}], "a": 0.5})
        out += [Path("x.json").read_text("utf-8"), given(making._write_json, Path("x.json"), float("inf"))]
        for name in ("none/x", "new.txt"):
            with contextlib.suppress(FastdpError):
                with whole_file(Path(name)) as aside:
                    aside.write_text("n")
            out.append(sorted(p.name for p in Path(".").iterdir()))
        out.append(given(lambda: whole_file(Path("none/x")).__enter__()))
    return out


def _run_folders() -> Any:
    """Run folders opened, left, finished and resumed: refusals, states, what lies there afterwards."""
    out: list[Any] = []

    def said(call: Any, *given_to: Any, **options: Any) -> None:
        made = given(call, *given_to, **options)
        made = made.replace(place, "PLACE") if isinstance(made, str) else made
        out.append([getattr(call, "__name__", ""), made if call != folder.staging else "-"])

    def there() -> None:
        names = sorted(str(p.relative_to(place)) for p in Path(place).rglob("*"))
        out.append([re.sub("tmp-[0-9a-f]{8}", "tmp", name) for name in names])
        for path in sorted(Path(place).rglob("state.json")):
            out.append(re.sub("tmp-[0-9a-f]{8}", "tmp", path.read_text()))

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place, "deep/er/run"))
        said(folder.open)
        there()
        out.append(
            [oct(folder.private.stat().st_mode & 0o777), oct((folder.private / "lock").stat().st_mode)]
        )
        said(RunFolder(folder.out).open)
        said(folder.abandon, keep=False)
        there()
        folder = RunFolder(Path(place, "run"))
        said(RunFolder(folder.out, resume=True).open)
        said(folder.open)
        said(folder.agree, {"b": 1, "a": (2, 3)}, {"seed": 4}, [{"max_cells": 9}])
        said(folder.keep_limits, [{"max_cells": 10}])
        there()
        (folder.staging() / "x.txt").write_text("x")
        out.append(folder.staging() == folder.staging())
        there()
        said(folder.abandon, keep=True)
        there()
        said(RunFolder(folder.out).open)
        folder = RunFolder(folder.out, resume=True)
        said(folder.open)
        said(folder.agree, {"b": 2, "a": [2, 3]}, {})
        said(folder.agree, {"b": 1}, {})
        said(folder.agree, {"b": 1, "a": [2, 3], "c": None}, {})
        said(folder.agree, {"b": 1, "a": [2, 3], "c": 0}, {})
        out += [list(folder.limits_before), folder.stopped, folder.finished]
        said(folder.keep_stopped, "why")
        out.append(folder.stopped)
        there()
        staging = folder.staging()
        (staging / "privacy.json").write_text("{}")
        said(folder.publish)
        times = {p.stat().st_mtime_ns for p in [folder.out, *folder.out.rglob("*")]}
        out += [folder.finished, len(times), all(t % 10**9 == 0 for t in times)]
        out.append(folder.staging() == staging)
        there()
        said(folder.abandon, keep=True)
        said(RunFolder(folder.out).open)
        folder = RunFolder(folder.out, resume=True)
        said(folder.open)
        said(folder.forget)
        there()
        for text in ("", "[]", "{}", '{"version": 2}'):
            (folder.private / "state.json").write_text(text)
            said(RunFolder(folder.out, resume=True).open)
            said(RunFolder(folder.out, resume=True).open)
        (folder.private / "state.json").write_text('{"version": 1}')
        folder = RunFolder(folder.out, resume=True)
        said(folder.open)
        folder.close()
        folder = RunFolder(Path(place, "killed"))
        out.append(folder._holds_lock())
        folder.open()
        folder.agree({}, {})
        (folder.staging() / "half").touch()
        folder.close()
        there()
        folder = RunFolder(folder.out, resume=True)
        said(folder.open)
        there()
        first = folder.staging()
        said(folder.abandon, keep=True)
        out.append(folder.staging() == first)
        (folder.private / "state").mkdir()
        (folder.private / "state" / "model").touch()
        said(folder.forget)
        said(RunFolder(folder.out).abandon, keep=False)
        there()
        Path(place, "file").touch()
        said(RunFolder(Path(place, "file", "run")).open)
        out += [
            given(lambda: RunFolder("/").open()),
            given(lambda: load_run(Path(place, "none"))).count("none"),
        ]
    return out


def _interrupted() -> Any:
    """What is said of a run at every stage, with its charge."""
    out: list[Any] = []
    steps: list[dict[str, Any]] = []

    class Book:
        def entries(self) -> list[dict[str, Any]]:
            return [{"run": "other", "steps": [1]}, {"run": "run", "steps": steps}]

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place, "run"))
        for at, resume, over in itertools.product((None, folder), (False, True), (False, True)):
            for run, book, entered in (
                ("", None, []),
                ("run", None, []),
                ("run", Book(), []),
                ("run", Book(), [{"part": 0, "label": "ones", "answered": True}]),
                ("run", Book(), [{"part": i, "label": f"s{i}", "answered": i != 1} for i in range(3)]),
                ("new", Book(), []),
            ):
                steps[:] = entered
                now: Any = standing.Standing()
                folder.resume = resume
                now._book = lambda book=book: book
                if at is not None:
                    now.opened(at)
                if run:
                    now.reserved(None, run, "epsilon 1", " of data set 'd'")
                if over:
                    now.published()
                out.append([now.stage, now.charge(), now.text("AGAIN", "RESUME").replace(place, "PLACE")])
        now = standing.Standing()
        now.follow(SimpleNamespace(current="fit"))
        now.reserved(7, "run", "p", "")
        out += [now.stage, now._book(), now.charge()]
    return out


def _fits() -> Any:
    """Digests of fits, and what is told while they go on."""
    out: list[Any] = []
    answers = [Measurement(("a",), np.array([5.0, 3.0, 2.0]), 1.0)]
    mask = np.zeros((3, 5), bool)
    mask[0, 1] = True
    for options in ({}, {"max_cells": 5}, {"zeros": {("a", "b"): mask}}, {"iterations": 7}, {"zeros": None}):
        out.append(fitting._digest(SIZES, answers, options))
    out.append(fitting._digest({"a": 3}, answers, {}))
    out.append(fitting._digest(SIZES, [Measurement(("a",), np.array([5.0, 3.0, 2.0]), 2.0)], {}))
    with tempfile.TemporaryDirectory() as place:
        for cache in (None, Path(place, "state")):
            for _ in range(2):
                reporter: Any = Reporter()
                kept: list[Any] = []
                model = fitting.fit_once(SIZES, answers, cache, reporter, keep=kept.append, threads=1)
                stages = [t for t in reporter.told if not t.startswith(("fit 0", "check"))]
                first = next((t for t in reporter.told if t.startswith("fit 0")), None)
                out += [stages, first, len(kept), [round(x, 3) for x in model.marginal(("a",)).ravel()]]
                for save in kept:
                    save()
    return out


def _asked() -> Any:
    out: list[Any] = []
    for epsilon, delta in itertools.product((1, 0.0, -1.0, float("inf"), float("nan"), True, "1"), (0, 1e-6)):
        out.append(given(asked.check_budget, epsilon, delta))
    for delta in (-1e-9, 0.0, 0.999, 1.0, float("nan"), None, False):
        out.append(given(asked.check_budget, 1.0, delta))
    recipe: Any = SimpleNamespace(schema=None, name="", mechanism="mst")
    named: Any = SimpleNamespace(schema=_schema(), name="own", mechanism="mst")
    out += [
        given(asked.resolve_schema, None, recipe),
        given(asked.resolve_schema, None, named).__class__.__name__,
    ]
    table = pa.table({"who": [1, 2], "a": [1, 2], "t": ["x", "y"]})
    for schema, domain, user, of in itertools.product(
        (None, _schema()), (None, "private", "public"), (None, "who", "none"), (recipe, named)
    ):
        made = given(asked.asked_schema, table, schema, domain, user, of)
        out.append(made if isinstance(made, str) else "a schema")
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    kinds = (None, "local", "partitioned", "spark", "other")
    for source, engine, partitions, report in itertools.product(
        (table, stream), kinds, (None, 0, 1, 4096, 4097), (False, True)
    ):
        out.append(given(counting.engine_for, source, engine, partitions, report))
    for source in (table, stream, fastdp.read(table.select(["a"]), Schema.from_domain({"a": 3}))):
        out.append(given(counting.check_source, source, None))
        out += [counting.read_once(source), counting.is_table(source)]
    schema = Schema.from_domain({"a": 3}, user="who")
    for source in (table, fastdp.read(table, schema)):
        made = counting.open_counting(source, schema, "local", None, 1)
        out.append([dict(made.reading), made.table is source, made.counter.marginals([("a",)], None)[("a",)]])
        made.close()
        out.append(made.table is not None and made.table.codes)
    return out


def _runs() -> Any:
    """Runs in memory, written in every form."""
    out: list[Any] = []
    made = output.Output(_schema("int64"), Outcome(Rows(7)), SOURCES["sizes"][2], 5, 1, private=False)
    run = Run({"epsilon": 1.0}, (), None, _schema("int64"), _output=made)
    out += [
        run.data,
        run.to_arrow(),
        run.to_polars(),
        run._rows,
        given(run.sample, 3, 1),
        given(run.sample, -1),
    ]
    bare = Run({}, (), None, _schema())
    out += [given(lambda: bare.data), given(bare.sample, 1), bare._rows, given(bare.reader)]
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for name in ("r.parquet", "r.CSV", "r.arrow", "r.feather", "r.txt", "r", "none/r.csv"):
            out.append(given(run.write, name))
        out += [
            Path("r.CSV").read_text(),
            _parquet(Path("r.parquet")),
            sorted(p.name for p in Path().iterdir()),
        ]
        out.append([pa.ipc.open_file(p).read_all().to_pydict() for p in ("r.arrow", "r.feather")])
        Path("run").mkdir()
        for text in (None, "{", '{"epsilon": 2}'):
            if text is not None:
                Path("run/privacy.json").write_text(text)
                _schema().save("run/schema.json")
            out.append(given(lambda: (load_run("run").out, load_run("run").model, load_run("run").privacy)))
        pq.write_table(run.to_arrow(), "run/synthetic.parquet")
        loaded = load_run("run")
        out += [loaded._rows, loaded.to_arrow(), given(loaded.sample, 1), load_run(loaded) is loaded]
    return json.loads(json.dumps(plain(out)))


CASES: dict[str, Any] = {
    "user ids": _user_ids,
    **{f"rows with {name}": lambda name=name: _outputs(name) for name in SOURCES},
    "chosen columns": _chosen_columns,
    "id sources": _id_sources,
    "measurements": _measurements,
    "layouts": _layouts,
    "run folders": _run_folders,
    "interrupted": _interrupted,
    "fits": _fits,
    "asked": _asked,
    "runs": _runs,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_what_is_kept(name):
    check("written", name, CASES[name]())

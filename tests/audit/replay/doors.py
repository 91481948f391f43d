"""Worlds of what surrounds a run: databases and frames that rows come from, and the command line
with all that it prints."""

import contextlib
import io
import re
import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

import fastdp
from fastdp.cli import app

from . import hostile
from .worlds import Run, Scene, of_users, synthesize, text_lines, world

SECONDS = re.compile(r'.*"event": "progress".*\n|"seconds": [\d.]+|\d+\.\d s\b')
"""Times that the command line prints, which no guarantee covers; events come as often as they allow."""


def _private_or_not(rng: np.random.Generator, columns: str = "ngxt", **options: Any) -> Run:
    """A run by a schema, or one that finds the domain."""
    given = {"mechanism": "mst"} | options
    if rng.random() < 0.5:
        return synthesize(None, domain="private", user="u", epsilon=20.0, **given)
    return synthesize(hostile.schema(rng, columns), epsilon=3.0, **given)


@world("databases", pairs=4)
def databases(rng: np.random.Generator) -> Scene:
    """Rows that DuckDB counts or hands over, or that SQLite holds as values without a type."""
    kind = str(rng.choice(["counted", "read", "sqlite"] if find_spec("duckdb") else ["sqlite"]))
    columns = "ngx" if kind == "sqlite" else "ngxt"
    inner = _private_or_not(rng, columns)
    engine = {"engine": "sql"}
    if kind == "counted" and rng.random() < 0.5:  # where the kinds of texts must be stated
        private = {"n": "integer", "g": "categorical", "x": "numeric"}
        found = {name: {"kind": of, "domain": "private"} for name, of in private.items()}
        found["g"]["dtype"] = "string"
        user = {"column": "u", "max_rows": hostile.MOST_ROWS}
        schema = fastdp.Schema.from_dict({"user": user, "columns": found})
        inner = synthesize(schema, epsilon=20.0, mechanism="mst", **engine)
    elif kind == "counted":
        inner = synthesize(hostile.schema(rng, columns), epsilon=3.0, mechanism="mst", **engine)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        if kind == "sqlite":
            with contextlib.closing(sqlite3.connect(":memory:")) as database:
                database.execute("create table t (u, n, g, x)")
                rows = [tuple(row.values()) for row in data.drop_columns("t").to_pylist()]
                database.executemany("insert into t values (?, ?, ?, ?)", rows)
                return inner(fastdp.sql(database, "select * from t"), folder)
        import duckdb

        with duckdb.connect(config={"threads": 1}) as database:
            database.register("given", data)
            database.execute("create table t as select * from given")
            return inner(fastdp.sql(database, "select * from t"), folder)

    return of_users(rng, run)


@world("frames", pairs=4)
def frames(rng: np.random.Generator) -> Scene:
    """Frames of pandas with Python's objects, lazy ones of Polars, and files of Arrow."""
    import polars as pl

    kind = str(rng.choice(["lazy", "file", "objects"][: 3 if find_spec("pandas") else 2]))
    inner = _private_or_not(rng)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        if kind == "lazy":
            return inner(pl.DataFrame(data).lazy(), folder)
        if kind == "objects":
            return inner(data.to_pandas(integer_object_nulls=True).astype(object), folder)
        feather.write_feather(data, str(folder / "in.arrow"))
        return inner(folder / "in.arrow", folder)

    return of_users(rng, run)


@world("command line", pairs=4)
def command_line(rng: np.random.Generator) -> Scene:
    """`fastdp synth` on a CSV file with lines that are not read: all that it prints but seconds, and
    its exit code."""
    given = ["-e", "20", "--delta", "1e-5", "--sample-seed", "5", "--ignore-empty-columns"]
    given += [["--quiet"], ["--json"], ["--progress", "json"], []][rng.integers(4)]
    finds = rng.random() < 0.6
    schema = hostile.schema(rng, "ngx")
    given += ["--domain", "private", "--user", "u"] if finds else ["--schema", "schema.json"]
    given += ["-m", "mst"] if rng.random() < 0.5 else []

    def run(data: pa.Table, folder: Path) -> dict[str, bytes]:
        lines = [line.replace("new", '"new') for line in text_lines(data)]  # an open quote
        (folder / "in.csv").write_text("\n".join(["u,n,g,x", *lines]) + "\n")
        schema.save(folder / "schema.json")
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.chdir(folder), contextlib.redirect_stdout(out):
            with contextlib.redirect_stderr(err):
                try:
                    app.main(["synth", "in.csv", "--out", "out", "--threads", "1", *given])
                except SystemExit as ended:
                    code = int(ended.code or 0)
        texts = {"printed": out.getvalue(), "errors": err.getvalue(), "exit code": str(code)}
        return {name: SECONDS.sub("", text).encode() for name, text in texts.items()}

    return of_users(rng, run, on_disk=True)

"""What sources read as, file by file and frame by frame: codes, users, lines left out, refusals; and how rows
are dealt to partitions, as it is kept."""

from __future__ import annotations

import bz2
import contextlib
import datetime as dt
import gzip
import os
import sqlite3
import tempfile
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp import Schema
from fastdp.schema.dialect import Dialect
from fastdp.tables import (
    bound,
    columns,
    identity,
    ingest,
    objects,
    parts,
    sources,
    split,
    spool,
    sql,
    textblocks,
    textlines,
    textvalues,
    userids,
    whole,
)
from fastdp.tables.table import Table, code_dtype

from .figures import check, given

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "n": {"kind": "integer", "min": 0, "max": 9, "null": "code", "overflow": "code"},
            "s": {
                "kind": "string",
                "values": ["a", "b", 'q"', "ü", "x\ny"],
                "null": "drop",
                "overflow": "code",
            },
        },
        "user": {"column": "id"},
    }
)
OWN = Schema.from_dict({**SCHEMA.to_plain(), "user": {"column": "id", "null": "own", "dtype": "int64"}})
ALONE = Schema.from_dict({"columns": SCHEMA.to_plain()["columns"]})
ROWS = [("u1", 1, "a"), ("u2", 2, "b"), ("u1", None, "a"), ("", 11, "zz"), ("07", 3, ""), ("7", 4, "ü")]
TEXT = "id,n,s\n" + "".join(f"{i},{'' if n is None else n},{s}\n" for i, n, s in ROWS)


@contextlib.contextmanager
def _folder() -> Any:
    """An empty folder, in which paths are short."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield Path(folder)


def _facts(table: Table) -> Any:
    users = None if table.user is None else " ".join(map(str, table.user.tolist()))
    codes = [[name, str(c.dtype), " ".join(map(str, c.tolist()))] for name, c in table.codes.items()]
    hashes = None if table.user_hash is None else [hex(h) for h in table.user_hash.tolist()]
    sizes = table.rows_per_user().tolist()
    return [
        table.rows,
        table.users,
        table._dropped,
        table._malformed,
        users,
        codes,
        sizes,
        hashes,
        table.public,
    ]


def _read(source: Any, schema: Schema = SCHEMA, **options: Any) -> Any:
    return given(lambda: _facts(fastdp.read(source, schema, **options)))


DIALECTS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "plain": (TEXT.encode(), {}),
    "no end": (TEXT.rstrip("\n").encode(), {}),
    "carriage returns": (TEXT.replace("\n", "\r\n").encode(), {}),
    "mark": (("\ufeff" + TEXT).encode(), {}),
    "semicolons": (TEXT.replace(",", ";").encode(), {"delimiter": ";"}),
    "semicolons unsaid": (TEXT.replace(",", ";").encode(), {}),
    "tabs unsaid": (TEXT.replace(",", "\t").encode(), {}),
    "quotes": (b'id,n,s\nu1,"1","q"""\nu2,"2,"b\n"u3",3,"a"x\nu4,4,"x\ny"\nu5,5,"open\n', {}),
    "newlines": (b'id,n,s\nu1,"1","q"""\nu4,4,"x\ny"\nu5,5,a\n', {"newlines": True}),
    "newlines null": (b'id,n,s\nu4,4,"x\ny"\nu5,5\nu6,6,"open\n', {"newlines": True, "malformed": "null"}),
    "single quotes": (b"id,n,s\nu1,'1','a'\n'u2',2,b\n", {"quote": "'"}),
    "no quotes": (b'id,n,s\nu1,1,q"\nu2,2,"a"\n', {"quote": ""}),
    "escape": (b'id,n,s\nu1,1,q\\"\nu2,2,\\a\nu3,3,b\\\n', {"escape": "\\", "quote": ""}),
    "null texts": (b'id,n,s\nu1,NA,a\nNA,2,b\n"NA",3,"NA"\n', {"null": ["NA", "-"]}),
    "malformed": (b"id,n,s\nu1,1\nu2,2,b,c\n\n\xff,3,a\nu4,4,b\n", {}),
    "malformed null": (b"id,n,s\nu1,1\nu2,2,b,c\n\n\xff,3,a\nu4,4,b\n", {"malformed": "null"}),
    "names": (b"u1,1,a\nu2,2,b\n", {"header": ["id", "n", "s"]}),
    "fewer names": (b"u1,1,a\nu2,2,b\n", {"header": ["id", "n"]}),
    "latin": ("id,n,s\nu1,1,ü\n\xe9,2,b\n".encode("latin-1"), {"encoding": "latin-1"}),
    "latin unsaid": ("id,n,s\nu1,1,ü\nu2,2,b\n".encode("latin-1"), {}),
    "names in latin": ("ïd,n,s\nu1,1,a\n".encode("latin-1"), {}),
    "shift_jis": ("id,n,s\n漢,1,a\nu2,2,b\n".encode("shift_jis") + b"\x81,3,a\n", {"encoding": "shift_jis"}),
    "utf-16": (TEXT.encode("utf-16"), {"encoding": "utf-16"}),
    "utf-16 broken": (TEXT.encode("utf-16")[:-1], {"encoding": "utf-16"}),
    "names twice": (b"id,n,n,s\nu1,1,2,a\n", {}),
    "missing": (b"idd,n,s\nu1,1,a\n", {}),
    "open name": (b'id,"n,s\nu1,1,a\n', {}),
    "empty": (b"", {}),
    "only names": (b"id,n,s\n", {}),
}
JSON = (
    b'{"id": "u1", "n": 1, "s": "a"}\n{"id": 7, "n": null, "s": "b"}\n'
    b'{"n": 2, "s": "a", "id": "7", "z": [1]}\n'
    b'{"id": "u1", "n": "3", "s": "\\u00fc"}\n{"id": [1], "n": 1, "s": "a"}\n[1]\n\n'
    b'{"id": "x", "id": "y"}\nnope\n'
    b'{"late": 3, "id": true, "n": 1.0, "s": "q\\""} \n{"id": "u9"'
)


def _text(name: str) -> Any:
    content, dialect = DIALECTS[name]
    with _folder():
        Path("t.csv").write_bytes(content)
        Path("t.txt").write_bytes(content)
        out = [_read("t.csv", schema, dialect=dialect) for schema in (SCHEMA, OWN, ALONE)]
        out.append(_read("t.csv", SCHEMA, dialect=dialect, columns=["n"], threads=1))
        out.append(_read("t.txt", SCHEMA, dialect={"delimiter": ",", **dialect}))
        style = Dialect.from_plain(dialect)
        for most in (1, 2, 9):
            out.append(given(textlines.damaged_lines, "t.csv", style, ["n", "s"], most))
        out += [given(textlines.names_of, "t.csv", style), given(textblocks.first_line, "t.csv", style)]
        out.append(given(lambda: whole.read_whole("t.csv", dialect)))
        return out


def _blocks() -> Any:
    """Lines of every length around the ends of blocks and the limit."""
    import io

    out: list[Any] = []
    text = b"a\nbb\n\nccccccc\ndd\neeeeeeeeeee\nf"
    for size in (1, 2, 3, 5, 8, 100):
        for limit in (1, 2, 7, 11, 100):
            out.append([[bytes(b).decode(), n] for b, n in textblocks.blocks(io.BytesIO(text), size, limit)])
    for encoding in ("utf-8", "latin-1", "cp1252", "gbk", "euc_jp"):
        change = textblocks.transcoder(encoding)
        out.append(
            [given(change, raw) for raw in (b"a\nb", b"\xe9\n\x80", b"\x81\x30\n\xff", b"\xa4\xa2\n\xa4")]
        )
    return [*out, [textblocks.stem(p) for p in ("A.CSV.GZ", "a.csv", "a.zst", "a.bz2.gz", "a")]]


def _small_lines() -> Any:
    """Files with blocks of 16 bytes and lines of at most 24, as if they were long."""
    out: list[Any] = []
    with _folder(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(textblocks, "BLOCK", 16)
        patch.setattr(textblocks, "MAX_LINE", 24)
        long = "u" * 25
        for lines in (
            TEXT,
            f"id,n,s\nu1,1,a\n{long},2,b\nu3,3,a\n{long},4,b\n",
            f"id,n,s\n{'u' * 20},1,a\nu2,2,b\n",
        ):
            Path("t.csv").write_text(lines, "utf-8")
            Path("t.jsonl").write_text('{"id": 1, "n": 2}\n{"id": "' + long + '"}\n{"s": "a"}\nx\n{"s": 1}\n')
            for dialect in (
                {},
                {"malformed": "null"},
                {"newlines": True},
                {"newlines": True, "malformed": "null"},
            ):
                out.append(_read("t.csv", OWN, dialect=dialect, threads=1))
            for most in (1, 9):
                out.append(given(textlines.damaged_lines, "t.csv", Dialect(), ["n"], most))
                out.append(given(textlines.damaged_lines, "t.jsonl", Dialect(), ["id", "s"], most))
            out.append(_read("t.jsonl", OWN, threads=1))
            out.append(_read("t.jsonl", OWN, dialect={"malformed": "null"}))
        Path("t.csv").write_text(f"id,n,s,{long}\n1,2,a,b\n")
        out.append(_read("t.csv"))
    return out


def _files() -> Any:
    """Files of every kind, folders, globs and lists, and what cannot be opened."""
    out: list[Any] = []
    table = pa.table(
        {"id": [r[0] for r in ROWS], "n": [r[1] for r in ROWS], "s": [r[2] for r in ROWS], "more": [1.5] * 6}
    )
    with _folder():
        pq.write_table(table, "t.parquet", row_group_size=2)
        pq.write_table(table, "t")
        with pa.OSFile("t.arrow", "w") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, 4)
        with pa.OSFile("t.arrows", "w") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, 4)
        Path("u").write_bytes(Path("t.arrow").read_bytes())
        Path("t.csv").write_text(TEXT, "utf-8")
        Path("t.tsv").write_text(TEXT.replace(",", "\t"), "utf-8")
        Path("t.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
        Path("t.csv.bz2").write_bytes(bz2.compress(TEXT.encode()))
        Path("t.jsonl").write_bytes(JSON)
        Path("late.jsonl").write_text('{"a": 1}\nnope\n{"b": [2]}\n{"c": 3}\n')
        Path("v").write_bytes(b"nothing known")
        Path("cut.parquet").write_bytes(Path("t.parquet").read_bytes()[:-9])
        Path("cut.csv.gz").write_bytes(gzip.compress(TEXT.encode() * 40)[:-30])
        Path("cut.arrow").write_bytes(Path("t.arrow").read_bytes()[:200])
        for name in sorted(os.listdir(".")):
            out.append(
                [name, _read(name), _read(name, ALONE, public=True), given(columns.asked_of, name, "id")]
            )
        out.append(_read("t.jsonl", OWN, dialect={"malformed": "null"}))
        os.makedirs("hive/n=3/s=a/_tmp")
        os.makedirs("hive/n=__HIVE_DEFAULT_PARTITION__/s=%C3%BC")
        os.makedirs("hive/.git")
        for place in ("n=3/s=a", "n=3/s=a/_tmp", "n=__HIVE_DEFAULT_PARTITION__/s=%C3%BC", ".git"):
            pq.write_table(table.select(["id", "more"]), f"hive/{place}/p.parquet")
        Path("hive/n=3/s=a/q.csv").write_text("id,more\nu1,2\n")
        os.makedirs("lines/n=3/s=a/id=u1")
        Path("lines/n=3/s=a/id=u1/p.jsonl").write_text('{"more": 1}\n{}\nx\n')
        os.makedirs("nothing/_x")
        sources_of: list[Any] = [
            "hive",
            "lines",
            Path("hive"),
            "t.*ow*",
            "*/n=3/**/*.parquet",
            ["t.csv", "t.parquet"],
        ]
        sources_of += [
            "none*",
            "nothing",
            "none",
            [],
            "t.jsonl",
            ("t.tsv",),
            ["t.csv", table],
            {"id": [1], "n": [2], "s": ["a"]},
            7,
        ]
        for source in sources_of:
            out += [
                _read(source),
                given(lambda: [f for f, _ in sources.files(source)] if isinstance(source, str) else 0),
            ]
            out.append(given(lambda: whole.read_whole(source).to_pydict()))
        for name in ("t.jsonl", "late.jsonl"):
            out.append(given(whole._keys, name))
        for groups in ([0], [2, 1], []):
            out.append(
                given(lambda: _facts(ingest.read_parts([sources.row_groups("t.parquet", groups)], SCHEMA)))
            )
        out.append(given(lambda: sources.row_groups("cut.parquet", [0])))
        out.append(
            [identity.overlap(a, b) for a in ("t.csv", ["u", "t"], "*.csv") for b in ("t.csv", "t", "hive")]
        )
        os.link("t.csv", "link.csv")
        out.append([identity.overlap("link.csv", "t.csv"), identity.overlap("none", "t.csv")])
    return out


def _objects() -> Any:
    out: list[Any] = []
    plain: dict[str, Any] = {"id": ["u", "v", "u", None], "n": [1, None, 11, 3], "s": ["a", "b", "a", "q"]}
    table = pa.table(plain)
    frame = pl.DataFrame(plain)
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (id, n, s)")
    connection.executemany("insert into t values (?, ?, ?)", zip(*plain.values()))
    given_sources: list[Any] = [
        *(
            table,
            table.to_batches()[0],
            frame,
            frame.lazy(),
            frame["n"],
            plain,
            ds.dataset(table),
            connection,
        ),
        *(
            pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
            table.slice(1, 2),
            [table, table],
        ),
        *(sql.sql(connection, "select * from t"), sql.sql(connection, "select s, n, id, 1 as x from t")),
        *(
            table.append_column("n", table["n"]),
            table.rename_columns(["id", "N", "s"]),
            table.select(["n", "s"]),
        ),
        table.set_column(1, "n", pa.array([[1], [2], [3], [4]])),
        table.set_column(0, "id", pa.array([{"a": 1}] * 4)),
    ]
    given_sources += [pandas.DataFrame(plain), pandas.DataFrame({**plain, "n": ["1", 2, None, 3.5]})]
    for source in given_sources:
        name = type(source).__name__
        out.append([name, given(objects.read_once, source)])
        for schema in (SCHEMA, OWN, ALONE):
            if not isinstance(source, pa.RecordBatchReader) or schema is SCHEMA:
                out.append(_read(source, schema))
        if not isinstance(source, pa.RecordBatchReader | pandas.DataFrame):
            out.append(given(columns.asked_of, source, "id"))
    for query in ("", "  ", 3, "select 1"):
        for to in (connection, connection.cursor(), 7):
            out.append(given(lambda: sql.sql(to, query).query))
    out.append(_read(sql.sql(connection, "create table w (x)")))
    values = [None, "ü", "\ud800", b"\xff", True, 1.5, 10**30, 7, Decimal("1E+3"), dt.date(2020, 1, 2), [1]]
    out += [[None if (t := sql.text(v)) is None else t.hex() for v in values], given(sql._column, values[:2])]
    out += [given(sql._column, [1, None, 2]), given(sql._column, [1, 10**30]), given(sql._column, ["\ud800"])]
    for uri in ("", "sqlite:///none.db", "mysql://x", "sqlite:////none.db", "duckdb:///none.db"):
        out.append(given(sql.connect, uri))
    connection.close()
    return out


IDS: dict[str, pa.Array] = {
    "text": pa.array(["a", "b", None, "a", ""]),
    "wide": pa.array(["a", "b", None, "a", ""], pa.large_string()),
    "view": pa.array(["a", "b", None, "a"], pa.string_view()),
    "bytes": pa.array([b"a", b"\xff", None, b"a"], pa.binary()),
    "fixed": pa.array([b"ab", b"cd", None, b"ab"], pa.binary(2)),
    "whole": pa.array([5, -1, None, 5], pa.int16()),
    "words": pa.array([5, (1 << 64) - 1, None, 5], pa.uint64()),
    "truth": pa.array([True, False, None, True]),
    "floats": pa.array([0.0, -0.0, float("nan"), None, 1.5, float("nan")]),
    "single": pa.array([0.5, 1.5, None], pa.float32()),
    "days": pa.array([dt.date(2020, 1, 1), None, dt.date(2020, 1, 1)]),
    "moments": pa.array([1, None, 1], pa.timestamp("ms", "UTC")),
    "clock": pa.array([1, 2, 1], pa.time32("s")),
    "decimals": pa.array([Decimal("7.0"), None, Decimal("7.0")]),
    "coded": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "coded floats": pa.DictionaryArray.from_arrays([0, 1, None, 2, 0], pa.array([1.5, float("nan"), None])),
    "coded nothing": pa.DictionaryArray.from_arrays(
        pa.array([None, None], pa.int32()), pa.array([], pa.string())
    ),
    "nulls": pa.nulls(3),
    "none": pa.array([], pa.string()),
    "lists": pa.array([[1]]),
}


def _ids(name: str) -> Any:
    array, out = IDS[name], []
    for ids in (array, array.slice(1), array[:0]):
        index = userids.UserIndex("id", b"0123456789abcdef")
        prepared = given(lambda: index.prepare(ids))
        out.append(prepared)
        if not isinstance(prepared, str):
            made = index.prepare(ids)
            out.append([given(index.add, made), given(index.add, made), len(index), given(index.hashes)])
            out.append(given(lambda: index.add(index.prepare(IDS["text"]))))
        out += [given(ingest.plain_ids, ids), given(ingest.with_id, ingest.plain_ids(ids))]
    for ids in ([1, 2, 1], ["a", "b"], [1, "a"], [], [None, 1]):
        out.append(given(userids.UserIndex.of_array, np.array(ids, object)))
    return out


def _dealt() -> Any:
    """Rows by partition: of files, of tables, with and without ids, some partitions only."""
    out: list[Any] = []
    rng = np.random.default_rng(4)
    ids = [None if i % 7 == 0 else f"u{i}" for i in rng.integers(0, 60, 400)]
    table = pa.table({"id": ids, "n": rng.integers(0, 12, 400), "s": rng.choice(["a", "b", "c"], 400)})
    with _folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "BLOCK_ROWS", 16)
        patch.setattr(parts, "BATCH_ROWS", 128)
        pl.DataFrame(table).write_csv("t.csv")
        pq.write_table(table, "t.parquet", row_group_size=150)
        for number, (source, schema, count, only) in enumerate(
            [
                *(("t.csv", SCHEMA, 3, None), ("t.parquet", SCHEMA, 3, [0, 2]), ("t.csv", OWN, 5, None)),
                *(
                    ("t.parquet", ALONE, 4, None),
                    (["t.csv", "t.parquet"], ALONE, 2, None),
                    (table, OWN, 1, None),
                ),
            ]
        ):
            place = folder / str(number)
            place.mkdir()
            dealt = split.deal(source, schema, place, count, threads=1, only=only)
            out.append(dealt.malformed)
            for streams in dealt.streams:
                read = given(lambda: _facts(ingest.read_parts(split.parts_of(streams), schema)))
                out.append([len(streams), [sorted(s.text) for s in streams], read])
        for schema in (OWN, ALONE):
            whole_table = fastdp.read(table, schema)
            for p in range(3):
                out.append(_facts(split.part_of_table(whole_table, p, 3)))
            digest = spool.save(whole_table, folder / "spool")
            out += [digest, _facts(spool.load(folder / "spool", schema))]
            for file in sorted(os.listdir("spool")):
                content = Path("spool", file).read_bytes()
                Path("spool", file).write_bytes(content[:-1])
                out.append([file, given(lambda: _facts(spool.load(folder / "spool", schema)))])
                Path("spool", file).write_bytes(content)
    for count in (0, 1, 512, 513, 1.0, True, "3"):
        out.append(given(split.check_partitions, count))
    out += [split.by_block(1020, 10, 3).tolist(), split.by_block(0, 3, 1).tolist()]
    return out


def _tables() -> Any:
    out: list[Any] = [given(code_dtype, n) for n in (1, 256, 257, 65_536, 65_537, 1 << 32, (1 << 32) + 1)]
    domain = {"a": 3, "b": 300}
    for codes, user in [
        ({"a": [0, 2], "b": [0, 299]}, None),
        ({"a": [0, 2], "b": [0, 299]}, ["u", "v"]),
        ({"a": [True, False], "b": [0, 1]}, [3, 3]),
        ({"a": [], "b": []}, None),
        ({"a": [0]}, None),
        ({"a": [0, 3], "b": [0, 1]}, None),
        ({"a": [0, -1], "b": [0, 1]}, None),
        ({"a": [0, 1], "b": [0]}, None),
        ({"a": [0, 1], "b": [0, 1]}, ["u"]),
        ({"a": [[0], [1]], "b": [0, 1]}, None),
        ({"a": [0.0, 1.0], "b": [0, 1]}, None),
    ]:
        arrays = {k: np.array(v, np.int64 if not v else None) for k, v in codes.items()}
        ids = None if user is None else np.array(user)
        for public in (False, True):
            made = given(lambda: _facts(Table.from_codes(domain, arrays, ids, public)))
            out.append(made)
            if isinstance(made, list):
                table = Table.from_codes(domain, arrays, ids, public)
                out += [
                    repr(table),
                    _facts(table.as_truth()),
                    _facts(table.take(np.arange(table.rows) % 2 == 0)),
                ]
                out += [given(lambda: bound.user_weights(table, c)) for c in (None, 1, 2)]
    with_user = Schema.from_domain(domain, user="u")
    codes = {"a": np.array([0]), "b": np.array([1])}
    out.append(given(lambda: Table.from_codes(with_user, codes)))
    out.append(given(lambda: Table.from_codes(Schema.from_domain(domain), codes, np.array([1]))))
    out.append(given(lambda: Table(with_user, {}, rows=1 << 42)))
    for rows in ([], [0], [1, 2, 3, 1000], [1] * 50, [7] * 9):
        out += [given(bound.weights, np.array(rows, np.uint32), c) for c in (1, 3, 7, (1 << 43) - 1)]
    for odd in (0, 1, (1 << 43) - 1, 1 << 43, True, 1.0, "1", None):
        out.append(given(bound.check_clip, odd))
    rng = np.random.default_rng(6)
    table = Table.from_codes(
        domain, {"a": rng.integers(0, 3, 90), "b": rng.integers(0, 9, 90)}, rng.integers(0, 12, 90)
    )
    out += [given(lambda: _facts(bound.cap_rows(table, k))) for k in (1, 3, 99, 0, 1.5)]
    return [*out, given(lambda: _facts(bound.cap_rows(Table.from_codes(domain, codes), 1)))]


def _spilled() -> Any:
    out: list[Any] = []
    with _folder() as folder, pytest.MonkeyPatch.context() as patch:
        Path("t.csv").write_text(TEXT * 1, "utf-8")
        for limit in (2, 6, 100):
            patch.setattr(ingest, "SPOOL_ROWS", limit)
            table = fastdp.read(["t.csv", "t.csv"], OWN)
            out.append([limit, _facts(table), [isinstance(c, np.memmap) for c in table.codes.values()]])
        table = fastdp.read("t.csv", OWN, spool=folder)
        out.append([_facts(table), [isinstance(c, np.memmap) for c in table.codes.values()]])
        seen: list[int] = []
        fastdp.read(["t.csv", "t.csv"], OWN, progress=seen.append, threads=1)
        out += [seen, given(fastdp.read, "t.csv", OWN, spool="nowhere/at/all")]
    jobs = [partial(list, [i, i]) for i in range(9)]
    out += [list(ingest.in_order(iter(jobs), threads)) for threads in (1, 2, 8)]
    return out


CASES: dict[str, Any] = {
    **{f"text {name}": partial(_text, name) for name in DIALECTS},
    **{f"ids {name}": partial(_ids, name) for name in IDS},
    "blocks": _blocks,
    "small lines": _small_lines,
    "files": _files,
    "objects": _objects,
    "dealt": _dealt,
    "tables": _tables,
    "spilled": _spilled,
    "ids as numbers": lambda: [
        given(textvalues.ids, pa.array([b"7", b"07", b" 7 ", b"+7", b"-7", b"7.0", b"x", None, b""]), dtype)
        for dtype in (None, "int64", "string")
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_sources_read_as_it_is_kept(name):
    check("reading", name, CASES[name]())

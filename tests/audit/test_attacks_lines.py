"""Attacks on text files: what one line holds must not change, swallow, split or stop the reading of
any other.

Files are made of bytes here, not by a writer of CSV: an adversary writes what they want into their
own lines.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.schema.dialect import Dialect
from fastdp.tables import textblocks, textlines
from tests.tables.test_textlines import rows_in


def schema(**more):
    column = {
        "kind": "integer",
        "dtype": "int64",
        "min": 0,
        "max": 9,
        "null": "code",
        "overflow": "code",
    }
    plain = {
        "name": "s",
        "columns": {"a": column},
        "user": {"column": "who", "max_rows": 2},
        **more,
    }
    return fastdp.Schema.from_dict(plain)


def read(folder, name, data, rules=None, **options):
    path = Path(folder, name)
    path.write_bytes(data)
    return fastdp.read(path, rules or schema(), **options)


# A file of bytes: how each line is read, whatever the others hold and wherever blocks are cut.

PIECES = [
    b",",
    b'"',
    b"\\",
    b"\r",
    b"\t",
    b";",
    b"a",
    b"1",
    b"\xc3\xa9",
    b"\xff",
    b"\x81",
    b"\xe9",
    b"{",
    b"}",
    b":",
    b"\0",
]
PIECES += [b'{"a":1,"b":"x"}', b"\xef\xbb\xbf", b"NA", b"xxxxxxxx"]
line_bytes = st.lists(st.sampled_from(PIECES) | st.binary(max_size=2), max_size=8)
one_line = line_bytes.map(lambda pieces: b"".join(pieces).replace(b"\n", b""))
DIALECTS = [
    {},
    {"quote": ""},
    {"escape": "\\"},
    {"delimiter": ";", "encoding": "cp1252", "null": ["NA"]},
    {"encoding": "latin-1", "quote": "'"},
    {"encoding": "ascii"},
    {"encoding": "shift_jis"},
    {"encoding": "gb18030"},
    {"malformed": "null"},
]


def joined(lists):
    return [item for one in lists for item in one]


@settings(max_examples=30, deadline=None)
@given(
    lines=st.lists(one_line, max_size=8),
    line=one_line,
    at=st.integers(0, 8),
    dialect=st.sampled_from(DIALECTS),
    form=st.sampled_from(["csv", "tsv", "jsonl"]),
    block=st.integers(1, 60),
    limit=st.sampled_from([12, 1 << 22]),
    ends=st.sampled_from([b"\n", b"\r\n"]),
)
def test_no_line_of_a_file_changes_what_another_becomes(
    lines, line, at, dialect, form, block, limit, ends
):
    style = Dialect(**({"header": ["a", "b"]} | dialect))
    at = min(at, len(lines))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(textblocks, "BLOCK", block)
        patch.setattr(textblocks, "MAX_LINE", limit)

        def rows(some):
            path = Path(folder, f"x.{form}")
            path.write_bytes(ends.join(some) + (ends if some and ends == b"\r\n" else b""))
            return rows_in(textlines.kind_of(str(path))(str(path), style), ["b", "a"])

        alone = [rows([each]) for each in (*lines, line)]
        others = alone[:-1]
        own = alone[-1]
        assert rows(lines) == joined(others)
        assert rows([*lines[:at], line, *lines[at:]]) == joined([*others[:at], own, *others[at:]])
        assert rows([*lines[:at], line, *lines[at + 1 :]]) == joined(
            [*others[:at], own, *others[at + 1 :]]
        )


def test_a_dialect_that_trusts_the_writer_is_stated(tmp_path):
    Path(tmp_path, "x.csv").write_bytes(b'who,a\n1,"1"\n"2\n2",3\n' + b"3,3\n" * 20)
    for newlines in (False, True):
        run = fastdp.synthesize(
            tmp_path / "x.csv", "mst", 1.0, 1e-6, schema=schema(), dialect={"newlines": newlines}
        )
        assert (
            any("written correctly" in n or "wrote them" in n for n in run.privacy["notes"])
            == newlines
        )


def test_ids_of_json_lines(tmp_path):
    """A number and a text that are written alike are one id; escapes are resolved."""
    lines = [
        b'{"who":7,"a":1}',
        b'{"who":"7","a":1}',
        b'{"who":"\\u0037","a":2}',
        b'{"who":"8","a":null}',
        b'{"who":"9"}',
    ]
    table = read(tmp_path, "x.jsonl", b"\n".join(lines))
    assert table.users == 3 and sorted(table.rows_per_user()) == [1, 1, 3]
    assert np.bincount(table.codes["a"], minlength=12).tolist() == [0, 2, 1, *[0] * 8, 2]


# Parquet and Arrow have rows by their structure: what one row holds is read without looking at
# others.

TYPED = {
    "i": (pa.int64(), st.none() | st.integers(-(2**63), 2**63 - 1)),
    "f": (pa.float64(), st.none() | st.floats()),
    "s": (pa.string(), st.none() | st.sampled_from(["a", "", "é", "1", "\n", "x" * 40])),
    "b": (pa.binary(), st.none() | st.binary(max_size=4) | st.sampled_from([b"a", b"\xff"])),
    "t": (pa.timestamp("us"), st.none() | st.integers(-(2**63), 2**63 - 1)),
}
COLUMNS = {
    "i": {"kind": "integer", "dtype": "int64", "min": 0, "max": 9},
    "f": {"kind": "numeric", "dtype": "float64", "edges": [0, 1, 2.5, 10], "overflow": "clamp"},
    "s": {"kind": "categorical", "dtype": "string", "values": ["a", "é"], "null": "drop"},
    "b": {"kind": "categorical", "dtype": "string", "values": ["a"]},
    "t": {"kind": "timestamp", "dtype": "timestamp[us]", "parts": ["hour"], "output": "parts"},
}


def typed_rows(who):
    return st.lists(st.tuples(st.just(who), *(values for _, values in TYPED.values())), max_size=4)


@settings(max_examples=20, deadline=None)
@given(
    own=typed_rows("1"),
    others=st.lists(typed_rows("2") | typed_rows(None) | typed_rows("é"), max_size=3),
    form=st.sampled_from(["parquet", "arrow", "arrows", "table"]),
    group=st.integers(1, 5),
)
def test_no_row_of_parquet_or_arrow_changes_what_another_becomes(own, others, form, group):
    rules = schema(columns=COLUMNS)
    names = ["who", *TYPED]
    types = [pa.string(), *(kind for kind, _ in TYPED.values())]

    def read_rows(rows):
        columns = (
            [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]
        )
        table = pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)
        if form == "table":
            return fastdp.read(table, rules)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"x.{form}")
            if form == "parquet":
                pq.write_table(table, path, row_group_size=group)
            else:
                with (pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream)(
                    path, table.schema
                ) as writer:
                    writer.write_table(table, group)
            return fastdp.read(path, rules)

    theirs = joined(others)
    alone = read_rows(own)
    apart = read_rows(theirs)
    together = read_rows([*theirs, *own])
    assert together.rows == alone.rows + apart.rows
    for name in rules.domain:
        both = [*apart.codes[name].tolist(), *alone.codes[name].tolist()]
        assert together.codes[name].tolist() == both


FAR = [
    "+262142-12-31 23:59:60",
    "+262142-12-31T23:59:59",
    "-262143-01-01T00:00:00",
    "9999-12-31T23:59:59-23:59",
    "0000-01-01 00:00",
    "2020-06-30 23:59:60",
    "2020-03-29 02:30:00",
    "12/31/9999 11:59:59 PM",
    "2020-01-01T00:00:00+99:99",
]


@pytest.mark.parametrize("zone", ["", ", tz=America/New_York", ", tz=Europe/Paris"])
def test_no_time_stops_the_reading(tmp_path, zone):
    """One of these once made Polars panic, which ended the run of everybody."""
    times = {
        "kind": "timestamp",
        "dtype": f"timestamp[us{zone}]",
        "parts": ["hour", "year"],
        "output": "parts",
    }
    rules = schema(columns={"t": {**times, "min": "2000-01-01", "max": "2030-12-31"}})
    good = "\n".join(f"{i},2020-01-01 10:00:00" for i in range(10))
    table = read(tmp_path, "x.csv", ("who,t\n" + good + "\n").encode(), rules)
    for text in FAR:
        both = read(tmp_path, "x.csv", f"who,t\n{good}\n99,{text}\n".encode(), rules)
        assert both.rows == 11
        for name, codes in table.codes.items():
            assert (both.codes[name][:10] == codes).all()


@settings(max_examples=30, deadline=None)
@given(
    wrong=st.lists(st.booleans(), max_size=12),
    long=st.lists(st.integers(0, 12), max_size=4),
    block=st.integers(1, 40),
    suffix=st.sampled_from(["csv", "jsonl"]),
    malformed=st.sampled_from(["drop", "null"]),
)
def test_every_malformed_line_is_counted_once(wrong, long, block, suffix, malformed):
    """One that is too long as well, wherever the blocks of the file end; `null` makes a row of
    each."""
    good, bad = (b"1,2\n", b"1,2,3\n") if suffix == "csv" else (b'{"a":1,"b":2}\n', b"[1]\n")
    lines = [bad if w else good for w in wrong]
    for at in long:
        lines.insert(at, b"9" * 50 + b"\n")
    number = sum(line != good for line in lines)
    style = Dialect(header=["a", "b"] if suffix == "csv" else True, malformed=malformed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, f"x.{suffix}")
        path.write_bytes(b"".join(lines))
        patch.setattr(textblocks, "MAX_LINE", 20)
        for size in (1 << 22, block):
            patch.setattr(textblocks, "BLOCK", size)
            part = textlines.kind_of(str(path))(str(path), style)
            rows = sum(batch.num_rows for unit in part.units(["a", "b"], None) for batch in unit())
            assert part.tally.lines == number
            assert rows == len(lines) - (number if malformed == "drop" else 0)


@pytest.mark.parametrize("null", ["drop", "own"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_damaged_line_is_nobodys_row(tmp_path, ending, null):
    """It has no id. As rows of nulls, several of one person would be several users, or that many
    rows of the released number of rows without an id (found by the replay of neighbours)."""
    good, bad = {"csv": (b"7,1\n", b'7,"\n'), "jsonl": (b'{"u":7,"a":1}\n', b'{"u":7\n')}[ending]
    path = tmp_path / f"rows.{ending}"
    header = b"u,a\n" if ending == "csv" else b""
    path.write_bytes(header + good * 3 + bad * 5 + b"\xff\n")
    plain = {"columns": {"a": {"kind": "integer", "max": 1}}, "dialect": {"malformed": "null"}}
    users = {"user": {"column": "u", "null": null}}
    table = fastdp.read(path, fastdp.Schema.from_dict(plain | users), public=True)
    assert (table.rows, table.users, table.null_ids) == (3, 1, 0) and table._malformed == 6
    assert fastdp.read(path, fastdp.Schema.from_dict(plain), public=True).rows == 9

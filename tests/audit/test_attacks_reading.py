"""Attacks on reading: one user's rows must not change, merge, split or stop anybody else's."""

import csv
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.engines.local import local
from fastdp.errors import DataError
from fastdp.schema import Schema

BIG = 2**53 + 1


def schema(user_dtype=None, **columns):
    plain = {
        "name": "s",
        "columns": columns or {"a": integer(0, 3)},
        "user": {"column": "who", "max_rows": 2},
    }
    if user_dtype:
        plain["user"]["dtype"] = user_dtype
    return Schema.from_dict(plain)


def integer(low, high):
    return {
        "kind": "integer",
        "dtype": "int64",
        "min": low,
        "max": high,
        "null": "code",
        "overflow": "code",
    }


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_ids_that_are_not_utf8_stay_apart(tmp_path):
    """Two such ids once became the same replacement character: removing one user then changed the
    other's weight."""
    rows = [b"\xff,1"] * 4 + [b"\xfe,2"] * 2
    source = write(tmp_path / "x.csv", b"who,a\n" + b"\n".join(rows) + b"\n")
    latin = {"encoding": "latin-1"}
    table = fastdp.read(source, schema(), dialect=latin)
    assert table.users == 2
    alone = write(tmp_path / "y.csv", b"who,a\n" + b"\n".join(rows[4:]) + b"\n")
    alone = fastdp.read(alone, schema(), dialect=latin)
    # Where UTF-8 is declared, they are lines of the wrong shape.
    assert fastdp.read(source, schema()).rows == 0
    both = local(table).marginals([("a",)], 2)["a",]
    assert both[2] == local(alone).marginals([("a",)], 2)["a",][2] == 2 << 20


def test_one_users_text_does_not_change_anothers_whole_numbers(tmp_path):
    """A text that is no whole number once made its whole batch floats, in which 2^53 + 1 is
    2^53."""
    wanted = schema(a={**integer(BIG - 1, BIG + 2)})
    for spoiler in ("no number", "1.5", "1e30", "nan", "", "99999999999999999999"):
        tables = [
            fastdp.read(write(tmp_path / "x.csv", f"who,a\n1,{BIG}\n1,{BIG + 2}\n{more}"), wanted)
            for more in ("", f"2,{spoiler}\n")
        ]
        first_rows = [t.codes["a"][:2].tolist() for t in tables]
        assert first_rows[0] == first_rows[1] == [1, 3]


def test_errors_of_a_source_show_no_value():
    """A source may compute its rows while they are read; what it says of a row that fails is not
    passed on."""

    def batches():
        yield pa.record_batch({"who": pa.array([1]), "a": pa.array([1])})
        raise ValueError("row 4711: 'Erika' is no number")

    kind = pa.schema([("who", pa.int64()), ("a", pa.int64())])
    for public in (False, True):
        with pytest.raises(DataError if not public else Exception) as caught:
            fastdp.read(pa.RecordBatchReader.from_batches(kind, batches()), schema(), public=public)
        if not public:
            assert "Erika" not in str(caught.value) and "4711" not in str(caught.value)
            assert caught.value.__cause__ is None and caught.value.__context__ is None
    with pytest.raises(DataError) as caught:
        fastdp.read({"who": [1, "Erika"], "a": [1, 2]}, schema())
    assert "Erika" not in str(caught.value)


def test_a_lack_of_memory_does_not_tell_the_number_of_rows(monkeypatch):
    """numpy's own error says how long the array would have been."""
    from fastdp.tables import ingest

    def joined(*_):
        raise MemoryError("Unable to allocate 1.2 GiB for an array with shape (150000007,)")

    monkeypatch.setattr(ingest, "joined", joined)
    rows = pa.table({"who": np.arange(300_000), "a": np.zeros(300_000, np.int64)})
    with pytest.raises(MemoryError) as caught:
        fastdp.read(rows, schema())
    assert "150000007" not in str(caught.value) and caught.value.__context__ is None


ODD = [
    "",
    "0",
    "1",
    "7",
    " 7",
    "07",
    "+1",
    "-1",
    "9",
    "10",
    "2.5",
    "1.0",
    "1e3",
    "1e400",
    "-1e400",
    "nan",
    "inf",
    "x",
    "é",
    "a",
    "A",
]
ODD += [
    "true",
    "F",
    "1.10",
    "2.00",
    "2",
    "1.1",
    str(BIG),
    str(2**63),
    str(2**70),
    "2020-02-30",
    "2020-02-29",
]
ODD += [
    "2020-01-02 03:04:05",
    "9999-12-31T23:59:59",
    "0001-01-01 00:00:00",
    "\ud7ff",
    "0x10",
    "1_000",
    "NULL",
]
MIXED = {
    "i": integer(0, 9),
    "n": {"kind": "numeric", "dtype": "float64", "edges": [0, 1, 2.5, 10], "overflow": "clamp"},
    "ci": {"kind": "categorical", "dtype": "int64", "values": [1, 7, BIG]},
    "cs": {"kind": "categorical", "dtype": "string", "values": ["a", "é"], "null": "drop"},
    "t": {
        "kind": "timestamp",
        "dtype": "timestamp[us]",
        "parts": {"hour": "hour"},
        "output": "parts",
    },
    "b": {"kind": "categorical", "dtype": "bool", "values": [False, True]},
    "d": {"kind": "categorical", "dtype": "decimal128(10, 2)", "values": ["1.10", "2.00"]},
}


def rows_of(who, most):
    row = st.tuples(*[st.sampled_from(ODD)] * len(MIXED))
    return st.lists(row.map(lambda r: (who, *r)), max_size=most)


@settings(max_examples=15, deadline=None)
@given(
    own=rows_of("1", 4),
    others=st.lists(rows_of("2", 3) | rows_of("", 2) | rows_of("01", 2), max_size=3),
)
def test_how_a_row_is_read_never_depends_on_another_users(own, others):
    rules = schema(**MIXED)
    theirs = [row for rows in others for row in rows]

    def read(rows):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.csv")
            with open(path, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("who", *MIXED), *rows])
            return fastdp.read(str(path), rules)

    alone = read(own)
    together = read([*theirs, *own])
    count = alone.rows
    for name in rules.domain:
        assert together.codes[name][together.rows - count :].tolist() == alone.codes[name].tolist()
    weight = [local(t).marginals([("i",)], 2)["i",].sum() for t in (alone, read(theirs), together)]
    assert weight[0] + weight[1] == weight[2]

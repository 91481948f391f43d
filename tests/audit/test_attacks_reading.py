"""Attacks on reading: one user's rows must not change, merge, split or stop anybody else's."""

import csv
import decimal
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp._util.arrow import decoded
from fastdp.codec.maps import Source
from fastdp.engines.local import local
from fastdp.errors import DataError
from fastdp.release.key_values import keys_of
from fastdp.schema import Schema
from fastdp.schema.dialect import Dialect
from fastdp.schema.periods import NO_TIME_CODE
from fastdp.tables import idvalues
from fastdp.tables.row_periods import row_periods
from fastdp.tables.sources.database_queries import WIDE, _wide_offsets
from fastdp.tables.sources.source import source_of
from fastdp.tables.sql import column_of_objects
from fastdp.tables.userids import UserIndex

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


def pandas_columns():
    """(name, three values, one more value of another user) of columns of pandas that Arrow cannot
    hold."""
    pd = pytest.importorskip("pandas")
    half = "half a pair \ud800"
    yield "objects", pd.Series(["a", "b", "a", decimal.Decimal("sNaN")], dtype=object)
    yield "lists", pd.Series(["a", ["b"], "a", decimal.Decimal("sNaN")], dtype=object)
    yield "texts", pd.Series(["a", "b", "a", half], dtype=pd.StringDtype("python"))
    yield "categories", pd.Series(["a", "b", "a", half], dtype="category")
    yield "unused", pd.Series(["a", "b", "a", "a"], dtype=pd.CategoricalDtype(["a", "b", half]))


@pytest.mark.parametrize("role", ["a", "who"])
def test_no_value_of_pandas_stops_the_reading(role):
    """Each of these once ended the run of everybody, after its charge: pandas compares decimals with
    themselves, which a signalling NaN refuses, and half of a surrogate pair is no UTF-8."""
    pd = pytest.importorskip("pandas")
    listed = {"kind": "string", "values": ["a", "b"], "null": "code", "overflow": "code"}
    rules = schema(a=listed)
    for name, column in pandas_columns():
        frame = pd.DataFrame({"who": [1, 2, 1, 3], "a": ["a", "b", "a", "b"]} | {role: column})
        alone = fastdp.read(frame.iloc[:3], rules)
        both = fastdp.read(frame, rules)
        there = len(frame) - int(role == "who" and name in ("objects", "lists"))  # NaN is no id
        assert both.rows == there and both.codes["a"][:3].tolist() == alone.codes["a"].tolist()
        assert both.user[:3].tolist() == alone.user.tolist(), name


def repeated(kind):
    """A long text in so many rows that offsets of 32 bits would not reach the last: one text in
    memory, of one user."""
    rows, long = 1 << 17, "x" * (1 << 14)
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([long, None]))
    _, views, text = pa.array([long], pa.string_view()).buffers()
    words = np.tile(np.frombuffer(views, np.uint8)[:16], rows)
    return pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(words), text])


def test_texts_that_rows_may_repeat_get_offsets_of_64_bits():
    """The small twin of the next test."""
    column = pa.array(["a", "b"]).dictionary_encode()
    assert decoded(column).type == pa.large_binary()
    for kind in (pa.string_view(), pa.binary_view(), pa.binary(1)):
        array = pa.array([b"a", b"b"]).cast(kind)
        assert Source.of("string", kind).binary(array).type == pa.large_binary()


@pytest.mark.slow
def test_a_long_text_of_many_rows_is_read():
    """Arrow's decoding raised, so that one user could end the run of everybody; the casts of views
    made offsets that ran over."""
    rules = schema(t={"kind": "string", "values": ["a"], "null": "code", "overflow": "code"})
    period = Schema.from_dict(
        rules.to_dict() | {"unit": {"kind": "user-period", "period": "day", "of": "t"}}
    ).period
    column = repeated("dictionary")
    assert set(row_periods(column, period)) == {NO_TIME_CODE}
    assert decoded(column).type == pa.large_binary() and len(keys_of(column, "int64")) == len(
        column
    )
    ids = idvalues.normal(column)
    assert UserIndex().prepare(ids).valid is None
    table = pa.table({"who": np.arange(len(column)), "t": repeated("view")})
    assert set(fastdp.read(table, rules).codes["t"].tolist()) == {1}


@pytest.mark.slow
def test_objects_that_offsets_of_32_bits_do_not_reach_are_read():
    """Arrow makes several arrays of them, which are no column of a batch."""
    long = "x" * (1 << 20)
    for values in ([long] * 2048, [*[long] * 2048, 1]):
        array = column_of_objects(values)
        assert isinstance(array, pa.Array) and array.type == pa.large_binary()


@pytest.mark.parametrize("form", ["query", "relation"])
def test_texts_of_duckdb_have_offsets_of_64_bits_while_they_are_read(form):
    """With 32, DuckDB ended the reading where a batch had 2 GiB of one column: texts of 16 KiB in all
    rows of one user. The caller's setting is as it was, also after an error, and nothing is left in the
    database."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(config={"threads": 1}) as database:
        text = "select i as who, 'a' || i as t from range(9) r(i)"
        given = fastdp.sql(database, text) if form == "query" else database.sql(text)
        (part,) = source_of(given).parts(Dialect())
        setting = f"select current_setting('{WIDE}')"
        for before in (False, True):
            database.execute(f"set {WIDE} = {before}")
            for at in (0, 1):
                units = part.units(["t"], None)
                kinds = [batch.schema.types for unit in islice(units, 1) for batch in unit()]
                assert kinds == [[pa.large_string()]]
                units.close() if at else list(units)
                assert database.execute(setting).fetchall() == [(before,)]
        views = "select view_name from duckdb_views() where not internal"
        assert database.execute(views).fetchall() == []
        rules = schema(t={"kind": "string", "values": ["a1"], "null": "code", "overflow": "code"})
        assert fastdp.read(given, rules).codes["t"].tolist() == [1, 0, *[1] * 7]


def test_a_relation_is_not_run_to_change_a_setting():
    """The setting is changed by a statement beside the relation. If that ran the relation, a query would be
    paid for twice; and one that fails would fail before the reading, whose errors name no row."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(config={"threads": 1}) as database:
        relation = database.sql("select error('run') as t")
        with _wide_offsets(relation):
            (row,) = database.execute(f"select current_setting('{WIDE}')").fetchall()
            assert row == (True,)


def test_a_locked_configuration_is_read_as_it_is():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(config={"threads": 1}) as database:
        database.execute("set lock_configuration = true")
        relation = database.sql("select 7 as who, 'a1' as t")
        rules = schema(t={"kind": "string", "values": ["a1"], "null": "code", "overflow": "code"})
        assert fastdp.read(relation, rules).codes["t"].tolist() == [0]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([5, 7, None, 2**40, -3] * 60),
        pa.array([True, False, None] * 100),
        pa.array([decimal.Decimal("1.50"), decimal.Decimal("99.99")] * 150, pa.decimal128(20, 2)),
        pa.array(["5", "x", None] * 100),
    ],
    ids=["whole", "truth", "decimal", "text"],
)
def test_private_bounds_of_a_dictionary_are_those_of_its_values(values):
    """A dictionary of numbers that are not floats, such as whole categories of pandas, ended a run after its
    charge, unless the table was empty: its values were read as texts."""
    column = {"kind": "numeric", "domain": "private"}
    rules = Schema.from_dict({"user": {"column": "who", "max_rows": 3}, "columns": {"v": column}})
    options = {"epsilon": 20.0, "delta": 1e-5, "mechanism": "mst", "seed": 1, "threads": 1}
    found = [
        fastdp.synthesize(
            pa.table({"who": np.arange(300) // 2, "v": own}),
            schema=rules,
            progress=False,
            **options,
        ).schema.columns["v"]
        for own in (values, values.dictionary_encode())
    ]
    assert found[0].edges == found[1].edges

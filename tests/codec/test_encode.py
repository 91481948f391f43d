"""The encoder against its slow twin, over every physical type a source may have."""

import datetime as dt
import math
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.codec.decode import decode
from fastdp.codec.encode import encode_batch, type_problems
from fastdp.errors import DataError
from fastdp.schema import Schema

from ..reference.codes import encode_value

POLICY = st.sampled_from(["code", "drop"])
NUMBERS = st.one_of(
    st.none(),
    st.integers(-20, 20),
    st.integers(-(2**62), 2**62),
    st.floats(width=64),
    st.sampled_from([0.5, 1.0, 9.999, 10.0, -0.0, 1e300, math.inf, -math.inf, math.nan]),
)


def one(column: dict) -> Schema:
    return Schema.from_dict({"columns": {"x": column}})


def expect(schema: Schema, values: list, got: tuple) -> None:
    """What the twin says of Python values equals what the encoder gave."""
    column = schema.columns["x"]
    codes, keep = got
    wanted = [encode_value(column, v) for v in values]
    assert codes["x"].dtype == column.code_dtype and codes["x"].flags.c_contiguous
    keep = np.ones(len(values), bool) if keep is None else keep
    assert keep.dtype == bool
    assert keep.tolist() == [w is not None for w in wanted]
    assert codes["x"].tolist() == [w or 0 for w in wanted]


BINNED = {
    "overflow": st.sampled_from(["code", "drop", "clamp"]),
    "nan": st.sampled_from(["null", "overflow"]),
}
EDGES = st.lists(
    st.one_of(st.integers(-15, 15), st.sampled_from([0.5, 9.25])), min_size=2, unique=True
)
OPEN = st.tuples(st.sampled_from([[], ["-inf"]]), EDGES.map(sorted), st.sampled_from([[], ["inf"]]))
VALUES = st.one_of(st.integers(-20, 20), st.integers(-(2**40), 2**40))
KINDS = {
    "integer": {"min": st.integers(-300, 0), "max": st.integers(0, 70_000), **BINNED},
    "numeric": {"edges": OPEN.map(lambda ends: [*ends[0], *ends[1], *ends[2]]), **BINNED},
    "categorical": {
        "values": st.lists(VALUES, min_size=1, max_size=300, unique=True),
        "overflow": POLICY,
    },
}
columns = st.one_of(
    st.fixed_dictionaries({"kind": st.just(kind), "null": POLICY, **own})
    for kind, own in KINDS.items()
)


@settings(max_examples=40, deadline=None)
@given(columns, st.lists(NUMBERS, max_size=60), st.integers(0, 5), st.data())
def test_numbers_of_any_width_agree_with_the_twin(column, values, cut, data):
    schema = one(column)
    for kind in (
        "int8",
        "uint8",
        "int16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float32",
        "float64",
    ):
        typed = pa.type_for_alias(kind)
        if kind.startswith("float"):
            width = np.dtype(kind)
            with np.errstate(over="ignore"):
                fitting = [None if v is None else float(width.type(v)) for v in values]
        else:
            low, high = np.iinfo(kind).min, np.iinfo(kind).max
            fitting = [v for v in values if v is None or (isinstance(v, int) and low <= v <= high)]
        # A slice of a longer array: offsets into values and validity must be honoured.
        array = pa.array([None] * cut + fitting, typed).slice(cut)
        expect(schema, fitting, encode_batch(schema, pa.table({"x": array})))


@pytest.mark.parametrize(
    ("array", "codes"),
    [
        (pa.array([1.0, 3.0, 2.5, None, 9.0]), [0, 2, 3, 4, 3]),
        (pa.array(["1", " 3", "2.5", None, "", "abc", "3.0"]), [0, 2, 3, 4, 4, 3, 2]),
        (pa.array(["nan", "1_0", "9" * 5000]), [4, 3, 3]),
        (pa.array(["1", "3", "1"]).dictionary_encode(), [0, 2, 0]),
        (pa.array([1, 3, 1, None]).dictionary_encode(), [0, 2, 0, 4]),
        (pa.array([True, False, None]), [0, 3, 4]),
        (pa.array([Decimal("1.00"), Decimal("3.00"), Decimal("2.50"), None]), [0, 2, 3, 4]),
        (pa.nulls(3), [4, 4, 4]),
        (pa.array([b"1", b"\xff\xfe", b"2"]), [0, 3, 1]),
        (pa.array([1.0, np.nan, 2.0], pa.float16()), [0, 4, 1]),
        (pa.array([], pa.int64()), []),
    ],
)
@pytest.mark.parametrize(
    "column",
    [{"kind": "integer", "min": 1, "max": 3}, {"kind": "categorical", "values": [1, 2, 3]}],
)
def test_values_of_convertible_types_get_the_codes_of_their_numbers(column, array, codes):
    got, keep = encode_batch(one(column), pa.table({"x": array}))
    assert got["x"].tolist() == codes and keep is None


def test_numbers_and_truths_where_texts_are_listed():
    schema = one({"kind": "string", "values": ["7", "-1", "007", "true"]})
    for array, codes in (
        (pa.array([7, -1, 5, None]), [0, 1, 4, 5]),
        (pa.array([7.0, -1.0, 7.5]), [0, 1, 4]),
        (pa.array([dt.date(2020, 1, 1)]), [4]),
    ):
        got, _ = encode_batch(schema, pa.table({"x": array}))
        assert got["x"].tolist() == codes


def test_booleans_and_dates_listed():
    truth = one({"kind": "categorical", "values": [False, True]})
    for array in (
        pa.array([True, False, None]),
        pa.array(["true", "FALSE", None]),
        pa.array([1, 0, None]),
    ):
        assert encode_batch(truth, pa.table({"x": array}))[0]["x"].tolist() == [1, 0, 3]
    days = one({"kind": "categorical", "values": ["2020-01-02", "1969-12-31"], "dtype": "date32"})
    values = [dt.date(1969, 12, 31), dt.date(2020, 1, 2), dt.date(2020, 1, 3), None]
    arrays = [pa.array(values, pa.date32()), pa.array(values, pa.date64())]
    arrays.append(pa.array(values, pa.date32()).cast(pa.timestamp("ms")))
    arrays += [pa.array([v and v.isoformat().replace("-", mark) for v in values]) for mark in "-/"]
    for array in arrays:
        assert encode_batch(days, pa.table({"x": array}))[0]["x"].tolist() == [1, 0, 2, 3]


TIME = {
    "kind": "timestamp",
    "parts": ["shift", "hour", "day_of_week", "month", "year", "date"],
    "min": "2019-11-01",
    "max": "2021-02-28",
}
MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.one_of(st.none(), MOMENTS), max_size=30), st.sampled_from(["s", "ms", "us", "ns"])
)
def test_parts_of_times_agree_with_the_calendar(values, unit):
    schema = one(TIME)
    got, keep = encode_batch(
        schema,
        pa.table({"x": pa.array(values, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)}),
    )
    assert keep is None
    first = dt.date(2019, 11, 1)
    for i, v in enumerate(values):
        row = {k: int(c[i]) for k, c in got.items()}
        sizes = {k: schema.columns[k].base for k in row}
        if v is None:
            assert row == {k: n + 1 for k, n in sizes.items()}
        elif not first <= v.date() <= dt.date(2021, 2, 28):
            assert row == sizes
        else:
            assert row == {
                "x_shift": v.weekday() * 3 + v.hour // 8,
                "x_hour": v.hour,
                "x_day_of_week": v.weekday(),
                "x_month": v.month - 1,
                "x_year": v.year - 2019,
                "x_date": (v.date() - first).days,
            }


def test_parts_are_of_the_local_clock():
    plain = {"kind": "timestamp", "parts": ["hour"], "dtype": "timestamp[us, tz=America/Chicago]"}
    schema = one(plain)
    utc = [dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC), dt.datetime(2020, 7, 1, 5, tzinfo=dt.UTC)]
    for zone in ("UTC", "America/Chicago", "Asia/Tokyo"):
        codes, _ = encode_batch(schema, pa.table({"x": pa.array(utc, pa.timestamp("ms", zone))}))
        assert codes["x_hour"].tolist() == [23, 0]
    texts = pa.array(["2020-01-01T13:30:00", "never", None, ""])
    assert encode_batch(schema, pa.table({"x": texts}))[0]["x_hour"].tolist() == [13, 24, 25, 25]
    extreme = pa.array([2**62, -(2**62), 0]).view(pa.timestamp("s", "UTC"))
    assert encode_batch(schema, pa.table({"x": extreme}))[0]["x_hour"].tolist() == [24, 24, 18]


@pytest.mark.parametrize(
    ("transform", "values", "codes"),
    [
        ("incwage-classes", [0, 120, 150, 125, 10, 15, 12, 13, 5000, 999_998, -1, 10**9], None),
        ("incwage-mod", [0, 4999, 5000, 999_998, 101], [[0, 49, 50, 51, 1], [0, 99, 0, 0, 1]]),
    ],
)
def test_wages_are_split_into_classes_as_published(transform, values, codes):
    schema = one({"kind": "derived", "transform": transform, "parts": ["a", "b"]})
    if codes is None:
        codes = [[0, 1, 1, 1, 0, 0, 0, 0, 50, 51, 52, 52], [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 8, 8]]
    for array in (
        pa.array(values),
        pa.array([float(v) for v in values]),
        pa.array(map(str, values)),
    ):
        got, _ = encode_batch(schema, pa.table({"x": array}))
        assert [got["a"].tolist(), got["b"].tolist()] == codes
    known = {part: column[got["a"] < 52] for part, column in got.items()}
    for seed in range(20):
        again, _ = encode_batch(schema, decode(schema, known, seed))
        assert all((again[part] == known[part]).all() for part in known), (
            "a wage is written in its class"
        )
    odd = pa.array([0.5, math.inf, math.nan, None])
    assert encode_batch(schema, pa.table({"x": odd}))[0]["a"].tolist() == [52, 52, 53, 53]


ANYTHING = st.one_of(
    st.lists(st.one_of(st.none(), st.binary(max_size=12)), max_size=8).map(
        lambda v: pa.array(v, pa.binary())
    ),
    st.lists(st.one_of(st.none(), st.text(max_size=12)), max_size=8).map(
        lambda v: pa.array(v, pa.string())
    ),
    st.lists(
        st.sampled_from(
            [
                None,
                "1e999999",
                "-1e400",
                "1" * 400,
                "inf",
                "0x10",
                "1.5",
                "٣",
                "0001-01-01T00:00:00+14:00",
            ]
        ),
        max_size=8,
    ).map(lambda v: pa.array(v, pa.large_string())),
    st.lists(st.one_of(st.none(), st.floats()), max_size=8).map(
        lambda v: pa.array(v, pa.float64())
    ),
    st.lists(st.floats(width=16), max_size=8).map(lambda v: pa.array(np.array(v, np.float16))),
    st.lists(st.none() | st.booleans(), max_size=8).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.text(max_size=40), max_size=8).map(lambda v: pa.array(v, pa.string_view())),
    st.just(pa.nulls(4)),
    st.lists(st.integers(0, 2**64 - 1), max_size=8).map(lambda v: pa.array(v, pa.uint64())),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.decimals(-(10**28), 10**28, places=3), max_size=8).map(
        lambda v: pa.array(v, pa.decimal128(38, 3))
    ),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=8).map(
        lambda v: pa.array(v, pa.int32()).view(pa.date32())
    ),
    st.tuples(
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8),
        st.sampled_from(["s", "ms", "us", "ns"]),
        st.sampled_from([None, "UTC", "Asia/Tokyo"]),
    ).map(lambda t: pa.array(t[0], pa.int64()).view(pa.timestamp(t[1], t[2]))),
)
ALL_KINDS = [
    {"kind": "integer", "min": -3, "max": 3, "overflow": "clamp"},
    {"kind": "numeric", "edges": [0, 1.5, 3]},
    {
        "kind": "numeric",
        "edges": ["-inf", 0, "inf"],
        "nan": "overflow",
        "dtype": "decimal128(9, 2)",
    },
    {"kind": "categorical", "values": [1, 5, 2**50], "overflow": "drop"},
    {"kind": "categorical", "values": [0.5, 1.5]},
    {"kind": "categorical", "values": ["0.5", "1.5"], "dtype": "decimal128(9, 2)"},
    {"kind": "categorical", "values": [True, False]},
    {"kind": "string", "values": ["a", "1"]},
    {"kind": "categorical", "values": ["2020-01-01"], "dtype": "date32"},
    {"kind": "categorical", "values": ["2020-01-01"], "dtype": "date64"},
    {"kind": "categorical", "values": ["2020-01-01"], "dtype": "timestamp[ns]"},
    {"kind": "categorical", "values": ["2020-01-01"], "dtype": "timestamp[s, tz=Europe/Berlin]"},
    TIME,
    {**TIME, "dtype": "timestamp[us, tz=America/Chicago]"},
    {"kind": "derived", "transform": "incwage-classes", "parts": ["a", "b"]},
    {"kind": "derived", "transform": "valueh", "parts": ["v"], "null": "drop"},
]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(ALL_KINDS), ANYTHING)
def test_no_value_of_a_right_type_raises(column, array):
    """A wrong type is a DataError; of a right one, any value at all gets a code within the
    domain."""
    schema = one(column)
    if problems := type_problems(schema.fields.values(), pa.schema([("x", array.type)])):
        with pytest.raises(DataError, match=re.escape(problems[0])):
            encode_batch(schema, pa.table({"x": array}))
        return
    # Arrow cannot encode float16 as a dictionary.
    twins = () if pa.types.is_float16(array.type) else (array.dictionary_encode(),)
    if pa.types.is_integer(array.type):
        twins = (*twins, array.cast(pa.string()))
    written = []
    for data in (array, *twins):
        codes, keep = encode_batch(schema, pa.table({"x": data}))
        written.append({name: values.tolist() for name, values in codes.items()})
        assert written[0] == written[-1], "in another way, the same value"
        assert keep is None or keep.shape == (len(array),)
        for name, values in codes.items():
            assert len(values) == len(array)
            assert not len(values) or values.max() < schema.domain[name]


EXTREME = [
    -(2**63),
    -(2**63) + 1,
    -11,
    -1,
    0,
    1,
    9,
    10,
    11,
    99,
    2**53 + 1,
    2**62,
    2**62 + 2,
    2**63 - 1,
    2**63,
]
EXTREME += [2**63 + 2048, 2**64 - 1]
ANY_FORM = [
    {"kind": "integer", "min": -1, "max": 9},
    {"kind": "integer", "min": -11, "max": 99, "dtype": "float64"},
    {"kind": "numeric", "dtype": "int64", "edges": [-11, 0, 10, 11]},
    {"kind": "numeric", "edges": [0, 1, 99.5]},
    {"kind": "numeric", "dtype": "uint64", "edges": [0, 2**62, 2**63, 2**63 + 2048]},
    {"kind": "categorical", "values": [9, 10, 2**53 + 1]},
    {"kind": "categorical", "values": [0.0, 1.0, 10.5]},
    {"kind": "categorical", "dtype": "uint64", "values": [2**62, 2**63 - 1]},
    {
        "kind": "categorical",
        "dtype": "decimal128(20, 0)",
        "values": ["-11", "2048", "9223372036854775807"],
    },
    {"kind": "numeric", "dtype": "decimal128(22, 2)", "edges": [-11, 0.25, 10, 2.0**62]},
    {"kind": "derived", "transform": "divmod", "by": 10, "max": 99, "parts": ["tens", "ones"]},
]


@given(
    st.sampled_from(ANY_FORM),
    st.sampled_from(["code", "drop", "clamp"]),
    st.lists(st.sampled_from(EXTREME)),
)
@settings(deadline=None)
def test_a_whole_number_has_one_code_in_every_form(column, overflow, values):
    if overflow == "clamp" and column["kind"] in ("categorical", "derived"):
        overflow = "code"
    schema = one({**column, "null": "code", "overflow": overflow})
    forms = [pa.array(map(str, values), pa.string())]
    forms += [
        pa.array(values, pa.decimal128(38, 0)).cast(pa.decimal128(38, places))
        for places in (0, 5, 18)
    ]
    if "20, 0" not in column.get("dtype", ""):
        forms.append(pa.array([f" {v}" for v in values], pa.string()).dictionary_encode())
    for kind, low, high in ((pa.int64(), -(2**63), 2**63), (pa.uint64(), 0, 2**64)):
        forms += [pa.array(values, kind)] if all(low <= v < high for v in values) else []
    plain = []
    for form in forms:
        codes, keep = encode_batch(schema, pa.table({"x": form}))
        plain.append(
            ({n: c.tolist() for n, c in codes.items()}, None if keep is None else keep.tolist())
        )
    assert plain == [plain[0]] * len(plain)


@pytest.mark.parametrize(
    "dtype, kind", [("timestamp[us]", pa.timestamp("us")), ("date32", pa.date32())]
)
def test_times_in_bins_have_one_code_as_text_and_as_times(dtype, kind):
    """Edges within a day tell times apart, and of a date the time of day does not matter."""
    edges = ["2420-01-01", "2420-01-02T06:00:00", "2420-01-02T18:00:00", "2420-01-04"]
    if dtype == "date32":
        edges = ["2420-01-01", "2420-01-02", "2420-01-03", "2420-01-04"]
    schema = one(
        {"kind": "numeric", "dtype": dtype, "edges": edges, "overflow": "clamp", "null": "code"}
    )
    moments = [
        dt.datetime(2420, 1, day, hour, minute, second)
        for day in (1, 2, 3)
        for hour, minute, second in (
            (0, 0, 0),
            (5, 59, 59),
            (6, 0, 0),
            (17, 59, 59),
            (18, 0, 0),
            (23, 59, 59),
        )
    ]
    moments += [dt.datetime(2019, 12, 31, 23), dt.datetime(2420, 1, 4), dt.datetime(1800, 1, 1)]
    typed = pa.array([m.date() for m in moments] if dtype == "date32" else moments, kind)
    expected = encode_batch(schema, pa.table({"x": typed}))[0]["x"].tolist()
    assert len(set(expected)) == 3
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.5"):
        text = pa.array([m.strftime(form) for m in moments])
        assert encode_batch(schema, pa.table({"x": text}))[0]["x"].tolist() == expected, form
    blank = encode_batch(schema, pa.table({"x": pa.array(["", "  ", None, "soon"])}))[0][
        "x"
    ].tolist()
    assert blank[0] == blank[1] == blank[2] == schema.columns["x"].null_code

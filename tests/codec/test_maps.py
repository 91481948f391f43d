"""Maps from physical values to codes: one number, one code, whatever type it comes in."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.codec import maps
from fastdp.codec.encode import encode_batch, type_problems
from fastdp.schema import Schema
from fastdp.schema.kinds.places import DIGITS

from ..reference.codes import encode_value


def schema_of(**column) -> Schema:
    return Schema.from_dict({"columns": {"x": column}})


def encoded(schema, array) -> list[int | None]:
    """The code of every value, None where its row is dropped."""
    codes, keep = encode_batch(schema, pa.table({"x": array}))
    kept = [True] * len(array) if keep is None else keep.tolist()
    return [int(c) if k else None for c, k in zip(codes["x"], kept, strict=True)]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(-160, 160),
    st.integers(0, 340),
    st.sampled_from([0, 1, 3, -1, -2]),
    st.sampled_from(["code", "drop", "clamp"]),
    st.data(),
)
def test_whole_numbers_in_decimals_are_the_whole_numbers(least, width, places, overflow, data):
    """A decimal source of any scale gives each number the code of the twin, at both ends of the
    range and beyond; and a whole number the code that an integer source gives it."""
    schema = schema_of(kind="integer", min=least, max=least + width, overflow=overflow, null="code")
    unit = Decimal(10) ** -places
    near = [v // unit + d for v in (least, least + width) for d in range(-2, 3)]
    steps = data.draw(st.lists(st.none() | st.integers(-1200, 1200), max_size=12))
    values = [None if n is None else n * unit for n in [*near, *steps]]
    values += [Decimal(v) for v in (least, least + width) if v % unit == 0]
    kind = pa.decimal128(20, places)
    wanted = [encode_value(schema.columns["x"], v) for v in values]
    assert encoded(schema, pa.array(values, kind)) == wanted
    whole = [int(v) for v in values if v is not None and v == int(v)]
    as_decimals = encoded(schema, pa.array([Decimal(v) for v in whole], kind))
    assert as_decimals == encoded(schema, pa.array(whole, pa.int64()))


WIDE = {
    "integer": {"kind": "integer", "min": -2000, "max": 2000},
    "far above": {"kind": "integer", "min": 1000, "max": 2000},
    "far below": {"kind": "integer", "min": -2000, "max": -1000},
    "numeric": {"kind": "numeric", "edges": [-1500, -9, 0, 9.5, 100, 922, 1800]},
    "open": {"kind": "numeric", "edges": ["-inf", -9, 9.5, "inf"]},
    "listed": {
        "kind": "categorical",
        "dtype": "decimal128(9, 2)",
        "values": ["-150.00", "0.25", "9.00", "923.50"],
    },
}


NUMBERS = [
    "0",
    "-3",
    "12.5",
    "0.25",
    "-0.125",
    "1.0625",
    "7.03125",
    "1e3",
    "2.50",
    None,
    "nan",
    "inf",
    "word",
]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.binary(), pa.large_string(), "dictionary"], ids=str
)
def test_digits_after_the_point_are_those_of_the_number_whatever_type_it_comes_in(kind):
    """As float, as decimal, as text and from a dictionary of texts; what is no number, or not
    finite, is null."""
    schema = schema_of(kind="places")
    want = [0, 0, 1, 2, 3, 4, 5, 0, 1, *[len(DIGITS) + 1] * 4]
    texts = pa.array(NUMBERS, pa.string())
    given = texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind)
    assert encoded(schema, given) == want
    floats = [None if t in (None, "word") else float(t) for t in NUMBERS]
    assert encoded(schema, pa.array(floats, pa.float64())) == want
    assert encoded(schema, pa.array(floats, pa.float64()).dictionary_encode()) == want
    for scale in (5, 17):
        exact = pa.array([Decimal(t) for t in NUMBERS[:9]], pa.decimal128(38, scale))
        assert encoded(schema, exact) == encoded(schema, exact.dictionary_encode()) == want[:9]
    for scale in (0, -2):
        hundreds = pa.array([Decimal(1200), None, Decimal(300)], pa.decimal128(9, scale))
        assert encoded(schema, hundreds) == [0, len(DIGITS) + 1, 0]
    assert encoded(schema, pa.array([Decimal(7)], pa.decimal128(9, 0))) == [0]
    assert (
        encoded(schema, given.slice(2, 9))
        == want[2:11]
        == encoded(schema, pa.array(floats).slice(2, 9))
    )


@pytest.mark.parametrize("name", WIDE)
def test_a_null_decimal_is_null_whatever_lies_under_it(name):
    """Also a number of more than 64 bits."""
    schema = schema_of(**WIDE[name], null="code")
    words = np.array([[9 * 10**17, 0], [0, 1 << 40], [0, 1 << 40]], np.int64)
    array = pa.Array.from_buffers(
        pa.decimal128(38, 17), 3, [pa.py_buffer(bytes([0b101])), pa.py_buffer(words)]
    )
    assert array.null_count == 1 and array[2].as_py() > 10**12
    want = [encode_value(schema.columns["x"], v) for v in (Decimal(9), None, array[2].as_py())]
    assert encoded(schema, array) == want
    assert encoded(schema, array.slice(0, 2)) == want[:2]
    plain = pa.array([array[0].as_py(), None, array[2].as_py()], array.type)
    split = {"kind": "derived", "transform": "divmod", "by": 5, "max": 9, "parts": ["q", "r"]}
    for other in (schema_of(kind="places"), schema_of(**split)):
        got, wanted = (
            encode_batch(other, pa.table({"x": given_as}))[0] for given_as in (array, plain)
        )
        assert all(got[part].tolist() == wanted[part].tolist() for part in wanted)


@pytest.mark.parametrize("overflow", ["clamp", "code"])
@pytest.mark.parametrize("first", [-(2**63), -(2**53) - 3, -3, 2**53 - 3, 2**60 + 1, 2**63 - 7])
def test_a_float_has_the_code_of_the_whole_number_that_it_is(first, overflow):
    """Beyond 2^53 not every whole number is a float: the ends of a domain still lie between the
    floats that are inside and those that are outside, up to the ends of int64 and past them."""
    last = first + 6
    column = {"kind": "integer", "dtype": "int64", "min": first, "max": last, "overflow": overflow}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "name": "t", "columns": {"x": column}})
    middle = float(first + 3)
    floats = {middle, math.nextafter(middle, math.inf), math.nextafter(middle, -math.inf)}
    for k in (*range(first - 3, last + 4), first - 2000, last + 2000):
        floats |= {
            float(k),
            math.nextafter(float(k), math.inf),
            math.nextafter(float(k), -math.inf),
        }
    values = sorted(floats)
    got = fastdp.read(pa.table({"x": values}), schema).codes["x"].tolist()
    for value, code in zip(values, got, strict=True):
        if value != math.floor(value) and first <= value <= last:
            expected = 7  # no whole number
        elif first <= value <= last:  # Python compares floats with whole numbers exactly
            expected = int(value) - first
        elif overflow == "code":
            expected = 7
        else:
            expected = 0 if value < first else 6
        assert code == expected, value


ODD = [0.0, 7.0, -1.0, 0.5, -2.5, 2.0**53, 2.0**63, -(2.0**63), -(2.0**64), 1e30, None]
ARRAYS = [
    pa.array([0, 7, -1, 2**63 - 1, -(2**63), None]),
    pa.array([5, 2**63, 2**64 - 1, None], pa.uint64()),
]
ARRAYS += [
    pa.array([*ODD, math.nan]),
    pa.array(ODD, pa.float32()),
    pa.array(ODD).dictionary_encode(),
]
ARRAYS += [
    pa.array([None if v is None else Decimal(v) for v in ODD], pa.decimal128(38, d)) for d in (1, 6)
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.type))
def test_whole_numbers_of_64_bits_can_be_read_and_no_others(array):
    """Whatever type they come in; a null can be read, and so can what is no number."""
    (item,) = schema_of(
        kind="derived", transform="divmod", by=3, max=9, parts=["q", "r"]
    ).fields.values()
    values, good, null = maps.Source.of("int64", array.type).as_integers(array, item)
    for i, value in enumerate(array.to_pylist()):
        assert null[i] == (value is None or math.isnan(value))
        assert good[i] == (null[i] or (value == math.floor(value) and -(2**63) <= value < 2**63))
        assert null[i] or not good[i] or values[i] == int(value)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.duration("s")], ids=str)
def test_sources_of_other_types_are_refused_before_any_row_is_read(kind):
    schema = schema_of(kind="integer", min=0, max=3)
    for source in (kind, pa.dictionary(pa.int8(), kind)):
        (problem,) = type_problems(schema.fields.values(), pa.schema([("x", source)]))
        assert "'x'" in problem

"""Maps from physical values to codes: one number, one code, whatever type it comes in."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.codec.encode import check_types, encode_batch
from fastdp.codec.maps import Source
from fastdp.errors import DataError
from fastdp.schema import Schema
from fastdp.schema.places import Places

from ..reference.codes import encode_value

TYPES = [
    pa.int64(),
    pa.float32(),
    pa.bool_(),
    pa.string(),
    pa.large_binary(),
    pa.decimal128(9, 2),
    pa.date32(),
    pa.timestamp("us"),
    pa.time64("us"),
    pa.duration("s"),
    pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]),
    pa.null(),
]
OWN = ["int64", "float64", "string", "bool", "decimal128(9, 2)", "date32", "timestamp[us]"]


def schema_of(**column) -> Schema:
    return Schema.from_dict({"columns": {"x": column}})


def encoded(schema, array) -> list[int | None]:
    """The code of every value, None where its row is dropped."""
    codes, keep = encode_batch(schema, pa.table({"x": array}))
    kept = [True] * len(array) if keep is None else keep.tolist()
    return [int(c) if k else None for c, k in zip(codes["x"], kept, strict=True)]


@settings(max_examples=80, deadline=None)
@given(
    st.integers(-160, 160),
    st.integers(0, 340),
    st.sampled_from([0, 1, 3, -1, -2]),
    st.sampled_from(["code", "drop", "clamp"]),
    st.data(),
)
def test_whole_numbers_in_decimals_are_the_whole_numbers(least, width, places, overflow, data):
    """A decimal source of any scale gives each number the code of the twin, at both ends of the range and
    beyond; and a whole number the code that an integer source gives it."""
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


@pytest.mark.parametrize("scale", [2, 0, -2])
def test_decimals_beyond_64_bits_are_beyond_the_domain(scale):
    huge = pa.array([10**30, -(10**30)], pa.decimal256(60, 0)).cast(pa.decimal128(38, scale), safe=False)
    schema = schema_of(kind="integer", min=-5, max=700, overflow="clamp")
    assert encoded(schema, huge) == [705, 0]


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_dictionary_can_be_read_where_its_values_can(own, kind):
    plain = Source.of(own, kind)
    coded = Source.of(own, pa.dictionary(pa.int32(), kind))
    assert (coded is None) == (plain is None)
    if coded is not None:
        assert coded.form == "dictionary" and coded.target == plain.target


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.duration("s")], ids=str)
def test_sources_of_other_types_are_refused_before_any_row_is_read(kind):
    schema = schema_of(kind="integer", min=0, max=3)
    for source in (kind, pa.dictionary(pa.int8(), kind)):
        with pytest.raises(DataError, match="x"):
            check_types(schema, pa.schema([("x", source)]))


@pytest.mark.parametrize("places", [16, 17, 18])
def test_a_range_beyond_64_bits_of_units_leaves_the_numbers_within_their_codes(places):
    """Ends of the range that no 64-bit number of units reaches, on both sides."""
    schema = schema_of(kind="integer", min=-2000, max=2000, overflow="clamp", null="code")
    most = (2**63 - 1) // 10**places
    values = [Decimal(v) for v in range(-most, most + 1)] + [Decimal("0.5"), Decimal(-most) + Decimal("0.25")]
    wanted = [encode_value(schema.columns["x"], v) for v in values]
    assert encoded(schema, pa.array(values, pa.decimal128(38, places))) == wanted


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


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), "dictionary"], ids=str)
def test_digits_after_the_point_are_those_of_the_number_whatever_type_it_comes_in(kind):
    """As float, as text and from a dictionary of texts; what is no number, or not finite, is null."""
    schema = schema_of(kind="places")
    want = [0, 0, 1, 2, 3, 4, 5, 0, 1, *[Places.null_places] * 4]
    texts = pa.array(NUMBERS, pa.string())
    given = texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind)
    assert encoded(schema, given) == want
    floats = [None if t in (None, "word") else float(t) for t in NUMBERS]
    assert encoded(schema, pa.array(floats, pa.float64())) == want
    assert encoded(schema, pa.array(floats, pa.float64()).dictionary_encode()) == want
    assert encoded(schema, given.slice(2, 9)) == want[2:11] == encoded(schema, pa.array(floats).slice(2, 9))


def test_a_null_has_no_digits_whatever_lies_under_it():
    valid = pa.py_buffer(bytes([0b101]))
    array = pa.Array.from_buffers(pa.float64(), 3, [valid, pa.py_buffer(np.array([1.5, 2.5, 3.25]))])
    assert array.null_count == 1
    assert encoded(schema_of(kind="places"), array) == [1, Places.null_places, 2]

"""Maps from physical values to codes: one number, one code, whatever type it comes in."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.codec.encode import check_types, encode_batch
from fastdp.codec.maps import Source
from fastdp.errors import DataError
from fastdp.schema import Schema

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

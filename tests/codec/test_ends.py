"""Every word that a type can store is a value: one row never stops a run, and codes are exact to
the ends.

Against Python's exact integers and decimals, on plain and dictionary arrays, with values beyond the
declared precision of decimals and date64 within a day, which Arrow's own validation refuses.
"""

import datetime
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.codec.decode import decode
from fastdp.codec.encode import encode_batch
from fastdp.errors import FastdpError, SchemaError
from fastdp.schema import Schema, dtypes
from fastdp.tables import part_checks
from fastdp.tables.sources.source import open_parts
from tests.tiers import first

WORDS = [
    0,
    1,
    -1,
    5,
    10,
    2**31 - 1,
    -(2**31),
    2**63 - 1,
    -(2**63),
    10**18,
    -(10**18),
    9_223_372_036_854,
]
WORDS += [
    253_402_300_799,
    253_402_300_800,
    -62_135_596_800,
    -62_135_596_801,
    9_223_372_036,
    -9_223_372_037,
]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DECIMALS = [pa.decimal32(3, 1), pa.decimal32(9, 0), pa.decimal64(5, 1), pa.decimal64(18, 2)]
DECIMALS += [pa.decimal128(p, s) for p, s in ((10, 2), (38, 0), (38, 38), (5, -3))]
DECIMALS += [pa.decimal256(p, s) for p, s in ((40, 2), (76, 0), (5, -3))]
ZONES = (None, "UTC", "America/Chicago", "+05:30")
TIMES = [pa.date32(), pa.date64(), *(pa.timestamp(unit, zone) for unit in UNITS for zone in ZONES)]
OWN_TIMES = ["date32", "date64", *(f"timestamp[{unit}]" for unit in UNITS), "timestamp[us, tz=UTC]"]
OWN_TIMES += ["timestamp[ns, tz=America/Chicago]", "timestamp[s, tz=Asia/Kolkata]"]
DAYS = ["1900-01-01", "1970-01-01", "1980-01-01", "2020-01-01"]


def words(kind) -> list[int]:
    bits = kind.bit_width
    ends = [2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    return [w for w in WORDS if -(2 ** (bits - 1)) <= w < 2 ** (bits - 1)] + ends


def column(kind) -> pa.Array:
    width = kind.bit_width // 8
    stored = b"".join(w.to_bytes(width, "little", signed=True) for w in words(kind))
    return pa.Array.from_buffers(kind, len(words(kind)), [None, pa.py_buffer(stored)])


def field(**plain):
    schema = fastdp.Schema.from_dict({"columns": {"x": plain}})
    return schema, next(iter(schema.fields.values()))


NUMBERS = [
    {"kind": "numeric", "dtype": d, "edges": [0, 1, 2, 10]} for d in ("int64", "float64", "float32")
]
NUMBERS += [
    {"kind": "numeric", "dtype": f"decimal128({d})", "edges": [0, 10**18]}
    for d in ("10, 2", "38, 0")
]
NUMBERS += [
    {"kind": "integer", "dtype": d, "min": 0, "max": 9} for d in ("int64", "string", "float64")
]
NUMBERS += [
    {"kind": "categorical", "dtype": "int64", "values": [1, 5]},
    {"kind": "categorical", "dtype": "decimal128(10, 2)", "values": ["0.01", "1.00"]},
    {"kind": "categorical", "dtype": "string", "values": ["1", "5"]},
    {"kind": "derived", "transform": "divmod", "by": 3, "max": 20, "parts": ["a", "b"]},
    {"kind": "places", "dtype": "float64"},
]
SPANS = [{"kind": "numeric", "dtype": d, "edges": DAYS} for d in OWN_TIMES]
SPANS += [{"kind": "categorical", "dtype": d, "values": DAYS} for d in OWN_TIMES]
SPANS += [
    {
        "kind": "timestamp",
        "dtype": d,
        "parts": ["year", "hour"],
        "min": "1970-01-01",
        "max": "2020-12-31",
    }
    for d in OWN_TIMES
]


def of_number(item, number: Decimal) -> int | None:
    if item.kind == "numeric":
        bins = zip(map(Decimal, item.edges), map(Decimal, item.edges[1:]), strict=False)
        return next((i for i, (a, b) in enumerate(bins) if a <= number < b), item.overflow_code)
    if item.kind == "integer":
        inside = item.min <= number <= item.max and number == number.to_integral_value()
        return int(number) - item.min if inside else item.overflow_code
    if item.kind == "categorical" and item.dtype != "string":
        return next(
            (i for i, v in enumerate(item.values) if Decimal(v) == number), item.overflow_code
        )
    return None


def of_time(item, kind, word: int) -> int:
    """The code of a word of a date or time, where both types have a zone or none of them has
    one."""
    day = pa.types.is_date(kind)
    per = UNITS[kind.unit] if not day else 1
    nano = word * (10**9 // per)
    if day:
        nano = (word if kind.bit_width == 32 else word // 86_400_000) * 86_400 * 10**9
    seconds = nano // 10**9
    if item.kind == "timestamp":
        first, last = item.span
        inside = first <= seconds // 86_400 <= last
        year = (
            (datetime.date(1970, 1, 1) + datetime.timedelta(seconds // 86_400)).year
            if inside
            else 0
        )
        return year - 1970 if inside else item.parts[0].overflow_code
    if item.kind == "numeric":
        value = seconds // 86_400 if item.dtype.startswith("date") else seconds
        bins = zip(item.edges, item.edges[1:], strict=False)
        return next((i for i, (a, b) in enumerate(bins) if a <= value < b), item.overflow_code)
    own = dtypes.arrow(item.dtype)
    grain = 86_400 * 10**9 if pa.types.is_date(own) else 10**9 // UNITS[own.unit]
    listed = [int(np.datetime64(d, "D").astype(int)) * 86_400 * 10**9 for d in DAYS]
    down = nano // grain * grain
    return listed.index(down) if down in listed else item.overflow_code


def forms(array):
    yield array
    yield pa.DictionaryArray.from_arrays(pa.array(np.arange(len(array))), array)


def codes(array, schema) -> list[int] | None:
    """None where the schema cannot be read from the type, which is said before a row is read."""
    table = pa.table({"x": array})
    try:
        part_checks.checked_columns(open_parts(table), schema)
    except FastdpError:
        return None
    return next(iter(fastdp.read(table, schema, threads=1).codes.values())).tolist()


@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_decimals_at_the_ends_of_their_range_have_the_codes_of_the_slow_twin(kind):
    with localcontext() as context:
        context.prec = 200
        for plain, array in product(NUMBERS, forms(column(kind))):
            schema, item = field(**plain)
            made = codes(array, schema)
            want = [of_number(item, Decimal(w).scaleb(-kind.scale)) for w in words(kind)]
            if made is not None and want[0] is not None:
                assert made == want, plain


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_dates_and_times_at_the_ends_of_their_range_have_the_codes_of_the_slow_twin(kind):
    for plain, array in product(SPANS, forms(column(kind))):
        schema, item = field(**plain)
        made = codes(array, schema)
        assert made is not None, plain
        clocks = getattr(kind, "tz", None), getattr(dtypes.arrow(item.dtype), "tz", None)
        if clocks in ((None, None), ("UTC", "UTC")):
            assert made == [of_time(item, kind, w) for w in words(kind)], plain


@pytest.mark.parametrize("kind", [*DECIMALS, *TIMES, pa.time32("s"), pa.time64("ns")], ids=str)
def test_ids_at_the_ends_of_their_range_are_one_user_for_each_value(kind):
    """One user for each value: milliseconds within a day are no part of a date."""
    table = pa.table({"who": column(kind), "a": [0] * len(words(kind))})
    users = fastdp.read(table, fastdp.Schema.from_domain({"a": 1}, user="who")).users
    own = {w // 86_400_000 for w in words(kind)} if pa.types.is_date64(kind) else set(words(kind))
    assert users == len(own)


# Numbers beyond 2^53: exact over the whole range of their type, or the schema is refused.


ENDS = {"int64": 63, "decimal128(38, 0)": 126, "decimal128(38, 2)": 119, "decimal128(19, 0)": 63}


def schema_of(dtype, edges, **more):
    entry = {"kind": "numeric", "dtype": dtype, "edges": edges, **more}
    return Schema.from_dict({"columns": {"x": entry}})


def stored(numbers, dtype):
    with localcontext() as context:
        context.prec = 60
        unit = Decimal(1).scaleb(-dtypes.decimal_scale(dtype))
        values = numbers if dtype == "int64" else [Decimal(n).quantize(unit) for n in numbers]
        return pa.table({"x": pa.array(values, dtypes.arrow(dtype))})


@st.composite
def edges_of(draw, dtype):
    """Whole numbers of every size that are floats, mostly beyond 2^53 and some next to each
    other."""
    bits = ENDS[dtype]
    size = st.integers(0, bits).flatmap(lambda b: st.integers(-(2**b), 2**b)).map(float)
    edges = draw(st.lists(size, min_size=1, max_size=6))
    edges += [np.nextafter(e, np.inf) for e in edges if abs(e) > 2**53]
    limit = (
        10.0 ** (dtypes.decimal_precision(dtype) - dtypes.decimal_scale(dtype))
        if dtype != "int64"
        else 2.0**63
    )
    edges = sorted({float(e) for e in edges if abs(e) <= limit} | {0.0, limit})
    return edges


@pytest.mark.parametrize("dtype", first(2, ENDS))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_values_are_read_and_written_exactly(dtype, data):
    """Codes are those of exact comparisons; a drawn value lies in its bin and is read back as its
    code."""
    edges = data.draw(edges_of(dtype))
    schema = schema_of(dtype, edges)
    column = schema.columns["x"]
    limit = 2**63 - 1
    if dtype != "int64":
        limit = (10 ** dtypes.decimal_precision(dtype) - 1) // 10 ** dtypes.decimal_scale(dtype)
    near = {int(e) + d for e in edges for d in (-1, 0, 1)}
    numbers = sorted(n for n in near if -limit <= n <= limit)
    codes = encode_batch(schema, stored(numbers, dtype))[0]["x"]
    want = [
        next((i for i in range(column.base) if edges[i] <= n < edges[i + 1]), column.overflow_code)
        for n in numbers
    ]
    assert codes.tolist() == want
    drawn = np.repeat(np.arange(column.base), 30).astype(column.code_dtype)
    table = decode(schema, {"x": drawn}, data.draw(st.integers(0, 99)))
    for code, value in zip(drawn.tolist(), table["x"].to_pylist(), strict=True):
        assert edges[code] <= Fraction(value) < edges[code + 1]
    assert np.array_equal(encode_batch(schema, table)[0]["x"], drawn)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "decimal128(38, 2)"])
def test_open_bins_beyond_the_floats(dtype):
    """They end where their type ends; an open bin near zero keeps the shape of its tail."""
    far = 2.0**60
    schema = schema_of(dtype, [0, far, "inf"])
    values = decode(schema, {"x": np.ones(2000, np.uint8)}, 3)["x"].to_pylist()
    assert min(values) >= far and len(set(values)) > 1000
    if dtype != "uint64":
        schema = schema_of(dtype, ["-inf", 0, 10], lower_tail={"law": "exponential", "mean": 20})
        values = [
            float(v) for v in decode(schema, {"x": np.zeros(4000, np.uint8)}, 3)["x"].to_pylist()
        ]
        # The mean of 4,000 draws has a standard error of 20 / sqrt(4000) = 0.32; the grid adds at
        # most 1.
        assert max(values) < 0 and abs(np.mean(values) + 20) < 6 * 0.32 + 1


@pytest.mark.parametrize("edge", [2**53 + 1, 1_200_000_000_000_000_001, -(2**60) - 1])
def test_an_edge_that_is_no_float_is_refused(edge):
    with pytest.raises(SchemaError, match="no exact 64-bit float"):
        schema_of("int64", sorted([0, edge]))


@pytest.mark.parametrize(
    "dtype, most",
    [
        ("float64", 2**53),
        ("float32", 2**24),
        ("decimal128(38, 2)", 2**63 // 100 - 1),
        ("decimal128(5, 2)", 999),
    ],
)
def test_whole_numbers_that_a_type_does_not_hold_exactly_are_refused(dtype, most):
    def made(top):
        entry = {"kind": "integer", "dtype": dtype, "min": top - 5, "max": top}
        return Schema.from_dict({"columns": {"x": entry}})

    values = decode(made(most), {"x": np.arange(6, dtype=np.uint8)}, 1)["x"].to_pylist()
    assert [int(v) for v in values] == list(range(most - 5, most + 1))
    with pytest.raises(SchemaError, match="does not fit"):
        made(most + 1)


@pytest.mark.parametrize(
    "kind, start",
    first(
        2,
        [
            (pa.int64(), 1_200_000_000_000_000_000),
            (pa.int64(), 2**63 - 1000),
            (pa.int64(), -(2**63)),
            (pa.decimal128(38, 0), 10**19),
            (pa.decimal128(38, 2), -(10**19)),
        ],
    ),
    ids=str,
)
def test_a_private_domain_of_large_numbers(kind, start):
    """1,000 neighbouring numbers: what is written is closer to them than a millionth of their size
    (they were written as 2^53 or as the smallest int64). Bins end at floats and at round numbers.
    """
    numbers = [start + i % 1000 for i in range(3000)]
    column = pa.array(numbers if kind == pa.int64() else [Decimal(n) for n in numbers], kind)
    run = fastdp.synthesize(
        pa.table({"x": column}),
        "mst",
        domain="private",
        epsilon=20,
        delta=1e-6,
        seed=1,
        sample_seed=2,
    )
    written = [int(v) for v in run.data["x"].to_pylist()]
    assert np.isclose(np.array(written, float), float(start), rtol=1e-6, atol=0).mean() > 0.95

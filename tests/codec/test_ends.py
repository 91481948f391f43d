"""Every word that a type can store is a value: one row never stops a run, and codes are exact to the ends.

Against Python's exact integers and decimals, on plain and dictionary arrays, with values beyond the declared
precision of decimals and date64 within a day, which Arrow's own validation refuses.
"""

import datetime
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import FastdpError
from fastdp.schema import dtypes
from fastdp.tables import ingest, sources

WORDS = [0, 1, -1, 5, 10, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 10**18, -(10**18), 9_223_372_036_854]
WORDS += [253_402_300_799, 253_402_300_800, -62_135_596_800, -62_135_596_801, 9_223_372_036, -9_223_372_037]
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


NUMBERS = [{"kind": "numeric", "dtype": d, "edges": [0, 1, 2, 10]} for d in ("int64", "float64", "float32")]
NUMBERS += [
    {"kind": "numeric", "dtype": f"decimal128({d})", "edges": [0, 10**18]} for d in ("10, 2", "38, 0")
]
NUMBERS += [{"kind": "integer", "dtype": d, "min": 0, "max": 9} for d in ("int64", "string", "float64")]
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
    {"kind": "timestamp", "dtype": d, "parts": ["year", "hour"], "min": "1970-01-01", "max": "2020-12-31"}
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
        return next((i for i, v in enumerate(item.values) if Decimal(v) == number), item.overflow_code)
    return None


def of_time(item, kind, word: int) -> int:
    """The code of a word of a date or time, where both types have a zone or none of them has one."""
    day = pa.types.is_date(kind)
    per = UNITS[kind.unit] if not day else 1
    nano = word * (10**9 // per)
    if day:
        nano = (word if kind.bit_width == 32 else word // 86_400_000) * 86_400 * 10**9
    seconds = nano // 10**9
    if item.kind == "timestamp":
        first, last = item.span
        inside = first <= seconds // 86_400 <= last
        year = (datetime.date(1970, 1, 1) + datetime.timedelta(seconds // 86_400)).year if inside else 0
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
        ingest.checked_columns(sources.open_parts(table), schema)
    except FastdpError:
        return None
    return next(iter(fastdp.read(table, schema, threads=1).codes.values())).tolist()


@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_decimals(kind):
    with localcontext() as context:
        context.prec = 200
        for plain, array in product(NUMBERS, forms(column(kind))):
            schema, item = field(**plain)
            made = codes(array, schema)
            want = [of_number(item, Decimal(w).scaleb(-kind.scale)) for w in words(kind)]
            if made is not None and want[0] is not None:
                assert made == want, plain


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_dates_and_times(kind):
    for plain, array in product(SPANS, forms(column(kind))):
        schema, item = field(**plain)
        made = codes(array, schema)
        assert made is not None, plain
        clocks = getattr(kind, "tz", None), getattr(dtypes.arrow(item.dtype), "tz", None)
        if clocks in ((None, None), ("UTC", "UTC")):
            assert made == [of_time(item, kind, w) for w in words(kind)], plain


@pytest.mark.parametrize("kind", [*DECIMALS, *TIMES, pa.time32("s"), pa.time64("ns")], ids=str)
def test_ids(kind):
    """One user for each value: milliseconds within a day are no part of a date."""
    table = pa.table({"who": column(kind), "a": [0] * len(words(kind))})
    users = fastdp.read(table, fastdp.Schema.from_domain({"a": 1}, user="who")).users
    own = {w // 86_400_000 for w in words(kind)} if pa.types.is_date64(kind) else set(words(kind))
    assert users == len(own)

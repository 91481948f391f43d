"""The decoder: what it writes encodes to the codes it came from, in the right type, law and
bounds."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fastdp._core import codes as core
from fastdp.codec.decode import decode
from fastdp.codec.draws import stream_key
from fastdp.codec.encode import encode_batch
from fastdp.errors import UsageError
from fastdp.schema import Schema, dtypes
from fastdp.schema.bins import bins_of
from fastdp.schema.document import builtin_names

from ..reference import codes as slow
from .test_encode import one


def some_codes(schema: Schema, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, column.size, rows).astype(column.code_dtype)
        for name, column in schema.columns.items()
    }


def chi2_limit(degrees: int) -> float:
    """Exceeded by chi-square with probability under 1e-6 (Wilson and Hilferty's cube, z = 4.76)."""
    return degrees * (1 - 2 / (9 * degrees) + 4.8 * math.sqrt(2 / (9 * degrees))) ** 3


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_schemas_round_trip(name):
    schema = Schema.load(name)
    codes = some_codes(schema, 3000)
    # From 5000 on a wage has no second part, and 0 only in its first class.
    if name == "census1940":
        codes["INCWAGE_B"][codes["INCWAGE_A"] >= 50] = 0
    table = decode(schema, codes, seed=7)
    assert table.num_rows == 3000
    assert table.column_names == [f.source for f in schema.fields.values()]
    again, keep = encode_batch(schema, table)
    assert keep is None
    for column in schema.columns:
        assert (again[column] == codes[column]).all(), column


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_slices_decode_alone_as_within_the_whole(rows):
    schema = Schema.load("taxi-chicago")
    codes = some_codes(schema, 400_000 if rows == 100 else rows)
    whole = decode(schema, codes, seed=3, threads=2)
    assert whole.num_rows == (400_000 if rows == 100 else rows)
    for start, stop in ((0, 1), (50, 100), (262_100, 262_200)):
        part = {k: v[start:stop] for k, v in codes.items()}
        alone = decode(schema, part, seed=3, offset=start, threads=1)
        assert alone.combine_chunks().equals(whole.slice(start, stop - start).combine_chunks())
    if rows == 100:
        other = decode(schema, codes, seed=4)
        assert not other["fare"].combine_chunks().equals(whole["fare"].combine_chunks())


@pytest.mark.parametrize("per_day", [1, 3, 24])
def test_columns_that_are_only_written_follow_the_shift(per_day):
    """Shifts are numbered through the week; an hour is any of the shift; without a shift both are
    null."""
    outputs = {
        "day": {"from": "shift", "part": "day_of_week"},
        "hour": {"from": "shift", "part": "hour"},
    }
    column = {"kind": "integer", "max": 7 * per_day - 1, "null": "code", "overflow": "drop"}
    schema = Schema.from_dict({"columns": {"shift": column}, "outputs": outputs})
    codes = np.repeat(np.arange(7 * per_day + 1), 200)
    made = decode(schema, {"shift": codes.astype(np.uint8)}, 1, outputs=True)
    day, hour = (made[name].to_numpy()[: 1400 * per_day] for name in ("day", "hour"))
    assert np.array_equal(day * per_day + hour // (24 // per_day), codes[: 1400 * per_day])
    assert set(hour) == set(range(24)) and made["day"].null_count == made["hour"].null_count == 200


def listed(dtype, *values):
    return {"kind": "categorical", "dtype": dtype, "values": list(values)}


def whole(dtype, low, high):
    return {"kind": "integer", "dtype": dtype, "min": low, "max": high}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (listed("int8", 3, -1), [3, -1]),
        (listed("float32", 0.5, 2.0), [0.5, 2.0]),
        (listed("bool", True, False), [True, False]),
        (listed("string", "a", "ü"), ["a", "ü"]),
        (listed("large_string", "a", ""), ["a", ""]),
        (listed("string_view", "a", "b"), ["a", "b"]),
        (listed("enum", "a", "b"), ["a", "b"]),
        (listed("date32", "2020-02-29", "1960-01-01"), [dt.date(2020, 2, 29), dt.date(1960, 1, 1)]),
        (listed("date64", "2020-02-29"), [dt.date(2020, 2, 29)]),
        (listed("decimal128(9, 2)", "1.50", "-2"), [Decimal("1.50"), Decimal("-2.00")]),
        (
            listed("timestamp[ms]", "2020-06-01T12:00:00.5"),
            [dt.datetime(2020, 6, 1, 12, 0, 0, 500_000)],
        ),
        (whole("int16", -2, 300), [-2, 5, 300]),
        (whole("float64", 0, 70_000), [0.0, 70_000.0]),
        (whole("string", 0, 9), ["0", "9"]),
        (whole("decimal128(5, 1)", 0, 9), [Decimal("0.0"), Decimal("9.0")]),
        (whole("uint64", 5, 2**30), [5, 2**30]),
    ],
)
def test_types_and_nulls_come_back_exactly(column, values):
    schema = one(column)
    values = [*values, None]
    kind = dtypes.arrow(schema.columns["x"].dtype)
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    array = pa.array(values, plain)
    array = array.dictionary_encode() if pa.types.is_dictionary(kind) else array
    codes, _ = encode_batch(schema, pa.table({"x": array}))
    back = decode(schema, codes, seed=0)["x"].combine_chunks()
    assert back.type == kind
    assert back.to_pylist() == values
    back.validate(full=True)


def test_overflow_is_the_stated_other_or_null():
    schema = one({"kind": "string", "values": ["a"], "other": "elsewhere"})
    codes = {"x": np.array([0, 1, 2], np.uint8)}
    assert decode(schema, codes, seed=0)["x"].to_pylist() == ["a", "elsewhere", None]
    schema = one({"kind": "integer", "max": 0})
    assert decode(schema, codes, seed=0)["x"].to_pylist() == [0, None, None]
    schema = one({"kind": "numeric", "edges": [0, 1]})
    assert decode(schema, codes, seed=0)["x"].to_pylist()[1:] == [None, None]
    schema = one({"kind": "numeric", "edges": [0, 1], "tail": {"mean": 3}, "max": 9})
    beyond = decode(schema, {"x": np.full(500, 1, np.uint8)}, seed=0)["x"].to_numpy()
    assert beyond.min() >= 1 and beyond.max() <= 9


numeric = st.fixed_dictionaries(
    {
        "kind": st.just("numeric"),
        "edges": st.tuples(
            st.sampled_from([[], ["-inf"]]),
            st.lists(st.integers(-500, 500), min_size=2, max_size=12, unique=True).map(sorted),
            st.sampled_from([[], ["inf"]]),
        ).map(lambda t: [*t[0], *t[1], *t[2]]),
        "dtype": st.sampled_from(
            [
                "int16",
                "int32",
                "int64",
                "float32",
                "float64",
                "decimal128(12, 2)",
                "decimal128(9, 0)",
            ]
        ),
        "tail": st.sampled_from([{"mean": 3.5}, {"mean": 100}, {"law": "uniform", "width": 7}]),
        "null": st.sampled_from(["code", "drop"]),
        "overflow": st.just("drop"),
    },
    optional={"min": st.integers(-700, -501), "max": st.integers(501, 700)},
)


@settings(max_examples=30, deadline=None)
@given(numeric, st.integers(0, 2**64 - 1), st.integers(0, 10**9), st.sampled_from([None, 0, 2]))
def test_drawn_numbers_stay_in_their_bin_and_bounds(column, seed, offset, digits):
    if digits is not None and column["dtype"].startswith("float"):
        column["digits"] = digits
    schema = one(column)
    codes = some_codes(schema, 200, seed % 1000)
    table = decode(schema, codes, seed=seed, offset=offset)
    again, keep = encode_batch(schema, table)
    assert keep is None or (codes["x"][~keep] == schema.columns["x"].size - 1).all()
    assert (again["x"] == codes["x"]).all()
    values = [float(v) for v in table["x"].to_pylist() if v is not None]
    assert all(column.get("min", -math.inf) <= v <= column.get("max", math.inf) for v in values)
    if "digits" in column and column["dtype"] == "float64":
        assert all(v == round(v, digits) for v in values)


@settings(max_examples=20, deadline=None)
@given(numeric, st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_draws_agree_with_the_twin(column, key, row):
    bins, _ = bins_of(one(column).columns["x"])
    codes = np.arange(len(bins.lo), dtype=np.uint16).repeat(3)
    out = np.empty(len(codes))
    limits = (bins.lo, bins.hi, bins.mean, bins.low, bins.high)
    core.draw(codes, *limits, bins.whole, bins.unit, key, row, out)
    wanted = [slow.draw(bins, int(c), key, row + i) for i, c in enumerate(codes)]
    assert out.tolist() == wanted
    u = np.empty(5)
    core.uniform(key, row, u)
    assert u.tolist() == [slow.uniform(key, row + i) for i in range(5)]


def test_bins_are_even_and_tails_follow_their_law():
    """Each check fails by chance with probability under 1e-6; a uniform tail, or a bin off by one,
    fails it."""
    schema = one(
        {"kind": "numeric", "edges": [0, 10, "inf"], "dtype": "int32", "tail": {"mean": 4}}
    )
    n = 200_000
    values = decode(schema, {"x": np.zeros(n, np.uint8)}, seed=1)["x"].to_numpy()
    counts = np.bincount(values, minlength=10)
    assert len(counts) == 10
    assert ((counts - n / 10) ** 2 / (n / 10)).sum() < chi2_limit(9)
    values = decode(schema, {"x": np.ones(n, np.uint8)}, seed=1)["x"].to_numpy() - 10
    q = math.exp(-1 / 4)
    expected = n * (1 - q) * q ** np.arange(20)
    counts = np.bincount(values)[:20]
    assert ((counts - expected) ** 2 / expected).sum() < chi2_limit(20)
    wrong = np.full(20, n / 20)
    assert ((counts - wrong) ** 2 / wrong).sum() > chi2_limit(20)


def test_columns_and_rows_are_independent():
    """Correlations of independent uniforms are under 5 / sqrt(n) but for a chance under 1e-6."""
    n = 100_000
    u = np.empty((2, n))
    core.uniform(stream_key(1, "a"), 0, u[0])
    core.uniform(stream_key(1, "b"), 0, u[1])
    for x, y in ((u[0], u[1]), (u[0][1:], u[0][:-1])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 5 / math.sqrt(len(x))


@pytest.mark.parametrize(
    ("codes", "text"),
    [
        ({}, "at least one column"),
        ({"y": np.zeros(1, int)}, "no column 'y'"),
        ({"x": np.zeros(1)}, "whole numbers"),
        ({"x": np.array([4])}, "expected codes in 0..3"),
        ({"x": np.array([-1])}, "expected codes in 0..3"),
        ({"x": np.zeros((1, 1), int)}, "1-D"),
    ],
)
def test_wrong_codes_are_refused(codes, text):
    with pytest.raises(UsageError, match=text):
        decode(one({"kind": "integer", "max": 1}), codes, seed=0)


@pytest.mark.parametrize(
    "column, code, value",
    [
        ({"edges": [0.12, 0.18, 5], "digits": 1}, 0, 0.2),
        ({"edges": [0, 200, 300], "dtype": "int8"}, 1, 127),
        ({"edges": [-300, -200, 0], "dtype": "int8"}, 0, -128),
        ({"edges": [0, 200, 300], "max": 150, "whole": True}, 1, 150),
        ({"edges": [0, 10, 20], "min": 15, "whole": True}, 0, 15),
        ({"edges": [0, 200, "inf"], "dtype": "int8", "tail": {"mean": 1000}}, 1, 127),
    ],
)
def test_a_bin_without_a_number_of_the_grid_is_written_as_the_next_one(column, code, value):
    schema = Schema.from_dict({"columns": {"a": {"kind": "numeric", "null": "drop", **column}}})
    assert decode(schema, {"a": np.full(200, code, np.uint8)}, 5)["a"].to_pylist() == [value] * 200


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "derived", "transform": "hhmm", "parts": ["h", "m"]},
        {"kind": "derived", "transform": "hhmm", "parts": ["h"], "by": 5},
        {"parts": ["year", "month", "day"], "step": 86_400},
        {"parts": ["year", "month", "day_of_week"], "step": 86_400},
    ],
)
def test_clock_times_and_midnights_read_back_as_their_codes(entry):
    """Every HHMM, or every midnight of three years: written values have the codes they came from,
    minutes stay below 60, and times of day are midnight."""
    if "transform" in entry:
        values = pa.array([100 * h + m for h in range(24) for m in range(60)] + [2400])
    else:
        entry = {"kind": "timestamp", "min": "2019-03-05", "max": "2021-02-10", **entry}
        days = np.arange("2019-03-05", "2021-02-11", dtype="datetime64[D]")
        values = pa.array(days.astype("datetime64[us]"))
    schema = one(entry)
    codes, _ = encode_batch(schema, pa.table({"x": values}))
    made = decode(schema, codes, seed=3).column("x")
    again, _ = encode_batch(schema, pa.table({"x": made}))
    assert all((again[name] == codes[name]).all() for name in codes)
    numbers = made.to_numpy()
    if "transform" in entry:
        assert (numbers % 100 < 60).all() and (numbers % entry.get("by", 1) == 0).all()
        assert entry["parts"] == ["h"] or made.to_pylist() == values.to_pylist()
    else:
        assert (numbers == numbers.astype("datetime64[D]")).all()
        assert "day" not in entry["parts"] or made.to_pylist() == values.to_pylist()

"""Numbers beyond 2^53: exact over the whole range of their type, or the schema is refused."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastdp
from fastdp.codec.decode import decode
from fastdp.codec.encode import encode_batch
from fastdp.errors import SchemaError
from fastdp.schema import Schema, dtypes

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
    """Whole numbers of every size that are floats, mostly beyond 2^53 and some next to each other."""
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


@pytest.mark.parametrize("dtype", ENDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_values_are_read_and_written_exactly(dtype, data):
    """Codes are those of exact comparisons; a drawn value lies in its bin and is read back as its code."""
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
        values = [float(v) for v in decode(schema, {"x": np.zeros(4000, np.uint8)}, 3)["x"].to_pylist()]
        # The mean of 4,000 draws has a standard error of 20 / sqrt(4000) = 0.32; the grid adds at most 1.
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
    [
        (pa.int64(), 1_200_000_000_000_000_000),
        (pa.int64(), 2**63 - 1000),
        (pa.int64(), -(2**63)),
        (pa.decimal128(38, 0), 10**19),
        (pa.decimal128(38, 2), -(10**19)),
    ],
    ids=str,
)
def test_a_private_domain_of_large_numbers(kind, start):
    """1,000 neighbouring numbers: what is written is closer to them than a millionth of their size (they were
    written as 2^53 or as the smallest int64). Bins end at floats and at round numbers."""
    numbers = [start + i % 1000 for i in range(3000)]
    column = pa.array(numbers if kind == pa.int64() else [Decimal(n) for n in numbers], kind)
    run = fastdp.synthesize(
        pa.table({"x": column}), "mst", domain="private", epsilon=20, delta=1e-6, seed=1, sample_seed=2
    )
    written = [int(v) for v in run.data["x"].to_pylist()]
    assert np.isclose(np.array(written, float), float(start), rtol=1e-6, atol=0).mean() > 0.95

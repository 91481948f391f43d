"""One description of a column's codes: the kernel and Python read the same rule."""

import numpy as np
import pyarrow as pa
import pytest

from fastdp._core import codes as core
from fastdp.codec.encode import encode_batch
from fastdp.codec.maps import Source
from fastdp.codec.rules import kernel_map, rule_of
from fastdp.schema import Schema

COLUMNS = {
    "range": {"kind": "integer", "min": -3, "max": 9},
    "bins": {"kind": "numeric", "edges": [-2.5, 0, 0.1, 3, 1e6]},
    "open bins": {"kind": "numeric", "edges": [float("-inf"), 0.3, 7, float("inf")]},
    "near list": {"kind": "categorical", "dtype": "int64", "values": [3, -1, 0, 127]},
    "far list": {"kind": "categorical", "dtype": "int64", "values": [5, 1 << 40, -(1 << 62)]},
    "list of reals": {"kind": "categorical", "dtype": "float64", "values": [0.1, 3.0, -2.5]},
}
POLICIES = [
    {"null": "code", "overflow": "code"},
    {"null": "drop", "overflow": "drop"},
    {"null": "code", "overflow": "clamp"},
    {"null": "code", "overflow": "code", "nan": "overflow"},
]
WHOLE = [*range(-12, 12), 126, 127, 128]
FAR = [1 << 40, (1 << 40) + 1, -(1 << 62), (1 << 63) - 1, -(1 << 63), 10**6, 10**6 - 1]
REALS = [*map(float, WHOLE), 0.1, float(np.float32(0.1)), 0.3, -2.5, 9.5, -3.5, 1e300, 2.0**63]
ENDS = [float("inf"), float("-inf"), float("nan"), -0.0]
NUMBERS = {
    "int8": np.array(WHOLE[:-1], np.int8),
    "int64": np.array(WHOLE + FAR, np.int64),
    "float32": np.array([*REALS[:-2], *ENDS], np.float32),
    "float64": np.array([*REALS, *ENDS], np.float64),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_kernel_follows_the_rule(name):
    for policy in POLICIES:
        if policy["overflow"] == "clamp" and COLUMNS[name]["kind"] == "categorical":
            continue
        column = Schema.from_dict({"columns": {"x": COLUMNS[name] | policy}}).columns["x"]
        for dtype, numbers in NUMBERS.items():
            source = Source.of(column.dtype, pa.from_numpy_dtype(np.dtype(dtype)))
            rule = rule_of(column, source)
            out = np.empty(len(numbers) + 1, np.uint32)
            valid = np.packbits(np.arange(len(out)) < len(numbers), bitorder="little")
            with_null = np.append(numbers, numbers[:1])
            core.encode([(with_null, kernel_map(rule), valid, 0, out, None)])
            wanted = [rule.code(x) for x in [*numbers.tolist(), None]]
            assert out.tolist() == wanted, (dtype, policy)


@pytest.mark.parametrize("dtype", ["date32", "date64"])
def test_days_beyond_the_calendar_are_clamped_to_the_nearer_end(dtype):
    """Year 10000 is above every bin, and year 0 below; both once went into the lowest bin."""
    edges = ["1970-01-01", "2000-01-01", "2020-01-01", "2030-01-01"]
    column = {"kind": "numeric", "dtype": dtype, "edges": edges, "overflow": "clamp"}
    schema = Schema.from_dict({"columns": {"x": column}})
    days = [2_932_897, 2_932_896, 20_000, 0, -719_162, -719_163, -3_000_000, 100_000_000]
    table = pa.table({"x": pa.array(days, pa.int32()).cast(pa.date32())})
    assert encode_batch(schema, table)[0]["x"].tolist() == [2, 2, 2, 0, 0, 0, 0, 2]

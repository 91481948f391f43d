"""Numbers that follow from other numbers of a row: they are computed when rows are written, so they
hold."""

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.codec.decode import decode
from fastdp.codec.violations import count_violations
from fastdp.errors import SchemaError

MONEY = {
    "kind": "numeric",
    "dtype": "decimal128(10, 2)",
    "edges": [0, 5, 10, 50],
    "overflow": "clamp",
}
TIME = {"kind": "numeric", "dtype": "timestamp[us]", "edges": ["2020-01-01", "2020-02-01"]}
PARTS = {
    "kind": "timestamp",
    "dtype": "timestamp[s]",
    "parts": ["date", "hour"],
    "min": "2020-01-01",
    "max": "2020-06-30",
}
COLUMNS = {
    "total": {**MONEY, "dtype": "float64", "digits": 2, "edges": [0, 20, 60, 150]},
    "fare": MONEY,
    "tips": {**MONEY, "atoms": [0]},
    "departure": TIME,
    "minutes": {"kind": "integer", "min": 1, "max": 60},
    "arrival": {**TIME, "edges": ["2020-01-01", "2020-02-02"]},
    "opens": PARTS,
    "closes": {**PARTS, "max": "2020-07-01"},
}
SUMS = [
    {"column": "total", "follows": "fare + tips"},
    {"column": "arrival", "follows": "departure + 60 * minutes"},
    {"column": "closes", "follows": "opens + 3600 * minutes"},
]


def schema_of(constraints=SUMS):
    return fastdp.Schema.from_dict({"columns": COLUMNS, "constraints": constraints})


def drawn(schema, rows=2000):
    rng = np.random.default_rng(0)
    return {name: rng.integers(0, size, rows) for name, size in schema.modelled.items()}


def test_sums_hold_in_every_row_and_nulls_are_null():
    schema = schema_of()
    modelled = {"fare", "tips", "departure", "minutes", "opens_date", "opens_hour"}
    assert set(schema.modelled) == modelled
    codes = drawn(schema)
    table = decode(schema, codes, 1)
    assert table.column_names == list(COLUMNS)
    for row in table.to_pylist():
        if row["fare"] is None or row["tips"] is None:
            assert row["total"] is None
        else:
            assert row["total"] == pytest.approx(float(row["fare"] + row["tips"]), abs=1e-9)
        if row["departure"] is not None and row["minutes"] is not None:
            assert (row["arrival"] - row["departure"]).total_seconds() == 60 * row["minutes"]
        if row["opens"] is not None and row["minutes"] is not None:
            assert row["closes"] - row["opens"] == timedelta(hours=row["minutes"])
    assert count_violations(schema, table) == {0: 0, 1: 0, 2: 0}
    part = decode(schema, {n: c[500:700] for n, c in codes.items()}, 1, offset=500)
    assert part.equals(table.slice(500, 200))


def test_a_cent_too_much_is_found():
    schema = schema_of()
    table = decode(schema, drawn(schema), 1)
    wrong = pa.array([None if v is None else v + 0.01 for v in table["total"].to_pylist()])
    broken = count_violations(schema, table.set_column(0, "total", wrong))
    inside = [v is not None and v < 150 for v in wrong.to_pylist()]
    assert broken == {0: sum(inside), 1: 0, 2: 0}


@pytest.mark.parametrize(
    "constraints, said",
    [
        ([*SUMS, {"order": ["fare", "total"]}], "no other constraint"),
        ([{"column": "total", "follows": "fare + tips", "model": True}], "cannot be modelled"),
        ([{"column": "total", "follows": "fare + total"}], "named twice"),
        ([SUMS[0], {"column": "fare", "follows": "total - tips"}], "no other constraint"),
    ],
)
def test_what_cannot_be_computed_is_refused(constraints, said):
    with pytest.raises(SchemaError, match=said):
        schema_of(constraints)

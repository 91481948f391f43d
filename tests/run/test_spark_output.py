"""Rows that executors make, and types that Spark has: values come through, and what would not is refused
(Spark itself: tests/spark)."""

import datetime as dt

import pyarrow as pa
import pytest

from fastdp.engines.build import build
from fastdp.errors import DataError, UsageError
from fastdp.run.spark_output import make, spark_schema

WIDER = [
    (pa.uint8(), pa.int16(), [0, 255]),
    (pa.uint16(), pa.int32(), [0, 65_535]),
    (pa.uint32(), pa.int64(), [0, 2**32 - 1]),
    (pa.uint64(), pa.decimal128(20, 0), [0, 2**64 - 1]),
    (pa.float16(), pa.float32(), [0.5, -2.0]),
    (pa.date64(), pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("s"), pa.timestamp("us"), [dt.datetime(2020, 1, 2, 3, 4, 5)]),
    (pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("us", "Asia/Tokyo"), [1, 2]),
    (pa.large_string(), pa.string(), ["a", "é", None]),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", "b", None]),
    (pa.dictionary(pa.int8(), pa.uint8()), pa.int16(), [200, None]),
]
SAME = [pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.date32()]


@pytest.mark.parametrize("kind, wider, values", WIDER, ids=str)
def test_values_come_through(kind, wider, values):
    given = pa.table({"a": pa.array(values, kind), "b": pa.array([1] * len(values), pa.int32())})
    asked = spark_schema(given.schema)
    assert asked.names == ["a", "b"] and asked.types == [wider, pa.int32()]
    made = given.cast(asked)
    assert made["a"].to_pylist() == given["a"].to_pylist()


@pytest.mark.parametrize("kind", SAME, ids=str)
def test_types_that_spark_has_stay(kind):
    assert spark_schema(pa.schema([("a", kind)])).types == [kind]


def test_nanoseconds_are_refused():
    with pytest.raises(UsageError, match="'t' has nanoseconds"):
        spark_schema(pa.schema([("t", pa.timestamp("ns"))]))


class Blocks:
    """An output of given tables, one a block."""

    def __init__(self, *tables):
        self.tables, self.blocks = tables, len(tables)

    def block_tables(self, number):
        return iter([self.tables[number]])


def numbers(*values):
    return [pa.record_batch({"id": pa.array(values, pa.int64())})]


def test_an_executor_of_another_build_makes_no_rows():
    table = pa.table({"a": [1]})
    for other in ({"sources": "0"}, {"kernels": "0"}):
        with pytest.raises(DataError, match="an executor has another build of fastdp"):
            next(make(Blocks(table), build() | other, numbers(0)))

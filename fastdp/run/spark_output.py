"""Synthetic rows as a Spark DataFrame: one task makes each block of shards, from the model that is
sent to it.

Rows are functions of (outcome, seed, block) alone, so a task that runs twice makes the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from .._util.lazy import pa
from ..engines.build import build, check
from .output import Output


def frame(spark: Any, output: Output) -> Any:
    """A DataFrame whose partition i is block i of the output."""

    form = spark_schema(output.arrow_schema())
    # One row of nulls, since Spark Connect cannot infer types from a table without rows.
    nothing = pa.table([pa.nulls(1, kind) for kind in form.types], schema=form)
    kinds = spark.createDataFrame(nothing).schema
    task = partial(make, output.shipped(), dict(build()))
    blocks = max(1, output.blocks)
    made = spark.range(0, blocks, 1, blocks).mapInArrow(task, kinds)
    if not output.private:
        # Where a seed fixed the noise, the metadata of every column says so; Spark writes it to
        # files too.
        for name in form.names:
            made = made.withMetadata(name, {"fastdp.private": "false"})
    return made


def make(
    output: Output, driver: Mapping[str, str], batches: Iterable[pa.RecordBatch]
) -> Iterator[Any]:
    """Make the rows of the blocks whose numbers are in `batches`. It runs in an executor, and is
    refused if the executor's build of fastdp is not the `driver`'s."""
    check(driver)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            if number < output.blocks:
                for table in output.block_tables(number):
                    yield from for_spark(table).to_batches(1 << 16)


def for_spark(table: pa.Table) -> pa.Table:
    """The rows in types that Spark has. Nothing is lost but parts of a microsecond."""
    return table.cast(spark_schema(table.schema), safe=False)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns in types that Spark has: no unsigned numbers, no dictionaries,
    microseconds."""

    return pa.schema([pa.field(f.name, _spark_type(f.type)) for f in schema])


def _spark_type(kind: pa.DataType) -> pa.DataType:
    """The type that Spark has for one of Arrow's. It has no nanoseconds, in which pandas keeps all times."""
    t = pa.types
    if t.is_dictionary(kind):
        return _spark_type(kind.value_type)
    wider = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
    }
    if kind in wider:
        return wider[kind]
    if t.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.string() if t.is_large_string(kind) else kind

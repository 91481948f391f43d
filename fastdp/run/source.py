"""Checks a run's source before anything is charged: it opens, has the schema's columns, and can be
read as often as the run needs."""

from typing import Any

from ..engines.sparkcheck import is_spark
from ..errors import UsageError
from ..schema import Schema
from ..tables.ingest import check_structure, checked_columns, guarded
from ..tables.objects import open_object, read_once
from ..tables.sources import open_parts
from ..tables.sql import Query
from ..tables.table import Table


def check_source(source: Any, schema: Schema) -> None:
    """Raises, before anything is charged, if a source cannot be opened, lacks a column of the
    schema, has it in a wrong type, or is damaged Arrow data. It does not open streams and does not
    run queries."""
    if schema.unfinished:
        check_rereading(source, bool(schema.pending or schema.atomic))

    if isinstance(source, list | tuple) and source:
        together = [item for item in source if opens_again(item)]  # their ids must be of one kind
        for item in source:
            if not opens_again(item):
                check_source(item, schema)
        if together:
            guarded(lambda: _check_columns(together, schema))
    elif is_table(source) or is_spark(source) or isinstance(source, Query):
        return
    elif opens_again(source):
        guarded(lambda: _check_columns(source, schema))
    elif not hasattr(source, "__arrow_c_stream__"):
        open_object(source)  # raises: no source is of this type


def opens_again(source: Any) -> bool:
    """Whether a source can be opened more than once, at no cost."""
    unopened = is_table(source) or is_spark(source) or isinstance(source, Query | list | tuple)
    return not unopened and not read_once(source)


def _check_columns(source: Any, schema: Schema) -> None:
    """Raise DataError if a source that can be opened again lacks columns or is damaged Arrow
    data."""
    parts = open_parts(source, schema.dialect)
    check_structure(parts, checked_columns(parts, schema.stand_in()))


def check_rereading(source: Any, domains: bool = True) -> None:
    """Raise UsageError if private domains (or, without `domains`, only means within bins) cannot be
    found in a source: its rows are encoded already or can be read only once."""
    if is_spark(source) and not domains:
        return
    if is_spark(source):
        raise UsageError(
            "a private domain cannot be found in a Spark DataFrame; write it to Parquet"
        )
    if is_table(source):
        raise UsageError(
            "a fastdp.Table has codes and no values to find a domain from; give its source"
        )
    if read_once(source):
        raise UsageError(
            f"finding a private domain reads the rows several times, and a {type(source).__name__}"
            " can be read only once; write it to a file, or give a frame or table"
        )


def is_table(source: Any) -> bool:
    return isinstance(source, Table)

"""Checks a run's source before anything is charged: it opens, has the schema's columns, and can be
read as often as the run needs."""

from ..errors import UsageError
from ..schema import Schema
from ..tables.ingest import guarded
from ..tables.part_checks import check_decimal_mark, check_structure, checked_columns
from ..tables.sources.source import Source


def check_source(source: Source, schema: Schema) -> None:
    """Raise an error, before anything is charged, if a source cannot be opened or is damaged Arrow
    data. Also if it lacks a column of the schema, or has it in a wrong type. It does not open
    streams and does not run queries."""
    if schema.unfinished:
        check_rereading(source, bool(schema.pending or schema.atomic))
    together = [one for one in source.single if one.opens_freely]  # their ids must be of one kind
    if together:
        guarded(lambda: _check_columns(together, schema))


def _check_columns(together: list[Source], schema: Schema) -> None:
    parts = [part for one in together for part in one.parts(schema.dialect)]
    check_structure(parts, checked_columns(parts, schema.stand_in()))
    check_decimal_mark(parts, schema)


def check_rereading(source: Source, domains: bool = True) -> None:
    """Raise UsageError if private domains cannot be found in a source, since its rows are encoded
    already or can be read only once. Without `domains`: if means within bins cannot be found."""
    if why := source.why_not_learnt(domains):
        raise UsageError(why)

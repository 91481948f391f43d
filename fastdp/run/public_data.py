"""Public data as a run takes it: read under the run's schema. Columns that a recipe names in
`public_relabel` are moved to the schema's own values.

Example: last year's rows are public, this year's are private, and the schema lists this year only.
Without the move every public row would lie outside its domain. How values are moved depends on the
public data and the schema alone, never on private rows.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._util.lazy import pa, pc
from ..errors import DataError, UsageError
from ..schema import Schema
from ..schema.coding import Listed, Range
from ..schema.columns import Column, Policy
from ..schema.fields import Field
from ..tables import reading, textvalues
from ..tables.ingest import read
from ..tables.sources.source import Source
from ..tables.table import Table


def read_public(
    source: Source, schema: Schema, relabel: Sequence[str] = (), *, threads: int | None = None
) -> Table:
    """The public table. A column of `relabel` for which the schema lists one value gets that value
    in every row. Whole numbers with several values are shifted, so that the largest of the public
    data becomes the largest of the schema."""

    if source.encoded is not None:
        if source.encoded.schema.columns != schema.columns:
            raise UsageError(
                "public=: the table was read with another schema, so its codes mean something else; "
                "read it with the schema of the private data"
            )
        return source.encoded
    if schema.period is not None:
        schema = schema.with_period(schema.period.during(None))  # public rows may be of any period
    if not relabel:
        return _read(source, schema, threads)
    fields = dict(schema.fields)
    for name in schema.domain.check(tuple(relabel)):
        fields[name] = _moved(fields.get(name), name, source, schema)
    table = _read(source, replace(schema, fields=fields), threads)
    if not table.rows:
        raise DataError(
            f"public=: no row of the public data fits the schema, even after relabelling {', '.join(relabel)}"
        )
    table.schema = (
        schema  # codes mean the same as in `schema`; only the values they were read from moved
    )
    return table


def _read(source: Source, schema: Schema, threads: int | None) -> Table:
    """The public table; errors say that it is this one."""
    try:
        return read(source, schema, public=True, threads=threads)
    except DataError as error:
        raise DataError(f"public=: {error}") from None


def _moved(field: Field | None, name: str, source: Source, schema: Schema) -> Field:
    """The column with values of the public data in the place of the schema's, code by code."""
    if isinstance(field, Column) and isinstance(field.coding, Range | Listed) and field.base == 1:
        (only,), _ = field.shown_values()
        every = Policy("value", only)
        return replace(field, overflow=every, null=every)
    if not isinstance(field, Column) or field.whole_values() is None:
        raise UsageError(
            f"public_relabel: column {name!r} must hold whole numbers, or a single value"
        )
    return field.moved_to(_latest(source, field.source, schema))


def _latest(source: Source, column: str, schema: Schema) -> int:
    """The largest whole number of a column of the public data."""

    latest: list[int] = []
    for part in source.parts(schema.dialect):
        for unit in reading.guarded(part.where, part.units([column], None)):
            for batch in reading.guarded(part.where, unit()):
                values = batch.column(0)
                if part.is_text(column):
                    values = textvalues.parse(values, "int64")
                if values.null_count < len(values):
                    values = pc.cast(values, pa.int64(), safe=False)
                else:
                    values = None
                if values is not None:
                    latest.append(int(pc.max(values).as_py()))
    if not latest:
        raise DataError(f"public_relabel: the public data has no value in column {column!r}")
    return int(np.max(latest))


def public_entry(public: Source, relabel: Sequence[str] = ()) -> dict[str, str]:
    """The statement's entry on public data: a name without the path of its folder."""
    use = "user ids, starts and choices of the mechanism"
    if relabel:
        use += f"; {', '.join(relabel)} relabelled to the schema's values"
    return {"name": public.label, "use": use}

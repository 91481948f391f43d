"""Codes of the rows of a query as SQL expressions: the rules of `codec.rules`, written for a
database.

Expressions are made of public facts alone: the schema, and names and types of the query's columns. A
code is a whole number, or -1 where the policy drops the row. No value makes an expression fail, in
whatever order a database evaluates it: what could is replaced by a harmless value first, in an inner
select (`guards`). Texts are compared as bytes, whatever the collation."""

from __future__ import annotations

import numpy as np

from .._util.lazy import pa
from ..codec import encode
from ..codec.maps import Source
from ..codec.policy import null_code, other_code
from ..codec.rules import rule_of
from ..errors import DataError
from ..schema import Schema, dtypes
from ..schema.coding import Listed
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.kinds.timestamp import Timestamp
from .sql_dialects import Dialect
from .sql_expressions import plain_code, text_bytes
from .sql_field import CodedQuery, Lookup, SourceField
from .sql_numbers import NumberCodes
from .sql_times import TimeCodes


def coded_query(
    schema: Schema, types: pa.Schema, own_types: dict[str, str], dialect: Dialect, prefix: str
) -> CodedQuery:
    """The codes of all columns of a schema, under the names c0, c1, ... in the domain's order.
    types: Arrow's, own_types: the database's. DataError where a type cannot be read at all, or not
    by a database."""
    for name in {item.source for item in schema.fields.values()} & set(types.names):
        if pa.types.is_struct(types.field(name).type) and name in own_types:
            raise DataError(
                f"column {name!r}: engine='sql' does not read {own_types[name]}; cast the column in the"
                " query, or use engine='local' on the same query"
            )
    if problems := encode.type_problems(schema.fields.values(), types):
        raise DataError("<sql>: " + "; ".join(problems))
    alias = {name: f"c{i}" for i, name in enumerate(schema.domain)}
    made = CodedQuery()
    for i, item in enumerate(schema.fields.values()):
        kind = types.field(item.source).type
        source = Source.of(item.dtype, kind)
        assert source is not None, "the types were checked"
        own = own_types.get(item.source, "").upper()
        x = dialect.quoted(item.source)
        field = SourceField(
            dialect=dialect,
            made=made,
            source=source,
            own=own,
            x=f"x{i}",
            table=f"{prefix}k{i}",
            name=item.source,
        )
        if isinstance(item, Timestamp):
            parts = TimeCodes(field).calendar(x, item)
        elif isinstance(item, Derived) and item.clock_steps:
            parts = TimeCodes(field).step(x, item)
        elif isinstance(item, Derived):
            parts = NumberCodes(field).transformed(x, item)
        elif item.number_grids is not None:
            parts = {item.name: NumberCodes(field).places(x, item.number_grids)}
        elif item.coding is not None:
            parts = {item.name: column_code(field, x, item)}
        else:
            raise DataError(
                f"column {field.name!r}: engine='sql' cannot encode columns of kind {item.kind!r}, "
                "whose codes are computed value by value; use engine='local' on the same query"
            )
        for column in item.parts:
            made.codes[alias[column.name]] = parts[column.name]
            if "drop" in (column.null.action, column.overflow.action):
                made.drops.append(alias[column.name])
    made.codes = {name: made.codes[name] for name in alias.values()}
    return made


def column_code(field: SourceField, x: str, column: Column) -> str:
    """The code of a column that is encoded value by value."""
    if pa.types.is_null(field.kind):
        field.made.values[field.x] = f"CAST(NULL AS {field.dialect.whole})"
        return str(plain_code(null_code(column)))
    if field.source.form in ("text", "dictionary"):
        return listed_texts(field, x, column)
    rule = rule_of(column, field.source)
    if field.source.form == "time":
        return TimeCodes(field).column(x, column, rule)
    return NumberCodes(field).column(x, rule)


def listed_texts(field: SourceField, x: str, column: Column) -> str:
    """The code of a text by a lookup of its bytes."""
    coding = column.coding
    if not isinstance(coding, Listed) or dtypes.family(column.dtype) != "string":
        raise field.refused(f"{column.dtype}")
    field.made.values[field.x] = text_bytes(x, field.kind, field.own, field.dialect, field.refused)
    keys = pa.array([str(value).encode() for value in coding.values], pa.binary())
    lookup = Lookup(field.table, keys, (np.arange(len(keys)),))
    field.made.joins.append((lookup, field.x))
    null = plain_code(null_code(column))
    other = plain_code(other_code(column))
    found = f"COALESCE({field.table}.v0, {other})"
    return f"CASE WHEN {field.x} IS NULL THEN {null} ELSE {found} END"

"""Values of columns that are constant for a user: drawn once for each user.

Rows of a user have the same code in such a column. Where a code stands for many values (a bin, a
month, any value outside the domain), each row would be written with another of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from .._util.lazy import pa
from ..schema import Schema
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.fields import Field
from .code_values import drawn_overflow
from .decode import decode


def drawn_fields(schema: Schema, constant: Collection[str]) -> list[Field]:
    """The fields all of whose code columns are `constant`, and whose values are drawn."""
    return [
        field
        for field in schema.fields.values()
        if all(part.name in constant for part in field.parts)
        and (isinstance(field, Derived) or any(_is_drawn(part) for part in field.parts))
    ]


def _is_drawn(column: Column) -> bool:
    """Whether one of the column's codes is written as different values."""
    drawn = column.in_bins is not None or column.coding is None
    return drawn or drawn_overflow(column) is not None


def once_for_each_user(
    schema: Schema,
    fields: Collection[Field],
    values: pa.Table,
    codes: Mapping[str, np.ndarray],
    owner: np.ndarray,
    seed: int,
    first: int,
) -> pa.Table:
    """The decoded `values`, where those of the `fields` depend on the row's user, whose number in
    the whole table is `first + owner`."""
    parts = [p.name for field in fields for p in field.parts if p.name in codes]
    if not parts or not len(owner):
        return values
    low = int(owner.min())
    user = owner.astype(np.int64) - low
    of_users = {}
    for name in parts:
        of_users[name] = np.zeros(int(user.max()) + 1, codes[name].dtype)
        of_users[name][user] = codes[name]
    drawn = decode(schema, of_users, seed, first + low, threads=1)
    for field in fields:
        for name in {field.source, *(p.name for p in field.parts)} & set(drawn.column_names):
            place = values.column_names.index(name)
            values = values.set_column(place, values.field(place), drawn[name].take(pa.array(user)))
    return values

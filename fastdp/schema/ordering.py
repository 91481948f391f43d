"""The order of a user's rows: which fields can give it, and which of their code columns do."""

from collections.abc import Mapping, Sequence

from ..errors import SchemaError, did_you_mean
from .columns import Integer, Numeric
from .derived import Derived, Timestamp
from .fields import Field

SIGNIFICANCE = ("year", "month", "day", "date", "shift", "hour", "minute")
"""Parts of a timestamp in order; within a date, shifts of the week are in order."""


def check(fields: Mapping[str, Field], user: str | None, order: Sequence[str]) -> None:
    """Raise SchemaError if these fields do not put a user's rows in order."""
    if order and user is None:
        raise SchemaError("user, field 'order': given without a user column")
    if len(set(order)) < len(order):
        raise SchemaError("user, field 'order': a column is named twice")
    for name in order:
        item = fields.get(name)
        if item is None:
            meant = did_you_mean(name, fields)
            raise SchemaError(f"user, field 'order': there is no column {name!r}{meant}")
        if isinstance(item, Timestamp):
            parts = set(item.names)
            if "date" not in parts and not {"year", "month", "day"} <= parts:
                raise SchemaError(
                    f"user, field 'order': the parts of {name!r} do not say on which "
                    "day a time "
                    "lies; give it the part 'date', or year, month and day"
                )
        elif isinstance(item, Derived):
            raise SchemaError(
                f"user, field 'order': {name!r} is derived; name a column or a timestamp"
            )


def columns_of(item: Field) -> tuple[str, ...]:
    """The code columns of a field of the order, most significant first."""
    if isinstance(item, Timestamp):
        return tuple(item.names[part] for part in SIGNIFICANCE if part in item.names)
    return (item.name,)


def check_amounts(fields: Mapping[str, Field], user: str | None, amounts: Sequence[str]) -> None:
    """Raise SchemaError if these fields are not columns of numbers that can be summed per user."""
    if amounts and user is None:
        raise SchemaError("user, field 'amounts': given without a user column")
    if len(set(amounts)) < len(amounts):
        raise SchemaError("user, field 'amounts': a column is named twice")
    for name in amounts:
        item = fields.get(name)
        if item is None:
            meant = did_you_mean(name, fields)
            raise SchemaError(f"user, field 'amounts': there is no column {name!r}{meant}")
        numbers = isinstance(item, Integer) or (isinstance(item, Numeric) and not item.timely)
        if not numbers:
            raise SchemaError(
                f"user, field 'amounts': {name!r} is not of kind numeric or integer, with a public"
                " domain"
            )

"""What a schema says of a user's rows: the fields that give their order, and the amounts that are
summed per user."""

from collections.abc import Iterator, Mapping, Sequence

from ..errors import SchemaError, did_you_mean
from .fields import Field


def check(fields: Mapping[str, Field], user: str | None, order: Sequence[str]) -> None:
    """Raise SchemaError if these fields do not put a user's rows in order."""
    for field in _named(fields, user, order, "order"):
        field.order_columns()


def check_amounts(fields: Mapping[str, Field], user: str | None, amounts: Sequence[str]) -> None:
    """Raise SchemaError if these fields are not columns of numbers that can be summed per user."""
    for field in _named(fields, user, amounts, "amounts"):
        if not field.summable:
            raise SchemaError(
                f"user, field 'amounts': {field.name!r} is not of kind numeric or integer, with a"
                " public domain"
            )


def _named(
    fields: Mapping[str, Field], user: str | None, names: Sequence[str], key: str
) -> Iterator[Field]:
    """The fields that a list under [user] names; SchemaError if the list itself is wrong."""
    if names and user is None:
        raise SchemaError(f"user, field {key!r}: given without a user column")
    if len(set(names)) < len(names):
        raise SchemaError(f"user, field {key!r}: a column is named twice")
    for name in names:
        if name not in fields:
            meant = did_you_mean(name, fields)
            raise SchemaError(f"user, field {key!r}: there is no column {name!r}{meant}")
        yield fields[name]

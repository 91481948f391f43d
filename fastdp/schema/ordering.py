"""What a schema says of a user's rows: the fields that give their order, the amounts that are summed
per user, and the features of users."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..errors import SchemaError, did_you_mean
from .fields import Field

MOST_FEATURES = 20
"""Features of users in one schema; each is a column of the table about users."""


class UserFeature(Struct, frozen=True):
    """A value of each user, in the language of numbers (`of`), and the edges of its bins; without
    edges they are octaves."""

    name: str
    of: str
    edges: tuple[float, ...] = ()

    def to_plain(self) -> Any:
        return {"of": self.of, "edges": list(self.edges)} if self.edges else self.of


def parse_features(plain: Any) -> tuple[UserFeature, ...]:
    """The features of a document: name to text, or to {of, edges}."""
    if not isinstance(plain, Mapping):
        raise SchemaError("user, field 'features': expected a table such as spent = 'sum(amount)'")
    out = []
    for name, item in plain.items():
        given = {"of": item} if isinstance(item, str) else item
        known = isinstance(given, Mapping) and set(given) <= {"of", "edges"}
        if not known or not isinstance(given.get("of"), str):
            raise SchemaError(
                f"user, field 'features', {name!r}: expected a text such as 'sum(amount)', or a table "
                "with 'of' and 'edges'"
            )
        edges = given.get("edges", [])
        numbers = isinstance(edges, list) and all(
            isinstance(e, int | float) and not isinstance(e, bool) for e in edges
        )
        if not numbers or sorted(set(edges)) != edges:
            raise SchemaError(
                f"user, field 'features', {name!r}: 'edges' must be a list of ascending numbers"
            )
        out.append(UserFeature(name, given["of"], tuple(edges)))
    return tuple(out)


def check_features(
    fields: Mapping[str, Field], user: str | None, features: Sequence[UserFeature]
) -> None:
    """Raise SchemaError if features have names that are taken. What they say is checked before a run:
    it needs types of numbers."""
    if features and user is None:
        raise SchemaError("user, field 'features': given without a user column")
    if len(features) > MOST_FEATURES:
        raise SchemaError(f"user, field 'features': more than {MOST_FEATURES}; name fewer")
    taken = {"rows", *fields, *(part.name for f in fields.values() for part in f.parts)}
    for one in features:
        if not one.name.isidentifier() or one.name in taken:
            raise SchemaError(
                f"user, field 'features': {one.name!r} is a column, or not a name of letters, digits "
                "and underscores; use another name"
            )


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

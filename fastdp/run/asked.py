"""Arguments of a run that are checked before anything else: its budget, and the schema it is asked with."""

from __future__ import annotations

import math
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..privacy.clip import PRIVATE

if TYPE_CHECKING:
    from ..mechanisms import recipe as recipes
    from ..schema import Schema


def resolve_schema(schema: Schema | str | PathLike | None, recipe: recipes.Recipe) -> Schema:
    """The schema given, by object, name or path, else the recipe's own."""
    from ..schema import Schema

    if schema is None:
        schema = recipe.schema
    if schema is None:
        raise UsageError(
            f"mechanism {recipe.name or recipe.mechanism!r} names no schema; give one (--schema, or a file "
            "of the data's name ending in .toml beside the data). Write it from public knowledge, or begin "
            "with `fastdp schema draft DATA --out NAME.toml`, and replace every line that it marks LEARNT "
            "unless the data is public. Or let the run find values, bounds and bins within its budget: "
            "--domain private (domain='private'), with the user column as --user"
        )
    return Schema.of(schema)


def asked_schema(
    source: Any,
    schema: Schema | str | PathLike | None,
    domain: str | None,
    user: str | None,
    recipe: recipes.Recipe,
    dialect: Any = None,
) -> Schema | str | PathLike | None:
    """The schema of a run with the arguments `domain` and `user`. Without a schema it has the source's
    columns and types, all with private domains. UsageError where the arguments do not fit together."""
    from ..schema.dialect import Dialect
    from ..tables.columns import asked_of
    from .counting import check_source

    if domain is not None and domain != PRIVATE:
        raise UsageError(f'domain must be "private", got {domain!r}')
    if domain is None:
        raise UsageError("user= names the user column where domain='private' and no schema is given")
    check_source(source, None)
    if schema is None and recipe.schema is None:
        return asked_of(source, user, None if dialect is None else Dialect.from_plain(dialect))
    if user is not None:
        raise UsageError("user= is for runs without a schema: the schema names its user column itself")
    schema = resolve_schema(schema, recipe)
    if not schema.pending:
        raise UsageError(
            "the schema has no column with a private domain: mark those that are to be found with "
            'domain = "private" (docs/domains.md), or leave the schema out'
        )
    return schema


def check_budget(epsilon: float, delta: float) -> None:
    """UsageError unless epsilon is positive and finite and delta in [0, 1)."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{name} must be a number, got {value!r}")
    if not 0 < epsilon < math.inf:
        raise UsageError(f"epsilon must be positive and finite, got {epsilon!r}")
    if not 0 <= delta < 1:
        raise UsageError(f"delta must lie in [0, 1), got {delta!r}")

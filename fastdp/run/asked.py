"""Arguments of a run that are checked before anything else: its budget, and the schema it is asked with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError, is_whole
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
    from ..tables.ingest import guarded
    from .counting import check_rereading

    if domain is not None and domain != PRIVATE:
        raise UsageError(f'domain must be "private", got {domain!r}')
    if domain is None:
        raise UsageError("user= names the user column where domain='private' and no schema is given")
    check_rereading(source)
    if schema is None and recipe.schema is None:
        style = None if dialect is None else Dialect.from_plain(dialect)
        return guarded(lambda: asked_of(source, user, style))
    if user is not None:
        raise UsageError("user= is for runs without a schema: the schema names its user column itself")
    schema = resolve_schema(schema, recipe)
    if not schema.pending:
        raise UsageError(
            "the schema has no column with a private domain: mark those that are to be found with "
            'domain = "private" (docs/domains.md), or leave the schema out'
        )
    return schema


def checked_epsilons(epsilon: Any, delta: Any) -> list[float]:
    """The epsilons asked for, as floats. UsageError unless all are positive, finite and distinct, and delta
    lies in [0, 1)."""
    if isinstance(epsilon, str | bytes):
        raise UsageError(f"epsilon must be a number or a list of numbers, got {epsilon!r}")
    asked = list(epsilon) if isinstance(epsilon, Sequence) else [epsilon]
    epsilons = [_number("epsilon", e) for e in asked]
    for e in epsilons:
        if not 0 < e < math.inf:
            raise UsageError(f"epsilon must be positive and finite, got {e!r}")
    if not 0 <= _number("delta", delta) < 1:
        raise UsageError(f"delta must lie in [0, 1), got {delta!r}")
    if not epsilons or len({f"{e:g}" for e in epsilons}) != len(epsilons):
        raise UsageError(
            "epsilon: give at least one, each once (in its first six digits, which name its folder)"
        )
    return epsilons


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_rows(rows: Any) -> None:
    """UsageError unless `rows` is None or a number of rows that a model can be sampled for."""
    from ..model.sampler import MOST_ROWS

    if rows is not None and not is_whole(rows, 0, MOST_ROWS):
        raise UsageError(f"rows must be a whole number from 0 to {MOST_ROWS:,}, got {_short(rows)}")


def check_seeds(seed: Any, sample_seed: Any) -> None:
    """UsageError unless each is None or a whole number, that of the samples not negative."""
    if seed is not None and not is_whole(seed):
        raise UsageError(f"seed must be a whole number, got {_short(seed)}")
    if sample_seed is not None and not is_whole(sample_seed, 0):
        raise UsageError(f"sample_seed must be a whole number >= 0, got {_short(sample_seed)}")


def check_flags(**flags: Any) -> None:
    """UsageError unless each is True or False: a text such as "no" would count as true."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise UsageError(f"{name} must be True or False, got {_short(value)}")


def check_dataset(dataset: Any) -> None:
    """UsageError unless `dataset` is None or a text."""
    if dataset is not None and not isinstance(dataset, str):
        raise UsageError(f"dataset must be the name of a data set in the ledger, got {_short(dataset)}")


def _short(value: Any) -> str:
    """An argument as an error text shows it."""
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."

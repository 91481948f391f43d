"""Checks every argument of a run that can be checked without reading rows; the result is a
`RunSpec`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np

from .._util.notebook_progress import progress_callback
from .._util.progress import Reporter
from .._util.threads import resolve
from ..errors import UsageError, is_whole
from ..mechanisms import recipe as recipes
from ..mechanisms.base import Config
from ..mechanisms.with_users import users_cost
from ..privacy.clip import PRIVATE
from ..schema import Schema
from ..schema.dialect import Dialect
from ..tables.identity import overlap
from ..tables.ingest import guarded
from ..tables.source_columns import schema_of_source
from ..tables.sources.source import Source, source_of
from ..tables.table import Table
from .counter import engine_for
from .number_options import NumberOptions, exact_fields, number_options
from .previous_release import previous_run
from .series_options import in_series, with_series
from .source_checks import check_rereading
from .spec import FLAGS, RunOptions, RunSpec, plugins_of
from .status import RunStatus


def validate(
    table: Source, mechanism: Any, epsilon: Any, delta: Any, options: RunOptions, status: RunStatus
) -> RunSpec:
    """The spec of a run. Raises before any row is read and before anything is charged."""
    epsilon, delta, options, period = with_series(epsilon, delta, options)
    epsilons = checked_epsilons(epsilon, delta)
    options = checked_values(options)
    check_sources(table, options)
    options = replace(options, engine=engine_for(table, options))
    recipe = recipes.load(mechanism).with_limits(
        clip=options.clip,
        max_cells=options.max_cells,
        memory=options.memory,
        deadline=options.deadline,
        important=options.important,
    )
    schema = in_series(_schema(table, options, recipe), period, table)
    likely = schema.stand_in()
    with recipes.naming(recipe):
        configs = tuple(recipe.config(e).resolved(likely, e, float(delta)) for e in epsilons)
        for config in configs:
            recipes.check_config(config, schema)
    numbers = number_options(recipe.numbers if options.numbers is None else options.numbers)
    numbers = weigh_numbers(numbers, configs, schema, options.public is not None)
    if numbers is not None:
        check_asked(numbers, schema, configs, float(delta), table)
    previous = previous_run(options.previous, options.public, configs, options.seed is not None)
    return RunSpec(
        options=options,
        asked=schema,
        schema=schema,
        recipe=recipe,
        configs=configs,
        epsilons=tuple(epsilons),
        delta=float(delta),
        several=isinstance(epsilon, Sequence),
        reporter=Reporter(progress_callback(options.progress), options.cancel, len(epsilons)),
        status=status,
        numbers=numbers,
        plugins=plugins_of(recipe, [table, options.public]),
        previous=previous,
    )


def weigh_numbers(
    numbers: NumberOptions | None, configs: Sequence[Config], schema: Schema, public: bool
) -> NumberOptions | None:
    """The numbers with the weights that the configs' `important` states. UsageError where it states
    a weight for something that the run does not release."""
    first = configs[0].important
    if any(config.important.numbers != first.numbers for config in configs):
        raise UsageError("important, numbers: expected the same weights at every epsilon")
    if first.names_numbers and numbers is None:
        raise UsageError("important, numbers: the run is asked for no numbers (numbers=)")
    for config in configs:
        if config.important.users != 1 and not users_cost(config, schema.stand_in(), public):
            raise UsageError(
                "important, users: this run releases nothing about users that could get more"
                " (ids.source = 'users', a user column, several rows per user, no public data)"
            )
    return None if numbers is None else numbers.weighed(first)


def check_asked(
    numbers: NumberOptions,
    schema: Schema,
    configs: Sequence[Config],
    delta: float,
    table: Source | None = None,
) -> None:
    """Raise UsageError if the numbers that are asked for cannot be measured in this run."""
    typed = numbers.typed(schema.stand_in(), tuple(schema.unfinished))
    numbers.declared(typed)
    if delta == 0 or any(config.pure for config in configs):
        raise UsageError(
            "numbers: they have Gaussian noise; use a mechanism that has, and delta > 0"
        )
    if schema.period is not None and schema.period.only is None:
        raise UsageError(
            f"numbers: in a table of several {schema.period.length}s they would count a user once "
            f"in each {schema.period.length}; ask for them in a release of one "
            f"{schema.period.length} (only in the schema's unit, or series=)"
        )
    if any(config.unit != "user" for config in configs):
        raise UsageError("numbers: they are measured per user; set unit = 'user'")
    read = table.given if table is not None and isinstance(table.given, Table) else None
    if read is not None:
        whole = [n for n, f in schema.fields.items() if f.whole_codes]
        lacking = [n for n in exact_fields(typed) if n not in (*read.exact, *whole)]
        if lacking:
            raise UsageError(
                f"numbers: the table was read without the exact values of {', '.join(lacking)}; "
                f"read it with fastdp.read(..., exact={lacking!r}), or pass the source itself"
            )


def check_sources(table: Source | None, options: RunOptions) -> None:
    """Raise UsageError if public data is the private data, or if rows must be read twice and cannot
    be."""
    public = options.public
    if public is not None:
        same = table is not None and public.given is table.given
        shared = table is not None and not same and overlap(public, table)
        if shared or (same and not public.public):
            raise UsageError(
                "public= is the private data, or shares a file or memory with it; that data would "
                "not be protected"
            )
    needs_out = options.resume or options.report or options.diagnose
    if (needs_out or options.private_dir is not None) and options.out is None:
        raise UsageError("resume, report, diagnose and private_dir need out= (the run folder)")
    if options.diagnose:
        if table is not None and (why := table.why_not_diagnosed()):
            raise UsageError(why)


def _schema(table: Source, options: RunOptions, recipe: recipes.Recipe) -> Schema:
    """The schema of a run. With `domain="private"` and without a schema it has the source's columns
    and types, all with private domains. UsageError if the arguments do not fit together."""
    schema = options.schema
    user = options.user
    if options.domain not in (None, PRIVATE):
        raise UsageError(f'domain must be "private", got {options.domain!r}')
    if user is not None and options.domain is None:
        raise UsageError("user= needs domain='private' and no schema; it names the user column")
    if options.domain is not None:
        check_rereading(table)
        if schema is None and recipe.schema is None:
            style = None if options.dialect is None else Dialect.from_plain(options.dialect)
            schema = guarded(lambda: schema_of_source(table, user, style))
        elif user is not None:
            raise UsageError(
                "user= cannot be used with a schema, because the schema names the user column"
            )
        elif not resolve_schema(schema, recipe, {}).pending:
            raise UsageError(
                "domain='private': no column of the schema has a private domain; mark the "
                'columns to find with domain = "private" (docs/guide/domains.md), or leave the '
                "schema out"
            )
    if table.schema is not None:
        schema = table.schema
    return resolve_schema(schema, recipe, options.values).with_dialect(options.dialect)


def resolve_schema(
    schema: Schema | str | PathLike | None, recipe: recipes.Recipe, values: Any = None
) -> Schema:
    """The schema given, by object, name or path, else the recipe's own; with the public lists of
    values, in place of the recipe's."""
    if schema is None:
        schema = recipe.schema
    if schema is None:
        raise UsageError(
            f"schema= is missing, and mechanism {recipe.name or recipe.mechanism!r} names no"
            " schema. Write one from public knowledge, or start from a draft (fastdp.draft,"
            " `fastdp schema draft`) and replace every line marked LEARNT unless the data is"
            " public. Or let the run find values, bounds and bins within its budget:"
            " domain='private', with the user column as user="
        )
    return Schema.of(schema).with_values(recipe.values if values is None else values)


def checked_epsilons(epsilon: Any, delta: Any) -> list[float]:
    """The epsilons asked for, as floats. UsageError unless all are positive, finite and distinct,
    and delta lies in [0, 1)."""
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
            "epsilon: expected at least one, and no two with the same first six digits (they name "
            "the folders)"
        )
    return epsilons


def _number(name: str, value: Any) -> float:
    if value is None:
        raise UsageError(f"{name} is required: it sets the privacy budget, for example epsilon=1.0")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf  # too large for a float, of either sign: no budget


def checked_values(options: RunOptions) -> RunOptions:
    """The options with plain whole numbers. UsageError if a number, flag or name is not of its
    type, or out of its range."""
    from ..model.sampler import MOST_ROWS

    bounds = {"rows": (0, MOST_ROWS), "seed": (), "sample_seed": (0,)}
    ranges = {"rows": f" from 0 to {MOST_ROWS:,}", "seed": "", "sample_seed": " >= 0"}
    numbers = {n: getattr(options, n) for n in bounds if getattr(options, n) is not None}
    for name, value in numbers.items():
        if not is_whole(value, *bounds[name]):
            raise UsageError(f"{name} must be a whole number{ranges[name]}, got {_short(value)}")
    for name in FLAGS:
        value = getattr(options, name)
        if not isinstance(value, bool | np.bool_):  # a text such as "no" would count as true
            raise UsageError(f"{name} must be True or False, got {_short(value)}")
    if not isinstance(options.dataset, str | None):
        raise UsageError(
            f"dataset must be the name of a data set in the ledger, got {_short(options.dataset)}"
        )
    if options.ledger is not None and options.seed is not None:
        raise UsageError(
            "seed= is for tests, because it fixes the noise; it cannot be used with a ledger"
        )
    resolve(options.threads)
    public = None if options.public is None else source_of(options.public)
    whole: dict[str, Any] = {name: int(value) for name, value in numbers.items()}
    return replace(options, public=public, **whole)


def _short(value: Any) -> str:
    """An argument as an error text shows it."""
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."

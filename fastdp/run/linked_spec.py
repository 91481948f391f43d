"""What a run on linked tables is asked to do: its arguments, checked, and how its budget is
divided."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from .._util.notebook_progress import progress_callback
from .._util.progress import Reporter
from ..division import PARENTS
from ..engines.engine import ENGINES, no_links_text
from ..errors import PrivacyError, UsageError
from ..mechanisms import recipe as recipes
from ..mechanisms.base import Config, Ids
from ..mechanisms.registry import names_where
from ..privacy import calibrate
from ..privacy.accountant import Gaussian
from ..privacy.budget import epsilon_at
from ..privacy.clip import resolve as resolve_clip
from ..privacy.release_checks import LESS, MORE
from ..schema.linked_schema import LinkedSchema
from ..tables.linked_tables import Links
from ..tables.part_checks import checked_columns
from ..tables.sources.source import Source
from ..tables.userids import UserIndex
from .counter import engine_for
from .source_checks import check_source
from .spec import RunOptions, RunSpec, plugins_of
from .status import RunStatus
from .validate import check_sources, checked_epsilons, checked_values

REFUSED = {
    "domain": "write the values down in the schema",
    "user": "the schema names the keys",
    "values": "write the values down in the schema",
    "dialect": "give each table its own, [tables.NAME.dialect]",
    "public": "public data is for one table",
    "diagnose": "look at each table with fastdp.check",
    "numbers": "ask them of one table that has the user column",
    "important": "weigh the columns of one table",
    "previous": "a prior is for one table",
    "series": "make a series of one table",
    "period": "make a series of one table",
    "late": "make a series of one table",
}


@dataclass(frozen=True, kw_only=True)
class LinkedSpec(RunSpec):
    """A checked call for linked tables. Each table is a part of the run with its own epsilon,
    schema and config, the parents' first; `epsilon` is that of all parts together."""

    links: Links
    epsilon: float
    shares: tuple[float, ...]

    @property
    def tables(self) -> tuple[RunSpec, ...]:
        return tuple(
            replace(self.table(i), configs=(self.configs[i],), epsilons=(self.epsilons[i],))
            for i in range(len(self.links.names))
        )

    def table(self, i: int) -> LinkedSpec:
        """The spec of one table, with the configs of all."""
        rows = self.options.rows if i == 0 else None
        return replace(self, schema=self.links.schemas[i], options=replace(self.options, rows=rows))

    @property
    def promised(self) -> tuple[float, ...]:
        return (self.epsilon,)

    @property
    def made_columns(self) -> tuple[str, ...]:
        levels = [name for own in self.links.levels.values() for name in own]
        return (*self.links.counts.values(), *self.links.places.values(), *levels)

    @property
    def described(self) -> dict[str, Any]:
        linked = self.links.linked
        tables: dict[str, dict[str, Any]] = {}
        for name, share in zip(linked.tables, self.shares):
            schema = linked.tables[name]
            tables[name] = {"key": schema.user, "null": schema.null_user, "share": share}
            if name != linked.parent:
                tables[name] |= {"parent": linked.parent, "orphans": linked.orphans[name]}
        return {"tables": tables, "epsilon": self.epsilon}

    def check_source(self, source: Mapping[str, Source]) -> None:  # type: ignore[override]
        index = UserIndex(self.links.linked.key)
        for name, schema in self.links.linked.tables.items():
            one = source[name]
            if one.encoded is not None:
                raise UsageError(
                    f"table {name!r}: give a file, frame, stream or query, not a fastdp.Table"
                )
            if self.options.report and not one.again:
                raise UsageError(
                    f"table {name!r}: report=True reads the rows again, and a {one.kind} can be read"
                    " only once; write it to a file, or give a frame or table"
                )
            check_source(one, schema)
            if one.opens_freely:  # keys of all tables must be of one kind
                index.column = str(schema.user)
                checked_columns(one.parts(schema.dialect), schema, index)

    def arguments(self) -> dict:
        facts = {
            "schema": self.links.linked.digest(),
            "epsilon": self.epsilon,
            "shares": list(self.shares),
        }
        return super().arguments() | facts | {"clip": self.options.clip}

    def label(self, i: int) -> str:
        return f"table-{self.links.names[i]}"


def validate_linked(
    tables: Any, mechanism: Any, epsilon: Any, delta: Any, options: RunOptions, status: RunStatus
) -> LinkedSpec:
    """The spec of a run on linked tables. Raises before any row is read and before anything is
    charged."""
    for name, instead in REFUSED.items():
        if getattr(options, name) not in (None, False):
            raise UsageError(f"{name}= is not supported for linked tables: {instead}")
    options = checked_values(options)
    check_sources(None, options)
    links = links_of(options.schema, mechanism)
    if any(schema.period is not None for schema in links.linked.tables.values()):
        raise UsageError("linked tables protect whole users: remove the unit of their schemas")
    if not isinstance(tables, Mapping) or set(tables) != set(links.names):
        given = (
            ", ".join(map(str, tables)) if isinstance(tables, Mapping) else type(tables).__name__
        )
        raise UsageError(
            f"the schema has the tables {', '.join(links.names)}: give a source for each, as in"
            f" {{{links.names[0]!r}: source, ...}} (command line: {links.names[0]}=FILE ...); got"
            f" {given}"
        )
    engines = {engine_for(source, options) for source in tables.values()}
    if len(engines) > 1:
        raise UsageError(
            "linked tables: give all of them as Spark DataFrames, or set engine='local'"
        )
    options = replace(options, engine=engines.pop())
    if not ENGINES.get(str(options.engine)).links:
        raise UsageError(no_links_text(str(options.engine)))
    recipe, epsilons, configs = divide_among_tables(links, mechanism, epsilon, delta, options)
    return LinkedSpec(
        options=options,
        asked=links.schemas[0],
        schema=links.schemas[0],
        recipe=recipe,
        configs=configs,
        epsilons=epsilons,
        delta=float(delta),
        several=True,
        reporter=Reporter(progress_callback(options.progress), options.cancel, len(links.names)),
        status=status,
        plugins=plugins_of(recipe, list(tables.values())),
        links=links,
        epsilon=float(epsilon),
        shares=shares_of(links),
    )


def links_of(schema: Any, mechanism: Any) -> Links:
    """The links of the schema given, else of the recipe's own."""
    schema = recipes.load(mechanism).schema if schema is None else schema
    if schema is None:
        raise UsageError("linked tables need schema=, with a table [tables.NAME] for each of them")
    return Links(LinkedSchema.of(schema))


def shares_of(links: Links) -> tuple[float, ...]:
    """Each table's share of mu^2, the parents' first."""
    children = len(links.linked.children)
    return (PARENTS, *[(1 - PARENTS) / children] * children)


def divide_among_tables(
    links: Links, mechanism: Any, epsilon: Any, delta: Any, options: RunOptions
) -> tuple[recipes.Recipe, tuple[float, ...], tuple[Config, ...]]:
    """(recipe, the epsilon of each table, the config of each table). Together the tables cost at
    most `epsilon`: each gets its share of mu^2, and Gaussian DP adds these up."""
    if isinstance(epsilon, Sequence):
        raise UsageError("linked tables take one epsilon; run the others by themselves")
    checked_epsilons(epsilon, delta)
    if not delta > 0:
        raise UsageError("linked tables are measured with Gaussian noise and need a delta above 0")
    recipe = recipes.load(mechanism).with_limits(
        max_cells=options.max_cells,
        memory=options.memory,
        deadline=options.deadline,
    )
    if recipe.numbers is not None:
        raise UsageError(f"numbers: not supported for linked tables; {REFUSED['numbers']}")
    if recipe.values is not None:
        raise UsageError(f"values: not supported for linked tables; {REFUSED['values']}")
    if recipe.mechanism not in (linking := names_where(lambda traits: traits.for_linked)):
        known = ", ".join(linking)
        raise UsageError(
            f"{recipe.mechanism} is not supported for linked tables; use auto, {known}"
        )
    links.check_policies()
    mu = calibrate.mu_of_method(float(epsilon), float(delta), "gdp")
    parts = [Gaussian(mu * math.sqrt(s) * LESS) for s in shares_of(links)]
    epsilons = tuple(epsilon_at([part], delta) for part in parts)
    if not all(e > 0 for e in epsilons):
        raise UsageError(
            f"epsilon {epsilon!r} is too small to be divided at delta {delta!r}: both are tiny"
        )
    caps = [Gaussian(calibrate.mu_of_method(e, delta, "gdp")) for e in epsilons]
    if epsilon_at(caps, delta) > epsilon * MORE:
        raise PrivacyError("the tables' budgets add up to more than epsilon: a fault of fastdp")
    configs = []
    for name, schema, part in zip(links.names, links.schemas, epsilons):
        clip = 1 if name == links.linked.parent else _clip(options.clip, name, links)
        config = recipe.with_limits(clip=clip).config(part)
        if config.calibration != "gdp":
            raise UsageError(
                f"calibration {config.calibration!r} is not supported for linked tables"
            )
        config = msgspec.structs.replace(
            config.resolved(schema, part, delta), ids=Ids(source="none")
        )
        resolve_clip(config.clip, schema)
        config.check_names(schema)
        config.check_all(schema)
        configs.append(config)
    return recipe, epsilons, tuple(configs)


def _clip(clip: Any, name: str, links: Links) -> Any:
    """The clip of one child table: `clip`, or the entry of its name in it."""
    if not isinstance(clip, Mapping):
        return clip
    if unknown := set(clip) - set(links.linked.children):
        raise UsageError(
            f"clip: {sorted(unknown)[0]!r} is not a child table; use"
            f" {', '.join(links.linked.children)}"
        )
    return clip.get(name)

"""What a run would do, from public facts alone. Touches no data.

`plan_table` plans one table; linked tables have a plan each.
"""

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from .._util.notebook_progress import SHORT, progress_callback
from .._util.progress import Reporter
from ..errors import UsageError
from ..mechanisms import recipe as recipes
from ..mechanisms.base import Config
from ..schema import Schema
from ..schema.linked_schema import is_linked
from ..tables.sources.source import source_of
from ..tables.table import Table
from .linked_spec import divide_among_tables, links_of
from .plan_result import Plan
from .plan_table import TableQuestion, plan_table
from .public_data import read_public
from .spec import RunOptions
from .validate import resolve_schema

STAGE = "plan"
"""What a plan's progress names its only stage."""


def plan(
    schema: Schema | str | PathLike | None = None,
    mechanism: str | PathLike | dict | Config = "auto",
    epsilon: float | None = None,
    delta: float = 1e-9,
    *,
    rows: int | Mapping[str, int] | None = None,
    public: Table | bool | None = False,
    threads: int | None = None,
    clip: int | str | None = None,
    max_cells: int | None = None,
    memory: int | None = None,
    users: int | None = None,
    numbers: Any = None,
    values: Mapping[str, Any] | None = None,
    important: Mapping[str, Any] | None = None,
    progress: Any = None,
) -> Plan:
    """What a run on `rows` rows would measure and need; touches no data. Errors are those of the
    run itself.

    Parameters
    ----------
    schema : Schema, path or built-in name, optional
        None: the recipe's.
    mechanism : str, path, mapping or config
        As in `synthesize`.
    epsilon, delta : float
        The budget of one run.
    rows : int
        Rows expected, a public guess: for memory, time, and whether the noise drowns them. Required,
        unless users and numbers are given: then 4 for each user are taken. For
        linked tables a mapping from each table's name to its rows; the result is the parents' plan, and
        `children` has those of the child tables.
    public : bool or fastdp.Table read with public=True
        Whether public data would be given, or the table itself, from which the clip's bias is computed.
    threads : int, optional
        For the time; None: all cores.
    clip : int (rows) or "private", optional
        In place of the recipe's.
    max_cells : int, optional
        In place of the recipe's; `Plan.too_large` says where the run would be refused for it.
    memory : int (bytes), optional
        The same limit, given in bytes of memory.
    users : int, optional
        Users expected, a public guess: by it the verdict guesses a clip that the run would choose. Numbers
        need it, or a schema without a user column.
    numbers : sequence of str, or mapping, optional
        As in `synthesize`: the plan says how wide the interval of each is likely to be.
    values : mapping, optional
        As in `synthesize`: public lists of columns whose domain the schema leaves private.
    important : mapping, optional
        As in `synthesize`: what matters more than the rest. `Plan.division` has the shares that follow.
    progress : callable, optional
        Called with a `Progress`, from any thread, until the plan is there. None: a bar in notebooks if it
        takes longer than usual, nothing elsewhere; False: never.
    """

    public = False if public is None else public
    reporter = Reporter(progress_callback(progress, SHORT), stages={STAGE: 1.0})
    with reporter.watching():
        reporter.update(STAGE, 0.0, "planning")
        if isinstance(rows, Mapping) or is_linked(
            recipes.load(mechanism).schema if schema is None else schema
        ):
            if public is not False:
                raise UsageError("public= is not supported for linked tables")
            if important is not None:
                raise UsageError("important= is not supported for linked tables")
            return _linked_plan(
                schema=schema,
                mechanism=mechanism,
                epsilon=epsilon,
                delta=delta,
                rows=rows,
                limits=RunOptions(clip=clip, max_cells=max_cells, memory=memory),
                threads=threads,
                reporter=reporter,
            )
        return plan_table(
            TableQuestion(
                schema=schema,
                mechanism=mechanism,
                epsilon=epsilon,
                delta=delta,
                rows=rows,
                public=public,
                threads=threads,
                limits=RunOptions(
                    clip=clip, max_cells=max_cells, memory=memory, important=important
                ),
                users=users,
                numbers=numbers,
                values=values,
            )
        )


def _linked_plan(
    schema: Any,
    mechanism: Any,
    epsilon: Any,
    delta: Any,
    rows: Any,
    limits: RunOptions,
    threads: int | None,
    reporter: Reporter,
) -> Plan:
    """The plans of linked tables, each that of a run with the table's own part of the budget."""
    links = links_of(schema, mechanism)
    if not isinstance(rows, Mapping) or set(rows) != set(links.names):
        guess = dict.fromkeys(links.names, 1000)
        option = ",".join(f"{name}=1000" for name in links.names)
        raise UsageError(
            "plan needs a public guess of the number of rows of each table, for example "
            f"rows = {guess} (--rows {option})"
        )
    _, epsilons, configs = divide_among_tables(links, mechanism, epsilon, delta, limits)
    plans: list[Plan] = []
    for name, own, config, part in zip(links.names, links.schemas, configs, epsilons):
        reporter.update(STAGE, len(plans) / len(links.names), f"planning {name}")
        question = TableQuestion(
            schema=own,
            mechanism=config,
            epsilon=part,
            delta=delta,
            rows=rows[name],
            threads=threads,
        )
        plans.append(replace(plan_table(question), table=name))
    too_large = next((p.too_large for p in plans if p.too_large), "")
    return replace(plans[0], too_large=too_large, children=tuple(plans[1:]))


def public_table(
    source: Any,
    schema: Any,
    mechanism: Any,
    threads: int | None = None,
    dialect: Any = None,
    values: Any = None,
) -> Table:
    """Public data read by the schema a run would use."""
    recipe = recipes.load(mechanism)
    own_schema = resolve_schema(schema, recipe, values).with_dialect(dialect)
    return read_public(
        source_of(source), own_schema, recipe.config(1.0).public_relabel, threads=threads
    )

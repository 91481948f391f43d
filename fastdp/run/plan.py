"""What a run would do, from public facts alone: measurements, noise, model, memory, time. Touches
no data.

`plan_domain` has the lines about private columns, `plan_numbers` those about numbers, `plan_clip`
those about the clip, `plan_size` the model's size, memory and time, `plan_verdict` what the result
would be good for.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from .._util.notebook_progress import SHORT, progress_callback
from .._util.progress import Reporter
from .._util.threads import resolve
from ..division import WHY, Part
from ..errors import UsageError
from ..mechanisms import recipe as recipes
from ..mechanisms.base import Config
from ..mechanisms.plans import Outline
from ..mechanisms.shared.histogram_noise import HistogramNoise
from ..mechanisms.with_users import plan_charges, user_shares, users_cost
from ..numbers.stand_in import ROWS_EACH
from ..privacy.calibrate import mu_of_method
from ..privacy.clip import resolve as resolve_clip
from ..release import domaincosts
from ..release.domaincosts import DomainCosts
from ..release.keyselect import remaining_delta
from ..schema import Schema
from ..schema.linked_schema import is_linked
from ..schema.wide_bins import wide_outer_bins
from ..significance import SURE
from ..tables.sources.source import source_of
from ..tables.table import Table
from .early_stop import plan_note
from .linked_spec import divided, links_of
from .number_options import number_options
from .plan_clip import clip_facts
from .plan_domain import domain_lines
from .plan_numbers import NumberPlan, number_plan
from .plan_result import Line, Plan
from .plan_size import constraint_notes, largest_model, needs
from .plan_users import counted_rows, imagined_users
from .plan_verdict import plan_verdict
from .public_data import read_public
from .row_count_checks import empty_note
from .spec import RunOptions
from .validate import checked_epsilons, resolve_schema, weighed

STAGE = "plan"
"""What a plan's progress names its only stage."""
TAILS = (
    "totals are expected as of log-normal amounts (sigma 1); where few users have much of the total, "
    "the upper end is 2 to 5 times as far, and no mechanism that covers users whom noise hides is "
    "narrow: declare a maximum per user if one is public, or print the capped sum"
)
GUESSED = f"no number of rows is given: {ROWS_EACH} for each user are taken"
NO_USERS = "the number of users is not used: the schema has no user column, so each row is a user"


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
        return _plan(
            schema=schema,
            mechanism=mechanism,
            epsilon=epsilon,
            delta=delta,
            rows=rows,
            public=public,
            threads=threads,
            limits=RunOptions(clip=clip, max_cells=max_cells, memory=memory, important=important),
            users=users,
            numbers=numbers,
            values=values,
        )


def _plan(
    schema: Any,
    mechanism: Any,
    epsilon: float | None,
    delta: float,
    rows: int | None,
    public: Table | bool,
    threads: int | None,
    limits: RunOptions,
    users: int | None = None,
    numbers: Any = None,
    values: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of one table, with what `plan` says of its parameters."""
    recipe = recipes.load(mechanism).with_limits(
        clip=limits.clip,
        max_cells=limits.max_cells,
        memory=limits.memory,
        important=limits.important,
    )
    asked = resolve_schema(schema, recipe, values)
    (epsilon,) = checked_epsilons([epsilon], delta)
    schema = asked.stand_in()
    costs = DomainCosts.of(asked, delta)
    config = recipe.config(epsilon).resolved(schema, epsilon, delta)
    bound = resolve_clip(config.clip, schema)
    zeros = recipes.check_config(config, asked)
    pure = config.pure
    domaincosts.check_askable(asked, pure=pure or delta == 0, unit=config.unit)
    left = remaining_delta(delta, costs.keys_delta) if costs.keys_delta else delta
    whole = mu_of_method(epsilon, left, "laplace" if pure else config.calibration)
    asked_for = number_options(recipe.numbers if numbers is None else numbers)
    asked_for = weighed(asked_for, [config], asked, public is not False)
    guessed = rows is None
    if rows is None:
        rows = _guessed_rows(users if asked_for is not None else None, schema)
    outline = config.planned(schema, public=public is not False)
    of_users = users_cost(config, schema, public is not False)
    wanted = number_plan(
        options=asked_for,
        schema=asked,
        config=config,
        delta=delta,
        users=users,
        rows=rows,
        whole=whole,
        domains=costs.share,
    )
    left_over = 1 - wanted.share
    mu = whole * math.sqrt((1 - costs.share) * left_over) * math.sqrt(1 - of_users)
    imagined = imagined_users(config, schema, mu, bound, rows, users)
    shown_clip = imagined.clip if users else bound
    largest, too_large = largest_model(config, schema, public, outline, zeros)
    memory_bytes, seconds = needs(
        schema, outline, largest.cells, rows, resolve(threads), chosen=of_users > 0
    )
    clipping = clip_facts(
        public=public, clip=bound, mu=mu, config=config, schema=schema, outline=outline, rows=rows
    )
    less_noise = (
        0.0 if pure or not delta else 1 - mu_of_method(epsilon, delta, "classic-rdp") / whole
    )
    lines = _lines(outline, mu, shown_clip, epsilon if pure else None)
    counted = counted_rows(rows, users if schema.user else None, shown_clip)
    empty = "" if config.unit == "event" else empty_note(_of_rows(outline, lines, schema), counted)
    notes = [*outline.notes, *constraint_notes(schema, zeros), plan_note(config)]
    notes += [empty] if empty else []
    if wanted.tails:
        notes.append(TAILS)
    if guessed:
        notes.append(GUESSED)
    notes += wide_outer_bins(asked)
    if users and schema.user is None:
        notes.append(NO_USERS)
    return Plan(
        mechanism=recipe.mechanism,
        epsilon=float(epsilon),
        delta=float(delta),
        calibration=config.calibration,
        mu=whole,
        clip=bound,
        unit="event" if config.unit == "event" else schema.user or "row",
        lines=lines,
        charges=tuple(
            (what, share * left_over)
            for what, share in plan_charges(outline, schema, config, of_users)
        ),
        division=_division(costs.share, wanted, outline, config, schema, of_users),
        cliques=outline.cliques,
        model_cells=largest.cells,
        too_large=too_large,
        memory_bytes=memory_bytes,
        seconds=seconds,
        rows=rows,
        notes=tuple(notes),
        less_noise=max(0.0, less_noise),
        clip_bias=clipping.lost,
        clip_suggested=clipping.suggested,
        clip_options=clipping.options,
        clip_noise=clipping.noise,
        clip_expected=shown_clip,
        model_exact=largest.exact,
        domain=domain_lines(asked, whole, costs, domaincosts.clip_of(config.clip, asked) or 1),
        domain_share=costs.share,
        domain_delta=costs.keys_delta,
        verdict=plan_verdict(
            config=config,
            schema=schema,
            outline=outline,
            mu=mu,
            rows=rows,
            users=users,
            imagined=imagined,
            numbers=wanted.lines,
            private=tuple(asked.pending),
        ),
        numbers=wanted.lines,
        numbers_share=wanted.share,
    )


def _guessed_rows(users: int | None, schema: Schema) -> int:
    """A number of rows where the caller gives none: by that of users, if numbers are asked for."""
    if users and schema.user is not None:
        return users * ROWS_EACH
    raise UsageError(
        "rows= is missing: plan needs a public guess of the number of rows, for example "
        "rows=100_000 (--rows 100000), to estimate memory, time and accuracy"
    )


def _lines(outline: Outline, mu: float, clip: int, pure: float | None) -> tuple[Line, ...]:
    """The measurements with their noise. `pure`: the epsilon of Laplace noise, if the run has it."""
    lines = []
    for p in outline.measurements:
        sigma = clip / (mu * math.sqrt(p.weight))
        if p.cap is not None:
            rate = mu if pure is None else pure
            sigma = HistogramNoise(pure is not None, p.cap, rate).std(p.share)
        lines.append(Line(p.clique, p.cells, p.times, sigma, SURE * sigma, p.note))
    return tuple(lines)


def _of_rows(
    outline: Outline, lines: Sequence[Line], schema: Schema
) -> list[tuple[float, float, int]]:
    """The answers that surely say how many rows there are, as `empty_note` takes them: values that
    noise hides are merged once the first step has shown them."""
    out: list[tuple[float, float, int]] = []
    for p, line in zip(outline.measurements, lines, strict=True):
        if p.cap is None and set(p.clique) <= set(schema.columns):
            whole = p in outline.steps[0].lines and not p.contrast
            out.append((p.cells if whole else 1, line.sigma, 1 if p.averaged else p.times))
    return out


def _division(
    domains: float,
    numbers: NumberPlan,
    outline: Outline,
    config: Config,
    schema: Schema,
    of_users: float,
) -> tuple[Part, ...]:
    """Every share of the run's mu^2, in the order in which it is set aside. They add up to 1."""
    out = []
    if domains:
        out.append(Part("private domains", domains, "at most: values, bounds and bins are found"))
    left = 1 - domains
    if numbers.lines:
        out.append(Part("numbers", left * numbers.share, numbers.why))
        left *= 1 - numbers.share
    weight = config.important.users
    more = "" if weight == 1 else f"; matters {weight:g} times as much (important)"
    if of_users:
        parts = user_shares(schema, config)
        out += [Part(what, left * part, WHY[what] + more) for what, part in parts.items()]
        left *= 1 - of_users
    return (*out, *(Part(s.label, left * s.share, s.why) for s in outline.steps))


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
    _, epsilons, configs = divided(links, mechanism, epsilon, delta, limits)
    plans: list[Plan] = []
    for name, own, config, part in zip(links.names, links.schemas, configs, epsilons):
        reporter.update(STAGE, len(plans) / len(links.names), f"planning {name}")
        made = _plan(
            schema=own,
            mechanism=config,
            epsilon=part,
            delta=delta,
            rows=rows[name],
            public=False,
            threads=threads,
            limits=RunOptions(),
        )
        plans.append(replace(made, table=name))
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

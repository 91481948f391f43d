"""What a run would do, from public facts alone: measurements, noise, model, memory, time. Touches
no data."""

import math
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.threads import resolve
from ..answers.precision import Amount, People, expected
from ..answers.verdict import Verdict, judge
from ..errors import ModelTooLargeError, UsageError
from ..measurement import Clique
from ..mechanisms import recipe as recipes
from ..mechanisms.base import Config
from ..mechanisms.limits.model_size import LargestModel, check_size, tree_size
from ..mechanisms.limits.structural_zeros import StructuralZeros, check_possible
from ..mechanisms.plans import Outline, users_share
from ..mechanisms.usercounts.count_estimates import Noise
from ..mechanisms.with_users import plan_charges, users_cost
from ..numbers.stand_in import expected_widths
from ..privacy.calibrate import mu_of_method
from ..privacy.clip import (
    PRIVATE,
    TV_PER_LOST_ROW,
    TV_WITHOUT_MARGINAL,
    candidates,
    resolve as resolve_clip,
    unit_noise,
)
from ..public.data import PublicTable
from ..release import domaincosts
from ..release.domaincosts import DomainCosts, keys_cap, keys_delta, users_needed
from ..release.keyselect import remaining_delta
from ..release.noisy_cells import SURE
from ..schema import Schema
from ..schema.linked_schema import is_linked
from ..tables.sources.source import source_of
from ..tables.table import Table
from .early_stop import plan_note
from .linked_spec import divided, links_of
from .number_options import NumberOptions, number_options
from .plan_result import ClipOption, DomainLine, Line, NumberLine, Plan
from .public_data import read_public
from .spec import RunOptions
from .validate import check_asked, checked_epsilons, resolve_schema

# Seconds per row or cell on one core of a 2020 server. A plan's times are rough: half or double is
# normal.
READ_ROW, COUNT_ROW, FIT_CELL, DRAW_ROW, WRITE_ROW = 6e-7, 1.2e-8, 1.0e-8, 1.5e-7, 9e-7
FIT_CALLS = 110
PAIR, MOST_PAIRS = 3e-3, 1 << 14
"""Seconds per pair of columns that a run may choose from, and the most pairs that it looks at.
Measured on generated tables of 60, 130 and 300 columns, which took 7, 27 and 83 processor seconds
in all."""


def domain_lines(
    schema: Schema, mu: float, costs: DomainCosts, clip: int
) -> tuple[DomainLine, ...]:
    """How the schema's private columns would be found, from public facts alone."""
    if not schema.unfinished:
        return ()
    own = domaincosts.column_mu(schema, mu)
    lines = []
    for name, column in schema.pending.items():
        if column.keyed:
            cap = keys_cap(schema, column)
            sigma, bar = users_needed(cap, mu, *domaincosts.expected_keys(schema, costs))
            each = (
                f"; of users with t values, sqrt(t) times as many, t up to {cap}" if cap > 1 else ""
            )
            how = f"values of so many users are found with a probability of 95 %{each}"
            lines.append(DomainLine(name, how, sigma, bar))
            continue
        sigma = clip / (own * math.sqrt(domaincosts.ROUNDS[-1]))
        how = (
            "span of time"
            if column.wanted == "timestamp"
            else f"bounds and at most {column.bins} bins"
        )
        if column.low is not None and column.high is not None:
            how = f"at most {column.bins} bins between public bounds"
        lines.append(DomainLine(name, how, sigma, sigma * SURE))
    for name in schema.atomic:
        count, cap = len(schema.atomic), keys_cap(schema, schema.columns[name])
        sigma, bar = users_needed(cap, mu, costs.atoms / count, keys_delta(costs, count))
        lines.append(
            DomainLine(name, "atoms: values of so many users get codes of their own", sigma, bar)
        )
    measured = [*schema.measured, *(n for n, c in schema.pending.items() if c.measured)]
    for name in measured:
        sigma = clip / (mu * math.sqrt(costs.sums * (1 - domaincosts.RANKS) / len(measured)))
        how = "sums inside bins: a bin of so many rows has its mean to a tenth of its width"
        lines.append(DomainLine(name, how, sigma, sigma / math.sqrt(2) / 0.1))
    return tuple(lines)


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
        Rows expected, a public guess: for memory, time, and whether the noise drowns them. Required. For
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
    """

    public = False if public is None else public
    if isinstance(rows, Mapping) or is_linked(
        recipes.load(mechanism).schema if schema is None else schema
    ):
        if public is not False:
            raise UsageError("public= is not supported for linked tables")
        limits = RunOptions(clip=clip, max_cells=max_cells, memory=memory)
        return _linked_plan(schema, mechanism, epsilon, delta, rows, limits, threads)
    recipe = recipes.load(mechanism).limited(clip=clip, max_cells=max_cells, memory=memory)
    asked = resolve_schema(schema, recipe, values)
    (epsilon,) = checked_epsilons([epsilon], delta)
    schema, costs = asked.stand_in(), DomainCosts.of(asked, delta)
    config = recipe.config(epsilon).resolved(schema, epsilon, delta)
    bound = resolve_clip(config.clip, schema)
    zeros = recipes.check_config(config, asked)
    pure = config.pure
    domaincosts.check_askable(asked, pure=pure or delta == 0, unit=config.unit)
    left = remaining_delta(delta, costs.keys_delta) if costs.keys_delta else delta
    whole = mu_of_method(epsilon, left, "laplace" if pure else config.calibration)
    if rows is None:
        raise UsageError(
            "rows= is missing: plan needs a public guess of the number of rows, for example "
            "rows=100_000 (--rows 100000), to estimate memory, time and accuracy"
        )
    outline = config.outline(
        schema.modelled, public=public is not False, user=schema.user is not None
    )
    of_users = users_cost(config, schema, public is not False)
    asked_for = number_options(recipe.numbers if numbers is None else numbers)
    wanted = _number_plan(asked_for, asked, config, delta, users, rows, whole, costs.share)
    left_over = 1.0 if wanted is None else 1 - wanted.share
    mu = whole * math.sqrt((1 - costs.share) * left_over) * math.sqrt(1 - of_users)
    lines = []
    for p in outline.measurements:
        sigma = bound / (mu * math.sqrt(p.weight))
        if p.cap is not None:
            sigma = Noise(pure, p.cap, epsilon if pure else mu).std(p.share)
        lines.append(Line(p.clique, p.cells, p.times, sigma, 3 * sigma, p.note))
    largest, too_large = _largest(config, schema, public, outline, zeros)
    memory_bytes, seconds = _needs(schema, outline, largest.cells, rows, resolve(threads))
    lost, suggested, options, clip_noise = _clip(public, bound, mu, config, schema, outline, rows)
    less_noise = (
        0.0 if pure or not delta else 1 - mu_of_method(epsilon, delta, "classic-rdp") / whole
    )
    notes = [*outline.notes, *_constrained(schema, zeros), plan_note(config)]
    if users and schema.user is None:
        notes.append(
            "the number of users is not used: the schema has no user column, so each row is a user"
        )
    return Plan(
        mechanism=recipe.mechanism,
        epsilon=float(epsilon),
        delta=float(delta),
        calibration=config.calibration,
        mu=whole,
        clip=bound,
        unit="event" if config.unit == "event" else schema.user or "row",
        lines=tuple(lines),
        charges=tuple(
            (what, share * left_over) for what, share in plan_charges(outline, schema, of_users)
        ),
        cliques=outline.cliques,
        model_cells=largest.cells,
        too_large=too_large,
        memory_bytes=memory_bytes,
        seconds=seconds,
        rows=rows,
        notes=tuple(notes),
        less_noise=max(0.0, less_noise),
        clip_bias=lost,
        clip_suggested=suggested,
        clip_options=options,
        clip_noise=clip_noise,
        model_exact=largest.exact,
        domain=domain_lines(asked, whole, costs, domaincosts.clip_of(config.clip, asked) or 1),
        domain_share=costs.share,
        domain_delta=costs.keys_delta,
        verdict=_verdict(config, schema, outline, mu, bound, rows, users, wanted),
        numbers=() if wanted is None else wanted.lines,
        numbers_share=0.0 if wanted is None else wanted.share,
    )


class _NumberPlan(Struct, frozen=True):
    share: float
    lines: tuple[NumberLine, ...]


def _number_plan(
    options: NumberOptions | None,
    schema: Schema,
    config: Config,
    delta: float,
    users: int | None,
    rows: int,
    whole: float,
    domains: float,
) -> _NumberPlan | None:
    """The numbers' share of mu^2, and what to expect of each; None if no numbers are asked for."""
    if options is None:
        return None
    check_asked(options, schema, [config], delta)
    people = rows if schema.user is None else users
    if people is None:
        raise UsageError(
            "users= is missing: numbers need a public guess of the number of users, for example "
            "users=10_000 (--users 10000)"
        )
    typed = options.typed(schema.stand_in(), tuple(schema.unfinished))
    share = options.share_of(typed)
    mu = whole * math.sqrt((1 - domains) * share)
    most = whole * math.sqrt(1 - domains)
    widths = expected_widths(typed, options.declared(typed), float(people), mu, most)
    lines = [
        NumberLine(typed[w.number].text, w.share, w.low, w.high, w.unit, w.capped, w.note)
        for w in widths
    ]
    return _NumberPlan(share, tuple(lines))


def _needs(
    schema: Schema, outline: Outline, cells: int, rows: int, workers: int
) -> tuple[int, float]:
    """(bytes of memory, seconds) that a run takes with a model of so many cells.

    Peak memory is the larger of two phases: codes and user numbers of the data; then, after these
    are freed, the model's tables, a block of synthetic rows with ids, and the shards that are being
    decoded."""
    width = sum(1 if n <= 256 else 2 if n <= 65536 else 4 for n in schema.domain.values())
    data = rows * (width + 4)
    block = min(rows, 1 << 24) * (width + 16)
    shards = workers * (1 << 20) * 12 * len(schema.domain)
    memory = max(data, 6 * 8 * cells + block + shards) + 150e6
    pairs = 0 if outline.cliques else min(MOST_PAIRS, math.comb(len(schema.modelled), 2))
    counted = len(outline.cliques) or len(outline.measurements) + pairs
    work = rows * (READ_ROW + WRITE_ROW + DRAW_ROW + counted * COUNT_ROW)
    work += pairs * PAIR + FIT_CALLS * cells * FIT_CELL
    return int(memory), work / max(1.0, 0.9 * workers) + 0.5


def _linked_plan(
    schema: Any,
    mechanism: Any,
    epsilon: Any,
    delta: Any,
    rows: Any,
    limits: RunOptions,
    threads: int | None,
) -> Plan:
    """The plans of linked tables, each that of a run with the table's own part of the budget."""
    links = links_of(schema, mechanism)
    if not isinstance(rows, Mapping) or set(rows) != set(links.names):
        guess, option = (
            dict.fromkeys(links.names, 1000),
            ",".join(f"{name}=1000" for name in links.names),
        )
        raise UsageError(
            "plan needs a public guess of the number of rows of each table, for example "
            f"rows = {guess} (--rows {option})"
        )
    _, epsilons, configs = divided(links, mechanism, epsilon, delta, limits)
    plans = [
        replace(plan(own, config, part, delta, rows=rows[name], threads=threads), table=name)
        for name, own, config, part in zip(links.names, links.schemas, configs, epsilons)
    ]
    too_large = next((p.too_large for p in plans if p.too_large), "")
    return replace(plans[0], too_large=too_large, children=tuple(plans[1:]))


def _verdict(
    config: Config,
    schema: Schema,
    outline: Outline,
    mu: float,
    bound: int,
    rows: int,
    users: int | None,
    wanted: _NumberPlan | None,
) -> Verdict:
    """The verdict on this budget (`answers.verdict`). A run that chooses its clip is judged at the
    rows of an average user, or at clip 1 if nobody says how many users there are. If rows per user
    are spread as chance would (geometric), a clip at their mean counts 1 - 1/e of the rows."""

    clip, guess = bound, ""
    if schema.user is not None and config.clip == PRIVATE:
        clip = 1 if not users else min(bound, max(1, round(rows / users)))
        guess = (
            f"at clip {clip}" if users else "at clip 1, more at the clip that the run will choose"
        )
    ones: dict[str, tuple[int, float]] = {}
    pairs: list[tuple[Clique, float]] = []
    for p in outline.measurements:
        if p.cap is not None:
            continue
        error = clip / (mu * math.sqrt(p.weight)) / (1 - math.exp(-1) if guess and users else 1)
        if len(p.clique) == 1 and p.clique[0] in schema.modelled:
            cells, before = ones.get(p.clique[0], (p.cells, math.inf))
            ones[p.clique[0]] = (cells, 1 / math.hypot(1 / before, 1 / error))
        elif len(p.clique) == 2:
            named = p.clique if set(p.clique) <= set(schema.modelled) else ()
            pairs += [(named, error)] * (1 if named else p.times)
    if config.traits.repeats_noisy_columns and _mostly_noise(ones, rows):
        whole = math.fsum(p.weight * p.times for p in outline.measurements if p.cap is None)
        scale = clip / (mu * math.sqrt(whole / len(ones)))
        error = scale / (1 - math.exp(-1) if guess and users else 1)
        ones = {name: (cells, error) for name, (cells, _) in ones.items()}
        pairs = []
    lines = () if wanted is None else wanted.lines
    people = None
    if schema.user is not None:
        people = People(kept=config.traits.makes_users or bool(users_cost(config, schema, False)))
    known = expected(
        ones,
        pairs,
        rows,
        amounts=[n for n, c in schema.columns.items() if c.kind == "numeric"],
        asked=[Amount(n.number, n.capped or max(n.low, n.high), n.unit == "points") for n in lines],
        people=people,
        target=str(getattr(config, "target", None) or ""),
        order=schema.order_columns,
        clip=guess,
    )
    return judge(known)


def _mostly_noise(ones: Mapping[str, tuple[int, float]], rows: int) -> bool:
    """Whether most columns would be noise if they were measured only once."""
    noise = [one.noise for one in expected(ones, (), rows).columns]
    return 2 * sum(noise) > len(noise)


def _clip(
    public: Table | bool,
    clip: int,
    mu: float,
    config: Config,
    schema: Schema,
    outline: Outline,
    rows: int,
) -> tuple[float | None, int | None, tuple[ClipOption, ...], float | None]:
    """(share of the public rows lost at this clip, suggested clip, clips the run may choose from,
    noise of the histogram it chooses by)."""
    facts = {"public": public is not False, "user": schema.user is not None}
    chosen = facts["user"] and config.clip == PRIVATE
    table = None if isinstance(public, bool) or public.user is None else public
    if table is None and not chosen:
        return None, None, (), None
    clip_criteria = config.clip_criteria(schema.modelled, **facts)
    noise = unit_noise(mu, ((p.cells, p.weight) for p in clip_criteria))
    lost, suggested, costs = None, None, {}
    if table is not None and (
        clip_criteria or not outline.measurements
    ):  # else only users are counted
        corrected = chosen or config.traits.corrects_clipped_total
        rule = {"displaced": TV_PER_LOST_ROW, "alone": TV_WITHOUT_MARGINAL} if corrected else {}
        bound = clip if chosen else None
        seen = PublicTable(table).choose_clip(noise, rows, bound=bound, also=(clip,), **rule)
        costs = {line.clip: (line.lost, line.error) for line in seen.lines}
        lost, suggested = costs[clip][0], seen.clip if clip_criteria else None
    if not chosen:
        return lost, suggested, (), None
    cell = float(np.median([1 / (mu * math.sqrt(p.weight)) for p in clip_criteria]))
    grid = candidates(clip)
    some = {*grid[:: max(1, len(grid) // 7)], clip} | ({suggested} if suggested else set())
    lines = tuple(ClipOption(c, c * cell, *costs.get(c, ())) for c in sorted(some))
    return lost, suggested, lines, Noise(False, 1, mu).std(users_share(config, **facts))


def _largest(
    config: Config, schema: Schema, public: Table | bool, outline: Outline, zeros: StructuralZeros
) -> tuple[LargestModel, str]:
    """(the largest model that the run may fit, why the run would be refused for its size or
    None)."""

    domain, fixed = schema.modelled, zeros.cliques
    if public is True:  # what public data would choose is not known without it
        largest = tree_size(domain, [*outline.cliques, *fixed])
    else:
        largest = config.largest_model(
            domain, None if public is False else PublicTable(public), fixed
        )
    try:
        check_size(largest, domain, config.fit_limit)
    except ModelTooLargeError as error:
        return largest, str(error)
    check_possible(schema)
    return largest, ""


def _constrained(schema: Schema, zeros: StructuralZeros) -> tuple[str, ...]:
    """Notes on what constraints add to the model and take out of it."""
    derived = [name for name in schema.domain if name not in schema.modelled]
    notes = (
        [f"{', '.join(derived)}: derived when rows are written, not modelled"] if derived else []
    )
    cliques = [clique for clique in zeros.cliques if len(clique) > 1]
    if cliques:
        alone = sum(n for a, n in schema.modelled.items() if not any(a in c for c in cliques))
        cells = tree_size(schema.modelled, cliques).cells - alone
        listed = ", ".join(" x ".join(c) for c in cliques[:6]) + (" ..." if cliques[6:] else "")
        notes.append(f"constraints keep {listed} together in the model, {cells:,} cells")
    return tuple(notes)


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

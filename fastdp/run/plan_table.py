"""The plan of one table: what the run would measure, with what noise, and what it would need.

`plan_domain` has the lines about private columns, `plan_numbers` those about numbers, `plan_clip`
those about the clip, `plan_size` the model's size, memory and time, `plan_verdict` what the result
would be good for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from .._util.threads import resolve
from ..answers.verdict import Verdict
from ..division import WHY, Part
from ..errors import UsageError
from ..mechanisms import recipe as recipes
from ..mechanisms.base import Config
from ..mechanisms.limits.structural_zeros import StructuralZeros
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
from ..schema.wide_bins import wide_outer_bins
from ..significance import SURE
from ..tables.table import Table
from .early_stop import plan_note
from .number_options import NumberOptions, number_options
from .plan_clip import clip_facts
from .plan_domain import domain_lines
from .plan_numbers import NumberPlan, number_plan
from .plan_result import Line, Plan
from .plan_size import constraint_notes, largest_model, needs
from .plan_users import ImaginedUsers, counted_rows, imagined_users
from .plan_verdict import plan_verdict
from .row_count_checks import empty_note
from .spec import RunOptions
from .validate import checked_epsilons, resolve_schema, weigh_numbers

TAILS = (
    "totals are expected as of log-normal amounts (sigma 1); where few users have much of the total, "
    "the upper end is 2 to 5 times as far, and no mechanism that covers users whom noise hides is "
    "narrow: declare a maximum per user if one is public, or print the capped sum"
)
GUESSED = f"no number of rows is given: {ROWS_EACH} for each user are taken"
NO_USERS = "the number of users is not used: the schema has no user column, so each row is a user"


class TableQuestion(Struct, frozen=True, kw_only=True):
    """What is asked about one table, in the words of `plan`. `limits` holds the clip, the limits of
    the model and what matters."""

    schema: Any
    mechanism: Any
    epsilon: float | None
    delta: float
    rows: int | None
    public: Table | bool = False
    threads: int | None = None
    limits: RunOptions = RunOptions()
    users: int | None = None
    numbers: Any = None
    values: Mapping[str, Any] | None = None


class _Run(Struct, frozen=True, kw_only=True):
    """The run that the question describes.

    `given`: the schema, whose private columns are still to be found; `schema`: the same with a
    likely domain in their place. `domain_costs`: what finding them costs. `clip`: the largest that
    the run may use. `rows_guessed`: nobody said how many rows there are.
    """

    mechanism: str
    config: Config
    epsilon: float
    delta: float
    given: Schema
    schema: Schema
    domain_costs: DomainCosts
    clip: int
    zeros: StructuralZeros
    outline: Outline
    public: Table | bool
    rows: int
    rows_guessed: bool
    users: int | None
    numbers: NumberOptions | None

    @property
    def pure(self) -> bool:
        """Whether only Laplace noise is drawn, which needs no delta."""
        return self.config.pure

    @property
    def protects_rows(self) -> bool:
        return self.config.unit == "event"


class _Budget(Struct, frozen=True, kw_only=True):
    """How the run divides its mu^2: private domains first, then numbers, then facts about users;
    the rest, `mu`, is for marginals.

    `whole`: mu of the run. `domains`, `of_users`: shares of what is left when their turn comes, as
    `numbers.share` is.
    """

    whole: float
    domains: float
    numbers: NumberPlan
    of_users: float

    @property
    def after_numbers(self) -> float:
        """The share that numbers leave."""
        return 1 - self.numbers.share

    @property
    def mu(self) -> float:
        """The mu of the marginals."""
        rest = (1 - self.domains) * self.after_numbers
        return self.whole * math.sqrt(rest) * math.sqrt(1 - self.of_users)


def plan_table(question: TableQuestion) -> Plan:
    """The plan of one table; touches no data."""
    run = _described_run(question)
    budget = _divided_budget(run)
    imagined = imagined_users(run.config, run.schema, budget.mu, run.clip, run.rows, run.users)
    shown_clip = imagined.clip if run.users else run.clip
    largest, too_large = largest_model(run.config, run.schema, run.public, run.outline, run.zeros)
    memory_bytes, seconds = needs(
        run.schema,
        run.outline,
        largest.cells,
        run.rows,
        resolve(question.threads),
        chosen=budget.of_users > 0,
    )
    clipping = clip_facts(
        public=run.public,
        clip=run.clip,
        mu=budget.mu,
        config=run.config,
        schema=run.schema,
        outline=run.outline,
        rows=run.rows,
    )
    lines = _lines(run.outline, budget.mu, shown_clip, run.epsilon if run.pure else None)
    return Plan(
        mechanism=run.mechanism,
        epsilon=run.epsilon,
        delta=run.delta,
        calibration=run.config.calibration,
        mu=budget.whole,
        clip=run.clip,
        unit="event" if run.protects_rows else run.schema.user or "row",
        lines=lines,
        charges=_charges(run, budget),
        division=_division(run, budget),
        cliques=run.outline.cliques,
        model_cells=largest.cells,
        too_large=too_large,
        memory_bytes=memory_bytes,
        seconds=seconds,
        rows=run.rows,
        notes=_notes(run, budget, lines, shown_clip),
        less_noise=_less_noise(run, budget),
        clip_bias=clipping.lost,
        clip_suggested=clipping.suggested,
        clip_options=clipping.options,
        clip_noise=clipping.noise,
        clip_expected=shown_clip,
        model_exact=largest.exact,
        domain=domain_lines(
            run.given,
            budget.whole,
            run.domain_costs,
            domaincosts.clip_of(run.config.clip, run.given) or 1,
        ),
        domain_share=run.domain_costs.share,
        domain_delta=run.domain_costs.keys_delta,
        verdict=_verdict(run, budget, imagined),
        numbers=budget.numbers.lines,
        numbers_share=budget.numbers.share,
    )


def _described_run(question: TableQuestion) -> _Run:
    """The run, with all that the question leaves to recipe and schema filled in."""
    limits = question.limits
    public = question.public
    recipe = recipes.load(question.mechanism).with_limits(
        clip=limits.clip,
        max_cells=limits.max_cells,
        memory=limits.memory,
        important=limits.important,
    )
    given = resolve_schema(question.schema, recipe, question.values)
    delta = question.delta
    (epsilon,) = checked_epsilons([question.epsilon], delta)
    schema = given.stand_in()
    costs = DomainCosts.of(given, delta)
    with recipes.naming(recipe):
        config = recipe.config(epsilon).resolved(schema, epsilon, delta)
        zeros = recipes.check_config(config, given)
    clip = resolve_clip(config.clip, schema)
    domaincosts.check_askable(given, pure=config.pure or delta == 0, unit=config.unit)
    numbers = number_options(recipe.numbers if question.numbers is None else question.numbers)
    numbers = weigh_numbers(numbers, [config], given, public is not False)
    rows = question.rows
    if rows is None:
        rows = _guessed_rows(None if numbers is None else question.users, schema)
    return _Run(
        mechanism=recipe.mechanism,
        config=config,
        epsilon=float(epsilon),
        delta=float(delta),
        given=given,
        schema=schema,
        domain_costs=costs,
        clip=clip,
        zeros=zeros,
        outline=config.planned(schema, public=public is not False),
        public=public,
        rows=rows,
        rows_guessed=question.rows is None,
        users=question.users,
        numbers=numbers,
    )


def _guessed_rows(users: int | None, schema: Schema) -> int:
    """A number of rows where the caller gives none: by that of users, if numbers are asked for."""
    if users and schema.user is not None:
        return users * ROWS_EACH
    raise UsageError(
        "rows= is missing: plan needs a public guess of the number of rows, for example "
        "rows=100_000 (--rows 100000), to estimate memory, time and accuracy"
    )


def _divided_budget(run: _Run) -> _Budget:
    lost = run.domain_costs.keys_delta
    left = remaining_delta(run.delta, lost) if lost else run.delta
    method = "laplace" if run.pure else run.config.calibration
    whole = mu_of_method(run.epsilon, left, method)
    of_users = users_cost(run.config, run.schema, run.public is not False)
    numbers = number_plan(
        options=run.numbers,
        schema=run.given,
        config=run.config,
        delta=run.delta,
        users=run.users,
        rows=run.rows,
        whole=whole,
        domains=run.domain_costs.share,
    )
    return _Budget(whole=whole, domains=run.domain_costs.share, numbers=numbers, of_users=of_users)


def _less_noise(run: _Run, budget: _Budget) -> float:
    """How much smaller the noise is than by the classic calibration of the same epsilon, delta."""
    if run.pure or not run.delta:
        return 0.0
    return max(0.0, 1 - mu_of_method(run.epsilon, run.delta, "classic-rdp") / budget.whole)


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


def _notes(run: _Run, budget: _Budget, lines: Sequence[Line], clip: int) -> tuple[str, ...]:
    """What the reader should know besides the numbers. clip: the one that noise is shown for."""
    notes = [*run.outline.notes, *constraint_notes(run.schema, run.zeros), plan_note(run.config)]
    if not run.protects_rows:
        users = run.users if run.schema.user else None
        empty = empty_note(
            _answers_about_rows(run.outline, lines, run.schema),
            counted_rows(run.rows, users, clip),
        )
        notes += [empty] if empty else []
    if budget.numbers.tails:
        notes.append(TAILS)
    if run.rows_guessed:
        notes.append(GUESSED)
    notes += wide_outer_bins(run.given)
    if run.users and run.schema.user is None:
        notes.append(NO_USERS)
    return tuple(notes)


def _answers_about_rows(
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


def _charges(run: _Run, budget: _Budget) -> tuple[tuple[str, float], ...]:
    """What the ledger would be charged for, each with its share of what numbers leave."""
    charges = plan_charges(run.outline, run.schema, run.config, budget.of_users)
    return tuple((what, share * budget.after_numbers) for what, share in charges)


def _division(run: _Run, budget: _Budget) -> tuple[Part, ...]:
    """Every share of the run's mu^2, in the order in which it is set aside. They add up to 1."""
    out = []
    if budget.domains:
        why = "at most: values, bounds and bins are found"
        out.append(Part("private domains", budget.domains, why))
    left = 1 - budget.domains
    numbers = budget.numbers
    if numbers.lines:
        out.append(Part("numbers", left * numbers.share, numbers.why))
        left *= budget.after_numbers
    weight = run.config.important.users
    more = "" if weight == 1 else f"; matters {weight:g} times as much (important)"
    if budget.of_users:
        parts = user_shares(run.schema, run.config)
        out += [Part(what, left * part, WHY[what] + more) for what, part in parts.items()]
        left *= 1 - budget.of_users
    return (*out, *(Part(s.label, left * s.share, s.why) for s in run.outline.steps))


def _verdict(run: _Run, budget: _Budget, imagined: ImaginedUsers) -> Verdict:
    return plan_verdict(
        config=run.config,
        schema=run.schema,
        outline=run.outline,
        mu=budget.mu,
        rows=run.rows,
        users=run.users,
        imagined=imagined,
        numbers=budget.numbers.lines,
        private=tuple(run.given.pending),
    )

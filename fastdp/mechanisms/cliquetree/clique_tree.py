"""The cliquetree mechanism, for any table: a clique tree grown in a few screening rounds.

First the 1-ways are measured and rare values merged; everything after that is over merged codes.
Then follow three screening rounds. A round releases, as one Gaussian vector, how far every
candidate's marginal is from the current model (L1, in rows). From these distances a batch of
candidates is chosen and measured, and the model is fitted again. The first batch is a forest of
pairs. Later batches are chosen greedily by gain, as long as the junction tree stays within a limit
that grows tenfold from round to round. Triples inside the model's own cliques cost no cells, and
are candidates too. The arithmetic of a batch is in `shared/screening.py`;
docs/explain/cliquetree.md says where the constants come from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..._util.arrow import of_numpy, of_texts
from ..._util.lazy import pa
from ...division import CONTRASTS, QUESTION
from ...domain import Clique, Domain
from ...measurement import Measurement
from ...release.gateway import Session
from ...schema import Schema
from ..base import Begun, Job, Outcome, Users, whole_total
from ..limits import size_limits
from ..plans import DISTANCES, ROWS_PER_USER, Outline, Planned, PlannedStep
from ..registry import mechanism
from ..shared import dependencies
from ..shared.bounded_model import BoundedModelConfig
from ..shared.halving import HalvingRule
from ..shared.merged_codes import PAIR_CELLS, Merged, left_out_notes, merge
from ..shared.one_ways import (
    averaged,
    estimate_total,
    measure_again,
    measure_ones,
    noise_ratio,
    ones_step,
)
from ..shared.prior_screening import prior_notes
from ..shared.public_prior import PublicMarginals
from ..shared.screening import ScreeningResult
from ..shared.steering import Steering
from ..shared.user_histogram import measure_users
from ..shared.workload_weights import Workload, WorkloadItem
from . import target_sets, two_valued
from .budget_shares import Shares, shares
from .tree_state import CliqueTreeState

DRAWN_WEIGHT = 0.03
"""Weight of the 1-way of a column that the model leaves out, where 1-ways are measured again."""

NOT_BETTER = (
    "the model of pairs was farther from the rows than independent columns, so rows have these"
)


class SingleColumns(Struct, frozen=True):
    """What a run knows before its first batch. `ones`: the best answer for each column; `released`:
    all answers behind them; `beside`: columns drawn beside the model; `plan`: the shares of what
    comes next."""

    ones: Sequence[Measurement]
    released: Sequence[Measurement]
    beside: dependencies.DependentColumns
    public: PublicMarginals | None
    wanted: Workload
    plan: Shares
    noise_ratio: float

    @property
    def best(self) -> Sequence[Measurement]:
        """The answers with what public data adds to them."""
        return self.ones if self.public is None else self.public.ones(self.ones)

    def again(self, session: Session) -> SingleColumns:
        """The same, measured a second time as far as the plan wants that before pairs are looked at."""
        share = self.plan.again
        if share <= 0:
            return self
        measured = self.measured_again(session, share, "1-ways again")
        return replace(measured, plan=replace(self.plan, again=0.0))

    def measured_again(self, session: Session, share: float, label: str) -> SingleColumns:
        """The same, with a second answer for each column, averaged with the first."""
        again = measure_again(session, self.ones, share, label, self.weight)
        return replace(self, ones=averaged(self.ones, again), released=[*self.released, *again])

    def weight(self, clique: Clique) -> float:
        """Columns that the model leaves out need no better 1-way."""
        return self.wanted.weight(clique) * (
            DRAWN_WEIGHT if self.beside.columns & set(clique) else 1.0
        )


@mechanism(
    "cliquetree",
    about=(
        "any table; the default (`auto`): pairs and triples chosen privately in a "
        "few screening rounds"
    ),
    takes_prior=True,
    weighs=True,
    may_choose_clip=True,
    users_by_default=True,
)
class CliqueTree(BoundedModelConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_cells`: the most cells of the model's junction tree. `screening_rounds`: their number. `rare`:
    values with noisy counts below this many standard errors are merged. `workload`, `target`: where
    accuracy is wanted (see `workload_weights`). `stop`: when the last fit stops."""

    screening_rounds: int = 3
    rare: float = 3.0
    workload: tuple[tuple[str, ...] | WorkloadItem, ...] = ()
    target: str | None = None
    stop: Literal["risk", "noise", "tol"] = "risk"

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.screening_rounds <= 10:
            raise ValueError("screening_rounds must lie between 1 and 10")
        if not self.rare >= 0:
            raise ValueError("rare must be >= 0 (in standard errors)")

    def check(self, schema: Schema) -> None:
        self.wanted(schema.modelled)

    def wanted(self, domain: Domain) -> Workload:
        return Workload(domain, self.workload, self.target, self.important.of_cliques(domain))

    def reported_items(self, domain: Domain) -> list[Clique]:
        """The workload's items of two columns or more, whose errors the run reports."""
        return [item for item in self.wanted(domain).items if len(item) > 1]

    def begin(self, session: Session, job: Job) -> Begun:
        users = measure_users(self, session, job)
        first = self.first_ones(session.schema, users.share, job.public is not None)
        weight = self.wanted(session.domain).weight
        return Begun(users, measure_ones(session, first, "1-ways", weight))

    def by_contrasts(self, schema: Schema, public: bool) -> bool:
        """Whether contrasts take the place of the tree, unless nulls or other values stand out of noise."""
        favours = self.wanted(schema.modelled).items or self.important.names_rows
        return not (favours or public) and two_valued.planned_for(schema)

    def first_ones(self, schema: Schema, taken: float, public: bool) -> float:
        """The share of mu^2 of the first 1-ways. Where contrasts follow, of columns without codes for nulls
        and other values, they are a first look like theirs: contrasts say the same at half the price."""
        planned = self.divided(schema.modelled, 1 - taken).ones
        if self.by_contrasts(schema, public) and max(schema.modelled.values()) == 2:
            return min((1 - taken) * CONTRASTS, planned)
        return planned

    def complete(self, session: Session, job: Job, begun: Begun, saved: float) -> Outcome:
        users = begun.users
        columns = self.measure_columns(session, job, begun, saved)
        if self.by_contrasts(session.schema, job.public is not None):
            state = self.tree(session, job, columns, rare=0.0)  # contrasts need no values merged
            if state.measure_contrasts():
                return self.finish(session, job, users, columns, state)
        columns = columns.again(session)
        state = self.tree(session, job, columns)
        if not state.measure_contrasts():
            columns, state = self.decide_open_share(session, job, columns, state)
            for number in range(len(columns.plan.batches)):
                state.round(number)
        return self.finish(session, job, users, columns, state)

    def measure_columns(
        self, session: Session, job: Job, begun: Begun, saved: float
    ) -> SingleColumns:
        """Steps 1 and 3 of docs/explain/cliquetree.md: the 1-ways, and columns that follow from
        others. saved: a further share of mu^2."""
        domain = session.domain
        wanted = self.wanted(domain)
        first = self.first_ones(session.schema, begun.users.share, job.public is not None)
        ones = begun.ones
        rest = 1 - begun.users.share + saved
        named = {a for clique in [*wanted.named, *job.zeros.impossible] for a in clique} | job.given
        beside = dependencies.measured(session, ones, rest, first, named, self.limit)
        rest -= beside.share
        public = PublicMarginals.of(job.prior)
        better = beside.better(ones)
        best = better if public is None else public.ones(better)
        ratio = noise_ratio(best, estimate_total(better), math.sqrt(first / rest))
        left = self.divided(domain, rest, ratio, first).after_ones(first)
        return SingleColumns(better, ones, beside, public, wanted, left, ratio)

    def decide_open_share(
        self, session: Session, job: Job, columns: SingleColumns, state: CliqueTreeState
    ) -> tuple[SingleColumns, CliqueTreeState]:
        """Divide the undecided share between batches and 1-ways. The batches get it as far as the
        first screening round finds that pairs account for the columns. With the rest, the 1-ways
        are measured once more."""
        if columns.plan.open <= 0:
            return columns, state
        screened = state.screen(0) if state.pairs else None
        part = 0.0 if screened is None else state.accounted(screened)
        columns = replace(columns, plan=columns.plan.decided(part))
        if columns.plan.open > 0:
            columns = columns.measured_again(session, columns.plan.open, "1-ways once more")
        return columns, self.tree(session, job, columns, screened)

    def tree(
        self,
        session: Session,
        job: Job,
        columns: SingleColumns,
        screened: ScreeningResult | None = None,
        rare: float | None = None,
    ) -> CliqueTreeState:
        """Step 2: the tree before its first batch, over codes whose rare values are merged.
        `screened`: the first screening round, where it took place. `rare`: in place of the recipe's."""
        most = size_limits.pair_cells(self.memory, PAIR_CELLS, columns.public is not None)
        zeros = job.zeros.impossible
        beside = columns.beside.columns
        merged = merge(
            session.domain,
            columns.best,
            self.rare if rare is None else rare,
            most,
            zeros,
            expected=True,
            dependent=beside,
            schema=session.schema,
        )
        return CliqueTreeState(
            self, session, job, merged, columns.plan, columns.public, screened, beside
        )

    def finish(
        self,
        session: Session,
        job: Job,
        users: Users,
        columns: SingleColumns,
        state: CliqueTreeState,
    ) -> Outcome:
        """The last fit, what is released about it, and the rows."""
        model = state.last_fit()
        steering = state.steering(model)
        state.settle()
        merged = state.merged
        workload = state.workload
        beside = columns.beside
        reported = state.workload_distances(model)
        final = state.final_distances(model)
        notes = merged.notes + beside.notes
        if state.worse_than_independent(final):
            model, steering = state.independent_columns(), Steering()
            final = state.of_independent
            notes += (NOT_BETTER,)
        distances = reported | final
        used = state.priors.describe(state.measured) if state.priors else None
        rows = merged.rows(
            model,
            whole_total(model.total * users.clip_correction, job.rows),
            job.seed,
            workload.spread(),
            HalvingRule(session.domain, workload.halving(session.domain)),
            beside.conditionals(merged.shape),
            steering,
        )
        left_out = left_out_notes(state.left_out, self.limit)
        where_any = {
            "left_out": [list(pair) for pair in state.left_out],
            "over_groups": [list(c) for c, partition in state.precision if partition.coarsens(c)],
            "trends": [list(pair) for pair in steering.changes],
            "workload": workload.workload_errors(model, merged.total, reported),
            "public": used,
            "contrasts": dict(Counter(str(len(c)) for c in state.contrasts)),
            "hidden_factors": {} if state.dense is None else dict(state.dense.details),
        }
        return Outcome(
            rows=rows,
            measurements=(
                *users.released,
                *columns.released,
                *state.ones_at_last,
                *state.measured,
                *state.beside,
            ),
            model=model,
            users=users.histogram,
            tables=released_tables(merged, distances, state.contrasts),
            notes=notes + left_out + (prior_notes(used) if used else ()),
            details={
                "batches": state.batches,
                "noise_ratio": columns.noise_ratio,
                **beside.details,
                **{name: told for name, told in where_any.items() if told},
                "merged_to": {name: merged.domain[name] for name in merged.codes},
            },
        )

    def divided(
        self, domain: Domain, rest: float, noise: float = 0.0, spent: float | None = None
    ) -> Shares:
        """How the share `rest` of mu^2 is divided (`budget_shares.shares`)."""
        workload = bool(self.reported_items(domain))
        return shares(len(domain), rest, noise, self.screening_rounds, workload, spent)

    def expected_shares(
        self, domain: Domain, taken: float, noise_ratio: float
    ) -> tuple[float, float] | None:
        """As the run divides its budget; half of the undecided share goes to either side."""
        rest = 1 - taken
        first = self.divided(domain, rest).ones
        left = self.divided(domain, rest, noise_ratio, first).after_ones(first)
        ones = left.ones + left.again + left.open / 2
        return ones, math.fsum(left.batches) + left.open / 2

    def planned(self, schema: Schema, *, public: bool = False) -> Outline:
        outline = super().planned(schema, public=public)
        domain = schema.modelled
        if outline.share("batches") and self.by_contrasts(schema, public):
            taken = outline.share(ROWS_PER_USER)
            return two_valued.planned(outline, domain, self.first_ones(schema, taken, public))
        return outline

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        wanted = self.wanted(domain)
        rest = 1 - taken
        plan = self.divided(domain, rest)
        first = plan.ones
        steps = [ones_step(domain, first, wanted.weight)]
        wide = dependencies.wide_pairs(domain, {a for c in wanted.named for a in c}, self.limit)
        if wide:
            follow = rest * QUESTION
            steps.append(PlannedStep("columns that follow from others", follow))
            plan = self.divided(domain, rest - follow, spent=first).after_ones(first)
        if plan.final:
            steps.append(PlannedStep(DISTANCES, plan.final))
        if plan.report:
            steps.append(PlannedStep("errors of the workload", plan.report))
        screening = plan.screening * len(plan.batches)
        if plan.batches:
            steps.append(PlannedStep(f"{len(plan.batches)} screening rounds", screening))
            cells = min(math.prod(sorted(domain.values())[-2:]), self.limit)
            count = 2 * len(domain)
            each = sum(plan.batches) / count
            any_pair = Planned(("any", "pair"), each, cells, count, "batches", averaged=False)
            steps.append(PlannedStep("batches", sum(plan.batches), (any_pair,)))
        notes = [
            (
                "pairs and triples are chosen privately; the model has at most about"
                f" {self.limit:,} cells"
            ),
            "the 1-ways may be measured again, out of the batches' share, if they are mostly noise",
        ]
        if plan.batches and not public and not wanted.items:
            notes.append(
                f"where columns depend on each other all at once, {2 * QUESTION:.0%} of mu^2, out of"
                " the batches' share, says whether a model of hidden factors is better; if so, the"
                " last batch measures contrasts of all pairs for it, and single columns again; or it"
                " measures all pairs, for a model of hidden classes"
            )
        if wide:
            notes.append(
                "columns that are found to follow from others are left out of the model and drawn"
                " given these"
            )
        if self.important.names_rows:
            named = self.important.of_cliques(domain).items()
            listed = ", ".join(f"{' and '.join(c)} ({weight:g} times)" for c, weight in named)
            notes.append(f"what matters more is measured with less noise: {listed}")
        if self.target is not None and plan.batches:
            notes.append(
                f"up to {target_sets.reserved():.1%} of mu^2, out of the batches' share, looks for"
                " sets of the target and three or four columns"
            )
        if public and plan.batches:
            notes.append(
                f"up to {screening:.1%} of mu^2, out of the batches' share, says where the public"
                " data is right; what it explains is not measured"
            )
        return Outline(tuple(steps), notes=tuple(notes))


def released_tables(
    merged: Merged,
    distances: Mapping[Clique, tuple[float, float]],
    contrasts: Mapping[Clique, tuple[float, float]],
) -> dict[str, pa.Table]:
    """What is written next to the rows: which codes were merged, distances of the finished model,
    and contrasts. The distances are from sets of columns that were not measured (L1, in rows that
    count)."""
    out = {"codes": merged.compression.table()} if merged.codes else {}
    for name, numbers in (("distance", distances), ("contrast", contrasts)):
        if numbers:
            values, errors = map(of_numpy, np.array(list(numbers.values()), np.float64).T)
            ends = of_numpy(np.cumsum([0, *map(len, numbers)], dtype=np.int32))
            columns = pa.ListArray.from_arrays(ends, of_texts(a for c in numbers for a in c))
            made = {"columns": columns, name: values, "standard_error": errors}
            out[f"{name}s"] = pa.table(made)
    return out

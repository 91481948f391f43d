"""AIM (McKenna, Mullins, Sheldon, Miklau 2022): marginals one by one, each where the model errs
most.

1-ways first. Then, in each round, the exponential mechanism picks a marginal of the workload's
downward closure. Its score is weight * (L1 distance from the model - expected noise). Only those
marginals take part with which the junction tree stays within `max_cells` times the share of the
budget that is spent. The marginal is measured, and the model is fitted again. A round that changed
the model by less than its noise makes the next ones four times as expensive (half the noise). AIM
is here for comparison and for those who ask for it by name; `cliquetree` is faster and more
accurate. It differs from the published program in the accounting (Gaussian DP, bounded range), in
merging rare values, and in a per-user clip.
"""

import math
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np

from .._util.threads import resolve
from ..domain import Clique, Domain
from ..measurement import Measurement, Request
from ..model.graphical_model import Model
from ..model.marginals import marginals
from ..privacy.gdp import range_epsilon_from
from ..release.gateway import Session
from ..schema import Schema
from .base import Begun, Job, Outcome, whole_total
from .limits.size_limits import MAX_PAIR_CELLS
from .plans import Outline, Planned, PlannedStep
from .registry import mechanism
from .shared.bounded_model import BoundedModelConfig
from .shared.merged_codes import Merged, merge
from .shared.one_ways import NOISE, measure_planned, ones_step, part_mu
from .shared.screening import Structure
from .shared.user_histogram import measure_users
from .shared.workload_weights import Workload, WorkloadItem

MOST_COLUMNS = 24
"""Tables with more columns than this have pairs as their default workload. Every round looks at all
sets: with triples, a run on 35 columns and 170,000 rows took more than five minutes."""
MOST_DEGREE = 6
"""Most columns of each set of the default workload: there are n over k sets."""
MOST_ROUNDS = 1 << 14
"""Twice what 500 columns get by default; with many more the noise of one leaves the sampler's
range."""


@mechanism(
    "aim",
    about="any table, as published; for comparison",
    may_choose_clip=True,
)
class AIM(BoundedModelConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`workload`: the marginals that matter (default: all of `degree` columns). `degree`: None
    means 3, or 2 for tables of more than `MOST_COLUMNS` columns. `rounds`: the largest number of
    rounds (default: 16 per column); the first rounds get an equal part of the budget each, as if
    all of them took place. `selection`: share of a round's budget that pays for the choice.
    `max_cells`: the most cells of the junction tree."""

    # Smaller than elsewhere, since AIM fits a model in every round.
    default_cells: ClassVar[int] = 1 << 20

    workload: tuple[tuple[str, ...] | WorkloadItem, ...] = ()
    degree: int | None = None
    rounds: int | None = None
    selection: float = 0.1
    rare: float = 3.0
    max_marginal: int = 1_000_000
    stop: Literal["risk", "noise", "tol"] = "noise"

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.selection < 1 or not self.rare >= 0:
            raise ValueError("selection must lie strictly between 0 and 1, rare must be >= 0")
        wrong = self.degree is not None and not 1 <= self.degree <= MOST_DEGREE
        if wrong or (self.rounds is not None and not 1 <= self.rounds <= MOST_ROUNDS):
            raise ValueError(
                f"degree must lie in 1..{MOST_DEGREE}, rounds must lie in 1..{MOST_ROUNDS}"
            )

    def check(self, schema: Schema) -> None:
        self.closure(schema.modelled)

    def closure(self, domain: Domain) -> dict[Clique, float]:
        """The workload's downward closure: each set's weight is the sum over the items of weight *
        columns in common."""
        items = Workload(domain, self.workload).items
        if not items:
            items = dict.fromkeys(combinations(domain, self.width(domain)), 1.0)
        parts = [(item, k) for item in items for k in range(1, len(item) + 1)]
        sets = {domain.canonical(subset) for item, k in parts for subset in combinations(item, k)}
        sizes = np.array([[a in item for a in domain] for item in items], np.float64)
        # sum over items of weight * |c and item|, column by column
        column = np.array(list(items.values())) @ sizes
        place = {a: i for i, a in enumerate(domain)}
        return {
            c: float(sum(column[place[a]] for a in c))
            for c in sorted(sets, key=lambda c: (len(c), c))
        }

    def width(self, domain: Domain) -> int:
        """Columns of each set of the default workload."""
        return min(self.degree or (3 if len(domain) <= MOST_COLUMNS else 2), len(domain))

    def spent_first(self, columns: int) -> tuple[int, float]:
        """(number of rounds planned, share of mu^2 for the 1-ways)."""
        rounds = 16 * columns if self.rounds is None else self.rounds
        return rounds, min(0.5, columns * (1 - self.selection) / rounds)

    def begin(self, session: Session, job: Job) -> Begun:
        users = measure_users(self, session, job)
        plan = self.steps(session.domain, users.share)
        return Begun(users, measure_planned(session, plan, "1-ways"))

    def complete(self, session: Session, job: Job, begun: Begun, saved: float) -> Outcome:
        users = begun.users
        ones = begun.ones
        rest = 1 - users.share
        rounds, first = self.spent_first(len(session.domain))
        merged = merge(
            session.domain, ones, self.rare, impossible=job.zeros.impossible, schema=session.schema
        )
        model = merged.fit(job, list(merged.ones), stop="noise")
        state = _Rounds(
            config=self,
            session=session,
            job=job,
            merged=merged,
            model=model,
            left=rest * (1 - first),
            step=rest / rounds,
        )
        while state.round():
            pass
        model = state.fit(self.stop, None)
        return Outcome(
            rows=merged.rows(
                model, whole_total(model.total * users.clip_correction, job.rows), job.seed
            ),
            measurements=(*users.released, *ones, *state.measured),
            model=model,
            users=users.histogram,
            tables={"codes": merged.compression.table()} if merged.codes else {},
            notes=merged.notes,
            details={"rounds": [list(m.clique) for m in state.measured]},
        )

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        rest = 1 - taken
        rounds, first = self.spent_first(len(domain))
        left = rest * (1 - first)
        count = 2 * len(domain)
        cells = min(math.prod(sorted(domain.values())[-2:]), MAX_PAIR_CELLS)
        measured = left * (1 - self.selection)
        any_set = Planned(("any", "set"), measured / count, cells, count, "rounds", averaged=False)
        notes = ["the number of rounds is found in the run"]
        if not self.workload:
            sets = len(self.closure(domain))
            notes.append(
                f"each of up to {rounds:,} rounds compares {sets:,} sets of at most"
                f" {self.width(domain)} columns with the model and fits up to {self.limit:,} cells;"
                " cliquetree needs 3 rounds"
            )
        steps = (
            ones_step(domain, rest * first),
            PlannedStep("private choices", left * self.selection),
            PlannedStep("rounds", measured, (any_set,)),
        )
        return Outline(steps, notes=tuple(notes))


class _Rounds:
    """The rounds after the 1-ways; `left` and `step` are shares of mu^2."""

    def __init__(
        self,
        config: AIM,
        session: Session,
        job: Job,
        merged: Merged,
        model: Model,
        left: float,
        step: float,
    ):
        self.config = config
        self.session = session
        self.job = job
        self.merged = merged
        self.model = model
        self.left = left
        self.step = step
        self.whole = left
        self.measured: list[Measurement] = []
        self.structure = Structure(merged.domain, merged.zeros)
        cells = merged.domain.cells
        shape = merged.domain.shape
        small = {
            c: w
            for c, w in config.closure(merged.domain).items()
            if cells(c) <= config.max_marginal
        }
        self.weights = {c: w for c, w in small.items() if min(shape(c)) > 1}

    def round(self) -> bool:
        """Chooses and measures one marginal and fits the model; False if no candidate is small
        enough, or once all is spent."""
        if self.left < 2 * self.step:
            self.step = self.left
        session = self.session
        merged = self.merged
        domain = self.merged.domain
        spent = 1 - (self.left - self.step) / self.whole
        limit = max(self.config.limit * spent, self.structure.cells())
        cliques = [c for c in self.weights if self.structure.cells(c) <= limit]
        if not cliques:
            return False
        mu = part_mu(session, self.step * (1 - self.config.selection))
        noise = NOISE * session.clip / mu
        largest = max(self.weights[c] for c in cliques)
        estimates = marginals(self.model, cliques, resolve(self.job.threads))
        number = len(self.measured) + 1
        k = session.select_l1(
            cliques,
            estimates,
            epsilon=range_epsilon_from(part_mu(session, self.step * self.config.selection)),
            label=f"choice {number}",
            weights=[self.weights[c] / largest for c in cliques],
            penalties=[noise * domain.cells(c) for c in cliques],
            recode=merged.codes,
        )
        clique = cliques[k]
        self.measured += session.measure(
            [Request(clique, mu)], f"round {number}", recode=merged.codes
        )
        self.structure.add(clique)
        self.left -= self.step
        if self.left <= 1e-9 * self.whole:
            return False
        before = self.model
        self.model = self.fit("noise", self.model)
        moved = np.abs(self.model.marginal(clique) - before.marginal(clique)).sum()
        if moved <= noise * domain.cells(clique):
            self.step *= 4
        return True

    def fit(self, stop: str, start: Model | None) -> Model:
        return self.merged.fit(
            self.job, [*self.merged.ones, *self.measured], stop=stop, warm_start=start
        )

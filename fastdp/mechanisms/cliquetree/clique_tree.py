"""The cliquetree mechanism, for any table: a clique tree grown in a few screening rounds.

First the 1-ways are measured and rare values merged; everything after that is over merged codes. Then follow
two or three screening rounds. A round releases, as one Gaussian vector, how far every candidate's marginal is
from the current model (L1, in rows). From these distances a batch of candidates is chosen and measured, and
the model is fitted again. The first batch is a forest of pairs. Later batches are chosen greedily by gain, as
long as the junction tree stays within a limit that grows tenfold from round to round; triples inside the
model's own cliques, which cost no cells, are candidates too. The arithmetic of a batch is in
`shared/screening.py`; docs/explain/cliquetree.md says where the constants come from."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from ..._util.arrow import of_numpy, of_texts
from ..._util.lazy import pa
from ...domain import Clique, Domain
from ...measurement import Measurement
from ...release.gateway import Session
from ...schema import Schema
from ..base import Job, Outcome, Outline, Planned, whole_total
from ..shared import dependencies, size_limits
from ..shared.bounded_model import BoundedModelConfig
from ..shared.halving import HalvingRule
from ..shared.merged_codes import PAIR_CELLS, Merged, left_out_notes, merge
from ..shared.one_ways import averaged, estimate_total, measure_ones, noise_ratio, ones_shares
from ..shared.prior_screening import prior_notes
from ..shared.public_prior import PublicMarginals
from ..shared.user_histogram import measure_users, users_share
from ..shared.workload_weights import Workload, WorkloadItem
from .budget_shares import shares
from .tree_state import CliqueTreeState

DRAWN_WEIGHT = 0.03
"""Weight of the 1-way of a column that the model leaves out, where 1-ways are measured again."""


class CliqueTree(BoundedModelConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_cells`: the most cells of the model's junction tree. `screening_rounds`: their number; None:
    decided by the noisy 1-ways. `rare`: values with noisy counts below this many standard errors are merged.
    `workload`, `target`: where accuracy is wanted (see `workload_weights`). `stop`: when the last fit
    stops."""

    name: ClassVar[str] = "cliquetree"
    ones_first: ClassVar[bool] = True
    may_choose_clip: ClassVar[bool] = True
    users_by_default: ClassVar[bool] = True

    screening_rounds: int | None = None
    rare: float = 3.0
    workload: tuple[tuple[str, ...] | WorkloadItem, ...] = ()
    target: str | None = None
    stop: Literal["risk", "noise", "tol"] = "risk"

    def __post_init__(self):
        super().__post_init__()
        if self.screening_rounds is not None and not 1 <= self.screening_rounds <= 10:
            raise ValueError("screening_rounds must lie between 1 and 10")
        if not self.rare >= 0:
            raise ValueError("rare must be >= 0 (in standard errors)")

    def check(self, schema: Schema) -> None:
        self.wanted(schema.modelled)

    def wanted(self, domain: Domain) -> Workload:
        return Workload(domain, self.workload, self.target)

    def reported_items(self, domain: Domain) -> list[Clique]:
        """The workload's items of two columns or more, whose errors the run reports."""
        return [item for item in self.wanted(domain).items if len(item) > 1]

    def run(self, session: Session, job: Job) -> Outcome:
        users = measure_users(self, session, job)
        columns, rest = len(session.domain), 1 - users.share
        workload = bool(self.reported_items(session.domain))
        wanted = self.wanted(session.domain)
        plan = shares(columns, rest, rounds=self.screening_rounds, workload=workload)
        public = PublicMarginals.of(job.public)
        ones = measure_ones(session, plan.ones, weight=wanted.weight)
        rest += job.after_ones(ones) or 0.0
        released = list(ones)
        named = {a for clique in [*wanted.named, *job.zeros.impossible] for a in clique} | job.given
        beside = dependencies.measured(session, ones, rest, plan.ones, named, self.limit)
        ones = beside.better(ones)
        rest -= beside.share

        def weight(clique: Clique) -> float:
            """Columns that the model leaves out need no better 1-way."""
            return wanted.weight(clique) * (DRAWN_WEIGHT if beside.columns & set(clique) else 1.0)

        best = ones if public is None else public.ones(ones)
        ratio = noise_ratio(best, estimate_total(ones), math.sqrt(plan.ones / rest))
        plan = shares(columns, rest, ratio, self.screening_rounds, workload, plan.ones).after_ones(plan.ones)
        if plan.again > 0:
            again = measure_ones(session, plan.again, "1-ways again", weight)
            released += again
            ones = averaged(ones, again)
        merged = self.merged(session, job, ones, public, beside.columns)
        state = CliqueTreeState(self, session, job, merged, plan, public)
        if plan.open > 0:
            first = state.screen(0) if state.pairs else None
            plan = plan.decided(0.0 if first is None else state.accounted(first))
            if plan.open > 0:
                again = measure_ones(session, plan.open, "1-ways once more", weight)
                released += again
                merged = self.merged(session, job, averaged(ones, again), public, beside.columns)
            state = CliqueTreeState(self, session, job, merged, plan, public, first)
        for number in range(len(plan.batches)):
            state.round(number)
        model = state.last_fit()
        steering = state.steering(model)
        state.settle()
        merged = state.merged
        reported = state.workload_distances(model)
        errors = state.workload.workload_errors(model, merged.total, reported)
        distances = reported | state.final_distances(model)
        over_groups = [list(clique) for clique, grouped in state.precision if grouped]
        used = state.priors.describe(state.measured) if state.priors else None
        return Outcome(
            rows=merged.rows(
                model,
                whole_total(model.total * users.clip_correction, job.rows),
                job.seed,
                state.workload.spread(),
                HalvingRule(session.domain, state.workload.halving(session.domain)),
                beside.conditionals(merged.shape),
                steering,
            ),
            measurements=(*users.released, *released, *state.ones_at_last, *state.measured),
            model=model,
            users=users.histogram,
            tables=released_tables(merged, distances),
            notes=merged.notes
            + beside.notes
            + left_out_notes(state.left_out, self.limit)
            + (prior_notes(used) if used else ()),
            details={
                "batches": state.batches,
                "noise_ratio": ratio,
                **beside.details,
                **({"left_out": [list(p) for p in state.left_out]} if state.left_out else {}),
                **({"over_groups": over_groups} if over_groups else {}),
                **({"trends": [list(pair) for pair in steering.changes]} if steering.changes else {}),
                **({"workload": errors} if errors else {}),
                **({"public": used} if used else {}),
                "merged_to": {name: merged.domain[name] for name in merged.codes},
            },
        )

    def merged(
        self,
        session: Session,
        job: Job,
        ones: Sequence[Measurement],
        public: PublicMarginals | None,
        beside: Collection[str] = (),
    ) -> Merged:
        """What is rare, merged by these 1-ways and by what public data says of them. `beside`: columns that
        the model leaves out."""
        best = ones if public is None else public.ones(ones)
        most = size_limits.pair_cells(self.memory, PAIR_CELLS, public is not None)
        zeros = job.zeros.impossible
        merged = merge(session.domain, best, self.rare, most, zeros, towards_uniform=True, dependent=beside)
        return merged

    def outline(self, domain: Domain, *, public: bool = False, user: bool = True) -> Outline:
        taken = users_share(self, public=public, user=user)
        charges = [("rows per user", taken)] if taken else []
        rest = 1 - taken
        if wide := dependencies.wide_pairs(
            domain, {a for c in self.wanted(domain).named for a in c}, self.limit
        ):
            charges.append(("columns that follow from others", rest * dependencies.GUESS_SHARE))
            rest -= charges[-1][1]
        workload = bool(self.reported_items(domain))
        plan = shares(len(domain), rest, rounds=self.screening_rounds, workload=workload)
        if plan.final:
            charges.append(("distances of the finished model", plan.final))
        if plan.report:
            charges.append(("errors of the workload", plan.report))
        ones = ones_shares(domain, plan.ones, self.wanted(domain).weight)
        lines = [Planned((a,), ones[a], domain[a], note="1-ways") for a in domain]
        if plan.batches:
            charges.append((f"{len(plan.batches)} screening rounds", plan.screening * len(plan.batches)))
            cells = min(math.prod(sorted(domain.values())[-2:]), self.limit)
            count = 2 * len(domain)
            pair = Planned(
                ("any", "pair"), sum(plan.batches) / count, cells, count, "batches", averaged=False
            )
            lines.append(pair)
        notes = [
            f"pairs and triples are chosen privately; the model has at most about {self.limit:,} cells",
            "the 1-ways may be measured again, out of the batches' share, if they are mostly noise",
        ]
        if wide:
            notes.append(
                "columns that are found to follow from others are left out of the model and drawn given these"
            )
        if public and plan.batches:
            most = plan.screening * len(plan.batches)
            notes.append(
                f"up to {most:.1%} of mu^2, out of the batches' share, says where the public data is right; "
                "what it explains is not measured"
            )
        return Outline(tuple(lines), tuple(charges), (), tuple(notes))


def released_tables(merged: Merged, distances: Mapping[Clique, tuple[float, float]]) -> dict[str, pa.Table]:
    """What is written next to the rows: which codes were merged, and how far the finished model is from sets
    of columns that were not measured (L1, in rows that count)."""
    out = {"codes": merged.compression.table()} if merged.codes else {}
    if distances:
        values, errors = map(of_numpy, np.array(list(distances.values()), np.float64).T)
        ends = of_numpy(np.cumsum([0, *map(len, distances)], dtype=np.int32))
        columns = pa.ListArray.from_arrays(ends, of_texts(name for c in distances for name in c))
        out["distances"] = pa.table({"columns": columns, "distance": values, "standard_error": errors})
    return out

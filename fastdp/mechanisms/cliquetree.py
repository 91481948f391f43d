"""The cliquetree mechanism, for any table: a clique tree grown in a few looks.

First the 1-ways are measured and rare values merged; everything after that is over merged codes. Then follow
two or three looks. A look releases, as one Gaussian vector, how far every candidate's marginal is from the
current model (L1, in rows); from these distances a batch of candidates is chosen and measured, and the model
is fitted again. The first batch is a forest of pairs. Later batches are chosen greedily by gain, as long as
the junction tree stays within a limit that grows tenfold from look to look; triples inside the model's own
cliques, which cost no cells, are candidates too. The arithmetic of a batch is in `parts/looks.py`; where the
constants come from is said in docs/cliquetree.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Literal

from .._util.threads import resolve
from ..domain import Clique, Domain
from ..measurement import Measurement, Request
from ..model.marginals import marginals
from .base import Job, Outcome, Outline, Planned, Public, whole_total
from .parts import limits
from .parts.common import any_pair, measure_users, users_share
from .parts.grouping import grouped, row_bounds
from .parts.guided import Guided
from .parts.looks import (
    Candidate,
    Seen,
    Structure,
    accounted,
    affordable_batch,
    candidates,
    divide,
    fitting,
    forest,
    worthwhile,
)
from .parts.merged import MAX_CANDIDATES, PAIR_CELLS, Merged, all_pairs, averaged, crowding, merge
from .parts.publicstart import PublicStart, Starts
from .parts.tree import MAX_PAIR_CELLS, estimate_total, measure_ones, ones_shares, part_mu
from .parts.workload import Workload, WorkloadItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Model
    from ..queries import Binned
    from ..release.gateway import Session
    from ..schema import Schema

# Constants, chosen on adult, ma2019, the coded taxi table and generated tables (docs/cliquetree.md).
ONES_PER_COLUMN = 0.013
LEAST_ONES, MOST_FIRST, MOST_ONES = 0.1, 0.55, 0.75
"""The first measurement of the 1-ways gets a share ONES_PER_COLUMN of mu^2 per column, at least LEAST_ONES
and at most MOST_FIRST; a second one may raise this to MOST_FIRST (of n columns to (n - 1) / (n + 1), if that
is less: a 1-way serves n - 1 pairs), and one after the first look to MOST_ONES, as far as pairs do not
account for the columns anyway (`looks.accounted`)."""
CROWDED = 0.0033
"""Crowding: the mean total variation that noise would cause in the 1-ways if they got the whole budget
(`merged.crowding`). At this crowding the 1-ways get a share of 0.2, and 0.19 more with every doubling."""
FEW_LOOKS = 0.008
"""At this crowding or above there are two looks, below it three."""
LOOKS_SHARE = 0.05
"""Share of mu^2 that pays for all looks together."""
LAST_LOOK_SHARE = 0.002
"""Share of mu^2 that a run with a workload spends on a last look, which says how accurate each item is."""
LOOK_CELLS = 1 << 23
"""A look leaves out candidates whose marginal would need a table of more cells than this over merged codes
(64 MB)."""
BATCHES = {1: (1.0,), 2: (0.45, 0.55), 3: (0.3, 0.35, 0.35)}
WORKLOAD_ONES = 0.2
"""Least share of the 1-ways in a run with a workload: only they tell rare values apart."""
WORKLOAD_BATCHES = BATCHES | {3: (0.2, 0.3, 0.5)}
"""With a workload the last batch gets most, since the larger sets of a workload are measured late."""
GROWTH = 10
"""The limit on cells grows by this factor from look to look."""
FIRST_GAIN, LATER_GAIN = 1.0, 2.0
"""Least gain of a candidate in the first and in later looks, in standard deviations of the look's noise."""
MAX_TRIPLE_CELLS = 100_000
"""Cells of the largest triple, or larger set, that a look asks for."""


@dataclass(frozen=True)
class Shares:
    """Shares of mu^2: for the 1-ways, for measuring them `again`, for measuring them once more after the
    first look (`open`), for each look, for the batch after each look, and for the `last_look`, which says
    how accurate a workload's items are."""

    ones: float
    again: float
    look: float
    batches: tuple[float, ...]
    last_look: float = 0.0
    open: float = 0.0

    def decided(self, part: float) -> Shares:
        """The shares once the look says which `part` of the columns pairs account for: that part of `open`
        goes to the batches, each in proportion; all else stays."""
        moved = self.open * part / math.fsum(self.batches)
        return replace(
            self, open=self.open * (1 - part), batches=tuple(share * (1 + moved) for share in self.batches)
        )


def shares(
    columns: int, rest: float, crowded: float = 0.0, looks: int | None = None, workload: bool = False
) -> Shares:
    """How `rest` of mu^2 is divided. `crowded` (see `crowding`) is available only after the first 1-ways,
    whose own share does not depend on it. `workload`: whether the run has a workload."""
    last = rest * LAST_LOOK_SHARE if workload else 0.0
    rest -= last
    first = min(MOST_FIRST, max(WORKLOAD_ONES if workload else LEAST_ONES, ONES_PER_COLUMN * columns))
    if columns == 1:
        return Shares(rest, 0.0, 0.0, (), last)
    ones = min(MOST_ONES, max(first, 0.2 + 0.19 * math.log2(max(crowded, 1e-9) / CROWDED)))
    count = looks or (2 if crowded >= FEW_LOOKS else 3)
    split = (WORKLOAD_BATCHES if workload else BATCHES).get(count) or (
        0.3,
        *((0.7 / (count - 1),) * (count - 1)),
    )
    left = rest * (1 - ones - LOOKS_SHARE)
    before_looks = max(first, min(ones, MOST_FIRST, (columns - 1) / (columns + 1)))
    return Shares(
        rest * first,
        rest * (before_looks - first),
        rest * LOOKS_SHARE / count,
        tuple(left * s for s in split),
        last,
        rest * (ones - before_looks),
    )


class CliqueTree(Guided, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_cells`: the most cells of the model's junction tree. `looks`: the number of looks; None: decided
    by the noisy 1-ways. `rare`: values with noisy counts below this many standard errors are merged.
    `workload`, `target`: where accuracy is wanted (see `parts.workload`). `stop`: when the last fit stops."""

    name: ClassVar[str] = "cliquetree"
    ones_first: ClassVar[bool] = True
    may_choose_clip: ClassVar[bool] = True

    looks: int | None = None
    rare: float = 3.0
    workload: tuple[tuple[str, ...] | WorkloadItem, ...] = ()
    target: str | None = None
    stop: Literal["risk", "noise", "tol"] = "risk"

    def __post_init__(self):
        super().__post_init__()
        if self.looks is not None and not 1 <= self.looks <= 10:
            raise ValueError("looks must lie between 1 and 10")
        if not self.rare >= 0:
            raise ValueError("rare must be >= 0 (in standard errors)")

    def check(self, schema: Schema) -> None:
        self.wanted(schema.modelled)

    def ready(self, schema: Schema, public: Public | None) -> None:
        PublicStart.of(public)  # raises for an archetype model, which has no marginals

    def wanted(self, domain: Domain) -> Workload:
        return Workload(domain, self.workload, self.target)

    def reported_items(self, domain: Domain) -> list[Clique]:
        """The workload's items of two columns or more, whose distances the last look releases."""
        return [item for item in self.wanted(domain).items if len(item) > 1]

    def run(self, session: Session, job: Job) -> Outcome:
        users = measure_users(
            self, session, job, lambda: self.clip_criteria(session.domain, public=job.public is not None)
        )
        columns, rest = len(session.domain), 1 - users.share
        workload = bool(self.reported_items(session.domain))
        weight = self.wanted(session.domain).weight
        plan = shares(columns, rest, looks=self.looks, workload=workload)
        start = PublicStart.of(job.public)
        ones = measure_ones(session, plan.ones, weight=weight)
        job.after_ones(ones)
        released = list(ones)
        best = ones if start is None else start.ones(ones)
        crowded = crowding(best, estimate_total(ones), math.sqrt(plan.ones / rest))
        plan = shares(columns, rest, crowded, self.looks, workload)
        if plan.again > 0:
            again = measure_ones(session, plan.again, "1-ways again", weight)
            released += again
            ones = averaged(ones, again)
        merged = self.merged(session, job, ones, start)
        growing = _Growing(self, session, job, merged, plan, start)
        if plan.open > 0:
            first = growing.seen(0) if growing.pairs else None
            plan = plan.decided(0.0 if first is None else growing.accounted(first))
            if plan.open > 0:
                again = measure_ones(session, plan.open, "1-ways once more", weight)
                released += again
                merged = self.merged(session, job, averaged(ones, again), start)
            growing = _Growing(self, session, job, merged, plan, start, first)
        for number in range(len(plan.batches)):
            growing.look(number)
        model = growing.finished()
        fared = growing.fared(model)
        return Outcome(
            rows=merged.rows(
                model,
                whole_total(model.total * users.put_back, job.rows),
                job.seed,
                growing.wanted.spread(),
                growing.wanted.halving(session.domain),
            ),
            measurements=(*users.released, *released, *growing.measured),
            model=model,
            users=users.histogram,
            id_columns=self.ids.columns or (),
            tables={"codes": merged.compression.table()} if merged.codes else {},
            notes=merged.notes + (growing.starts.notes(growing.measured) if growing.starts else ()),
            details={
                "looks": growing.batches,
                "crowding": crowded,
                **({"workload": fared} if fared else {}),
                **({} if growing.starts is None else {"public": growing.starts.describe(growing.measured)}),
                "merged_to": {name: merged.domain[name] for name in merged.codes},
            },
        )

    def merged(
        self, session: Session, job: Job, ones: Sequence[Measurement], start: PublicStart | None
    ) -> Merged:
        """What is rare, merged by these 1-ways and by what public data says of them."""
        best = ones if start is None else start.ones(ones)
        most = limits.pair_cells(self.memory, PAIR_CELLS, start is not None)
        merged = merge(session.domain, best, self.rare, most, job.zeros.impossible)
        job.check()
        return merged

    def clip_criteria(self, domain: Domain, *, public: bool = False, user: bool = True) -> list[Planned]:
        lines = self.outline(domain, public=public, user=user).measurements
        ones, pairs = [p for p in lines if len(p.clique) == 1], [p for p in lines if len(p.clique) == 2]
        return ones + [q for p in pairs for q in any_pair(domain, p.share)]

    def outline(self, domain: Domain, *, public: bool = False, user: bool = True) -> Outline:
        taken = users_share(self, public=public, user=user)
        plan = shares(len(domain), 1 - taken, looks=self.looks, workload=bool(self.reported_items(domain)))
        charges = [("rows per user", taken)] if taken else []
        if plan.last_look:
            charges.append(("how the workload came out", plan.last_look))
        ones = ones_shares(domain, plan.ones, self.wanted(domain).weight)
        lines = [Planned((a,), ones[a], domain[a], note="1-ways") for a in domain]
        if plan.batches:
            charges.append((f"{len(plan.batches)} looks", plan.look * len(plan.batches)))
            cells = min(math.prod(sorted(domain.values())[-2:]), MAX_PAIR_CELLS)
            count = 2 * len(domain)
            pair = Planned(
                ("any", "pair"), sum(plan.batches) / count, cells, count, "batches", averaged=False
            )
            lines.append(pair)
        notes = [
            f"pairs and triples are chosen privately; the model has at most about {self.limit:,} cells",
            "the 1-ways may be measured again, out of the batches' share, where noise would spoil them",
        ]
        if public and plan.batches:
            most = plan.look * len(plan.batches)
            notes.append(
                f"up to {most:.1%} of mu^2, out of the batches' share, says where the public data is right; "
                "what it explains is not measured"
            )
        return Outline(tuple(lines), tuple(charges), (), tuple(notes))


class _Growing:
    """The model between two looks: what was measured, and what is left to spend."""

    def __init__(
        self,
        config: CliqueTree,
        session: Session,
        job: Job,
        merged: Merged,
        plan: Shares,
        start: PublicStart | None,
        first: Seen | None = None,
    ):
        self.first = first  # the first look, where it was taken before
        self.starts = None if start is None else Starts(start, session, merged.codes)
        self.config, self.session, self.job, self.merged, self.plan = config, session, job, merged, plan
        self.wanted = config.wanted(session.domain)
        self.pairs = all_pairs(merged.domain, MAX_CANDIDATES, min(MAX_PAIR_CELLS, config.limit))
        self.measured: list[Measurement] = []
        self.batches: list[list[list[str]]] = []
        self.model: Model | None = None
        self.held: dict[Clique, Candidate] = {}
        self.precision: dict[Clique, float] = {}  # share of mu^2 spent on each marginal so far
        self.kept = 0.0  # share of mu^2 left over by batches that had nothing to measure
        self.queries: dict[Clique, Binned | None] = {}  # how each marginal was asked for, the first time

    def look(self, number: int) -> None:
        """One look, its batch, and the fit."""
        seen = self.seen(number) if self.pairs else None
        share = self.kept + self.plan.batches[number]
        batch, share = self.chosen(number, share, seen) if seen is not None and seen.cliques else ([], share)
        last = number == len(self.plan.batches) - 1
        for c in batch:
            self.held[c.clique] = c
        if last and not self.held:
            self.held = {(a,): Candidate((a,), 0.0, float(n)) for a, n in self.merged.domain.items()}
        self.kept = 0.0 if self.held else share
        parts = divide(list(self.held.values()), self.precision, share) if self.held else {}
        whole = math.fsum(parts.values())
        requests = [self.request(c, part_mu(self.session, share * part / whole)) for c, part in parts.items()]
        if requests:
            label = f"batch {number + 1}"
            self.measured += self.session.measure(requests, label, recode=self.merged.codes)
        for clique, part in parts.items():
            self.precision[clique] = self.precision.get(clique, 0.0) + share * part / whole
        self.batches.append([list(clique) for clique in parts])
        if (parts or (self.starts is not None and self.starts.taken)) and not last:
            self.model = self.fit("noise", self.model)

    def request(self, clique: Clique, mu: float) -> Request:
        """The request for this marginal. With a workload, values that noise would make indistinguishable in
        it are grouped (see `grouping`)."""
        if len(clique) < 2 or not self.wanted.items:
            return Request(clique, mu)
        if clique not in self.queries:
            domain, ones = self.merged.domain, self.merged.ones_shape
            subsets = list(combinations(clique, len(clique) - 1))
            if len(clique) == 2 or self.model is None:
                bounds = [ones[a] for a in clique]
            else:
                estimates = marginals(self.model, subsets, resolve(self.job.threads))
                bounds = row_bounds(clique, domain, estimates)
            self.queries[clique] = grouped(clique, domain, bounds, ones, self.session.clip / mu)
        return Request(clique, mu, self.queries[clique])

    def seen(self, number: int) -> Seen:
        """A look: noisy distances of the candidates from the model."""
        merged = self.merged
        cliques = self.pairs if number == 0 else [*self.pairs, *self.larger()]
        if self.model is None and merged.zeros:  # a first model of 1-ways and constraints
            self.model = self.fit("noise", None)
        if self.model is None:
            estimates = merged.independent(cliques)
        else:
            estimates = marginals(self.model, cliques, resolve(self.job.threads), LOOK_CELLS)
        cliques = [c for c in cliques if c in estimates]
        if number == 0 and self.first is not None:
            return self.first.over(estimates)
        weights = [self.wanted.weight(c) for c in cliques]
        look = self.session.distances(
            cliques,
            estimates,
            mu=part_mu(self.session, self.plan.look),
            label=f"look {number + 1}",
            weights=weights,
            recode=merged.codes,
        )
        return Seen(cliques, estimates, look.values.tolist(), look.sigma.tolist(), weights)

    def accounted(self, seen: Seen) -> float:
        """The part of the columns that pairs account for, by the first look."""
        distances, sigma = (dict(zip(seen.cliques, v)) for v in (seen.distances, seen.sigma))
        return accounted(distances, sigma, self.merged.spoilt, self.merged.total)

    def chosen(self, number: int, share: float, seen: Seen) -> tuple[list[Candidate], float]:
        """(the candidates to measure, what is left of the share). Public starts that are believed, and whose
        clique keeps the junction tree within the limit, are taken into the fit."""
        domain, merged, looks = self.merged.domain, self.merged, len(self.plan.batches)
        cliques, estimates, weights = seen.cliques, seen.estimates, seen.weights
        noise = seen.sigma[0] * weights[0]  # the same for all: sigma_i w_i
        weight = dict(zip(cliques, weights))
        if self.starts is not None:
            label = f"look {number + 1}, public starts"
            share -= self.starts.look(estimates, weight, noise, self.plan.look, label)
        unit = (part_mu(self.session, 1.0) / self.session.clip) ** 2  # 1 / sigma^2 bought by all of mu^2
        precision = share * unit
        sigma = math.sqrt(len(domain) / precision)
        scored = candidates(cliques, estimates, seen.distances, sigma, merged.total, weight)
        if self.starts is not None:
            scored = self.starts.improved(scored, estimates, noise, sigma, merged.total)
        least = (LATER_GAIN if number else FIRST_GAIN) * noise
        good = worthwhile(scored, sigma, least)
        structure = Structure(domain, [*(m.clique for m in self.measured), *merged.zeros])
        for clique in self.model.cliques if self.model is not None else ():
            structure.add(clique)
        limit = self.config.limit // GROWTH ** (looks - 1 - number)
        orders = [(good, limit)]
        if number == 0:  # a forest of pairs, within the whole limit, then what public data explains
            free = [c for c in good if c.explained > 0]
            orders = [(forest(good, domain), self.config.limit), (free, limit)]
        batch: dict[Clique, Candidate] = {}
        for ordered, most in orders:
            new = [c for c in ordered if c.clique not in batch]
            batch |= {c.clique: c for c in fitting(new, structure, max(most, structure.cells()))}
        if self.starts is not None:
            self.starts.take(list(batch))
        fresh = [c for c in batch.values() if c.clique not in self.held and c.gain(sigma) > least]
        chosen = affordable_batch(
            fresh, list(self.held.values()), math.fsum(self.precision.values()) * unit, precision
        )
        return chosen, share

    def larger(self) -> list[Clique]:
        """Candidates of three columns or more: triples inside the model's cliques, and sets of a workload."""
        domain, held = self.merged.domain, self.model.cliques if self.model is not None else []
        sets: set[Clique] = {t for q in held for t in combinations(q, 3)}
        sets |= set(self.wanted.larger(domain))
        fine = [c for c in sets if min(domain.shape(c)) > 1 and domain.cells(c) <= MAX_TRIPLE_CELLS]
        room = max(0, MAX_CANDIDATES - len(self.pairs))
        return sorted(fine, key=lambda c: (-self.wanted.weight(c), [list(domain).index(a) for a in c]))[:room]

    def fit(self, stop: str, start: Model | None) -> Model:
        measurements = [*self.merged.ones, *self.measured]
        if self.starts is not None:
            measurements += self.starts.measurements(self.measured)
        return self.job.fit(
            self.merged.domain,
            measurements,
            total=self.merged.fitted_total,
            stop=stop,
            warm_start=start,
            zeros=self.merged.zeros,
        )

    def finished(self) -> Model:
        return self.fit(self.config.stop, None)

    def fared(self, model: Model) -> list[dict]:
        """How accurate the workload's items are (see `Workload.fared`), by a last look at the finished
        model."""
        items = self.config.reported_items(self.session.domain)
        small = [c for c in items if self.merged.domain.cells(c) <= LOOK_CELLS]
        estimates = marginals(model, small, resolve(self.job.threads), LOOK_CELLS)
        distances = {}
        if estimates:
            look = self.session.distances(
                list(estimates),
                estimates,
                mu=part_mu(self.session, self.plan.last_look),
                label="how the workload came out",
                recode=self.merged.codes,
            )
            distances = dict(zip(estimates, zip(look.values.tolist(), look.sigma.tolist())))
        return self.wanted.fared(model, self.merged.total, distances)

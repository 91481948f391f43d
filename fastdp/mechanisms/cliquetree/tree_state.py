"""The model of a run of `cliquetree` while it grows, one screening round after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol

from ..._util.threads import resolve
from ...domain import Clique, Domain
from ...measurement import Measurement, Request
from ...model.marginals import marginals
from ..shared.merged_codes import MAX_CANDIDATES, Merged, all_pairs
from ..shared.one_ways import part_mu
from ..shared.prior_screening import PublicPriors
from ..shared.screening import (
    Candidate,
    ScreeningResult,
    Structure,
    accounted,
    affordable_batch,
    candidates,
    divide,
    fitting,
    forest,
    worthwhile,
)
from ..shared.spanning_tree import MAX_PAIR_CELLS
from .value_grouping import grouped, row_bounds

if TYPE_CHECKING:
    from ...model import Model
    from ...queries import Binned
    from ...release.gateway import Session
    from ..base import Job
    from ..shared.public_prior import PublicMarginals
    from .budget_shares import Shares

# Constants, chosen on adult, ma2019, the coded taxi table and generated tables (docs/cliquetree.md).
SCREENING_CELLS = 1 << 23
"""A screening round leaves out candidates whose marginal would need a table of more cells than this over
merged codes (64 MB)."""
GROWTH = 10
"""The limit on cells grows by this factor from round to round."""
FIRST_GAIN, LATER_GAIN = 1.0, 2.0
"""Least gain of a candidate in the first and in later rounds, in standard deviations of the round's noise."""
MAX_TRIPLE_CELLS = 100_000
"""Cells of the largest triple, or larger set, that is a candidate."""


class TreeSettings(Protocol):
    """What growing a tree reads of the mechanism's config."""

    @property
    def limit(self) -> int: ...
    def wanted(self, domain: Domain) -> Any: ...
    def reported_items(self, domain: Domain) -> Any: ...


class CliqueTreeState:
    """The model between two screening rounds: what was measured, and what is left to spend."""

    def __init__(
        self,
        config: TreeSettings,
        session: Session,
        job: Job,
        merged: Merged,
        plan: Shares,
        public: PublicMarginals | None,
        first: ScreeningResult | None = None,
    ):
        self.first = first  # the first round's result, where it was released before
        self.priors = None if public is None else PublicPriors(public, session, merged.codes)
        self.config, self.session, self.job, self.merged, self.plan = config, session, job, merged, plan
        self.workload = config.wanted(session.domain)
        self.pairs = all_pairs(merged.domain, MAX_CANDIDATES, min(MAX_PAIR_CELLS, config.limit))
        self.measured: list[Measurement] = []
        self.batches: list[list[list[str]]] = []
        self.model: Model | None = None
        self.held: dict[Clique, Candidate] = {}
        self.precision: dict[Clique, float] = {}  # share of mu^2 spent on each marginal so far
        self.unspent = 0.0  # share of mu^2 left over by batches that had nothing to measure
        self.queries: dict[Clique, Binned | None] = {}  # how each marginal was asked for, the first time

    def round(self, number: int) -> None:
        """One screening round, its batch, and the fit."""
        result = self.screen(number) if self.pairs else None
        share = self.unspent + self.plan.batches[number]
        batch: list[Candidate] = []
        if result is not None and result.cliques:
            batch, share = self.choose(number, share, result)
        last = number == len(self.plan.batches) - 1
        self.held |= {c.clique: c for c in batch}
        if last and not self.held:
            self.held = {(a,): Candidate((a,), 0.0, float(n)) for a, n in self.merged.domain.items()}
        self.unspent = 0.0 if self.held else share
        parts = divide(list(self.held.values()), self.precision, share) if self.held else {}
        whole = math.fsum(parts.values())
        requests = [self.request(c, part_mu(self.session, share * part / whole)) for c, part in parts.items()]
        if requests:
            label = f"batch {number + 1}"
            self.measured += self.session.measure(requests, label, recode=self.merged.codes)
        for clique, part in parts.items():
            self.precision[clique] = self.precision.get(clique, 0.0) + share * part / whole
        self.batches.append([list(clique) for clique in parts])
        if (parts or (self.priors is not None and self.priors.taken)) and not last:
            self.model = self.fit("noise", self.model)

    def request(self, clique: Clique, mu: float) -> Request:
        """The request for this marginal. With a workload, values that noise would make indistinguishable in
        it are grouped (see `value_grouping`)."""
        if len(clique) < 2 or not self.workload.items:
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

    def screen(self, number: int) -> ScreeningResult:
        """Releases noisy distances of the candidates from the model."""
        merged = self.merged
        cliques = self.pairs if number == 0 else [*self.pairs, *self.larger()]
        if self.model is None and merged.zeros:  # a first model of 1-ways and constraints
            self.model = self.fit("noise", None)
        if self.model is None:
            estimates = merged.independent(cliques)
        else:
            estimates = marginals(self.model, cliques, resolve(self.job.threads), SCREENING_CELLS)
        cliques = [c for c in cliques if c in estimates]
        if number == 0 and self.first is not None:
            return self.first.over(estimates)
        weights = [self.workload.weight(c) for c in cliques]
        released = self.session.distances(
            cliques,
            estimates,
            mu=part_mu(self.session, self.plan.screening),
            label=f"screening {number + 1}",
            weights=weights,
            recode=merged.codes,
        )
        return ScreeningResult(cliques, estimates, released.values.tolist(), released.sigma.tolist(), weights)

    def accounted(self, result: ScreeningResult) -> float:
        """The part of the columns that pairs account for, by the first screening round."""
        distances, sigma = (dict(zip(result.cliques, v)) for v in (result.distances, result.sigma))
        return accounted(distances, sigma, self.merged.noise_tv, self.merged.total)

    def choose(self, number: int, share: float, result: ScreeningResult) -> tuple[list[Candidate], float]:
        """(the candidates to measure, what is left of the `share` of mu^2 once public priors are screened).
        Usable priors whose clique keeps the junction tree within the limit are taken into the fit."""
        if self.priors is not None:
            label = f"screening {number + 1}, public priors"
            weight = dict(zip(result.cliques, result.weights))
            share -= self.priors.screen(result.estimates, weight, result.noise, self.plan.screening, label)
        unit = (part_mu(self.session, 1.0) / self.session.clip) ** 2  # 1 / sigma^2 bought by all of mu^2
        sigma = math.sqrt(len(self.merged.domain) / (share * unit))
        least = (LATER_GAIN if number else FIRST_GAIN) * result.noise
        batch = self.within_limit(number, worthwhile(self.scored(result, sigma), sigma, least))
        if self.priors is not None:
            self.priors.take([c.clique for c in batch])
        fresh = [c for c in batch if c.clique not in self.held and c.gain(sigma) > least]
        spent = math.fsum(self.precision.values()) * unit
        return affordable_batch(fresh, list(self.held.values()), spent, share * unit), share

    def scored(self, result: ScreeningResult, sigma: float) -> list[Candidate]:
        """The candidates of a screening round, for measurements at noise `sigma`."""
        total, estimates = self.merged.total, result.estimates
        weight = dict(zip(result.cliques, result.weights))
        scored = candidates(result.cliques, estimates, result.distances, sigma, total, weight)
        if self.priors is None:
            return scored
        return self.priors.improved(scored, estimates, result.noise, sigma, total)

    def within_limit(self, number: int, good: list[Candidate]) -> list[Candidate]:
        """Those of the candidates, in this order, that keep the junction tree within the round's limit. The
        first round takes a forest of pairs, within the whole limit, then what public data explains."""
        domain = self.merged.domain
        structure = Structure(domain, [*(m.clique for m in self.measured), *self.merged.zeros])
        for clique in self.model.cliques if self.model is not None else ():
            structure.add(clique)
        limit = self.config.limit // GROWTH ** (len(self.plan.batches) - 1 - number)
        orders = [(good, limit)]
        if number == 0:
            orders = [
                (forest(good, domain), self.config.limit),
                ([c for c in good if c.explained > 0], limit),
            ]
        batch: dict[Clique, Candidate] = {}
        for ordered, most in orders:
            new = [c for c in ordered if c.clique not in batch]
            batch |= {c.clique: c for c in fitting(new, structure, max(most, structure.cells()))}
        return list(batch.values())

    def larger(self) -> list[Clique]:
        """Candidates of three columns or more: triples inside the model's cliques, and sets of a workload."""
        domain, held = self.merged.domain, self.model.cliques if self.model is not None else []
        sets: set[Clique] = {t for q in held for t in combinations(q, 3)}
        sets |= set(self.workload.larger(domain))
        fine = [c for c in sets if min(domain.shape(c)) > 1 and domain.cells(c) <= MAX_TRIPLE_CELLS]
        room = max(0, MAX_CANDIDATES - len(self.pairs))
        order = {a: i for i, a in enumerate(domain)}
        return sorted(fine, key=lambda c: (-self.workload.weight(c), [order[a] for a in c]))[:room]

    def fit(self, stop: str, start: Model | None) -> Model:
        measurements = [*self.merged.ones, *self.measured]
        if self.priors is not None:
            measurements += self.priors.measurements(self.measured)
        return self.job.fit(
            self.merged.domain,
            measurements,
            total=self.merged.fitted_total,
            stop=stop,
            warm_start=start,
            zeros=self.merged.zeros,
        )

    def workload_distances(self, model: Model) -> dict[Clique, tuple[float, float]]:
        """How far the finished model is from the workload's items."""
        items = self.config.reported_items(self.session.domain)
        return self.distances(model, items, self.plan.report, "errors of the workload")

    def final_distances(self, model: Model) -> dict[Clique, tuple[float, float]]:
        """How far the finished model is from all pairs that no measurement holds; where there are none, from
        all pairs, and without pairs from single columns."""
        held = [set(m.clique) for m in self.measured]
        open_pairs = [p for p in self.pairs if not any(set(p) <= names for names in held)]
        sets = open_pairs or self.pairs or [(a,) for a in self.merged.domain]
        return (
            self.distances(model, sets, self.plan.final, "distances of the finished model")
            if self.plan.final
            else {}
        )

    def distances(
        self, model: Model, cliques: Sequence[Clique], share: float, label: str
    ) -> dict[Clique, tuple[float, float]]:
        """Noisy L1 distances of a model from the data, in rows, with standard errors: one step, for a share of
        mu^2. Sets whose marginal would be too large are left out."""
        small = [c for c in cliques if self.merged.domain.cells(c) <= SCREENING_CELLS]
        estimates = marginals(model, small, resolve(self.job.threads), SCREENING_CELLS)
        if not estimates:
            return {}
        mu, codes = part_mu(self.session, share), self.merged.codes
        released = self.session.distances(list(estimates), estimates, mu=mu, label=label, recode=codes)
        return dict(zip(estimates, zip(released.values.tolist(), released.sigma.tolist())))

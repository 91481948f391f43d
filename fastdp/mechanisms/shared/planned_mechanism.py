"""Mechanisms that are not adaptive: they state their plan once, and running executes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ...domain import Clique, Domain
from ...release.gateway import Session
from ...schema import Schema
from ..base import Config, Job, Outcome, whole_total
from ..plans import Outline, Planned, PlannedStep
from ..registry import Traits
from .model_rows import ModelRows
from .one_ways import measure_planned
from .user_histogram import measure_users

MARGINALS = "marginals"


class PlannedMechanism(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measures a fixed list of marginals in one step, fits a model to them and draws rows of it. A
    subclass writes `plan`; its steps and `run` follow from it."""

    traits: ClassVar[Traits] = Traits(may_choose_clip=True)

    def plan(self, domain: Domain) -> Mapping[Clique, float]:
        """The marginals to measure, each with its weight: shares of mu^2 are in the proportions of
        the weights. It depends on public facts alone."""
        raise NotImplementedError

    def shares(self, domain: Domain, left: float) -> dict[Clique, float]:
        """The share of mu^2 of each planned marginal, `left` in all."""
        weights = self.plan(domain)
        whole = sum(weights.values())
        shares: dict[Clique, float] = {}
        for clique, weight in weights.items():
            ordered = domain.canonical(domain.check(clique))
            shares[ordered] = shares.get(ordered, 0.0) + left * weight / whole
        return shares

    def check(self, schema: Schema) -> None:
        self.shares(schema.modelled, 1.0)

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        shares = self.shares(domain, 1 - taken)
        lines = [Planned(c, share, domain.cells(c)) for c, share in shares.items()]
        return Outline((PlannedStep(MARGINALS, 1 - taken, tuple(lines)),), tuple(shares))

    def run(self, session: Session, job: Job) -> Outcome:
        users = measure_users(self, session, job)
        plan = self.steps(session.domain, users.share)
        answers = measure_planned(session, plan, MARGINALS)
        model = job.fit(session.domain, answers, zeros=job.zeros.impossible)
        total = whole_total(model.total * users.clip_correction, job.rows)
        return Outcome(
            rows=ModelRows(model, total, job.seed),
            measurements=(*users.released, *answers),
            model=model,
            users=users.histogram,
        )

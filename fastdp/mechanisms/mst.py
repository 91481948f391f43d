"""MST (McKenna, Miklau, Sheldon 2021): 1-ways, rare values merged, a spanning tree of pairs. For
any table.

Values whose noisy count is below `rare` standard errors are merged into one. Pairs are chosen,
measured and fitted over the merged codes: neither budget nor time is spent on empty cells.
Synthetic rows of a merged code get one of its values by the 1-way.
"""

import math
from functools import partial
from typing import Literal

from .._util.threads import resolve
from ..division import best_shares
from ..domain import Clique, Cliques, Domain, Tables
from ..measurement import Request
from ..model.marginals import marginals
from ..release.gateway import Session
from .base import Begun, Job, OnesFirst, Outcome, Public, whole_total
from .limits.model_size import LargestModel, largest_forest
from .limits.size_limits import MAX_PAIR_CELLS
from .plans import Outline, Planned, PlannedStep
from .registry import mechanism
from .shared.merged_codes import Merged, merge
from .shared.one_ways import effective_cells, measure_planned, ones_step, part_mu
from .shared.prior_screening import prior_notes
from .shared.public_prior import PublicMarginals
from .shared.screened_pairs import screen_pairs
from .shared.spanning_tree import spanning_tree
from .shared.user_histogram import in_proportion, measure_users

CHOICE = "private choice of the tree"
PAIRS = "pairs"


@mechanism(
    "mst",
    about="any table, as published; for comparison",
    takes_prior=True,
    may_choose_clip=True,
    for_linked=True,
)
class MST(OnesFirst, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`shares` of mu^2 for the 1-ways, the choice of the tree, and its pairs, scaled to add up to 1. The
    publication has a third each. 1-ways and pairs are divided by their sizes (see `portions`). A
    single column is measured once, with the whole budget. Where no pair is small enough to be
    measured, all 1-ways are measured again with what is left."""

    shares: tuple[float, float, float] = (0.25, 0.125, 0.625)
    rare: float = 3.0
    stop: Literal["risk", "noise", "tol"] = "risk"

    def __post_init__(self):
        super().__post_init__()
        if not all(s > 0 for s in self.shares):
            raise ValueError("shares must be positive")
        if not self.rare >= 0:
            raise ValueError("rare must be >= 0 (in standard errors)")

    def split(self, columns: int, left: float) -> tuple[float, ...]:
        """`left` of mu^2 for the 1-ways, the choice of the tree, and its pairs."""
        return in_proportion(left, self.shares) if columns > 1 else (left, 0.0, 0.0)

    def begin(self, session: Session, job: Job) -> Begun:
        users = measure_users(self, session, job)
        plan = self.steps(session.domain, users.share, public=job.public is not None)
        return Begun(users, measure_planned(session, plan, "1-ways"))

    def complete(self, session: Session, job: Job, begun: Begun, saved: float) -> Outcome:
        users = begun.users
        ones = begun.ones
        plan = self.steps(session.domain, users.share, public=job.public is not None)
        choice = plan.share(CHOICE)
        pair = plan.share(PAIRS)
        public = PublicMarginals.of(job.prior)
        best = ones if public is None else public.ones(ones)
        merged = merge(
            session.domain, best, self.rare, impossible=job.zeros.impossible, schema=session.schema
        )
        priors = None
        tree = list[Clique]()
        measured = list[Clique]()
        if public is None or not pair:
            estimates = None if not merged.zeros else partial(self.before_pairs, job, merged)
            pairs_chosen = spanning_tree(
                session, merged.ones, choice, merged.codes, job.zeros, estimates
            )
            tree = [p for p in pairs_chosen if len(p) == 2]
            measured = tree
            pair = pair if tree else pair + choice
        else:
            sigma = session.clip / part_mu(session, pair / max(1, len(merged.domain) - 1))
            screened = screen_pairs(session, merged, public, choice, sigma)
            priors = screened.priors
            pair = pair + choice - screened.spent
            chosen = screened.tree(merged.domain, job.zeros)
            tree = [c.clique for c in chosen]
            priors.take(tree)
            measured = [c.clique for c in chosen if c.explained <= 0 or c.gain(sigma) > 0]
        measured = measured or [(a,) for a in merged.domain]
        parts = (
            parts_by_size(merged, measured, session.clip / part_mu(session, pair)) if pair else {}
        )
        requests = [Request(p, part_mu(session, pair * part)) for p, part in parts.items()]
        pairs = session.measure(requests, label=PAIRS, recode=merged.codes) if requests else []

        answers = [*merged.ones, *pairs, *(priors.measurements(pairs) if priors else ())]
        model = job.fit(merged.domain, answers, stop=self.stop, zeros=merged.zeros)
        used = priors.describe(pairs) if priors else None
        return Outcome(
            rows=merged.rows(
                model, whole_total(model.total * users.clip_correction, job.rows), job.seed
            ),
            measurements=(*users.released, *ones, *pairs),
            model=model,
            users=users.histogram,
            tables={"codes": merged.compression.table()} if merged.codes else {},
            notes=merged.notes + (prior_notes(used) if used else ()),
            details={"tree": [list(p) for p in tree], **({"public": used} if used else {})},
        )

    def before_pairs(self, job: Job, merged: Merged, pairs: Cliques) -> Tables:
        """The marginals of the pairs in a model of the 1-ways and constraints alone."""
        model = merged.fit(job, list(merged.ones), stop="noise")
        return marginals(model, pairs, resolve(job.threads))

    def largest_model(self, domain: Domain, public: Public | None, fixed: Cliques) -> LargestModel:
        return largest_forest(domain, MAX_PAIR_CELLS, fixed)

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        one, choice, pair = self.split(len(domain), 1 - taken)
        ones = ones_step(domain, one, unit_weight)
        if not pair:
            return Outline((ones,))
        edges = len(domain) - 1
        cells = min(math.prod(sorted(domain.values())[-2:]), MAX_PAIR_CELLS)
        any_pair = Planned(("any", "pair"), pair / edges, cells, edges, PAIRS, averaged=False)
        notes = ["the pairs are chosen privately, so the model's size is not known beforehand"]
        notes.append("larger pairs get more of the pairs' share")
        if public:
            notes.append("pairs that public data is found to explain are not measured")
        steps = (ones, PlannedStep(CHOICE, choice), PlannedStep(PAIRS, pair, (any_pair,)))
        return Outline(steps, notes=tuple(notes))


def unit_weight(clique: Clique) -> float:
    """The weight of a marginal where all matter equally: 1."""
    return 1.0


def parts_by_size(merged: Merged, cliques: Cliques, sigma: float) -> dict[Clique, float]:
    """The portion that each pair (or 1-way) gets of their common share, by the cells that noise can
    affect if the columns are independent. `sigma`: the noise of a marginal measured with the whole
    share."""
    each = sigma * math.sqrt(max(1, len(cliques)))
    estimates = merged.independent([c for c in cliques if len(c) == 2])
    estimates |= {c: merged.ones_shape[c[0]] for c in cliques if len(c) == 1}
    return best_shares({c: max(1.0, effective_cells(estimates[c], each)) for c in cliques})

"""Which public priors a run may use: releases how far the private marginals are from them, and
decides (`public_prior` has the statistics, docs/explain/distances.md the proof)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from msgspec.structs import replace

from ...domain import Clique
from ...measurement import Measurement
from ...release.gateway import Session
from .one_ways import NOISE, part_mu
from .public_prior import PublicMarginals, PublicPrior, assess_public_prior
from .screening import Candidate, candidates

# Constants, chosen on adult and ma2019 at epsilon 0.1 and 1 (docs/guide/public-data.md).
LEAST_APART = 1.0
"""The distance of the private marginal from a prior is released only if prior and model are apart by
at least so many standard deviations of the screening round. Priors nearer to the model, down to
`LEAST_USED`, are judged by the results of the others."""
LEAST_USED = 0.2
"""With 0 pairs are 5 ± 3 % worse (eight cells), with 1 they are 2 ± 1 % (26)."""


class PublicPriors:
    """Priors of a model that grows: what was released about them, and which ones are `taken` into
    the fit."""

    def __init__(self, source: PublicMarginals, session: Session, recode: Mapping[str, np.ndarray]):
        self._source = source
        self._session = session
        self._recode = recode
        self._screened = False
        self._asked: dict[Clique, tuple[PublicPrior, float | None]] = {}
        self._usable: dict[Clique, tuple[PublicPrior, float]] = {}
        self.taken: dict[Clique, tuple[PublicPrior, float]] = {}
        self.refused: set[Clique] = set()

    def screen(
        self,
        estimates: Mapping[Clique, np.ndarray],
        weight: Mapping[Clique, float],
        noise: float,
        share: float,
        label: str,
    ) -> float:
        """Release how far the private marginals are from their priors. Returns the share of mu^2
        that this cost, at most `share`.

        It follows a screening round that cost `share` of mu^2, and has the same `noise`: the
        standard deviation of weight times distance, in rows.

        The first call screens pairs. Later calls screen larger marginals, if all of their pairs are
        taken.
        """
        pairs = [c for c in estimates if len(c) == 2 and not self._screened]
        larger = [c for c in estimates if len(c) > 2 and c not in self._asked]
        known = [c for c in larger if all(p in self.taken for p in combinations(c, 2))]
        fresh = {c: estimates[c] for c in (*pairs, *known)}
        self._screened = True
        priors = self._source.priors(fresh, self._recode)
        apart = {c: weight[c] * p.apart(fresh[c]) for c, p in priors.items()}
        cliques = [c for c in priors if apart[c] > LEAST_APART * noise]
        self._asked |= {c: (p, None) for c, p in priors.items() if apart[c] > LEAST_USED * noise}
        if not cliques:
            return 0.0
        cost = share * _squares(weight[c] for c in cliques) / _squares(weight[c] for c in estimates)
        tables = {c: priors[c].table for c in cliques}
        weights = [weight[c] for c in cliques]
        mu = part_mu(self._session, cost)
        recode = self._recode
        found = self._session.distances(
            cliques, tables, mu=mu, label=label, weights=weights, recode=recode
        )
        self._asked |= {c: (priors[c], float(d)) for c, d in zip(cliques, found.values)}
        return cost

    def improved(
        self,
        scored: Sequence[Candidate],
        estimates: Mapping[Clique, np.ndarray],
        noise: float,
        sigma: float,
        total: float,
    ) -> list[Candidate]:
        """The candidates, with usable priors taken into account. Such a candidate has its distance
        from the prior in place of that from the model, and the distance that the prior explains. It
        has `use_prior_only` if the prior is nearer than an answer at noise `sigma` would be."""
        offered = []
        for c in scored:
            if c.clique in self._asked and c.clique not in self.taken:
                prior, distance = self._asked[c.clique]
                apart = prior.apart(estimates[c.clique])
                if c.weight * apart > LEAST_USED * noise:
                    offered.append((c, prior, distance, apart))
        assessments = assess_public_prior(
            [c.distance for c, _, _, _ in offered],
            [distance for _, _, distance, _ in offered],
            [apart for _, _, _, apart in offered],
            [noise / c.weight for c, _, _, _ in offered],
        )
        self._usable = {}
        out = {c.clique: c for c in scored}
        for (c, prior, _, _), assessment in zip(offered, assessments):
            if assessment is None:
                self.refused.add(c.clique)
                continue
            self._usable[c.clique] = prior, assessment.distance
            left = [assessment.distance]
            table = {c.clique: prior.table}
            (nearer,) = candidates([c.clique], table, left, sigma, total, {c.clique: c.weight})
            better = nearer.distance <= NOISE * sigma * nearer.cells
            out[c.clique] = replace(nearer, explained=assessment.explained, use_prior_only=better)
        return list(out.values())

    def take(self, cliques: Sequence[Clique]) -> None:
        """Take into the fit the priors of those of the cliques whose prior is usable."""
        self.taken |= {c: self._usable[c] for c in cliques if c in self._usable}
        self.refused -= set(self.taken)

    def measurements(self, measured: Sequence[Measurement]) -> list[Measurement]:
        """The priors that were taken, as measurements for the fit, to be added to `measured`."""
        answers: dict[Clique, list[Measurement]] = {}
        for m in measured:
            answers.setdefault(m.clique, []).append(m)
        priors = [prior.measurement(d, answers.get(c, ())) for c, (prior, d) in self.taken.items()]
        return [m for m in priors if m is not None]

    def describe(self, measured: Sequence[Measurement]) -> dict[str, Any]:
        """For the statement: marginals that rest on public data alone, and on public data and
        private answers. It also says how many priors were not found to be right."""
        answered = {m.clique for m in measured}
        prior_only = [list(c) for c in self.taken if c not in answered]
        both = [list(c) for c in self.taken if c in answered]
        return {
            "prior_only": prior_only,
            "prior_and_answers": both,
            "prior_not_used": len(self.refused),
        }


def prior_notes(used: Mapping[str, Any]) -> tuple[str, ...]:
    """What `PublicPriors.describe` says, as a sentence."""
    alone = len(used["prior_only"])
    both = len(used["prior_and_answers"])
    wrong = used["prior_not_used"]
    rest = (
        f"{both} on it and on private answers; {wrong} more were not found to be right, and"
        " left out"
    )
    return (f"public data: {alone} marginals of the model rest on it alone, {rest}",)


def _squares(weights: Iterable[float]) -> float:
    return math.fsum(w * w for w in weights)

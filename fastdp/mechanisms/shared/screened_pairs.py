"""Pairs chosen with public data: releases how far every pair is from independence, and from its
public prior (`public_prior`)."""

from msgspec import Struct

from ..._util.disjoint import DisjointSets
from ...division import SCREENED_PAIRS
from ...domain import Clique, Domain, maximal
from ...model.grow import grow
from ...release.gateway import Session
from ..limits.size_limits import MAX_PAIR_CELLS
from ..limits.structural_zeros import StructuralZeros
from .merged_codes import MAX_CANDIDATES, Merged, all_pairs
from .one_ways import part_mu
from .prior_screening import PublicPriors
from .public_prior import PublicMarginals
from .screening import Candidate, candidates
from .spanning_tree import ForestRule


class ScreenedPairs(Struct, frozen=True):
    """All pairs as candidates, their priors, and the share of mu^2 that was `spent`."""

    pairs: list[Candidate]
    priors: PublicPriors
    spent: float

    def strength(self, c: Candidate) -> float:
        """How far the pair is from independence, in rows, by the screening."""
        return c.explained + c.distance

    def tree(self, domain: Domain, zeros: StructuralZeros) -> list[Candidate]:
        """A maximum spanning forest; with constraints, of the pairs that `tree.ForestRule`
        allows."""
        ordered = sorted(self.pairs, key=lambda c: -self.strength(c))
        joining = ForestRule(domain, zeros)
        return [c for c in ordered if joining.take(c.clique)]

    def outer(
        self, domain: Domain, ways: int, max_cells: int, zeros: StructuralZeros
    ) -> list[Clique]:
        """Marginals of up to `ways` columns, grown from the pairs whose prior is usable. The
        strongest of the other pairs connect them, and a column in no pair is a 1-way marginal. With
        constraints there are only pairs, so that no cycle arises through the constraints."""
        if zeros.cliques:
            chosen = [c.clique for c in self.tree(domain, zeros)]
            return [*chosen, *((a,) for a in domain if not any(a in p for p in chosen))]
        usable = {c.clique: self.strength(c) for c in self.pairs if c.explained > 0}
        grown = grow(domain, usable, ways, max_cells) if usable else []
        joined = DisjointSets(domain)
        for clique in grown:
            for a in clique[1:]:
                joined.merge(clique[0], a)
        rest = sorted(self.pairs, key=lambda c: -self.strength(c))
        pairs = [c.clique for c in rest if joined.merge(*c.clique)]
        alone: list[Clique] = [(a,) for a in domain if joined.size(a) == 1]
        return maximal([*grown, *pairs, *alone])


def screen_pairs(
    session: Session, merged: Merged, public: PublicMarginals, share: float, sigma: float = 1.0
) -> ScreenedPairs:
    """Screen all pairs over merged codes, for at most `share` of mu^2. `sigma` is the noise that a
    pair would have if it were measured, for those who measure pairs. How far pairs are from
    independence does not depend on it."""
    cliques = all_pairs(merged.domain, MAX_CANDIDATES, MAX_PAIR_CELLS)
    priors = PublicPriors(public, session, merged.codes)
    if not cliques:
        return ScreenedPairs([], priors, 0.0)
    estimates = merged.independent(cliques)
    weight = dict.fromkeys(cliques, 1.0)
    first = share * SCREENED_PAIRS
    mu = part_mu(session, first)
    label = "screening of pairs"
    released = session.distances(cliques, estimates, mu=mu, label=label, recode=merged.codes)
    noise = float(released.sigma[0])
    spent = first + priors.screen(estimates, weight, noise, first, "screening of public priors")
    scored = candidates(cliques, estimates, released.values.tolist(), sigma, merged.total, weight)
    return ScreenedPairs(
        priors.improved(scored, estimates, noise, sigma, merged.total), priors, spent
    )

"""Pairs chosen with public data: one look at how far every pair is from independence, and from its public
start (`publicstart`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._util.disjoint import DisjointSets
from ...domain import Clique, maximal
from ...model.grow import grow
from .looks import Candidate, candidates, forest
from .merged import MAX_CANDIDATES, Merged, all_pairs
from .publicstart import PublicStart, Starts
from .tree import MAX_PAIR_CELLS, Joining, part_mu

if TYPE_CHECKING:
    from ...domain import Domain
    from ...release.gateway import Session
    from .zeros import Zeros

LOOK = 0.5
"""Part of the choice's share of mu^2 that pays for distances from independence; distances from starts cost at
most the same again."""


@dataclass(frozen=True)
class PairsSeen:
    """All pairs as candidates, their starts, and the share of mu^2 that was `spent`."""

    pairs: list[Candidate]
    starts: Starts
    spent: float

    def strength(self, c: Candidate) -> float:
        """How far the pair is from independence, in rows, by the look."""
        return c.explained + c.distance

    def tree(self, domain: Domain, zeros: Zeros | None = None) -> list[Candidate]:
        """A maximum spanning forest; with constraints, of the pairs that `tree.Joining` allows."""
        ordered = sorted(self.pairs, key=lambda c: -self.strength(c))
        if zeros is None or not zeros.cliques:
            return forest(ordered, domain)
        joining = Joining(domain, zeros)
        return [c for c in ordered if joining.take(c.clique)]

    def outer(self, domain: Domain, ways: int, max_cells: int, zeros: Zeros | None = None) -> list[Clique]:
        """Marginals of up to `ways` columns, grown from the pairs whose start is believed, and the strongest
        of the other pairs that connect them; a column in no pair is a marginal by itself. With constraints
        only pairs, so that no cycle arises through the constraints."""
        if zeros is not None and zeros.cliques:
            chosen = [c.clique for c in self.tree(domain, zeros)]
            return [*chosen, *((a,) for a in domain if not any(a in p for p in chosen))]
        believed = {c.clique: self.strength(c) for c in self.pairs if c.explained > 0}
        grown = grow(domain, believed, ways, max_cells) if believed else []
        joined = DisjointSets(domain)
        for clique in grown:
            for a in clique[1:]:
                joined.merge(clique[0], a)
        rest = sorted(self.pairs, key=lambda c: -self.strength(c))
        pairs = [c.clique for c in rest if joined.merge(*c.clique)]
        alone: list[Clique] = [(a,) for a in domain if joined.size(a) == 1]
        return maximal([*grown, *pairs, *alone])


def look_at_pairs(
    session: Session, merged: Merged, start: PublicStart, share: float, sigma: float = 1.0
) -> PairsSeen:
    """Judges all pairs over merged codes, for at most `share` of mu^2. `sigma`: the noise that a pair would
    have if it were measured, for those who measure pairs; how far pairs are from independence does not depend
    on it."""
    cliques = all_pairs(merged.domain, MAX_CANDIDATES, MAX_PAIR_CELLS)
    starts = Starts(start, session, merged.codes)
    if not cliques:
        return PairsSeen([], starts, 0.0)
    estimates, weight = merged.independent(cliques), dict.fromkeys(cliques, 1.0)
    first = share * LOOK
    look = session.distances(
        cliques, estimates, mu=part_mu(session, first), label="look at pairs", recode=merged.codes
    )
    noise = float(look.sigma[0])
    spent = first + starts.look(estimates, weight, noise, first, "look at public starts")
    scored = candidates(cliques, estimates, look.values.tolist(), sigma, merged.total, weight)
    return PairsSeen(starts.improved(scored, estimates, noise, sigma, merged.total), starts, spent)

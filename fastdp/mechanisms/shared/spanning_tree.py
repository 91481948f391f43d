"""A spanning tree of pairs, chosen privately: the structure step of MST (McKenna, Miklau, Sheldon
2021).

Every pair of attributes is scored by the L1 distance of its marginal to the product of their noisy
1-ways, as if the two were independent. Kruskal's algorithm with a noisy choice: in each of d - 1
rounds the exponential mechanism picks among the pairs that still join two components.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np

from ..._util.disjoint import DisjointSets
from ...division import CHOICE_ONES
from ...domain import Clique, Cliques, Domain, Tables
from ...measurement import Measurement
from ...privacy.gdp import range_epsilon_from
from ...release.gateway import Session
from ...significance import onto_simplex
from ..limits.size_limits import MAX_PAIR_CELLS
from ..limits.structural_zeros import StructuralZeros
from .one_ways import estimate_total, independent, part_mu

NO_ZEROS = StructuralZeros()


def pair_shares(share: float) -> tuple[float, float]:
    """`share` of mu^2 as (1-ways to judge pairs by, choice of the tree)."""
    return share * CHOICE_ONES, share * (1 - CHOICE_ONES)


class ForestRule:
    """Which pairs may be taken so that pairs and constraints form no cycle.

    Columns that constraints connect count as connected. A pair within a clique of the constraints
    makes the model no larger. It may be taken as long as pairs do not connect its columns yet,
    unless one of its columns follows from the other.
    """

    def __init__(self, domain: Domain, zeros: StructuralZeros):
        self._domain = domain
        self._fixed = [frozenset(c) for c in zeros.cliques]
        self._settled = list(zeros.settled)
        self._links = [p for c in zeros.cliques for p in pairwise(c)]
        self._joined = DisjointSets(domain)
        self._measured = DisjointSets(domain)
        for a, b in [*self._links, *self._settled]:
            self._joined.merge(a, b)
        for a, b in self._settled:
            self._measured.merge(a, b)

    def _inside(self, pair: Clique) -> bool:
        return any(clique.issuperset(pair) for clique in self._fixed)

    def rounds(self, pairs: Cliques) -> int:
        """How many of the pairs can be taken in all; the number is the same for any order of taking
        them."""
        fixed_links = [*self._links, *self._settled]
        between = components(self._domain, fixed_links)
        between -= components(self._domain, [*pairs, *fixed_links])
        inside = [p for p in pairs if self._inside(p)]
        within = components(self._domain, self._settled)
        return between + within - components(self._domain, [*inside, *self._settled])

    def allows(self, pair: Clique) -> bool:
        a, b = pair
        free = not self._joined.connected(a, b)
        return free or (self._inside(pair) and not self._measured.connected(a, b))

    def take(self, pair: Clique) -> bool:
        """Take the pair if it may be taken."""
        if not self.allows(pair):
            return False
        a, b = pair
        self._joined.merge(a, b)
        self._measured.merge(a, b)
        return True

    def alone(self, name: str) -> bool:
        return self._joined.size(name) == 1


def spanning_tree(
    session: Session,
    ones: Sequence[Measurement],
    share: float,
    recode: Mapping[str, np.ndarray] | None = None,
    zeros: StructuralZeros = NO_ZEROS,
    model: Callable[[Cliques], Tables] | None = None,
) -> list[Clique]:
    """Pairs that connect the attributes, chosen with `share` of mu^2. A forest where the pairs that
    would connect it are too large. With `recode`, pairs and 1-ways are over the recoded columns.

    With constraints (`zeros`), only pairs that `ForestRule` allows. `model`: marginals of the pairs
    that scores are distances from; None: those of independent columns."""
    domain = session.domain.recoded(recode) if recode else session.domain
    total = estimate_total(ones)
    shape_of = {m.clique[0]: onto_simplex(m.values, total) for m in ones}
    pairs = [p for p in combinations(domain, 2) if domain.cells(p) <= MAX_PAIR_CELLS]
    estimates = independent(pairs, shape_of, total) if model is None else model(pairs)
    joining = ForestRule(domain, zeros)
    rounds = joining.rounds(pairs)
    chosen: list[Clique] = []
    for i in range(rounds):
        allowed = [k for k, pair in enumerate(pairs) if joining.allows(pair)]
        epsilon = range_epsilon_from(part_mu(session, share / rounds))
        label = f"pair {i + 1} of the tree"
        k = session.select_l1(
            pairs, estimates, epsilon=epsilon, allowed=allowed, label=label, recode=recode
        )
        joining.take(pairs[k])
        chosen.append(pairs[k])
    return [*chosen, *((a,) for a in domain if joining.alone(a))]


def components(domain: Domain, pairs: Cliques) -> int:
    """The number of connected components of the attributes under these pairs."""
    joined = DisjointSets(domain)
    for a, b in pairs:
        joined.merge(a, b)
    return joined.count

"""Cliques that form a junction tree by construction. Each attribute joins up to `ways` - 1
attributes of one existing clique: those with which its pairwise strengths add up to most. The
marginal keeps within `max_cells`."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from ..domain import Clique, Domain, maximal
from ..errors import UsageError


def grow(
    domain: Domain, strength: Mapping[Clique, float], ways: int, max_cells: int
) -> list[Clique]:
    """Cliques that form a junction tree by construction. Each attribute joins up to `ways` - 1
    attributes of one clique already there: those with which its pairwise strengths add up to most.
    The marginal keeps within `max_cells`. With ways=2 this is a maximum spanning tree (Chow and
    Liu)."""
    if ways < 1:
        raise UsageError(f"ways: outer marginals need at least 1 attribute, got {ways}")
    strength_of = {frozenset(p): s for p, s in strength.items()}

    def gain(name: str, group: Clique) -> float:
        return sum(strength_of.get(frozenset((name, a)), 0.0) for a in group)

    if ways == 1 or not strength_of:
        return [(a,) for a in domain]
    first = max(domain, key=lambda a: gain(a, tuple(b for b in domain if b != a)))
    cliques: list[Clique] = [(first,)]
    left = [a for a in domain if a != first]
    while left:
        pairs = [(a, group) for a in left for group in _groups(cliques, ways - 1)]
        able = [(a, group) for a, group in pairs if domain.cells(group) * domain[a] <= max_cells]
        scored = ((gain(a, group), -domain.cells(group), a, group) for a, group in able)
        best = max(scored, default=None, key=lambda found: found[:2])
        if best is None or best[0] <= 0:
            cliques += [(a,) for a in left]
            break
        _, _, name, group = best
        cliques.append((*group, name))
        left.remove(name)
    return maximal(cliques)


def _groups(cliques: Sequence[Clique], size: int) -> list[Clique]:
    groups = {
        frozenset(g): g for c in cliques for k in range(1, size + 1) for g in combinations(c, k)
    }
    return list(groups.values())

"""Options of an archetype model in a recipe: its columns and their order."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...domain import Clique, Domain
from ...errors import UsageError

MAX_CELLS = 1 << 26
"""Largest number of cells over the features; each cell gets a label."""

MAX_ARCHETYPES = 1000
"""The most archetypes; work grows with them."""
DEFAULT_ARCHETYPES = 10
"""Archetypes of users where a recipe does not say how many."""


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The column `target` is drawn given the columns `given`. If their combination does not occur
    in the public data, the sets of columns in `fallback` are tried in order, and finally no
    condition. None: the fallback is all features, then the features without the first, without the
    first two, and so on."""

    target: str
    given: tuple[str, ...]
    fallback: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self):
        if self.target in self.given:
            raise ValueError(f"chain: {self.target!r} cannot depend on itself")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`features`: columns whose standardised codes the mixture is fitted to; a user's archetype is
    the most common label of its rows. `trait`: a column with one value per user. `archetypes`:
    their number, or "auto" (chosen by the likelihood of held-out public users). `chain`: the other
    columns in the order in which they are drawn (None: each given the features). `habits`: the
    columns whose values are typical of a user (None: the features). `prior`: cliques of the public
    distribution that `refine` starts from (None: chosen by the associations in the public data)."""

    features: tuple[str, ...]
    trait: str | None = None
    archetypes: int | Literal["auto"] = DEFAULT_ARCHETYPES
    chain: tuple[Step, ...] | None = None
    habits: tuple[str, ...] | None = None
    prior: tuple[tuple[str, ...], ...] | None = None
    seed: int = 0

    def __post_init__(self):
        if not self.features:
            raise ValueError("features must name at least one column")
        if self.archetypes != "auto" and not 1 <= int(self.archetypes) <= MAX_ARCHETYPES:
            raise ValueError(f"archetypes must lie in 1..{MAX_ARCHETYPES}, or be 'auto'")

    def resolve(self, domain: Domain) -> Resolved:
        """The options with every column of the domain assigned, in the order of drawing; UsageError
        names a column that is not."""
        features = domain.check(self.features)
        if domain.cells(features) > MAX_CELLS:
            cells = domain.cells(features)
            raise UsageError(
                f"features: {', '.join(features)} have {cells} cells, the limit is {MAX_CELLS}"
            )
        made = [*features]
        if self.trait is not None:
            domain.check((self.trait,))
            if self.trait in features:
                raise UsageError(
                    f"trait: {self.trait!r} is also a feature, but a trait has one "
                    "value per user; name another column"
                )
            made.append(self.trait)
        chain = self.chain
        if chain is None:
            chain = tuple(Step(target=name, given=features) for name in domain if name not in made)
        links = []
        for step in chain:
            domain.check((step.target,))
            if step.target in made:
                raise UsageError(
                    f"chain: {step.target!r} is drawn twice, or is also a feature or the trait"
                )
            levels = _levels(step, features)
            for name in {n for level in levels for n in level}:
                if name not in made:
                    raise UsageError(
                        f"chain: {step.target!r} depends on {name!r}, which is drawn later "
                        "or not at all"
                    )
            links.append((step.target, levels))
            made.append(step.target)
        missing = [name for name in domain if name not in made]
        if missing:
            raise UsageError(f"chain: no step draws {', '.join(missing)}; add one for each")
        habits = features if self.habits is None else domain.check(self.habits)
        prior = None if self.prior is None else tuple(domain.check(c) for c in self.prior)
        return Resolved(features, self.trait, tuple(links), habits, prior)


class Resolved(msgspec.Struct, frozen=True):
    """`links`: (target, levels), the levels tried in order; the last is always ()."""

    features: Clique
    trait: str | None
    links: tuple[tuple[str, tuple[Clique, ...]], ...]
    habits: Clique
    prior: tuple[Clique, ...] | None


def _levels(step: Step, features: Clique) -> tuple[Clique, ...]:
    back = step.fallback
    if back is None:
        back = tuple(features[i:] for i in range(len(features)))
    return tuple(dict.fromkeys([tuple(step.given), *map(tuple, back), ()]))

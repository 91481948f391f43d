"""Division of a budget among marginals that minimises the total harm of noise.

Let noise of standard deviation sigma cost `harm * sigma`, where harm is the weight times the cells
that noise can affect. At a fixed sum of 1 / sigma^2, the sum over marginals is least with 1 /
sigma^2 in proportion to harm^(2/3) (Lagrange). Every marginal of a table has the same sensitivity,
so shares of mu^2 are shares of 1 / sigma^2."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def portion(harm: float) -> float:
    """The portion of a marginal, up to a factor that is the same for all: harm^(2/3)."""
    return harm ** (2 / 3)


def divided_by(harms: Mapping[Key, float]) -> dict[Key, float]:
    """Portions that add up to 1."""
    parts = {key: portion(harm) for key, harm in harms.items()}
    total = sum(parts.values())
    return {key: part / total for key, part in parts.items()}

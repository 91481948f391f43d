"""Mechanisms that choose their model's structure in the run and keep it within a limit on cells."""

from typing import Any, ClassVar

from ...domain import Cliques, Domain
from ..base import OnesFirst, Public
from ..limits import size_limits
from ..limits.model_size import LargestModel, fixed_size
from ..registry import Traits


class BoundedModelConfig(OnesFirst, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_cells`: the most cells of the junction tree. Where it is not set, it follows from
    `memory` (bytes) and `deadline` (seconds). These are public numbers: nothing is timed in the
    run."""

    traits: ClassVar[Traits] = Traits(max_cells_steps=None, for_linked=True)
    default_cells: ClassVar[int] = size_limits.DEFAULT_CELLS

    deadline: float | None = None

    def __post_init__(self):
        super().__post_init__()
        size_limits.check(self.memory, self.deadline)

    @property
    def limit(self) -> int:
        """Cells that the junction tree may have, from public facts."""
        return size_limits.model_cells(
            self.max_cells, self.memory, self.deadline, self.default_cells
        )

    @property
    def fit_limit(self) -> int | None:
        """None (no limit): `max_cells` already limits what is chosen, and what was chosen and
        charged is fitted whatever its size."""
        return None

    def limits_used(self) -> dict[str, Any]:
        return {"max_cells": self.limit, "memory": self.memory, "deadline": self.deadline}

    def largest_model(self, domain: Domain, public: Public | None, fixed: Cliques) -> LargestModel:
        """The larger of `max_cells`, within which marginals are chosen, and the 1-ways, which are
        always in the model. Cliques of constraints are always in it too, and must stay within
        `max_cells`."""
        limit = max(self.limit, sum(domain.values()))
        too_large = fixed_size(domain, [(a,) for a in domain], fixed, limit)
        return LargestModel(limit, False) if too_large is None else too_large

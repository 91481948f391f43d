"""Rules that a principle would put in place of a constant: to measure whether they lose by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from fastdp.domain import Clique
from fastdp.mechanisms.cliquetree.tree_state import CliqueTreeState
from fastdp.mechanisms.cliquetree.trends import FEW
from fastdp.mechanisms.shared.code_partitions import CODES
from fastdp.mechanisms.shared.one_ways import NOISE, effective_cells


def saves_an_error(self: CliqueTreeState, clique: Clique, estimate: np.ndarray) -> bool:
    """Groups save more noise of a marginal than the released distance has: what is less could not
    be told from it. In place of LEAST_SAVED."""
    if len(clique) > 2 or (clique, CODES) in self.held or not self.groups.coarsens(clique):
        return False
    sigma = self.sigma(math.fsum(self.plan.batches))
    fine, coarse = (
        effective_cells(t, sigma) for t in (estimate, self.groups.sums(clique, estimate))
    )
    error = math.sqrt(len(self.pairs) / (self.plan.screening * self.unit))
    return NOISE * sigma * (fine - coarse) > error


def gaining(affordable: Callable) -> Callable:
    """Trends of pairs alone whose whole distance is more than the noise of three groups by three:
    the gain of every other candidate."""

    def kept(
        distances: Mapping[Clique, float], share: float, unit: float, total: float
    ) -> tuple[list[Clique], float]:
        pairs, each = affordable(distances, share, unit, total)
        noise = NOISE * FEW * FEW / math.sqrt(max(each * unit, 1e-300))
        return [pair for pair in pairs if distances[pair] > noise], each

    return kept

"""Rules that a principle would put in place of a constant: to measure whether they lose by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from msgspec.structs import replace

from fastdp.domain import Clique
from fastdp.mechanisms.base import Job
from fastdp.mechanisms.cliquetree.budget_shares import Shares
from fastdp.mechanisms.cliquetree.clique_tree import CliqueTree, SingleColumns
from fastdp.mechanisms.cliquetree.tree_state import CliqueTreeState
from fastdp.mechanisms.cliquetree.trends import FEW
from fastdp.mechanisms.shared.one_ways import NOISE, effective_cells, noise_tv
from fastdp.mechanisms.shared.screening import ScreeningResult, affordable_batch, worthwhile
from fastdp.release.gateway import Session

from . import before

PARTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Parts of what is left after the first screening round that the 1-ways may get."""


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


def least_ones(shares: Callable) -> Callable:
    """1-ways get their least share before the first screening round, and nothing is held open."""

    def divided(columns: int, rest: float, noise_ratio: float = 0.0, *more, **named):
        return shares(columns, rest, 0.0, *more, **named)

    return divided


def decided_by_errors(
    self: CliqueTree, session: Session, job: Job, columns: SingleColumns, state: CliqueTreeState
) -> tuple[SingleColumns, CliqueTreeState]:
    """1-ways against pairs by formula, in place of NOISE_RATIO and what is open: of
    what the first screening round leaves, the 1-ways get the part with the least expected error of
    all pairs."""
    if not state.pairs or not columns.plan.batches:
        return columns, state
    screened = state.screen(0)
    result = before.denoised(screened, state.merged.total)
    free = math.fsum(columns.plan.batches)
    part = min(PARTS, key=lambda p: expected_error(state, result, columns.plan, p * free, free))
    if part > 0:
        left = tuple(share * (1 - part) for share in columns.plan.batches)
        columns = replace(columns, plan=replace(columns.plan, batches=left))
        columns = columns.measured_again(session, part * free, "1-ways once more")
    return columns, self.tree(session, job, columns, screened)


def expected_error(
    state: CliqueTreeState, result: ScreeningResult, plan: Shares, more: float, free: float
) -> float:
    """The L1 error of all pairs, in rows, if 1-ways get the share `more` of mu^2 and the best batch
    the rest of `free`.

    A measured pair has the noise of its cells. Another one has what it is off now, without the part
    that noise of its 1-ways explains, and the noise that these then have. Measured pairs say
    something about their columns too."""
    merged = state.merged
    share = free - more
    about = state.sigma(share)
    good = worthwhile(state.scored(result, about, about), about, about)
    precision = share * state.unit
    batch = affordable_batch(good, [], 0.0, precision)
    portions = math.fsum(c.portion for c in batch)
    scale = math.sqrt(plan.ones / (plan.ones + more))
    now = {m.clique[0]: 2 * merged.total * noise_tv(m, merged.total) for m in merged.ones}
    then = {m.clique[0]: 2 * merged.total * noise_tv(m, merged.total, scale) for m in merged.ones}
    variance = {m.clique[0]: scale**2 * float(np.mean(m.variances)) for m in merged.ones}
    known = dict.fromkeys(then, 1.0)
    measured = {}
    for c in batch:
        sigma = math.sqrt(portions / (c.portion * precision))
        measured[c.clique] = c.weight * math.hypot(c.noise(sigma), c.within)
        for a in c.clique:
            cells = max(1.0, effective_cells(merged.ones_shape[a], math.sqrt(variance[a])))
            known[a] += variance[a] * cells / (sigma**2 * c.cells)
    error = math.fsum(measured.values())
    for clique, distance, weight in zip(result.cliques, result.distances, result.weights):
        if clique not in measured:
            off = max(0.0, distance**2 - sum(now[a] ** 2 for a in clique))
            noise = sum(then[a] ** 2 / known[a] for a in clique)
            error += weight * math.sqrt(off + noise)
    return error

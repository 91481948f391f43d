"""From noisy numbers of users to counts: sums over T, and estimates that reduce the effect of
noise.

Everything here is post-processing of released answers and works on the cells asked about only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...model.table_ops import Margin, rake
from ...significance import drawn_towards, spread_beyond_noise

SWEEPS = 4
"""Passes of raking over the margins of a table of counts."""
LEAST_VARIANCE = 1e-9
"""No smaller variance of an answer is believed."""


def collapse(values: np.ndarray, at: np.ndarray, t: np.ndarray, groups: int) -> np.ndarray:
    """Rows of every group: the sum over T of T times the users."""
    return np.bincount(at, weights=values * t, minlength=groups)


def shrink(
    answers: np.ndarray, variance: float | np.ndarray, prior: np.ndarray, poisson: float = 1.0
) -> np.ndarray:
    """Bayes linear estimate of counts whose noisy answers have this variance, given their prior
    means.

    A count varies around its prior mean p with variance `poisson` p + rho p^2. The ratio rho >= 0
    is the same for all: the likeliest one. Never negative.
    """
    square = prior * prior
    known = np.maximum(variance + poisson * prior, LEAST_VARIANCE)
    rho = spread_beyond_noise(answers - prior, known, square) if square.any() else 0.0
    own = poisson * prior + rho * square
    return np.maximum(drawn_towards(prior, answers, variance, own), 0.0)


def rates(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Expected counts by public data: the public counts, shrunk toward the prior means to reduce
    their Poisson noise. Above 0 if the prior means are."""
    return shrink(counts, prior, prior, poisson=0.0)


class Level(Struct, frozen=True, eq=False):
    """Totals over the groups asked about, by some columns: `groups` their cell numbers, `at` the
    total that each group adds to, `codes` of the totals in each column; `answers` to them and their
    variance, where they were measured."""

    columns: tuple[str, ...]
    groups: np.ndarray
    at: np.ndarray
    codes: tuple[np.ndarray, ...]
    answers: np.ndarray | None = None
    variance: float = math.inf

    def measured(self, answers: np.ndarray, variance: float) -> Level:
        return replace(self, answers=answers, variance=variance)

    def expected(self, public: np.ndarray) -> np.ndarray:
        """Totals to expect by the public number of people in each group."""
        counts = np.bincount(self.at, weights=public, minlength=len(self.groups))
        ones = [(c, np.bincount(c, weights=counts) + 0.5) for c in self.codes]
        total = counts.sum()
        margins = [(c, m * (total / m.sum())) for c, m in ones]
        return rates(counts, rake(np.ones(len(counts)), margins, SWEEPS))

    def estimate(self, fine: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
        """(totals, variances): what was measured and what the groups add up to, weighted by
        precision.

        A user counts once in a total and once in each group of it, so what was measured is first
        brought to the groups' sum.
        """
        size = len(self.codes[0])
        summed = np.bincount(self.at, weights=fine, minlength=size)
        around = np.bincount(self.at, minlength=size) * variance
        if self.answers is None:
            return summed, around
        factor = max(1.0, float(fine.sum())) / max(1.0, float(self.answers.sum()))
        own = self.variance * factor**2
        return (summed * own + self.answers * factor * around) / (own + around), own * around / (
            own + around
        )


def hierarchy(
    fine: np.ndarray, variance: float, levels: Sequence[Level], public: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(counts, their variances) of the groups from their own answers and those of the levels above,
    consistent.

    Each level is shrunk toward independence of its columns and made to agree with the levels before
    it. The product of the levels (raking from uniform) is the prior of the groups, toward which
    their answers are shrunk. Last, the groups are raked to the levels, so that places and months
    add up to the levels' estimates. With people per group in `public` data (not all 0), both priors
    are raked from the counts that these let one expect, instead of from uniform.
    """
    margins: list[Margin] = []
    done: list[tuple[Level, np.ndarray]] = []
    total = max(1.0, float(fine.sum()))
    start = [np.ones(len(lv.groups)) if public is None else lv.expected(public) for lv in levels]
    poisson = 1.0 if public is None else 1 + total / float(public.sum())
    for level, first in zip(levels, start, strict=True):
        totals, around = level.estimate(fine, variance)
        ones = [(c, np.maximum(np.bincount(c, weights=totals), 0.5)) for c in level.codes]
        ones = [(c, m * (total / m.sum())) for c, m in ones]
        shared = [_shared(level, other, estimate) for other, estimate in done]
        agreed = [m for m in shared if m is not None]
        prior = rake(first, [*ones, *agreed], SWEEPS)
        estimate = shrink(totals, around, prior, poisson)
        estimate = rake(
            estimate, agreed or [(np.zeros(len(estimate), np.int64), np.array([total]))], SWEEPS
        )
        done.append((level, estimate))
        margins.append((level.at, estimate))
    prior = np.ones(len(fine))
    if public is not None:
        seen = [(lv.at, first) for lv, first in zip(levels, start, strict=True)]
        prior = rates(public, rake(prior, seen, SWEEPS))
    prior = rake(prior, margins, SWEEPS)
    estimate = rake(shrink(fine, variance, prior), margins, SWEEPS)
    return estimate, prior * variance / (prior + variance)


def _shared(level: Level, other: Level, estimate: np.ndarray) -> Margin | None:
    """What the `other` level's estimate says about the columns both have, as a margin of this
    one."""
    both = [c for c in level.columns if c in other.columns]
    if not both:
        return None
    here, there = ([lv.codes[lv.columns.index(c)] for c in both] for lv in (level, other))
    sizes = [
        1 + max(int(a.max(initial=0)), int(b.max(initial=0)))
        for a, b in zip(here, there, strict=True)
    ]
    at, from_at = (np.ravel_multi_index(codes, sizes) for codes in (here, there))
    return at, np.bincount(from_at, weights=estimate, minlength=math.prod(sizes))


def hold_back(
    counts: np.ndarray, variance: np.ndarray, block: np.ndarray, share: float, rate: float
) -> np.ndarray:
    """Counts that are at least `share` of their block stay only if the true count is that large
    with probability at least 1 - rate. Otherwise they are set just below that share. By a normal
    approximation whose variance is the one passed in plus that of a Poisson count."""
    total = np.bincount(block, weights=counts)[block]
    from scipy.special import ndtr

    chance = ndtr((counts - share * total) / np.sqrt(variance + counts * (1 - share) + 1e-9))
    below = np.maximum(np.ceil(share * total) - 1, 0)
    return np.where(chance >= 1 - rate, counts, np.minimum(counts, below))


def round_to_total(counts: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Whole numbers that add up to each block's rounded total: the largest remainders are rounded
    up (ties by position)."""
    floor = np.floor(counts)
    rest = counts - floor
    need = np.rint(np.bincount(block, weights=counts)) - np.bincount(block, weights=floor)
    order = np.lexsort((np.arange(len(counts)), -rest, block))
    starts = np.concatenate([[0], np.cumsum(np.bincount(block))])
    rank = np.empty(len(counts), np.int64)
    rank[order] = np.arange(len(counts)) - starts[block[order]]
    return (floor + (rank < need[block])).astype(np.int64)


def to_total(counts: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to the counts that add up to `total` (all 0 if nothing is
    counted)."""
    now = int(counts.sum())
    if now == 0:
        return np.zeros(len(counts), np.int64)
    return round_to_total(counts * (total / now), np.zeros(len(counts), np.int64))

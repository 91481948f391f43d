"""How a run of `cliquetree` divides its budget: 1-ways, screening rounds, batches."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from ...division import (
    MOST_FIRST,
    NOISE_RATIO,
    ONES_PER_DOUBLING,
    OTHER_PARTS,
    QUESTION,
    SCREENING,
)

LEAST_AGAIN = 0.001
"""1-ways are not measured again for a smaller share of mu^2: they would only get noise, and shares
at rounding level cannot be calibrated."""


class Shares(Struct, frozen=True):
    """Shares of mu^2.

    ones, again, open : the 1-ways; measuring them again; and once more after the first screening round,
        of which pairs may then get a part (`decided`)
    screening, batches : each screening round; the batch after each
    report, final : errors of a workload's items; distances of the finished model
    """

    ones: float
    again: float
    screening: float
    batches: tuple[float, ...]
    report: float = 0.0
    open: float = 0.0
    final: float = 0.0

    def after_ones(self, spent: float) -> Shares:
        """The shares once the 1-ways have cost `spent`. What was planned for them beyond it goes to
        the batches, or, without any, to measuring them again."""
        more = self.ones - spent
        if not self.batches:
            return replace(self, ones=spent, again=self.again + more)
        raised = 1 + more / math.fsum(self.batches)
        return replace(self, ones=spent, batches=tuple(share * raised for share in self.batches))

    def decided(self, part: float) -> Shares:
        """The shares once the first screening round says which `part` of the columns pairs account
        for. That part of `open` goes to the batches, each in proportion; all else stays."""
        moved = self.open * part / math.fsum(self.batches)
        return replace(
            self,
            open=self.open * (1 - part),
            batches=tuple(share * (1 + moved) for share in self.batches),
        )


def shares(
    columns: int,
    rest: float,
    noise_ratio: float = 0.0,
    rounds: int = 3,
    workload: bool = False,
    spent: float | None = None,
) -> Shares:
    """How `rest` of mu^2 is divided. `noise_ratio` is available only after the first 1-ways, which
    do not depend on it; `spent` is then what they took. `rounds`: the number of screening rounds.

    1-ways are measured up to three times: first, then again before the first screening round, and once
    more after it. They get at most (n - 1) / (n + 1) of what screening leaves, since a 1-way of n columns
    serves n - 1 pairs."""
    report = rest * QUESTION if workload else 0.0
    final = rest * QUESTION if columns > 1 else 0.0
    rest -= report + final
    if columns == 1:
        return Shares(ones=rest, again=0.0, screening=0.0, batches=(), report=report)
    parts = columns / (columns + OTHER_PARTS)
    first = min(MOST_FIRST, parts) if spent is None else spent / rest
    third = min(_ones_wanted(noise_ratio), (1 - SCREENING) * (columns - 1) / (columns + 1))
    second = max(first, min(third, MOST_FIRST))
    if second - first <= LEAST_AGAIN:
        second = first
    if third - second <= LEAST_AGAIN:
        third = second
    for_batches = rest * (1 - third - SCREENING)
    return Shares(
        ones=rest * first,
        again=rest * (second - first),
        open=rest * (third - second),
        screening=rest * SCREENING / rounds,
        batches=(for_batches / rounds,) * rounds,
        report=report,
        final=final,
    )


def _ones_wanted(noise_ratio: float) -> float:
    """The share of mu^2 that 1-ways should have in all: the more noise distorts them, the more."""
    return ONES_PER_DOUBLING * math.log2(max(noise_ratio, 1e-9) / NOISE_RATIO)

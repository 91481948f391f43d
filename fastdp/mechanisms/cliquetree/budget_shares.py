"""How a run of `cliquetree` divides its budget: 1-ways, screening rounds, batches."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from ...division import (
    FEW_ROUNDS,
    FINAL,
    LEAST_ONES,
    MOST_FIRST,
    MOST_ONES,
    NOISE_RATIO,
    ONES_PER_COLUMN,
    ONES_PER_DOUBLING,
    SCREENING,
    TEST,
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
    rounds: int | None = None,
    workload: bool = False,
    spent: float | None = None,
) -> Shares:
    """How `rest` of mu^2 is divided. `noise_ratio` is available only after the first 1-ways, which
    do not depend on it; `spent` is then what they took. `rounds`: the number of screening rounds,
    if it is fixed.

    1-ways are measured up to three times: first, then again before the first screening round, and once
    more after it."""
    report = rest * TEST if workload else 0.0
    final = rest * FINAL if columns > 1 else 0.0
    rest -= report + final
    if columns == 1:
        return Shares(ones=rest, again=0.0, screening=0.0, batches=(), report=report)
    first = _first_ones(columns) if spent is None else spent / rest
    serves = (columns - 1) / (columns + 1)
    third = min(_ones_wanted(noise_ratio), MOST_ONES, serves)
    second = max(first, min(third, MOST_FIRST, serves))
    if second - first <= LEAST_AGAIN:
        second = first
    if third - second <= LEAST_AGAIN:
        third = second
    count = rounds or (2 if noise_ratio >= FEW_ROUNDS else 3)
    for_batches = rest * (1 - third - SCREENING)
    return Shares(
        ones=rest * first,
        again=rest * (second - first),
        open=rest * (third - second),
        screening=rest * SCREENING / count,
        batches=(for_batches / count,) * count,
        report=report,
        final=final,
    )


def _first_ones(columns: int) -> float:
    """The share of mu^2 of the first 1-ways, which depends on no answer."""
    return min(MOST_FIRST, max(LEAST_ONES, ONES_PER_COLUMN * columns))


def _ones_wanted(noise_ratio: float) -> float:
    """The share of mu^2 that 1-ways should have in all: the more noise distorts them, the more."""
    return ONES_PER_DOUBLING * math.log2(max(noise_ratio, 1e-9) / NOISE_RATIO)

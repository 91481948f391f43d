"""How a run of `cliquetree` divides its budget: 1-ways, screening rounds, batches."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from ...division import (
    BATCHES,
    FEW_ROUNDS,
    FINAL,
    LEAST_ONES,
    MOST_FIRST,
    MOST_ONES,
    NOISE_RATIO,
    ONES_PER_COLUMN,
    REPORT,
    SCREENING,
    WORKLOAD_BATCHES,
    WORKLOAD_ONES,
)

LEAST_AGAIN = 0.001
"""1-ways are not measured again for a smaller share of mu^2: they would only get noise, and shares
at rounding level cannot be calibrated."""


class Shares(Struct, frozen=True):
    """Shares of mu^2. `ones`: the 1-ways; `again`: measuring them again; `open`: once more after
    the first screening round. `screening`: each screening round; `batches`: the batch after each.
    `report`: errors of a workload's items; `final`: distances of the finished model."""

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
    if it is fixed."""
    report = rest * REPORT if workload else 0.0
    final = rest * FINAL if columns > 1 else 0.0
    rest -= report + final
    first = min(
        MOST_FIRST, max(WORKLOAD_ONES if workload else LEAST_ONES, ONES_PER_COLUMN * columns)
    )
    if columns == 1:
        return Shares(rest, 0.0, 0.0, (), report)
    first = first if spent is None else spent / rest
    ones = min(MOST_ONES, 0.2 + 0.19 * math.log2(max(noise_ratio, 1e-9) / NOISE_RATIO))
    count = rounds or (2 if noise_ratio >= FEW_ROUNDS else 3)
    even = (0.3, *[0.7 / (count - 1)] * (count - 1)) if count > 1 else ()
    split = (WORKLOAD_BATCHES if workload else BATCHES).get(count, even)
    before = max(first, min(ones, MOST_FIRST, (columns - 1) / (columns + 1)))
    before = before if before - first > LEAST_AGAIN else first
    ones = ones if ones - before > LEAST_AGAIN else before
    left = rest * (1 - ones - SCREENING)
    screening = rest * SCREENING / count
    batches = tuple(left * s for s in split)
    again = rest * (before - first)
    later = rest * (ones - before)
    return Shares(rest * first, again, screening, batches, report, later, final)

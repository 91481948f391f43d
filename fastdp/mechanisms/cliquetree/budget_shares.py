"""How a run of `cliquetree` divides its budget: 1-ways, screening rounds, batches."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

# Constants, chosen on adult, ma2019, the coded taxi table and generated tables
# (docs/explain/cliquetree.md).
ONES_PER_COLUMN = 0.013
"""Share of mu^2 per column that the first measurement of the 1-ways gets, at least LEAST_ONES and at
most MOST_FIRST."""
LEAST_ONES = 0.1
"""The smallest share of mu^2 that the first measurement of the 1-ways gets."""
MOST_FIRST = 0.55
"""The largest share of mu^2 that 1-ways get before the first screening round. A second measurement
may raise their share to this. For n columns it is at most (n - 1) / (n + 1), since a 1-way serves n
- 1 pairs."""
MOST_ONES = 0.75
"""The largest share of mu^2 that 1-ways get in all. They are measured once more after the first
screening round, as far as pairs do not account for the columns anyway (`screening.accounted`)."""
LEAST_AGAIN = 0.001
"""1-ways are not measured again for a smaller share of mu^2: they would only get noise, and shares
at rounding level cannot be calibrated."""
NOISE_RATIO = 0.0033
"""The noise ratio is the mean total variation that noise would cause in the 1-ways if they got the
whole budget (`one_ways.noise_ratio`). At this ratio the 1-ways get a share of 0.2, and 0.19 more
with every doubling."""
FEW_ROUNDS = 0.008
"""At this noise ratio or above there are two screening rounds, below it three."""
SCREENING_SHARE = 0.05
"""Share of mu^2 that pays for all screening rounds together."""
REPORT_SHARE = 0.002
"""Share of mu^2 that a run with a workload spends on distances of the finished model from each
item."""
FINAL_SHARE = 0.01
"""Share of mu^2 that pays for distances of the finished model from all pairs that were not
measured. Errors of the model grow by about half of it; without them nothing could be said about
these pairs (docs/guide/answers.md)."""
BATCHES = {1: (1.0,), 2: (0.45, 0.55), 3: (0.3, 0.35, 0.35)}
WORKLOAD_ONES = 0.2
"""Least share of the 1-ways in a run with a workload: only they tell rare values apart."""
WORKLOAD_BATCHES = BATCHES | {3: (0.2, 0.3, 0.5)}
"""With a workload the last batch gets most, since the larger sets of a workload are measured late.
"""


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
    report = rest * REPORT_SHARE if workload else 0.0
    final = rest * FINAL_SHARE if columns > 1 else 0.0
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
    left = rest * (1 - ones - SCREENING_SHARE)
    screening = rest * SCREENING_SHARE / count
    batches = tuple(left * s for s in split)
    again = rest * (before - first)
    later = rest * (ones - before)
    return Shares(rest * first, again, screening, batches, report, later, final)

"""Infers facts of a column from noisy counts: which cells hold rows, whether its numbers fill a
range of the calendar or are clock times. Also the step of times, and the digits of numbers.

Everything here is post-processing of released counts and of public facts. A partition is an
increasing array of edges; cell i holds the values in [edges[i], edges[i+1]). counts: noisy numbers
of rows, one per cell. sigma: the standard deviation of the noise of one count.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ..privacy.clip import noise_bound
from ..schema.transforms import CLOCK_STEPS, MIDNIGHT
from ..significance import LIKELY, SURE

Array = np.ndarray
FEW = 0.01
"""Share of the rows that may have more digits than the column is written with, or lie on a finer
step of the clock."""
LOUD = 0.2
"""Digits are decided only where their noise is less than this share of the rows."""
LOUD_STEP = 0.5
"""The step of times is decided only where its noise is less than this share of the rows."""
CALENDAR = ((0, 6), (1, 7), (1, 12), (0, 23), (1, 31), (0, 59))
"""Ranges that whole numbers often fill: days of the week, months, hours, days of the month,
minutes. They are public. A column that lies in one of them has all of its numbers as codes, so none
is clamped."""
CALENDAR_CELLS = np.array([-math.inf, 0, 1, 2, 5, 7, 8, 10, 13, 20, 24, 32, 50, 60, 100, math.inf])
"""The partition that distinguishes these ranges: the first partition, and where each of them ends.
"""
MOST_CALENDAR = max(high - low + 1 for low, high in CALENDAR)
OTHERS = 0.12
"""A column is read as clock times only where the noise is less than this share of its rows. Of
evenly spread numbers, 0.4 have last digits above 59; of clock times, none."""
UPPER = 0.2
"""A column fills a range of CALENDAR if at least this share of its rows lies in the upper half of
the range. Numbers that become rarer as they grow (children, purchases) do not."""


def calendar_edges(counts: Array, sigma: float, most: int) -> list[float] | None:
    """Edges of one cell per number, for the narrowest range of CALENDAR that a column fills; None
    if it fills none. counts: by CALENDAR_CELLS. most: the most numbers that the range may have."""
    edges = CALENDAR_CELLS
    alive = occupied_cells(counts, sigma)
    filled: list[tuple[tuple[int, int], Array]] = []
    for low, high in CALENDAR:  # the narrowest first
        cells = (edges[:-1] >= low) & (edges[1:] <= high + 1)
        upper = cells & (edges[:-1] >= (low + high) / 2)
        held = float(counts[cells].sum())
        if high - low >= most or not alive.any() or alive[~cells].any():
            continue
        if held > noise_bound(len(counts)) * sigma and counts[upper].sum() >= UPPER * held:
            filled.append(((low, high), cells))
    for (low, high), cells in filled:
        rivals = [(counts[c].sum() - counts[cells].sum(), (c != cells).sum()) for _, c in filled]
        if all(more <= LIKELY * sigma * math.sqrt(differ) for more, differ in rivals):
            return [float(v) for v in range(low, high + 2)]
    return None


def step_of(counts: Array, sigma: float) -> int:
    """The step of times, in seconds. counts[i]: rows whose coarsest grid is CLOCK_STEPS[i]."""
    if counts[0] - SURE * sigma > MIDNIGHT * float(counts.sum()):
        return CLOCK_STEPS[0]
    found = digits_of(counts, sigma, LOUD_STEP)
    return 1 if found is None else CLOCK_STEPS[found]


def is_clock(hours: Array, other: float, sigma: float) -> bool:
    """Whether numbers are clock times written as HHMM. hours: rows of each hour, 0 to 24. other:
    rows that cannot be clock times (minutes above 59).

    There must be next to no others, and the two largest hours must hold less than half of the rows.
    Of numbers such as years, two hours hold all rows: 1950 and 2020 have the "hours" 19 and 20.
    """
    total = float(hours.sum()) + other
    spread = float(np.sort(hours)[-2:].sum()) < total / 2
    return spread and other < max(SURE * sigma, FEW * total) < OTHERS * total


def digits_of(counts: Array, sigma: float, most: float = LOUD) -> int | None:
    """The smallest number of digits after the point that almost no rows exceed: a share below FEW, or
    below the noise. counts[d] has the rows with d digits; the last cell holds all that have more.

    None if many rows are in the last cell, or if the noise is more than a share `most` of the rows.
    `step_of` uses it for steps of times.
    """
    beyond = np.cumsum(counts[::-1])[::-1]
    total = float(beyond[0])
    for digits in range(len(counts) - 1):
        noise = SURE * sigma * math.sqrt(len(counts) - 1 - digits)
        if noise < most * total and beyond[digits + 1] < max(noise, FEW * total):
            return digits
    return None


def occupied_cells(counts: Array, sigma: float) -> Array:
    """A mask of the cells that hold rows beyond the noise. Cells with few rows may be missed.

    Dyadic scan: mark the most significant part of each significant run. Runs are aligned and have
    2^k cells; cells that a shorter run has marked are left out of longer ones.
    """
    bar = noise_bound(len(counts))
    size = 1
    alive = np.zeros(len(counts), bool)
    sums = np.concatenate([counts, np.zeros((1 << (len(counts) - 1).bit_length()) - len(counts))])
    rest = np.ones(len(sums))
    while True:
        high = sums > bar * sigma * np.sqrt(rest)
        for i in np.flatnonzero(high & (rest > 0)):
            own = slice(i * size, (i + 1) * size)
            upto = np.append(0.0, np.cumsum(np.where(alive[own], 0.0, counts[own])))
            apart = np.arange(len(upto)) - np.arange(len(upto))[:, None]
            clear = np.where(apart > 0, upto - upto[:, None], 0.0) / np.sqrt(np.maximum(apart, 1))
            alive[own][slice(*np.unravel_index(np.argmax(clear), clear.shape))] = True
        if len(sums) == 1:
            return alive
        sums, rest = (np.where(high, 0.0, x).reshape(-1, 2).sum(1) for x in (sums, rest))
        size *= 2


def leading_sparse_cells(counts: Array, noise: float, few: float, most: float = math.inf) -> int:
    """How many leading cells can be cut off, because together they hold few rows: at most `few`
    plus an allowance for noise. For n cells that is `noise` times the root of n, but at most
    `most`. 0 if all cells could be cut off."""
    allowed = few + np.minimum(noise * np.sqrt(np.arange(1, len(counts) + 1)), max(0.0, most))
    beyond = np.flatnonzero(np.cumsum(counts) > allowed)
    return int(beyond[0]) if len(beyond) else 0


def reconciled_counts(
    coarse: Array, above: Array, sigma_above: float, fine: Array, counts: Array, sigma: float
) -> Array:
    """Counts of the partition `fine`, corrected by counts of another partition of the same column.

    coarse, above, sigma_above: that partition, its counts and their noise. fine, counts, sigma: the
    same of the partition to correct.

    Between two neighbouring edges that both partitions have, all fine counts are shifted by the
    same amount. Their sum becomes the average of both partitions' sums, weighted by inverse
    variance.
    """
    out = np.array(counts, np.float64)
    starts = np.searchsorted(fine, coarse)
    shared_edges = [i for i, s in enumerate(starts) if s < len(fine) and fine[s] == coarse[i]]
    for a, b in pairwise(shared_edges):
        place = slice(starts[a], starts[b])
        cells = starts[b] - starts[a]
        own = cells * sigma**2
        other = (b - a) * sigma_above**2
        out[place] += (above[a:b].sum() - out[place].sum()) * own / (own + other) / cells
    return out

"""Noisy sums inside bins: from them come the means to which decoded values keep, and shared ranks.

A column is counted by a finer partition: every bin of more than one value is cut into up to `PARTS`
cells. A bin has two *corners*, its least and its largest number. A wide bin at an end of the line
has further corners in between, at distances that double. So its sum has the noise of the corners
that rows are near to, not that of its bound. A cell lies between two corners of its bin. It has a
public offset o in 0..U, its place between them (U: UNIT or, at much noise, a smaller power of two).
One number is asked of each corner. It is the sum over rows of weight * (U - o) where the corner is
the lower one of the two, and of weight * o where it is the upper one.

Sensitivity. A row lies in one cell of a column, so it adds weight * (U - o, o) to two numbers. (U -
o)^2 + o^2 <= U^2, since 0 <= o <= U. Its vector has L2 norm at most weight * U. The weights of one
user's rows add up to at most the clip. So, by the triangle inequality, the column's answers,
divided by U, change by at most the clip in L2. `marginal_plan.plan_marginal` checks the norm of every
column of the query in exact integers. Several columns are several requests: their mu^2 add up. An
open bin reaches to the column's `min` or `max`, or to an edge that the run released. Without such a
bound nothing is asked of it, and no value of the data sets a bound.

Steps: of each column the rows in asked bins are counted by public classes of round numbers
(`ROUND_NUMBERS`); a row lies in one class. Ranks: of two columns the sum of weight * d * e is asked, where
d and e in [-1, 1] are the distances from the means that were released. One number, of at most the
clip per user.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations, pairwise

import numpy as np
from msgspec import Struct

from .._util.lazy import sp
from ..measurement import SCALE, Measurement, Request
from ..queries import Sparse
from ..schema.bins import bins_of
from ..schema.columns import OWN_CODE, Policy
from ..schema.kinds.numeric import Numeric
from ..schema.kinds.places import Places
from ..schema.within_bin import Grid, Rank, takes_steps, unit_of
from ..significance import SURE, drawn_towards

PARTS = 32
"""A bin of more than one value is cut into at most this many parts."""
UNIT = 64
"""Offsets between the ends of a part are whole numbers from 0 to UNIT. See the module's text."""
LARGEST = 2.0**39
"""Nothing is asked with noise of more grid units than this, about half of what `privacy.scale`
draws."""
SPREAD = 0.15
"""Standard deviation of a bin's mean, in widths of the bin, before it is measured: uncertain means
are drawn towards the middle. Means of 32 equally frequent bins of exponential, lognormal and normal
columns differ by .01 to .2 from the middle."""
SHAPES = {0.0: 0.4, 0.25: 0.3, 0.5: 0.2, 0.75: 0.1}
"""Generalised Pareto shapes that tails are expected to have (0: exponential), with their
probabilities."""
LENGTH = 2**-0.5
"""The expected scale of a tail, in widths of the next bin."""
LENGTHS = 0.7
"""Standard deviation of the logarithm of that scale. SHAPES, LENGTH, LENGTHS, MISFIT and FAR were
chosen on generated tails of 3 to 1,000 standard errors of rows: exponential, gamma, normal, uniform,
lognormal (spread 1 to 2) and Pareto (index 1.2 and 2). Among them are the shapes of taxi fares and
of the sales in `bench.numbers`. At 7, 20, 100 and 1,000 standard errors the mean of a tail is off
by .28, .18, .06 and .02."""
MISFIT = 0.5
"""A corner's rows differ from the fitted tail by about this share of them."""
FAR = 4.5
"""An answer that is further off than this many standard errors is taken as it is."""
ROUND_NUMBERS = {
    Decimal(1): (Grid(10), Grid(10, 5)),
    Decimal("0.01"): (Grid(1, 0.99), Grid(1, 0.95), Grid(1, 0.5), Grid(1), Grid(1, 0.49)),
}
"""By a column's last digit, the classes of round numbers whose shares are counted: multiples of 10
and of 5; prices."""
LEVELS = 5
"""Distances from the mean are counted in halves of a half bin, from -1 to 1. Evenly spread values
that are equal in both columns have a mean product of 3/8 of its largest value."""
MIN_CORRELATION = 0.1
"""The smallest correlation at which two columns share a rank."""
MIN_CLASS_EXCESS = 0.1
"""A class of round numbers is kept if it has this share more rows than evenly spread values."""
MIN_CLASS_SHARE = 0.025
"""The smallest share of all rows that a class of round numbers is kept for."""


class Cells(Struct, frozen=True, eq=False):
    """The finer partition of a column: `column` is what is counted. By its code, `corner` is the
    number of the lower corner (-1 if nothing is asked), and `offset` the place between it and the
    next one. By corner, `bin` and the number `at`. `size`: number of bins."""

    column: Numeric
    corner: np.ndarray
    offset: np.ndarray
    bin: np.ndarray
    at: np.ndarray
    size: int

    def query(self, unit: int = UNIT) -> Sparse:
        """One row for each corner."""
        cells = np.flatnonzero(self.corner >= 0)
        row = self.corner[cells]
        up = np.rint(self.offset[cells] * unit)
        entries = (
            np.concatenate([unit - up, up]),
            (np.concatenate([row, row + 1]), np.tile(cells, 2)),
        )
        return Sparse(sp.csr_array(entries, shape=(len(self.bin), self.column.size)), unit)

    def means(self, answer: Measurement) -> tuple[np.ndarray, np.ndarray]:
        """(mean number of each bin, its noisy rows); (nan, 0) in bins that were not asked about."""
        values = answer.values / answer.query.unit
        sigma = float(np.max(answer.sigma)) / answer.query.unit
        mean = np.full(self.size, np.nan)
        counted = np.zeros(self.size)
        for code in np.unique(self.bin):
            own = np.flatnonzero(self.bin == code)
            own = own if code else own[::-1]
            distance = np.abs(self.at[own] - self.at[own[0]])
            parts = values[own]
            if len(own) > 2:
                outwards, rows = tail_mean(distance, parts, sigma)
            else:
                rows = max(float(parts.sum()), sigma)
                apart = float(parts[1] - parts[0]) / 2 / rows
                place = 0.5 + float(drawn_towards(0.0, apart, sigma**2 / 2 / rows**2, SPREAD**2))
                outwards = min(max(place, 0.0), 1.0) * distance[1]
            mean[code] = self.at[own[0]] + math.copysign(
                outwards, self.at[own[1]] - self.at[own[0]]
            )
            counted[code] = rows
        return mean, counted

    def levels(self, means: np.ndarray) -> np.ndarray:
        """By code: twice the distance from the bin's mean in distances of the corners, from -1 to 1
        in LEVELS steps; LEVELS: not asked about."""
        low = self.at[self.corner]
        high = np.append(self.at, 0.0)[self.corner + 1]
        place = (means[self.bin[self.corner]] - low) / np.where(high > low, high - low, math.inf)
        distance = np.clip(2 * (self.offset - place), -1, 1)
        level = np.rint((distance + 1) / 2 * (LEVELS - 1)).astype(np.int64)
        return np.where(self.corner >= 0, level, LEVELS)


def tail_mean(ends: np.ndarray, parts: np.ndarray, sigma: float) -> tuple[float, float]:
    """(mean distance, rows) of a tail of which the corners at these distances `ends` have noisy
    `parts`. It averages over generalised Pareto tails, each as likely as the parts make it. For
    each tail, corners keep to the parts as far as these stand out of the noise."""
    log2 = np.arange(-3, 5.01, 0.25)
    prior = -0.5 * ((log2 * math.log(2) - math.log(LENGTH)) / LENGTHS) ** 2
    made = [
        (p, math.log(SHAPES[s]) + e)
        for s in SHAPES
        for p, e in zip(_pareto(ends, ends[1] * 2**log2, s), prior)
    ]
    shape = np.array([p for p, _ in made])
    likely = np.array([e for _, e in made])
    rows = np.maximum(shape @ parts / np.square(shape).sum(axis=1), sigma)
    expected = rows[:, None] * shape
    off = np.square(parts - expected)
    likely = likely - off.sum(axis=1) / 2 / sigma**2
    weight = np.exp(likely - likely.max()) / np.exp(likely - likely.max()).sum()
    known = np.maximum(np.square(MISFIT * expected), off - (FAR * sigma) ** 2)
    found = np.maximum(drawn_towards(expected, parts, sigma**2, known), 1e-9 * sigma)
    means = found @ ends / found.sum(axis=1)
    return float(np.exp(weight @ np.log(means))), float(weight @ found.sum(axis=1))


def _pareto(ends: np.ndarray, scales: np.ndarray, shape: float) -> np.ndarray:
    """[scales, corners]: how generalised Pareto values up to the last end are divided among the
    corners."""
    z = ends / scales[:, None]
    above = (1 + shape * z) ** (-1 / shape) if shape else np.exp(-z)
    # `beyond`: the integral of `above` from here on.
    beyond = scales[:, None] * (above * (1 + shape * z) / (1 - shape))
    rows = above[:, :-1] - above[:, 1:]
    up = (beyond[:, :-1] - beyond[:, 1:]) / np.diff(ends) - above[:, 1:]
    parts = np.zeros_like(z)
    parts[:, :-1] += rows - up
    parts[:, 1:] += up
    return np.maximum(parts, 0.0) / (1 - above[:, -1:])


def cells_of(column: Numeric) -> Cells:
    """The finer partition of a column with public or released edges; public facts alone."""
    plain = replace(column, grids=(), means=None, rank=None)
    cut = _Cutting(plain)
    for code, upper in enumerate(column.edges[1:]):
        cut.add(code, upper)
    counted = replace(
        plain,
        edges=tuple(cut.edges),
        atoms=(),
        min=None,
        max=None,
        tail=None,
        lower_tail=None,
        null=_kept(column.null),
        overflow=_kept(column.overflow),
    )
    parts = cut.parts + [NO_PART] * (counted.size - len(cut.parts))
    owner = np.array([bin_of for bin_of, _ in cut.corners], int)
    at = np.array([place for _, place in cut.corners], float)
    corner, offset = (np.array(x) for x in zip(*parts))
    return Cells(counted, corner, offset, owner, at, column.base)


NO_PART = (-1, 0.0)
"""The part of a cell that is a whole bin: of one number, or without a bound."""


class _Cutting:
    """Bins cut into cells, one after another.

    edges: of the cells so far. parts: of each cell its lower corner and its place between this and
    the next. corners: of each its bin and its number.
    """

    def __init__(self, column: Numeric):
        self.bins, _ = bins_of(column)
        bins = self.bins
        self.low = bins.low[: column.base] / bins.unit
        self.high = bins.high[: column.base] / bins.unit
        self.step = 1 / bins.unit if bins.whole else 0.0
        self.edges = [column.edges[0]]
        self.parts: list[tuple[int, float]] = []
        self.corners: list[tuple[int, float]] = []

    def add(self, code: int, upper: float) -> None:
        """Cut a bin that ends at `upper` into cells, or keep it whole."""
        if 0 < self.high[code] - self.low[code] < math.inf:
            edges, parts, corners = self._cut(code, upper)
            steps = np.diff([self.edges[-1], *edges])
            far = np.diff([at for _, at in corners])
            # Beyond 2^53 units of its last digit a bin can be finer than floats: it stays whole.
            if edges and (steps > 0).all() and (far > 0).all():
                self.edges += edges
                self.parts += parts
                self.corners += corners
                return
        self.edges.append(upper)
        self.parts.append(NO_PART)

    def _cut(
        self, code: int, upper: float
    ) -> tuple[list[float], list[tuple[int, float]], list[tuple[int, float]]]:
        """Edges, parts and corners of a bin's cells: each stretch of it is cut into PARTS."""
        high = self.high[code]
        stretches = np.unique(self._on_line(_stretches(self.low, self.high + self.step, code)))
        stretches = stretches[(stretches < high) | (stretches == stretches[-1])]
        edges: list[float] = []
        parts: list[tuple[int, float]] = []
        corners: list[tuple[int, float]] = []
        for start, end in pairwise(stretches):
            last = end == stretches[-1]
            inner = np.unique(self._on_line(start + np.arange(1, PARTS) / PARTS * (end - start)))
            cuts = np.array([start, *inner[(start < inner) & (inner < end)], end])
            middle = (cuts[:-1] + cuts[1:] - self.step) / 2
            places = np.clip((middle - start) / ((high if last else end) - start), 0.0, 1.0)
            edges += [*cuts[1:-1].tolist(), upper if last else float(end)]
            number = len(self.corners) + len(corners)
            parts += [(number, place) for place in places.tolist()]
            corners.append((code, float(start)))
        corners.append((code, float(high)))
        return edges, parts, corners

    def _on_line(self, x: np.ndarray) -> np.ndarray:
        """The next number that the column can have."""
        unit = self.bins.unit
        return np.ceil(np.round(x * unit, 6)) / unit if self.bins.whole else x


def _stretches(low: np.ndarray, high: np.ndarray, code: int) -> np.ndarray:
    """The ends of a bin's stretches. A bin at an end of the line may be wider than its neighbour.
    Then it is cut where the distance from the neighbour is its width times a power of two (at most
    ten times)."""
    start, end = low[code], high[code]
    if len(low) == 1 or 0 < code < len(low) - 1:
        return np.array([start, end])
    neighbour = code - 1 if code else 1
    if not math.isfinite(high[neighbour] - low[neighbour]):
        return np.array([start, end])
    near = max(high[neighbour] - low[neighbour], (end - start) / 1024)
    cuts = near * 2.0 ** np.arange(max(0, math.ceil(math.log2((end - start) / near / 1.5))))
    return np.array([start, *(start + cuts), end] if code else [start, *(end - cuts[::-1]), end])


def unit_for(clip: int, mu: float) -> int:
    """The unit of offsets at this noise: UNIT or a smaller power of two; 0 if the noise is too
    large."""
    fits = [u for u in (UNIT, 32, 16, 8) if u * SCALE * clip / mu <= LARGEST]
    return fits[0] if fits else 0


def _kept(policy: Policy) -> Policy:
    return OWN_CODE if policy.action == "drop" else policy


def finished(
    column: Numeric, means: np.ndarray, grids: tuple[Grid, ...] | None, rank: Rank | None
) -> Numeric:
    """The column with what was found; in a bin of which nothing was asked, the public mean."""
    bins, _ = bins_of(replace(column, means=None, grids=()))
    tail = bins.mean[: column.base]
    at = slice(column.base)
    start = bins.lo[at]
    end = bins.hi[at] - bins.whole
    public = (
        np.where(tail > 0, start + tail, np.where(tail < 0, end + tail, (start + end) / 2))
        / bins.unit
    )
    lowest = bins.low[at] / bins.unit
    highest = bins.high[at] / bins.unit
    found = tuple(np.clip(np.where(np.isnan(means), public, means), lowest, highest).tolist())
    return replace(column, means=found, grids=column.grids or grids or (), rank=column.rank or rank)


def steps_of(column: Numeric) -> Places | None:
    """The code column of the classes of round numbers that are counted; None if the schema says
    them, or where numbers are too large to have any."""
    unit = unit_of(column.dtype, column.whole, column.digits) or Decimal(0)
    grids = ROUND_NUMBERS.get(unit)
    if grids is None or column.grids or not takes_steps(column, unit):
        return None
    return Places(
        name=f"{column.name}\0steps", source=column.source, dtype=column.dtype, grids=grids
    )


def step_request(column: str, levels: np.ndarray, steps: Places, mu: float) -> Request:
    """Rows in asked bins by class of round numbers."""
    count = len(_asked(levels))
    asked = np.repeat(np.arange(count) < LEVELS, steps.size)
    codes = np.tile(np.arange(steps.size), count)
    kept = asked & (codes < steps.base)
    return Request(
        (column, steps.name), mu, Sparse(kept * (codes == np.arange(steps.base)[:, None]))
    )


def shares_of_steps(column: Numeric, steps: Places, answer: Measurement) -> tuple[Grid, ...]:
    """The classes that stand out of what even values would have."""
    sigma = float(np.max(answer.sigma))
    total = max(float(answer.values.sum()), 1.0)
    unit = float(unit_of(column.dtype, column.whole, column.digits) or 1)
    out = []
    for grid, rows in zip(steps.grids, answer.values):
        even = total * unit / grid.step
        if (
            rows - even > max(SURE * sigma, MIN_CLASS_EXCESS * even)
            and rows > MIN_CLASS_SHARE * total
        ):
            out.append(Grid(grid.step, grid.at, min(1.0, float(rows) / total)))
    most = sum(g.share for g in out)
    return tuple(Grid(g.step, g.at, g.share / max(most, 1.0)) for g in out)


def rank_requests(levels: Mapping[str, np.ndarray], mu: float) -> list[Request]:
    """One number for each pair of columns, over the levels of both."""
    d = {name: _asked(of) for name, of in levels.items()}
    pairs = list(combinations(levels, 2))
    each = mu / math.sqrt(max(len(pairs), 1))
    most = (LEVELS // 2) ** 2
    return [
        Request((a, b), each, Sparse(np.multiply.outer(d[a], d[b]).reshape(1, -1), most))
        for a, b in pairs
    ]


def _asked(levels: np.ndarray) -> np.ndarray:
    """By level that a code has: its distance from the middle one; 0 where nothing is asked. Of a
    column whose codes are all asked about, there is no such last level."""
    return np.append(np.arange(LEVELS) - LEVELS // 2, 0)[: int(levels.max()) + 1]


def shared_ranks(
    answers: Sequence[Measurement], found: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> dict[str, Rank]:
    """The columns that share their ranks with the one that most correlation leads to."""
    rows = {name: max(float(counted.sum()), 1.0) for name, (_, counted) in found.items()}
    share: dict[tuple[str, str], float] = {}
    for answer in answers:
        a, b = answer.clique
        size = (LEVELS // 2) ** 2 * min(rows[a], rows[b]) * 3 / 8
        alike = answer.values[0] / size
        error = float(np.max(answer.sigma)) / size
        if alike > max(MIN_CORRELATION, SURE * error):
            share[a, b] = share[b, a] = min(1.0, float(alike))
    if not share:
        return {}
    leader = max(found, key=lambda n: sum(s for pair, s in share.items() if pair[0] == n))
    return {b: Rank(leader, s) for (a, b), s in share.items() if a == leader}

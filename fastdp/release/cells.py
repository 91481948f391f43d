"""Cells of a number line, refined where noisy counts say that rows are, and bins made from these
cells.

Everything here is post-processing of released counts and of public facts. A partition is an
increasing array of edges; cell i holds the values in [edges[i], edges[i+1]). A `Line` is the set of
values that a column may have: it knows their type and which of them are round numbers.

    edges, span = line.first(), None    # public: the type's whole range, or public bounds
    edges, span = line.refine(edges, counts, sigma, n, bins, span)    # about n cells where the rows are
    edges = line.bins(edges, counts, sigma, bins, span)    # equal counts; a frequent value is its own bin

A cell is split at the multiples of a round step, and each multiple is a cell of its own. Steps are
1, 2 and 5 times a power of ten; for times, minutes, hours and days. So a frequent value gets a cell
of its own as soon as the steps are fine enough for it to be a multiple. Measured accuracy:
docs/research/ranges.md."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..privacy.clip import noise_bound, nonnegative
from ..schema import dtypes, epoch
from ..schema.epoch import DAY_SECONDS
from ..schema.within_bin import after, unit_of
from ..significance import SURE
from .noisy_cells import CALENDAR_CELLS, Array, leading_sparse_cells, occupied_cells

ATOM = 1.0
"""A single value becomes a bin of its own if it holds at least ATOM times (all rows / number of
bins) rows."""
OUTER = 4.0
"""The first and the last cell with rows are split into at least this many parts, to locate the
bounds."""
MARGIN = 2
"""After the first partition, this many cells on either side of the cells with rows are counted
again."""
TRIM = 0.1
"""Cells at an end are cut off while their joint count is small: at most TRIM * (all rows / number
of bins) plus TAIL of its standard errors."""
TAIL = 1.0
"""Standard errors: see TRIM."""
LOST = 0.01
"""Where bins have means (`reach`), the most that is cut off at an end, as a share of the rows.
Where noise is large, a wide bin is better than a cut through the bulk. Chosen of 0.005, 0.01 and
0.02 on simulated columns of 4,000 to 1,000,000 rows at noises of 1.5 to 500 rows. Without it up to
67 % of the rows were cut off."""
MANY = 0.05
"""Where cells outside the span turn out to hold more than this share of the rows, they are counted
again. Chosen for senators' terms from 1867 to 2013, of which the years before 1900 are one cell."""
LANDMARKS = tuple(10.0**power for power in range(-6, 13, 3))
"""Outside the cells with rows, the second partition of numbers is cut at these, and at the same
below 0. A single cell would say that rows were overlooked there, not whether they lie at 0.1 or at
a million: between 0 and the next number that stands out there are 320 powers of ten. Each is a
public edge of the first partition, and one more cell has no effect on the noise of the others."""
YEARS = (1900.0, 1950.0, 2050.0, 2100.0)
"""Cuts of every first partition of numbers, since years are frequent. Public. With 1000, 2000 and
5000 as the only cuts nearby, noise puts rows into other centuries (seen on years of blood samples,
1995 to 2003)."""
COARSEST = 64
"""Number of cells of equal width in the first partition between public bounds."""
Span = tuple[float, float]
"""The part of a partition that holds rows: its first and last edge."""
_SECONDS = (1, 5, 15, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200)
"""Widths of bins of times that divide a day and read well, from a second to half a day."""


class Line(Struct, frozen=True):
    """The values of a column of this type, between public bounds where the schema has any (high
    included). `reach`: cells at an end are cut off only where their joint count is within SURE
    standard errors of 0. So the outer bins hold the tails; how rows lie in them is for the means
    within bins to say (`sums`)."""

    dtype: str
    low: float | None = None
    high: float | None = None
    whole: bool = False
    digits: int | None = None
    reach: bool = False

    @property
    def family(self) -> str:
        return dtypes.family(self.dtype)

    @property
    def unit(self) -> float | None:
        """The distance between neighbouring values; None for floats."""
        unit = unit_of(self.dtype, self.whole, self.digits)
        return None if unit is None else float(unit)

    def after(self, value: float) -> float:
        """The smallest value above `value`."""
        return after(value, self.dtype, unit_of(self.dtype, self.whole, self.digits))

    def range(self) -> tuple[float, float]:
        """The first value, and the value after the last; infinite where the type has no finite
        end."""
        low = -math.inf
        high = math.inf
        if self.family == "int":
            least, most = dtypes.int_range(self.dtype)
            # codes are read as int64
            low = float(least)
            high = float(min(most + 1, 1 << 63))
        elif self.family == "decimal":
            high = float(
                10 ** (dtypes.decimal_precision(self.dtype) - dtypes.decimal_scale(self.dtype))
            )
            low = -high
        low = low if self.low is None else self.low
        return low, high if self.high is None else self.after(self.high)

    def first(self) -> Array:
        """The first partition, from public facts alone. Edges of numbers: zero, 1, 2 and 5 times
        the powers of ten up to the ends of the type, and YEARS. Edges of times: the years from 1900
        to 2100, centuries before and after, and the ends of the type. Between public bounds also
        cells of equal width."""
        low, high = self.range()
        cuts = self._years() if self.family in ("date", "timestamp") else self._decades()
        if self.low is not None and self.high is not None:
            cuts |= set(self.multiples(low, high, self.step((high - low) / COARSEST)))
        return np.array([low, *sorted(c for c in cuts if low < c < high), high])

    def _decades(self) -> set[float]:
        least = -12 if self.unit is None else round(math.log10(self.unit))
        steps = [m * 10.0**d for d in range(least, 38) for m in (1, 2, 5)]
        if self.unit is None and self.dtype != "float32":
            steps = [
                *(10.0**d for d in range(-300, -12, 24)),
                *steps,
                *(10.0**d for d in range(48, 308, 24)),
            ]
        return {0.0, self.after(0.0), *steps, *(-s for s in steps), *YEARS}

    def _years(self) -> set[float]:
        least, most = epoch.time_range(self.dtype)
        years = [*range(1, 1900, 100), *range(1900, 2100), *range(2100, 10_000, 100)]
        starts = [epoch.coarse(f"{year:04}-01-01", "date32") for year in years]
        day = 1 if self.family == "date" else DAY_SECONDS
        return {float(s * day) for s in starts if least <= s * day <= most} | {
            float(least),
            float(most),
        }

    def step(self, width: float) -> float:
        """The smallest round step that is at least `width` and at least one unit."""
        width = max(width, self.unit or 1e-300)
        if self.family == "timestamp" and width <= DAY_SECONDS / 2:
            return float(next(s for s in _SECONDS if s >= width))
        if self.family == "timestamp":
            return DAY_SECONDS * math.ceil(_round_up(width / DAY_SECONDS))
        return _round_up(width)

    def multiples(self, low: float, high: float, step: float) -> list[float]:
        """The multiples of a round step in [low, high), as values of the type."""
        exact = Decimal(repr(step))
        first = math.ceil(Decimal(repr(low)) / exact)
        last = math.ceil(Decimal(repr(high)) / exact)
        values = [float(i * exact) for i in range(first, last)]
        if self.dtype == "float32":
            values = [float(np.float32(v)) for v in values]
        return [v for v in values if low <= v < high]

    def split(self, low: float, high: float, parts: float) -> list[float]:
        """Edges inside (low, high) that cut it into about `parts` parts. Every round value is a
        cell of its own, and so is every gap between two round values."""
        if not (math.isfinite(low) and math.isfinite(high)) or self.after(low) >= high:
            return []
        cuts: set[float] = set()
        for value in self.multiples(low, high, self.step((high - low) / max(parts, 1.0))):
            cuts |= {value, self.after(value)}
        return sorted(c for c in cuts if low < c < high)

    def refine(
        self,
        edges: Array,
        counts: Array,
        sigma: float,
        cells: int,
        bins: int,
        span: Span | None = None,
    ) -> tuple[Array, Span | None]:
        """(the next partition, the span of it that holds rows). A cell is split into about `cells`
        parts times its share of the rows. Cells outside the span are joined up to the next of
        LANDMARKS, later into one on each side, unless rows were overlooked there. After a first
        partition, empty cells far from rows are joined as well. `span`: the span of this partition;
        None for a first partition, most of which is empty."""
        first, last = self._extent(edges, counts, sigma, bins, span, MARGIN)
        if first > last:
            return edges, None
        sure = np.where(counts < sigma * noise_bound(len(counts)), 0.0, counts)
        total = max(float(sure[first : last + 1].sum()), 1.0)
        cuts = {float(edges[i]) for i in (0, first, last + 1, len(edges) - 1)}
        for i in range(first, last + 1):
            low = float(edges[i])
            high = float(edges[i + 1])
            parts = max(cells * sure[i] / total, OUTER if i in (first, last) else 0.0)
            if span is not None or sure[max(0, i - MARGIN) : i + MARGIN + 1].any():
                cuts |= {low, high}
            if parts >= 2:
                cuts |= set(self.split(low, high, parts))
        if span is None:
            more: set[float] = set()
            cuts |= self._landmarks(edges, first, last)
        else:
            more = self._overlooked(edges, counts, sigma, span)
        refined = np.array(sorted(cuts | more))
        held = {float(edges[first]), float(edges[last + 1]), *filter(math.isfinite, more)}
        return refined, (min(held), max(held))

    def _landmarks(self, edges: Array, first: int, last: int) -> set[float]:
        """Edges at LANDMARKS of either sign, and at 0, outside the cells from `first` to `last`."""
        if self.family in ("date", "timestamp"):
            return set()
        marks = {0.0, *LANDMARKS, *(-mark for mark in LANDMARKS)}
        return marks & {float(e) for e in (*edges[1:first], *edges[last + 2 : -1])}

    def _overlooked(self, edges: Array, counts: Array, sigma: float, span: Span) -> set[float]:
        """Public edges inside those cells outside the span that hold many rows after all.

        Such rows lie too thinly to have stood out of the first partition's noise, as a few amounts besides
        many zeros do. There are as many edges as these rows are standard errors, or all."""
        found: set[float] = set()
        many = max(noise_bound(len(counts)) * sigma, MANY * float(counts.sum()))
        outside = (edges[1:] <= span[0]) | (edges[:-1] >= span[1])
        for i in np.flatnonzero(outside & (counts > many)):
            low, high = float(edges[i]), float(edges[i + 1])
            public = [c for c in self.first() if low < c < high]
            found |= {low, high, *public[:: max(1, round(len(public) * sigma / counts[i]))]}
        return found

    def _extent(
        self,
        edges: Array,
        counts: Array,
        sigma: float,
        bins: int,
        span: Span | None,
        margin: int = 0,
    ) -> tuple[int, int]:
        """Numbers of the first and last cell, both with finite edges, that may hold rows. (1, 0), a
        first above the last, where no count stands out of the noise."""
        finite = np.flatnonzero(np.isfinite(edges[:-1]) & np.isfinite(edges[1:]))
        if span is None:
            alive = np.flatnonzero(occupied_cells(counts, sigma))
            if not len(alive):
                return 1, 0
            # Numbers that are not negative stay so: noise does not extend the range below 0.
            above = self.family not in ("date", "timestamp") and edges[alive[0]] >= 0
            least = np.searchsorted(edges, 0.0) if above else finite[0]
            # Beside a 0 that stands out alone lies no number that a table has: 300 powers of ten.
            beyond = 0 if self.unit is None and edges[alive[-1]] == 0 else margin
            return max(alive[0] - margin, least), min(alive[-1] + beyond, finite[-1])
        first = int(np.searchsorted(edges, span[0]))
        last = int(np.searchsorted(edges, span[1])) - 1
        rows = float(counts[first : last + 1].sum())
        inner = counts[first : last + 1]
        if self.reach:
            low = first + leading_sparse_cells(inner, sigma * SURE, few=0.0, most=LOST * rows)
            high = last - leading_sparse_cells(inner[::-1], sigma * SURE, few=0.0, most=LOST * rows)
        else:
            low = first + leading_sparse_cells(inner, sigma * TAIL, few=TRIM * rows / bins)
            high = last - leading_sparse_cells(inner[::-1], sigma * TAIL, few=TRIM * rows / bins)
        return (low, high) if low <= high else (first, last)

    def bins(
        self, edges: Array, counts: Array, sigma: float, bins: int, span: Span | None = None
    ) -> list[float]:
        """Finite edges of at most `bins` bins: frequent single values (`ATOM`) are bins of their
        own, the other bins have about equal noisy counts."""
        first, last = self._extent(edges, counts, sigma, bins, span)
        if first > last:
            return self._unknown(edges)
        mass = np.array(nonnegative(counts[first : last + 1].tolist()), np.float64)
        cells = edges[first : last + 2]
        if self.unit is not None and (cells[-1] - cells[0]) / self.unit <= bins:
            return [*self.multiples(float(cells[0]), float(cells[-1]), self.unit), float(cells[-1])]
        atoms = self._atoms(cells, mass, sigma, bins)
        return self._tidy(
            self._cut(cells, mass, atoms, bins), edges, {float(cells[i]) for i in atoms}
        )

    def may_be_calendar(self, grid: Any) -> bool:
        """Whether, by the counts of a first partition, these are whole numbers from 0 to 99, so
        that it is worth counting CALENDAR_CELLS. Not where the schema has public bounds."""
        return 0 < self._end(grid) <= CALENDAR_CELLS[-2]

    def may_be_clock(self, grid: Any) -> bool:
        """Whether, by the counts of a first partition, these may be clock times written as HHMM."""
        return self.family == "int" and 1000 < self._end(grid) <= 5000

    def _end(self, grid: Any) -> float:
        """Where the cells end that stand out of the noise, of whole numbers >= 0 without public
        bounds; else -1."""
        alive = np.flatnonzero(occupied_cells(grid.counts, grid.sigma))
        edges = grid.edges
        whole = (
            self.unit == 1
            and self.family in ("int", "float")
            and (self.low, self.high) == (None, None)
        )
        if whole and len(alive) and edges[alive[0]] >= 0:
            return float(edges[alive[-1] + 1])
        return -1.0

    def _tidy(self, cuts: Sequence[float], edges: Array, atoms: set[float]) -> list[float]:
        """The cuts. One directly above a value (float lines only) is moved down onto that value,
        unless the value is a bin of its own."""
        onto = {
            float(b): float(a)
            for a, b in pairwise(edges)
            if math.isfinite(a) and self.after(float(a)) == b
        }
        if self.unit is not None:
            return list(cuts)
        moved = sorted({onto[c] if c in onto and onto[c] not in atoms else c for c in cuts})
        return moved if len(moved) > 1 else list(cuts)

    def grained(self, edges: Array, counts: Array, digits: int) -> tuple[Line, Array, Array]:
        """(the line of values with `digits` digits after the point, `edges` rounded up to such
        values, `counts` of the cells that are left)."""
        line = replace(self, whole=digits == 0, digits=digits)
        moved = np.array([_ceil(float(e), digits) for e in edges])
        keep = np.flatnonzero(np.diff(moved) > 0)
        joined = np.array([counts[a:b].sum() for a, b in zip(keep, [*keep[1:], len(counts)])])
        return line, np.append(moved[keep], moved[-1]), joined

    def _unknown(self, edges: Array) -> list[float]:
        """Edges of the single bin that is used where no cell stands out of the noise."""
        finite = [float(e) for e in edges if math.isfinite(e)]
        if len(edges) == len(finite) and finite[-1] - finite[0] <= 1 << 53:
            return [finite[0], finite[-1]]
        zero = min(max(0.0, finite[0]), finite[-1])
        return [zero, self.after(zero)]

    def _atoms(self, cells: Array, mass: Array, sigma: float, bins: int) -> list[int]:
        """Numbers of the one-value cells that become bins of their own. The largest counts come
        first, as long as these and one bin for each gap between them are at most `bins`."""
        enough = max(SURE * sigma, ATOM * float(mass.sum()) / bins)
        ones = [
            int(i)
            for i in np.flatnonzero(mass >= enough)
            if self.after(float(cells[i])) == cells[i + 1]
        ]
        chosen: list[int] = []
        for i in sorted(ones, key=lambda i: (-mass[i], i)):
            tried = sorted([*chosen, i])
            if len(tried) + len(_between(tried, len(mass))) <= bins:
                chosen = tried
        return chosen

    def _cut(self, cells: Array, mass: Array, atoms: Sequence[int], bins: int) -> list[float]:
        """Edges of `bins` bins: one for each atom, the others with about as much mass as each other
        between them."""
        gaps = _between(atoms, len(mass))
        cuts = {float(cells[0]), float(cells[-1])}
        for i in atoms:
            cuts |= {float(cells[i]), float(cells[i + 1])}
        for (start, stop), count in zip(
            gaps, shared(bins - len(atoms), [mass[a:b].sum() for a, b in gaps])
        ):
            below = np.concatenate([[0.0], np.cumsum(mass[start:stop])])
            for k in range(1, count):
                at = min(
                    int(np.searchsorted(below, below[-1] * k / count, "right")) - 1,
                    stop - start - 1,
                )
                inside = mass[start + at]
                share = (below[-1] * k / count - below[at]) / inside if inside > 0 else 0.0
                cuts.add(self._near(float(cells[start + at]), float(cells[start + at + 1]), share))
        return sorted(cuts)

    def _near(self, low: float, high: float, share: float) -> float:
        """A round value about `share` of the way through a cell, or one of its ends."""
        if self.after(low) >= high:
            return low if share < 0.5 else high
        inside = self.multiples(low, high, self.step((high - low) / 32))
        ends = sorted({low, high, *inside})
        at = bisect.bisect(ends, low + share * (high - low))
        return min(ends[max(0, at - 1) : at + 1], key=lambda v: abs(v - low - share * (high - low)))


def _round_up(width: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `width`."""
    power = math.floor(math.log10(width))
    rounds = (float(Decimal(m).scaleb(d)) for d in (power, power + 1) for m in (1, 2, 5))
    return next(v for v in rounds if v >= width * (1 - 1e-12))


def _ceil(value: float, digits: int) -> float:
    """The smallest number with `digits` digits after the point that is at least `value`."""
    if not math.isfinite(value):
        return value
    return float(Decimal(math.ceil(Decimal(repr(value)).scaleb(digits))).scaleb(-digits))


def _between(atoms: Sequence[int], cells: int) -> list[tuple[int, int]]:
    """The non-empty runs of cells between the atoms, as (start, stop)."""
    ends = [-1, *atoms, cells]
    return [(a + 1, b) for a, b in pairwise(ends) if b > a + 1]


def shared(count: int, masses: Sequence[float]) -> list[int]:
    """`count` bins dealt to the runs of cells in proportion to their masses, at least one to
    each."""
    if not masses:
        return []
    total = float(sum(masses)) or 1.0
    rest = count - len(masses)
    exact = [rest * m / total for m in masses]
    dealt = [1 + math.floor(e) for e in exact]
    order = sorted(range(len(masses)), key=lambda i: (math.floor(exact[i]) - exact[i], i))
    for i in order[: count - sum(dealt)]:
        dealt[i] += 1
    return dealt

"""The bins of a numeric column as the decoder draws from them.

In each bin a value is uniform over the part of the bin between `min` and `max`. In an open bin it
follows the public tail. Where the column has `means`, it is exponential with the bin's mean, cut
off at the bin's ends. Limits are set so that what is written lies in its bin, within min and max,
and fits the type.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

import numpy as np
from msgspec import Struct

from . import dtypes
from .coding import exact
from .epoch import time_range
from .within_bin import Grid, Rank, Tail

_EXACT = 1 << 53
"""Floats hold all whole numbers up to this one."""


class BinColumn(Protocol):
    """A column whose codes are bins of numbers (`kinds.numeric`), as far as draws depend on it."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def edges(self) -> tuple[float, ...]: ...
    @property
    def min(self) -> float | None: ...
    @property
    def max(self) -> float | None: ...
    @property
    def tail(self) -> Tail | None: ...
    @property
    def lower_tail(self) -> Tail | None: ...
    @property
    def whole(self) -> bool: ...
    @property
    def digits(self) -> int | None: ...
    @property
    def means(self) -> tuple[float, ...] | str | None: ...
    @property
    def grids(self) -> tuple[Grid, ...]: ...
    @property
    def rank(self) -> Rank | None: ...
    @property
    def temporal(self) -> bool: ...
    @property
    def base(self) -> int: ...
    @property
    def overflow_code(self) -> int | None: ...
    @property
    def null_code(self) -> int | None: ...
    def code_of(self, value: float) -> int | None: ...


class Bins(Struct, frozen=True):
    """How to draw a number for each code. Where `mean` is 0, it is uniform in [lo, hi). Else it is
    exponential of that mean, upwards from lo (negative: downwards from hi). It is then clamped to
    [low, high]. All are in units of the last digit written, 1 / `unit`.

    base: set where floats do not hold all these whole numbers exactly. Draws are then those of
    `near`, whose numbers are relative to the exact whole number `base` of each code.
    """

    lo: np.ndarray
    hi: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    whole: bool
    unit: float
    base: tuple[int, ...] | None = None
    near: Bins | None = None
    grids: tuple[GridBins, ...] = ()


class GridBins(Struct, frozen=True):
    """The part of each bin that lies on the numbers `at` + k * `step` (in units of the last digit):
    `bins` draws k. `below`: by code, the sum of the parts of this grid and those before it, of rows
    drawn on grids. A bin without a number on the grid adds nothing."""

    bins: Bins
    step: int
    at: int
    below: np.ndarray


def digits(column: BinColumn) -> int:
    """Digits after the point that are written; 0 for whole numbers and for unrounded floats."""
    return 0 if column.whole else column.digits or dtypes.decimal_scale(column.dtype)


def _tail(column: BinColumn, upper: bool) -> Tail:
    stated = column.tail if upper else column.lower_tail
    if stated is not None:
        return stated
    inner = [e for e in column.edges if math.isfinite(e)]
    near = inner[-2:] if upper else inner[:2]
    width = near[-1] - near[0]
    return Tail("exponential", mean=width if width > 0 else max(1.0, abs(near[0])))


def _limits(column: BinColumn) -> tuple[Fraction | float, Fraction | float]:
    """Smallest and largest number that may be written."""
    low = -math.inf if column.min is None else exact(column.min)
    high = math.inf if column.max is None else exact(column.max)
    family = dtypes.family(column.dtype)
    if family == "int":
        least, most = map(Fraction, dtypes.int_range(column.dtype))
    elif family == "decimal":
        scale = dtypes.decimal_scale(column.dtype)
        most = Fraction(10 ** dtypes.decimal_precision(column.dtype) - 1, 10**scale)
        least = -most
    elif column.temporal:
        least, most = map(Fraction, time_range(column.dtype))
    elif column.dtype == "float32":
        most = Fraction(float(np.finfo(np.float32).max))
        least = -most
    else:
        return low, high
    return max(low, least), min(high, most)


def has_tail(column: BinColumn) -> bool:
    """Whether numbers beyond finite edges are written: where a tail is stated, and `max` allows for
    it."""
    last = column.edges[-1]
    return (
        math.isfinite(last)
        and column.tail is not None
        and (column.max is None or column.max >= last)
    )


def bins_of(column: BinColumn) -> tuple[Bins, list[int]]:
    """The bins by code, and the codes that decode to null."""
    edges = column.edges
    pairs = list(pairwise(column.edges))
    without = [] if column.null_code is None else [column.null_code]
    if column.overflow_code is not None:
        without += [] if has_tail(column) else [column.overflow_code]
        pairs.append((edges[-1], math.inf) if has_tail(column) else pairs[0])
    if column.null_code is not None:
        pairs.append(pairs[0])
    rows = [_bin(column, a, b) for a, b in pairs]
    whole = on_grid(column)
    unit = 10.0 ** digits(column)
    if isinstance(column.means, tuple):
        targets = [m * unit for m in column.means]
        rows = [*_matched(rows[: column.base], targets, whole), *rows[column.base :]]
    grids = _grids(column, rows, unit)
    if grids and sum(g.share for g in column.grids) > 1 - 1e-9:
        rows = _ends_on_grids(rows, grids)
    base = near = None
    stored = whole and dtypes.family(column.dtype) != "float"  # all limits are finite then
    if stored and any(abs(row[k]) > _EXACT for row in rows for k in (0, 1)):
        base = tuple(int(hi if mean < 0 else lo) for lo, hi, mean, _, _ in rows)
        moved = [_moved(row, b) for row, b in zip(rows, base, strict=True)]
        near = _as_bins(moved, whole, unit)
    return _as_bins(rows, whole, unit, base, near, grids), without


def _matched(rows: list[tuple], targets: list[float], whole: bool) -> list[tuple]:
    """The bins with exponential draws of these means (in units of the last digit)."""
    out = []
    for (lo, hi, _, low, high), target in zip(rows, targets, strict=True):
        start = hi if math.isinf(lo) else lo
        out.append((lo, hi, tilt(float(target - start), float(hi - lo), whole), low, high))
    return out


def tilt(mean: float, width: float, whole: bool) -> float:
    """The parameter `mean` of `Bins` with which draws have this mean above the bin's lower end
    (below its upper end, if `mean` is negative and the width infinite). Of whole numbers, draws are
    rounded down.

    Cut off after `width`, an exponential draw of rate t has mean 1 / t - width / (e^(t width) - 1).
    Rounded down it is geometric, of mean 1 / (e^t - 1) - width / (e^(t width) - 1). Both fall as t
    grows.
    """
    if math.isinf(width) or width > 1 << 40:
        size = max(abs(mean), 1e-9)
        return math.copysign(1 / math.log1p(1 / size) if whole else size, mean)
    if width <= 0 or (whole and width <= 1):
        return 0.0
    middle = (width - 1) / 2 if whole else width / 2
    if abs(mean - middle) < 1e-6 * width:
        return 0.0
    # Steeper draws are all at one end.
    low, high = (-40.0, 40.0) if whole else (-1e6 / width, 1e6 / width)
    for _ in range(100):
        rate = (low + high) / 2
        if abs(rate * width) < 1e-7:
            reached = middle
        else:
            reached = 1 / math.expm1(rate) if whole else 1 / rate
            # e^600 is still a float.
            reached -= width / math.expm1(rate * width) if rate * width < 600 else 0.0
        low, high = (rate, high) if reached > mean else (low, rate)
    return 0.0 if abs(low * width) < 1e-6 else 1 / low


def _grids(column: BinColumn, rows: list[tuple], unit: float) -> tuple[GridBins, ...]:
    """The column's grids in its bins. A draw that is on no grid may still fall on one. Let p_i be
    the shares of the values and 1 / step_i the densities of the grids, with sums P and D. A share Q
    = (P - D) / (1 - D) of the rows is drawn on grids, and grid i gets p_i - (1 - Q) / step_i of
    them."""
    made: list[GridBins] = []
    steps = [round(g.step * unit) for g in column.grids]
    density = min(sum(1 / s for s in steps), 1.0)
    total = sum(g.share for g in column.grids)
    drawn = 1.0 if density >= 1 else min(1.0, max(0.0, (total - density) / (1 - density)))
    below = np.zeros(len(rows))
    for grid, step in zip(column.grids, steps):
        at = round(grid.at * unit)
        cells: list[tuple] = []
        some: list[bool] = []
        for code, (_, _, mean, low, high) in enumerate(rows):
            first = -math.inf if math.isinf(low) else -((at - low) // step)
            last = math.inf if math.isinf(high) else (high - at) // step
            some.append(last >= first)
            if last < first:
                cells.append((0, 0, 0.0, 0, 0))
                continue
            tilted = mean / step
            if isinstance(column.means, tuple) and code < column.base:
                start = last + 1 if math.isinf(first) else first
                tilted = tilt(
                    (column.means[code] * unit - at) / step - start, float(last + 1 - first), True
                )
            cells.append((first, last + 1, 0.0 if last == first else tilted, first, last))
        below = below + np.where(some, max(0.0, grid.share - (1 - drawn) / step), 0.0)
        made.append(GridBins(_as_bins(cells, whole=True, unit=1.0), step, at, below))
    return tuple(made)


def _ends_on_grids(rows: list[tuple], grids: tuple[GridBins, ...]) -> list[tuple]:
    """The bins with limits on grids, for a column all of whose values are on grids."""
    out = []
    for code, (lo, hi, mean, low, high) in enumerate(rows):
        parts = np.diff([0.0, *(g.below[code] for g in grids)])
        used = [g for g, part in zip(grids, parts) if part > 0]
        ends = [(g.at + g.step * g.bins.low[code], g.at + g.step * g.bins.high[code]) for g in used]
        if ends:
            low, high = min(e[0] for e in ends), max(e[1] for e in ends)
        out.append((lo, hi, mean, low, high))
    return out


def _as_bins(
    rows: list[tuple],
    whole: bool,
    unit: float,
    base: tuple[int, ...] | None = None,
    near: Bins | None = None,
    grids: tuple[GridBins, ...] = (),
) -> Bins:
    """`Bins` of rows (lo, hi, mean, low, high), one for each code."""
    columns = zip(*rows, strict=True)
    lo, hi, mean, low, high = (np.array([float(x) for x in column]) for column in columns)
    return Bins(
        lo=lo,
        hi=hi,
        mean=mean,
        low=low,
        high=high,
        whole=whole,
        unit=unit,
        base=base,
        near=near,
        grids=grids,
    )


def _moved(row: tuple, base: int) -> tuple:
    """A bin of whole numbers relative to `base`; its ends are rounded inwards to floats."""
    lo, hi, mean, low, high = row
    low, high = low - base, high - base
    least, most = float(low), float(high)
    least = math.nextafter(least, math.inf) if least < low else least
    most = math.nextafter(most, -math.inf) if most > high else most
    return lo - base, hi - base, mean, least, most


def on_grid(column: BinColumn) -> bool:
    """Whether values are drawn as whole numbers of their last digit."""
    return column.whole or column.digits is not None or dtypes.family(column.dtype) == "decimal"


def _bin(column: BinColumn, a: float, b: float) -> tuple:
    """lo, hi, mean, low, high of the bin [a, b); exact whole numbers on a grid."""
    least, most = _limits(column)
    scale = digits(column)
    whole = on_grid(column)
    mean = 0.0
    if math.isinf(b):
        tail = _tail(column, True)
        mean = tail.mean or 0.0
        width = tail.width
        b = b if width is None else a + width
    elif math.isinf(a):
        tail = _tail(column, False)
        mean = -(tail.mean or 0.0)
        width = tail.width
        a = a if width is None else b - width
    if whole:
        lo = _ceil(max(exact(a), least), scale)
        hi = min(_ceil(exact(b), scale), _floor(most, scale) + 1)
        if dtypes.family(column.dtype) != "float":
            # Floats hold these exactly, and a tail that nobody bounded need not go further.
            hi = min(hi, _EXACT) if math.isinf(b) and column.max is None and lo < _EXACT else hi
            lo = max(lo, -_EXACT) if math.isinf(a) and column.min is None and hi > -_EXACT else lo
        if hi <= lo:
            lo = min(max(lo, _ceil(least, scale)), _floor(most, scale))
            return lo, lo, 0.0, lo, lo
        mean = 0.0 if hi - lo == 1 else mean * 10**scale
        return lo, hi, mean, lo, hi - 1
    least, most = float(least), float(most)
    lo, hi = max(a, least), min(b, most)
    if hi <= lo:
        only = min(max(a, least), most)
        return only, only, 0.0, only, only
    high = min(_below(b, column.dtype), most)
    low = _at_least(lo, column.dtype)
    return lo, hi, mean, low, max(high, low)


def _ceil(value: Fraction | float, scale: int) -> int | float:
    return float(value) if math.isinf(value) else math.ceil(value * 10**scale)


def _floor(value: Fraction | float, scale: int) -> int | float:
    return float(value) if math.isinf(value) else math.floor(value * 10**scale)


def _below(edge: float, dtype: str) -> float:
    """The largest number of the type that is below the edge."""
    if math.isinf(edge):
        return edge
    if dtype == "float32":
        near = np.float32(edge)
        return float(near if near < edge else np.nextafter(near, np.float32(-np.inf)))
    return math.nextafter(edge, -math.inf)


def _at_least(edge: float, dtype: str) -> float:
    """The smallest number of the type that is not below the edge."""
    if dtype == "float32" and math.isfinite(edge):
        near = np.float32(edge)
        return float(near if near >= edge else np.nextafter(near, np.float32(np.inf)))
    return edge


def bin_numbers(column: BinColumn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each bin: the least mean that its rows may have, the number it stands for, the largest
    mean. Infinite in open bins that public knowledge does not limit."""
    bins, _ = bins_of(column)
    n = column.base
    unit = bins.unit
    low = bins.low[:n] / unit
    high = bins.high[:n] / unit
    mean = bins.mean[:n] / unit
    start, end = bins.lo[:n] / unit, bins.hi[:n] / unit
    last = (end - 1 / unit) if bins.whole else end
    largest = np.finfo(float).max
    with np.errstate(over="ignore"):  # an open bin near the largest float stands for that
        beyond = np.clip(np.where(mean > 0, start + mean, end + mean), -largest, largest)
    middle = np.where(mean == 0, start / 2 + last / 2, beyond)
    middle = np.clip(
        np.array(column.means) if isinstance(column.means, tuple) else middle, low, high
    )
    for code, tail in ((0, column.lower_tail), (n - 1, column.tail)):
        if (
            tail is not None
            and math.isinf(column.edges[0 if code == 0 else -1])
            and tail.mean is not None
        ):
            # Public knowledge says how far the tail reaches: twice its mean is the allowance.
            if code == 0:
                low[0] = max(low[0], end[0] - 2 * tail.mean)
            else:
                high[-1] = min(high[-1], start[-1] + 2 * tail.mean)
    limited = _limited(column)
    low = np.where(limited[0], low, -math.inf)
    high = np.where(limited[1], high, math.inf)
    return low, middle, high


def _limited(column: BinColumn) -> tuple[np.ndarray, np.ndarray]:
    """Whether public knowledge limits each bin from below and from above."""
    below, above = np.ones(column.base, bool), np.ones(column.base, bool)
    below[0] = (
        math.isfinite(column.edges[0]) or column.min is not None or column.lower_tail is not None
    )
    above[-1] = math.isfinite(column.edges[-1]) or column.max is not None or column.tail is not None
    return below, above

"""The bins of a numeric column as the decoder draws from them.

In each bin a value is uniform over the part of the bin between `min` and `max`; in an open bin it follows the
public tail. Limits are set so that what is written lies in its bin, within min and max, and fits the type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np

from ..schema import dtypes
from ..schema.columns import Numeric, Tail
from ..schema.epoch import time_range


@dataclass(frozen=True)
class Bins:
    """How to draw a number for each code: uniform in [lo, hi) where `mean` is 0, else exponential of that
    mean upwards from lo (negative: downwards from hi); then clamp to [low, high]. All are in units of the
    last digit written, 1 / `unit`."""

    lo: np.ndarray
    hi: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    whole: bool
    unit: float


def digits(column: Numeric) -> int:
    """Digits after the point that are written; 0 for whole numbers and for unrounded floats."""
    if column.whole:
        return 0
    return column.digits or dtypes.decimal_scale(column.dtype)


def _tail(column: Numeric, upper: bool) -> Tail:
    stated = column.tail if upper else column.lower_tail
    if stated is not None:
        return stated
    inner = [e for e in column.edges if math.isfinite(e)]
    near = inner[-2:] if upper else inner[:2]
    width = near[-1] - near[0]
    return Tail("exponential", mean=width if width > 0 else max(1.0, abs(near[0])))


def _limits(column: Numeric) -> tuple[float, float]:
    """Smallest and largest number that may be written."""
    low = -math.inf if column.min is None else float(column.min)
    high = math.inf if column.max is None else float(column.max)
    if dtypes.family(column.dtype) == "int":
        least, most = dtypes.int_range(column.dtype)
        # Doubles hold whole numbers exactly up to 2^53; beyond, the cast back could leave the type.
        low, high = max(low, least, -(2.0**53)), min(high, most, 2.0**53)
    if column.timely:
        least, most = time_range(column.dtype)
        low, high = max(low, least), min(high, most)
    if dtypes.family(column.dtype) == "float" and column.dtype == "float32":
        widest = float(np.finfo(np.float32).max)
        low, high = max(low, -widest), min(high, widest)
    return low, high


def bins_of(column: Numeric) -> tuple[Bins, list[int]]:
    """The bins by code, and the codes that decode to null."""
    edges = list(column.edges)
    pairs = list(pairwise(edges))
    without = [] if column.null_code is None else [column.null_code]
    if column.overflow_code is not None:
        beyond = math.isfinite(edges[-1]) and column.tail is not None
        beyond = beyond and (column.max is None or column.max >= edges[-1])
        if not beyond:
            without.append(column.overflow_code)
        pairs.append((edges[-1], math.inf) if beyond else pairs[0])
    if column.null_code is not None:
        pairs.append(pairs[0])
    rows = [_bin(column, a, b) for a, b in pairs]
    lo, hi, mean, low, high = (np.array(c, dtype=np.float64) for c in zip(*rows, strict=True))
    return Bins(lo, hi, mean, low, high, on_grid(column), 10.0 ** digits(column)), without


def on_grid(column: Numeric) -> bool:
    """Whether values are drawn as whole numbers of their last digit."""
    rounded = column.digits is not None or dtypes.family(column.dtype) == "decimal"
    return column.whole or rounded


def _bin(column: Numeric, a: float, b: float) -> tuple[float, float, float, float, float]:
    least, most = _limits(column)
    scale, whole = digits(column), on_grid(column)
    mean = 0.0
    if math.isinf(b):
        tail = _tail(column, True)
        mean, width = tail.mean or 0.0, tail.width
        b = b if width is None else a + width
    elif math.isinf(a):
        tail = _tail(column, False)
        mean, width = -(tail.mean or 0.0), tail.width
        a = a if width is None else b - width
    if whole:
        lo = _ceil(max(a, least), scale)
        hi = min(_ceil(b, scale), _floor(most, scale) + 1)
        if hi <= lo:
            lo = min(max(lo, _ceil(least, scale)), _floor(most, scale))
            return lo, lo, 0.0, lo, lo
        mean = 0.0 if hi - lo == 1 else mean * 10**scale
        return lo, hi, mean, lo, hi - 1
    lo, hi = max(a, least), min(b, most)
    if hi <= lo:
        only = min(max(a, least), most)
        return only, only, 0.0, only, only
    high = min(_below(b, column.dtype), most)
    low = _at_least(lo, column.dtype)
    return lo, hi, mean, low, max(high, low)


def _ceil(value: float, scale: int) -> float:
    return value if math.isinf(value) else float(math.ceil(Decimal(repr(value)).scaleb(scale)))


def _floor(value: float, scale: int) -> float:
    return value if math.isinf(value) else float(math.floor(Decimal(repr(value)).scaleb(scale)))


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

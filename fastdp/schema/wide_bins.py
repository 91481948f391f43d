"""Warnings about bins that are so wide that the numbers in them say little."""

import math
from collections.abc import Sequence
from itertools import pairwise

from .schema import Schema
from .within_bin import EVEN

WIDE = 10.0
"""An outer bin is wide if it is so many times as wide as all other bins together. Edges that grow
tenfold each time, 1, 10, 100, 1000, have 9. An only bin is wide if it is so many times as wide as
its distance from 0."""
ADVISED = 4
"""Edges that a warning proposes."""


def wide_outer_bins(schema: Schema) -> list[str]:
    """A sentence for each first or last bin that is far wider than the rest, as in 0, 10, 50, 10000,
    and for an only bin, as in 50, 10000.
    Only counts of other bins say where rows lie in one, so that means and sums would follow from its
    width. Bins with means of their own are left out."""
    out = []
    for name, column in schema.fields.items():
        edges: tuple[float, ...] = getattr(column, "edges", ())
        if len(edges) < 2 or getattr(column, "means", None) not in (None, EVEN):
            continue
        if column.temporal or not all(math.isfinite(edge) for edge in edges):
            continue
        if len(edges) == 2:
            out += _only(name, *edges)
            continue
        widths = [high - low for low, high in pairwise(edges)]
        for which, at, others in (("first", 0, widths[1:]), ("last", -1, widths[:-1])):
            rest = sum(others)  # what is left of the sum of all may be rounded to 0
            if widths[at] > WIDE * rest:
                low, high = (edges[0], edges[1]) if at == 0 else (edges[-2], edges[-1])
                out.append(_beside(name, which, low, high, widths[at] / rest))
    return out


def _only(name: str, low: float, high: float) -> list[str]:
    """The sentence of a column with one bin, if it is wide."""
    if low < 0 < high:
        from_zero = 0.0
    else:
        from_zero = min(abs(low), abs(high))
    if high - low <= WIDE * from_zero:
        return []
    return [_warning(name, low, high, f"its only bin, {low:g} to {high:g}, holds all numbers")]


def _beside(name: str, which: str, low: float, high: float, times: float) -> str:
    wide = f"is {times:,.0f} times as wide as all others together"
    return _warning(name, low, high, f"its {which} bin, {low:g} to {high:g}, {wide}")


def _warning(name: str, low: float, high: float, why: str) -> str:
    between = ", ".join(f"{edge:g}" for edge in steps(low, high))
    return (
        f"column {name!r}: {why}; little says where rows lie in it, so means and sums of the column would"
        f" say little. Add edges such as {between}, or state the bins' means"
    )


def steps(low: float, high: float) -> Sequence[float]:
    """A few round edges inside a bin, closer to its end near 0, or to 0 where that is inside."""
    if low < 0 < high:
        half = ADVISED // 2
        return [*steps(low, 0.0)[:half], 0.0, *steps(0.0, high)[-half:]]
    inner, outer = sorted((abs(low), abs(high)))
    sign = -1.0 if low + high < 0 else 1.0
    first = max(inner, (outer - inner) / 10**ADVISED, 1e-9)
    ratio = (outer / first) ** (1 / (ADVISED + 1))
    near = [first * ratio**k for k in range(1, ADVISED + 1)]
    edges = sorted({sign * _round(edge) for edge in near})
    return [edge for edge in edges if low < edge < high]


def _round(value: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return min((1, 2, 5, 10), key=lambda m: abs(math.log(value / (m * power)))) * power

"""Documents of columns of numbers whose bounds and bins a run found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from . import dtypes, epoch
from .columns import FoundEdges
from .within_bin import EVEN, OPTIONS, PRIVATE, fail

NARROW = 0.005
"""Part of a column's mean by which means of its bins must be able to change it to be worth noise."""


def check_numbers(column: Any) -> None:
    """Raise SchemaError if a column with private bounds (`Pending`) does not hold numbers, dates or
    times."""
    if dtypes.family(column.dtype) in ("bool", "string"):
        raise fail(
            column.name,
            "dtype",
            f"private bounds need a column of numbers, dates or times, got {column.dtype}",
        )


def number_document(
    column: Any, found: FoundEdges, most_whole: int | None = None
) -> dict[str, Any]:
    """The document of the finished column: bins, or a range of whole numbers if it has at most
    `most_whole` (default: as many as there are bins).

    Nulls without a code are fewer than noise hides. They count as `found.middle`, a number near the
    median, which moves the column by less than its noise. Were their rows dropped, each column
    would take rows from all the others: 18 columns of 202 countries left 64 rows. (Numbers of
    times, and columns without a `middle`: their rows are dropped.)"""
    null: Any = "code" if found.nulls else "drop"
    if not found.nulls and found.middle is not None and not column.temporal:
        null = {"value": _number(found.middle)}
    edges = _increasing(found.edges)
    most = len(edges) - 1 if most_whole is None else most_whole
    whole = column.whole or dtypes.family(column.dtype) == "int" or found.digits == 0
    if whole and edges[-1] - edges[0] <= most:
        low = int(edges[0])
        high = int(edges[-1]) - 1
        entry = column.finished("integer", null, "clamp", min=low, max=high)
        return {k: v for k, v in entry.items() if k not in ("whole", "digits", *OPTIONS)}
    listed: list[Any]
    if column.temporal:
        listed = [epoch.text_of(int(edge), column.dtype) for edge in edges]
    else:
        listed = [_number(edge) for edge in edges]
    more: dict[str, Any] = {"whole": True} if whole else {}
    if found.digits and not whole:
        more["digits"] = found.digits
    if not column.measured:
        more["means"] = EVEN
    elif _wide(edges):
        more["means"] = PRIVATE
    atoms = column.stated.get("atoms", ())
    if atoms and atoms != PRIVATE:
        more["atoms"] = [a for a in atoms if edges[0] <= a < edges[-1]]
    return column.finished("numeric", null, "clamp", edges=listed, **more)


def likely_edges(column: Any) -> list[float]:
    """Edges of as many bins as the column asks for, with which a run is planned."""
    return [float(i * 10) for i in range(column.bins + 1)]


def _increasing(edges: Sequence[float]) -> list[float]:
    """The edges that differ as floats, at least two: beyond 2^53 units of the last digit, decimals
    that differ can be one float."""
    out = [edges[0]]
    out += [b for a, b in pairwise(edges) if float(b) > float(a)]
    return out if len(out) > 1 else [*out, math.nextafter(float(out[0]), math.inf)]


def _wide(edges: Sequence[float]) -> bool:
    """Whether values a tenth of a bin higher or lower would change the column's mean by more than
    NARROW, if all bins held as many rows. Of narrower bins no means are worth their noise."""
    widths = [b - a for a, b in pairwise(edges)]
    return 0.1 * sum(widths) > NARROW * sum(abs(a + b) / 2 for a, b in pairwise(edges))


def _number(edge: float) -> int | float:
    return int(edge) if edge % 1 == 0 and abs(edge) < 2**53 else edge

"""Numbers for readers: figures with as many digits as their interval is worth, and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

FIGURES = ("estimate", "low", "high", "cap", "capped", "capped_low", "capped_high", "mu")
"""Columns of a table of numbers beside the question, the `by` columns and the note."""


def is_share(row: Mapping[str, Any]) -> bool:
    """Whether a row of the table is a share, which is shown in per cent."""
    return str(row["number"]).lower().startswith("share")


def group_columns(names: Sequence[str]) -> list[str]:
    """The `by` columns among the columns of a table of numbers."""
    return [name for name in names if name not in ("number", "note", *FIGURES)]


def figure(
    value: float | None, width: float, share: bool = False, how: Callable[[Decimal], int] = round
) -> str:
    """A number rounded to two digits of the half width of its interval; "-" if there is none.
    how: `math.floor` or `math.ceil` for an end, so that rounding leaves nothing out."""
    if value is None:
        return "-"
    scale = 100.0 if share else 1.0
    value = value * scale
    width = abs(width) * scale
    digits = 0
    if 0 < width < math.inf:
        digits = min(1 - math.floor(math.log10(width)), 6)
    if math.isfinite(value):
        step = Decimal(1).scaleb(-digits)
        value = float(how(Decimal(repr(value)) / step) * step)
    return f"{value:,.{max(digits, 0)}f}" + (" %" if share else "")


def shown(row: Mapping[str, Any]) -> dict[str, str]:
    """The figures of a row as texts: estimate, interval, capped."""
    share = is_share(row)
    out = {"estimate": "-", "interval": row.get("note") or "-", "capped": ""}
    if row["estimate"] is not None and row["low"] is not None and row["high"] is not None:
        width = (row["high"] - row["low"]) / 2
        low = figure(row["low"], width, share, math.floor)
        high = figure(row["high"], width, share, math.ceil)
        out["estimate"] = figure(row["estimate"], width, share)
        claim = claim_of(row)
        out["interval"] = f"{low} to {high}" + (f", {claim}" if claim else "")
    if row["capped"] is not None and row["capped_high"] is not None:
        half = row["capped_high"] - row["capped"]
        capped = figure(row["capped"], half)
        error = figure(half, half, how=math.ceil)
        out["capped"] = f"{capped} ± {error} (each user up to {row['cap']:,.10g})"
    return out


def claim_of(row: Mapping[str, Any]) -> str:
    """What an interval rests on, where it rests on more than noise."""
    claim = str(row.get("note") or "").partition(";")[0]
    return claim if claim.startswith("if ") else ""


def table_rows(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Heads and lines of a table for people."""
    if not rows:
        return []
    groups = group_columns(list(rows[0]))
    capped = any(row["capped"] is not None for row in rows)
    heads = ["number", *groups, "estimate", "95 % interval"]
    lines = [[*heads, *(["capped sum"] if capped else []), ""]]
    for row in rows:
        texts = shown(row)
        claim = claim_of(row)
        own = [row["number"], *(row[name] or "" for name in groups), texts["estimate"]]
        if row["estimate"] is None:
            own += ["withheld", *([texts["capped"]] if capped else [])]
            claim = texts["interval"].removeprefix("withheld: ")
        else:
            ends = texts["interval"].removesuffix(f", {claim}")
            own += [ends, *([texts["capped"]] if capped else [])]
        lines.append([*own, claim])
    return lines


NOTE = (
    "Intervals hold the true number with a probability of 95 %. Those of totals and means hold if no "
    "user has more than they say, which nothing here can show: noise may hide a few users who have, "
    "and then the truth may lie outside. Intervals of capped sums, counts and shares of users rest on "
    "nothing else."
)

"""Means of amounts, in all and by group: a rough mean, then residuals from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import group_estimates as groups, sum_estimates as sums
from .asked_sums import HATS
from .asking import Ask, Asking, Line, PartOf, top_of
from .declared import Declared
from .encodings import (
    LARGEST,
    LARGEST_SHIFT,
    MOST_WEIGHT,
    CappedGroups,
    CappedSum,
    DirectionHats,
    Hats,
    octaves,
)
from .sum_estimates import Interval
from .typed import TypedNumber

ROUGH = 0.1
"""Part of a mean's mu^2 for the rough sum."""
ROWS = 0.1
"""Part of a mean's mu^2 for the rows that divide it."""


def mean(ask: Asking, facts: Declared) -> Line:
    """R0 + D / N: a rough mean R0 from hats, the sum D of value - R0 * weight from signed hats and a
    capped sum, the sum N of weights from hats."""
    rows, look_rows = _rows(ask)
    rough, shift = _rough(ask, facts, rows)
    rest = 1 - ROUGH - ROWS
    corners = octaves(min(LARGEST, top_of(facts) << (shift + 1)))
    reading: dict[str, Any] = {"of": "residual", "signed": True, "rough": rough, "shift": shift}
    values, s = ask(Hats(corners=corners, **reading), rest * HATS, "hats of residuals")
    seen = sums.look(values, s, np.array(corners), True, s * math.sqrt(HATS))
    cut = CappedSum(cap=seen.cap, **reading)
    (capped,), sigma = ask(cut, rest * (1 - HATS), "capped sum of residuals")
    d = sums.total(seen, ask.rng, (float(capped), sigma)).resampled(ask.rng)
    n = np.maximum(sums.total(look_rows, ask.rng).resampled(ask.rng), 1.0)
    low, middle, high = np.quantile((rough + d / n) / 2**shift, (0.025, 0.5, 0.975))
    return None, Interval(float(middle), float(low), float(high)), None, ""


def mean_by_group(ask: Asking, number: TypedNumber, facts: Declared) -> list[Line]:
    """As `mean` with one rough mean for all groups, and direction hats over groups."""
    size = number.groups
    rows, _ = _rows(PartOf(ask, 0.5))
    rough, shift = _rough(PartOf(ask, 0.5), facts, rows)
    rest = 1 - ROUGH - ROWS
    weights = octaves(MOST_WEIGHT)
    values, s = ask(
        DirectionHats(corners=weights, groups=size, of="weight"), ROUGH, "rows by group"
    )
    seen_rows = groups.look(values, s, np.array(weights), size, False, s)
    corners = octaves(min(LARGEST, top_of(facts) << (shift + 1)))
    reading: dict[str, Any] = {"of": "residual", "signed": True, "rough": rough, "shift": shift}
    hats = DirectionHats(corners=corners, groups=size, **reading)
    values, s = ask(hats, rest * HATS, "hats of residuals by group")
    seen = groups.look(values, s, np.array(corners), size, True, s * math.sqrt(HATS))
    cut = CappedGroups(cap=seen.cap, groups=size, **reading)
    capped, sigma = ask(cut, rest * (1 - HATS), "capped residuals by group")
    lines: list[Line] = []
    for g in range(size):
        if not seen_rows.given[g]:
            lines.append((g, None, None, "withheld: too few rows of the group are visible"))
            continue
        d = groups.total(seen, g, ask.rng, (float(capped[g]), sigma)).resampled(ask.rng)
        n = np.maximum(groups.total(seen_rows, g, ask.rng).resampled(ask.rng), 1.0)
        low, middle, high = np.quantile((rough + d / n) / 2**shift, (0.025, 0.5, 0.975))
        lines.append((g, Interval(float(middle), float(low), float(high)), None, ""))
    return lines


def _rows(ask: Ask) -> tuple[float, sums.Look]:
    """The sum of weights, roughly, and what its hats show."""
    corners = octaves(MOST_WEIGHT)
    values, s = ask(Hats(corners=corners, of="weight"), ROWS, "rows")
    seen = sums.look(values, s, np.array(corners), False, s)
    here = slice(0, seen.above.measured + 1)
    return float(seen.above.c[here] @ seen.corners[here]), seen


def _rough(ask: Ask, facts: Declared, rows: float) -> tuple[int, int]:
    """(R0 * 2^shift as a whole number, shift): the sum that hats show, divided by the rows. Any R0
    is right; one near the mean leaves small residuals."""
    corners = octaves(top_of(facts))
    values, s = ask(Hats(corners=corners, signed=facts.signed), ROUGH, "rough sum")
    seen = sums.look(values, s, np.array(corners), facts.signed, s)
    amount = 0.0
    for sign, side in ((1, seen.above), (-1, seen.below)):
        if side is not None:
            here = slice(0, seen.above.measured + 1)
            amount += sign * float(side.c[here] @ seen.corners[here])
    mean = amount / max(rows, 1.0)
    if not facts.signed:
        mean = max(mean, 0.0)
    shift = min(LARGEST_SHIFT, max(0, LARGEST_SHIFT + 2 - int(abs(mean)).bit_length()))
    return round(mean * 2**shift), shift

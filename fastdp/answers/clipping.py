"""What a clip did to the counts: the factor from rows that count to rows of the table, and the share left
out.

At clip C the rows of a user with R rows weigh min(1, C / R). Estimates are about weighted rows; a table's
rows are `factor` times as many, by the released histogram of rows per user. How the rows left out are divided
among cells is not known. The allowance for it is the share of rows left out (`lost`), relative to the count:
on flights, Chicago trips and simulated trips such intervals covered 95 to 100 % of cells at nominal 95.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from ..measurement import Measurement
from ..privacy import clip as clip_rules
from ..schema import Schema

Z95 = NormalDist().inv_cdf(0.975)
"""Allowances were chosen as half-widths at 95 %; divided by it, they scale with the level."""
HISTOGRAM = "rows per user"
MEANS = 0.35
"""Part of the share left out by which a mean may be off, in standard deviations of the value (chosen on
flights, Chicago trips and simulated trips, where such intervals covered 95 to 98 %)."""


@dataclass(frozen=True)
class Clipping:
    """`factor`, `lost`: see the module's text. `spread`: relative standard error of the factor, from the
    histogram's noise and the width of its bins. `known`: False where nothing says how many rows were left
    out. `text`: what to tell a reader."""

    factor: float = 1.0
    lost: float = 0.0
    spread: float = 0.0
    known: bool = True
    text: str = ""

    def allowance(self, rows: np.ndarray, total: float) -> np.ndarray:
        """Standard error, in rows of the table, that clipping causes in counts of `rows` weighted rows of
        `total`: how the rows left out are divided, for a cell or for all other cells together, whichever is
        less; and how many they are."""
        rows = np.maximum(rows, 0.0)
        divided = self.lost * np.minimum(rows, np.maximum(total - rows, 0.0)) / Z95
        return self.factor * np.hypot(divided, self.spread * rows)


def clipping_of(
    statement: Mapping[str, Any], schema: Schema, measurements: Sequence[Measurement]
) -> Clipping:
    """From the statement of a run and its released histogram of rows per user."""
    if schema.user is None or statement.get("unit", {}).get("kind") == "event":
        return Clipping()
    parts = statement.get("parts") or [{}]
    part = parts[statement.get("part", 0)]
    clip, choice, bound = part.get("clip"), part.get("clip_choice"), schema.max_rows_per_user
    if clip is None:
        return Clipping(known=False, text="the statement names no clip")
    if choice is not None:
        return from_histogram(clip, choice["users"], choice["bound"], choice.get("sigma"))
    if bound is not None and clip >= bound:
        return Clipping(
            text=f"no rows are left out if no user has more than {bound} rows, as the schema says"
        )
    found = next((m for m in measurements if m.label == HISTOGRAM), None)
    if found is None or bound is None:
        return Clipping(
            known=False,
            text=f"rows counted at clip {clip}: no histogram of rows per user was released, so nothing says "
            "how many rows were left out",
        )
    return from_histogram(clip, found.values.tolist(), bound, float(np.max(found.sigma)))


def from_histogram(clip: int, values: Sequence[float], bound: int, sigma: float | None) -> Clipping:
    """From a noisy histogram over `size_edges(bound)` with standard error `sigma` per bin."""
    sizes, users = (np.array(x, float) for x in clip_rules.from_histogram(values, bound, sigma))
    rows, kept = float(sizes @ users), float(np.minimum(sizes, clip) @ users)
    if not kept > 0:
        return Clipping(known=False, text="the histogram of rows per user holds nothing but noise")
    lost, factor = min(max(1 - kept / rows, 0.0), 0.999), rows / kept
    edges = np.array(clip_rules.size_edges(bound))
    ends = np.append(edges[1:] - 1, bound)
    middle, width = (edges + ends) / 2, ends - edges
    seen = np.array(clip_rules.seen(values, sigma)) if sigma is not None else np.maximum(values, 0.0)
    slope = (middle - factor * np.minimum(middle, clip)) / kept
    # Bins in which nobody stands out count as empty in the factor; their noise says how many rows may be
    # there.
    noise = (sigma or 0.0) * math.sqrt(float(np.square(slope).sum()))
    bins = float(np.maximum(seen, 0.0) @ np.where(ends > clip, width, 0.0)) / math.sqrt(12) / kept
    text = f"clip {clip} leaves out about {lost:.0%} of the rows; counts are scaled up" if lost > 5e-4 else ""
    return Clipping(factor, lost, math.hypot(noise, bins) / factor, True, text)

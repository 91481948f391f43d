"""What a clip did to the counts: the factor from rows that count to rows of the table, and the share left out.

At clip C the rows of a user with R rows weigh min(1, C / R). Estimates are about weighted rows; a table's rows
are `factor` times as many, by the released histogram of rows per user. How the rows left out are divided among
cells is not known. The allowance for it is the share of rows left out (`lost`), relative to the count: on
flights, Chicago trips and simulated trips such intervals covered 95 to 100 % of cells at nominal 95.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..measurement import Measurement
from ..privacy import clip as clip_rules
from ..schema import Schema

HISTOGRAM = "rows per user"
MEANS = 0.35
"""Part of the share left out by which a mean may be off, in standard deviations of the value (chosen on flights,
Chicago trips and simulated trips, where such intervals covered 95 to 98 %)."""


@dataclass(frozen=True)
class Clipping:
    """`factor`, `lost`: see the module's text. `known`: False where nothing says how many rows were left
    out. `text`: what to tell a reader."""

    factor: float = 1.0
    lost: float = 0.0
    known: bool = True
    text: str = ""


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
        return _from_lost(clip, choice["lost"])
    if bound is not None and clip >= bound:
        return Clipping(text=f"no rows are left out if no user has more than {bound} rows, as the schema says")
    found = next((m for m in measurements if m.label == HISTOGRAM), None)
    if found is None or bound is None:
        return Clipping(
            known=False,
            text=f"rows counted at clip {clip}: no histogram of rows per user was released, so nothing says "
            "how many rows were left out",
        )
    sizes, users = clip_rules.from_histogram(found.values.tolist(), bound, float(np.max(found.sigma)))
    rows = math.fsum(r * u for r, u in zip(sizes, users))
    kept = math.fsum(min(r, clip) * u for r, u in zip(sizes, users))
    return _from_lost(clip, 1 - kept / rows if rows > 0 else 0.0)


def _from_lost(clip: int, lost: float) -> Clipping:
    lost = min(max(float(lost), 0.0), 0.999)
    text = f"clip {clip} leaves out about {lost:.0%} of the rows; counts are scaled up" if lost > 5e-4 else ""
    return Clipping(1 / (1 - lost), lost, True, text)

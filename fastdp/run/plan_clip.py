"""The lines of a plan about the clip: rows lost at it, the clip suggested by public data, and the
clips that a run may choose from."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from ..mechanisms.base import Config
from ..mechanisms.plans import Outline, users_share
from ..mechanisms.shared.histogram_noise import HistogramNoise
from ..privacy.clip import (
    PRIVATE,
    TV_PER_LOST_ROW,
    TV_WITHOUT_MARGINAL,
    candidates,
    unit_noise,
)
from ..public.data import PublicTable
from ..schema import Schema
from ..tables.table import Table
from .plan_result import ClipOption


class ClipFacts(Struct, frozen=True):
    """`lost`: share of the public rows lost at this clip. `suggested`: the clip that public data
    suggests. `options`: clips that the run may choose from. `noise`: of the histogram it chooses
    by."""

    lost: float | None = None
    suggested: int | None = None
    options: tuple[ClipOption, ...] = ()
    noise: float | None = None


def clip_facts(
    public: Table | bool,
    clip: int,
    mu: float,
    config: Config,
    schema: Schema,
    outline: Outline,
    rows: int,
) -> ClipFacts:
    """What public facts say of the clip."""
    with_public = public is not False
    with_users = schema.user is not None
    chosen = with_users and config.clip == PRIVATE
    table = None if isinstance(public, bool) or public.user is None else public
    if table is None and not chosen:
        return ClipFacts()
    clip_criteria = config.clip_criteria(schema.modelled, public=with_public, user=with_users)
    noise = unit_noise(mu, ((p.cells, p.weight) for p in clip_criteria))
    lost = None
    suggested = None
    costs = {}
    counts_rows = bool(clip_criteria) or not outline.measurements  # else only users are counted
    if table is not None and counts_rows:
        corrected = chosen or config.traits.corrects_clipped_total
        rule = {"displaced": TV_PER_LOST_ROW, "alone": TV_WITHOUT_MARGINAL} if corrected else {}
        bound = clip if chosen else None
        seen = PublicTable(table).choose_clip(noise, rows, bound=bound, also=(clip,), **rule)
        costs = {line.clip: (line.lost, line.error) for line in seen.lines}
        lost = costs[clip][0]
        suggested = seen.clip if clip_criteria else None
    if not chosen:
        return ClipFacts(lost, suggested)
    cell = float(np.median([1 / (mu * math.sqrt(p.weight)) for p in clip_criteria]))
    grid = candidates(clip)
    some = {*grid[:: max(1, len(grid) // 7)], clip} | ({suggested} if suggested else set())
    lines = tuple(ClipOption(c, c * cell, *costs.get(c, ())) for c in sorted(some))
    share = users_share(config, public=with_public, user=with_users)
    histogram = HistogramNoise(False, 1, mu).std(share)
    return ClipFacts(lost, suggested, lines, histogram)

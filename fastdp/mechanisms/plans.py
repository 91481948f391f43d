"""The plan of a mechanism: its releases with their shares, stated once and then executed."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..division import BY_RECIPE, HISTOGRAM, WHY
from ..domain import Clique, Domain
from ..privacy.clip import PRIVATE
from .limits import size_limits

ROWS_PER_USER = "rows per user"
"""The label of the histogram that user ids and the clip can come from."""
DISTANCES = "distances of the finished model"
"""The label of the distances of the model from pairs that were not measured."""
EVENLY = np.arange(1, 32, 2) / 32
"""Places among the sizes of all pairs, of which `any_pair` takes its stand-ins."""
ROUNDING = 1 + 1e-9
"""Shares that are worked out in floating point may add up to this times what they divide."""


class Planned(Struct, frozen=True):
    """One line of a plan: `times` measurements of `clique`, each for a `share` of mu^2 (of epsilon
    in a pure run); `averaged` unless they are of different marginals. `cap`: where set, users are
    counted instead of rows, each in at most `cap` cells. `contrast`: one number is measured in place of
    the cells (docs/explain/two-valued.md)."""

    clique: Clique
    share: float
    cells: int
    times: int = 1
    note: str = ""
    cap: int | None = None
    averaged: bool = True
    contrast: bool = False

    @property
    def weight(self) -> float:
        """The share of mu^2 behind one answer: the sum over all copies that are averaged."""
        return self.share * self.times if self.averaged else self.share


class PlannedStep(Struct, frozen=True):
    """One step of a plan: releases that have a label in common. share: of mu^2, in all. lines: what
    it measures; empty where it measures no marginals, or where the run finds out which."""

    label: str
    share: float
    lines: tuple[Planned, ...] = ()

    def __post_init__(self) -> None:
        lines = sum(line.share * line.times for line in self.lines)
        if lines > self.share * ROUNDING:
            raise ValueError(
                f"step {self.label!r}: its lines take {lines:.4g} of mu^2 and the step has"
                f" {self.share:.4g}; `times` measurements take that many times the share of one"
            )

    @property
    def why(self) -> str:
        """What the share buys."""
        return WHY.get(re.sub(r"^\d+ ", "", self.label), BY_RECIPE)


class Outline(Struct, frozen=True):
    """A mechanism's plan: its steps, the cliques of its model, and what is known only in the
    run."""

    steps: tuple[PlannedStep, ...]
    cliques: tuple[Clique, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        total = sum(step.share for step in self.steps)
        if total > ROUNDING:
            parts = ", ".join(f"{step.label} {step.share:.4g}" for step in self.steps)
            raise ValueError(f"the steps take {total:.4g} of mu^2, which is 1 in all: {parts}")

    @property
    def measurements(self) -> tuple[Planned, ...]:
        """The lines of all steps."""
        return tuple(line for step in self.steps for line in step.lines)

    @property
    def charges(self) -> tuple[tuple[str, float], ...]:
        """(label, share of mu^2) of the steps without lines."""
        return tuple((step.label, step.share) for step in self.steps if not step.lines)

    def after(self, first: PlannedStep) -> Outline:
        """The same plan, with one step before all others."""
        return replace(self, steps=(first, *self.steps))

    def lines(self, label: str) -> tuple[Planned, ...]:
        """What the step of this label measures; empty if there is none."""
        return next((step.lines for step in self.steps if step.label == label), ())

    def share(self, label: str) -> float:
        """The share of mu^2 of the step of this label; 0 if there is none."""
        return next((step.share for step in self.steps if step.label == label), 0.0)


def any_pair(domain: Domain, share: float) -> list[Planned]:
    """Stand-ins for pairs that are chosen in the run, for `Config.clip_criteria`: sizes evenly spread
    among those of all pairs, each with the share of one pair. A step of a plan has one line in their
    place, ("any", "pair") with `times`."""
    most = size_limits.MAX_PAIR_CELLS
    cells = sorted(domain.cells(p) for p in combinations(domain, 2) if domain.cells(p) <= most)
    picked = [cells[int(at * len(cells))] for at in EVENLY] if cells else []
    return [Planned(("any", "pair"), share, c) for c in picked]


def ids_share(ids: Any, *, public: bool, user: bool) -> float:
    """The share of mu^2 that ids (`base.Ids`) cost: nothing without a user column, with public
    data, or where none are wanted."""
    private = ids.source == "private" or (ids.source == "auto" and not public)
    return ids.share if user and private else 0.0


def users_share(config: Any, *, public: bool, user: bool) -> float:
    """The share of mu^2 of the histogram of rows per user, of a config (`base.Config`). Ids and clip
    use the same one: the larger share pays for both."""
    share = ids_share(config.ids, public=public, user=user)
    if user and config.clip == PRIVATE:
        share = max(share, HISTOGRAM if config.clip_share is None else config.clip_share)
    return share

"""How well a table can be known: the evidence from which a verdict is made.

Before a run it follows from the plan's noise and a public guess of the rows (`expected_precision`),
after a run from its released numbers (`released_precision`). Both fill one structure, so that one
judge words both (`verdict`).

The precision of a column is the half-width at 95 % of the share of one of its values. It is
compared with the column's *typical share*: the expected share of the value that a random row has,
the sum of squared shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ..errors import UsageError
from .amount_columns import amounts, bounded
from .answer import answer
from .clipping import Z95, Clipping
from .facts import Facts

CLEAR = 0.25
"""A share is quotable where its half-width is at most so large a part of it. This chooses a word."""
FAITHFUL = 0.05
"""A table is good for what has at most this part of the rows wrong. This chooses a word."""
PART = 0.95
"""The part of the rows whose values have at most the half-width that a verdict names."""
MOST_MEANS = 12
"""Columns of numbers whose mean is looked at: each takes some milliseconds."""


class Known(Struct, frozen=True):
    """How well the shares of a column or of a pair are known. It has the half-width at 95 % of a
    share, and the share of the value of a typical row, both as parts of all rows."""

    names: tuple[str, ...]
    half: float
    typical: float

    @property
    def noise(self) -> bool:
        """Whether a typical value does not stand out of the noise."""
        return not self.half < self.typical

    @property
    def clear(self) -> bool:
        return self.half <= CLEAR * self.typical


class Amount(Struct, frozen=True):
    """A sum, mean or other number: how far its interval reaches from the estimate, as a part of it or
    in points of a share. `bounded`: values beyond the bounds count as the nearest one. `unless_low`:
    the width is another one where most values are the lowest."""

    name: str
    half: float
    points: bool = False
    bounded: bool = False
    unless_low: bool = False

    @property
    def clear(self) -> bool:
        return self.half <= CLEAR


class Learnt(Struct, frozen=True):
    """A column of which a plan would say another word: the share of the value of a typical row, and
    what a plan guesses of it."""

    name: str
    typical: float
    guessed: float


class People(Struct, frozen=True):
    """What is known of users. `facts`: what was released about each user's rows together; `half`:
    the half-width of a share of users; `kept`: whether users' rows are dealt by released habits."""

    facts: tuple[str, ...] = ()
    half: float = math.inf
    kept: bool = False


class Precision(Struct, frozen=True):
    """What one can know of a table. `rows`: how many rows it has, as far as known. `lost`: columns
    most of whose rows lie outside the domain. `pairs`: those that are measured, with names where
    they are known. `pairs_chosen`: the run will choose them, `measured_pairs` at most. `others`:
    the part of the rows that count in a wrong cell of an unmeasured pair, if it was released;
    `others_told`: it will be. `merged`: columns of unmeasured pairs in which many rows have a value
    that shares its cells with others. `people`: None for a table without users. `order`: columns
    that order a user's rows. `target`: the column for whose models the run measures, if one was
    named; `takes_target`: the mechanism can be told of one. `leaves_out`: the clip leaves rows out.
    `guessed`: the shares are guesses; `learnt`: columns of which a plan would say another word."""

    rows: float | None
    columns: tuple[Known, ...]
    lost: tuple[str, ...] = ()
    pairs: tuple[Known, ...] = ()
    measured_pairs: int = 0
    of_pairs: int = 0
    pairs_chosen: bool = False
    others_told: bool = False
    others: float | None = None
    merged: tuple[str, ...] = ()
    amounts: tuple[Amount, ...] = ()
    asked: tuple[Amount, ...] = ()
    people: People | None = None
    target: str = ""
    takes_target: bool = False
    order: tuple[str, ...] = ()
    clip: str = ""
    clip_warns: bool = False
    leaves_out: bool = False
    guessed: bool = False
    learnt: tuple[Learnt, ...] = ()


def half_width(
    counts: np.ndarray,
    errors: np.ndarray | float,
    clipping: Clipping,
    rows: float,
    columns: Sequence[str] = (),
) -> float:
    """The half-width at 95 % of the shares of these counts of `rows` rows that count: noise, and how
    the rows left out may be divided. A clip moves large counts more than small ones. The half-width is
    therefore that which the values of PART of the rows do not exceed."""
    down, up = clipping.divided(counts, rows, columns)
    halves = np.broadcast_to(Z95 * (errors + np.maximum(down, up)) / rows, counts.shape)
    order = np.argsort(halves, kind="stable")
    below = np.cumsum(np.maximum(counts, 0.0)[order])
    if not below[-1] > 0:
        return float(halves.max())
    return float(halves[order[np.searchsorted(below, PART * below[-1])]])


def means(facts: Facts) -> list[Amount]:
    """Means of columns of amounts. A mean is as wide as its sum, but for the number of rows."""
    out = []
    for name in amounts(facts.schema):
        try:
            (found,) = answer(facts, f"mean({name})").to_pylist()
        except UsageError:
            continue
        out.append(Amount(name, relative_reach(found), bounded=bounded(facts.schema.columns[name])))
        if len(out) == MOST_MEANS:
            break
    return out


def asked_amount(number: str, half: float, capped: float, points: bool) -> Amount:
    """A number as a verdict has it: the sum with users capped where only that is narrow, and said so."""
    if half > CLEAR >= capped and not points:
        return Amount(f"{number} with users capped", capped)
    return Amount(number, half, points)


def reach(line: Mapping[str, Any]) -> float:
    """How far the interval reaches from the estimate, to the farther end."""
    low, high = line.get("low"), line.get("high")
    if low is None or high is None:
        return math.inf
    middle = line.get("estimate")
    return (high - low) / 2 if middle is None else max(high - middle, middle - low)


def relative_reach(line: Mapping[str, Any]) -> float:
    middle = line.get("estimate")
    return reach(line) / abs(middle) if middle else math.inf

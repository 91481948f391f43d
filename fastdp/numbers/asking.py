"""How a number asks a session for vectors of users, and what its lines are made of."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from msgspec import Struct

from .declared import Declared
from .encoding_grid import octaves, rounded_cap
from .sum_estimates import Interval
from .sums_plan import SumsPlan
from .typed import TypedNumber
from .user_encoding import UserEncoding

TOP = 1 << 40
"""Users' values saturate here; the last corner where no maximum is declared."""


ASSUMES = "if no user has more than "
IN_ALL = " in all groups together"
"""Where groups are asked: what is bounded is the length of a user's vector, which is at most the sum."""
DECLARE = "declare a maximum per user to make sure of it"
LOWER = "declare a lower maximum per user to make sure of it"
ALLOWED = "the schema allows no more"


class Released(Protocol):
    """Answers of an encoding and the standard deviation of their noise."""

    @property
    def values(self) -> np.ndarray: ...
    @property
    def sigma(self) -> float: ...


class ClaimTest(Protocol):
    """A test of what a number rests on: whether it was of this claim, and how many users with more
    would have been noticed."""

    @property
    def unnoticed(self) -> int: ...
    def covers(self, claim: float) -> bool: ...


class Releases(Protocol):
    """What is asked of a session (`release.gateway.Session`)."""

    def user_vector(self, plan: SumsPlan, *, mu: float, label: str) -> Released: ...


class Ask(Protocol):
    """`Asking`, or a part of it."""

    def __call__(
        self, encoding: UserEncoding, part: float, what: str
    ) -> tuple[np.ndarray, float]: ...


class NumberResult(Struct, frozen=True):
    """One line: `number` of those asked, `group` of its groups (None without `by`). Amounts, not
    units. estimate, low, high: None where the group is withheld; cap, capped: each user counted up
    to the cap, with an exact interval; mu: what the number cost in all."""

    number: int
    group: int | None
    estimate: float | None
    low: float | None
    high: float | None
    cap: float | None = None
    capped: float | None = None
    capped_low: float | None = None
    capped_high: float | None = None
    mu: float = 0.0
    note: str = ""


class Asking:
    """Asks for vectors of one number: each request takes a part of the number's mu^2."""

    def __init__(self, session: Releases, number: TypedNumber, mu: float, seed: int, index: int):
        self.session = session
        self.number = number
        self.mu = mu
        self.name = f"number {index + 1}"
        self.rng = np.random.Generator(np.random.Philox(key=[seed, 1000 + index]))

    def __call__(self, encoding: UserEncoding, part: float, what: str) -> tuple[np.ndarray, float]:
        mu = self.mu * math.sqrt(part) * (1 - 1e-12)
        label = f"{self.name} ({what}): {self.number.text}"
        found = self.session.user_vector(SumsPlan(self.number, encoding), mu=mu, label=label)
        return found.values, float(found.sigma)


class PartOf:
    """`Asking` with every part multiplied by a factor."""

    def __init__(self, ask: Asking, factor: float):
        self.ask = ask
        self.factor = factor

    def __call__(self, encoding: UserEncoding, part: float, what: str) -> tuple[np.ndarray, float]:
        return self.ask(encoding, part * self.factor, what)


Line = tuple[int | None, Interval | None, tuple[float, Interval] | None, str]
"""(group, estimate, (cap, capped sum), note), in units."""


def top_of(facts: Declared) -> int:
    return rounded_cap(min(facts.maximum or TOP, TOP))


def corners_of(facts: Declared) -> tuple[int, ...]:
    """Public corners of amounts: powers of two up to the declared maximum. What the schema allows takes
    the place of the nearest one, so that it is a corner itself."""
    corners = list(octaves(top_of(facts)))
    allowed = facts.allowed
    if allowed is not None and 1 < allowed < corners[-1]:
        ratios = [abs(math.log(corner / allowed)) for corner in corners]
        near = max(1, ratios.index(min(ratios)))
        if near < len(corners) - 1:
            corners[near] = rounded_cap(allowed)
    return tuple(corners)


def note_above(
    facts: Declared, most: float, unit: float, where: str = "", test: ClaimTest | None = None
) -> str:
    """What the interval of a total rests on. most: what no user is taken to exceed, in units of which
    each is `unit`; where: `IN_ALL` by group; test: of the claim."""
    if facts.maximum is not None and most >= top_of(facts):
        return "each user counted up to the declared maximum"
    if facts.allowed is not None and most >= rounded_cap(facts.allowed):
        return f"{ASSUMES}{most * unit:,.10g}; {ALLOWED}"
    why = DECLARE if facts.maximum is None else LOWER
    return f"{ASSUMES}{most * unit:,.10g}{where}; {noticed(test, most)}{why}"


def noticed(test: ClaimTest | None, claim: float) -> str:
    """How good the test of a claim is; nothing where there is none."""
    if test is None or not test.covers(claim):
        return ""
    return f"{test.unnoticed} with more would have been noticed, fewer may not be; "


def at_least(found: Interval, least: float) -> Interval:
    """What is known in public of the number cuts its interval. Where noise puts the estimate below,
    the interval keeps its reach above: it would end at what is least, as if nothing were uncertain."""
    estimate = max(found.estimate, least)
    return Interval(estimate, max(found.low, least), estimate + found.high - found.estimate)

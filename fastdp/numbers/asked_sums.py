"""Sums of amounts, in all and by group: hats, then a capped sum."""

from __future__ import annotations

import math

import numpy as np

from . import group_estimates as groups, sum_estimates as sums
from .asking import Asking, Line, at_least, note_above, top_of
from .declared import Declared
from .encodings import CappedGroups, CappedSum, DirectionHats, Hats, octaves
from .sum_estimates import normal
from .typed import TypedNumber

FIRST_HATS = 0.25
"""Part of a sum's mu^2 for the first hats. They show what the capped sum needs; the rest of mu^2 is
for hats again. Less would leave the cap to noise."""
LEAST_CAPPED = 0.15
"""Part of a sum's mu^2 that the capped sum has at least, where a smaller one would do."""
STEPS = 64
"""What the capped sum gets is a whole multiple of 1 / STEPS, so that no last bit decides a charge."""
HATS = 0.5
"""Part of the mu^2 of groups, residuals and sums with a declared maximum that hats get; the capped
sums get the rest. With .3 the upper end is a fifth higher, with .7 the capped sum has 1.3 times the
noise."""


def sum_of(ask: Asking, facts: Declared) -> Line:
    """A total and the sum with each user counted up to a cap."""
    seen, part = _hats(ask, facts)
    cap = seen.cap
    (capped,), sigma = ask(CappedSum(cap=cap, signed=facts.signed), part, "capped sum")
    exact = normal(float(capped), sigma)
    found = sums.total(seen, ask.rng, (float(capped), sigma)).interval()
    if sums.nothing_above(seen):
        found = sums.linear(seen, (float(capped), sigma))
    if not facts.signed:
        found = at_least(found, 0.0)
    return None, found, (float(cap), exact), note_above(facts)


def _hats(ask: Asking, facts: Declared) -> tuple[sums.Look, float]:
    """(What hats show, the part of mu^2 for the capped sum). Without a declared maximum the capped
    sum gets what makes it printable, by the first hats. All the rest is for hats again, which the
    tail needs. With a maximum both are combined exactly, and each gets half."""
    corners = octaves(top_of(facts))
    at = np.array(corners)
    hats = Hats(corners=corners, signed=facts.signed)
    first = HATS if facts.maximum is not None else FIRST_HATS
    values, s = ask(hats, first, "hats")
    whole = s * math.sqrt(first)
    part = 1 - first
    seen = sums.look(values, s, at, facts.signed, whole, whole / math.sqrt(part))
    if facts.maximum is not None:
        return seen, part
    wanted = math.ceil(STEPS * (seen.relative * whole / sums.AIM) ** 2)
    needed = max(LEAST_CAPPED, wanted / STEPS)
    if needed >= part:
        return seen, part
    again, noise = ask(hats, part - needed, "hats again")
    values = values + s**2 / (s**2 + noise**2) * (again - values)
    s = s * noise / math.hypot(s, noise)
    return sums.look(values, s, at, facts.signed, whole, whole / math.sqrt(needed)), needed


def sum_by_group(ask: Asking, number: TypedNumber, facts: Declared) -> list[Line]:
    size = number.groups
    corners = octaves(top_of(facts))
    hats = DirectionHats(corners=corners, groups=size, signed=facts.signed)
    values, s = ask(hats, HATS, "hats by group")
    whole = s * math.sqrt(HATS)
    seen = groups.look(values, s, np.array(corners), size, facts.signed, whole)
    cap = seen.cap
    cut = CappedGroups(cap=cap, groups=size, signed=facts.signed)
    capped, sigma = ask(cut, 1 - HATS, "capped sums by group")
    lines: list[Line] = []
    for g in range(size):
        exact = normal(float(capped[g]), sigma)
        if not seen.given[g]:
            note = "withheld: too little of the group is visible; the capped sum holds"
            lines.append((g, None, (float(cap), exact), note))
            continue
        found = groups.total(seen, g, ask.rng, (float(capped[g]), sigma)).interval()
        if not facts.signed:
            found = at_least(found, 0.0)
        lines.append((g, found, (float(cap), exact), note_above(facts)))
    return lines

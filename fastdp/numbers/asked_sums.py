"""Sums of amounts, in all and by group: hats, then a capped sum."""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec
import numpy as np

from . import (
    claim_tests,
    group_estimates as groups,
    hidden_users,
    length_tests,
    sum_estimates as sums,
)
from .amount_encodings import CappedSum, DirectionHats, Hats
from .asking import IN_ALL, Asking, Line, at_least, corners_of, note_above
from .claim_tests import Beyond
from .declared import Declared
from .encoding_grid import rounded_cap
from .length_tests import LOST, Judgement
from .sum_estimates import Interval, normal
from .tail_posterior import Noise
from .typed import TypedNumber

FIRST_HATS = 0.25
"""Part of a sum's mu^2 for the first hats. They show what the capped sum needs; the rest of mu^2 is
for hats again. Less would leave the cap to noise."""
LEAST_CAPPED = 0.15
"""Part of a sum's mu^2 that the capped sum has at least, where a smaller one would do."""
LEAST_AGAIN = 10 / 64
"""Part of it that hats again have at least, unless the capped sum needs it to be nearly as narrow as
it is to be. Without hats again nothing tests what a total rests on."""
NEARLY = 1.5
"""So many times its aim a capped sum may be wide and still gets all that is left."""
STEPS = 64
"""What the capped sum gets is a whole multiple of 1 / STEPS, so that no last bit decides a charge."""
HATS = 0.5
"""Part of the mu^2 of residuals and sums with a declared maximum that hats get; the capped sums get
the rest. With .3 the upper end is a fifth higher, with .7 the capped sum has 1.3 times the noise."""
GROUP_HATS = 0.3
"""Part of the mu^2 of sums by group for the first hats, which show where users are. The rest is for
hats again at a few corners: a total has the noise of the last of them only, a capped sum 1.7 times
its cap (at .5: 2 times, and totals a tenth more; at .2 more groups are withheld)."""

EXACT = 3.0
"""With a declared maximum the interval without a model is given, unless it is so many times as wide
as the one with a model. The narrower of two intervals is more often wrong: at 2, log-normal 1.5 of
200 people covered 89 % (100 runs)."""
APART = 3.0
"""So many times as wide as the capped sum's an exact interval is at least where both give its lower
end: else it would be a seventh lower for nothing."""
FURTHER = NormalDist().inv_cdf(1 - 0.0125) / sums.Z
"""Half-widths of 97.5 % as parts of those of 95 %."""
FEW_IN_GROUP = "withheld: too little of the group is visible; the capped sum holds"
FEW = "withheld: too few users stand out of the noise; the capped sum holds"
REMEDY = "the capped sum holds, a declared maximum per user would give the total"
HEAVY = "withheld: so much may lie with a few large users that a total is of no use; " + REMEDY


def sum_of(ask: Asking, facts: Declared) -> tuple[Line, float]:
    """A total and the sum with each user counted up to a cap; and the amount that users have of whom
    there are signs."""
    seen, part = _hats(ask, facts)
    (capped,), sigma = ask(CappedSum(cap=seen.cap, signed=facts.signed), part, "capped sum")
    known = (float(capped), sigma)
    most = None
    if facts.maximum is not None or (seen.modelled and sums.measured_whole(seen)):
        most = float(seen.corners[-1])
    elif allowed_is_near(facts, seen.cap, sums.assumed(seen) if seen.modelled else 0.0):
        most = float(rounded_cap(facts.allowed or 1))
    exact = None if most is None else sums.exact(seen, known, most)
    modelled = None
    lost = sums.lost(seen)
    if seen.modelled and not seen.heavy and not lost:
        modelled = sums.total(seen, ask.rng, known).interval()
    found = _chosen(facts, exact, modelled)
    claim = most if found is exact and most is not None else sums.assumed(seen)
    note = note_above(facts, claim, float(ask.number.unit), test=seen.beyond)
    withheld = FEW
    if seen.modelled:
        withheld = LOST + REMEDY if lost and not seen.heavy else HEAVY
    if found is not None and not facts.signed:
        end = at_least_capped if found is modelled else higher_end
        found = end(found, normal(*known))
    return _line(None, facts, (seen.cap, known), found, note, withheld), sums.signs(seen)


def at_least_capped(found: Interval, capped: Interval) -> Interval:
    """A total where nobody is below zero is at least its capped sum. So the lower end of the capped sum
    is one of the total as well. It misses only where noise exceeds the half-width by all that lies above the
    cap. Of an interval with a claim: its upper end has something to spare."""
    estimate = max(found.estimate, capped.estimate)
    return Interval(estimate, max(found.low, capped.low), max(found.high, estimate))


def higher_end(found: Interval, capped: Interval) -> Interval:
    """The same of an exact interval, which has nothing to spare: the higher of two lower ends, each of
    which misses in at most 1.25 % of runs. Only where noise of the capped sum is far less."""
    if found.high - found.low < APART * (capped.high - capped.low):
        return found
    ends = [one.estimate - FURTHER * (one.estimate - one.low) for one in (found, capped)]
    low = max(ends)
    return Interval(max(found.estimate, low), low, max(found.high, low))


def allowed_is_near(facts: Declared, cap: float, assumed: float) -> bool:
    """Whether what the schema lets a user have is near enough to what users have for an interval
    that rests on nothing else: near the cap, or near what users are taken not to exceed."""
    if facts.allowed is None:
        return False
    return facts.allowed <= max(hidden_users.TIMES * cap, EXACT * assumed)


def _chosen(facts: Declared, exact: Interval | None, modelled: Interval | None) -> Interval | None:
    """With a declared maximum the interval without a model, if that is not much wider. By what the
    schema allows the modelled one, of which no end needs the model: its lower end is narrower."""
    if facts.maximum is None and modelled is not None:
        return modelled
    return better(exact, modelled)


def better(exact: Interval | None, modelled: Interval | None) -> Interval | None:
    """The interval that is given, of those that there are."""
    if exact is None or modelled is None:
        return exact or modelled
    wider = (exact.high - exact.low) > EXACT * (modelled.high - modelled.low)
    return modelled if wider else exact


def _line(
    group: int | None,
    facts: Declared,
    capped: tuple[int, tuple[float, float]],
    found: Interval | None,
    note: str,
    withheld: str,
) -> Line:
    """A line with its capped sum, and its total unless that is withheld."""
    cap, (value, sigma) = capped
    cut = normal(value, sigma)
    if not facts.signed:
        cut = at_least(cut, 0.0)
        found = None if found is None else at_least(found, 0.0)
    return group, found, (float(cap), cut), withheld if found is None else note


def with_cap(seen: sums.Look, facts: Declared) -> sums.Look:
    """Where nothing is modelled and a maximum is declared, the cap is the maximum: the capped sum is
    the total."""
    if seen.modelled or facts.maximum is None:
        return seen
    return msgspec.structs.replace(seen, cap=int(seen.corners[-1]))


def _hats(ask: Asking, facts: Declared) -> tuple[sums.Look, float]:
    """(What hats show, the part of mu^2 for the capped sum). Without a declared maximum the capped
    sum gets what makes it printable, by the first hats. All the rest is for hats again, which the
    tail needs. With a maximum both are combined exactly, and each gets half."""
    corners = corners_of(facts)
    at = np.array(corners)
    hats = Hats(corners=corners, signed=facts.signed)
    first = HATS if facts.maximum is not None else FIRST_HATS
    values, s = ask(hats, first, "hats")
    whole = s * math.sqrt(first)
    part = 1 - first
    if facts.maximum is not None:  # caps at corners: there the combination is exact
        seen = sums.look(values, s, at, facts.signed, whole, allowed=facts.allowed)
        return with_cap(seen, facts), part

    def look(
        values: np.ndarray, s: Noise, capped: float, beyond: Beyond | None = None
    ) -> sums.Look:
        return sums.look(
            values,
            s,
            at,
            facts.signed,
            whole,
            whole / math.sqrt(capped),
            facts.allowed,
            likely=facts.likely,
            beyond=beyond,
        )

    seen = look(values, s, part)
    wanted = math.ceil(STEPS * min(1.0, seen.relative * whole / sums.AIM) ** 2)
    needed = max(LEAST_CAPPED, wanted / STEPS)
    if needed > part - LEAST_AGAIN:
        if seen.relative * whole / math.sqrt(part) <= NEARLY * sums.AIM:
            return seen, part
        needed = part - LEAST_AGAIN
    again, end = claim_tests.ending_at(hats, sums.assumed(seen), facts.allowed)
    found = ask(again, part - needed, "hats again")
    both = claim_tests.combined((values, s), found, at.astype(np.float64), end)
    return look(both[0], both[1], needed, both[2]), needed


def sum_by_group(
    ask: Asking, number: TypedNumber, facts: Declared, signs: float = 0.0
) -> list[Line]:
    """Totals by group, and sums with each user's vector cut to the length of a cap. `signs`: the amount
    that users have of whom the total of all groups shows signs. No claim excludes them. Where it is
    infinite, totals of groups are withheld as that of all is."""
    size = number.groups
    lost = math.isinf(signs)
    corners = corners_of(facts)
    hats = DirectionHats(corners=corners, groups=size, signed=facts.signed)
    values, s = ask(hats, GROUP_HATS, "hats by group")
    whole = s * math.sqrt(GROUP_HATS)
    seen = groups.look(
        values,
        s,
        np.array(corners),
        size,
        facts.signed,
        whole,
        facts.allowed,
        0.0 if lost else signs,
        facts.likely,
    )
    rest = 1 - GROUP_HATS
    tested = Judgement(0.0, math.inf, 0, LOST) if lost else None
    there = seen.given
    claim = groups.testable(seen, facts)
    if claim is not None and not lost:
        rest -= length_tests.PART
        reading = {"groups": size, "signed": facts.signed}
        tested = length_tests.lengths(ask, length_tests.PART, claim, reading)
    if tested is not None:
        seen = groups.with_claims(seen, tested.times, facts.allowed)
    if facts.maximum is not None and not seen.given.any():
        seen = msgspec.structs.replace(seen, cap=corners[-1])
    most = float(corners[-1]) if facts.maximum is not None else None
    if most is None and not seen.given.any() and allowed_is_near(facts, seen.cap, 0.0):
        most = float(rounded_cap(facts.allowed or 1))
    few = groups.corners_again(seen, most)
    hats = DirectionHats(corners=few, groups=size, signed=facts.signed)
    values, s = ask(hats, rest, "hats by group again")
    again = groups.Again(few, values.reshape(len(few), -1, size), s)
    lines: list[Line] = []
    for g in range(size):
        known = again.capped(g, seen.cap)
        exact = None if most is None else groups.exact(seen, g, again.masses(g), most)
        modelled = None
        if seen.given[g]:
            modelled = groups.total(seen, g, ask.rng, known, again.masses(g)).interval()
        found = _chosen(facts, exact, modelled)
        claim = most if found is exact and most is not None else float(seen.most[g])
        note = note_above(facts, claim, float(number.unit), IN_ALL, tested)
        withheld = HEAVY if seen.heavy else FEW_IN_GROUP
        if there[g] and tested is not None:
            withheld = tested.note + REMEDY
        if found is not None and not facts.signed:
            end = at_least_capped if found is modelled else higher_end
            found = end(found, normal(*known))
        lines.append(_line(g, facts, (seen.cap, known), found, note, withheld))
    return lines

"""Means of amounts, in all and by group: a rough mean, then residuals from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from . import (
    claim_tests,
    group_estimates as groups,
    hidden_users,
    length_tests,
    sum_estimates as sums,
    tail_posterior as tails,
)
from .amount_encodings import CappedGroups, CappedSum, DirectionHats, Hats
from .asked_sums import HATS, LEAST_CAPPED, better, with_cap
from .asking import (
    ALLOWED,
    DECLARE,
    IN_ALL,
    LOWER,
    Ask,
    Asking,
    ClaimTest,
    Line,
    PartOf,
    at_least,
    corners_of,
    noticed,
    top_of,
)
from .claim_tests import Beyond
from .declared import Declared
from .encoding_grid import LARGEST, LARGEST_SHIFT, MOST_WEIGHT, octaves, rounded_cap
from .length_tests import LOST
from .public_bounds import most_rows
from .sum_estimates import Interval
from .tail_posterior import Noise
from .typed import TypedNumber

ROUGH = 0.1
"""Part of a mean's mu^2 for the rough sum."""
FIRST_HATS = 0.4
"""Part of the mu^2 of hats of residuals for the first ones; the rest is for hats again, which test what
a mean rests on. With .5 means of 2 % times 500 are wrong in 14 of 80 runs and not in 9, with .3 those of
24,000 log-normal people reach a seventh further (`python -m bench.numbers_asked`)."""
ROWS = 0.1
"""Part of a mean's mu^2 for the rows that divide it."""
FEW = "withheld: too few users stand out of the noise"
FEW_ROWS = "withheld: too few rows of the group are visible"
REMEDY = "a declared maximum per user would give the mean"


def mean(ask: Asking, facts: Declared) -> Line:
    """R0 + D / N. R0 is a rough mean from hats, N the sum of weights from hats. D is the sum of
    value - R0 * weight, from signed hats and a capped sum."""
    rows, look_rows = _rows(ask, ask.number)
    rough, shift, amount = _rough(ask, facts, rows)
    rest = 1 - ROUGH - ROWS
    corners = _corners(facts, rough, shift, look_rows)
    reading = _residual(facts, rough, shift)
    allowed = _allowed(facts, rough, shift, ask.number)
    part = hats_part(facts)
    hats = Hats(corners=corners, **reading)
    seen = _hats(PartOf(ask, rest * part), facts, hats, allowed, amount * 2.0**shift)
    seen = with_cap(seen, facts)
    cut = CappedSum(cap=seen.cap, **reading)
    (capped,), sigma = ask(cut, rest * (1 - part), "capped sum of residuals")
    known = (float(capped), sigma)
    if not look_rows.modelled:
        return None, None, None, f"{FEW}: ask for more users or a larger epsilon"
    most = float(corners[-1])
    exact = sums.exact(seen, known, most) if facts.maximum is not None else None
    modelled = None
    lost = sums.lost(seen)
    if seen.above.stands_out and not seen.heavy and not lost:
        modelled = sums.total(seen, ask.rng, known)
    d = _chosen(exact, modelled, ask.rng, tails.DRAWS)
    if d is None:
        return None, None, None, LOST + REMEDY if lost else f"{FEW}: declare a maximum per user"
    n = sums.total(look_rows, ask.rng).resampled(ask.rng)
    side = look_rows.above
    least = _without_tail(side.c, side.measured, look_rows.corners, look_rows.s, len(n), ask.rng)
    note = _note(facts, d, sums.assumed(seen), allowed, shift, ask.number, seen.beyond)
    return None, _ratio(facts, rough, d, (n, least), shift), None, note


def hats_part(facts: Declared) -> float:
    """The part of the mu^2 of residuals that hats get. No capped sum of residuals is printed: it only
    makes the sum less noisy below its cap. What a mean rests on lies above it, where hats alone count
    users. With a maximum both are combined exactly."""
    return HATS if facts.maximum is not None else 1 - LEAST_CAPPED


def _allowed(facts: Declared, rough: int, shift: int, number: TypedNumber) -> float | None:
    """What the schema lets the residual of a user be, of either sign."""
    rows = 1 if number.of == "users" else most_rows(number)
    if facts.allowed is None or rows is None:
        return None
    above, below = facts.allowed << shift, abs(rough) * rows
    return float(above + below if facts.signed else max(above, below))


def _note(
    facts: Declared,
    found: Residuals,
    most: float,
    allowed: float | None,
    shift: int,
    number: TypedNumber,
    test: ClaimTest | None = None,
) -> str:
    """What the interval rests on; nothing where that is a declared maximum."""
    if not found.modelled:
        return ""
    amount = hidden_users.nearest_round(most / 2**shift) * float(number.unit)
    where = IN_ALL if number.by else ""
    why = noticed(test, most) + (DECLARE if facts.maximum is None else LOWER)
    if allowed is not None and most >= allowed:
        where, why = "", ALLOWED
    return f"if no user has {amount:,.10g} more than the mean times its rows{where}; {why}"


def _hats(ask: Ask, facts: Declared, hats: Hats, allowed: float | None, amount: float) -> sums.Look:
    """What hats of residuals show. Half of their mu^2 is for hats again, which test what the mean
    rests on; with a declared maximum it rests on nothing. amount: the mean amount of a user. A mean is
    a total over its rows, so its claim is no less than that of the total, which follows from amounts:
    residuals above zero are smaller on average, and who has few of them has the same tail."""
    at = np.array(hats.corners, np.float64)
    first = 1.0 if facts.maximum is not None else FIRST_HATS
    values, s = ask(hats, first, "hats of residuals")
    whole = s * math.sqrt(hats_part(facts) * first)

    def look(values: np.ndarray, s: Noise, beyond: Beyond | None) -> sums.Look:
        return sums.look(
            values,
            s,
            at,
            True,
            whole,
            allowed=allowed,
            refunds=facts.signed,
            beyond=beyond,
            least=amount,
        )

    seen = look(values, s, None)
    if facts.maximum is not None:
        return seen
    again, end = claim_tests.ending_at(hats, sums.assumed(seen), allowed)
    found = ask(again, 1 - first, "hats of residuals again")
    return look(*claim_tests.combined((values, s), found, at, end))


def _corners(facts: Declared, rough: int, shift: int, rows: sums.Look) -> tuple[int, ...]:
    """Corners of residuals: up to twice the declared maximum, and as far as the rough mean times the
    rows of the busiest visible users. With a maximum, these have amounts that were cut."""
    busiest = int(rows.corners[rows.above.measured])
    top = max(top_of(facts) << (shift + 1), rounded_cap(abs(rough) * busiest))
    return octaves(min(LARGEST, top))


def _residual(facts: Declared, rough: int, shift: int) -> dict[str, Any]:
    """How residuals are read: of amounts that are cut off as those of sums are."""
    reading = {"of": "residual", "signed": True, "rough": rough, "shift": shift}
    largest = LARGEST if facts.maximum is None else top_of(facts)
    return reading | {"largest": largest, "refunds": facts.signed}


def _without_tail(
    c: np.ndarray, measured: int, t: np.ndarray, s: Noise, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Draws of the rows, if nobody has more than the last measured corner."""
    here = t[: measured + 1]
    noisy = here * tails.noise_of(s, t)[: measured + 1]
    noise = math.sqrt(float(noisy @ noisy))
    return float(here @ c[: measured + 1]) + noise * rng.standard_normal(draws)


class Residuals(Struct, frozen=True, eq=False):
    """Draws of a sum of residuals, and the ends of its interval. modelled: whether they rest on what
    users are taken not to exceed."""

    draws: np.ndarray
    low: float
    high: float
    modelled: bool


def _chosen(
    exact: Interval | None, modelled: sums.Draws | None, rng: np.random.Generator, draws: int
) -> Residuals | None:
    """A sum of residuals: as for sums, without a model where that is not much wider. The model needs
    users above the mean that stand out: they have the tail."""
    found = None if modelled is None else modelled.interval()
    if exact is not None and better(exact, found) is exact:
        return Residuals(exact.draws(rng, draws), exact.low, exact.high, modelled=False)
    if modelled is None or found is None:
        return None
    return Residuals(modelled.resampled(rng), found.low, found.high, modelled=True)


def _ratio(
    facts: Declared, rough: int, d: Residuals, rows: Sequence[np.ndarray], shift: int
) -> Interval:
    """A mean from draws. `rows`: with a tail of users with many rows, and without one, which no
    release can tell apart; the interval holds both. It also holds the ends of the residuals' sum
    over the median rows, whose noise is small beside that sum's. The estimate is that with a
    tail."""
    found = []
    for n in rows:
        divisor = np.maximum(n, 1.0)
        quantiles = np.quantile(d.draws / divisor, (0.025, 0.5, 0.975)).tolist()
        ends = [end / float(np.median(divisor)) for end in (d.low, d.high)]
        low, high = min(quantiles[0], ends[0]), max(quantiles[2], ends[1])
        found.append([(rough + residual) / 2**shift for residual in (low, quantiles[1], high)])
    ratio = Interval(found[0][1], min(f[0] for f in found), max(f[2] for f in found))
    return ratio if facts.signed else at_least(ratio, 0.0)


def mean_by_group(ask: Asking, number: TypedNumber, facts: Declared) -> list[Line]:
    """As `mean` with one rough mean for all groups, and direction hats over groups."""
    size = number.groups
    rows, look_rows = _rows(PartOf(ask, 0.5), number)
    rough, shift, _ = _rough(PartOf(ask, 0.5), facts, rows)
    rest = 1 - ROUGH - ROWS
    weights = octaves(MOST_WEIGHT)
    values, s = ask(
        DirectionHats(corners=weights, groups=size, of="weight"), ROUGH, "rows by group"
    )
    seen_rows = groups.look(values, s, np.array(weights), size, False, s)
    corners = _corners(facts, rough, shift, look_rows)
    reading = _residual(facts, rough, shift)
    hats = DirectionHats(corners=corners, groups=size, **reading)
    part = hats_part(facts)
    test = 0.0 if facts.maximum is not None else length_tests.PART
    values, s = ask(hats, rest * (part - test), "hats of residuals by group")
    allowed = _allowed(facts, rough, shift, number)
    whole = s * math.sqrt(part - test)
    seen = groups.look(values, s, np.array(corners), size, True, whole, allowed)
    there = seen.given & seen_rows.given
    seen = msgspec.structs.replace(seen, given=there)
    tested = None
    claim = groups.testable(seen, msgspec.structs.replace(facts, allowed=allowed))
    if claim is not None:
        tested = length_tests.lengths(ask, rest * test, claim, {"groups": size, **reading})
        seen = groups.with_claims(seen, tested.times, allowed)
    if facts.maximum is not None and not seen.given.any():
        seen = msgspec.structs.replace(seen, cap=corners[-1])
    cut = CappedGroups(cap=seen.cap, groups=size, **reading)
    capped, sigma = ask(cut, rest * (1 - part), "capped residuals by group")
    lines: list[Line] = []
    for g in range(size):
        known = (float(capped[g]), sigma)
        further = hidden_users.capped(seen.cap, float(capped[g]), sigma)
        most = float(corners[-1])
        exact = groups.exact(seen, g, further, most) if facts.maximum is not None else None
        modelled = groups.total(seen, g, ask.rng, known, further) if seen.given[g] else None
        d = _chosen(exact, modelled, ask.rng, groups.DRAWS) if seen_rows.given[g] else None
        if d is None:
            why = FEW_ROWS
            if there[g] and tested is not None:
                why = tested.note + REMEDY
            lines.append((g, None, None, why))
            continue
        n = groups.total(seen_rows, g, ask.rng).resampled(ask.rng)
        column = seen_rows.columns[0][g]
        least = _without_tail(
            column.c, column.measured, seen_rows.corners, seen_rows.s, len(n), ask.rng
        )
        note = _note(facts, d, float(seen.most[g]), allowed, shift, number, tested)
        lines.append((g, _ratio(facts, rough, d, (n, least), shift), None, note))
    return lines


def _rows(ask: Ask, number: TypedNumber) -> tuple[float, sums.Look]:
    """The sum of weights, roughly, and what its hats show. A user that is counted itself has the
    weight 1, so nobody is above that corner."""
    corners = octaves(1 if number.of == "users" else MOST_WEIGHT)
    values, s = ask(Hats(corners=corners, of="weight"), ROWS, "rows")
    seen = sums.look(values, s, np.array(corners), False, s)
    here = slice(0, seen.above.measured + 1)
    return float(seen.above.c[here] @ seen.corners[here]), seen


def _rough(ask: Ask, facts: Declared, rows: float) -> tuple[int, int, float]:
    """(R0 * 2^shift as a whole number, shift, the mean amount of the visible users). R0 is the sum that
    hats show, divided by the rows. Any R0 is right; one near the mean leaves small residuals."""
    corners = corners_of(facts)
    values, s = ask(Hats(corners=corners, signed=facts.signed), ROUGH, "rough sum")
    seen = sums.look(values, s, np.array(corners), facts.signed, s)
    amount = 0.0
    for sign, side in ((1, seen.above), (-1, seen.below)):
        if side is not None:
            here = slice(0, seen.above.measured + 1)
            amount += sign * float(side.c[here] @ seen.corners[here])
    most = float(corners[-1])  # no noise takes R0 out of what an encoding takes
    mean = amount / max(rows, 1.0) if seen.modelled else 0.0
    mean = min(max(mean, -most if facts.signed else 0.0), most)
    shift = min(LARGEST_SHIFT, max(0, LARGEST_SHIFT + 2 - int(abs(mean)).bit_length()))
    each = max(side.mean for side in (seen.above, seen.below) if side is not None)
    return round(mean * 2**shift), shift, each if seen.modelled else 0.0

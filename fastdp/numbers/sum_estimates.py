"""Sums of users' amounts from two releases: hats, then a capped sum.

Hats (`encodings.Hats`) give the noisy number of users near each public corner. From them follow the
cap and the tail. The capped sum S counts each user up to the cap C and is exactly Gaussian. Both
are combined. Let c be the masses at corners up to M. The amount below the tail is sum t_k c_k. S is
sum min(t_k, C) c_k plus what users above M add. The best linear combination adds
beta (S - its prediction from the hats), where beta = s^2 A / (sigma^2 + s^2 B). Here A is
sum t_k min(t_k, C), and B is sum min(t_k, C)^2.
It leaves the variance s^2 sum t_k^2 - (s^2 A)^2 / (sigma^2 + s^2 B).
A cap one corner below M costs the total nothing and halves the noise of the capped sum.

A cap between two corners a and b is cheaper where few users lie above it. Then S is not linear in
the masses. A user between a and b adds up to (C - a)(b - C) / (b - a) more than its hat weights say.
Half of that, for each user there, is expected. It is taken to be as uncertain as it is large, since
users may all sit at one price.

So it is taken only where the capped sum would be too wide to print at a corner.

Where nobody is below zero, the lower end needs no model: users above M add something or nothing.
M itself may have been chosen because noise was high there. So the lower end is the lower of two. One
has all masses up to M, the other those up to the last one that is clear of noise.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec import Struct

from ..significance import SURE
from . import hidden_users, tail_posterior as tails
from .claim_tests import Beyond
from .encoding_grid import rounded_cap
from .hidden_users import Ends, Side as ReachOfSide, Z
from .tail_posterior import Noise, Tail

KEPT = 0.9
"""The cap is the least amount that keeps this part of the total, at most LOWER corners below M."""
LOWER = 3
AIM = 0.04
"""The relative half-width that a capped sum is to have, so that it can be printed with ±5 %: what is
known of its size is itself noisy. Where it would be wider, its cap may lie between corners. With
0.05 there, gamma .5 of 2,400 people was at ±5.1 % (`python -m bench.numbers_asked`)."""
CAPS = (*range(10, 16), *range(16, 32, 2), *range(32, 50, 3), *range(50, 100, 5))
"""Caps between corners are these times a power of ten. Steps of a tenth at most: with the steps of
ROUND, half zero of 2,400 people was at ±6.1 %, with these ±5.5 %."""


class Interval(Struct, frozen=True):
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float

    def draws(self, rng: np.random.Generator, number: int = tails.DRAWS) -> np.ndarray:
        """Draws of a number whose interval is that of Gaussian noise."""
        sigma = (self.high - self.low) / (2 * Z)
        return self.estimate + sigma * rng.standard_normal(number)


class Side(Struct, frozen=True, eq=False):
    """Noisy masses of one sign at the corners, and what was seen in them. `mean`: of the visible users;
    `most`: what a user has at
    most, if it is to be covered (`hidden_users`); `signs`: what users have of whom there are signs;
    `infinite`: chance of a tail without an end; `lost`: users have more than the most, and nothing
    shows how much."""

    c: np.ndarray
    at: tails.Visible
    measured: int
    full: np.ndarray
    masses: np.ndarray
    chance: np.ndarray
    stands_out: bool
    mean: float
    most: float
    signs: float
    infinite: float
    lost: bool


class Look(Struct, frozen=True, eq=False):
    """What the hats show: `sides` above and (signed) below zero, noise s of masses, and the cap of
    the capped sum that is to follow; `relative`: the half-width of that sum relative to itself, for
    noise of 1 and a cap of 1. `modelled`: whether enough users stand out for a model of the rest;
    else nothing but what is measured can be said. `heavy`: the tail may be one whose sum is infinite."""

    corners: np.ndarray
    s: Noise
    above: Side
    below: Side | None
    cap: int
    relative: float
    modelled: bool
    heavy: bool
    beyond: Beyond | None


def look(
    values: np.ndarray,
    s: Noise,
    corners: np.ndarray,
    signed: bool,
    whole: float,
    noise: float = 0.0,
    allowed: float | None = None,
    refunds: bool = True,
    likely: float | None = None,
    beyond: Beyond | None = None,
    least: float = 0.0,
) -> Look:
    """Read the answers of `Hats`.

    `s`: their noise. `whole`: the noise that all of the number's mu would leave, by which corners are
    chosen. `noise`: that of a capped sum with a cap of 1, where its cap may lie between corners.
    `allowed`: what the schema lets a user have. `refunds`: users may be as far below zero as above, as
    residuals of amounts without a sign are not. `likely`: a guess of what a user has at most, for a cap
    where no users stand out. `beyond`: what tests the claim. `least`: the mean amount of a user that another
    release shows, if that is more than the mean here."""
    corners = np.asarray(corners, np.float64)
    k = len(corners)
    means = (hidden_users.MEANS, least)
    above = _side(values[-k:], s, corners, whole, allowed, means, beyond, 0)
    below = None
    if signed:
        means = means if refunds else (0.0, 0.0)
        below = _side(values[:k][::-1], s, corners, whole, allowed, means, beyond, 1)
    modelled = above.stands_out or (below is not None and below.stands_out)
    if modelled:
        cap = chosen_cap(above.full, corners, above.measured, noise)
    else:
        masses = above.c if below is None else above.c + below.c
        cap = int(corners[busiest(masses[: corners_up_to(corners, likely)])])
    kept = kept_amount(cap, above, corners)
    if below is not None:
        kept = abs(kept - kept_amount(cap, below, corners))
    sides = [side for side in (above, below) if side is not None and side.stands_out]
    heavy = any(side.infinite > tails.INFINITE for side in sides)
    relative = Z * cap / max(kept, 1e-300)
    return Look(corners, s, above, below, cap, relative, modelled, heavy, beyond)


def kept_amount(cap: float, side: Side, corners: np.ndarray) -> float:
    """The amounts of one sign at measured corners, each user counted up to the cap."""
    here = corners[: side.measured + 1]
    mass = side.full[: side.measured + 1]
    return float(mass @ np.minimum(here, cap)) + between_corners(cap, here, mass)


def chosen_cap(full: np.ndarray, corners: np.ndarray, measured: int, noise: float = 0.0) -> int:
    """The least corner that keeps `KEPT` of the amounts at measured corners.

    What the law expects above them is left out: it is mostly that of the heaviest tails. If the capped sum
    would be wider than `AIM` there (`noise`: for a cap of 1), a round number below it that keeps as much is
    taken. It is not where all corners are measured: there the combination is exact."""
    here = corners[: measured + 1]
    mass = full[: measured + 1]
    amount = max(float(mass @ here), 1e-300)

    def kept(cap: float) -> float:
        return float(mass @ np.minimum(here, cap)) + between_corners(cap, here, mass)

    least = here[max(measured - LOWER, 0)]
    keeping = [corner for corner in here if corner >= least and kept(corner) >= KEPT * amount]
    cap = int(keeping[0]) if keeping else int(here[-1])
    if measured == len(corners) - 1 or Z * noise * cap <= AIM * kept(cap):
        return cap
    for lower in round_numbers(cap):
        if lower > least / 2 and kept(lower) >= KEPT * amount:
            return lower
    return cap


def round_numbers(most: int) -> list[int]:
    """Round whole numbers up to `most`, each of 24 significant bits."""
    powers = [10**i for i in range(len(str(most)))]
    numbers = {rounded_cap(first * power // 10) for power in powers for first in CAPS}
    return sorted(number for number in numbers if number <= most)


def between_corners(cap: float, corners: np.ndarray, masses: np.ndarray) -> float:
    """What users between the two corners around a cap add to the capped sum beyond their hat
    weights, if they lie evenly there."""
    k = int(np.searchsorted(corners, cap))
    if k >= len(corners) or corners[k] == cap:
        return 0.0
    low, lower = (float(corners[k - 1]), float(masses[k - 1])) if k else (0.0, float(masses[0]))
    high = float(corners[k])
    users = max((lower + float(masses[k])) / 2, 0.0)
    return users * (cap - low) * (high - cap) / (high - low) / 2


def _side(
    c: np.ndarray,
    s: Noise,
    corners: np.ndarray,
    whole: float,
    allowed: float | None,
    means: tuple[float, float],
    beyond: Beyond | None,
    which: int,
) -> Side:
    """means: so many times the mean, at least, is what a user is taken to have at most, and the least
    that the mean is taken for; which: the place of the side in what tests the claim."""
    at, masses, chance, infinite = tails.seen_law(c, s)
    full = tails.with_visible(tails.expected(c, masses, chance, at), c, s, max(at.last, at.alone))
    measured = tails.measured_corner(
        full, whole, corners, max(at.start, 1 if len(c) > 1 else 0), at.alone
    )
    masses, chance, _ = tails.law(c, s, measured, at, tails.levels(c, s, at))
    seen = tails.at_least_as_seen(full, c, at)
    shown = max(at.last, at.alone)
    times, least = means
    mean = hidden_users.mean_of(seen, corners, shown)
    far = times * max(mean, least)
    most = hidden_users.most_of_a_user(seen, corners, Z * whole, hidden_users.TIMES, far)
    upto = int(np.searchsorted(corners, hidden_users.SIGNS * most, "right"))
    suspected = tails.suspected(c[:upto], tails.noise_of(s, c)[:upto], shown)
    signs = float(corners[shown])
    if suspected >= 0:
        signs = float(corners[min(suspected + hidden_users.SPREAD, len(corners) - 1)])
    lost = False
    if beyond is not None and beyond.contradicts(which, max(most, signs), corners):
        found = beyond.place(c, s, corners)
        lost = found < 0
        signs = signs if lost else float(corners[found])
    elif beyond is not None and beyond.doubts(which, max(most, signs), corners):
        signs = hidden_users.SIGNS * max(most, signs)
    most = hidden_users.within(max(most, signs), allowed, float(corners[shown]))
    there = tails.stands_out(c, s, at)
    return Side(c, at, measured, full, masses, chance, there, mean, most, signs, infinite, lost)


WIDEST = 6
"""Corners over which the users of a small table are looked for."""


def corners_up_to(corners: np.ndarray, likely: float | None) -> int:
    """How many corners there are up to the first one that is not below a guess."""
    return len(corners) if likely is None else int(np.searchsorted(corners, likely)) + 1


def busiest(c: np.ndarray) -> int:
    """The last corner of the neighbours, up to `WIDEST` of them, whose masses are together largest
    relative to their noise. Where no mass stands out alone, that is the best guess of where users
    are; a cap may be any guess."""
    best = (-np.inf, 0)
    for width in range(1, min(WIDEST, len(c)) + 1):
        together = np.convolve(c, np.ones(width), "valid") / np.sqrt(width)
        first = int(np.argmax(together))
        best = max(best, (float(together[first]), first + width - 1))
    return best[1]


class Draws(Struct, frozen=True, eq=False):
    """Weighted draws of a sum; `weight` are logs. `least` and `most`: ends that need no model, below
    and above; the interval holds them."""

    values: np.ndarray
    weight: np.ndarray
    least: float
    most: float

    def interval(self) -> Interval:
        low, middle, high = tails.quantiles(self.values, self.weight, (0.025, 0.5, 0.975)).tolist()
        return Interval(middle, min(low, self.least), max(high, self.most))

    def resampled(self, rng: np.random.Generator) -> np.ndarray:
        """Draws of equal weight."""
        chance = np.exp(self.weight - self.weight.max())
        total = np.cumsum(chance)
        places = (np.arange(len(chance)) + rng.random()) / len(chance) * total[-1]
        picked = np.minimum(np.searchsorted(total, places), len(chance) - 1)
        return rng.permutation(self.values[picked])


class Masses(Struct):
    """Measured masses added up.

    `amount` and `counted` (each user up to the cap, at least), with the squares that their noise is made
    of. `above_amount`, `above_counted`: of users above the measured corners, by draw. `inside`: what lies
    between the corners around the cap."""

    cap: float
    amount: float = 0.0
    counted: float = 0.0
    above_amount: np.ndarray | float = 0.0
    above_counted: np.ndarray | float = 0.0
    weight: np.ndarray | float = 0.0
    inside: float = 0.0
    tt: float = 0.0
    tc: float = 0.0
    cc: float = 0.0

    def add(
        self, sign: int, c: np.ndarray, s: Noise, full: np.ndarray, t: np.ndarray, tail: Tail
    ) -> None:
        """Add the masses `c` of one sign, of which `full` are expected, at the corners `t`; s: their
        noise."""
        here = slice(0, tail.measured + 1)
        cut = np.minimum(t, self.cap)
        noisy = t * tails.noise_of(s, t)
        noisy_cut = cut * tails.noise_of(s, t)
        self.amount += sign * float(t[here] @ c[here])
        self.counted += sign * float(cut[here] @ c[here])
        self.above_amount = self.above_amount + sign * tail.sums
        self.above_counted = self.above_counted + sign * (tail.users @ cut[tail.measured + 1 :])
        self.weight = self.weight + tail.weight
        self.inside += sign * between_corners(self.cap, t, full)
        self.tt += float(noisy[here] @ noisy[here])
        self.tc += float(noisy[here] @ noisy_cut[here])
        self.cc += float(noisy_cut[here] @ noisy_cut[here])

    def draws(
        self, capped: tuple[float, float] | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """(The sum, log weights), with the capped sum and its noise where it is known."""
        amount = self.amount + np.asarray(self.above_amount)
        weight = np.asarray(self.weight)
        variance = self.tt
        if capped is not None:
            value, sigma = capped
            spread = sigma**2 + self.cc + self.inside**2
            gain = self.tc / spread
            miss = value - self.counted - self.inside - self.above_counted
            amount = amount + gain * miss
            variance -= gain**2 * spread
            weight = weight - 0.5 * miss**2 / spread
        noise = float(np.sqrt(variance))
        return amount + noise * rng.standard_normal(len(amount)), weight


def total(
    seen: Look,
    rng: np.random.Generator,
    capped: tuple[float, float] | None = None,
) -> Draws:
    """Draws of the sum of all users. `capped`: the capped sum at the cap of `seen` and its noise."""
    t = seen.corners
    s = seen.s
    above = seen.above
    below = seen.below
    masses = Masses(float(seen.cap))
    if below is not None:
        sides = [(1, above), (-1, below)]
        if below.stands_out and not above.stands_out:
            sides.reverse()
        lead = sides[0][1]
        other = sides[1][1]
        tail = _own_tail(seen, lead, rng)
        masses.add(sides[0][0], lead.c, s, lead.full, t, tail)
        hidden = _other_side(seen, lead, other, tail, rng)
        masses.add(sides[1][0], other.c, s, other.full, t, hidden)
    else:
        masses.add(1, above.c, s, above.full, t, _own_tail(seen, above, rng))
    values, weight = masses.draws(capped, rng)
    high = max(_ends(seen, capped, part).high() for part in _parts(seen))
    return Draws(values, weight, _ends(seen, capped).low(), high)


def _releases(seen: Look, capped: tuple[float, float] | None) -> list[hidden_users.Masses]:
    sides = [side.c for side in (seen.above, seen.below) if side is not None]
    hats = [hidden_users.Masses(seen.corners, np.array(sides), seen.s)]
    if seen.beyond is not None:
        hats = seen.beyond.releases
    return hats if capped is None else [*hats, hidden_users.capped(seen.cap, *capped)]


def _parts(seen: Look) -> tuple[float, ...]:
    """Parts of the claim up to which upper ends count users in full; the highest end is taken. Where
    signs moved the claim, corners below it were passed over because noise was low there. An end that
    counts users there in full is as low; one that counts them as fewer is not."""
    moved = seen.beyond is not None and assumed(seen) > seen.corners[seen.beyond.end + 1]
    return (1.0, 0.5, 0.25) if moved else (1.0,)


def _ends(seen: Look, capped: tuple[float, float] | None, part: float = 1.0) -> Ends:
    """Ends that need no model. `part`: of the claim that they take for it. A sign that noise hides says
    nothing about what its users have: they have as much as those of the other, and are visible no
    further."""
    sides = [side for side in (seen.above, seen.below) if side is not None]
    visible = max(side.measured for side in sides if side.stands_out or not seen.modelled)
    reach = []
    for side in sides:
        measured = side.measured if side.stands_out else min(side.measured, visible)
        most = side.most if side.stands_out else assumed(seen)
        reach.append(side_reach(side.c, measured, seen.s, seen.corners, part * most))
    return Ends(reach, _releases(seen, capped))


def side_reach(c: np.ndarray, measured: int, s: Noise, t: np.ndarray, most: float) -> ReachOfSide:
    """The last measured corner may have been taken because noise was high there. So users are
    visible up to it, or up to the last corner that is clear of noise."""
    clear = np.flatnonzero((c >= SURE * s)[: measured + 1])
    visible = (float(t[measured]), float(t[clear[-1] if len(clear) else measured]))
    return ReachOfSide(visible, max(most, visible[0]))


def assumed(seen: Look) -> float:
    """The amount that the ends of `total` assume nobody to exceed, of either sign."""
    sides = [side for side in (seen.above, seen.below) if side is not None]
    shown = [side.most for side in sides if side.stands_out]
    return max(shown or [side.most for side in sides])


def lost(seen: Look) -> bool:
    """Whether released values contradict the claim, and show no other."""
    return any(side.lost for side in (seen.above, seen.below) if side is not None)


def signs(seen: Look) -> float:
    """The amount that users have, of either sign, of whom there are signs; infinite where these show
    no amount."""
    if lost(seen):
        return np.inf
    sides = [side for side in (seen.above, seen.below) if side is not None]
    return max([side.signs for side in sides if side.stands_out], default=0.0)


def _own_tail(seen: Look, side: Side, rng: np.random.Generator) -> Tail:
    """Draws of the tail of one sign, weighed by the first hats and by the last mass of the second ones,
    which is the number of users beyond the claim."""
    masses, chance = side.masses, side.chance
    found = tails.draw(side.c, seen.s, side.measured, side.at, masses, chance, seen.corners, rng)
    beyond = seen.beyond
    if beyond is None or found.measured > beyond.end:
        return found
    further = found.users[:, beyond.end - found.measured :].sum(1)
    miss = (beyond.users[int(side is seen.below)] - further) / beyond.s
    return msgspec.structs.replace(found, weight=found.weight - 0.5 * miss**2)


def measured_whole(seen: Look) -> bool:
    """Whether every corner is measured, up to a declared maximum: then there is no tail."""
    return seen.below is None and seen.above.measured == len(seen.corners) - 1


def exact(seen: Look, capped: tuple[float, float], most: float) -> Interval:
    """The sum where nobody is above `most`: the best linear combination of the masses and the capped
    sum. It is Gaussian, and no model enters."""
    releases = _releases(seen, capped)
    return normal(*hidden_users.best_sum(len(releases[0].values), releases, most))


HIDDEN = 2
"""Users of a sign that noise hides are measured up to so many corners below those of the other."""


def _other_side(
    seen: Look, lead: Side, side: Side, shown: Tail, rng: np.random.Generator
) -> tails.Tail:
    """The tail of the sign that may be hidden: its own where its users are visible.

    Else it is like that of the sign that leads, in proportion to how many users noise may hide. It ends
    where the claim does: a law of hidden users has nothing to say about larger ones."""
    s = seen.s
    t = seen.corners
    if side.stands_out:
        return _own_tail(seen, side, rng)
    measured = max(shown.measured - HIDDEN, 1)
    k = measured + 1
    users = max(float(lead.c[: shown.measured + 1].sum()), 1.0)
    there = max(float(side.c[:k].sum()), 0.0) / users
    noise = float(np.linalg.norm(tails.noise_of(s, side.c)[:k]))
    hidden = noise / users * np.abs(rng.standard_normal(len(shown.weight)))
    reach = t[k:] <= max(assumed(seen), float(t[min(k, len(t) - 1)]))
    expected = (there + hidden)[:, None] * (lead.full[k:] * reach)
    few = rng.poisson(np.minimum(expected, 1e6))
    return tails.Tail(measured, few, tails.amounts(few, t[k:], rng), np.zeros(len(few)))


def normal(value: float, sigma: float) -> Interval:
    """An exact 95 % interval of a number with Gaussian noise."""
    return Interval(value, value - Z * sigma, value + Z * sigma)

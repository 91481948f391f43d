"""Sums of users' amounts from two releases: hats, then a capped sum.

Hats (`encodings.Hats`) give the noisy number of users near each public corner. From them follow the
cap and the tail. The capped sum S counts each user up to the cap C and is exactly Gaussian. Both
are combined: with c the masses at corners up to M, the amount below the tail is sum t_k c_k, and S
is sum min(t_k, C) c_k plus what users above M add. The best linear combination adds
beta (S - its prediction from the hats), beta = s^2 A / (sigma^2 + s^2 B), A = sum t_k min(t_k, C)
and B = sum min(t_k, C)^2. It leaves the variance s^2 sum t_k^2 - (s^2 A)^2 / (sigma^2 + s^2 B).
A cap one corner below M costs the total nothing and halves the noise of the capped sum.
"""

import numpy as np
from msgspec import Struct

from . import tail_posterior as tails

Z = 1.959963984540054
KEPT = 0.9
"""The cap is the least corner that keeps this part of the total, at most LOWER corners below M."""
LOWER = 3


class Interval(Struct, frozen=True):
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


class Side(Struct, frozen=True, eq=False):
    """Noisy masses of one sign at the corners, and what was seen in them."""

    c: np.ndarray
    at: tails.Visible
    measured: int
    full: np.ndarray
    masses: np.ndarray
    chance: np.ndarray


class Look(Struct, frozen=True, eq=False):
    """What the hats show: `sides` above and (signed) below zero, noise s of a mass, and the number
    of the corner that is the cap."""

    corners: np.ndarray
    s: float
    above: Side
    below: Side | None
    cap: int

    @property
    def relative(self) -> float:
        """Noise of a capped sum at mu = 1, relative to the sum that the hats expect."""
        total = float(self.above.full @ self.corners)
        if self.below is not None:
            total -= float(
                self.below.c.clip(0)[: self.below.measured + 1]
                @ self.corners[: self.below.measured + 1]
            )
        return float(self.corners[self.cap]) / max(abs(total), 1e-9)


def look(values: np.ndarray, s: float, corners: np.ndarray, signed: bool, whole: float) -> Look:
    """Read the answers of `Hats`. `s`: their noise; `whole`: the noise that all of the number's mu
    would leave, by which corners are chosen."""
    corners = np.asarray(corners, np.float64)
    k = len(corners)
    above = _side(values[-k:], s, corners, whole)
    below = _side(values[:k][::-1], s, corners, whole) if signed else None
    cap = cap_corner(above.full, corners, above.measured)
    return Look(corners, s, above, below, cap)


def cap_corner(full: np.ndarray, corners: np.ndarray, measured: int) -> int:
    """The number of the least corner that keeps `KEPT` of the amounts at measured corners. What the
    law expects above them is left out: it is mostly that of the heaviest tails."""
    here, mass = corners[: measured + 1], full[: measured + 1]
    kept = np.minimum(here[:, None], here) @ mass / max(float(mass @ here), 1e-300)
    enough = np.flatnonzero(kept >= KEPT)
    wanted = int(enough[0]) if len(enough) else measured
    return max(wanted, measured - LOWER, 0)


def _side(c: np.ndarray, s: float, corners: np.ndarray, whole: float) -> Side:
    at = tails.visible(c, s)
    grid = tails.levels(c, s, at)
    upto = min(at.last + 1, len(c) - 1)
    masses, chance = tails.law(c, s, upto, at, grid)
    full = tails.expected(c, masses, chance, at)
    measured = tails.measured_corner(
        full, whole, corners, max(at.start, 1 if len(c) > 1 else 0), at.alone
    )
    masses, chance = tails.law(c, s, measured, at, grid)
    return Side(c, at, measured, full, masses, chance)


class Draws(Struct, frozen=True, eq=False):
    """Weighted draws of a sum; `weight` are logs."""

    values: np.ndarray
    weight: np.ndarray

    def interval(self) -> Interval:
        low, middle, high = tails.quantiles(self.values, self.weight, (0.025, 0.5, 0.975))
        return Interval(float(middle), float(low), float(high))

    def resampled(self, rng: np.random.Generator) -> np.ndarray:
        """Draws of equal weight."""
        chance = np.exp(self.weight - self.weight.max())
        total = np.cumsum(chance)
        places = (np.arange(len(chance)) + rng.random()) / len(chance) * total[-1]
        picked = np.minimum(np.searchsorted(total, places), len(chance) - 1)
        return rng.permutation(self.values[picked])


def total(
    seen: Look,
    rng: np.random.Generator,
    capped: tuple[float, float] | None = None,
) -> Draws:
    """Draws of the sum of all users. `capped`: the capped sum at the cap of `seen` and its noise."""
    t, s, above = seen.corners, seen.s, seen.above
    cut = np.minimum(t, t[seen.cap])
    up = tails.draw(above.c, s, above.measured, above.at, above.masses, above.chance, t, rng)
    here = slice(0, up.measured + 1)
    amount = float(t[here] @ above.c[here]) + up.sums
    counted = float(cut[here] @ above.c[here]) + up.users @ cut[up.measured + 1 :]
    tt, ta, tb = (float(x[here] @ y[here]) for x, y in ((t, t), (t, cut), (cut, cut)))
    weight = up.weight
    if seen.below is not None:
        down = _below(seen, up, rng)
        here = slice(0, down.measured + 1)
        c = seen.below.c
        amount = amount - float(t[here] @ c[here]) - down.sums
        counted = counted - float(cut[here] @ c[here]) - down.users @ cut[down.measured + 1 :]
        tt += float(t[here] @ t[here])
        ta += float(t[here] @ cut[here])
        tb += float(cut[here] @ cut[here])
        weight = weight + down.weight
    variance = s * s * tt
    if capped is not None:
        value, sigma = capped
        spread = sigma**2 + s * s * tb
        miss = value - counted
        amount = amount + s * s * ta / spread * miss
        variance -= (s * s * ta) ** 2 / spread
        weight = weight - 0.5 * miss**2 / spread
    return Draws(amount + np.sqrt(variance) * rng.standard_normal(len(amount)), weight)


def nothing_above(seen: Look) -> bool:
    """Whether every corner is measured, up to a declared maximum: then there is no tail."""
    return seen.below is None and seen.above.measured == len(seen.corners) - 1


def linear(seen: Look, capped: tuple[float, float]) -> Interval:
    """The sum where nothing lies above the measured corners: the best linear combination of hats and
    capped sum, which is Gaussian."""
    t, s, c = seen.corners, seen.s, seen.above.c
    cut = np.minimum(t, t[seen.cap])
    value, sigma = capped
    spread = sigma**2 + s * s * float(cut @ cut)
    gain = s * s * float(t @ cut) / spread
    variance = s * s * float(t @ t) - gain**2 * spread
    return normal(float(t @ c) + gain * (value - float(cut @ c)), float(np.sqrt(variance)))


HIDDEN = 2
"""Users below zero that noise hides are measured up to so many corners below those above zero."""


def _below(seen: Look, up: tails.Tail, rng: np.random.Generator) -> tails.Tail:
    """The tail below zero: its own where users below zero are visible; else like that above zero,
    in proportion to how many of them noise may hide."""
    side, s, t = seen.below, seen.s, seen.corners
    assert side is not None
    start = side.at.start
    if max(side.c[start], side.c[max(start - 1, 0)]) > 2 * tails.SEEN * s:
        return tails.draw(side.c, s, side.measured, side.at, side.masses, side.chance, t, rng)
    measured = max(up.measured - HIDDEN, 1)
    k = measured + 1
    users = max(float(seen.above.c[: up.measured + 1].sum()), 1.0)
    there = max(float(side.c[:k].sum()), 0.0) / users
    hidden = s * np.sqrt(k) / users * np.abs(rng.standard_normal(len(up.weight)))
    expected = (there + hidden)[:, None] * seen.above.full[None, k:]
    few = rng.poisson(np.minimum(expected, 1e6))
    return tails.Tail(measured, few, tails.amounts(few, t[k:], rng), np.zeros(len(few)))


def normal(value: float, sigma: float) -> Interval:
    """An exact 95 % interval of a number with Gaussian noise."""
    return Interval(value, value - Z * sigma, value + Z * sigma)

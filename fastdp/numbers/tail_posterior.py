"""What lies above the corners that noise leaves visible: a posterior of the users there.

Input are noisy masses c_k of users at public corners t_k (powers of two), with noise of standard
deviation s. Users beyond the last visible corner are few and large. Their number at each further
corner is drawn from a posterior: expected masses follow exp(A - b j - g j^2), j corners from the
start (g = 0: a Pareto tail; g > 0: lighter, as of a log-normal). Above the measured corners the
tail ends, follows that law, or goes on straight. Draws are weighted by the noisy masses above.

Everything here is post-processing of released numbers and of a public seed.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ..significance import LIKELY, SURE

LOG2 = np.log(2.0)
SLOPES = np.array([0, 0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0])
"""Grid of the Pareto index at the start corner."""
CURVES = np.array([0, 0.02, 0.05, 0.1, 0.16, 0.24, 0.35, 0.5, 0.8])
"""Grid of the curvature of the log mass, per octave squared."""
MISFIT = 0.15
"""Relative departure of masses from the law, as a standard deviation."""
ENDS = 0.35
"""Prior chance that the tail ends above the measured corners."""
FOLLOWS = 0.15
"""Prior chance that it follows the law; else it goes on straight."""
INFINITE = 0.5
"""Posterior chance of a law whose sum is infinite, from which a sum is withheld: visible users then
speak for tails that have no sum. Log-normal amounts of sigma 3 are at 1, of sigma 1.5 below .2."""
FLATTEST = 0.7
"""A straight tail has the law's local index times a uniform number between this and 1."""
TOGETHER = 4
"""Neighbouring corners over which an isolated cluster of users is looked for."""
NEAR = 9
"""Corners beyond the others within which `ALONE` holds."""
ALONE = 5.0
"""Standard deviations above which up to `TOGETHER` isolated corners are visible, where they lie within
NEAR corners of others. Noise alone is as high there in about 1 of 100,000 runs; at 4.3 it was in 1 of
5,000, each time with a total far too large."""
FAR_ALONE = 6.0
"""The same for corners anywhere. One that noise alone made visible would be an amount of any size: of
40 corners and four widths of 12 groups, noise is above in 1 of 10^6 runs."""
MODE = 4.0
"""Standard deviations that the largest mass has at least where a tail is modelled. Noise alone is as
high at one of 41 corners in 1 of 800 runs. Below it, the largest mass may be a place of noise, and a
law that starts there says nothing about where users are."""
NEED = 15.0
"""Standard deviations of one mass that the visible users are at least, where a tail is modelled. The
law needs some corners that are clear: users spread over about five of them."""
DESCENT = 3
"""Octaves before the last visible corner from which a law describes the end of what is seen. Over more it
describes other users, over fewer noise."""
HALF_WIDTH = 0.5
"""A modelled tail is uncertain by this part of itself, where the measured corners are chosen.
MISFIT to HALF_WIDTH: chosen by `python -m bench.numbers_asked --constants`."""
DRAWS = 2000
"""Draws from the posterior of a tail, from which intervals are taken."""


Noise = float | np.ndarray
"""Standard deviation of masses: of all, or of each."""


class Visible(Struct, frozen=True):
    """Corners by number: the largest mass, where the law starts, the last that stands out in a row, and
    the last isolated one (-1: none)."""

    mode: int
    start: int
    last: int
    alone: int


class Tail(Struct, frozen=True, eq=False):
    """Draws of the users above the corner `measured`: `users[d, k]` at corner measured + 1 + k;
    `sums`: their amounts; `weight`: log weights of the draws."""

    measured: int
    users: np.ndarray
    sums: np.ndarray
    weight: np.ndarray


def noise_of(s: Noise, c: np.ndarray) -> np.ndarray:
    """The noise of each mass."""
    return np.broadcast_to(np.asarray(s, np.float64), c.shape)


def visible(c: np.ndarray, s: Noise) -> Visible:
    """Start at the largest mass; the last corner is the one before two in a row below `LIKELY`."""
    mode = int(np.argmax(c / s))
    last = last_in_row(c, s, mode)
    start = mode + (last - mode >= 4)
    return Visible(mode, start, last, isolated(c, s, last))


def shoulder(c: np.ndarray, s: Noise, at: Visible) -> Visible:
    """The same with a law that describes the end of what is seen: DESCENT corners before the last,
    where the mass is clear, but not before the last mode, nor at a dip, since it falls."""
    mode = last_mode(c, s, at.mode, at.last)
    clear = np.flatnonzero((c >= SURE * noise_of(s, c))[: at.last + 1])
    start = max(mode, min(at.last - DESCENT, int(clear[-1]) if len(clear) else mode))
    start += int(np.argmax(c[start : at.last + 1]))
    return Visible(at.mode, max(start, at.start), at.last, at.alone)


def last_mode(c: np.ndarray, s: Noise, largest: int, last: int) -> int:
    """The largest mass, or a later one where noise explains neither it nor that masses rise again. Users
    who have far more than most have a mode of their own."""
    noise = noise_of(s, c)
    mode = largest
    for k in range(largest + 2, last + 1):
        if k < mode + 2 or c[k] < MODE * noise[k]:
            continue
        dip = mode + 1 + int(np.argmin(c[mode + 1 : k]))
        if c[k] - c[dip] > SURE * np.hypot(noise[dip], noise[k]):
            mode = dip + int(np.argmax(c[dip : last + 1]))
    return mode


def seen_law(c: np.ndarray, s: Noise) -> tuple[Visible, np.ndarray, np.ndarray, float]:
    """What is visible, and the `law` of it: from the mode on, or where that has no sum, from the
    `shoulder` on. Many users of a second kind, who have far more than most, look from the mode like a tail
    that hardly falls. But they are seen, and count as they are: a law is for users above them."""
    at = visible(c, s)
    masses, chance, infinite = law(c, s, min(at.last + 1, len(c) - 1), at, levels(c, s, at))
    if infinite > INFINITE:
        later = shoulder(c, s, at)
        other = law(c, s, min(at.last + 1, len(c) - 1), later, levels(c, s, later))
        if other[2] <= INFINITE:
            return later, *other
    return at, masses, chance, infinite


def last_in_row(c: np.ndarray, s: Noise, first: int) -> int:
    """The last corner from `first` on before two in a row below `LIKELY`."""
    last = first
    clear = c >= LIKELY * noise_of(s, c)
    for k in range(first + 1, len(c)):
        if clear[k]:
            last = k
        elif k + 1 < len(c) and not clear[k + 1]:
            break
    return last


def isolated(c: np.ndarray, s: Noise, last: int, groups: int = 1) -> int:
    """The last corner of all users that are visible beyond a gap after `last`; -1: none are. groups:
    how many are looked at, each of which has its own noise."""
    end = -1
    near = float(np.sqrt(ALONE**2 + 2 * np.log(groups)))
    while (found := _next_cluster(c, s, last, near, FAR_ALONE)) > last:
        end = last = last_in_row(c, s, found)
    return end


def suspected(c: np.ndarray, s: Noise, last: int, least: float = SURE) -> int:
    """The last corner of users beyond a gap of whom there are signs, though noise may be as high; -1
    if there are none. Nothing is estimated from them, but no claim excludes them. least: the standard
    deviations that they have to be above."""
    return _next_cluster(c, s, last, least, least)


def _next_cluster(c: np.ndarray, s: Noise, last: int, near: float, far: float) -> int:
    """The last corner of the neighbours beyond a gap that stand out most together; -1 if none do.
    Users of one kind spread over some corners, at none of which they may be clear. near, far: the
    standard deviations that they have to be above, up to NEAR corners away and further."""
    most = 0.0
    end = -1
    squares = noise_of(s, c) ** 2
    for width in range(1, min(TOGETHER, len(c)) + 1):
        ones = np.ones(width)
        together = np.convolve(c, ones, "valid") / np.sqrt(np.convolve(squares, ones, "valid"))
        beyond = together[last + 2 :]
        away = np.arange(len(beyond)) + width
        above = beyond - np.where(away <= NEAR, near, far)
        if len(above) and above.max() > most:
            most = float(above.max())
            end = last + 1 + width + int(np.argmax(above))
    return end


def stands_out(c: np.ndarray, s: Noise, at: Visible) -> bool:
    """Whether enough users stand out of the noise for a model of those that do not. They are those
    near the largest mass: noise far above all others is not made users by them."""
    mode = slice(at.mode, at.last + 1)
    near = slice(max(at.mode - NEAR, 0), at.last + 1)
    noise = float(noise_of(s, c)[at.mode])
    return bool(c[mode].max() >= MODE * noise and c[near].sum() >= NEED * noise)


def law(
    c: np.ndarray,
    s: Noise,
    upto: int,
    at: Visible,
    level: np.ndarray,
    prior: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray, float]:
    """(masses [parameters, corners from the start], their posterior probabilities, the chance of a
    law whose sum is infinite) given the noisy masses from the start to `upto`. `level`: grid of log
    masses at the start; `prior`: log prior [slopes, curves]. Infinite sums, of an index below 1 above
    the last visible corner, are left out of the probabilities."""
    j = np.arange(len(c) - at.start)
    seen = upto - at.start + 1
    b = (SLOPES * LOG2)[:, None, None, None]
    g = CURVES[None, :, None, None]
    masses = np.exp(level[None, None, :, None] - b * j - g * j * j)
    near = masses[..., :seen]
    noise = noise_of(s, c)[at.start : upto + 1]
    variance = noise**2 + near + (MISFIT * near) ** 2
    misfit = (c[at.start : upto + 1] - near) ** 2 / variance + np.log(variance)
    fit = -0.5 * misfit.sum(-1) + np.asarray(prior)[..., None]
    local = (b + g * (2 * (at.last - at.start) + 1))[..., 0] / LOG2  # from the last to the next
    every = np.exp(fit - fit.max())
    fit = np.where(local >= 1.0, fit, -np.inf)
    chance = np.exp(fit - fit.max()).ravel()
    infinite = float(every[np.broadcast_to(local < 1.0, every.shape)].sum() / every.sum())
    return masses.reshape(-1, len(j)), chance / chance.sum(), infinite


def levels(c: np.ndarray, s: Noise, at: Visible) -> np.ndarray:
    """Grid of log masses at the start corner."""
    return np.log(max(c[at.start], 2 * noise_of(s, c)[at.start])) + np.linspace(-0.6, 0.6, 13)


def expected(c: np.ndarray, masses: np.ndarray, chance: np.ndarray, at: Visible) -> np.ndarray:
    """Expected masses at all corners: released ones below the start, the law from there on."""
    return np.concatenate([c[: at.start].clip(0), chance @ masses])


def with_visible(full: np.ndarray, c: np.ndarray, s: Noise, last: int) -> np.ndarray:
    """Expected masses, with those up to `last` that stand out at least as large as they are: a law
    that falls leaves no room for a second cluster of users."""
    seen = (np.arange(len(c)) <= last) & (c >= SURE * s)
    return np.where(seen, np.maximum(full, c), full)


def at_least_as_seen(full: np.ndarray, c: np.ndarray, at: Visible) -> np.ndarray:
    """Expected masses, with those up to the last visible corner at least as large as they are. What
    users may have at most follows from these: better too large than too small."""
    seen = np.arange(len(c)) <= max(at.last, at.alone)
    return np.where(seen, np.maximum(full, c), full)


def measured_corner(full: np.ndarray, s: float, corners: np.ndarray, least: int, alone: int) -> int:
    """The last corner to be taken as measured: the variance of noise below it plus what the tail
    above leaves open is least. Never below an isolated visible corner."""
    open_squares = np.append(np.cumsum((full * corners**2)[::-1])[::-1], 0.0)[1:]
    open_sums = np.append(np.cumsum((full * corners)[::-1])[::-1], 0.0)[1:]
    variance = s * s * np.cumsum(corners**2) + open_squares + (HALF_WIDTH * open_sums) ** 2
    return max(least + int(np.argmin(variance[least:])), alone)


def draw(
    c: np.ndarray,
    s: Noise,
    measured: int,
    at: Visible,
    masses: np.ndarray,
    chance: np.ndarray,
    corners: np.ndarray,
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
    bends: int | None = None,
) -> Tail:
    """Draws of the tail above `measured`. `bends`: the corner up to which the law holds (default:
    `measured`); above it the tail may end or go straight."""
    above = len(c) - measured - 1
    pick = np.searchsorted(np.cumsum(chance), rng.random(draws) * (1 - 1e-12))
    pick = np.minimum(pick, len(chance) - 1)
    first = measured - at.start + 1
    tail = masses[pick][:, first:].copy()
    kind = rng.random(draws)
    straight = kind >= ENDS + FOLLOWS
    bend = max((measured if bends is None else bends) - at.start, first - 1)
    here = np.maximum(masses[pick, bend], 1e-300)
    following = masses[pick, min(bend + 1, masses.shape[1] - 1)]
    index = np.log(here / np.maximum(following, 1e-300)).clip(LOG2, 6 * LOG2)
    index = np.maximum(index * rng.uniform(FLATTEST, 1, draws), LOG2)
    steps = np.arange(first, masses.shape[1]) - bend
    beyond = steps > 0
    line = here[:, None] * np.exp(-index[:, None] * np.maximum(steps, 0))
    tail = np.where(straight[:, None] & beyond, np.maximum(line, tail), tail)
    tail = np.where((kind < ENDS)[:, None] & beyond, 0.0, tail)
    if above > 1:  # users beyond the last corner are put there
        ratio = tail[:, -1] / np.maximum(tail[:, -2], 1e-300)
        tail[:, -1] /= 1 - np.minimum(ratio, 0.5)
    tail *= np.exp(2 * MISFIT * rng.standard_normal((draws, 1)))
    users = rng.poisson(np.minimum(tail, 1e6))
    noise = noise_of(s, c)[measured + 1 :]
    weight = -0.5 * (((c[measured + 1 :] - users) / noise) ** 2).sum(1)
    sums = amounts(users, corners[measured + 1 :], rng)
    return Tail(measured, users, sums, weight)


def amounts(users: np.ndarray, corners: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sum of the amounts of users[d, k] users around corner k: log-uniform within half an octave
    on either side, but not above the last corner."""
    if not len(corners):
        return np.zeros(len(users))
    low = corners / np.sqrt(2)
    high = corners * np.sqrt(2)
    high[-1] = corners[-1]
    width = np.log(high / low)
    mean = (high - low) / width
    variance = np.maximum((high**2 - low**2) / (2 * width) - mean**2, 0.0)
    normal = rng.standard_normal(len(users))
    few = users.sum(1) <= 40
    normal = np.where(few, np.clip(normal, -1.5, 2.5), normal)
    return users @ mean + np.sqrt(users @ variance) * normal


def quantiles(values: np.ndarray, weight: np.ndarray, places: tuple[float, ...]) -> np.ndarray:
    """Weighted quantiles; `weight` are log weights."""
    chance = np.exp(weight - weight.max())
    order = np.argsort(values, kind="stable")
    total = np.cumsum(chance[order])
    found = np.searchsorted(total, np.array(places) * total[-1])
    return values[order][np.minimum(found, len(values) - 1)]

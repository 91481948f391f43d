"""What users may have whom noise hides, and ends of a sum that follow from that without a model.

Let k = Z / mu, with the mu of the number. No mechanism tells k users from none if both errors are to
be 2.5 % (docs/explain/numbers.md). So k users may be hidden anywhere, and whoever gives an upper
end has to say up to which amount. Here that is X, the largest of three amounts: `TIMES` times what k
users exceed, `MEANS` times the mean, and an amount of up to `SIGNS` times these two, of which there
are signs that users have it (`tail_posterior.suspected`). But X is no more than what the schema lets
a user have. It is stated beside the number.

All releases are hats: a capped sum is its cap times the mass at the only corner. So a weighted sum
of released masses counts a user at x with a piecewise linear function of x, whose kinks are corners.
Where it equals x at all corners up to X, it is the sum of all users who have at most X. Of
these weighted sums the one of least noise is taken. It is Gaussian, whatever the shape of the
amounts. The lower end is the same with what is visible in place of X: users above count less than
they have.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ..significance import Z95

Z = Z95
TIMES = 8.0
"""Users whom noise hides have at most so many times what k users exceed. A stated claim. It was chosen
with a target in view: about the most that leaves a total of 24,000 log-normal people within +12 % at
epsilon 1 and a fifth of mu^2 (`python -m bench.numbers_asked --bounds`). Others: `--constants`."""
GROUP_TIMES = 6.0
"""The same by group, where months of these people are to be within +20 % at epsilon 3. With 8 they were
at +22 to +28 %."""
MEANS = 100.0
"""They have at most so many times the mean of the visible users, if that is more. Where amounts are
alike, the first claim is close to what everybody has. One user in a hundred with 100 times the mean
was then outside, and 3 % of totals of 2,400 such people were covered. Totals of 24,000 log-normal
people have this claim by `TIMES` anyway."""
SIGNS = 8.0
"""Signs of users who have more are looked for up to so many times what users are taken not to exceed
without them. Noise gives signs in 1 of 70 runs. The upper end is then up to 8 times as far; looking
everywhere would make it thousands of times as far."""
SPREAD = 2
"""Users of whom there are signs at a corner reach so many corners further: one, because those below
the next corner have weight there; another, because the largest of them are too few to be seen. With
1 the claim was half of what 24 users of 100 times the mean had, and 17 of 60 totals missed."""
GROUP_MEANS = 50.0
"""As `MEANS`, by group: with 100, months of log-normal people reach +25 %, of uniform ones +24 %."""


def exceeded_by(masses: np.ndarray, corners: np.ndarray, users: float) -> float:
    """The amount that so many users exceed, by the expected masses at corners.

    The masses from one corner on add up to the mean, over the octave below it, of the number of users
    who exceed an amount. Where that number falls as a power of the amount, with an index of 1 to 3,
    it is the number at the octave's middle, within 4 %."""
    above = np.cumsum(masses[::-1])[::-1]
    amounts = corners / np.sqrt(2)
    more = np.flatnonzero(above >= users)
    if not len(more):
        return float(amounts[0])
    k = int(more[-1])
    if k == len(corners) - 1:
        return float(corners[-1])
    fallen = np.log(above[k] / users) / np.log(above[k] / max(above[k + 1], 1e-9))
    return float(amounts[k] * (amounts[k + 1] / amounts[k]) ** fallen)


ROUND = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
"""Stated amounts are these times a power of ten, so that a sentence can name them."""


def nearest_round(amount: float) -> float:
    """The round number nearest to an amount, by ratio."""
    power = 10.0 ** (np.floor(np.log10(max(amount, 1.0))) - 1)
    rounds = np.array([*ROUND, 100]) * power
    return float(rounds[np.argmin(np.abs(np.log(rounds / max(amount, 1.0))))])


def most_of_a_user(
    masses: np.ndarray,
    corners: np.ndarray,
    users: float,
    times: float,
    mean: float,
) -> float:
    """X of the module's docstring, as a round number, before users that are suspected: so many times
    what so many users exceed, or `mean`, `MEANS` times the mean, if that is more."""
    most = max(times * exceeded_by(masses, corners, users), mean)
    return min(nearest_round(most), float(corners[-1]))


def mean_of(masses: np.ndarray, corners: np.ndarray, last: int) -> float:
    """The mean amount of the users up to a corner; 0 where nobody is."""
    visible = masses[: last + 1].clip(0)
    return float(visible @ corners[: last + 1]) / max(float(visible.sum()), 1e-300)


def within(most: float, allowed: float | None, visible: float) -> float:
    """A claim that is no more than what the schema allows, unless users are visible above that."""
    if allowed is None or visible > allowed:
        return most
    return min(most, allowed)


class Masses(Struct, frozen=True, eq=False):
    """Released masses at corners: `values[0]` above zero, `values[1]` below, each with noise s (of all
    or of each corner). Where users of both signs are known, but only one row is given, it is the
    difference."""

    corners: np.ndarray
    values: np.ndarray
    s: float | np.ndarray

    @property
    def noise(self) -> np.ndarray:
        """The noise of each value."""
        return np.broadcast_to(np.asarray(self.s, np.float64), self.values.shape).ravel()

    def rows(self, points: np.ndarray, signs: int) -> np.ndarray:
        """What a user at each of the points, of each sign, adds to every mass."""
        knots = np.concatenate([[0.0], self.corners])
        hats = np.array([np.interp(points, knots, one) for one in np.eye(len(knots))[1:]])
        if signs == 1:
            return hats
        if len(self.values) == 1:
            return np.hstack([hats, -hats])
        nobody = np.zeros_like(hats)
        return np.block([[hats, nobody], [nobody, hats]])


def capped(cap: float, value: float, sigma: float) -> Masses:
    """A capped sum as a mass at its cap."""
    return Masses(np.array([float(cap)]), np.array([[value / cap]]), sigma / cap)


class Side(Struct, frozen=True):
    """Of one sign: amounts up to which users are visible, and what a user has at most."""

    visible: tuple[float, ...]
    most: float


class Ends(Struct, frozen=True, eq=False):
    """Ends of a sum, each wrong in at most 2.5 % of runs if nobody has more than the sides say."""

    sides: list[Side]
    releases: list[Masses]

    def low(self) -> float:
        """The lowest of the lower ends, one for each amount up to which users may be visible."""
        return min(self._end(-1, which) for which in range(len(self.sides[0].visible)))

    def high(self) -> float:
        """The highest of the upper ends."""
        return max(self._end(1, which) for which in range(len(self.sides[-1].visible)))

    def _end(self, sign: int, which: int) -> float:
        """Users of the sign are counted up to the most, others as far as they are visible: those
        beyond would move the sum away from the end."""
        reach = [
            side.most if own == sign else side.visible[which]
            for own, side in zip((1, -1), self.sides)
        ]
        kinks = [release.corners for release in self.releases]
        points = np.unique(np.concatenate([*kinks, reach]))
        within = np.concatenate([points <= end for end in reach])
        wanted = np.concatenate([own * points for own, _ in zip((1, -1), reach)])
        best = least_noise(self.releases, points, wanted, within)
        more = self._counted_more(points, reach[0] if sign > 0 else reach[-1], wanted, sign)
        if more is not None:
            other = least_noise(self.releases, points, more, within)
            best = min(best, other, key=lambda found: found[1])
        value, sd = best
        return value + sign * Z * sd

    def _counted_more(
        self, points: np.ndarray, most: float, wanted: np.ndarray, sign: int
    ) -> np.ndarray | None:
        """The same with users at the last corner a below X counted more. X lies between the corners a
        and b, at the part o of the way. The weights u of a and v of b count every user between a and
        X at least in full where u >= a and u (1 - o) + v o = X. Of these, u^2 + v^2 is least at
        u = X (1 - o) / ((1 - o)^2 + o^2)."""
        corners = self.releases[0].corners
        k = int(np.searchsorted(corners, most))
        if k == 0 or k == len(corners) or corners[k] == most:
            return None
        low = float(corners[k - 1])
        high = float(corners[k])
        o = (most - low) / (high - low)
        more = most * (1 - o) / ((1 - o) ** 2 + o**2)
        if more <= low:
            return None
        out = wanted.copy()
        place = int(np.searchsorted(points, low))
        out[place if sign > 0 else len(out) - len(points) + place] = sign * more
        return out


def best_sum(signs: int, releases: list[Masses], most: float = np.inf) -> tuple[float, float]:
    """(Value, standard deviation) of the sum of all users, where nobody is above the last corner, or
    above `most`."""
    points = np.unique(np.concatenate([release.corners for release in releases]))
    if most < points[-1]:
        points = np.union1d(points, [most])
    wanted = np.concatenate([points, -points][:signs])
    return least_noise(releases, points, wanted, np.tile(points <= most, signs))


def least_noise(
    releases: list[Masses], points: np.ndarray, wanted: np.ndarray, within: np.ndarray
) -> tuple[float, float]:
    """(Value, standard deviation) of the weighted sum of all masses that counts users at the points
    `within` as wanted, and has the least noise. `wanted` has one part for each sign."""
    signs = len(wanted) // len(points)
    rows = [release.rows(points, signs) / release.noise[:, None] for release in releases]
    values = np.concatenate([release.values.ravel() / release.noise for release in releases])
    scale = float(np.abs(wanted[within]).max())
    counted = np.vstack(rows)[:, within].T
    weights = np.linalg.lstsq(counted, wanted[within] / scale, rcond=1e-9)[0]
    return scale * float(weights @ values), scale * float(np.linalg.norm(weights))

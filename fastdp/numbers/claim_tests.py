"""Hats again, in a form that tests the claim of a total.

A total rests on a claim: nobody has more than X. The first hats have corners up to 2^40, far beyond
X, and each has its own noise: some twenty corners hide many users. The second hats end at the first
corner above X. Who has more is put there. So the last mass is the number of users who have more than
X, at whatever distance, with the noise of one mass. (Users between X and the corner before it are there
in part. They are few where X is far from what users have.) Where the last mass stands out, the claim is
false. Then either the first hats show up to where the claim has to reach, or the total is withheld.

Nothing is paid for it: below X both hats have the same corners, and their masses are combined as
before. Only beyond X the first hats are left alone. A test cannot be better than this but for a
constant. Let the second hats have a part p of mu^2, and let a test be wrong as seldom as `ALARM`. No
mechanism with that budget tells j users from none more often than Phi(j sqrt(p) mu - ALARM).
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from msgspec import Struct

from . import tail_posterior as tails
from .amount_encodings import Hats
from .hidden_users import SIGNS, SPREAD, Masses, Z
from .tail_posterior import Noise

ALARM = 2.33
"""Standard deviations of the last mass from which the claim counts as false. Noise alone is above in
1 of 100 runs, and 2 where both signs are tested. The total is then withheld though nothing is wrong.
From `Z` standard deviations on the claim is in doubt, and reaches `SIGNS` times as far."""
PLACED = 1.5
"""Standard deviations of the first hats beyond X that show where users are of whom the last mass is
evidence enough. They are looked for up to `SIGNS` times X."""


class Beyond(Struct, frozen=True, eq=False):
    """`end`: the last corner before the one that everybody further away is put to; `users` there,
    above zero and below, with noise `s`; `releases`: both hats. An end that needs no model takes
    both as they are: of users up to X the last mass knows more than the first hats."""

    end: int
    users: tuple[float, ...]
    s: float
    releases: list[Masses]

    @property
    def unnoticed(self) -> int:
        """So many users with more than the claim may be there without a sign in 1 of 40 runs."""
        return math.ceil(2 * Z * self.s)

    def covers(self, claim: float) -> bool:
        """Whether the last mass is a test of this claim: not of one that was moved because of it, since
        users between the two are in that mass as well, nor of one that became smaller."""
        before, last = self.releases[-1].corners[-2:]
        return bool(before <= claim < last)

    def contradicts(self, side: int, claim: float, corners: np.ndarray) -> bool:
        """Whether users stand out who have more than is claimed."""
        return bool(claim < corners[self.end + 1] and self.users[side] > ALARM * self.s)

    def doubts(self, side: int, claim: float, corners: np.ndarray) -> bool:
        """Whether more users than noise explains may have more than is claimed."""
        return bool(claim < corners[self.end + 1] and self.users[side] > Z * self.s)

    def place(self, c: np.ndarray, s: Noise, corners: np.ndarray) -> int:
        """The corner that these users do not exceed; -1: nothing shows it."""
        upto = int(np.searchsorted(corners, SIGNS * corners[self.end], "right"))
        found = tails.suspected(c[:upto], tails.noise_of(s, c)[:upto], self.end - 1, PLACED)
        return found if found < 0 else min(found + SPREAD, len(corners) - 1)


def ending_at(hats: Hats, claim: float, allowed: float | None) -> tuple[Hats, int]:
    """The second hats and the `end` of `Beyond`; -1: the claim cannot be tested, since it is what the
    schema allows, or reaches to the last corner."""
    end = int(np.searchsorted(np.array(hats.corners, np.float64), claim, "right")) - 1
    if end < 0 or end + 2 >= len(hats.corners) or claim >= (allowed or math.inf):
        return hats, -1
    return msgspec.structs.replace(hats, corners=hats.corners[: end + 2]), end


def combined(
    first: tuple[np.ndarray, float], again: tuple[np.ndarray, float], corners: np.ndarray, end: int
) -> tuple[np.ndarray, Noise, Beyond | None]:
    """(Masses, noise of those of one sign, what tests the claim). Up to `end` both hats count users
    alike; beyond it only the first do."""
    values, s = first
    more, noise = again
    gain = s**2 / (s**2 + noise**2)
    both = s * noise / math.hypot(s, noise)
    if end < 0:
        return values + gain * (more - values), both, None
    signed = len(values) > len(corners) + 1
    zero = len(corners) if signed else 0
    middle = end + 2 if signed else 0  # the place of zero in the second hats
    here = np.arange(-(end + 1) if signed else 0, end + 2)
    out = values.astype(np.float64)
    out[zero + here] += gain * (more[middle + here] - values[zero + here])
    users = (float(more[-1]), float(more[0]))[: 1 + signed]
    noises = np.where(np.arange(len(corners)) <= end, both, s)
    releases = [_masses(corners, values, s, signed)]
    releases.append(_masses(corners[: end + 2], more, noise, signed))
    return out, noises, Beyond(end, users, noise, releases)


def _masses(corners: np.ndarray, values: np.ndarray, s: float, signed: bool) -> Masses:
    """Hats as masses of each sign."""
    k = len(corners)
    sides = [values[-k:], values[:k][::-1]][: 1 + signed]
    return Masses(corners, np.array(sides), s)

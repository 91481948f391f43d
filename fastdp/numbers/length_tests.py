"""What numbers by group rest on, tested: how many users have a vector longer than is claimed.

A total of a group rests on the claim that nobody has more than X. Second hats by group end at X and
cannot test it: a corner above X would have noise of its own in every group. So users are counted by the
length of their vectors, once for all groups: up to X, up to `SIGNS` times X, and above. That is one
histogram of users, with the noise of one mass, and a small part of the number's mu^2.

No test excludes fewer users than its noise hides. Where that may be one user in a hundred, the
claim is not given: that many users may have half of a sum with a hundred times as much as others. So
the groups' totals are withheld unless the number of users above the claim is below a hundredth of all
users, which is wrong in 2.5 % of runs. That does not need users who stand out: with too few users, or too
much noise, every total by group is withheld.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from .amount_encodings import VectorLengths
from .asking import Ask
from .claim_tests import ALARM
from .encoding_grid import LARGEST
from .hidden_users import SIGNS, Z

PART = 0.1
"""Part of the mu^2 of a number by group that the test has. Intervals are 5 to 8 % wider for it."""
UNSEEN = 0.01
"""Part of all users that has to be excluded above the claim."""
LOST = "withheld: some users have far more than others, too few to show how much; "
FEW = (
    f"withheld: too few users to exclude that one in {round(1 / UNSEEN)} has far more than others; "
)


class Judgement(Struct, frozen=True):
    """The claim was `tested` and holds `times` as far; infinite: nothing tells how far, and `note` says
    why. In all but 2.5 % of runs `unnoticed` users with more would have been noticed."""

    tested: float
    times: float
    unnoticed: int
    note: str = ""

    def covers(self, claim: float) -> bool:
        """Whether users above this claim were counted."""
        return claim >= self.tested * self.times


def lengths(ask: Ask, part: float, claim: float, reading: dict[str, Any]) -> Judgement:
    """Count users whose vectors are longer than the claim. `reading`: of `VectorLengths`."""
    first = min(int(claim), LARGEST - 2) + 1
    edges = (first, min(int(SIGNS * claim), LARGEST - 1) + 1)
    counts, s = ask(VectorLengths(edges=edges, **reading), part, "users above the claim")
    return judged(counts, s, claim)


def judged(counts: np.ndarray, s: float, claim: float) -> Judgement:
    """What the numbers of users say of the claim: those up to it, up to `SIGNS` times it, and above,
    each with noise s."""
    few = UNSEEN * float(counts.sum())
    above = (float(counts[1:].sum()), float(counts[2]))
    tests = ((1.0, Z, above[0], math.sqrt(2) * s), (SIGNS, ALARM, above[1], s))
    for times, alarm, users, noise in tests:
        limit = min(alarm * noise, few - Z * noise)
        if users <= limit:
            return Judgement(claim, times, math.ceil(limit + Z * noise))
    return Judgement(claim, math.inf, 0, LOST if above[1] > ALARM * s else FEW)

"""Levels: users differ in what their rows cost, weigh or last on average.

A column of numbers is seen through normal scores of its rows. A user's rows have scores around the
user's level. The part of the variance that lies between users follows from a release
(`userkeys.Agreement`): how often two rows of one user are in the same group of neighbouring codes.
What urns of other columns bring about is taken into account.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from msgspec import Struct

from ..significance import LIKELY
from .people import Codes
from .rates import Rates

LEVEL_GROUPS = 8
"""Groups of rows by which they are dealt (FDP_LEVELS of csrc/deal.h)."""
COARSE = 2
"""Groups of a level that count as one when rows are exchanged, so that users keep their level (`python
-m bench.users_without "levels in exchanges" --tables few --epsilon 5`: levels are .234 off without, .206
with)."""
MOST_LEVELS = 2
LEAST_BETWEEN = 0.05
"""A level is used if at least this part of the variance lies between users, and rates stand out of what
other urns bring about by LIKELY standard errors: trials correct its strength, and users are chosen by what
was released of them. With SURE, 2,400 people at epsilon 1 lacked .24 of .66 of the variance between users
in place of .14, and sums per user were .041 off in place of .033 (`python -m bench.users --tables few
--epsilon 1 --seeds 700 704 --sources order --set users.levels.LIKELY=3`)."""
MOST_BETWEEN = 0.95
"""The part of the variance between users is cut off here."""
NODES = 33
"""Nodes of the Gauss-Hermite rule that integrates over a user's level."""


class Level(Struct, frozen=True, eq=False):
    """`group`: code to one of LEVEL_GROUPS groups of the rows in order; `cuts`: the score at which each
    group begins; `between`: the part of the variance between users. `chance`, `goal`: how often two
    rows are in the same group, of anyone and of one user."""

    column: str
    group: np.ndarray
    cuts: np.ndarray
    between: float
    chance: float
    goal: float

    def groups(self, codes: np.ndarray) -> np.ndarray:
        """The group of each row; codes above those seen are in the last one."""
        return self.group[np.minimum(codes, len(self.group) - 1)]


def levels_of(
    rates: Rates, brought: np.ndarray, columns: Sequence[str], codes: Codes
) -> tuple[Level, ...]:
    """Levels of those of `columns` in which users differ, by the released rates of groups of
    neighbouring codes. `brought`: the rates, of all pairs, that urns bring about."""
    out = []
    for column in columns:
        found = [
            (pair[1], rate, there)
            for pair, rate, there in zip(rates.pairs, rates.together, brought)
            if pair[0] == column and isinstance(pair[1], int)
        ]
        if not found or column not in codes:
            continue
        between = _between(found, rates.pairs_error, codes[column])
        if between >= LEAST_BETWEEN:
            out.append(_level(column, codes[column], between))
    return tuple(sorted(out, key=lambda level: -level.between)[:MOST_LEVELS])


def _scores(shares: np.ndarray) -> np.ndarray:
    """The normal score at which each group begins, and infinity."""
    from scipy.special import ndtri

    upto = np.append(0.0, np.cumsum(shares) / shares.sum())
    return ndtri(np.clip(upto, 0.0, 1.0))


def _level(column: str, codes: np.ndarray, between: float) -> Level:
    count = np.bincount(codes).astype(np.float64)
    middle = (np.cumsum(count) - count / 2) / count.sum()
    group = np.minimum(middle * LEVEL_GROUPS, LEVEL_GROUPS - 1).astype(np.int64)
    shares = np.bincount(group, count, LEVEL_GROUPS)
    cuts = _scores(shares)
    return Level(column, group, cuts, between, _agreement(cuts, 0.0), _agreement(cuts, between))


def _between(found: Sequence[tuple[int, float, float]], error: float, codes: np.ndarray) -> float:
    """The part of the variance between users by which groups of so many codes agree as the rates
    say; 0 where urns bring that about but for noise."""
    tried = np.append(0.0, np.linspace(0.02, MOST_BETWEEN, 48))
    apart = np.zeros(len(tried))
    likely = False
    for width, rate, there in found:
        cuts = _scores(np.bincount(codes // width).astype(np.float64))
        apart += np.square(np.array([_agreement(cuts, b) for b in tried]) - rate)
        likely |= rate > there + LIKELY * error
    return float(tried[np.argmin(apart)]) if likely else 0.0


def _agreement(cuts: np.ndarray, between: float) -> float:
    """How often two rows of a user are in the same group, with this part of the variance between
    users."""
    from scipy.special import ndtr

    nodes, weights = _nodes()
    means = np.sqrt(between) * nodes
    share = np.diff(ndtr((cuts[None] - means[:, None]) / np.sqrt(1 - between)), axis=1)
    return float(weights @ np.square(share).sum(axis=1) / weights.sum())


@cache
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of integrals over a normal law; to compute them takes longer than to use
    them."""
    return np.polynomial.hermite_e.hermegauss(NODES)

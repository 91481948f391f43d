"""Whole numbers of encodings: the grid, hat weights, caps and corners, and what is refused.

Every division rounds towards zero, which cannot raise a norm. No float decides a sum.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import UsageError
from .user_values import UserValues

UNIT_BITS = 24
UNIT = 1 << UNIT_BITS
"""Grid units of 1. A user's vector has a norm of about 2^24 units, so 2^38 users fit into 63 bits.
"""
LARGEST = 1 << 50
"""Every reading of a user's values saturates here, so no product below leaves 63 bits."""
LARGEST_SHIFT = 10
MOST_GROUPS = 1 << 20
MOST_WEIGHT = 1 << 31
HALF = 1 << 38
"""A distance between corners is cut to 38 bits before it is multiplied by UNIT."""


def hat_weights(x: np.ndarray, corners: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(number of the corner at or below x, weight of it, weight of the next) of every x >= 0, in
    units; corner 0 is 0. Both weights are rounded towards zero, so their squares add up to at most
    UNIT^2: with o = (x - a) / (b - a) they are at most 1 - o and o of UNIT."""
    grid = np.array([0, *corners], np.int64)
    x = np.minimum(x, grid[-1])
    at = np.minimum(np.searchsorted(grid, x, "right") - 1, len(grid) - 2)
    width = np.diff(grid)
    cut = np.maximum(bit_length(width) - HALF.bit_length() + 1, 0)
    whole = ((width - 1) >> cut) + 1  # rounded up
    cut = cut[at]
    whole = whole[at]
    lower = (((grid[at + 1] - x) >> cut) << UNIT_BITS) // whole
    upper = (((x - grid[at]) >> cut) << UNIT_BITS) // whole
    return at, lower, upper


def ceil_root(squares: np.ndarray) -> np.ndarray:
    """The least whole number whose square is at least each of these, which are below 2^62. The
    float is a first guess only: whole numbers decide."""
    root = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    root -= root * root > squares
    root += (root + 1) * (root + 1) <= squares
    return root + (root * root < squares)


def octaves(top: int, least: int = 1) -> tuple[int, ...]:
    """Public corners: powers of two from `least` on, the last one `top`."""
    powers = []
    corner = least
    while corner < top:
        powers.append(corner)
        corner *= 2
    return (*powers, top)


def rounded_cap(cap: int) -> int:
    """The cap rounded down to 24 significant bits."""
    spare = max(0, cap.bit_length() - UNIT_BITS)
    return cap >> spare << spare


def scaled(amount: Any, cap: int) -> Any:
    """An amount of at most `cap` in grid units, rounded towards zero."""
    spare = UNIT_BITS - cap.bit_length()
    return amount << spare if spare >= 0 else amount >> -spare


def firsts(values: UserValues) -> tuple[np.ndarray, int]:
    """(the first entry of every user that has one, the number of these users). Further entries of a
    number without groups do not count, so that a user has one place."""
    starts = values.offsets[:-1][np.diff(values.offsets) > 0]
    return starts, len(starts)


def first_entries(values: UserValues, counts: np.ndarray, groups: int, most: int) -> np.ndarray:
    """Which entries count: of each user the first `most` of those that `counts` names."""
    check_groups(values, groups)
    before = np.concatenate([[0], np.cumsum(counts)])
    first = values.offsets[:-1]
    rank = before[1:] - np.repeat(before[first], np.diff(values.offsets))
    return np.flatnonzero(counts & (rank <= most))


def added(where: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """int64[size]: exact sums of int64 weights by place. `np.bincount` adds floats; each half of a
    weight has 12 bits, so sums of up to 2^41 of them are exact in 53 bits."""
    low = np.bincount(where, (weights & 0xFFF).astype(np.float64), size)
    high = np.bincount(where, (weights >> 12).astype(np.float64), size)
    return low.astype(np.int64) + (high.astype(np.int64) << 12)


def bit_length(x: np.ndarray) -> np.ndarray:
    """Bits of whole numbers from 0 to 2^53."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def check_cap(cap: int) -> None:
    if not 1 <= cap <= LARGEST or rounded_cap(cap) != cap:
        raise UsageError(f"cap: expected 1 to 2^50 with 24 significant bits, got {cap}")


def check_corners(corners: Sequence[int]) -> None:
    check_ascending(corners)
    if not corners or corners[0] < 1 or corners[-1] > LARGEST:
        raise UsageError("corners: expected whole numbers from 1 to 2^50")


def check_ascending(edges: Sequence[int]) -> None:
    if any(b <= a for a, b in pairwise(edges)):
        raise UsageError("expected ascending whole numbers")


def check_groups(values: UserValues, groups: int) -> None:
    """Each (user, group) has at most one entry, in order: two of them would add up."""
    group = values.group
    if len(group) and not (group.min() >= 0 and group.max() < groups):
        raise UsageError("a group lies outside the public groups")
    follows = np.ones(len(group) + 1, bool)
    follows[values.offsets] = False  # the first entry of a user follows none of its own
    if (np.diff(group) <= 0)[follows[1:-1]].any():
        raise UsageError("a user's groups must ascend, each at most once")

"""Numbers of users: how many there are, for how many a condition holds, and by group."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from .._util.texttable import plural
from ..significance import LIKELY
from . import sum_estimates as sums
from .amount_encodings import CappedGroups
from .asking import Asking, Line, at_least
from .encoding_grid import LARGEST_SHIFT, octaves
from .people_encodings import Centred, CentredGroups, GroupCounts, GroupsPerUser
from .sum_estimates import Interval, normal
from .typed import TypedNumber

FEW_GROUPS = 4
"""Users of up to so many groups are counted directly, with noise sqrt(groups) / mu, at most 2 / mu."""
PILOT = 0.2
"""Part of mu^2 for the number of groups per user."""


def people(ask: Asking, number: TypedNumber, users: tuple[float, float]) -> Line:
    """Users for whom a predicate holds: y + n / 2 of them, a share of 1/2 + y / n."""
    n, noise = users
    if number.number.where is None:
        return None, at_least(normal(n, noise), 0.0), None, "measured once for all numbers"
    (y,), s = ask(Centred(), 1.0, "users")
    if number.aggregate == "count":
        found = normal(float(y) + n / 2, math.hypot(s, noise / 2))
        return None, at_least(found, 0.0), None, ""
    return None, share_of(float(y), s, n, noise), None, ""


def share_of(y: float, s: float, n: float, noise: float) -> Interval:
    """1/2 + y / n with a 95 % interval, where y and n have noise s and `noise`.

    For the true r = y / n, y - r n is Gaussian of variance s^2 + r^2 noise^2. The interval are all r
    that this does not exclude (Fieller). So it covers 95 % for any number of users. If n itself is
    not clear of noise, nothing is excluded. Where noise puts y / n out of reach, the interval keeps
    its width towards what is possible: it would end there, as if nothing were uncertain."""
    z2 = sums.Z**2
    square = n * n - z2 * noise**2
    if n <= 0 or square <= 0:
        return Interval(0.5, 0.0, 1.0)
    root = math.sqrt(max(0.0, y * y * n * n - square * (y * y - z2 * s * s)))
    low, high = ((y * n + sign * root) / square for sign in (-1, 1))
    middle = min(max(y / n, -0.5), 0.5)
    back = middle - y / n
    return Interval(0.5 + middle, 0.5 + max(low + back, -0.5), 0.5 + min(high + back, 0.5))


def people_by_group(ask: Asking, number: TypedNumber) -> list[Line]:
    """Users by group: directly where a user is in one group or groups are few."""
    size = number.groups
    most = 1 if number.one_group else size
    if number.aggregate == "share":
        values, s = ask(CentredGroups(groups=size, most=most), 1.0, "users by group")
        return [_share_of_group(g, values[g], 2 * values[size + g], s) for g in range(size)]
    if number.one_group or size <= FEW_GROUPS:
        values, s = ask(GroupCounts(groups=size, most=most), 1.0, "users by group")
        return [(g, at_least(normal(float(v), s), 0.0), None, "") for g, v in enumerate(values)]
    return _people_in_many_groups(ask, size)


def _people_in_many_groups(ask: Asking, size: int) -> list[Line]:
    """Users by group where each may be in many. A user in k groups adds min(1, cap / sqrt(k)) to
    each, so the noise is that of the cap. The released number of groups per user tells what is
    missing in all. A group has its share of it by estimate, at most what `Missing.most` says, and
    at least nothing."""
    edges = (1, *(2**i + 1 for i in range(size.bit_length())))
    counts, noise = ask(GroupsPerUser(edges=edges), PILOT, "groups per user")
    spread = _spread(counts[1:], noise)
    missing = _groups_cap(spread, edges, size, noise * math.sqrt(PILOT))
    cap = missing.cap
    fine = 1 << LARGEST_SHIFT  # lengths are whole numbers: without it, sqrt(2) counts as 2
    vector = CappedGroups(of="residual", shift=LARGEST_SHIFT, cap=cap * fine, groups=size)
    capped, s = ask(vector, 1 - PILOT, "users by group")
    capped, s = capped / fine, s / fine
    part = min(missing.entries / max(float(capped.sum()), 1.0), 1 / min(missing.weights) - 1)
    full = plural(cap * cap, "group")
    note = f"each user counted in full in up to {full}, in part in more{spread.note}"
    lines: list[Line] = []
    for g, value in enumerate(capped.tolist()):
        there = max(value + sums.Z * s, 0.0)
        high = there + missing.most(there)
        found = Interval(min(value + part * max(value, 0.0), high), value - sums.Z * s, high)
        lines.append((g, at_least(found, 0.0), None, note))
    return lines


class Missing(Struct, frozen=True):
    """What a cap leaves out. By estimate `users` are in `groups` each, bin by bin; a user of a bin adds
    `weights` to each group. At most `or_more` users are in a bin or a later one."""

    cap: int
    users: tuple[float, ...]
    or_more: tuple[float, ...]
    groups: tuple[int, ...]

    @property
    def weights(self) -> tuple[float, ...]:
        return tuple(min(1.0, self.cap / math.sqrt(k)) for k in self.groups)

    @property
    def entries(self) -> float:
        """What is left out in all groups together."""
        return sum(n * k * (1 - w) for n, k, w in zip(self.users, self.groups, self.weights))

    def most(self, counted: float) -> float:
        """What is left out of a group at most in which users count as `counted`. It is most where
        those who are in most groups are all in this one: of m users of weight w, m w count and
        m (1 - w) are missing, and (1 - w) / w is largest for them."""
        missing = taken = 0.0
        for n, w in zip(reversed(self.or_more), reversed(self.weights)):
            there = min(n - taken, counted / w)
            missing += there * (1 - w)
            taken += there
            counted -= there * w
        return missing


class Spread(Struct, frozen=True):
    """Users by the number of their groups, as released: by estimate, bin by bin, and how many are in
    a bin or a later one at most. `note`: what noise hides of it."""

    users: tuple[float, ...]
    or_more: tuple[float, ...]
    note: str


def _spread(counts: np.ndarray, noise: float) -> Spread:
    """What released numbers of users by number of groups say of all bins.

    Of the users in a bin and all later ones, at most what was released and 1.96 standard errors is
    believed. Where users of one group show and no others, a bin is taken to hold at most a quarter of
    the bin before, which keeps intervals narrow; the note says how many users may be there. Where
    these do not show, all users may be in bins that noise hides."""
    seen = counts > LIKELY * noise
    one = bool(seen[0]) and not seen[1:].any()
    users: list[float] = []
    for i, count in enumerate(counts.tolist()):
        if seen[i]:
            users.append(count)
        elif seen[:i].any():
            users.append(min(noise, users[-1] / 4))
        else:
            users.append(max(count, 0.0))
    bins = np.arange(1, len(counts) + 1)
    or_more = np.cumsum(counts[::-1]) + sums.Z * noise * np.sqrt(bins)
    note = (
        "" if seen.any() else "; noise hides in how many groups users are, so the upper end is far"
    )
    if one:
        hidden = max(0, math.ceil(or_more[-2]))
        note = "; users of several groups do not show, and the upper end allows for few of them: "
        note += f"up to {hidden:,} may be there"
        or_more = np.cumsum(users[::-1])
    most = np.minimum.accumulate(np.maximum(or_more, 0.0)[::-1])
    return Spread(tuple(users), tuple(most.tolist()), note)


def _groups_cap(spread: Spread, edges: Sequence[int], size: int, whole: float) -> Missing:
    """The cap whose intervals are narrowest for a group of average size: noise on both sides, and the
    most that may be missing."""
    most = (*(min(edge - 1, size) for edge in edges[1:]), size)

    def width(missing: Missing) -> float:
        counted = sum(n * k * w for n, k, w in zip(spread.users, most, missing.weights)) / size
        return 2 * sums.Z * missing.cap * whole + missing.most(counted)

    caps = octaves(math.isqrt(size - 1) + 1)
    made = (Missing(cap, spread.users, spread.or_more, most) for cap in caps)
    return min(made, key=width)


def _share_of_group(group: int, y: float, n: float, s: float) -> Line:
    """The share in one group, where n has twice the noise of y."""
    found = share_of(float(y), s, float(n), 2 * s)
    if found.high - found.low >= 1.0:
        return group, None, None, "withheld: too few users for a share"
    return group, found, None, ""

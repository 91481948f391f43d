"""Once per period: users of a pool whose rows never share a code of the first column of the order.

Panels have one row for each period. Rows are dealt to users by how often two rows of a user agree,
which is rare in the period. Users with many rows still get some periods twice. Here a user's periods
are moved apart, as little as possible. A row whose period moves becomes a row of somebody else that
has the new period, and is like it otherwise.

For example, the years 3, 5, 5, 9 of a user become 3, 4, 5, 9.

Then gaps between a user's periods become those that were released. A pool has few users who come in each
of many periods, so a choice among them could not mend gaps.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from ..significance import drawn_towards, onto_simplex
from .gaps import Gaps
from .people import Codes
from .pool import Pool
from .siblings import Likeness, in_order, rows_like


def once_per_period(
    codes: Codes, owner: np.ndarray, alike: Likeness, gaps: Gaps | None, seed: int
) -> dict[str, np.ndarray]:
    """The codes of rows of which no user has two in one period. A row keeps its period if nobody has a
    row in the new one that is like it. `gaps`: what was released of gaps; they are met where the order is
    the period alone."""
    pool = Pool.of(codes, owner)
    users = pool.to_rows(np.arange(pool.users))
    period = alike.order[0]
    rows = in_order(pool.codes, np.arange(pool.rows), users, alike.order)
    now = pool.codes[period][rows].astype(np.int64)
    generator = np.random.Generator(np.random.Philox(key=[seed, 6]))
    free = moved_apart(now, pool.start, alike.once)
    if gaps is not None and gaps.order == (period,):
        free = with_gaps(free, pool.start, alike.once, gaps, generator)
    moved = np.flatnonzero(free != now)
    same_code = replace(alike, periods=alike.size)  # every code is a period of its own
    wanted = {name: column[rows[moved]] for name, column in pool.codes.items()}
    wanted[period] = free[moved]
    rows[moved] = rows_like(
        pool.rows,
        same_code.compared(pool.codes),
        same_code.compared(wanted),
        rows[moved],
        generator,
    )
    rows = in_order(pool.codes, rows, users, alike.order)
    out = {name: np.empty_like(column) for name, column in codes.items()}
    for name, column in out.items():
        column[pool.place] = pool.codes[name][rows]
    return out


def moved_apart(codes: np.ndarray, start: np.ndarray, size: int) -> np.ndarray:
    """Codes below `size` that differ within each user, near to the given ones. `codes` rise within each
    user, whose rows are start[u] to start[u + 1] - 1. Users with more rows than there are codes keep
    theirs, and users with a code that is no value (null).

    A user's codes differ if codes less their rank (0, 1, 2 ...) never fall. The least such levels that
    are nowhere below the given ones only move codes up; the largest nowhere above only move them down.
    The middle of both is taken.
    """
    rows = np.diff(start)
    user = np.repeat(np.arange(len(rows)), rows)
    rank = np.arange(len(codes)) - start[:-1][user]
    # users lie so far apart that running maxima and minima start anew with each
    apart = 2 * (size + int(rows.max(initial=0)))
    level = codes - rank + apart * user
    up = np.maximum.accumulate(level)
    down = np.minimum.accumulate(level[::-1])[::-1]
    middle = np.floor_divide(up + down - 2 * apart * user, 2)
    highest = (size - rows)[user]
    inside = np.clip(middle, 0, np.maximum(highest, 0))
    return np.where((highest >= 0) & _of_values(codes, start, size), inside + rank, codes)


def with_gaps(
    codes: np.ndarray, start: np.ndarray, size: int, gaps: Gaps, generator: np.random.Generator
) -> np.ndarray:
    """Codes below `size` that rise within each user, moved until as many gaps are in each bin as were
    released, as far as noise lets it (`drawn_towards`). A bin that has too many gives some
    of its gaps at random to bins that have too few. Users stay about where they are in the mean. Those who
    would have no room keep their codes.

    For example, where nobody pauses, the months 3, 4, 6 of a user become 3, 4, 5.
    """
    rows = np.diff(start)
    first = np.zeros(len(codes), bool)
    first[start[:-1]] = True

    # each gap counts as a part of its user's, as in the release
    gap = np.diff(codes, prepend=codes[:1])
    bins = np.searchsorted(gaps.edges, gap, side="right")
    weight = np.where(first, 0.0, np.repeat(1 / np.maximum(rows - 1.0, 1.0), rows))
    now = np.bincount(bins, weight, len(gaps.shares)) / max(int((rows > 1).sum()), 1)
    apart = np.append(0.0, onto_simplex(gaps.shares[1:], 1.0)) - now  # no period twice
    apart = drawn_towards(0.0, apart, gaps.error**2)
    missing = np.maximum(apart, 0.0)
    surplus = np.maximum(-apart, 0.0)
    moved = min(float(missing.sum()), float(surplus.sum()))
    if moved <= 0:
        return codes

    odds = surplus / surplus.sum() * moved / np.maximum(now, 1e-300)
    redrawn = np.flatnonzero(~first & (generator.random(len(codes)) < odds[bins]))
    to = generator.choice(len(now), len(redrawn), p=missing / missing.sum())
    low = gaps.edges[to - 1]
    gap[redrawn] = low + (generator.random(len(redrawn)) * low).astype(np.int64)

    # codes by their gaps, from 0 on, then where the user was in the mean
    upto = np.cumsum(np.where(first, 0, gap))
    begun = upto[start[:-1]]
    upto -= np.repeat(begun, rows)
    span = upto[start[1:] - 1]
    middle = np.add.reduceat(codes - upto, start[:-1]) / rows
    begin = np.clip(np.rint(middle).astype(np.int64), 0, np.maximum(size - 1 - span, 0))
    fits = np.repeat(span < size, rows) & _of_values(codes, start, size)
    return np.where(fits, np.repeat(begin, rows) + upto, codes)


def _of_values(codes: np.ndarray, start: np.ndarray, size: int) -> np.ndarray:
    """For each row, whether all codes of its user are below `size`."""
    return np.repeat(np.maximum.reduceat(codes, start[:-1]) < size, np.diff(start))

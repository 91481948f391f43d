"""Once per period: users of a pool whose rows never share a code of the first column of the order.

Panels have one row for each period. Rows are dealt to users by how often two rows of a user agree,
which is rare in the period. Users with many rows still get some periods twice. Here a user's periods
are moved apart, as little as possible. A row whose period moves becomes a row of somebody else that
has the new period, and is like it otherwise.

For example, the years 3, 5, 5, 9 of a user become 3, 4, 5, 9.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from .people import Codes
from .pool import Pool
from .siblings import Likeness, in_order, rows_like


def once_per_period(
    codes: Codes, owner: np.ndarray, alike: Likeness, seed: int
) -> dict[str, np.ndarray]:
    """The codes of rows of which no user has two in one period. A row keeps its period if nobody has a
    row in the new one that is like it."""
    pool = Pool.of(codes, owner)
    users = pool.to_rows(np.arange(pool.users))
    period = alike.order[0]
    rows = in_order(pool.codes, np.arange(pool.rows), users, alike.order)
    now = pool.codes[period][rows].astype(np.int64)
    free = moved_apart(now, pool.start, alike.size)
    moved = np.flatnonzero(free != now)
    same_code = replace(alike, periods=alike.size)  # every code is a period of its own
    compared = same_code.compared(pool.codes)
    wanted = compared.at(rows[moved])
    wanted.must[-1] = free[moved]
    generator = np.random.Generator(np.random.Philox(key=[seed, 6]))
    rows[moved] = rows_like(pool.rows, compared, wanted, rows[moved], generator)
    rows = in_order(pool.codes, rows, users, alike.order)
    out = {name: np.empty_like(column) for name, column in codes.items()}
    for name, column in out.items():
        column[pool.place] = pool.codes[name][rows]
    return out


def moved_apart(codes: np.ndarray, start: np.ndarray, size: int) -> np.ndarray:
    """Codes below `size` that differ within each user, near to the given ones. `codes` rise within each
    user, whose rows are start[u] to start[u + 1] - 1. Users with more rows than there are codes keep
    theirs.

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
    return np.where(highest >= 0, inside + rank, codes)

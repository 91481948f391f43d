"""Once per period: users of a pool whose rows never share a code of the first column of the order.

Panels have one row for each period. Rows are dealt by agreement of codes, which is low there, but users
with many rows still get some of them twice. Here a user's periods are moved apart, as little as possible.
A row whose period moves becomes a row of somebody else that has the new one, and is like it otherwise.
"""

from __future__ import annotations

import numpy as np

from .people import Codes
from .pool import Pool
from .siblings import Likeness, in_order, rows_like


def once_per_period(
    codes: Codes, owner: np.ndarray, alike: Likeness, seed: int
) -> dict[str, np.ndarray]:
    """The rows, where no user has two of one period, but for rows that nobody has in a free one."""
    pool = Pool.of(codes, owner)
    of = pool.to_rows(np.arange(pool.users))
    lead = alike.order[0]
    rows = in_order(pool.codes, np.arange(pool.rows), of, alike.order)
    now = pool.codes[lead][rows].astype(np.int64)
    free = moved_apart(now, pool.start, alike.size)
    moved = np.flatnonzero(free != now)
    exact = Likeness(alike.fixed, alike.known, alike.order, alike.size, alike.size)
    columns = exact.columns(pool.codes)
    wanted = [x[rows[moved]] for x in columns[0]], [x[rows[moved]] for x in columns[1]]
    wanted[0][-1] = free[moved]  # the period is the last of what must be the same
    generator = np.random.Generator(np.random.Philox(key=[seed, 6]))
    rows[moved] = rows_like(pool.rows, columns, wanted, rows[moved], generator)
    rows = in_order(pool.codes, rows, of, alike.order)
    out = {name: np.empty_like(column) for name, column in codes.items()}
    for name, column in out.items():
        column[pool.place] = pool.codes[name][rows]
    return out


def moved_apart(codes: np.ndarray, start: np.ndarray, size: int) -> np.ndarray:
    """Codes below `size`, such that those of each user, which rise, differ: as near as those that only
    move up and those that only move down say in the mean. Users with more rows than codes keep theirs.
    """
    rows = np.diff(start)
    user = np.repeat(np.arange(len(rows)), rows)
    rank = np.arange(len(codes)) - start[:-1][user]
    # codes less their rank must not fall; running maxima and minima start anew with each user
    apart = 2 * (size + int(rows.max(initial=0)))
    level = codes - rank + apart * user
    up = np.maximum.accumulate(level)
    down = np.minimum.accumulate(level[::-1])[::-1]
    middle = np.floor_divide(up + down - 2 * apart * user, 2)
    most = (size - rows)[user]
    return np.where(most >= 0, np.clip(middle, 0, np.maximum(most, 0)) + rank, codes)

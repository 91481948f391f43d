"""Bounding what one user can contribute: integer weights, or at most k rows.

Everything here is a function of one user's own rows and id value, so that adding or removing another user
changes nothing. Weights are whole numbers of 1/SCALE rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..measurement import SCALE

if TYPE_CHECKING:
    from .table import Table

MAX_CLIP = (1 << 43) - 1


def check_clip(clip: int) -> int:
    """The clip as an int; UsageError unless it is a whole number in 1..2^43-1."""
    if isinstance(clip, bool) or int(clip) != clip or not 1 <= clip <= MAX_CLIP:
        raise UsageError(f"clip must be a whole number of rows from 1 to 2^43-1, got {clip!r}")
    return int(clip)


def weights(rows_per_user: np.ndarray, clip: int) -> np.ndarray:
    """uint32 weight of each row of a user with R rows: min(SCALE, floor(clip * SCALE / R)).

    R times that weight is at most clip * SCALE, exactly: the L1 sensitivity of every marginal to one user.
    """
    clip = check_clip(clip)
    rows = np.maximum(np.asarray(rows_per_user), 1)
    most = int(rows.max(initial=1))
    if most + 1 < rows.size:
        # There are fewer distinct numbers of rows than users: one division for each, since divisions take
        # most of the time.
        return weights(np.arange(most + 1), clip)[rows]
    return np.minimum(SCALE, (clip * SCALE) // rows.astype(np.int64)).astype(np.uint32)


def user_weights(table: Table, clip: int | None) -> np.ndarray | None:
    """uint32[users] row weights of each user; None where all rows weigh the same (no clip, or no user
    column)."""
    if clip is None:
        return None
    check_clip(clip)
    return None if table.user is None else weights(table.rows_per_user(), clip)


def cap_rows(table: Table, k: int, threads: int | None = None) -> Table:
    """The table with at most k rows of each user, chosen by a hash of id value, row content and its number
    among the user's equal rows. The multiset of rows kept depends neither on their order nor on any other
    user."""
    from .._core import bound as core
    from .._util import threads as _threads

    if isinstance(k, bool) or int(k) != k or k < 1:
        raise UsageError(f"the cap must be a whole number of rows >= 1, got {k!r}")
    if table.user is None or table.user_hash is None:
        return table
    start, order = core.group(table.user, table.rows_per_user(), None)
    content = core.hash_rows(list(table.codes.values()), table.rows)
    keep = core.cap(start, order, content, table.user_hash, int(k), _threads.resolve(threads))
    return table.take(keep.view(bool))

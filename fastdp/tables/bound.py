"""Bounds the contribution of one user by integer weights of rows.

The weights of a user are a function of that user's number of rows alone. So adding or removing
another user does not change them. Weights are integers in units of 1/SCALE rows.
"""

import numpy as np

from ..errors import UsageError, is_whole
from ..measurement import SCALE
from .table import Table

MAX_CLIP = (1 << 43) - 1
"""The largest clip: in units of 2^-20 rows, one user then adds less than 2^63."""


def check_clip(clip: int) -> int:
    """The clip as an int; UsageError unless it is a whole number in 1..2^43-1."""
    if not is_whole(clip, 1, MAX_CLIP):
        raise UsageError(f"clip must be a whole number of rows from 1 to 2^43-1, got {clip!r}")
    return int(clip)


def weights(rows_per_user: np.ndarray, clip: int) -> np.ndarray:
    """uint32 weight of each row of a user with R rows: min(SCALE, floor(clip * SCALE / R)).

    R times that weight is at most clip * SCALE, in exact integer arithmetic. This is the L1
    sensitivity of every marginal, in units of 1/SCALE rows, to adding or removing one user.
    """
    clip = check_clip(clip)
    rows = np.maximum(np.asarray(rows_per_user), 1)
    most = int(rows.max(initial=1))
    if most + 1 < rows.size:
        # Divisions take most of the time, so they are done once per distinct number of rows, not
        # per user.
        return weights(np.arange(most + 1), clip)[rows]
    return np.minimum(SCALE, (clip * SCALE) // rows.astype(np.int64)).astype(np.uint32)


def user_weights(table: Table, clip: int | None) -> np.ndarray | None:
    """uint32[users]: the weight of each row of a user; None if all rows have the same weight (no
    clip, or no user column)."""
    if clip is None:
        return None
    check_clip(clip)
    return None if table.user is None else weights(table.rows_per_user(), clip)

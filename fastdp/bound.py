"""Bounding what one user can contribute: integer weights, or at most k rows.

Everything here is a function of one user's own rows and id value, so that adding or removing another user changes
nothing. Weights are in fixed point: SCALE units are one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .errors import UsageError

if TYPE_CHECKING:
    from .table import Table

SCALE = 1 << 20
"""Fixed-point units per row."""

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
    rows = np.maximum(np.asarray(rows_per_user), 1).astype(np.int64)
    return np.minimum(SCALE, (clip * SCALE) // rows).astype(np.uint32)


def user_weights(table: Table, clip: int | None) -> np.ndarray | None:
    """uint32[users] row weights of each user; None where all rows weigh the same (no clip, or no user column)."""
    if clip is None:
        return None
    check_clip(clip)
    return None if table.user is None else weights(table.rows_per_user(), clip)


def cap_rows(table: Table, k: int, threads: int | None = None) -> Table:
    """The table with at most k rows of each user, chosen by a hash of id value, row content and its number among
    the user's equal rows. The multiset of rows kept depends neither on their order nor on any other user."""
    from . import threads as _threads
    from ._core import bound as core

    if isinstance(k, bool) or int(k) != k or k < 1:
        raise UsageError(f"the cap must be a whole number of rows >= 1, got {k!r}")
    if table.user is None or table.user_hash is None:
        return table
    start, order = core.group(table.user, table.rows_per_user(), None)
    content = core.hash_rows(list(table.codes.values()), table.rows)
    keep = core.cap(start, order, content, table.user_hash, int(k), _threads.resolve(threads))
    return table.take(keep.view(bool))


@dataclass(frozen=True)
class ClipRow:
    """What a clip costs on one marginal of `cells` cells, as shares of all rows.

    lost: weight that clipping takes away (an upper bound on the bias of every cell and on its L1 norm);
    noise: expected L1 norm of the Gaussian noise, cells * sigma * sqrt(2/pi); total: their sum.
    """

    clip: int
    users_clipped: float
    lost: float
    sigma: float
    noise: float
    total: float


def clip_table(
    rows_per_user: np.ndarray,
    sigma: Callable[[int], float],
    cells: int,
    clips: Sequence[int] | None = None,
) -> list[ClipRow]:
    """Bias against noise for clips C, from the rows per user of PUBLIC data (or a released histogram's).

    sigma(C): standard deviation per cell, in rows, that the budget needs at clip C. clips: which to try; by default
    the rounded powers of 2^(1/2) up to the largest number of rows.
    """
    rows = np.asarray(rows_per_user, np.int64)
    if rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.sum() == 0:
        raise UsageError("rows_per_user must be whole numbers >= 0, not all of them 0")
    if clips is None:
        steps = int(np.ceil(2 * np.log2(int(rows.max())))) + 1
        clips = sorted({min(int(rows.max()), round(2 ** (i / 2))) for i in range(steps)})
    total = int(rows.sum())
    out = []
    for clip in clips:
        clip = check_clip(clip)
        kept = int(np.dot(rows, weights(rows, clip).astype(np.int64)))
        lost = 1 - kept / (total * SCALE)
        scale = float(sigma(clip))
        noise = cells * scale * float(np.sqrt(2 / np.pi)) / total
        clipped = float(np.mean(rows > clip))
        out.append(ClipRow(clip, clipped, lost, scale, noise, lost + noise))
    return out


def choose_clip(
    rows_per_user: np.ndarray,
    sigma: Callable[[int], float],
    cells: int,
    clips: Sequence[int] | None = None,
) -> int:
    """The clip of smallest total cost in `clip_table`."""
    return min(clip_table(rows_per_user, sigma, cells, clips), key=lambda row: row.total).clip

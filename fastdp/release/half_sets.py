"""A selection among very many small sets of columns, each column in two groups:
estimates on the grid, scores, sensitivity (docs/explain/target-sets.md).

Planned from public facts alone. It is `selection` by arrays: a hundred thousand sets take a second."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from .._util.bit_rows import MOST_WIDTH, told_apart
from ..errors import MeasurementError, UsageError
from ..measurement import SCALE
from ..privacy.accountant import BoundedRange
from ..privacy.chain import digest
from .counts import Counts
from .planned_release import Recoded, array_digest, positive
from .score_grids import SCORE_LIMIT
from .selection import Selection, selection_line


class HalfSets(Struct, frozen=True, eq=False):
    """Sets of `columns`: members[i] are the numbers of the columns of set i, ascending."""

    columns: tuple[str, ...]
    members: np.ndarray

    @property
    def cells(self) -> int:
        return 1 << self.members.shape[1]


class HalfSetsPlan(Selection, frozen=True, eq=False, kw_only=True):
    """`grids` [sets, cells], `penalties` [sets] and scores are in units of 1/SCALE rows."""

    sets: HalfSets
    grids: np.ndarray
    penalties: np.ndarray

    @property
    def question(self) -> dict:
        return super().question | {"allowed": array_digest(np.asarray(self.allowed))}

    def count(self, counts: Counts) -> np.ndarray:
        return self.scores(counts.half_tables(self.sets.columns, self.sets.members))

    def scores(self, tables: np.ndarray) -> np.ndarray:
        """int64 [sets]: L1 distances of these marginals from the estimates, less the penalties; cut
        off at +-SCORE_LIMIT, which cannot raise how much one user changes them."""
        apart = np.abs(tables - self.grids)
        far = apart.sum(axis=1, dtype=np.float64) > 2.0 * SCORE_LIMIT  # the exact sum might wrap
        gaps = np.where(far, SCORE_LIMIT, np.minimum(SCORE_LIMIT, apart.sum(axis=1)))
        return np.clip(gaps - self.penalties, -SCORE_LIMIT, SCORE_LIMIT)

    def lines(self, label: str) -> list[dict]:
        line = selection_line(label, self.event, self.sensitivity / SCALE, len(self.allowed))
        return [line]


def plan_half_sets(
    recoded: Recoded,
    clip: int,
    sets: HalfSets,
    estimates: np.ndarray,
    epsilon: float,
    penalties: np.ndarray,
    allowed: np.ndarray,
    label: str,
) -> HalfSetsPlan:
    """Scores and sensitivity of one selection, or an error if an argument has the wrong form.
    `recoded`: all columns of the sets, to two codes.

    One user's rows weigh at most clip * SCALE units in all, and each row is in one cell of a
    marginal. So an L1 distance, and with it a score, changes by at most clip * SCALE units."""
    members = np.asarray(sets.members)
    allowed = np.asarray(allowed, np.int64)
    domain = recoded.domain
    if any(domain[domain.check((name,))[0]] != 2 for name in sets.columns):
        raise UsageError(f"{label!r}: every column must be recoded to two codes")
    if len(set(sets.columns)) < len(sets.columns) or members.dtype.kind not in "iu":
        raise UsageError(f"{label!r}: expected different columns, and sets of their numbers")
    if members.ndim != 2 or not 1 <= members.shape[1] <= MOST_WIDTH or not len(members):
        raise UsageError(f"{label!r}: expected sets of 1 to {MOST_WIDTH} columns")
    if not told_apart(len(sets.columns), members.shape[1]):
        raise UsageError(f"{label!r}: too many columns for sets of {members.shape[1]}")
    if (np.diff(members, axis=1) <= 0).any() or not (
        0 <= members.min() <= members.max() < len(sets.columns)
    ):
        raise UsageError(f"{label!r}: a set must have different columns, by number, ascending")
    if not allowed.size or not 0 <= allowed.min() <= allowed.max() < len(members):
        raise UsageError(f"{label!r}: no candidates were given, or one is out of range")
    grids = _on_grid(estimates, (len(members), sets.cells), label)
    off = _on_grid(penalties, (len(members),), label)
    event = BoundedRange(positive(epsilon, "epsilon"))
    scored = {"half sets": array_digest(members, grids, off), "columns": list(sets.columns)}
    return HalfSetsPlan(
        clip=clip,
        asked=digest(scored | recoded.digests),
        allowed=allowed,
        event=event,
        sensitivity=clip * SCALE,
        sets=sets,
        grids=grids,
        penalties=off,
    )


def _on_grid(values: np.ndarray, shape: tuple[int, ...], label: str) -> np.ndarray:
    """Public numbers in whole units of 1/SCALE rows."""
    values = np.asarray(values, np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise MeasurementError(f"{label!r}: expected {shape} finite numbers")
    sums = np.abs(values) if values.ndim == 1 else np.abs(values).sum(axis=1)
    if float(sums.max()) * SCALE >= SCORE_LIMIT:
        raise UsageError(f"{label!r}: an estimate or a penalty is too large to compare exactly")
    return np.rint(values * SCALE).astype(np.int64)

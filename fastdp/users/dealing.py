"""Deals synthetic rows to synthetic users: constant columns decide which rows a user may get, nested urns
which of these it gets.

Within the rows of one segment (users with the same constants) every row is used once, so all marginals of the
segment stay those of the row model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..errors import UsageError
from .people import People
from .rates import GROUPS, Rates, Roles, chance, urn

CHUNK_ROWS = 1 << 18
"""Rows that are dealt together. Chunks are independent of each other: threads share them, and memory is about
8 (features + 2) bytes for each row of a chunk and thread."""
TRIAL_ROWS = 1 << 17
"""Rows of the trial dealings that set the urns' parameters."""
TRIALS = 4
STEP = 0.8
"""How far a trial moves the logarithm of a parameter per unit of the rate's log-odds."""


@dataclass(frozen=True, eq=False)
class Dealer:
    """`alpha` [groups of users, repeated columns]: the urns' parameters, not falling along the columns."""

    people: People
    roles: Roles
    alpha: np.ndarray

    @property
    def wants_spare(self) -> bool:
        """Whether rows beyond those asked for help: users with the same constants need rows of their own."""
        return bool(self.roles.constant)

    def deal(
        self,
        codes: Mapping[str, np.ndarray],
        seed: int,
        threads: int,
        spare: Mapping[str, np.ndarray] | None = None,
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(codes, uint32 user number of each row): as many rows as `codes` has, each of them a row of `codes`
        or `spare` but for its constant columns, which are its user's. Depends on rows and seed alone."""
        dealt, owner, _ = self._dealt(codes, seed, threads, spare)
        return dealt, owner

    def _dealt(self, codes, seed: int, threads: int, spare=None):
        rows = len(next(iter(codes.values())))
        if spare is not None:
            codes = {name: np.concatenate([column, spare[name]]) for name, column in codes.items()}
        pool = len(next(iter(codes.values())))
        wanted, fixed = self.people.draw(rows, seed)
        segment_of_user, segment_of_row, segments = _segments(codes, fixed, len(wanted), pool)
        need = np.bincount(segment_of_user, wanted, segments).astype(np.int64)
        order = np.argsort(segment_of_user, kind="stable")
        wanted, fixed = wanted[order], {name: column[order] for name, column in fixed.items()}
        take, at = _chosen(segment_of_row, need, rows)
        ends = np.cumsum(np.bincount(segment_of_user, minlength=segments))
        owner, equal = self._urns(codes, take, wanted, ends, seed, threads)
        out = {name: np.empty(rows, column.dtype) for name, column in codes.items()}
        for name, column in codes.items():
            out[name][at] = fixed[name][owner] if name in fixed else column[take]
        owners = np.empty(rows, np.uint32)
        names = np.random.Generator(np.random.Philox(key=[seed, 2])).permutation(len(wanted))
        owners[at] = names[owner]  # so that numbers of users do not follow their constants
        return out, owners, (wanted, equal)

    def _urns(self, codes, take, wanted, ends, seed, threads):
        from .._core import deal as core

        user_start, row_start = _chunks(wanted, ends)
        names = self.roles.repeated
        values = np.empty((max(len(names), 1), len(take)), np.uint32)
        values[0] = 0  # without repeated columns: any row
        for i, name in enumerate(names):
            values[i] = codes[name][take]
        size = values.max(axis=1, initial=0).astype(np.uint32) + np.uint32(1)
        group = np.maximum(np.searchsorted(GROUPS, wanted, "right") - 1, 0).astype(np.uint32)
        alpha = self.alpha if len(names) else np.full((len(GROUPS), 1), 1e4)
        alpha, sizes = np.ascontiguousarray(alpha), wanted.astype(np.uint32)
        return core.deal(row_start, user_start, values, size, sizes, group, alpha, seed, threads)


def dealer(
    people: People, rates: Rates, roles: Roles, codes: Mapping[str, np.ndarray], seed: int, threads: int
) -> Dealer:
    """The dealer whose users agree as the rates say: parameters by the urn's formula, then corrected by trial
    dealings of the rows `codes` (more of them than TRIAL_ROWS are not used)."""
    place = [rates.columns.index(name) for name in roles.repeated]
    goal = np.clip(rates.by_group[:, place], 1e-3, 1 - 1e-3)
    some = {name: column[:TRIAL_ROWS] for name, column in codes.items()}
    first = np.log(urn(goal, chance(some, roles.repeated)))
    made = Dealer(people, roles, np.maximum.accumulate(np.exp(first), axis=1))
    if not place or not len(next(iter(some.values()))):
        return made
    log_alpha = first
    for trial in range(TRIALS):
        _, _, (wanted, equal) = made._dealt(some, seed + trial, threads)
        group = np.searchsorted(GROUPS, wanted, "right") - 1
        users = np.bincount(group[wanted > 1], minlength=len(GROUPS))[:, None]
        now = np.clip(equal / np.maximum(users, 1) / (1 << 20), 1e-3, 1 - 1e-3)
        moved = log_alpha + STEP * (_log_odds(now) - _log_odds(goal))
        log_alpha = np.where(users > 0, np.clip(moved, -6, 9), log_alpha)
        made = replace(made, alpha=np.maximum.accumulate(np.exp(log_alpha), axis=1))
    return made


def _log_odds(p: np.ndarray) -> np.ndarray:
    return np.log(p / (1 - p))


def _segments(codes, fixed: Mapping[str, np.ndarray], users: int, rows: int):
    """(segment of each user, segment of each row or -1, number of segments) by the constant columns."""
    if not fixed:
        return np.zeros(users, np.int64), np.zeros(rows, np.int64), 1
    of_user, of_row = np.zeros(users, np.int64), np.zeros(rows, np.int64)
    for name, column in fixed.items():
        size = int(max(column.max(initial=0), codes[name].max(initial=0))) + 1
        both = np.concatenate([of_user * size + column, of_row * size + codes[name]])
        both = np.unique(both, return_inverse=True)[1]  # small numbers again, whatever the columns' sizes
        of_user, of_row = both[:users], both[users:]
    there, of_user = np.unique(of_user, return_inverse=True)
    at = np.minimum(np.searchsorted(there, of_row), len(there) - 1)
    return of_user, np.where(there[at] == of_row, at, -1), len(there)


def _chosen(segment: np.ndarray, need: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(row taken for each place, place in the output), segment after segment: the rows of a segment as often
    as its users need them. A segment that has no rows takes those that others leave."""
    order = np.argsort(segment, kind="stable")
    start = np.searchsorted(segment[order], np.arange(len(need) + 1))
    have = np.diff(start)
    of_place = np.repeat(np.arange(len(need)), need)
    within = np.arange(rows) - np.repeat(np.cumsum(need) - need, need)
    own = have[of_place] > 0
    take = np.empty(rows, np.int64)
    take[own] = order[start[:-1][of_place[own]] + within[own] % have[of_place[own]]]
    used = np.zeros(len(segment), bool)
    used[take[own]] = True
    left = np.flatnonzero(~used)
    others = np.flatnonzero(~own)
    if len(others):
        spare = left if len(left) else np.arange(len(segment))
        take[others] = spare[np.arange(len(others)) % len(spare)]
    # A row keeps its place; rows beyond those asked for, and what is taken again, fill the places left.
    at = np.full(rows, -1, np.int64)
    first = np.unique(take, return_index=True)[1]
    first = first[take[first] < rows]
    at[first] = take[first]
    free = np.ones(rows, bool)
    free[take[first]] = False
    at[at < 0] = np.flatnonzero(free)
    return take, at


def _chunks(wanted: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(first user, first row) of each chunk: segments, large ones in parts of about CHUNK_ROWS rows."""
    rows = np.concatenate([[0], np.cumsum(wanted)]).astype(np.int64)
    if rows[-1] >= 1 << 32:
        raise UsageError("users are dealt to fewer than 2^32 rows at once")
    cuts = [0]
    for end in ends.tolist():
        while cuts[-1] < end:
            part = int(np.searchsorted(rows, rows[cuts[-1]] + CHUNK_ROWS))
            cuts.append(end if rows[end] - rows[cuts[-1]] < 2 * CHUNK_ROWS else min(part, end))
    users = np.array(cuts, np.int64)
    return users, rows[users]

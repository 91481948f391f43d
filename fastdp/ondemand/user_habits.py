"""Partial rows of users: rows of one user have the same constants, and repeat values as users do.

What the rows of a user share comes from the run's statement. It names columns that are constant for
a user, and for repeated columns how often two rows of a user agree. A user's first row is the one
of which most is known; it decides the constants of the others. Row r of a user takes its value of a
repeated column from an earlier row with probability r / (r + alpha) (Polya's urn). Everything else
comes from the model given that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field

from ..schema import Schema
from ..users.rates import urn
from .known_rows import Codes, Known, Law, uniform_of


class Habits(Struct, frozen=True, eq=False):
    """`constant` columns have one value for a user; `alpha`: the urn of each repeated column."""

    constant: tuple[str, ...] = ()
    alpha: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Schema, privacy: Mapping[str, Any]) -> Habits:
        """The habits that a run's statement and its schema state."""
        stated = (privacy.get("mechanism") or {}).get("users") or {}
        declared = [a for a, role in schema.of_users().items() if role == "constant"]
        constant = dict.fromkeys([*declared, *stated.get("constant", ())])
        agreement = stated.get("agreement", {})
        chance = stated.get("by_chance", {})
        alpha = {}
        for a in stated.get("repeated", ()):
            if a in agreement and a in chance and agreement[a] > chance[a]:
                alpha[a] = float(urn(np.array(agreement[a]), np.array(chance[a])))
        return cls(tuple(a for a in constant if a in schema.modelled), alpha)


def draw_rows_of_users(
    law: Law,
    known: Known,
    user: np.ndarray,
    habits: Habits,
    seed: int,
    threads: int | None = None,
) -> tuple[Codes, np.ndarray]:
    """`RowLaw.draw` for rows of users: row i is of user[i], numbered from 0.

    First every user's first row is drawn, which decides its constants. Then rows 1, then 2 and 3, then
    4 to 7 of all users, and so on: each time as many as a user has already."""
    rows = known.rows
    codes = {a: np.full(rows, -1, np.int32) for a in law.columns} | {
        a: c.copy() for a, c in known.codes.items()
    }
    given = np.stack([c >= 0 for c in known.codes.values()] or [np.zeros(rows, bool)]).sum(axis=0)
    order = np.lexsort((np.arange(rows), -given, user))
    starts = np.searchsorted(user[order], np.arange(int(user.max(initial=-1)) + 1))
    rank = np.empty(rows, np.int64)
    rank[order] = np.arange(rows) - starts[user[order]]
    first = np.empty(rows, np.int64)
    first[order] = order[starts[user[order]]]
    for a in habits.constant:
        _fill_from_own_rows(codes[a], user)
    out = {a: np.zeros(rows, np.int32) for a in law.columns}
    logs = np.zeros(rows)
    group: np.ndarray | None = None
    places = _Places(order, starts, rank, user)
    low = 0
    while low <= rank.max(initial=-1):
        high = max(1, 2 * low)  # rows `low` to `high` - 1 of a user may repeat those before `low`
        here = np.flatnonzero((rank >= low) & (rank < high))
        own = Known(rows, codes, known.likelihood, known.numbers, group).of_rows(here)
        if low:
            drawn, logs[here] = _draw_later_rows(
                law=law,
                own=own,
                here=here,
                places=places,
                low=low,
                out=out,
                habits=habits,
                seed=seed,
                threads=threads,
            )
        else:
            own.group = law.group(own, seed, "users", threads)
            drawn, logs[here] = law.draw(own, seed, "users", threads)
            if own.group is not None:
                group = np.zeros(rows, np.int64)
                group[here] = own.group
                group = group[first]
        for a, column in drawn.items():
            out[a][here] = column
        if low == 0:
            for a in habits.constant:
                codes[a] = np.where(codes[a] < 0, out[a][first], codes[a]).astype(np.int32)
        low = high
    return out, logs


class _Places(Struct, frozen=True, eq=False):
    """Where the rows of users are: row r of user u is order[starts[u] + r]. `rank`: r of each row;
    `user`: u of each row."""

    order: np.ndarray
    starts: np.ndarray
    rank: np.ndarray
    user: np.ndarray


def _fill_from_own_rows(codes: np.ndarray, user: np.ndarray) -> None:
    """Give a user's rows without a code that of the user's first row that has one."""
    with_code = np.flatnonzero(codes >= 0)[::-1]  # the first row is written last
    of_user = np.full(int(user.max(initial=-1)) + 1, -1, np.int32)
    of_user[user[with_code]] = codes[with_code]
    codes[:] = np.where(codes < 0, of_user[user], codes)


def _draw_later_rows(
    law: Law,
    own: Known,
    here: np.ndarray,
    places: _Places,
    low: int,
    out: Codes,
    habits: Habits,
    seed: int,
    threads: int | None,
) -> tuple[Codes, np.ndarray]:
    """Draw the rows `here` of users of whom `out` has `low` rows already. A repeated column copies the
    value of one of these where the urn says so. `own`: what is known of the rows `here`."""
    with_copies = Known(own.rows, dict(own.codes), own.likelihood, own.numbers, own.group)
    rank = places.rank[here]
    start = places.starts[places.user[here]]
    for a, alpha in habits.alpha.items():
        if a not in own.codes:
            continue
        again = uniform_of(seed, f"urn {a}", own) * (rank + alpha) < rank
        which = (uniform_of(seed, f"which {a}", own) * low).astype(np.int64)
        earlier = places.order[start + np.minimum(which, low - 1)]
        take = again & (own.codes[a] < 0)
        with_copies.codes[a] = np.where(take, out[a][earlier], own.codes[a]).astype(np.int32)
    drawn, logs = law.draw(with_copies, seed, "users", threads, soften=False)
    lost = np.flatnonzero(~np.isfinite(logs))
    if len(lost):  # what was copied contradicts what is known: draw these rows without copies
        again, logs[lost] = law.draw(own.of_rows(lost), seed, "users again", threads)
        for a, column in drawn.items():
            column[lost] = again[a]
    return drawn, logs

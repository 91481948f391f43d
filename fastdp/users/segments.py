"""Who may get which of the synthetic rows: users of drawn sizes and constants, and the rows that have these.

A segment is users with the same constants; a few leftover rows at its end change their constants.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ..errors import UsageError
from .people import Codes, Groups, People

CHUNK_ROWS = 1 << 14
"""Rows that are dealt together. Chunks are independent of each other: threads share them, and
memory is 4 bytes for each of their rows in each list of csrc/deal.c, of a thread at a time."""
MOST_ROOM = 4
"""Keys are numbered without sorting where they are at most so many times as large as their number."""


class Segments(Struct, frozen=True, eq=False):
    """Which users may get which rows: those of their segment. `wanted`: rows of each user. `take`: the
    rows, chunk after chunk, whose first users and places in `take` are `user_start` and `row_start`.
    `of_row`, `of_user`: segments of rows and users; `first`: a row of each segment."""

    wanted: np.ndarray
    take: np.ndarray
    user_start: np.ndarray
    row_start: np.ndarray
    of_row: np.ndarray
    of_user: np.ndarray
    first: np.ndarray

    def part(self, rows: int) -> Segments:
        """Whole chunks with about so many rows, of users of all sizes alike."""
        of_chunk = np.diff(self.row_start)
        users = np.diff(self.user_start)
        order = np.argsort(of_chunk / np.maximum(users, 1), kind="stable")
        upto = np.cumsum(of_chunk[order])
        count = max(1, round(rows / max(1.0, float(of_chunk.mean()))))
        turns = np.arange(0.5, count) / count
        chosen = np.unique(order[np.searchsorted(upto, turns * upto[-1], "right")])
        return Segments(
            _pieces(self.wanted, self.user_start, chosen),
            _pieces(self.take, self.row_start, chosen),
            np.append(0, np.cumsum(users[chosen])),
            np.append(0, np.cumsum(of_chunk[chosen])),
            self.of_row,
            self.of_user,
            self.first,
        )


def _pieces(of: np.ndarray, start: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.concatenate([of[start[i] : start[i + 1]] for i in chosen])


def segments_of(
    people: People, constant: tuple[str, ...], groups: Groups, codes: Codes, seed: int
) -> Segments:
    """Users for so many rows, and which of the rows each of them may get."""
    column, edges = groups
    names = (*constant, *([column] if column else ()))
    generator = np.random.Generator(np.random.Philox(key=[seed, 1]))
    wanted = people.draw(len(next(iter(codes.values()))), generator)
    of_size = np.searchsorted(edges, wanted, "right") - 1
    fixed = people.constants(wanted, generator) | {column: of_size}
    of_row, of_user, first = _of_rows_and_users(names, codes, fixed, len(wanted))
    there = codes[column][first] if column else np.zeros(len(first), np.int64)
    of_user = _with_rows(np.bincount(of_row), wanted, of_user, (there, of_size), generator)
    # small users first, so that large ones leave enough of each value to them
    order = _sorted(of_user, wanted)
    wanted = wanted[order]
    of_user = of_user[order]
    take = _chosen(of_row, np.bincount(of_user, wanted, len(first)).astype(np.int64))
    ends = np.cumsum(np.bincount(of_user, minlength=len(first)))
    return Segments(wanted, take, *_chunks(wanted, ends), of_row, of_user, first)


def _of_rows_and_users(names, codes: Codes, fixed: Codes, users: int):
    """(segment of each row, segment of each user, -1 where no row has its constants, a row of each
    segment). A segment: rows with the same codes in the columns `names`."""
    of_row, of_user = (np.zeros(n, np.int64) for n in (len(next(iter(codes.values()))), users))
    first = np.zeros(min(1, len(of_row)), np.int64)
    for name in names:
        size = int(max(x[name].max(initial=0) for x in (codes, fixed))) + 1
        key = np.where(of_user < 0, -1, of_user * size + fixed[name])
        there, first, of_row = numbered(of_row * size + codes[name])
        at = np.minimum(np.searchsorted(there, key), len(there) - 1)
        of_user = np.where(there[at] == key, at, -1)
    return of_row, of_user, first


def numbered(key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the different keys in order, where each is first, the number of each key among them). Without
    sorting where keys are no larger than there are many."""
    most = int(key.max(initial=-1)) + 1
    if most > MOST_ROOM * max(len(key), 1):
        return np.unique(key, return_index=True, return_inverse=True)
    first = np.full(most, -1, np.int64)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1)
    there = np.flatnonzero(first >= 0)
    number = np.empty(most, np.int64)
    number[there] = np.arange(len(there))
    return there, first[there], number[key]


def _with_rows(rows, wanted, segment, group, generator: np.random.Generator) -> np.ndarray:
    """The segment of each user. Users for whom their segment has no rows left get one of their own
    group that has some; `group`: that of each segment, that of each user."""
    left = rows.astype(float)
    found = segment.copy()
    order = _sorted(
        segment, wanted
    )  # small users first: few large ones would take the rows of many
    before = np.cumsum(wanted[order]) - wanted[order]
    count = np.bincount(segment + 1)
    before -= before[(np.cumsum(count) - count)[segment[order] + 1]]
    fits = before + generator.random(len(order)) * wanted[order] < left[segment[order]]
    taken = order[fits & (segment[order] >= 0)]
    left -= np.bincount(segment[taken], wanted[taken], len(left))
    waiting = np.delete(np.arange(len(wanted)), taken)
    for kind in np.unique(group[1][waiting]):
        here = np.flatnonzero(group[0] == kind)
        mine = waiting[group[1][waiting] == kind]
        # what a segment lacks is taken from the next ones, which have most of its constants
        ends = np.maximum.accumulate(np.cumsum(left[here]))
        at = np.searchsorted(ends, np.cumsum(wanted[mine]) - wanted[mine] / 2)
        found[mine] = np.append(here, np.argmax(left))[np.minimum(at, len(here))]
    return found


def _chosen(segment: np.ndarray, need: np.ndarray) -> np.ndarray:
    """The rows, segment after segment as many as its users need: its own, then those that others
    leave."""
    order = np.argsort(_narrow(segment, len(need)), kind="stable")
    count = np.bincount(segment, minlength=len(need))
    rows, places = np.cumsum(count), np.cumsum(need)
    take = np.empty(len(order), np.int64)
    lacking, others = [], [order[:0]]
    for first, last, at, end in np.stack([rows - count, rows, places - need, places], 1).tolist():
        own = min(last - first, end - at)
        take[at : at + own] = order[first : first + own]
        lacking.append(take[at + own : end])
        others.append(order[first + own : last])
    left, used = np.concatenate(others), 0
    for places_left in lacking:
        places_left[:] = left[used : used + len(places_left)]
        used += len(places_left)
    return take


def _sorted(major: np.ndarray, minor: np.ndarray) -> np.ndarray:
    """The order of the numbers `major`, which are -1 or more, of equal ones by `minor`; of those, as they
    are."""
    order = np.argsort(_narrow(minor, int(minor.max(initial=0)) + 1), kind="stable")
    upper = major[order] + 1
    return order[np.argsort(_narrow(upper, int(upper.max(initial=0)) + 1), kind="stable")]


def _narrow(numbers: np.ndarray, size: int) -> np.ndarray:
    """The same numbers below `size`, in 16 bits where they fit, which are sorted in one pass."""
    return numbers.astype(np.uint16) if size <= 1 << 16 else numbers


def _chunks(wanted: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(first user, first row) of each chunk: segments, large ones in parts of about CHUNK_ROWS
    rows."""
    rows = np.concatenate([[0], np.cumsum(wanted)]).astype(np.int64)
    if rows[-1] >= 1 << 32:
        raise UsageError("users can be assigned to fewer than 2^32 rows at once")
    cuts = [0]
    for end in ends.tolist():
        while cuts[-1] < end:
            part = int(np.searchsorted(rows, rows[cuts[-1]] + CHUNK_ROWS))
            cuts.append(end if rows[end] - rows[cuts[-1]] < 2 * CHUNK_ROWS else min(part, end))
    users = np.array(cuts, np.int64)
    return users, rows[users]

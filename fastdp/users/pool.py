"""A pool: synthetic users from whom some are chosen, and their rows."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from .people import Codes


class Pool(Struct, frozen=True, eq=False):
    """Users, sorted by their numbers of rows.

    codes : of their rows, one user after the other
    start : the rows of user u are start[u] to start[u + 1] - 1
    place : where each of these rows is in the order in which rows are given back
    number : where each user is in the order of users' numbers
    part : how often each user counts; a user and its siblings count as one
    """

    codes: Codes
    start: np.ndarray
    place: np.ndarray
    number: np.ndarray
    part: np.ndarray

    @classmethod
    def of(cls, codes: Codes, owner: np.ndarray) -> Pool:
        """The pool of rows with these owners, each of whom counts as 1. A user's rows keep their order."""
        count = np.bincount(owner)
        by_rows = np.argsort(count, kind="stable")
        rank = np.empty(len(count), np.int64)
        rank[by_rows] = np.arange(len(count))
        there = count[by_rows]
        start = np.append(0, np.cumsum(there[there > 0]))
        firsts = np.flatnonzero(np.diff(owner.astype(np.int64), prepend=-1))
        if len(firsts) == len(start) - 1:  # each user's rows are together
            before = np.empty(len(count), np.int64)
            before[owner[firsts]] = firsts
            users = by_rows[there > 0]
            moved = before[users] - start[:-1]
            place = np.arange(len(owner)) + np.repeat(moved, count[users])
        else:
            place = np.argsort(rank[owner], kind="stable")
        sorted_codes = {name: column[place] for name, column in codes.items()}
        number = by_rows[there > 0]
        return cls(sorted_codes, start, place, number, np.ones(len(number)))

    @property
    def users(self) -> int:
        return len(self.start) - 1

    @property
    def rows(self) -> int:
        return int(self.start[-1])

    @property
    def size(self) -> np.ndarray:
        """The number of rows of each user."""
        return np.diff(self.start)

    @property
    def counted_rows(self) -> float:
        """The number of rows, of users who count as their part."""
        return float((self.size * self.part).sum())

    def to_rows(self, of_users: np.ndarray) -> np.ndarray:
        """A value of each user, repeated for each of its rows."""
        return np.repeat(of_users, self.size)

    def first_rows(self, count: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(codes, owner) of the first count[u] rows of each user u. Users who have none get no number."""
        rank = np.arange(self.rows) - self.to_rows(self.start[:-1])
        kept = np.flatnonzero(rank < self.to_rows(count))
        at = np.full(self.rows, -1, np.int64)
        at[self.place[kept]] = kept
        rows = at[at >= 0]
        there = np.zeros(int(self.number.max(initial=-1)) + 1, bool)
        there[self.number] = count > 0
        number = (np.cumsum(there, dtype=np.uint32) - np.uint32(1))[self.number]
        return {name: column[rows] for name, column in self.codes.items()}, self.to_rows(number)[
            rows
        ]

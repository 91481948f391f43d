"""A pool: synthetic users from whom some are chosen, and their rows."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from .people import Codes


class Pool(Struct, frozen=True, eq=False):
    """Users, sorted by their numbers of rows.

    codes : of their rows, one user after the other
    start : the rows of user u are start[u] to start[u + 1] - 1
    place : where each of these rows was in the arrays that the pool was made of
    part : how often each user counts; a user and its siblings count as one
    """

    codes: Codes
    start: np.ndarray
    place: np.ndarray
    part: np.ndarray

    @classmethod
    def of(cls, codes: Codes, owner: np.ndarray, part: np.ndarray | None = None) -> Pool:
        """The pool of rows with these owners, each of whom counts as `part`, or 1. A user's rows keep
        their order."""
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
            place = np.arange(len(owner)) + np.repeat(before[users] - start[:-1], count[users])
        else:
            place = np.argsort(rank[owner], kind="stable")
        sorted_codes = {name: column[place] for name, column in codes.items()}
        part = np.ones(len(count)) if part is None else part
        return cls(sorted_codes, start, place, part[by_rows[there > 0]])

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

    def first_rows(self, count: np.ndarray) -> np.ndarray:
        """Where the first count[u] rows of each user u were before, in that order."""
        rank = np.arange(self.rows) - self.to_rows(self.start[:-1])
        return np.sort(self.place[rank < self.to_rows(count)])

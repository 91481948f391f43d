"""Exact values of users: what an evaluation gives, and what encodings take."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct


class UserValues(Struct, frozen=True, eq=False):
    """Entries of users, by user: those of user u are offsets[u] to offsets[u + 1].

    group: int32 public group; value: int64, at most LARGEST units in size; weight: int64, the rows
    behind the value (of numbers of users: 1). A user has at most one entry for each group, and none
    where nothing of it counts.
    """

    offsets: np.ndarray
    group: np.ndarray
    value: np.ndarray
    weight: np.ndarray

    @property
    def users(self) -> int:
        return len(self.offsets) - 1


class Block(Struct, frozen=True, eq=False):
    """Rows of complete users: `user` is the number of each row's user, 0 to users - 1 (uint32);
    codes by code column; amounts by field, with MISSING for nulls (`schema.amounts`)."""

    users: int
    user: np.ndarray
    codes: Mapping[str, np.ndarray]
    amounts: Mapping[str, np.ndarray]

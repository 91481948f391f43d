"""What encodings of users' values share: each user becomes a vector of whole numbers, and the sum
over users is what an engine returns."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from .user_values import UserValues


class Encoding(Struct, frozen=True):
    """Base of all encodings. Fields are public and plain (numbers, texts, tuples), so that an
    encoding travels to where the rows are."""

    @property
    def size(self) -> int:
        """The length of the vector."""
        raise NotImplementedError

    def add_up(self, values: UserValues) -> np.ndarray:
        """int64[size]: the sum of all users' vectors. It is a sum over users: adding the results of
        two sets of users gives the result of both."""
        raise NotImplementedError


class ClampedSums(Encoding, frozen=True, tag=True):
    """The sum of values by group, each entry between low and high."""

    groups: int
    low: int
    high: int

    @property
    def size(self) -> int:
        return self.groups

    def add_up(self, values: UserValues) -> np.ndarray:
        out = np.zeros(self.groups, np.int64)
        np.add.at(out, values.group, np.clip(values.value, self.low, self.high))
        return out

"""The base of encodings with a proved norm: users are encoded block by block."""

import hashlib
import json
from typing import Any

import msgspec
import numpy as np

from .encoding import Encoding
from .encoding_grid import UNIT
from .user_values import UserValues

BLOCK = 1 << 15
"""Users that are encoded at once."""


class UserEncoding(Encoding, frozen=True, kw_only=True, tag=True):
    """Base of the encodings. Adding or removing one user changes `add_up` by a vector of L2 norm at
    most `sqrt(sensitivity2)` grid units; `unit` of them are 1 of an answer."""

    @property
    def unit(self) -> float:
        return float(UNIT)

    @property
    def sensitivity2(self) -> int:
        return UNIT * UNIT

    @property
    def norm2(self) -> float:
        """The squared sensitivity of the answers. Exact: its factors are powers of two and a whole
        number below 2^53."""
        return self.sensitivity2 / self.unit**2

    def add_up(self, values: UserValues) -> np.ndarray:
        """int64[size]: the sum of the users' vectors, block after block, so that work stays in the
        cache."""
        out = np.zeros(self.size, np.int64)
        users = len(values.offsets) - 1
        for start in range(0, users, BLOCK):
            out += self.block(_some_users(values, start, min(users, start + BLOCK)))
        return out

    def block(self, values: UserValues) -> np.ndarray:
        """int64[size]: the sum of the vectors of a few users."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """All public facts, as plain values."""
        return {"encoding": type(self).__name__} | msgspec.to_builtins(self)

    def digest(self) -> str:
        """SHA-256 of the public facts, the same in every process."""
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()


def _some_users(values: UserValues, start: int, stop: int) -> UserValues:
    """The values of users start to stop - 1."""
    offsets = values.offsets[start : stop + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    return UserValues(
        offsets - offsets[0], values.group[entries], values.value[entries], values.weight[entries]
    )

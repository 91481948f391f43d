"""Two rows of a user: tables of a value in one row and a value in another, each user counting as 1.

They are the pool's own, weighed as users are. Users are exchanged until the tables that the choice holds
are right; what no table holds is left to chance, as in a sample of so many users, and suffers from whom
the exchanges prefer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

import numpy as np
from msgspec import Struct

from .people import Codes
from .row_tables import Columns

VALUES = 16
"""Values of a column that are told apart: the most frequent ones, and all others as one."""


MOST_ROWS = 3
"""Rows of users who count, at most. A user of n rows is told by n - 1 of its n (n - 1) / 2 pairs of rows:
all of two, and 2 in 3 of three; of nine no more than 8 in 36, and an exchange would mend for the greater part
which pairs were looked at."""


class TwoRows(Struct, frozen=True, eq=False):
    """`tables` of the columns `codes`, which have so many codes (`sizes`). All rows of a user but one are
    in a cell of their own value and of that of another row. The one, and rows of users of more than
    MOST_ROWS rows, are in a cell that tells nothing."""

    tables: Sequence[Columns]
    codes: Codes
    sizes: Mapping[str, int]

    @classmethod
    def of(
        cls, codes: Codes, names: Sequence[str], start: np.ndarray, most: int, seed: int
    ) -> TwoRows:
        """At most so many tables of the columns `names` of users' rows: of each column with itself, then of
        different columns. The rows of user u are start[u] to start[u + 1] - 1."""
        pairs = sorted(combinations_with_replacement(names, 2), key=lambda x: x[0] != x[1])[:most]
        other, left_out = _partners(start, seed)
        found: dict[str, np.ndarray] = {}
        sizes: dict[str, int] = {}
        for name in dict.fromkeys(name for pair in pairs for name in pair):
            of_code = _common(codes[name])
            values = of_code[codes[name]]
            size = int(of_code.max(initial=0)) + 1
            found[_one(name)] = np.where(left_out, 0, values)
            found[_other(name)] = np.where(left_out, size, values[other])
            sizes |= {_one(name): size, _other(name): size + 1}
        return cls([(_one(a), _other(b)) for a, b in pairs], found, sizes)


def _one(name: str) -> str:
    return f"{name} of one row"


def _other(name: str) -> str:
    return f"{name} of another row"


def _common(column: np.ndarray) -> np.ndarray:
    """By code, a number for each of the most frequent codes and one for all others."""
    count = np.bincount(column)
    out = np.full(len(count), VALUES - 1)
    often = np.argsort(-count, kind="stable")[: VALUES - 1]
    out[often] = np.arange(len(often))
    return np.minimum(out, len(count) - 1)


def _partners(start: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(another row of the same user for each row; whether a row tells nothing). Rows of a user are a
    ring: each has the one that is so many further, a number drawn for the user."""
    generator = np.random.Generator(np.random.Philox(key=[seed, 5]))
    size = np.diff(start)
    far = 1 + (generator.random(len(size)) * (size - 1)).astype(np.int64)
    without = start[:-1] + (generator.random(len(size)) * size).astype(np.int64)
    first = np.repeat(start[:-1], size)
    at = np.arange(int(start[-1]))
    other = first + (at - first + np.repeat(far, size)) % np.repeat(size, size)
    left_out = np.zeros(len(at), bool)
    left_out[without] = True
    left_out |= np.repeat(size > MOST_ROWS, size)
    return other, left_out

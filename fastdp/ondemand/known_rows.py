"""What is known of rows, and what a distribution of rows must do with it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from msgspec import Struct, field

from .._core import codes as core
from ..codec.draws import stream_key
from ..schema import Schema

Codes = dict[str, np.ndarray]


class Known(Struct, eq=False):
    """What is known of rows, in the schema's codes.

    codes : by column, int32 for each row, -1 where nothing is known
    likelihood : by column, (ids, matrix [kinds, codes]): row i has the likelihood matrix[ids[i]], or
        none where ids[i] is -1
    numbers : the number of each row, on which its random numbers depend; None: 0, 1, 2 ...
    group : the group of each row's user, if known
    """

    rows: int
    codes: dict[str, np.ndarray] = field(default_factory=dict)
    likelihood: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    numbers: np.ndarray | None = None
    group: np.ndarray | None = None

    def of_rows(self, rows: np.ndarray) -> Known:
        """What is known of these rows alone; they keep their numbers."""
        codes = {a: c[rows] for a, c in self.codes.items()}
        likelihood = {a: (ids[rows], matrix) for a, (ids, matrix) in self.likelihood.items()}
        numbers = rows.astype(np.int64) if self.numbers is None else self.numbers[rows]
        group = None if self.group is None else self.group[rows]
        return Known(len(rows), codes, likelihood, numbers, group)

    def multiply(self, column: str, where: np.ndarray, weights: np.ndarray) -> None:
        """Multiply the likelihood of a column by weights [codes], in the rows of the mask `where`."""
        self.multiply_rows(column, np.where(where, 0, -1).astype(np.int32), weights[None])

    def multiply_rows(self, column: str, ids: np.ndarray, matrix: np.ndarray) -> None:
        """Multiply the likelihood of a column, in row i by row ids[i] of the matrix (-1: by nothing)."""
        if column not in self.likelihood:
            self.likelihood[column] = (ids, matrix)
            return
        before, old = self.likelihood[column]
        joint = (before.astype(np.int64) + 1) * (len(matrix) + 1) + ids + 1
        kinds, of_row = np.unique(joint, return_inverse=True)
        first, second = np.divmod(kinds, len(matrix) + 1)
        ones = np.ones((1, matrix.shape[1]))
        made = np.concatenate([ones, old])[first] * np.concatenate([ones, matrix])[second]
        ids = np.where(kinds[of_row] == 0, -1, of_row.reshape(-1)).astype(np.int32)
        self.likelihood[column] = (ids, made)


class Law(Protocol):
    """Rows that can be drawn given evidence: of a model (`RowLaw`), or stored (`StoredLaw`)."""

    schema: Schema
    columns: tuple[str, ...]

    def draw(
        self,
        known: Known,
        seed: int,
        stream: str = "",
        threads: int | None = None,
        soften: bool = True,
    ) -> tuple[Codes, np.ndarray]:
        """(codes of all columns, log probability of each row's evidence). Row i depends on what is
        known of it, on (seed, stream) and on its number alone. `soften`: rows whose evidence has
        probability 0 are drawn all the same, if no constraint excludes them."""
        ...

    def group(
        self, known: Known, seed: int, stream: str = "", threads: int | None = None
    ) -> np.ndarray | None:
        """A group of users for each row, drawn by its evidence; None: there are no groups."""
        ...


def uniform_of(seed: int, purpose: str, known: Known) -> np.ndarray:
    """A number in [0, 1) for each row, which depends on (seed, purpose) and its number alone."""
    numbers = known.numbers
    out = np.empty(known.rows if numbers is None else int(numbers.max(initial=-1)) + 1)
    core.uniform(stream_key(seed, "", f"rows on demand {purpose}"), 0, out)
    return out if numbers is None else out[numbers]

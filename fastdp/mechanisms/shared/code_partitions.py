"""What a marginal is asked over: its columns, and a partition of their codes.

A marginal over all codes, over groups of neighbours, over three groups, over two halves or over
frequent values differs in nothing but the partition. Each is a partition of the rows, so all have
the same sensitivity (docs/explain/distances.md), and one formula says what each is worth
(`screening.Candidate.gain`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ...domain import Clique, Columns
from ...queries import Binned

LEAST_GROUPS = 4
MOST_GROUPS = 64
"""Bounds of the groups of neighbours that codes of a column share, whatever the noise is: of a pair's
columns, of rare numbers and of columns that follow hidden factors."""


class Partition(Struct, frozen=True, eq=False):
    """Codes that share a group. `maps`: code -> group, by column; a column without a map keeps its
    codes. `name`: for people."""

    name: str
    maps: Columns

    def coarsens(self, clique: Clique) -> bool:
        """Whether any column of the clique has groups."""
        return any(a in self.maps for a in clique)

    def keeps_together(self, name: str, groups: np.ndarray) -> bool:
        """Whether codes of a column that share one of these groups share one here as well."""
        own = self.maps.get(name)
        return own is not None and np.array_equal(own, own[first_codes(groups)][groups])

    def query(self, clique: Clique, shape: Sequence[int]) -> Binned | None:
        """The query that asks for this marginal over groups; None where every code is its own."""
        return Binned(shape, [self.maps.get(a) for a in clique]) if self.coarsens(clique) else None

    def sums(self, clique: Clique, table: np.ndarray) -> np.ndarray:
        """A marginal over all codes as one over groups."""
        query = self.query(clique, table.shape)
        return table if query is None else query.product(table.reshape(-1)).reshape(query.bins)


CODES = Partition("codes", {})
"""Every code is a group of its own."""

Key = tuple[Clique, Partition]
"""What is measured."""


def first_codes(groups: np.ndarray) -> np.ndarray:
    """The first code of each group."""
    return np.unique(groups, return_index=True)[1]


def composed(
    codes: Mapping[str, np.ndarray], maps: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Code of the schema -> group where a column is grouped, else -> merged code: the session's
    `recode`."""
    return {**codes, **{a: m[codes[a]] if a in codes else m for a, m in maps.items()}}

"""What finding a schema's private columns costs, from public facts alone: shares of a run's budget, the law
that values are charged by, who may ask. Law and proof: docs/domains.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from ..privacy import clip as clip_rules
from ..privacy.accountant import Threshold
from ..schema import Schema, dtypes

if TYPE_CHECKING:
    from ..schema.pending import Pending

PER_COLUMN, MOST_SHARE = 0.03, 0.2
"""Of mu^2: what finding one private column may cost, and all of them."""
KEYS_SHARE = 0.1
"""Of delta: what pays for the thresholds of all columns whose values are found."""
ROUNDS, EXTRA = (0.2, 0.4, 0.4), 0.5
"""How a column's share is divided over its partitions; and what one more costs, which is counted only where
it is needed: where a cell of many values still holds more than CROWDED of the rows."""
CROWDED = 1 / 8
FINER = 4
"""The clip of the partitions is chosen for so many cells for each bin."""
ROWS = 0.5
"""What the histogram of rows per user costs, as a part of a column's share: it gives the clip of the
partitions, where none is given, and a bound on the rows of a user, where the schema has none."""
PLACES = 0.2
"""What counting the digits after the point of floats costs, beside the first partition."""
CELL_NOISE, MOST_CELLS = 4.0, 8
"""A refined cell is to hold this many standard errors of rows; at most so many cells for each bin."""
KEYS_PER_USER = 4
"""Values in which one user counts, where users may have several rows and the column does not say."""


@dataclass(frozen=True)
class DomainCosts:
    """What finding a schema's private columns takes of one part of a run: a share of mu^2, and a part of
    delta for thresholds. Public facts alone."""

    share: float = 0.0
    keys_delta: float = 0.0

    @classmethod
    def of(cls, schema: Schema, delta: float) -> DomainCosts:
        if not schema.pending:
            return cls()
        keys = any(c.keyed for c in schema.pending.values())
        return cls(min(MOST_SHARE, PER_COLUMN * columns_paid(schema)), KEYS_SHARE * delta if keys else 0.0)


def check_askable(schema: Schema, *, pure: bool, unit: str) -> None:
    """UsageError where a run of this kind cannot find domains."""
    if not schema.pending:
        return
    if pure:
        raise UsageError(
            "a private domain takes Gaussian noise and a delta above 0; this mechanism or delta is for pure "
            "releases. Write the domain down in the schema"
        )
    if unit == "event" and schema.user is not None:
        raise UsageError(
            "a private domain is found per user or per row; with events of users, write it down in the schema"
        )


def columns_paid(schema: Schema) -> float:
    """Private columns, with the further partition that those with bounds may need, the digits of floats, and
    rows per user."""
    columns = sum(1 if c.keyed else 1 + EXTRA + PLACES * counts_places(c) for c in schema.pending.values())
    return columns + (ROWS if schema.user is not None else 0.0)


def counts_places(column: Pending) -> bool:
    """Whether the digits after the point are to be found: of floats that nobody said it of."""
    if column.keyed or column.whole or "digits" in column.stated:
        return False
    return dtypes.family(column.dtype) == "float"


def column_mu(schema: Schema, mu: float, costs: DomainCosts) -> float:
    """What one private column spends of a part's mu, but for a further partition; all of them no more than
    the share."""
    return mu * math.sqrt(costs.share / columns_paid(schema)) * (1 - 2.0**-30)


def keys_event(schema: Schema, mu: float, costs: DomainCosts) -> Threshold:
    """What finding the values of one column is charged."""
    keyed = sum(c.keyed for c in schema.pending.values())
    return Threshold(column_mu(schema, mu, costs), costs.keys_delta / keyed * (1 - 2.0**-30))


def keys_cap(schema: Schema, column: Pending) -> int:
    """Values in which one user counts."""
    if schema.user is None or schema.max_rows_per_user == 1:
        return 1
    return column.keys_per_user or KEYS_PER_USER


def clip_of(clip: int | str | None, schema: Schema) -> int | None:
    """Rows of one user that count fully in a partition: the run's clip where it is a number; None: to be
    chosen from the histogram of rows per user. (A clip that the run chooses itself is chosen later, by the
    sizes that the domain gives.)"""
    if schema.user is None or schema.max_rows_per_user == 1:
        return 1
    return clip if isinstance(clip, int) else None


def rows_bound(counts: Sequence[float], sigma: float, bound: int) -> int:
    """A bound on the rows of a user, by noisy counts of users over `size_edges(bound)`: the end of the
    largest bin from which on users stand out of the noise; at least 2."""
    edges = (*clip_rules.size_edges(bound), bound + 1)
    standing = np.flatnonzero(clip_rules.seen(counts, sigma))
    return min(bound, max(2, edges[int(standing[-1]) + 1] - 1)) if len(standing) else 2

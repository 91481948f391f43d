"""What finding a schema's private columns costs, from public facts alone: shares of a run's budget, the
charge for a column's values, and which runs may find domains. Law and proof: docs/domains.md."""

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
"""Shares of the run's mu^2: what finding one private column costs, and the most that all may cost."""
KEYS_SHARE = 0.1
"""Share of the run's delta that pays for the thresholds of all columns whose values are found."""
ROUNDS, EXTRA = (0.2, 0.4, 0.4), 0.5
"""ROUNDS: how a column's share of mu^2 is divided over its three partitions. EXTRA: what a fourth partition
costs, as a part of such a share; it is counted only where after the third a cell of more than one value still
holds more than a share CROWDED of the rows."""
CROWDED = 1 / 8
FINER = 4
"""The clip of the partitions is chosen as if a partition had this many cells per bin."""
ROWS = 0.5
"""What the histogram of rows per user costs, as a part of a column's share of mu^2. From it come the clip of
the partitions, where the run sets none, and the bound on rows per user, where the schema has none."""
PLACES = 0.2
"""What counting the digits after the point of a float column costs, as a part of a column's share of mu^2;
it is one step together with the first partition."""
CELL_NOISE, MOST_CELLS = 4.0, 8
"""The number of cells of a refined partition is chosen so that a cell holds on average CELL_NOISE standard
errors of rows, but at most MOST_CELLS cells per bin."""
KEYS_PER_USER = 4
"""In how many values one user counts, where users may have several rows and the column sets no number."""


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
    """The cost of all domain steps, in units of one column's share of mu^2: 1 per private column, EXTRA for a
    fourth partition and PLACES for the digits of floats where needed, and ROWS for rows per user."""
    columns = sum(1 if c.keyed else 1 + EXTRA + PLACES * counts_places(c) for c in schema.pending.values())
    return columns + (ROWS if schema.user is not None else 0.0)


def counts_places(column: Pending) -> bool:
    """Whether the digits after the point are to be found: for float columns whose entry does not state
    them."""
    if column.keyed or column.whole or "digits" in column.stated:
        return False
    return dtypes.family(column.dtype) == "float"


def column_mu(schema: Schema, mu: float, costs: DomainCosts) -> float:
    """The mu that one private column spends of a part's mu, without a fourth partition. Together the columns
    spend at most `costs.share` of the part's mu^2."""
    return mu * math.sqrt(costs.share / columns_paid(schema)) * (1 - 2.0**-30)


def keys_event(schema: Schema, mu: float, costs: DomainCosts) -> Threshold:
    """The charge for finding the values of one column."""
    keyed = sum(c.keyed for c in schema.pending.values())
    return Threshold(column_mu(schema, mu, costs), costs.keys_delta / keyed * (1 - 2.0**-30))


def keys_cap(schema: Schema, column: Pending) -> int:
    """The number of values of a column in which one user counts."""
    if schema.user is None or schema.max_rows_per_user == 1:
        return 1
    return column.keys_per_user or KEYS_PER_USER


def clip_of(clip: int | str | None, schema: Schema) -> int | None:
    """The clip of the partitions: the run's clip where that is a number, 1 where a user has one row; None:
    chosen from the histogram of rows per user. (A run with clip "private" chooses the clip of its own
    measurements later, when the domain's sizes are known.)"""
    if schema.user is None or schema.max_rows_per_user == 1:
        return 1
    return clip if isinstance(clip, int) else None


def rows_bound(counts: Sequence[float], sigma: float, bound: int) -> int:
    """A bound on the rows of a user, from noisy counts of users over `size_edges(bound)`: the upper end of
    the last bin that `privacy.clip.seen` says stands out of the noise; at least 2, at most `bound`."""
    edges = (*clip_rules.size_edges(bound), bound + 1)
    standing = np.flatnonzero(clip_rules.seen(counts, sigma))
    return min(bound, max(2, edges[int(standing[-1]) + 1] - 1)) if len(standing) else 2

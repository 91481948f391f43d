"""Siblings: more users of the kinds that a pool lacks.

A user whom the releases want more than once stands for a kind of which the pool has too few. It gets
siblings: users with as many rows, each of which is a row of somebody else in the pool that is the same in
what is known of users: constants, the period, and as many as possible of the columns whose values
users repeat or add up. So siblings have the same facts and other rows, and rows are whole rows of the
model. Post-processing of released numbers and of rows that were made by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from msgspec import Struct

from .people import Codes
from .pool import Pool

Columns = tuple[list[np.ndarray], list[np.ndarray]]
"""Codes that must be the same, and codes that should be, the first ones first."""
LEAST_LACKING = 0.01
"""Siblings are made where more than this part of all odds is above 1. Less is below the noise of any
table about users."""


class Likeness(Struct, frozen=True, eq=False):
    """What rows of siblings have in common: the codes of columns `fixed`, the period of the first
    column of `order` (a code times `periods` over its `size`). Then as much as possible of that
    column's code and of the columns `known`, the first ones first. `once`: a user has no two rows with
    the same code of that column (`once`)."""

    fixed: Sequence[str] = ()
    known: Sequence[str] = ()
    order: Sequence[str] = ()
    periods: int = 1
    size: int = 1
    once: bool = False

    def columns(self, codes: Codes) -> Columns:
        """Of rows with these codes."""
        must = [codes[name] for name in self.fixed if name in codes]
        lead = [name for name in self.order[:1] if name in codes and name not in self.fixed]
        must += [codes[name].astype(np.int64) * self.periods // self.size for name in lead]
        names = [n for n in (*lead, *self.known) if n in codes and n not in self.fixed]
        return must, [codes[name] for name in dict.fromkeys(names)]


def lacking(odds: np.ndarray) -> float:
    """The part of all odds that is above 1."""
    return float(np.maximum(odds - 1, 0.0).sum() / max(float(odds.sum()), 1e-300))


def with_siblings(
    pool: Pool, odds: np.ndarray, alike: Likeness, seed: int
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """(codes, owner, part of each owner): the pool's rows, and those of as many siblings of each user
    that odds of 1 are enough; at most as many as the pool has. A user and its siblings count as one
    (`Pool.part`). No sibling has the rows of its user. Users come in a random order."""
    generator = np.random.Generator(np.random.Philox(key=[seed, 5]))
    more = np.ceil(np.maximum(odds, 1.0) - 1e-9).astype(np.int64) - 1
    rows = int((more * pool.size).sum())
    if rows > pool.rows:
        more = (more * (pool.rows / rows)).astype(np.int64)
    parent = np.repeat(np.arange(pool.users), more)
    size = pool.size[parent]
    first = np.cumsum(size) - size
    own = np.repeat(pool.start[parent] - first, size) + np.arange(int(size.sum()))
    columns = alike.columns(pool.codes)
    wanted = [x[own] for x in columns[0]], [x[own] for x in columns[1]]
    rows_of = rows_like(pool.rows, columns, wanted, own, generator)
    new = np.add.reduceat(rows_of != own, first) > 0 if len(first) else np.empty(0, bool)
    rows_of = rows_of[np.repeat(new, size)]
    owner = np.repeat(pool.users + np.arange(int(new.sum())), size[new])
    rows_of = in_order(pool.codes, rows_of, owner, alike.order)
    parent = parent[new]
    part = pool.part / (1 + np.bincount(parent, minlength=pool.users))
    part = np.append(part, part[parent])
    users = generator.permutation(len(part))
    owners = users[np.append(pool.to_rows(np.arange(pool.users)), owner)]
    order = np.argsort(owners, kind="stable")
    rows_of = np.append(np.arange(pool.rows), rows_of)[order]
    codes = {name: column[rows_of] for name, column in pool.codes.items()}
    return codes, owners[order].astype(np.uint32), part[np.argsort(users)]


def rows_like(
    rows: int, columns: Columns, wanted: Columns, own: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """For each of the wanted combinations of codes, one of the `rows` that is like it, at random. Where
    there is none, or `own` alone, it is `own`."""
    both = [np.append(x, y) for x, y in zip(chain(*columns), chain(*wanted))]
    order = np.lexsort((np.zeros(rows + len(own), np.uint8), *reversed(both)))
    real = order < rows
    sorted_rows = order[real]
    before = np.append(0, np.cumsum(real))
    at = np.empty(len(order), np.int64)
    at[order] = np.arange(len(order))
    first = np.zeros(len(own), np.int64)
    count = np.zeros(len(own), np.int64)
    starts = np.arange(len(order)) == 0
    for depth in range(len(both) + 1):
        # what is alike in more columns lies inside what is alike in fewer
        if depth > 0:
            codes = both[depth - 1][order].astype(np.int64)
            starts |= np.append(True, np.diff(codes) != 0)
        if depth < len(columns[0]):
            continue
        ends = np.append(np.flatnonzero(starts), len(order))
        group = np.searchsorted(ends, at[rows:], "right") - 1
        low, high = before[ends[group]], before[ends[group + 1]]
        alone = (high - low == 1) & (sorted_rows[np.minimum(low, rows - 1)] == own)
        enough = (high > low) & ~alone
        first = np.where(enough, low, first)
        count = np.where(enough, high - low, count)
    step = (generator.random(len(own)) * count).astype(np.int64)
    found = sorted_rows[first + step]
    another = sorted_rows[first + (step + 1) % np.maximum(count, 1)]
    return np.where(count > 0, np.where(found == own, another, found), own)


def in_order(codes: Codes, rows: np.ndarray, owner: np.ndarray, order: Sequence[str]) -> np.ndarray:
    """The rows, those of each owner by the columns of the order."""
    names = [name for name in order if name in codes]
    return rows[np.lexsort((*(codes[name][rows] for name in reversed(names)), owner))]

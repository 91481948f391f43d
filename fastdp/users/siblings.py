"""Siblings: more users of the kinds that a pool lacks.

A user whom the releases want more than once stands for a kind of which the pool has too few. It gets
siblings: users with as many rows as it has. Each row of a sibling is a row of somebody else in the
pool. That row is the same in what is known of users: constants, the period, and as many as possible
of the columns whose values users repeat or add up. So siblings have the same facts and other rows,
and every row is a whole row of the model. Post-processing of released numbers and of rows that were
made by them.

For example, a user lives in Jena and has a trip in May and one in June. A sibling lives in Jena too.
Its trips are those of two other people of Jena, one in May and one in June.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from .people import Codes
from .pool import Pool

LEAST_LACKING = 0.01
"""Siblings are made where more than this part of all odds is above 1. Less is below the noise of any
table about users, and takes a sixth more time of a run (`python -m bench.users_without "a least lack of
users" --tables cohorts`)."""
ROUNDING = 1e-9
"""Odds above a whole number by less than this are that number: what sums of floats leave."""


class ComparedCodes(Struct, frozen=True, eq=False):
    """Of some rows, the codes that decide whether another row is like them. `must`: those that are the
    same. `should`: those that are the same if possible, the first ones first."""

    must: list[np.ndarray]
    should: list[np.ndarray]

    def at(self, rows: np.ndarray) -> ComparedCodes:
        """Those of these rows alone."""
        return ComparedCodes([x[rows] for x in self.must], [x[rows] for x in self.should])


class Likeness(Struct, frozen=True, eq=False):
    """What rows of siblings have in common.

    fixed : columns that must be the same
    known : columns that should be the same, the first ones first
    order : columns of time; the first one's period must be the same, and its code should be
    periods, size : the period of a code is code * periods // size
    once : of so many codes of the first column of `order`, its values, a user has each at most once;
        0 if not
    """

    fixed: Sequence[str] = ()
    known: Sequence[str] = ()
    order: Sequence[str] = ()
    periods: int = 1
    size: int = 1
    once: int = 0

    def compared(self, codes: Codes) -> ComparedCodes:
        """Of rows with these codes. The period is the last of what must be the same."""
        must = [codes[name] for name in self.fixed if name in codes]
        lead = [name for name in self.order[:1] if name in codes and name not in self.fixed]
        # the smallest type is sorted in the fewest passes
        kind = np.min_scalar_type(self.periods)
        for name in lead:
            must.append((codes[name].astype(np.int64) * self.periods // self.size).astype(kind))
        names = [n for n in (*lead, *self.known) if n in codes and n not in self.fixed]
        return ComparedCodes(must, [codes[name] for name in dict.fromkeys(names)])


def lacking(odds: np.ndarray) -> float:
    """The part of all odds that is above 1."""
    return float(np.maximum(odds - 1, 0.0).sum() / max(float(odds.sum()), 1e-300))


def with_siblings(
    pool: Pool, odds: np.ndarray, alike: Likeness, seed: int
) -> tuple[Pool, Pool, np.ndarray]:
    """(the pool with as many siblings of each user as odds of 1 need; these siblings alone; a list of
    the first one's users, by their numbers among the pool's users followed by the siblings).

    Siblings have at most as many rows as the pool has. A user and its siblings count as one (`Pool.part`).
    No sibling has the rows of its user. Users have random numbers."""
    generator = np.random.Generator(np.random.Philox(key=[seed, 5]))
    parent = np.repeat(np.arange(pool.users), _siblings_of_each(pool, odds))
    size = pool.size[parent]
    first = np.cumsum(size) - size

    # each row of a sibling in turn: the row of its parent, and a row that is like that
    rank = np.arange(int(size.sum())) - np.repeat(first, size)
    parent_row = np.repeat(pool.start[parent], size) + rank
    compared = alike.compared(pool.codes)
    row = rows_like(pool.rows, compared, compared.at(parent_row), parent_row, generator)

    # a sibling all of whose rows are its parent's says nothing new
    differs = np.add.reduceat(row != parent_row, first) > 0 if len(first) else np.empty(0, bool)
    row = row[np.repeat(differs, size)]
    parent = parent[differs]
    size = size[differs]
    row = in_order(pool.codes, row, np.repeat(np.arange(len(parent)), size), alike.order)
    part = pool.part / (1 + np.bincount(parent, minlength=pool.users))

    # users with the same number of rows by their new numbers
    sizes = np.append(pool.size, size)
    number = generator.permutation(len(sizes))
    user = np.lexsort((number, sizes))
    starts = np.cumsum(sizes) - sizes
    start = np.append(0, np.cumsum(sizes[user]))
    within = np.arange(start[-1]) - np.repeat(start[:-1], sizes[user])
    rows = np.append(np.arange(pool.rows), row)[within + np.repeat(starts[user], sizes[user])]

    # rows are given back in the order of users' numbers
    by_number = np.empty_like(sizes)
    by_number[number] = sizes
    place = within + np.repeat((np.cumsum(by_number) - by_number)[number[user]], sizes[user])
    more = Pool(
        codes={name: column[rows] for name, column in pool.codes.items()},
        start=start,
        place=place,
        number=number[user],
        part=np.append(part, part[parent])[user],
    )
    siblings = Pool(
        codes={name: column[row] for name, column in pool.codes.items()},
        start=np.append(0, np.cumsum(size)),
        place=np.arange(len(row)),
        number=np.arange(len(size)),
        part=part[parent],
    )
    return more, siblings, user


def _siblings_of_each(pool: Pool, odds: np.ndarray) -> np.ndarray:
    """How many siblings each user of the pool gets: a user who is wanted 2.3 times gets two. If they
    would have more rows than the pool, all get fewer. Odds may be beyond any whole number."""
    siblings = np.minimum(np.ceil(np.fmax(odds, 1.0) - ROUNDING) - 1, pool.rows)
    rows = float((siblings * pool.size).sum())
    if rows > pool.rows:
        siblings = siblings * (pool.rows / rows)
    return siblings.astype(np.int64)


def rows_like(
    rows: int,
    compared: ComparedCodes,
    wanted: ComparedCodes,
    own: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """For each of the `wanted` rows, the number of one of the `rows` that is like it, at random.
    `compared`: codes of the `rows`. `own`: the number that each wanted row has itself. That number is
    the answer only if no other row is like it."""
    columns = [
        np.append(x, y)
        for x, y in zip([*compared.must, *compared.should], [*wanted.must, *wanted.should])
    ]

    # Rows and wanted rows are sorted together by all columns. So rows with the same codes of the first
    # k columns are neighbours, for every k: a run. Runs of k + 1 columns lie inside those of k.
    order, same = _sorted_together(columns, rows + len(own))
    real = order < rows
    sorted_rows = order[real]
    rows_before = np.append(0, np.cumsum(real))  # how many of the `rows` lie before a place
    place = np.flatnonzero(~real)
    wanted_row = order[place] - rows
    at_place = own[wanted_row]

    # of the wanted row at each place, the run of the most columns that has a row besides its own
    first = np.zeros(len(own), np.int64)
    count = np.zeros(len(own), np.int64)
    for k in range(len(compared.must), len(columns) + 1):
        starts = same < k
        starts[:1] = True
        ends = np.append(np.flatnonzero(starts), len(order))
        run = np.cumsum(starts, dtype=np.int32)[place] - 1
        low = rows_before[ends[run]]
        high = rows_before[ends[run + 1]]
        alone = (high - low == 1) & (sorted_rows[np.minimum(low, rows - 1)] == at_place)
        enough = (high > low) & ~alone
        first[wanted_row[enough]] = low[enough]
        count[wanted_row[enough]] = (high - low)[enough]

    # one row of the run, at random; in place of the own one the next
    step = (generator.random(len(own)) * count).astype(np.int64)
    found = sorted_rows[first + step]
    following = sorted_rows[first + (step + 1) % np.maximum(count, 1)]
    found = np.where(found == own, following, found)
    return np.where(count > 0, found, own)


def _sorted_together(columns: Sequence[np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(the rows in order of these columns, the first ones first, equal ones as they are; in how many of the
    first columns each agrees with the one before). Codes and the row's number are one whole number where
    63 bits hold them: such numbers are sorted in a third of the time."""
    same = np.zeros(rows, np.uint8)
    bits = [int(codes.max(initial=0)).bit_length() for codes in columns]
    own = rows.bit_length()
    if sum(bits) + own > 63:
        order = np.lexsort((*reversed(columns),))
        agree = np.ones(max(rows - 1, 0), bool)
        for codes in columns:
            agree &= codes[order[1:]] == codes[order[:-1]]
            same[1:] += agree
        return order, same
    key = np.zeros(rows, np.uint64)
    for codes, width in zip(columns, bits):
        key <<= np.uint64(width)
        key |= codes.astype(np.uint64)
    key <<= np.uint64(own)
    key |= np.arange(rows, dtype=np.uint64)
    key.sort()
    differ = key[1:] ^ key[:-1]
    shift = own + sum(bits)
    for width in bits:
        shift -= width
        same[1:] += differ < np.uint64(1 << shift)
    return (key & np.uint64((1 << own) - 1)).astype(np.int64), same


def in_order(codes: Codes, rows: np.ndarray, owner: np.ndarray, order: Sequence[str]) -> np.ndarray:
    """The numbers of rows sorted by their owner, and for each owner by the columns of the order."""
    names = [name for name in order if name in codes]
    return rows[np.lexsort((*(codes[name][rows] for name in reversed(names)), owner))]

"""Assigns user ids to synthetic rows, by the habits of public users or by a noisy histogram of rows
per user. This is post-processing only.

Each synthetic user is modelled on a public user. It asks for as many rows as that user has, in the
same cells of the habit columns (for taxis: company, pickup area, shift). All public users are used
equally often. Rows are assigned in rounds. The first round serves users who asked for exactly that
cell, the next one users whose cell agrees in all columns but the first, and so on. The last round
serves any user with rows left to get. No user gets more rows than it asked for, so no user exceeds
the bound. (Using public users in proportion to the synthetic rows in their cells was tried: it
distorts the distribution of rows per user and scores lower.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from .._core import ids as core
from .._util.threads import each
from ..domain import Columns
from ..errors import UsageError

MAX_ROWS = 2**32 - 2
"""Rows that get ids at once: the kernel numbers them by 32 bits."""
_STEP = 1 << 18
"""Rows whose cells are numbered at a time."""


class Habits(Struct, frozen=True, eq=False):
    """How many rows each public user has in each cell of `columns` (flat cell numbers, last column
    fastest).

    Compressed sparse rows: the cells of user u are `cells[indptr[u]:indptr[u + 1]]`, with `counts`
    at the same positions.
    """

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    indptr: np.ndarray
    cells: np.ndarray
    counts: np.ndarray

    @property
    def users(self) -> int:
        return self.indptr.shape[0] - 1

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def rows_per_user(self) -> np.ndarray:
        return np.add.reduceat(np.append(self.counts, 0), self.indptr[:-1])[: self.users]

    @classmethod
    def from_rows(
        cls, columns: Sequence[str], shape: Sequence[int], user: np.ndarray, codes: Columns
    ) -> Habits:
        """Habits from one user number and one code per row. Users without rows are left out."""
        cells = int(np.prod(shape, dtype=np.int64)) if len(shape) else 1
        cell = cell_numbers(codes, columns, shape, len(user))
        keys = np.asarray(user).astype(np.uint64) * np.uint64(cells) + cell.astype(np.uint64)
        key, counts = np.unique(keys, return_counts=True)
        owner, cell = np.divmod(key, np.uint64(cells))
        starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])[: key.size])
        indptr = np.append(starts, key.size).astype(np.int64)
        return cls(
            tuple(columns), tuple(shape), indptr, cell.astype(np.uint32), counts.astype(np.int64)
        )


def cell_numbers(
    codes: Columns, columns: Sequence[str], shape: Sequence[int], rows: int, threads: int = 1
) -> np.ndarray:
    """Flat cell number of every row over these columns, uint32 (0 if there are no columns)."""
    size = 1
    for n in shape:
        size *= int(n)
    if size >= 2**32:
        raise UsageError(
            f"ids: the habit columns {', '.join(columns)} have {size} cells together; name fewer"
        )
    out = np.zeros(rows, np.uint32)

    def number(start: int) -> None:
        some = out[start : start + _STEP]
        for name, n in zip(columns, shape):
            np.multiply(some, np.uint32(n), out=some)
            np.add(some, codes[name][start : start + _STEP], out=some, casting="unsafe")

    each(number, range(0, rows, _STEP), threads)
    return out


def deal(
    codes: Columns, rows: int, habits: Habits, *, bound: int | None, seed: int, threads: int = 1
) -> tuple[np.ndarray, int]:
    """(uint32 user number of every row, number of user numbers). A user has at most `bound` rows.
    The result is the same for any number of threads."""
    if rows > MAX_ROWS:
        raise UsageError(f"ids: at most {MAX_ROWS} rows can get ids at once, got {rows}")
    if rows == 0:
        return np.empty(0, np.uint32), 0
    if habits.rows == 0:
        raise UsageError(
            "public=: the public data has no row with a user id, so users' habits cannot "
            "be estimated from it"
        )
    rng = np.random.Generator(np.random.Philox(key=seed))
    counts = _bounded(habits, bound, rng)
    cell = cell_numbers(codes, habits.columns, habits.shape, rows, threads)
    sizes = np.add.reduceat(counts, habits.indptr[:-1])
    models = _draw_models(np.full(habits.users, rows / int(counts.sum())), sizes, rows, rng)
    asked_by, asked_cell = _asked_rows(habits, counts, models, threads)
    owner = _deal_rounds(habits.shape, cell, asked_by, asked_cell, rng, threads)
    return owner, int(models.shape[0])


def deal_by_size(
    rows: int, sizes: np.ndarray, users: np.ndarray, *, seed: int
) -> tuple[np.ndarray, int]:
    """The result of `deal` from a histogram of rows per user: `users[i]` (noisy) users have
    `sizes[i]` rows each.

    Sizes of synthetic users are drawn in proportion to max(0, users) until they add up to `rows`;
    rows are assigned at random.
    """
    if rows == 0:
        return np.empty(0, np.uint32), 0
    sizes = np.asarray(sizes, np.int64)
    weight = np.maximum(np.asarray(users, np.float64), 0.0)
    if not (weight * sizes).sum() > 0:
        weight = np.ones(sizes.shape[0])
    rng = np.random.Generator(np.random.Philox(key=seed))
    scale = rows / float((weight * sizes).sum())
    models = _draw_models(weight * scale, sizes, rows, rng)
    owner = np.repeat(np.arange(models.shape[0], dtype=np.uint32), sizes[models])
    rng.shuffle(owner)
    return owner[:rows], int(models.shape[0])


def _bounded(habits: Habits, bound: int | None, rng: np.random.Generator) -> np.ndarray:
    """The counts of the habits after every user is reduced to at most `bound` rows, a random subset
    of the user's rows."""
    counts = habits.counts.astype(np.int64)
    if bound is None:
        return counts
    for u in np.flatnonzero(habits.rows_per_user() > bound):
        a = habits.indptr[u]
        b = habits.indptr[u + 1]
        counts[a:b] = rng.multivariate_hypergeometric(counts[a:b], bound)
    return counts


def _draw_models(
    weight: np.ndarray, sizes: np.ndarray, rows: int, rng: np.random.Generator
) -> np.ndarray:
    """The number of the public user that each synthetic user is modelled on. It is systematic
    sampling: user u is taken weight[u] times on average. Further users are drawn until the sizes add up
    to at least `rows`. At least one size must be positive."""
    edges = np.cumsum(weight) + rng.random()
    times = np.diff(np.floor(np.concatenate([[edges[0] - weight[0]], edges])).astype(np.int64))
    times[sizes <= 0] = 0
    models = np.repeat(np.arange(weight.shape[0]), times)
    room = int(sizes[models].sum())
    chance = np.where(sizes > 0, np.maximum(weight, 0), 0)
    chance = chance / chance.sum() if chance.sum() > 0 else (sizes > 0) / (sizes > 0).sum()
    mean = float((chance * sizes).sum())
    while room < rows:
        more = rng.choice(weight.shape[0], size=int((rows - room) / mean) + 1, p=chance)
        enough = np.searchsorted(np.cumsum(sizes[more]), rows - room) + 1
        models = np.concatenate([models, more[:enough]])
        room = int(sizes[models].sum())
    rng.shuffle(models)
    return models


def _asked_rows(
    habits: Habits, counts: np.ndarray, models: np.ndarray, threads: int
) -> tuple[np.ndarray, ...]:
    """(user, cell) of each row that a synthetic user asks for, uint32: as many rows in the same cells
    as the public user it is modelled on has."""
    indptr = np.ascontiguousarray(habits.indptr, np.int64)
    cells = np.ascontiguousarray(habits.cells, np.uint32)
    rows = int(np.add.reduceat(counts, indptr[:-1])[models].sum())
    return core.units(indptr, counts, cells, np.ascontiguousarray(models, np.int64), rows, threads)


def _rounds(columns: int) -> list[tuple[int, ...]]:
    """For each round, the positions of the columns in which row and user must agree. First these
    are all columns, then without the first, without the first two, and so on. Then come each of the
    last two columns alone, then none.

    With (company, pickup, shift): all three; (pickup, shift); pickup; shift; none.
    """
    out = [tuple(range(i, columns)) for i in range(columns - 1)]
    out += [(i,) for i in range(max(columns - 2, 0), columns)]
    return [*dict.fromkeys(out), ()]


def _deal_rounds(
    shape: tuple[int, ...],
    cell: np.ndarray,
    asked_by: np.ndarray,
    asked_cell: np.ndarray,
    rng: np.random.Generator,
    threads: int,
) -> np.ndarray:
    """The user number of every row. `cell`: of each row, over columns of this shape. `asked_by`,
    `asked_cell`: see `_asked_rows`. A row and an asked row with the same key of a round are matched at
    random; what is left goes to the next round."""
    owner = np.zeros(cell.shape[0], np.uint32)
    rows_left: np.ndarray | None = None  # None: all
    asked_left: np.ndarray | None = None
    for axes in _rounds(len(shape)):
        key_of, keys = _keys_of_cells(shape, axes)
        seeds = rng.integers(0, 2**63, size=2, dtype=np.uint64).tolist()
        row_cell = cell if rows_left is None else cell[rows_left]
        unit_cell = asked_cell if asked_left is None else asked_cell[asked_left]
        row_key = row_cell if key_of is None else key_of[row_cell]
        unit_key = unit_cell if key_of is None else key_of[unit_cell]
        row_order, row_start = core.group(row_key, keys, seeds[0], threads)
        unit_order, unit_start = core.group(unit_key, keys, seeds[1], threads)
        rows_left, asked_left = core.deal(
            row_order=row_order,
            row_start=row_start,
            unit_order=unit_order,
            unit_start=unit_start,
            row=rows_left,
            unit=asked_left,
            user=asked_by,
            owner=owner,
            threads=threads,
        )
        rows_left = np.ascontiguousarray(rows_left)
        asked_left = np.ascontiguousarray(asked_left)
        if rows_left.shape[0] == 0:
            break
    return owner


def _keys_of_cells(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[np.ndarray | None, int]:
    """(key of each cell, number of keys): the cell's number over these axes alone. None where these
    are all axes: a cell is its own key."""
    cells = int(np.prod(shape, dtype=np.int64))
    if len(axes) == len(shape):
        return None, cells
    codes = np.unravel_index(np.arange(cells), shape)
    key_of = np.zeros(cells, np.uint32)
    keys = 1
    for i in axes:
        key_of = key_of * np.uint32(shape[i]) + codes[i].astype(np.uint32)
        keys *= shape[i]
    return key_of, keys

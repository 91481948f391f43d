"""The choice: whole users of a pool, such that the table about users, the rows' marginals and rows
per user hold within their standard errors.

One objective, in standard errors: chi^2 of each table, lowered as far as its noise allows (James and
Stein). Where a table's targets are noise, the pool meets them as it is, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct, field

from ..domain import Domain
from ..userkeys import UserFacts
from .people import Codes
from .user_facts import distinct
from .user_table import Marginal, pool_facts

SWEEPS, LEAST_GAIN = 20, 0.05
"""Sweeps over the chosen users, at most, and by how much one lowers the mean over cells of the squared
distance, in standard errors, or it is the last: what is left to gain is far below noise. On cohorts
that is after 2 sweeps, at .39; after 30 it is .36."""
PART_ROWS = 1 << 20
"""Rows of the pool from which users are chosen together. Parts are independent: threads share them."""
TIGHT = 0.25
"""The variance of a count that is to be met, as a part of a Poisson count's."""
MOST_CELLS = 1 << 16
"""Columns and pairs with more codes than this are not balanced."""
MOST_PAIRS, LEAST_IN_CELL = 12, 16
"""Pairs of columns of rows that are balanced, at most, and rows in each cell on average."""


class Gaps(Struct, frozen=True, eq=False):
    """Gaps between a user's rows in the order of these columns: the mean over users, with two rows
    or more, of their shares in each bin, and the standard error."""

    order: tuple[str, ...]
    shares: np.ndarray
    error: float

    def bins(self, codes: Codes, sizes: Mapping[str, int], start: np.ndarray) -> np.ndarray:
        """The bin of each row's gap from the row before it; a bin more for users' first rows."""
        columns = [codes[name].astype(np.int64) for name in self.order]
        time = np.ravel_multi_index(columns, [sizes[name] for name in self.order])
        gap = np.abs(np.diff(time, prepend=time[:1]))
        edges = np.int64(1) << np.arange(min(len(self.shares) - 1, 62), dtype=np.int64)
        bins = np.searchsorted(edges, gap, side="right")
        bins[start[:-1]] = len(self.shares)
        return bins


class Choice(Struct, frozen=True, eq=False):
    """`view` and `marginals`: the table about users; `sizes`: codes of each column of rows;
    `times`: how many times as many rows as needed the pool has; `habits`: columns of whose values
    users have as many as in the pool. `others`: more rows of the same model, so that marginals of
    rows are known better than by the pool alone."""

    view: UserFacts
    marginals: Sequence[Marginal]
    sizes: dict[str, int]
    times: int
    gaps: Gaps | None = None
    habits: tuple[str, ...] = ()
    others: Codes = field(default_factory=dict)

    def __call__(
        self, codes: Codes, owner: np.ndarray, wanted: int, seed: int, threads: int = 1
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(codes, owner) of the `wanted` rows of chosen users, of rows in the order that they had;
        one user may lose a few of its rows, so that their number is exact. No user is there
        twice."""
        order = np.argsort(owner, kind="stable")
        count = np.bincount(owner)
        users = np.flatnonzero(count)
        by_rows = users[np.argsort(count[users], kind="stable")]
        place = np.empty(len(count), np.int64)
        place[by_rows] = np.arange(len(by_rows))
        order = order[np.argsort(place[owner[order]], kind="stable")]
        rows = count[by_rows]
        start = np.append(0, np.cumsum(rows))
        sorted_codes = {name: column[order] for name, column in codes.items()}
        chosen = self._chosen(sorted_codes, start, wanted, seed, threads)
        take = _exact(rows, chosen, wanted)
        inside = np.arange(len(order)) - np.repeat(start[:-1], rows) < np.repeat(take, rows)
        kept = np.sort(order[inside])
        number = np.cumsum(np.bincount(owner[kept], minlength=len(count)) > 0) - 1
        out = {name: column[kept] for name, column in codes.items()}
        return out, number[owner[kept]].astype(np.uint32)

    def _chosen(
        self, codes: Codes, start: np.ndarray, wanted: int, seed: int, threads: int
    ) -> np.ndarray:
        """Which users, sorted by their rows, are chosen: as many as have `wanted` rows on
        average."""
        from .._core import choose as core

        users, rows, size = len(start) - 1, int(start[-1]), np.diff(start)
        part = wanted / rows
        count = int(np.clip(round(users * part), 1, users))
        chosen = np.zeros(users, np.uint8)
        generator = np.random.Generator(np.random.Philox(key=[seed, 3]))
        # every so many users in order of their rows: rows per user are those of the pool
        chosen[((np.arange(count) + generator.random()) * users / count).astype(np.int64)] = 1
        of_users, of_rows, of_steps = _Tables(part), _Tables(part), _Tables(part)
        self._facts(of_users, codes, start, count)
        names = [n for n in codes if int(codes[n].max(initial=0)) < MOST_CELLS]
        for columns in (*((n,) for n in names), *self._pairs(names, wanted)):
            more = self._cells(self.others, columns) if set(columns) <= set(self.others) else None
            of_rows.keep(self._cells(codes, columns), more)
        of_rows.keep(np.zeros(rows, np.int64))
        step = 1 / np.maximum(size - 1.0, 1.0)
        if self.gaps is not None:
            bins, weight = self.gaps.bins(codes, self.sizes, start), np.repeat(step, size)
            many = part * float((size > 1).sum())
            of_steps.add(bins, many * self.gaps.shares, many * self.gaps.error, weight)
        tables = [of_users, of_rows, of_steps]
        targets = [x for table in tables for x in table.target]
        first = np.append(0, np.cumsum([len(x) for x in targets]))
        core.choose(
            np.array(of_users.cells, np.uint32).reshape(-1, users),
            np.array(of_rows.cells + of_steps.cells, np.uint32).reshape(-1, rows),
            start,
            first,
            np.concatenate(targets),
            np.concatenate([x for table in tables for x in table.weight]),
            step,
            len(of_steps.cells),
            SWEEPS,
            seed,
            chosen,
            LEAST_GAIN,
            max(1, rows // PART_ROWS),
            threads,
        )
        return chosen.astype(bool)

    def _facts(self, tables: _Tables, codes: Codes, start: np.ndarray, count: int) -> None:
        """Adds the tables of users: what was released about them; rows per user and habits as the
        pool has them."""
        facts = pool_facts(self.view, self.sizes, codes, start)
        domain = self.view.domain(Domain(self.sizes))
        for m in self.marginals:
            shape = [domain[n] for n in m.clique]
            cells = np.ravel_multi_index([facts[n] for n in m.clique], shape)
            tables.add(cells, count * m.shares, count * m.error)
        like = _like_sizes(np.diff(start))
        tables.keep(like)
        for name in self.habits:
            values = _like_sizes(distinct(codes[name], start))
            tables.keep(_dense(like * (int(values.max(initial=0)) + 1) + values))

    def _cells(self, codes: Codes, columns: Sequence[str]) -> np.ndarray:
        """The cell of each row over one or two columns."""
        if len(columns) == 1:
            return codes[columns[0]]
        a, b = columns
        return codes[a].astype(np.int64) * self.sizes[b] + codes[b]

    def _pairs(self, names: Sequence[str], wanted: int) -> list[tuple[str, str]]:
        """Pairs of columns, those of most cells first that so many rows fill."""
        cells = {
            (a, b): self.sizes[a] * self.sizes[b]
            for a, b in combinations([n for n in names if n in self.sizes], 2)
        }
        likely = [p for p in cells if cells[p] <= min(wanted / LEAST_IN_CELL, MOST_CELLS)]
        return sorted(likely, key=lambda p: -cells[p])[:MOST_PAIRS]


class _Tables:
    """Tables of the chosen: the cells of users or rows in each, the counts that are wanted, and the
    weights of squared differences. `part`: of the pool that is chosen."""

    def __init__(self, part: float) -> None:
        self.part = part
        self.cells: list[np.ndarray] = []
        self.target: list[np.ndarray] = []
        self.weight: list[np.ndarray] = []

    def keep(self, cells: np.ndarray, more: np.ndarray | None = None) -> None:
        """A table that should be the pool's; `more`: cells of rows of the same distribution."""
        counts = np.bincount(cells, minlength=0 if more is None else int(more.max(initial=0)) + 1)
        known = counts if more is None else counts + np.bincount(more, minlength=len(counts))
        self._append(cells, self.part * len(cells) * known / max(int(known.sum()), 1), 0.0)

    def add(
        self,
        cells: np.ndarray,
        released: np.ndarray,
        error: np.ndarray | float,
        weight: np.ndarray | None = None,
    ) -> None:
        """A table whose counts were released as `released` with the standard error `error`. They
        count as far as they differ from the pool's by more than noise (the positive part of James
        and Stein); cells after the released ones are the pool's."""
        own = self.part * np.bincount(cells, weight, len(released))
        pool, error = own[: len(released)], np.broadcast_to(error, len(released))
        apart = float((np.square(released - pool) / np.square(error)).sum())
        cells_with_users = int((np.maximum(released, pool) >= 1).sum())
        trust = max(0.0, 1 - cells_with_users / max(apart, 1e-9))
        own[: len(released)] = pool + trust * (released - pool)
        variance = np.zeros(len(own))
        variance[: len(released)] = trust * np.square(error)
        self._append(cells, own, variance)

    def _append(self, cells: np.ndarray, target: np.ndarray, variance: np.ndarray | float) -> None:
        self.cells.append(cells.astype(np.uint32))
        self.target.append(target.astype(np.float64))
        self.weight.append(1 / (variance + TIGHT * np.maximum(target, 1.0)))


def _like_sizes(rows: np.ndarray) -> np.ndarray:
    """Bins of rows per user: single numbers up to 8, then eighths of octaves."""
    fine = np.floor(8 * np.log2(np.maximum(rows, 1))).astype(np.int64)
    return _dense(np.where(rows <= 8, rows, fine))


def _dense(codes: np.ndarray) -> np.ndarray:
    """Codes without gaps, in the same order."""
    there = np.bincount(codes) > 0
    return (np.cumsum(there) - 1)[codes]


def _exact(rows: np.ndarray, chosen: np.ndarray, wanted: int) -> np.ndarray:
    """The rows that each user keeps, so that they are `wanted` in all. Chosen users keep theirs,
    but that the largest lose some, or others join with a part of theirs."""
    keep = np.where(chosen, rows, 0)
    over = int(keep.sum()) - wanted
    if over > 0:
        largest = np.argsort(-keep, kind="stable")
        room = np.maximum(keep[largest] - 1, 0)
        keep[largest] -= np.clip(over - (np.cumsum(room) - room), 0, room)
        last = np.flatnonzero(keep)[wanted:]  # where fewer rows are wanted than there are users
        keep[last] = 0
    others = np.flatnonzero(~chosen)
    while over < 0 and len(others):
        at = min(int(np.searchsorted(rows[others], -over)), len(others) - 1)
        keep[others[at]] = min(-over, rows[others[at]])
        over += int(keep[others[at]])
        others = np.delete(others, at)
    return keep

"""The choice: whole users of a pool, such that what was released about users and the rows' marginals
hold.

First each user of the pool gets a weight, by all that was released about users (`user_weights`). Then whole
users are drawn by their weights, and exchanged for others until the tables about users are those of
the weights, and counts of rows those of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct, field

from ..schema import Schema
from ..userkeys import UserFacts
from .people import Codes
from .user_facts import agreement
from .user_quotes import Quote, lines
from .user_table import Marginal, pool_facts
from .user_weights import Cells, Lines, Shares, Table, raked

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
ROUNDS = 30
"""Turns in which odds above 1 are given to others, at most."""
EXACT = 1e-4
"""The standard error of the number of rows, as a part of it, when users are weighed by quotes."""
LARGE = 0.05
"""Amounts count as large that at most this part of the rows reaches. Without them (0), the share of the
largest tenth of users is off by .046 in place of .028 on cohorts, seed 101 of `bench.users` at epsilon 1;
with all amounts, pairs of columns of rows by .035 in place of .033."""
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

    def of_users(self, codes: Codes, sizes: Mapping[str, int], start: np.ndarray) -> np.ndarray:
        """[bins, users]: the share of each user's gaps that lies in each bin."""
        users, bins = len(start) - 1, len(self.shares)
        cells = self.bins(codes, sizes, start) * users
        cells += np.repeat(np.arange(users), np.diff(start))
        counts = np.bincount(cells, minlength=(bins + 1) * users).reshape(bins + 1, users)[:bins]
        return counts / np.maximum(np.diff(start) - 1.0, 1.0)


class Agreements(Struct, frozen=True, eq=False):
    """How often two rows of a user, of two rows or more, agree in each of these columns: the mean
    over users, and its standard error."""

    columns: tuple[str, ...] = ()
    rates: np.ndarray = field(default_factory=lambda: np.empty(0))
    errors: np.ndarray = field(default_factory=lambda: np.empty(0))


class Choice(Struct, frozen=True, eq=False):
    """`view` and `marginals`: the table about users, of whom there are `users`; `gaps` and `agreed`:
    what else was released about them. `schema`: of the rows; `times`: how many times as many rows as
    needed the pool has. `others`: more rows of the same model, so that marginals of rows are known
    better than by the pool alone. `quotes`: numbers that the run released, of `rows` rows in all."""

    view: UserFacts
    marginals: Sequence[Marginal]
    schema: Schema
    times: int
    users: float
    gaps: Gaps | None = None
    agreed: Agreements = field(default_factory=Agreements)
    others: Codes = field(default_factory=dict)
    quotes: Sequence[Quote] = ()
    rows: float = 0.0

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.schema.domain

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
        like = _like_sizes(size)
        released = self._released(codes, start, like)
        odds = _odds(raked(released, self.users, users), like, part * np.bincount(like))
        moved = np.zeros(users)
        if self.quotes:
            # what quotes change in the chosen users, they change in the rows that are wanted
            before, odds = odds, self._quoted(released, codes, start, like, part)
            moved = odds - before
        chosen = _drawn(odds, np.random.Generator(np.random.Philox(key=[seed, 3])))
        of_users, of_rows, of_steps = _Tables(), _Tables(), _Tables()
        for table in released:
            if isinstance(table, Cells):
                of_users.add(table.cells, table.tally(odds))
        names = [n for n in codes if int(codes[n].max(initial=0)) < MOST_CELLS]
        spent = self._spent(codes, np.repeat(odds / part, size))
        for columns in (*((n,) for n in names), *self._pairs(names, wanted)):
            cells = self._cells(codes, columns)
            known = np.bincount(cells).astype(float)
            if set(columns) <= set(self.others):
                more = np.bincount(self._cells(self.others, columns), minlength=len(known))
                known = more + np.pad(known, (0, len(more) - len(known)))
            for place, name in enumerate(columns):
                if name in spent:
                    at = np.arange(len(known))
                    at = at if len(columns) == 1 else np.divmod(at, self.sizes[columns[1]])[place]
                    known *= spent[name][at]
            by_quotes = np.bincount(cells, np.repeat(moved, size), len(known))
            of_rows.add(cells, np.maximum(wanted * known / known.sum() + by_quotes, 0.0))
        of_rows.add(np.zeros(rows, np.int64), np.full(1, float(wanted)))
        step = 1 / np.maximum(size - 1.0, 1.0)
        if self.gaps is not None:
            bins = self.gaps.bins(codes, self.sizes, start)
            of_steps.add(bins, np.bincount(bins, np.repeat(step * odds, size)))
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

    def _quoted(
        self,
        released: Sequence[Table],
        codes: Codes,
        start: np.ndarray,
        like: np.ndarray,
        part: float,
    ) -> np.ndarray:
        """How likely each user is chosen where quotes hold too. These may move rows per user, which
        are known as well as by a sample, but not the number of rows and users."""
        size = np.diff(start)
        quoted = lines(self.quotes, codes, start, self.users, self.rows)
        own = self.users / len(size) * np.bincount(like)
        mean = (size - size.mean()) / size.max()
        exact = np.zeros(1)
        rows = Lines(mean[None], exact, np.full(1, EXACT * self.users * size.mean() / size.max()))
        everyone = Cells(np.zeros(len(size), np.int64), np.full(1, self.users), exact)
        about_rows = (Cells(like, own, np.sqrt(own)), rows, everyone)
        weights = raked([quoted, *released[:-1], *about_rows], self.users, len(size))
        wanted = part * len(size) / self.users * np.bincount(like, weights)
        return _odds(weights, like, wanted)

    def _released(self, codes: Codes, start: np.ndarray, like: np.ndarray) -> list[Table]:
        """All that was released about users, as tables of the pool's users. Rows per user, in bins
        `like` and the last table, are the pool's own, which was drawn by all that is known of them."""
        size = np.diff(start)
        facts = pool_facts(self.view, self.schema, codes, start)
        tables: list[Table] = [Cells(m.cells(facts), m.users, m.error) for m in self.marginals]
        many = (size > 1).astype(float)
        repeated = self.users * float(many.mean())
        for name, rate, error in zip(self.agreed.columns, self.agreed.rates, self.agreed.errors):
            both = agreement(codes[name], start)
            # one number with two cells, so each of them weighs half
            doubt = np.full(2, np.sqrt(2) * error * repeated)
            wanted = repeated * np.array([rate, 1 - rate])
            tables.append(Shares(np.array([both, many - both]), wanted, doubt))
        if self.gaps is not None:
            shares = self.gaps.of_users(codes, self.sizes, start)
            error = np.full(len(shares), repeated * self.gaps.error)
            tables.append(Shares(shares, repeated * self.gaps.shares, error))
        own = self.users / len(size) * np.bincount(like)
        return [*tables, Cells(like, own, np.zeros(len(own)))]

    def _spent(self, codes: Codes, weights: np.ndarray) -> dict[str, np.ndarray]:
        """For each code of an amount: how many times as common it is among users by weight as in the
        pool, if it is one of the largest. Facts about users know what they spend; in the model of
        rows, noise makes large amounts too common. Of smaller ones the rows know more."""
        amounts = {column for _, kind, column, _, _ in self.view.facts if kind in ("sum", "mean")}
        out = {}
        for name in amounts & set(codes):
            there = np.bincount(codes[name], minlength=self.sizes[name])
            weighed = np.bincount(codes[name], weights, self.sizes[name])
            large = np.cumsum(there[::-1])[::-1] <= LARGE * there.sum()
            out[name] = np.divide(
                weighed, there, out=np.ones(len(there)), where=(there > 0) & large
            )
        return out

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
    weights of squared differences."""

    def __init__(self) -> None:
        self.cells: list[np.ndarray] = []
        self.target: list[np.ndarray] = []
        self.weight: list[np.ndarray] = []

    def add(self, cells: np.ndarray, target: np.ndarray) -> None:
        self.cells.append(cells.astype(np.uint32))
        self.target.append(target.astype(np.float64))
        self.weight.append(1 / (TIGHT * np.maximum(target, 1.0)))


def _odds(weights: np.ndarray, like: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How likely each user is chosen, at most 1: in proportion to the weights among users who are
    alike, as far as that is possible. Of each kind, `wanted` are chosen on average."""
    odds = np.minimum(weights * (wanted / np.bincount(like, weights))[like], 1.0)
    for _ in range(ROUNDS):
        sure = odds >= 1
        left = np.maximum(wanted - np.bincount(like, sure), 0.0)
        there = np.bincount(like, np.where(sure, 0.0, odds))
        more = np.divide(left, there, out=np.ones(len(left)), where=there > 0)
        if (more <= 1 + 1e-9).all():
            break
        odds = np.minimum(odds * np.where(sure, 1.0, more[like]), 1.0)
    return odds


def _drawn(odds: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Users drawn by their odds, at even distances: as many of any run of users as their odds add up
    to."""
    count = max(1, round(float(odds.sum())))
    upto = np.cumsum(odds)
    at = (np.arange(count) + generator.random()) * (upto[-1] / count)
    chosen = np.zeros(len(odds), np.uint8)
    chosen[np.minimum(np.searchsorted(upto, at, "right"), len(odds) - 1)] = 1
    return chosen


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

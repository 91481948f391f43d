"""The choice: whole users of a pool, such that what was released about users and the rows' marginals
hold.

It has five steps (`Choice.choose`). Each user of the pool is weighed, by all that was released about users
(`user_weights`). Users who are wanted more than once get `siblings`. Whole users are drawn by their
weights. They are exchanged for others until the tables about users are those of the weights, and counts
of rows those of the model. Then the number of rows is made exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, combinations

import numpy as np
from msgspec import Struct, field

from ..schema import Schema
from ..user_views import UserFacts
from .gaps import Gaps
from .once import once_per_period
from .people import Codes
from .pool import Pool
from .row_tables import Columns, RowTables
from .siblings import LEAST_LACKING, Likeness, lacking, with_siblings
from .two_rows import TwoRows
from .user_facts import agreement
from .user_quotes import Quote, lines
from .user_table import Marginal, pool_facts
from .user_weights import Cells, Lines, Shares, Table, raked

SWEEPS = 20
"""Sweeps over the chosen users, at most."""
LEAST_GAIN = 0.1
"""A sweep is the last if it lowers the mean over cells of the squared distance, in standard errors, by
less: what is left to gain is far below noise (docs/research/records.md, "What a choice keeps"). Three
sweeps in all cases instead: spans of 2,400 people at epsilon 1 are .0025 ± .0006 worse, pairs of rows
.0009 ± .0003 (`python -m bench.users_without "an end of sweeps"` has other ends)."""
PART_ROWS = 1 << 20
"""Rows of the pool from which users are chosen together. Parts are independent: threads share them."""
TIGHT = 0.25
"""The variance of a count that is to be met, as a part of a Poisson count's (`python -m bench.users_without
"tight counts"`)."""
GAP = "gap from the row before"
"""A column of rows."""
MOST_CELLS = 1 << 16
"""Columns and pairs with more codes than this are not balanced."""
ROUNDS = 30
"""Turns in which odds above 1 are given to others, at most."""
MOST_TURNS = 3
"""How often siblings are made, at most. Some rows have nobody's that is like them, so siblings are not
quite of their kind; the part of the odds above 1 falls to a third in each turn (patients at epsilon
3: .34, .13, .03, .006)."""
EXACT = 1e-4
"""The standard error of the number of rows, as a part of it, when users are weighed by quotes."""
LEAST_PAIRS = 12
"""Pairs of columns of rows that are balanced, at least. With 12 of at most a sixteenth as many cells as
rows, pairs were off by .109 and .372 in place of .102 and .340 with 2,400 and 300 people (`python -m
bench.users --tables few tiny --epsilon 1 --seeds 500 505 --sources order`)."""
PAIR_CODES = 1 << 24
"""More pairs are balanced where they have no more codes than this (64 MB) over the pool's rows."""
PAIR_CELLS = 1 << 22
"""And no more cells than this together, each of which takes some 50 bytes: 60 columns of 250 values
have 115 million, which took 6 GB."""


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
    better than by the pool alone. `alike`: what siblings have in common. `quotes`: numbers that the run
    released, of `rows` rows in all."""

    view: UserFacts
    marginals: Sequence[Marginal]
    schema: Schema
    times: int
    users: float
    gaps: Gaps | None = None
    agreed: Agreements = field(default_factory=Agreements)
    others: Codes = field(default_factory=dict)
    alike: Likeness = field(default_factory=Likeness)
    quotes: Sequence[Quote] = ()
    rows: float = 0.0

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.schema.domain

    def known(self) -> float:
        """How many counts the releases know as well as if they were exact. Each counts for the part
        p / (p + sigma^2): by so much a count of p users moves from the pool to the release. At most
        that, since users are taken to be spread evenly over the cells of a table."""
        errors = [np.asarray(m.error) for m in self.marginals]
        if self.gaps is not None:
            errors.append(np.full(len(self.gaps.shares), self.users * self.gaps.error))
        # a share of each user, whose variance is 1/4 at most
        errors += [np.array([2 * self.users * error]) for error in self.agreed.errors]
        return sum(float((self.users / (self.users + len(e) * np.square(e))).sum()) for e in errors)

    def choose(
        self, codes: Codes, owner: np.ndarray, wanted: int, seed: int, threads: int = 1
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(codes, owner) of `wanted` rows of chosen users. Rows keep their order. One user may lose a
        few of its rows, so that their number is exact. No user is there twice."""
        if self.alike.once:
            codes = once_per_period(codes, owner, self.alike, self.gaps, seed)
        pool = Pool.of(codes, owner)
        seen = self._seen(pool)
        odds = self._weighed(pool, seen, wanted / pool.counted_rows)
        for turn in range(MOST_TURNS):
            if lacking(odds.asked) <= LEAST_LACKING:
                break
            pool, siblings, user = with_siblings(pool, odds.asked, self.alike, seed + turn)
            seen = seen.joined(self._seen(siblings), user)
            odds = self._weighed(pool, seen, wanted / pool.counted_rows, odds.factors)
        drawn = _drawn(odds.users, np.random.Generator(np.random.Philox(key=[seed, 3])))
        chosen = self._exchanged(pool, odds, drawn, wanted, seed, threads)
        return pool.first_rows(_exact(pool.size, chosen, wanted))

    def _weighed(
        self, pool: Pool, seen: _Seen, part: float, near: Sequence[np.ndarray] | None = None
    ) -> _Odds:
        """How likely each user is chosen, if a `part` of the pool's rows is wanted: by all that was
        released about users. `near`: factors that were found for a similar pool."""
        like = _like_sizes(pool.size)
        released = self._released(pool, seen, like)
        weights, factors = raked(released, self.users, pool.part, near=near)
        asked = _asked(weights, pool.part, like, part * np.bincount(like, pool.part))
        odds = _at_most_one(asked, like)
        if not self.quotes:
            return _Odds(asked, odds, np.zeros(pool.users), released, factors)
        asked = self._quoted(pool, released, like, part)
        quoted = _at_most_one(asked, like)
        return _Odds(asked, quoted, quoted - odds, released, factors)

    def _exchanged(
        self, pool: Pool, odds: _Odds, drawn: np.ndarray, wanted: int, seed: int, threads: int
    ) -> np.ndarray:
        """Which users are chosen: those who were drawn, exchanged for others until counts are those
        that the odds give, and of rows those of the model."""
        from .._core import choose as core

        of_users = _Tables()
        for table in odds.released[:-1]:
            if isinstance(table, Cells):
                of_users.add(table.cells, table.tally(odds.users))
        like = odds.released[-1]
        assert isinstance(like, Cells)
        of_users.add(like.cells, like.tally(odds.users), least=True)
        step = 1 / np.maximum(pool.size - 1.0, 1.0)
        rows, targets, steps = self._of_rows(pool, odds, wanted, step, seed)
        chosen = drawn.copy()
        every = [*of_users.target, *targets]
        core.choose(
            np.array(of_users.cells, np.uint32).reshape(-1, pool.users),
            rows.codes,
            rows.of_rows,
            pool.start,
            np.append(0, np.cumsum([len(x) for x in every])),
            np.concatenate(every),
            np.concatenate([*of_users.weight, *(_tight(target) for target in targets)]),
            step,
            steps,
            SWEEPS,
            seed,
            chosen,
            LEAST_GAIN,
            max(1, pool.rows // PART_ROWS),
            threads,
        )
        return chosen.astype(bool)

    def _of_rows(
        self, pool: Pool, odds: _Odds, wanted: int, step: np.ndarray, seed: int
    ) -> tuple[RowTables, list[np.ndarray], int]:
        """Tables of rows: (the tables, the counts wanted in each, how many of the last ones count a row as
        `step` of its user).

        Their shares are those of the model of rows: of columns, and of the pairs of columns that the pool and
        other rows know. One table is the number of rows. By `step` there are gaps, where they were released,
        and two rows of a user."""
        names = [n for n in pool.codes if int(pool.codes[n].max(initial=0)) < MOST_CELLS]
        sizes = dict(self.sizes)
        for name in names:
            both = (pool.codes[name], self.others.get(name, np.zeros(1)))
            sizes[name] = max(sizes.get(name, 1), *(int(x.max(initial=0)) + 1 for x in both))
        tables = [*((n,) for n in names), *self._pairs(names, pool.rows), ()]
        codes = dict(pool.codes)
        of_users: list[Columns] = []
        if self.gaps is not None:
            codes[GAP] = self.gaps.bins(codes, self.sizes, pool.start)
            sizes[GAP] = len(self.gaps.shares) + 1
            of_users.append((GAP,))
        most = PAIR_CODES // max(pool.rows, 1)
        two = TwoRows.of(codes, names, pool.start, most, seed)
        of_users += two.tables
        rows = RowTables.of({**codes, **two.codes}, [*tables, *of_users], {**sizes, **two.sizes})
        targets = []
        every = slice(0, len(tables))
        moved = rows.counts(pool.start, odds.moved, every) if odds.moved.any() else None
        for i, known in enumerate(rows.counts(pool.start, pool.part, every)):
            if tables[i] and set(tables[i]) <= set(self.others):
                known += np.bincount(self._cells(self.others, tables[i]), minlength=len(known))
            target = wanted * (known / known.sum())
            targets.append(target if moved is None else np.maximum(target + moved[i], 0.0))
        if of_users:
            targets += rows.counts(pool.start, step * odds.users, slice(len(tables), None))
        return rows, targets, len(of_users)

    def _quoted(
        self, pool: Pool, released: Sequence[Table], like: np.ndarray, part: float
    ) -> np.ndarray:
        """How often each user is wanted where quotes hold too. These may move rows per user, which
        are known as well as by a sample, but not the number of rows and users."""
        size = pool.size
        even = self._even(pool)
        quoted = lines(self.quotes, pool.codes, pool.start, even, self.rows)
        own = np.bincount(like, even)
        mean_rows = float((even * size).sum()) / self.users
        mean = (size - mean_rows) / size.max()
        exact = np.zeros(1)
        rows = Lines(mean[None], exact, np.full(1, EXACT * self.users * mean_rows / size.max()))
        everyone = Cells(np.zeros(pool.users, np.int64), np.full(1, self.users), exact)
        about_rows = (Cells(like, own, np.sqrt(own)), rows, everyone)
        weights, _ = raked([quoted, *released[:-1], *about_rows], self.users, pool.part)
        return weights * (part * float(pool.part.sum()) / self.users)

    def _even(self, pool: Pool) -> np.ndarray:
        """The weights of the pool's users where nothing is known of them."""
        return self.users / float(pool.part.sum()) * pool.part

    def _seen(self, pool: Pool) -> _Seen:
        """What the releases about users can see of each user."""
        facts = pool_facts(self.view, self.schema, pool.codes, pool.start)
        return _Seen(
            [m.cells(facts) for m in self.marginals],
            [agreement(pool.codes[name], pool.start) for name in self.agreed.columns],
            []
            if self.gaps is None
            else list(self.gaps.of_users(pool.codes, self.sizes, pool.start)),
        )

    def _released(self, pool: Pool, seen: _Seen, like: np.ndarray) -> list[Table]:
        """All that was released about users, as tables of the pool's users. Rows per user, in bins
        `like` and the last table, are the pool's own, which was drawn by all that is known of them."""
        tables: list[Table] = [
            Cells(cells, m.users, m.error) for cells, m in zip(seen.cells, self.marginals)
        ]
        even = self._even(pool)
        many = (pool.size > 1).astype(float)
        repeated = float((even * many).sum())
        for both, rate, error in zip(seen.agreement, self.agreed.rates, self.agreed.errors):
            # one number with two cells, so each of them weighs half
            doubt = np.full(2, np.sqrt(2) * error * repeated)
            wanted = repeated * np.array([rate, 1 - rate])
            tables.append(Shares(np.array([both, many - both]), wanted, doubt))
        if self.gaps is not None:
            error = np.full(len(seen.gaps), repeated * self.gaps.error)
            tables.append(Shares(np.array(seen.gaps), repeated * self.gaps.shares, error))
        own = np.bincount(like, even)
        return [*tables, Cells(like, own, np.zeros(len(own)))]

    def _cells(self, codes: Codes, columns: Sequence[str]) -> np.ndarray:
        """The cell of each row over one or two columns."""
        if len(columns) == 1:
            return codes[columns[0]]
        a, b = columns
        return codes[a].astype(np.int64) * self.sizes[b] + codes[b]

    def _pairs(self, names: Sequence[str], rows: int) -> list[tuple[str, str]]:
        """Pairs of columns, those of most cells first, as many as the pool's `rows` and their cells
        leave room for."""
        cells = {
            (a, b): self.sizes[a] * self.sizes[b]
            for a, b in combinations([n for n in names if n in self.sizes], 2)
        }
        likely = [pair for pair in cells if cells[pair] <= MOST_CELLS]
        ordered = sorted(likely, key=lambda pair: -cells[pair])
        fit = bisect_right(list(accumulate(cells[pair] for pair in ordered)), PAIR_CELLS)
        return ordered[: max(LEAST_PAIRS, min(fit, PAIR_CODES // max(rows, 1)))]


class _Seen(Struct, frozen=True, eq=False):
    """What the releases about users can see of a pool's users: the cell of each in each marginal; how
    often two rows of each agree, by column; the share of its gaps in each bin."""

    cells: list[np.ndarray]
    agreement: list[np.ndarray]
    gaps: list[np.ndarray]

    def joined(self, siblings: _Seen, user: np.ndarray) -> _Seen:
        """The same of a pool of these users followed by siblings, in the order `user`."""
        both = (
            [np.append(own, more)[user] for own, more in zip(mine, theirs)]
            for mine, theirs in (
                (self.cells, siblings.cells),
                (self.agreement, siblings.agreement),
                (self.gaps, siblings.gaps),
            )
        )
        return _Seen(*both)


class _Odds(Struct, frozen=True, eq=False):
    """How likely the pool's users are chosen.

    asked : how often each user is wanted, which may be more than once
    users : how likely each user is chosen, at most 1
    moved : by how much quotes changed that; they change the rows that are wanted as much
    tables, factors : what the odds come from
    """

    asked: np.ndarray
    users: np.ndarray
    moved: np.ndarray
    released: Sequence[Table]
    factors: Sequence[np.ndarray]


class _Tables:
    """Tables of the chosen: the cells of users in each, the counts that are wanted, and the
    weights of squared differences."""

    def __init__(self) -> None:
        self.cells: list[np.ndarray] = []
        self.target: list[np.ndarray] = []
        self.weight: list[np.ndarray] = []

    def add(self, cells: np.ndarray, target: np.ndarray, least: bool = False) -> None:
        """`least`: each count weighs as much as one of a single user, so that it is not given up for
        others."""
        self.cells.append(cells.astype(np.uint32))
        self.target.append(target.astype(np.float64))
        self.weight.append(_tight(np.ones(len(target)) if least else target))


def _tight(target: np.ndarray) -> np.ndarray:
    """The weights of squared distances from these counts."""
    return 1 / (TIGHT * np.maximum(target, 1.0))


def _asked(
    weights: np.ndarray, part: np.ndarray, like: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """How often each user is asked for: in proportion to the weights among users who are alike, of
    whom `wanted` are. Tables that contradict each other may leave all of a kind without weight. These
    are asked for as often as each counts (`part`)."""
    there = np.bincount(like, weights)
    lost = there <= wanted * np.finfo(float).tiny
    weights = np.where(lost[like], part, weights)
    return weights * (wanted / np.where(lost, np.bincount(like, part), there))[like]


def _at_most_one(asked: np.ndarray, like: np.ndarray) -> np.ndarray:
    """How likely each user is chosen, if they are asked for so often: what is above 1 is given to others
    who are alike."""
    wanted = np.bincount(like, asked)
    odds = np.minimum(asked, 1.0)
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
        user = int(others[at])
        part = min(-over, int(rows[user]))
        keep[user] = part
        over += part
        others = np.delete(others, at)
    return keep

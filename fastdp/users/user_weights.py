"""Raking: how often each user of a pool is wanted, such that what was released about users holds.

The pool is a guess of who the users are, and each released table is the truth's with Gaussian noise.
Weights w of the pool's users minimise

    N KL(w | pool) + sum over tables and cells of (w's count - released count)^2 / (2 k sigma^2):

the weights nearest to the pool that meet the tables, each as far as its noise lets it. So users
whose facts go together keep them together. Tables that contradict each other meet in between, by
their precision. A draw of N users differs from the pool by chance. The truth differs from it more, by
the factor 1 / k (`surplus`), which is found from all tables together. So a pool that is as right as can
be seen stays as it is.

A weight is the product of one factor for each of its user's cells (shares: powers of them), and the
factors' logarithms l minimise the convex dual

    sum of w - sum of l y + k / 2 sum of sigma^2 l^2,

whose derivative is the count less the one wanted, and k sigma^2 l. L-BFGS finds them on some of the
users; one turn of iterative proportional fitting, which goes from table to table, corrects them on
all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from .descent import minimum

STEPS = 200
"""Steps of L-BFGS at most."""
NEAR = 2e-6
"""A step is the last if it lowers the dual by less for each cell. The dual is in squared standard errors
by two, of which noise alone is worth a half for each cell."""
FLAT = 1e-3
"""The same where no factor would gain: the slope by each factor in units of its count's standard error."""
MOST_LOG = 30.0
"""The largest logarithm of a weight."""
ROUNDS = 12
"""Newton's steps for a cell's factor."""
FARTHEST = 1.0
"""The longest of these steps, in the factor's logarithm."""


class Cells(Struct, frozen=True, eq=False):
    """A table in which each user of the pool is in one cell. `wanted`: users in each cell, of all
    that there are; `error`: the standard error of each, 0 if it is exact."""

    cells: np.ndarray
    wanted: np.ndarray
    error: np.ndarray

    @property
    def users(self) -> int:
        return len(self.cells)

    def tally(self, weights: np.ndarray) -> np.ndarray:
        return np.bincount(self.cells, weights, len(self.wanted))

    def change(self, factors: np.ndarray) -> np.ndarray:
        """What factors of cells, given by their logarithms, add to the logarithm of each weight."""
        return factors[self.cells]

    def times(self, factors: np.ndarray) -> np.ndarray:
        """What each weight is multiplied by, for factors of cells by their logarithms."""
        return np.exp(factors)[self.cells]

    def some(self, users: slice) -> Cells:
        return Cells(self.cells[users], self.wanted, self.error)

    def with_error(self, error: np.ndarray) -> Cells:
        return Cells(self.cells, self.wanted, error)


class Shares(Struct, frozen=True, eq=False):
    """A table in which a user is in several cells, by shares [cells, users] that add up to at most
    1."""

    shares: np.ndarray
    wanted: np.ndarray
    error: np.ndarray

    @property
    def users(self) -> int:
        return self.shares.shape[1]

    def tally(self, weights: np.ndarray) -> np.ndarray:
        return np.array([float((row * weights).sum()) for row in self.shares])

    def change(self, factors: np.ndarray) -> np.ndarray:
        out = np.zeros(self.shares.shape[1])
        for row, factor in zip(self.shares, factors):
            out += row * factor
        return out

    def times(self, factors: np.ndarray) -> np.ndarray:
        return np.exp(self.change(factors))

    def some(self, users: slice) -> Shares:
        return Shares(self.shares[:, users], self.wanted, self.error)

    def with_error(self, error: np.ndarray) -> Shares:
        return Shares(self.shares, self.wanted, error)


class Lines(Struct, frozen=True, eq=False):
    """Sums over users that are wanted: `values` [sums, users] are any numbers of at most 1 in size."""

    values: np.ndarray
    wanted: np.ndarray
    error: np.ndarray

    @property
    def users(self) -> int:
        return self.values.shape[1]

    def tally(self, weights: np.ndarray) -> np.ndarray:
        return np.array([float((row * weights).sum()) for row in self.values])

    def change(self, factors: np.ndarray) -> np.ndarray:
        out = np.zeros(self.values.shape[1])
        for row, factor in zip(self.values, factors):
            out += row * factor
        return out

    def some(self, users: slice) -> Lines:
        return Lines(self.values[:, users], self.wanted, self.error)

    def with_error(self, error: np.ndarray) -> Lines:
        return Lines(self.values, self.wanted, error)


Table = Cells | Shares | Lines


def raked(
    tables: Sequence[Table],
    users: float,
    part: np.ndarray,
    most: int = 1 << 15,
    near: Sequence[np.ndarray] | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(weights, logarithms of cells' factors by table) of the users of a pool, who stand for so many
    `users`, each counting as its `part`. Factors are found on every so many users, fewer than twice
    `most`, then corrected on all. `near`: logarithms to start with."""
    every = slice(None, None, max(1, len(part) // most))
    some = [table.some(every) for table in tables]
    even = users / part[every].sum() * part[every]
    some = [_trusted(table, even) for table in some]
    tables = [table.with_error(own.error) for table, own in zip(tables, some)]
    relief = 1 / surplus(some, even)
    factors = _factors(some, even, relief, near)
    logs = np.zeros(len(part))
    for table, factor in zip(tables, factors):
        logs += table.change(factor)
    weights = users / part.sum() * part * np.exp(np.minimum(logs, MOST_LOG))
    return _turn(tables, weights, factors, relief), factors


def _trusted(table: Table, weights: np.ndarray) -> Table:
    """The table, where lines whose sum the pool contradicts have smaller errors. If the pool is further from
    the wanted sum than a sample of users and noise explain, it is trusted less, by as many times."""
    if not isinstance(table, Lines):
        return table
    apart = np.square(table.tally(weights) - table.wanted) - np.square(table.error)
    times = np.maximum(apart / np.maximum(_spread(table, weights), 1e-300), 1.0)
    return table.with_error(table.error / np.sqrt(times))


def _factors(
    tables: Sequence[Table],
    even: np.ndarray,
    relief: float,
    near: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The logarithm of each cell's factor, by table: the minimum of the dual."""
    from .._core import choose as core

    slack = relief * np.square(np.concatenate([table.error for table in tables]))
    start = np.concatenate([_spread(table, even) for table in tables])
    wanted = np.concatenate([table.wanted for table in tables])
    # No factor brings users into a cell that has none here: where its count is exact, the dual would
    # have no minimum. Such a factor stays 0.
    wanted = np.where(start > 0, wanted, 0.0)
    ends = np.cumsum([len(table.wanted) for table in tables])[:-1]
    unit = 1 / np.sqrt(slack + np.maximum(start, 1.0))
    cells, values, lines = _numbered(tables)

    def dual(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        factors = scaled * unit
        total, counts = core.weigh(cells, values, lines, even, MOST_LOG, factors)
        value = total + float(((0.5 * slack * factors - wanted) * factors).sum())
        return value, (counts - wanted + slack * factors) * unit

    begin = np.zeros(len(unit)) if near is None else np.concatenate(near) / unit
    return np.split(minimum(dual, begin, NEAR * len(unit), FLAT, STEPS) * unit, ends)


def _numbered(tables: Sequence[Table]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(uint32 [users, tables], the number of each user's cell in each table of cells; [users, lines], what
    users count in each other sum; int64, the number of each of these). Cells and sums of all tables are
    numbered together, in order."""
    first = np.cumsum([0, *(len(table.wanted) for table in tables)])
    cells = [at + t.cells for at, t in zip(first, tables) if isinstance(t, Cells)]
    others = [(at, t) for at, t in zip(first, tables) if not isinstance(t, Cells)]
    values = [t.values if isinstance(t, Lines) else t.shares for _, t in others]
    numbers = [np.arange(at, at + len(t.wanted)) for at, t in others]
    users = tables[0].users if tables else 0
    return (
        np.ascontiguousarray(np.array(cells, np.uint32).reshape(-1, users).T),
        np.ascontiguousarray(np.concatenate([np.empty((0, users)), *values]).T),
        np.concatenate([np.empty(0, np.int64), *numbers]),
    )


def _spread(table: Table, weights: np.ndarray) -> np.ndarray:
    """The second derivative of the dual by each factor, but for noise; of shares, at least that."""
    if isinstance(table, Lines):
        return np.array([float((row * row * weights).sum()) for row in table.values])
    return table.tally(weights)


def _turn(
    tables: Sequence[Table], weights: np.ndarray, factors: Sequence[np.ndarray], relief: float
) -> np.ndarray:
    """The weights after each table was met once. Let W be the count of a cell now. For one table the
    dual is least where W e^d + k sigma^2 (l + d) is the count that is wanted, cell by cell, which has
    one solution d. For tables of shares that is the step that Jensen's inequality allows. Lines are
    met one after the other."""
    for table, factor in zip(tables, factors):
        slack = relief * np.square(table.error)
        if isinstance(table, Lines):
            for row, wanted, own, start in zip(table.values, table.wanted, slack, factor):
                weights = weights * np.exp(row * _line_step(row, weights, wanted, own, start))
            continue
        step = _step(table.tally(weights), table.wanted, slack, factor)
        weights = weights * table.times(step)
    return weights


def _line_step(
    row: np.ndarray, weights: np.ndarray, wanted: float, slack: float, factor: float
) -> float:
    """The step of one sum's factor, by Newton's method."""
    step = 0.0
    for _ in range(ROUNDS):
        now = weights * np.exp(row * step)
        over = float((now * row).sum()) + slack * (factor + step) - wanted
        slope = float((now * row * row).sum()) + slack
        step -= float(np.clip(over / max(slope, 1e-300), -FARTHEST, FARTHEST))
    return step


def surplus(tables: Sequence[Table], weights: np.ndarray) -> float:
    """How many times as far from the pool the truth is as users drawn from it would be, at least 1. It
    is squared differences less those of noise, over the pool's own counts, weighed by precision."""
    counts = [t for t in tables if not isinstance(t, Lines) and (np.asarray(t.error) > 0).all()]
    known = [(t.tally(weights), t) for t in counts]
    if not known:
        return 1.0
    count = np.concatenate([c for c, _ in known])
    noise = np.square(np.concatenate([t.error for _, t in known]))
    apart = np.square(np.concatenate([t.wanted for _, t in known]) - count) - noise
    found = 1.0
    for _ in range(ROUNDS):
        precision = count / np.square(noise + found * count)
        own = float((precision * count).sum())
        found = max(1.0, float((precision * apart).sum()) / max(own, 1e-300))
    return found


def _step(now: np.ndarray, wanted: np.ndarray, slack: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """The step of each cell's factor, in logarithms; 0 in cells without users."""
    step = np.zeros(len(now))
    there = now > 0
    for _ in range(ROUNDS):
        value = now * np.exp(step)
        over = value + slack * (factor + step) - wanted
        step -= np.clip(over / np.maximum(value + slack, 1e-300), -FARTHEST, FARTHEST)
    return np.where(there, step, 0.0)

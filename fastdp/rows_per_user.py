"""What a released histogram says of rows per user: one posterior, asked by the choice of the clip,
synthetic users, answers, plans and linked tables.

A run counts users by their number of rows, in bins of about half an octave, each with Gaussian
noise. Three assumptions turn the noisy counts into a distribution. They are the same for all who
ask.

*Inside a bin*, the share of users with up to r rows is linear in log(r). Numbers of rows usually
spread over octaves, so this is even where nothing is known. It needs no logarithm: the users of a
run of numbers a..b-1 weigh (b - a) / (a + b) and have (a + b - 1) / 2 rows. The weight is log(b /
a) / 2 up to a part ((b - a) / (a + b))^2 / 3 of it.

*From bin to bin*, users differ by about as many as there are, or by a quarter of a standard error.
Neighbours are drawn to each other where noise explains their difference, and panels (one number of
rows for all) stay. No bin has fewer than 0 users. This holds up to the last bin in which users are
there for sure: alone or together with bins before it they stand out of the noise, the clearer the
more rows they would add (`last_users`).

*Beyond that bin* the tail is Pareto. Its start is the last octave in which users stand out. Its
index has the weights that the histogram gives; without it, all of INDICES would have the same. The
estimate of its rows has the least expected relative error of the number of all rows (`_tail`): where
noise leaves open whether there are few or many, it is near the few. The upper end of an interval is
the point UPPER of them, and two standard deviations of who happens to be there. A tail that ends as
the histogram does has a steep index and no rows. Nothing can show users who are few and far beyond
the others.

Everything is post-processing of released numbers, without randomness but in `draw`. It uses sums,
products, quotients and roots, and no step jumps where a sum of floats ends in other last bits. So
`fastdp verify` finds the same clip on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from .errors import UsageError
from .significance import LIKELY, SURE

Array = np.ndarray

RUNS = 8
"""Most runs of whole numbers that a bin is divided into."""

# These four were chosen on 19 generated distributions of rows per user (geometric, negative binomial,
# lognormal, gamma, Weibull, Pareto, uniform, constant; 545 to 20,000 users) at epsilon 1 and 10.
LEAST_STEP = 0.25
"""Standard errors by which neighbouring bins may differ at no cost."""
SMOOTHED = 4
"""Times that bins are smoothed, each by the users found before."""
AFTER = 5
"""Extra bins kept after the last significant one, where the number of rows is known."""

# These two were chosen on generated rows per user (Pareto 1 to 3, lognormal, geometric, Poisson,
# uniform; 1,000 and 8,000 users, epsilon 1 and 10).
INDICES = np.append(np.linspace(0.8, 12, 27), [16, 24, 40, 80, 200, 1000])[:, None]
"""Indices of the Pareto tails that are compared."""
LENGTHS_PER_RANGE = 8
"""Lengths of runs that are judged together differ by at most this part of the shortest, 1/8. A finer
division costs time for every cell, a coarser one lets more cells through that are then looked at."""
UPPER = 0.95
"""The point of the likely tails at which intervals end."""


def size_edges(bound: int) -> tuple[int, ...]:
    """Lower edges of the rows-per-user bins up to the bound: 1, 2, 3, 4, 6, 8, 12, 16, ... (two per
    octave)."""
    edges = [1, 2, 3]
    step = 4
    while step <= bound:
        edges += [step, step + step // 2]
        step *= 2
    return tuple(e for e in edges if e <= bound)


def standing_bar(cells: int) -> float:
    """Standard errors that no sum of consecutive ones of `cells` empty cells exceeds in 19 of 20
    tables."""
    return math.sqrt(2 * math.log(20 * max(cells * (cells + 1) // 2, 2)))


def last_run(
    values: Array | Sequence[float], errors: Array | Sequence[float] | float
) -> tuple[int, int]:
    """The first and last cell of the last run that stands out of its noise; (-1, -1) if there is none.
    It starts at the last cell k such that a sum of k..j stands out, and ends at the first such j.
    Noise alone in the bins of thousands of rows would count as many more rows than a table has."""
    values = np.asarray(values, float)
    errors = np.broadcast_to(np.asarray(errors, float), values.shape)
    bar = standing_bar(values.size)
    for k in np.flatnonzero(_may_stand_out(values, errors, bar))[::-1]:
        above = np.cumsum(values[k:])
        noise = np.cumsum(np.square(errors[k:]))
        found = np.flatnonzero(above > bar * np.sqrt(noise))
        if len(found):
            return int(k), int(k + found[0])
    return -1, -1


def _may_stand_out(values: Array, errors: Array, bar: float) -> Array:
    """Whether a run from each cell may exceed `bar` standard errors; False is certain.

    Lengths a..b-1 are judged together: no sum exceeds the largest of them, and none has less noise
    than that of length a. Time grows as n log n, that of all runs as n^2."""
    n = values.size
    sums = np.concatenate([[0.0], np.cumsum(values)])
    noise = np.concatenate([[0.0], np.cumsum(np.square(errors))])
    rounding = 4.0 * n * np.finfo(float).eps
    slack = rounding * np.abs(values).sum()
    possible = np.zeros(n, bool)
    a = 1
    width = 1
    largest = sums  # largest[i]: the largest of sums[i : i + width]
    while a <= n:
        b = a + max(1, a // LENGTHS_PER_RANGE)
        while 2 * width <= b - a:
            largest = np.maximum(largest, np.append(largest[width:], [-np.inf] * width))
            width *= 2
        starts = n + 1 - a
        second = np.minimum(np.arange(starts) + b - width, n)
        reached = np.maximum(largest[a:], largest[second]) - sums[:starts] + slack
        least = np.maximum(noise[a:] - noise[:starts] - rounding * noise[-1], 0.0)
        possible[:starts] |= ~(reached <= bar * np.sqrt(least))
        a = b
    return possible


def last_bin(values: Array | Sequence[float], errors: Array | Sequence[float] | float) -> int:
    """The last cell that holds something for sure; -1 if there is none (`last_run`)."""
    return last_run(values, errors)[1]


def last_users(
    values: Array | Sequence[float],
    errors: Array | Sequence[float] | float,
    edges: Sequence[int],
    bound: int,
) -> int:
    """The last bin of rows per user in which users are there for sure; -1 if there is none.

    Users who are not there cost as many rows as they would have: 100 of them with 4,000 rows each are
    a thousand times the rows of 100 others. So a run that stands out (`last_run`) and would multiply
    the number of rows by c has to be c times as likely. By that the relative error of the number of
    rows is least, as for tails (`_tail`). The number of rows without the run is that up to the run
    before, and at least one for each user."""
    values = np.asarray(values, float)
    errors = np.broadcast_to(np.asarray(errors, float), values.shape)
    bar = standing_bar(values.size)
    rows = np.cumsum(np.maximum(values, 0.0) * mean_rows(edges, bound))
    before = max(float(values.sum()), float(rows[0]), 1.0)
    last = -1
    for k in np.flatnonzero(_may_stand_out(values, errors, bar)):
        above = np.maximum(np.cumsum(values[k:]), 0.0)
        noise = np.cumsum(np.square(errors[k:]))
        times = np.maximum(rows[k:] / before, 1.0)
        found = np.flatnonzero(above > np.sqrt((bar**2 + 2 * np.log(times)) * noise))
        if len(found):
            last = int(k + found[0])
            before = max(before, float(rows[last]))
    return last


def runs_of(low: int, high: int) -> list[tuple[float, float]]:
    """(rows, part of the bin's users) for runs of the whole numbers low..high-1."""
    count = min(RUNS, high - low)
    cuts = [low + i * (high - low) // count for i in range(count + 1)]
    weights = [(b - a) / (a + b) for a, b in pairwise(cuts)]
    total = math.fsum(weights)
    return [((a + b - 1) / 2, w / total) for a, b, w in zip(cuts, cuts[1:], weights)]


def mean_rows(edges: Sequence[int], bound: int, most: float = math.inf) -> Array:
    """The mean number of rows of the users of each bin, of each at most `most`."""
    ends = [*edges[1:], bound + 1]
    means = [
        math.fsum(min(r, most) * part for r, part in runs_of(int(a), int(b)))
        for a, b in zip(edges, ends)
    ]
    return np.array(means)


def places(codes: Array, edges: Array, ends: Array, uniform: Array) -> Array:
    """A number of rows for each bin of `codes`, at these places (0 to 1) of the shares of its
    users. This is the inverse of the cumulative distribution inside bins."""
    low = edges[codes]
    high = np.maximum(ends[codes], edges[codes] + 1)
    first = np.maximum(low, 1)
    drawn = (first * (high / first) ** uniform).astype(np.int64)
    return np.where(low == 0, 0, np.minimum(drawn, high - 1))


class Tail(Struct, frozen=True, eq=False):
    """Users with more than `beyond` rows: `sizes` and `users` of the index taken, the mean of users
    over all indices (`expected`), and how many users are in each bin. The rows of these, and the
    UPPER point of rows (`most_rows`), count beyond the first `beyond` of each user."""

    beyond: int
    sizes: Array
    users: Array
    expected: Array
    in_bins: Array | None
    rows: float
    most_rows: float

    @classmethod
    def none(cls, beyond: int) -> Tail:
        return cls(
            beyond=beyond,
            sizes=np.zeros(0),
            users=np.zeros(0),
            expected=np.zeros(0),
            in_bins=None,
            rows=0.0,
            most_rows=0.0,
        )


class RowsPosterior(Struct, frozen=True, eq=False):
    """The posterior of rows per user.

    `last`: the last bin in which users are there for sure. `users`: of each bin up to it, and of some more
    where rows were counted; 0 beyond. `values`, `spread`: the estimate without smoothing, and its
    covariance. `tail`: users beyond the last bin. `bound`: the end of the last bin. `limit`: the most rows
    that a user may have, at least the bound."""

    edges: tuple[int, ...]
    bound: int
    limit: int
    users: Array
    last: int
    values: Array
    spread: Array

    @classmethod
    def of(
        cls,
        edges: Sequence[int],
        values: Array | Sequence[float],
        errors: Array | Sequence[float] | float,
        bound: int,
        limit: int | None = None,
    ) -> RowsPosterior:
        """From one histogram of users with standard errors. `bound`: the end of its last bin;
        `limit`: the most rows that a user may have, where that is more."""
        if len(values) != len(edges):
            raise UsageError(
                f"expected {len(edges)} bins for a histogram up to {bound} rows, got {len(values)}"
            )
        values = np.asarray(values, float)
        errors = np.broadcast_to(np.asarray(errors, float), values.shape)
        inverse = np.diag(1 / np.square(errors))
        return cls.from_evidence(edges, inverse, values / np.square(errors), bound, limit)

    @classmethod
    def from_evidence(
        cls,
        edges: Sequence[int],
        inverse: Array,
        right: Array,
        bound: int,
        limit: int | None = None,
        counted: tuple[Array, float] | None = None,
    ) -> RowsPosterior:
        """From Gaussian evidence on the users of all bins: its precision matrix and this times the
        values. `counted`: weights of bins in a number of rows and its noisy value, both in standard
        errors. With it, AFTER extra bins are kept after the last significant one. More are kept
        where rows are missing by LIKELY standard errors."""
        edges = tuple(int(e) for e in edges)
        spread = np.linalg.inv(inverse)
        values = spread @ right
        errors = np.sqrt(np.diag(spread))
        last = last_users(values, errors, edges, bound)
        error = float(errors.min())
        if counted is None:
            users = _smoothed(inverse, right, values, error, last + 1)
        else:
            weight, value = counted
            with_total = inverse + np.outer(weight, weight)
            with_value = right + weight * value
            there = max(last + 1, 1)
            users = _smoothed(with_total, with_value, values, error, there + AFTER)
            while there + AFTER < len(edges) and weight @ users < value - LIKELY:
                there += 1
                users = _smoothed(with_total, with_value, values, error, there + AFTER)
        return cls(
            edges=edges,
            bound=bound,
            limit=max(limit or bound, bound),
            users=users,
            last=last,
            values=values,
            spread=spread,
        )

    @property
    def ends(self) -> Array:
        """The most rows of a user of each bin."""
        return np.array([*self.edges[1:], self.bound + 1]) - 1

    @property
    def most(self) -> int:
        """The most rows of users who are there for sure; 1 where none is."""
        return int(self.ends[self.last]) if self.last >= 0 else 1

    @property
    def tail(self) -> Tail:
        return self.beyond(self.most)

    def beyond(self, most: int) -> Tail:
        """Users with more than `most` rows, by Pareto tails."""
        if self.last < 0 or most >= self.limit or len(self.edges) < 3:
            return Tail.none(most)
        errors = np.sqrt(np.diag(self.spread))
        seen = float(mean_rows(self.edges, self.bound, most) @ self.users)
        return _tail(self.values, errors, self.edges, self.limit, most, seen)

    def points(self, tail: bool = True) -> tuple[list[float], list[float]]:
        """(rows, users) of a distribution on few numbers of rows; with the tail or without."""
        sizes: list[float] = []
        users: list[float] = []
        unseen = self.tail
        own = np.array(self.users)
        if tail and self.most == self.bound < self.limit:
            # The last bin has users with any more rows: they are not counted twice.
            own[-1] = max(own[-1] - float(unseen.users.sum()), 0.0)
        for low, high, n in zip(self.edges, self.ends + 1, own):
            for rows, part in runs_of(low, int(high)) if n > 0 else ():
                sizes.append(rows)
                users.append(float(n) * part)
        if tail:
            sizes += unseen.sizes.tolist()
            users += unseen.users.tolist()
        return sizes, users

    def rows(self, most: float = math.inf, tail: bool = True) -> float:
        """The number of rows, of each user at most `most`."""
        sizes, users = self.points(tail)
        return math.fsum(min(r, most) * n for r, n in zip(sizes, users))

    def error(self, weight: Array) -> float:
        """Standard error of the users of bins up to the last, times weights: from noise alone."""
        weight = np.where(np.arange(weight.size) <= self.last, weight, 0.0)
        return math.sqrt(max(float(weight @ self.spread @ weight), 0.0))

    def by_bin(self) -> Array:
        """Users of all bins, those of the tail at the places of its rows."""
        tail = self.tail.in_bins
        return np.array(self.users) if tail is None else np.maximum(self.users, tail)


def _smoothed(matrix: Array, vector: Array, values: Array, error: float, there: int) -> Array:
    """Users >= 0 of the first `there` bins, neighbours drawn to each other; 0 beyond."""
    out = np.zeros(values.size)
    there = min(there, values.size)
    if there <= 0:
        return out
    found = np.maximum(values[:there], 0.0)
    steps = np.eye(there) - np.eye(there, k=1)
    part = matrix[:there, :there]
    right = vector[:there]
    for _ in range(SMOOTHED):
        scaled = steps / np.maximum(np.abs(steps) @ found / 2, LEAST_STEP * error)[:, None]
        found = _nonnegative(part + scaled.T @ scaled, right)
    out[:there] = found
    return out


def _nonnegative(matrix: Array, right: Array) -> Array:
    """The least x' matrix x / 2 - right' x over x >= 0, for a positive definite matrix. Unknowns
    that become negative are set to 0, and come back where the derivative says so."""
    free = np.ones(right.size, bool)
    x = np.zeros(right.size)
    scale = 1e-9 * max(float(np.abs(right).max(initial=0.0)), 1e-300)
    for _ in range(3 * right.size):
        x[:] = 0.0
        if free.any():
            x[free] = np.linalg.solve(matrix[np.ix_(free, free)], right[free])
        if (x < 0).any():
            free &= x > 0 if (x < 0).sum() > 1 else x >= 0
            continue
        slope = np.where(free, 0.0, matrix @ x - right)
        if slope.min() >= -scale:
            break
        free[int(np.argmin(slope))] = True
    return np.maximum(x, 0.0)


def _tail(
    counts: Array, errors: Array, edges: Sequence[int], limit: int, most: int, seen: float
) -> Tail:
    """Users with more than `most` rows by Pareto tails that fit the bins from their start on. The
    last bin has the users with any more rows. `seen`: rows, of each user at most `most`.

    The estimate x of all rows has the least mean of |x / T - 1| over the likely numbers of rows T. That is
    their median when each weighs 1 / T. The median itself errs more: a tail that is not there may add twenty
    times the rows, and a miss costs at most all of them."""
    starts = np.array(edges, float)
    pairs = counts[:-1] + counts[1:]
    noise = np.hypot(errors[:-1], errors[1:])
    clear = (pairs > SURE * noise) & (starts[:-1] <= most)
    first = int(np.flatnonzero(clear).max(initial=1))
    start = starts[first]
    weight = 1 / np.square(errors[first:])
    # For every index: the tail's shares of the bins from `first` on, how many users fit them best,
    # and how likely the counts then are.
    shapes = -np.diff((np.append(starts[first:], limit + 1.0) / start) ** -INDICES)
    norm = np.square(shapes) @ weight
    fit = shapes @ (weight * counts[first:]) / np.sqrt(norm)
    likely = np.exp((np.square(fit) - np.square(fit).max()) / 2) / np.sqrt(norm)
    likely = likely / likely.sum()
    in_tail = np.maximum(fit, 0.0) / np.sqrt(norm)
    octaves = max(1, math.ceil(math.log2((limit + 1) / (most + 1))))
    cuts = np.minimum((most + 1) * 2.0 ** np.arange(octaves + 1), limit + 1)
    sizes = np.sqrt(cuts[:-1] * (cuts[1:] - 1))
    above = np.maximum(np.append(cuts[:-1], np.inf) / start, 1.0) ** -INDICES
    users = -np.diff(above) * in_tail[:, None]
    # Where less than one user is left, there is more often none.
    likely_there = above[:, :-1] * in_tail[:, None] >= 1
    typical = np.where(likely_there, users, 0.0)
    rows = typical @ (sizes - most)
    highest = users @ (sizes - most) + LIKELY * np.sqrt(users @ np.square(sizes - most))
    relative = likely / np.maximum(seen + rows, 1.0)
    middle = _weighted_quantile(rows, relative / relative.sum(), 0.5)
    end = _weighted_quantile(highest, likely, UPPER)
    left = np.maximum(np.append(np.maximum(starts, most + 1), np.inf) / start, 1.0)
    left = left ** -float(INDICES[middle, 0]) * in_tail[middle]
    in_bins = np.where(left[:-1] >= 1, -np.diff(left), 0.0)
    return Tail(
        beyond=most,
        sizes=sizes,
        users=typical[middle],
        expected=likely @ users,
        in_bins=in_bins,
        rows=float(rows[middle]),
        most_rows=float(highest[end]),
    )


def _weighted_quantile(values: Array, weights: Array, part: float) -> int:
    """The place of the value that a part of the weights lies at or below."""
    order = np.argsort(values, kind="stable")
    at = int(np.searchsorted(np.cumsum(weights[order]), part))
    return int(order[min(at, order.size - 1)])

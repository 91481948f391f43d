"""What a clip did to the counts: the factor from rows that count to rows of the table, and the share left
out.

At clip C the rows of a user with R rows weigh min(1, C / R). Estimates are about weighted rows; a table's
rows are `factor` times as many, by the released histogram of rows per user. How the rows left out are divided
among cells is not known. Downwards there is a bound: a cell has at least the rows that count, a share `lost`
less. Upwards there is none that is of use: a cell may hold the rows of the busiest users alone. The allowance
is REACH standard deviations of the factor from row to row, for columns that are constant for a user.

A count is off by the covariance, over users, of the factor and of a cell's share in a user's rows, so by at
most the product of their standard deviations. The variance of the shares, as a part of what it is for a
constant column, is the column's lift: how much more often than by chance two rows of a user agree. Where the
run released it, the allowance shrinks with its square root.

Users with very many rows may be too few to stand out of the noise of the histogram. The upper end and the
spread of the factor allow for them: the tail of rows per user is taken to go on as the histogram ends
(`_unseen`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from .._util.texttable import plural
from ..measurement import Measurement
from ..privacy import clip as clip_rules
from ..schema import Schema
from ..schema.columns import Column

Stated = Mapping[str, Any]
NONE: Stated = {}
Total = tuple[float, float] | None
Array = np.ndarray
Z95 = NormalDist().inv_cdf(0.975)
"""Allowances were chosen as half-widths at 95 %; divided by it, they scale with the level."""
HISTOGRAM = "rows per user"
UNKNOWN = "nothing says how many rows were left out"
NOBODY = np.zeros(0)
REACH = 1.5
"""Chosen on flights by aircraft, where airlines own either busy or idle aircraft: without noise it covers 91
to 98 % of cells above 300 rows at clips from 16 to 200 (the share left out: 80 to 87 %, 2: 94 to 100 %); of
Chicago trips and simulated trips, whose taxis are more alike, all."""
LEAST_PART = 0.1
"""Added to the lift, since cells differ from the average of their column. Chosen on flights, trips and three
generated tables. Together they cover 94 to 97 % of the values of flights (95 to 97 % with twice the lift) and
95 to 99 % of those of Chicago trips and simulated trips."""
CLEAR = 3.0
"""Standard errors by which the users of the last octave stand out that says how a tail goes on. Chosen on
flights, Chicago trips, simulated trips and generated rows per user (Pareto .9 to 2, lognormal, geometric,
uniform)."""
MEANS = 0.35
"""Correlation, at most, of the factor and a user's mean. At clips 10 and 40, 95 % of group means need .20 and
.10 on Chicago trips, .26 and .23 on flights, .32 and .41 on `orders`, less than .1 on simulated trips and
`diary` (bench/coverage_tables.py)."""


@dataclass(frozen=True)
class Clipping:
    """`factor`, `lost`: see the module's text. `spread`: relative standard errors of the factor, down and up,
    from the histogram's noise and the width of its bins. `known`: False where nothing says how many rows were
    left out. `text`: what to tell a reader. `cluster`: rows of the user of an average row, by which the
    variance of a sample of users is at most larger than that of a sample of rows. `reach`: see the module's
    text, relative to the count. `parts`: of its square, per column, 1 where nothing is known of it.
    `between`: the part of a column's variance that lies between users, per column. `factors`: the factor of
    each group of users by rows. `inside`: the spread of the factor inside these groups, as a part of all of
    it. `apart`: columns that were measured together with the groups."""

    factor: float = 1.0
    lost: float = 0.0
    spread: tuple[float, float] = (0.0, 0.0)
    known: bool = True
    text: str = ""
    cluster: float = 1.0
    reach: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    between: Mapping[str, float] = field(default_factory=dict)
    factors: tuple[float, ...] = (1.0,)
    inside: float = 1.0
    apart: frozenset[str] = frozenset()

    @property
    def lost_text(self) -> str:
        return f"{self.lost:.0%} of the rows are left out" if self.known else UNKNOWN

    def divided_by(self, columns: frozenset[str]) -> Clipping:
        """The same where rows of each group of users are counted apart in these columns: what is left is the
        spread of the factor inside the groups."""

        def less(parts: Mapping[str, float]) -> dict[str, float]:
            return {**parts, **{n: parts.get(n, 1.0) * self.inside**2 for n in columns}}

        return replace(self, parts=less(self.parts), between=less(self.between), apart=columns)

    def over(self, columns: Sequence[str]) -> Clipping:
        """The same for counts over these columns."""
        part = max((self.parts.get(name, 1.0) for name in columns), default=1.0)
        return replace(self, reach=self.reach * math.sqrt(part))

    def divided(self, rows: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
        """How far the division of the rows left out may move counts of `rows` weighted rows of `total`, down
        and up, as standard errors in weighted rows: for a cell, or for all others together, whichever is
        less."""
        rows = np.maximum(rows, 0.0)
        rest = np.maximum(total - rows, 0.0)
        lost = min(self.lost, self.reach)
        down, up = np.minimum(lost * rows, self.reach * rest), np.minimum(self.reach * rows, lost * rest)
        return down / Z95, up / Z95

    def allowance(self, rows: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors down and up, in rows of the table, that clipping causes in counts of `rows`
        weighted rows of `total`: how the rows left out are divided, and how many they are."""
        sides, rows = zip(self.divided(rows, total), self.spread, strict=True), np.maximum(rows, 0.0)
        down, up = (self.factor * np.hypot(d, many * rows) for d, many in sides)
        return down, up

    def of_mean(self, column: Column | None, deviation: np.ndarray) -> np.ndarray:
        """The standard error that clipping causes in means of a column whose values have this standard
        deviation. A mean is off by the covariance, over users, of the factor and of a user's mean: it shrinks
        with the standard deviation of users' means."""
        part = 1.0 if column is None else self.between.get(column.name, 1.0)
        return MEANS * self.reach / REACH * math.sqrt(part) * deviation / Z95


def clipping_of(
    statement: Stated, schema: Schema, measurements: Sequence[Measurement], total: Total = None
) -> Clipping:
    """From the statement of a run and its released histogram of rows per user. `total`: the measured number
    of rows that count, and its standard error."""
    if schema.user is None or statement.get("unit", {}).get("kind") == "event":
        return Clipping()
    parts = statement.get("parts") or [{}]
    part = parts[statement.get("part", 0)]
    clip, choice, bound = part.get("clip"), part.get("clip_choice"), schema.max_rows_per_user
    if clip is None:
        return Clipping(known=False, text="the statement names no clip")
    of_users = dict(statement.get("mechanism", {}).get("users", {}))
    if "max_rows" in (statement.get("schema", {}).get("found") or {}):
        of_users["limit"] = clip_rules.MAX_CHOSEN
    if choice is not None:
        return from_histogram(clip, choice["users"], choice["bound"], choice["sigma"], of_users, total)
    if bound is not None and clip >= bound and "limit" not in of_users:
        text = f"no rows are left out if no user has more than {plural(bound, 'row')}, as the schema says"
        return Clipping(text=text, cluster=bound)
    found = next((m for m in measurements if m.label == HISTOGRAM), None)
    if found is None or bound is None:
        text = f"rows counted at clip {clip}: no histogram of rows per user was released, so {UNKNOWN}"
        return Clipping(known=False, text=text)
    return from_histogram(clip, found.values.tolist(), bound, float(np.max(found.sigma)), of_users, total)


def _parts(of_users: Stated) -> tuple[dict[str, float], dict[str, float]]:
    """`Clipping.parts` and `between` from the agreement of users' rows. Rows of a user may agree seldom and
    still lie near each other: of normal values of which a part r of the variance lies between users, rows of
    a user agree 1 / sqrt(1 - r) times as often as by chance. If they agree or are unrelated, r is the lift.
    The larger one counts. Rows that agree clearly less often than by chance are of a counter, such as the
    number of a visit: its large values are those of busy users alone."""
    doubt, agreement = 2 * of_users.get("standard_error", 0.0), of_users.get("agreement", {})
    rates = {n: (a + doubt, of_users["by_chance"][n] + 1e-9) for n, a in agreement.items()}
    lifts = ((n, max((a - c) / (1 - c + 2e-9), 1 - a / c)) for n, (a, c) in rates.items())
    parts = {n: min(1.0, lift + LEAST_PART) for n, lift in lifts}
    return parts, {n: max(parts[n], 1 - (c / max(a, c)) ** 2) for n, (a, c) in rates.items()}


def _spreads(edges: Sequence[int], sizes: Array, users: Array, clip: int) -> tuple[Array, float, float]:
    """For groups of users by rows, from `edges`: the factor of each; and its standard deviations from row to
    row that counts, of all and inside groups, relative to its mean."""
    at, f = np.searchsorted(edges, sizes, "right") - 1, np.maximum(sizes / clip, 1.0)
    rows, kept, squares = (np.bincount(at, users * sizes * f**p, len(edges)) for p in (0, -1, 1))
    kept = np.maximum(kept, 1e-9)
    mean, every = rows.sum() / kept.sum(), squares.sum() / kept.sum()
    inside = every - float(np.square(rows) @ (1 / kept)) / kept.sum()
    return np.maximum(rows / kept, 1.0), *(math.sqrt(max(v, 0.0)) / mean for v in (every - mean**2, inside))


def from_histogram(
    clip: int, values: Sequence[float], bound: int, sigma: float, of_users: Stated = NONE, total: Total = None
) -> Clipping:
    """From a noisy histogram over `size_edges(bound)` with standard error `sigma` per bin. `of_users`: what
    the statement says of users, where the run counted its rows; its `limit` is the most rows that a user may
    have, where the bound was found in the run and users may have more. `total`: as in `clipping_of`."""
    sizes, users = (np.array(x, float) for x in clip_rules.from_histogram(values, bound, sigma))
    rows, kept = float(sizes @ users), float(np.minimum(sizes, clip) @ users)
    if not kept > 0:
        return Clipping(known=False, text="the histogram of rows per user holds nothing but noise")
    cluster, most = float(np.square(sizes) @ users) / rows, of_users.get("rows_up_to", {}).get("most", bound)
    edges, limit = np.array(clip_rules.size_edges(bound)), of_users.get("limit")
    if limit and len(edges) < 3:
        more = f"users may have more than the {bound} rows found, and {UNKNOWN}"
        return Clipping(known=False, text=f"{more}; if a bound is publicly known, set max_rows in a schema")
    ends = np.append(edges[1:] - 1, bound)
    middle = (edges + ends) / 2
    tail, few = _unseen(values, sigma, edges, limit or bound, most)
    unseen = float(few @ (tail - most))
    if "rows_up_to" in of_users:
        error = sigma * float(np.linalg.norm(np.minimum(middle, clip)))
        if total is not None and total[1] < error and total[0] > 0:
            kept, error = total
        rows, (low, high) = max(float(of_users["rows"]), kept), of_users["rows_up_to"]["interval"]
        unseen = unseen if limit else max(min(unseen, of_users["rows_interval"][1] - high), 0.0)
        sides = (rows - low) / Z95, (high + unseen - rows) / Z95
        # Rows that were counted beyond those of the histogram are of users who do not stand out in it.
        others = max(rows - float(np.minimum(sizes, most) @ users), 0.0) / most
        sizes, users = np.append(sizes, most), np.append(users, others)
        down, up = (math.hypot(error / kept, max(side, 0.0) / rows) for side in sides)
    else:
        # Bins in which nobody stands out count as empty in the factor; their noise says how many rows may be
        # there.
        noise = sigma * float(np.linalg.norm(middle - rows / kept * np.minimum(middle, clip)))
        seen = np.maximum(clip_rules.seen(values, sigma), 0.0) @ np.where(ends > clip, ends - edges, 0.0)
        down = math.hypot(noise, float(seen) / math.sqrt(12)) / rows
        up = math.hypot(down, unseen / Z95 / rows)
    lost = min(max(1 - kept / rows, 0.0), 0.999)
    text = f"clip {clip} leaves out about {lost:.0%} of the rows; counts are scaled up" if lost > 5e-4 else ""
    if unseen > 5e-4 * rows:
        text = ", and ".join(filter(None, (text, f"the upper end allows for users with over {most:,} rows")))
    groups = of_users.get("row_groups", [1])
    factors = tuple(_spreads(groups, sizes, users, clip)[0])
    _, spread, inside = _spreads(groups, np.append(sizes, tail), np.append(users, few), clip)
    about = max(lost, REACH * spread), *_parts(of_users), factors, inside / max(spread, 1e-9)
    return Clipping(rows / kept, lost, (down, up), True, text, cluster, *about)


def _unseen(
    values: Sequence[float], sigma: float, edges: Array, bound: int, most: int
) -> tuple[Array, Array]:
    """Users with more than `most` rows who do not stand out, by octave: rows per user, and users. There are
    as many as the histogram says, or as follow from the last octave in which users stand out; rows per user
    have a Pareto tail. Its index is that of this octave, or of the last one before `most`, since most tails
    grow steeper."""
    above, noise = np.cumsum(values[::-1])[::-1], sigma * np.sqrt(np.arange(len(edges), 0, -1))
    last = int(np.flatnonzero(above > CLEAR * noise).max(initial=2))
    at = int(np.searchsorted(edges, most + 1))
    if not (last < len(edges) and at >= 2 and most < bound and above[last] > 0):
        return NOBODY, NOBODY
    index = math.log(max(above[last - 2] / above[last], 1.0)) / math.log(edges[last] / edges[last - 2])
    seen = above[at] + noise[at] / 2 if at < len(edges) else math.inf
    users = max(min(seen, above[last] * (most / edges[last]) ** -index), 1e-9)
    steeper = max(index, math.log2(max(above[at - 2] / users, 1.0)))
    octaves = np.minimum(most * 2.0 ** np.arange(math.ceil(math.log2(bound / most)) + 1), bound)
    above = users * (octaves[:-1] / most) ** -steeper
    return np.sqrt(octaves[:-1] * octaves[1:]), above - np.append(above[1:], 0.0)

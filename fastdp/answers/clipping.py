"""What a clip did to the counts: the factor from rows that count to rows of the table, and the
share left out.

At clip C the rows of a user with R rows weigh min(1, C / R). Estimates are about weighted rows; a
table's rows are `factor` times as many, by the released histogram of rows per user. How the rows
left out are divided among cells is not known. A cell has at least the rows that count, and at most
the share `lost` of all others moves into it.

Take a cell with a share p of the rows. Relative to it, a count is off by a covariance over rows
that count. It is that of the factor of a row's user with the cell's share in this user's rows over
p. It has two parts:

- Who happens to have the cell: the standard deviation of shares is at most sqrt(1 / p) times the
  square root of the column's lift. The lift is how much more often than by chance two rows of a
  user agree. With `by_user` for the factor's deviations from that of its group of users, squared
  and added up over users, the part is by_user sqrt(lift / p).
- Busy users differ: `tilt` p^(POWER / 2 - 1), as errors of a model do (`misfit`). A run may divide
  rows among groups of users by their number of rows. The model then says how groups differ in a
  column, and the released distance of the model how far off that is. Between groups, the distance
  moves the counts by the factors of groups. Inside groups, shares are taken to change with the
  logarithm of rows per user as fast as from group to group. Counts are corrected for that
  (`_Factors.drifting`), and may be off by as much again. Rows beyond those of the histogram are of
  users as in the last group. Where there are no groups, `tilt` is BLIND times the factor's standard
  deviation, times the square root of the lift.

A mean is off by the same, in standard deviations of its values. But errors of cells of a model have
signs of their own, and where values rise with rows per user, all cells move a mean to one side: it
drifts. A normal distribution that moves by d standard deviations, d small, is at a distance (L1) of
NORMAL d from where it was. So the shares that move inside groups, and those of rows beyond the
histogram, may move a mean by so many standard deviations (`drift_of`).

Users with very many rows may be too few to stand out of the noise of the histogram. Where noise can hide
less than one user in a hundred, the tail of rows per user is taken to go on as the histogram ends
(`rows_per_user`), and the upper end allows for it. In a smaller table nothing shows that: one user in a
hundred with most of the rows leaves no sign. There the upper end of counts and sums rests on a claim
instead, that no user has more than X rows, and needs no shape: the histogram's bins up to X add up to all
rows, with a noise that is known. X is the schema's bound. Without one it is what totals that are asked for
claim too (`hidden_users`); if that end is above twice the estimate, counts and sums are withheld.
Shares and means are then of each user's first rows, and say so.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from .._util.texttable import plural
from ..measurement import Measurement
from ..numbers import hidden_users
from ..numbers.hidden_users import nearest_round
from ..privacy import clip as clip_rules
from ..rows_per_user import RowsPosterior, Tail, mean_rows, size_edges
from ..schema import Schema
from ..significance import Z95

Stated = Mapping[str, Any]
NONE: Stated = {}
Total = tuple[float, float] | None
Array = np.ndarray
"""Allowances were chosen as half-widths at 95 %; divided by it, they scale with the level."""
HISTOGRAM = "rows per user"
UNKNOWN = "nothing says how many rows were left out"

BLIND = 0.2
"""Chosen without groups of users at epsilon 1, on flights by aircraft, where airlines own either
busy or idle aircraft, and on five generated tables: 95 % of counts of flights need .08 to .17, of
the others less than .1. A value that only busy users have is missed; groups of users show it."""
LEAST_PART = 0.1
"""Added to the lift, since cells differ from the average of their column. Chosen on flights, trips
and three generated tables."""
POWER = 1.2
"""As in `misfit`. The allowance then is 1 to 3 times what 95 % of the counts, group totals and
means need (.8 to .9 times on totals of a Pareto(1.5) table). Looked at on flights, events,
patients, purchases (bench/users.py) and ten generated tables, epsilon 1 and 10, two runs each. At
1.6 and 2, pairs and totals are missed."""
NORMAL = math.sqrt(2 / math.pi)


class UpTo(NamedTuple):
    """Rows of the table, of each user at most `most`: users with so many stand out of the noise.
    `low`, `high`: at 95 %. Apart from them, rows `beyond` the first `most` of a user, by the tail
    of rows per user, and the upper end of these."""

    most: int
    rows: float
    low: float
    high: float
    beyond: float
    beyond_high: float


@dataclass(frozen=True)
class Clipping:
    """`factor`, `lost`, `by_user`: see the module's text; so is `tilt`, for columns with lift 1.
    `spread`: relative standard errors of the factor, down and up, from the histogram's noise and
    the width of its bins. `known`: False where nothing says how many rows were left out. `text`:
    what to tell a reader. `cluster`: size-biased mean rows per user (design effect). The variance
    of a sample of users is at most so many times that of a sample of rows. `parts`: the lift, per
    column, 1 where nothing is known of it. `tilts`: per column. `factors`: the factor of each group
    of users by rows (see `_Factors.drifting`). `inside`: what a difference of 1 (L1) between groups
    moves inside them. `drifts`: standard errors of the mean of a column where all cells move it to
    one side, in standard deviations of its values.
    `apart`: columns that were measured together with the groups. `seen`: the number of rows in two
    parts, where the histogram says it. `tail`: the part of `spread` that is by a Pareto tail. `of_totals`,
    `of_shares`: what to tell a reader of counts and sums, of shares and means. `hides`: noise may hide more
    rows than are seen. `claim`: the most rows of a user by which the upper end of totals holds; 0 where it
    is by a tail."""

    factor: float = 1.0
    lost: float = 0.0
    spread: tuple[float, float] = (0.0, 0.0)
    known: bool = True
    text: str = ""
    cluster: float = 1.0
    tilt: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    factors: tuple[float, ...] = (1.0,)
    inside: float = 1.0
    by_user: float = 0.0
    apart: frozenset[str] = frozenset()
    tilts: Mapping[str, float] = field(default_factory=dict)
    drifts: Mapping[str, float] = field(default_factory=dict)
    seen: UpTo | None = None
    tail: float = 0.0
    of_totals: str = ""
    of_shares: str = ""
    hides: bool = False
    claim: int = 0

    @property
    def leaves_out(self) -> bool:
        """Whether rows are left out, as far as anything says so."""
        return not self.known or self.lost > 0

    @property
    def lost_text(self) -> str:
        return f"{self.lost:.0%} of the rows are left out" if self.known else UNKNOWN

    def divided(
        self, rows: Array, total: float, columns: Sequence[str] = ()
    ) -> tuple[Array, Array]:
        """How far the division of the rows left out may move counts over these columns, down and
        up, as standard errors in weighted rows. The counts are of `rows` weighted rows of `total`.
        It is that for a cell, or for all others together, whichever is less."""
        rows = np.maximum(rows, 0.0)
        rest = np.maximum(total - rows, 0.0)
        off = np.minimum(*(n * self.relative(n / max(total, 1e-9), columns) for n in (rows, rest)))
        return np.minimum(self.lost * rows / Z95, off), np.minimum(self.lost * rest / Z95, off)

    def relative(self, share: Array, columns: Sequence[str]) -> Array:
        """The same for counts of a share of the rows, relative to them and without a bound. Also
        for means of a column over such rows, in standard deviations of its values."""
        share = np.clip(share, 1e-9, 1.0)
        parts = {name: self.parts.get(name, 1.0) for name in columns}
        tilts = [self.tilts.get(name, self.tilt * math.sqrt(part)) for name, part in parts.items()]
        busy_users_differ = max(tilts, default=self.tilt) * share ** (POWER / 2 - 1)
        who_has_it = self.by_user * np.sqrt(max(parts.values(), default=1.0) / share)
        return np.hypot(busy_users_differ, who_has_it)

    def tilt_of(self, cells: Array, distance: float) -> float:
        """The tilt of a column. It follows from the model's rows that count, by code and group of
        users, and from their distance from the data where they were not measured together."""
        total = max(float(cells.sum()), 1e-9)
        codes = cells.sum(1) / total
        groups = cells.sum(0) / total
        off = distance / total
        factors = np.array(self.factors)
        away = factors / max(float(factors @ groups), 1.0) - 1
        between = off * float(np.square(away) @ groups) / max(float(np.abs(away) @ groups), 1e-9)
        inside = self.inside * (_dependence(cells) + off)
        return (
            math.hypot(between, inside, self._beyond(cells))
            / float((np.maximum(codes, 1e-12) ** (POWER / 2)).sum())
            / NORMAL
        )

    def drift_of(self, cells: Array) -> float:
        """By how many standard deviations of its values the mean of a column may be off.

        It is off by this if all that `tilt_of` allows for, inside groups and beyond the histogram, moves
        it to one side."""
        return math.hypot(self.inside * _dependence(cells), self._beyond(cells)) / NORMAL

    def _beyond(self, cells: Array) -> float:
        """Part of the rows (L1) that would be in other cells if there were more rows by a standard error of
        their number, of users as in the last group."""
        last = cells[:, -1] / max(float(cells[:, -1].sum()), 1e-9)
        rows = np.maximum(cells @ np.array(self.factors), cells.sum(1))
        more = self.tail / (1 + self.tail)
        return more * float(np.abs(last - rows / max(float(rows.sum()), 1e-9)).sum())

    def allowance(
        self, rows: Array, total: float, columns: Sequence[str] = ()
    ) -> tuple[Array, Array]:
        """Standard errors down and up, in rows of the table, that clipping causes in counts of
        `rows` weighted rows of `total`. They cover how the rows left out are divided, and how many
        they are.
        """
        sides = zip(self.divided(rows, total, columns), self.spread)
        rows = np.maximum(rows, 0.0)
        down, up = (self.factor * np.hypot(d, many * rows) for d, many in sides)
        return down, up


def _dependence(cells: Array) -> float:
    """The distance (L1) of these cells, divided by their sum, from those of independent columns."""
    shares = cells / max(float(cells.sum()), 1e-9)
    return float(np.abs(shares - np.outer(shares.sum(1), shares.sum(0))).sum())


def clipping_of(
    statement: Stated, schema: Schema, measurements: Sequence[Measurement], total: Total = None
) -> Clipping:
    """From the statement of a run and its released histogram of rows per user. `total`: the
    measured number of rows that count, and its standard error."""
    if schema.user is None or statement.get("unit", {}).get("kind") == "event":
        return Clipping()
    part = (statement.get("parts") or [{}])[statement.get("part", 0)]
    clip = part.get("clip")
    choice = part.get("clip_choice")
    bound = schema.max_rows_per_user
    if clip is None:
        return Clipping(known=False, text="the statement names no clip")
    of_users = dict(statement.get("mechanism", {}).get("users", {}))
    if "max_rows" in (statement.get("schema", {}).get("found") or {}):
        of_users["limit"] = clip_rules.MAX_CHOSEN
    if choice is not None:
        return from_histogram(
            clip=clip,
            values=choice["users"],
            bound=choice["bound"],
            sigma=choice["sigma"],
            of_users=of_users,
            total=total,
            declared=bound is not None and "limit" not in of_users,
        )
    if bound is not None and clip >= bound and "limit" not in of_users:
        text = (
            f"no rows are left out if no user has more than {plural(bound, 'row')}, as the schema"
            " says"
        )
        return Clipping(text=text, cluster=bound)
    found = next((m for m in measurements if m.label == HISTOGRAM), None)
    if found is None or bound is None:
        text = (
            f"rows counted at clip {clip}: no histogram of rows per user was released, so {UNKNOWN}"
        )
        return Clipping(known=False, text=text)
    return from_histogram(
        clip=clip,
        values=found.values.tolist(),
        bound=bound,
        sigma=float(np.max(found.sigma)),
        of_users=of_users,
        total=total,
        declared="limit" not in of_users,
    )


def _parts(of_users: Stated) -> dict[str, float]:
    """`Clipping.parts` from the agreement of users' rows: their lift over chance. Rows that agree
    clearly less often than by chance are of a counter, such as the number of a visit. Its large
    values are those of busy users alone."""
    doubt = 2 * of_users.get("standard_error", 0.0)
    chance = of_users.get("by_chance", {})
    rates = {n: (a + doubt, chance[n] + 1e-9) for n, a in of_users.get("agreement", {}).items()}
    lifts = {n: max((a - c) / (1 - c + 2e-9), 1 - a / c) for n, (a, c) in rates.items()}
    return {n: min(1.0, lift + LEAST_PART) for n, lift in lifts.items()}


@dataclass(frozen=True)
class _Factors:
    """The factors of users, over rows that count: their mean over all and in each group of users by
    rows. `spread`, `inside` and `by_user` are relative to the mean over all.

    part_of_last : the part of the rows that are of the last group
    slope : what `drifting` adds to the factors of groups
    spread : the standard deviation of factors from row to row
    inside : their covariance with the logarithm of rows per user inside groups, over the mean deviation
        of groups' logarithms
    by_user : see `Clipping.by_user`
    """

    mean: float
    of_groups: Array
    part_of_last: float
    slope: Array
    spread: float
    inside: float
    by_user: float

    @classmethod
    def of(cls, edges: Array, sizes: Array, users: Array, clip: int) -> Self:
        """For groups of users by rows, from `edges`, and numbers of users by their rows."""
        group = np.searchsorted(edges, sizes, "right") - 1
        factor = np.maximum(sizes / clip, 1.0)
        logs = np.log(sizes)
        counting = users * sizes / factor
        kept = np.maximum(np.bincount(group, counting, len(edges)), 1e-9)
        share = counting / kept.sum()

        def means(x: Array) -> Array:
            return np.bincount(group, share * x, len(edges)) * kept.sum() / kept

        mean = float(share @ factor)
        of_groups = means(factor)
        variance = max(float(share @ np.square(factor)) - mean**2, 0.0)
        covariance = kept @ (means(factor * logs) - of_groups * means(logs)) / kept.sum()
        away = means(logs) - share @ logs
        part = kept / kept.sum()
        slope = covariance * away / max(float(part @ np.square(away)), 1e-9)
        own = np.square(share * (factor - of_groups[group])) @ (1 / np.maximum(users, 1e-9))
        return cls(
            mean,
            np.maximum(of_groups, 1.0),
            float(part[-1]),
            slope,
            math.sqrt(variance) / mean,
            covariance / mean / max(float(part @ np.abs(away)), 1e-9),
            math.sqrt(float(own)) / mean,
        )

    def drifting(self, mean: float, slope: Array) -> Array:
        """Factors of groups for counts whose shares change with rows per user inside groups as well.

        Let q_g be the share of a cell among the rows that count of group g, which has the part s_g
        of them, l_g its mean logarithm of rows per user, and b the slope of q_g over l_g by least
        squares, b = sum s_g (l_g - l) q_g / V with V = sum s_g (l_g - l)^2. Inside group g the rows of
        the table move the share by b cov_g(factor, logarithm). With C = sum s_g cov_g, the cell has

            sum s_g f_g q_g + b C = sum s_g q_g (f_g + C (l_g - l) / V)

        rows for each that counts. So what changes are the factors alone, by the `slope` C (l_g - l) / V.
        The factor of a group with few rows per user may then be below 1, that of a cell is not. Before,
        the last group gets what rows the table has beyond those of these users: the mean factor over
        all is then `mean`."""
        factors = self.of_groups.copy()
        if len(factors) > 1:
            more = (mean - self.mean) / max(self.part_of_last, 1e-9)
            factors[-1] = max(factors[-1] + more, factors[-2])
        return factors + slope


def _up_to(found: RowsPosterior, most: int, tail: Tail) -> UpTo:
    """Rows of each user up to `most`, by the histogram alone. The interval is that of a sum over all
    bins, which is unbiased whatever the tail is: users with more rows count `most`. To its noise
    comes that users may lie elsewhere in their bins."""
    weight = mean_rows(found.edges, found.bound, most)
    rows = float(weight @ found.values)
    noise = math.sqrt(max(float(weight @ found.spread @ weight), 0.0))
    width = np.minimum(found.ends, most) - np.minimum(np.array(found.edges), most)
    half = Z95 * math.hypot(noise, float(found.users @ width) / math.sqrt(12))
    low, high = max(rows - half, 0.0), max(rows + half, 0.0)
    estimate = min(max(found.rows(most), low), high)
    return UpTo(most, estimate, low, high, tail.rows, tail.most_rows)


def from_histogram(
    clip: int,
    values: Sequence[float],
    bound: int,
    sigma: float,
    of_users: Stated = NONE,
    total: Total = None,
    declared: bool = False,
) -> Clipping:
    """From a noisy histogram over `size_edges(bound)` with standard error `sigma` per bin.
    `of_users`: what the statement says of users, where the run counted its rows. Its `limit` is the
    most rows that a user may have, where the bound was found in the run and users may have more.
    `total`: as in `clipping_of`. `declared`: the schema says that nobody has more rows than `bound`."""
    limit = of_users.get("limit")
    found = RowsPosterior.of(size_edges(bound), values, sigma, bound, limit)
    sizes, users = (np.array(x, float) for x in found.points(tail=False))
    seen_rows = float(sizes @ users)
    if not float(np.minimum(sizes, clip) @ users) > 0:
        return Clipping(known=False, text="the histogram of rows per user holds nothing but noise")
    cluster = float(np.square(sizes) @ users) / seen_rows
    if limit and len(found.edges) < 3:
        more = f"users may have more than the {bound} rows found, and {UNKNOWN}"
        return Clipping(
            known=False, text=f"{more}; if a bound is publicly known, set max_rows in a schema"
        )
    most = of_users.get("rows_up_to", {}).get("most", found.most)
    tail = found.beyond(most)
    if "rows_up_to" in of_users:
        account = _with_counted_rows(found, clip, most, tail, of_users, sigma, total)
        # Rows that were counted beyond those of the histogram are of users who do not stand out in
        # it.
        others = max(account.rows - float(np.minimum(sizes, most) @ users), 0.0) / most
        sizes = np.append(sizes, most)
        users = np.append(users, others)
    else:
        account = _by_histogram_alone(found, clip, most, tail)
    rows = account.rows
    kept = account.kept
    lost = min(max(1 - kept / rows, 0.0), 0.999)
    text = f"clip {clip} leaves out about {lost:.0%} of the rows; counts are scaled up"
    noticed = math.ceil(2 * Z95 * sigma)  # as many stand out by Z95 in all but 2.5 % of runs
    claim = _claimed(found, most, noticed, declared, account.seen)
    tail_spread = account.spread[1]
    of_totals = of_shares = ""
    hides = False
    if claim is not None:
        account = account.with_claim(claim)
        busy = f"{plural(noticed, 'user')} with over {plural(most, 'row')}"
        hidden = f"up to {busy} may be there without a sign"
        of_shares = f"of each user's first {plural(most, 'row')}: {hidden}"
        hides = not declared and account.unseen > rows
        of_totals = hidden
        if not hides:
            end = f"the upper end holds if no user has more than {plural(claim.most, 'row')}"
            of_totals = f"{hidden}; {end}{', as the schema says' if declared else ''}"
    elif account.unseen > 5e-4 * rows:
        of_totals = of_shares = (
            f"the upper end allows for users with over {plural(most, 'row')} as by a Pareto tail: up to"
            f" {plural(noticed, 'such user')} may be there without a sign, and rows that they have"
            " beyond that tail are above it"
        )
    groups = np.array(of_users.get("row_groups", [1]))
    plain = _Factors.of(groups, sizes, users, clip)
    with_tail = _Factors.of(
        groups, np.append(sizes, tail.sizes), np.append(users, tail.expected), clip
    )
    return Clipping(
        factor=rows / kept,
        lost=lost,
        spread=account.spread,
        text=text if lost > 5e-4 else "",
        cluster=cluster,
        tilt=BLIND * with_tail.spread,
        parts=_parts(of_users),
        factors=tuple(plain.drifting(rows / kept, with_tail.slope)),
        inside=with_tail.inside,
        by_user=with_tail.by_user,
        seen=account.seen,
        tail=tail_spread,
        of_totals=of_totals,
        of_shares=of_shares,
        hides=hides,
        claim=0 if claim is None else claim.most,
    )


class _Claim(NamedTuple):
    """Rows that users have beyond those seen of them, if none has more than `most`: their estimate, by the
    bins of the histogram, and its standard error."""

    most: int
    rows: float
    error: float


def _claimed(
    found: RowsPosterior, seen: int, noticed: int, declared: bool, account: UpTo
) -> _Claim | None:
    """What may be beyond the first `seen` rows of a user, where more than one user in a hundred may have
    more without a sign; else None. `noticed`: so many users would be noticed; `declared`: nobody has more
    rows than the last bin."""
    users = max(float(found.users.sum()), 1.0)
    if noticed <= users / 100 or seen >= found.bound:
        return None
    mean = max(account.rows, users) / users
    most = nearest_round(max(hidden_users.MEANS * mean, hidden_users.TIMES * seen))
    limit = found.bound if declared else min(int(most), found.bound)
    weight = mean_rows(found.edges, found.bound, limit) - mean_rows(found.edges, found.bound, seen)
    weight = np.where(np.array(found.edges) > limit, 0.0, weight)  # by the claim nobody is there
    error = math.sqrt(max(float(weight @ found.spread @ weight), 0.0))
    return _Claim(limit, float(weight @ found.values), error)


class _RowAccount(NamedTuple):
    """How many rows the table has, and how many of them count at the clip.

    `spread`: relative standard errors of their ratio, down and up. `unseen`: the most rows that users
    may have beyond what is seen of them. `seen`: rows of each user up to a limit.
    """

    rows: float
    kept: float
    spread: tuple[float, float]
    unseen: float
    seen: UpTo

    def with_claim(self, claim: _Claim) -> Self:
        """The account whose upper end is that of users with up to a claimed number of rows."""
        half = (self.seen.high - self.seen.low) / 2
        end = claim.rows - half + math.hypot(half, Z95 * claim.error)
        unseen = max(end, 0.0)
        up = max(self.seen.high + unseen - self.rows, 0.0) / Z95 / max(self.rows, 1e-9)
        seen = self.seen._replace(beyond=min(max(claim.rows, 0.0), unseen), beyond_high=unseen)
        counted = self.spread[0]
        return self._replace(spread=(counted, max(up, counted)), unseen=unseen, seen=seen)


def _with_counted_rows(
    found: RowsPosterior,
    clip: int,
    most: int,
    tail: Tail,
    of_users: Stated,
    sigma: float,
    total: Total,
) -> _RowAccount:
    """The account of a run that counted its rows; `total` is a count of rows at the clip, if it is
    more precise than the histogram."""
    sizes, users = (np.array(x, float) for x in found.points(tail=False))
    kept = float(np.minimum(sizes, clip) @ users)
    error = sigma * float(np.linalg.norm(np.minimum(mean_rows(found.edges, found.bound), clip)))
    if total is not None and total[1] < error and total[0] > 0:
        kept, error = total
    rows = max(float(of_users["rows"]), kept)
    low, high = of_users["rows_up_to"]["interval"]
    unseen = tail.most_rows
    if not of_users.get("limit"):
        unseen = max(min(unseen, of_users["rows_interval"][1] - high), 0.0)
    sides = (rows - low) / Z95, (high + unseen - rows) / Z95
    down, up = (math.hypot(error / kept, max(side, 0.0) / rows) for side in sides)
    seen = UpTo(most, (low + high) / 2, low, high, min(tail.rows, unseen), unseen)
    return _RowAccount(rows, kept, (down, up), unseen, seen)


def _by_histogram_alone(found: RowsPosterior, clip: int, most: int, tail: Tail) -> _RowAccount:
    """The account where nothing but the histogram of rows per user says how many rows there are."""
    sizes, users = (np.array(x, float) for x in found.points(tail=False))
    without_tail = float(sizes @ users)
    scale = without_tail / float(np.minimum(sizes, clip) @ users)
    means = mean_rows(found.edges, found.bound)
    noise = found.error(means - scale * np.minimum(means, clip))
    edges = np.array(found.edges)
    inside = found.users @ np.where(found.ends > clip, found.ends - edges, 0.0)
    apart = math.hypot(noise, float(inside) / math.sqrt(12)) / without_tail
    rows = found.rows()
    kept = found.rows(clip)
    down = math.hypot(apart, max(1 - scale * kept / rows, 0.0) / Z95)
    up = math.hypot(apart, max(tail.most_rows - tail.rows, 0.0) / Z95 / rows)
    return _RowAccount(rows, kept, (down, up), tail.most_rows, _up_to(found, most, tail))

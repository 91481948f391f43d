"""How synthetic users' rows follow each other: what is asked, what follows from the answers, and
the exchange of rows that brings it about (docs/guide/order.md). Post-processing of released
numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..domain import Domain
from ..measurement import Measurement
from ..schema import Schema
from ..significance import SURE, drawn_towards, spread_beyond_noise
from ..userkeys import MOST_CODES, Succession
from .gaps import Gaps
from .people import Codes
from .rates import GROUPS, Rates, Roles

MOST_ENDS = 64
"""Bins of first and last rows."""
MOST_ASKED = 24
"""Pairs of columns that are asked about, at most."""
MOST_CHAINS = 4
"""Pairs of columns by which rows are exchanged, at most (`python -m bench.users_without "chains" --tables
fleets --epsilon 5`: the zone that follows is .077 off without any, .009 with)."""
KINDS = (2, 16, 128)
"""Groups of users, by their number of rows, whose neighbours' agreement is asked for."""
LEAST_LIFT = 0.02
"""A pair is a chain if neighbours agree more or less often than other rows, by LEAST_LIFT and SURE
standard errors. Rows are exchanged for numbers that differ from the released ones by SURE standard
errors."""
TRIES = 24
"""Exchanges that are tried for each row, at most."""
LEAST_GAIN = 0.002
"""Where chains have goals, exchanges end where as many as there are rows bring the sums nearer to
their goals by less than this part of what all have. (Where none has, they end at a pace at which TRIES
sweeps would not get there: csrc/deal_order.h. That rule took 6 % of the chains of trips.)
Of chained trips .446 start where the last one of the taxi ended; rows have .401 with 0, .400 with
this, .394 with .005 and .312 with .05. It ends exchanges that hardly move a sum
(`python -m bench.users_without "an end of exchanges"`)."""
MOST_TIMES = 1 << 32
"""Cells over the columns of the order."""


def to_ask(schema: Schema, domain: Domain, roles: Roles) -> Succession:
    """What is asked about the order: pairs of columns with the same labels, then each column that
    is not constant with itself; at most MOST_ASKED numbers for them."""
    order = schema.order_columns
    own = [n for n in roles.repeated if n in domain]
    own += [n for n in domain if n not in (*own, *roles.constant)]
    own = [n for n in own if n not in order and 1 < domain[n] <= MOST_CODES]
    values = [n for n in own if not schema.columns[n].binned]  # the same bins are not one thing
    labels = {n: (domain[n], tuple(schema.columns[n].labels())) for n in values}
    pairs = [(x, y) for x in values for y in values if x != y and labels[x] == labels[y]][
        : MOST_ASKED // 4
    ]
    pairs += [(x, x) for x in own][: MOST_ASKED - 2 * len(pairs)]
    gaps = (domain.cells(order) - 1).bit_length() + 1
    return Succession(order, tuple(pairs), gaps, min(MOST_ENDS, domain[order[0]]), KINDS)


class Dealt(Struct, frozen=True, eq=False):
    """Rows as they were dealt, chunk after chunk: the first row and user of each; `values` [features,
    rows], `features`: the columns of each; `wanted`: rows of each user."""

    row_start: np.ndarray
    user_start: np.ndarray
    values: np.ndarray
    features: Sequence[tuple]
    wanted: np.ndarray


class OrderPlan(Struct, frozen=True, eq=False, kw_only=True):
    """What rows are exchanged by: the fields of `fdp_order_plan` (csrc/deal_order.h)."""

    row_start: np.ndarray
    user_start: np.ndarray
    codes: np.ndarray
    timed: np.ndarray
    wanted: np.ndarray
    group: np.ndarray
    groups: int
    kind: np.ndarray
    kinds: int
    time: np.ndarray
    end: np.ndarray
    ends: int
    this: np.ndarray
    that: np.ndarray
    keys: np.ndarray
    gaps: int
    shift: np.ndarray
    tries: int
    least: float


class Order(Struct, frozen=True, eq=False):
    """`key`: what was asked, of which only the chains remain as pairs; `shift`: by how much the
    means over users of its numbers should move (near, gaps, first, last)."""

    key: Succession
    sizes: Mapping[str, int]
    shift: np.ndarray
    described: Mapping[str, Any]

    def times(self, codes: Codes) -> np.ndarray:
        """The number of each row's cell over the columns of the order."""
        columns = [codes[name].astype(np.int64) for name in self.key.order]
        return np.ravel_multi_index(columns, [self.sizes[name] for name in self.key.order])

    def plan(self, codes: Codes, take: np.ndarray, dealt: Dealt, tries: int) -> OrderPlan:
        """The rows `take` of `codes`, which were dealt, for the exchange."""
        lead = self.key.order[0]
        of_code = np.arange(self.sizes[lead]) * self.key.ends // self.sizes[lead]
        sides = np.empty((2, len(self.key.pairs), len(take)), np.uint32)
        for i, pair in enumerate(self.key.pairs):
            sides[:, i] = [codes[name][take] for name in pair]
        timed = [any(name in self.key.order for name in feature) for feature in dealt.features]
        return OrderPlan(
            row_start=dealt.row_start,
            user_start=dealt.user_start,
            codes=dealt.values,
            timed=np.array(timed, np.uint8),
            wanted=dealt.wanted,
            group=np.maximum(np.searchsorted(GROUPS, dealt.wanted, "right") - 1, 0).astype(
                np.uint32
            ),
            groups=len(GROUPS),
            kind=_kinds(dealt.wanted),
            kinds=len(KINDS),
            time=self.times({n: codes[n][take] for n in self.key.order}).astype(np.uint32),
            end=of_code.astype(np.uint32)[codes[lead][take]],
            ends=self.key.ends,
            this=sides[0],
            that=sides[1],
            keys=np.array([self.sizes[x] for x, _ in self.key.pairs], np.uint32),
            gaps=self.key.gaps,
            shift=self.shift,
            tries=tries,
            least=LEAST_GAIN,
        )

    def aimed(self, before: np.ndarray, wanted: np.ndarray, goal: Goal) -> Order:
        """The order whose users move from what a trial dealing brought about, users with `wanted`
        rows, to the goal, where the difference stands out of noise."""
        many = np.bincount(_kinds(wanted)[wanted > 1], minlength=len(KINDS))
        pairs = len(self.key.pairs)
        rest = [many.sum(), len(wanted)]
        ends = 2 * self.key.ends
        counts = np.append(np.tile(many, pairs), np.repeat(rest, [self.key.gaps, ends]))
        scale = np.append(np.ones(len(counts) - ends), np.full(ends, rest[0] / rest[1]))
        apart = scale * goal.rates - before / (1 << 20) / np.maximum(counts, 1)
        sure = (np.abs(apart) > SURE * scale * goal.errors) & (counts > 0)
        return replace(self, shift=np.where(sure, apart, 0.0))


def _kinds(rows: np.ndarray) -> np.ndarray:
    return np.maximum(np.searchsorted(KINDS, rows, "right") - 1, 0).astype(np.uint32)


class Goal(Struct, frozen=True, eq=False):
    """An order's numbers (near, gaps, first, last), divided by the users with two rows or more, and
    their standard errors."""

    rates: np.ndarray
    errors: np.ndarray

    def gaps(self, key: Succession) -> Gaps:
        """The gaps of the goal; `key`: what was asked, with the chains alone."""
        start = len(key.pairs) * len(KINDS)
        shares = np.maximum(self.rates[start : start + key.gaps], 0.0)
        return Gaps(key.order, shares, float(self.errors[start]))


def _alike(rates: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rates of kinds of users drawn towards their mean as far as noise explains their differences, their
    standard errors). Of a kind of few users little is known by itself."""
    noise = np.square(errors)
    precision = float((1 / noise).sum())
    mean = float((rates / noise).sum()) / precision
    spread = spread_beyond_noise(rates - mean, noise)
    other = noise / (noise + spread)  # the part of the mean in each
    drawn = np.clip(drawn_towards(mean, rates, noise, spread), 0.0, 1.0)
    return drawn, np.sqrt(other * spread + np.square(other) / precision)


def order_of(
    key: Succession, answers: Measurement, rates: Rates, sizes: Mapping[str, int]
) -> tuple[Order, Goal]:
    """The order that a release of `key` says, and its goal."""
    sigma = float(np.max(answers.sigma))
    parts = key.parts(answers.values)
    there = np.maximum(parts["users"], 1.0)
    by_kind = parts["near"].reshape(len(key.pairs), len(KINDS))
    many = max(float(parts["users"].sum()), 1.0)
    doubt = sigma / 2 / there
    near, across = (
        np.clip((1 + x / many) / 2, 0.0, 1.0) for x in (by_kind.sum(axis=1), parts["any"])
    )
    error = float(sigma * np.sqrt(len(KINDS)) / many / 2)
    rate = (1 + by_kind / there) / 2
    other = near.copy()
    errors = np.zeros(len(near))
    for i, (x, y) in enumerate(key.pairs):
        if x == y and x in rates.columns:
            at = rates.columns.index(x)
            other[i] = rates.overall[at]
            errors[i] = rates.error[at]
    cross = np.array([x != y for x, y in key.pairs], bool)
    other[cross] = across
    errors[cross] = sigma / many / 2
    lift = np.abs(near - other)
    above = SURE * np.hypot(error, errors)
    likely = np.flatnonzero(lift > np.maximum(LEAST_LIFT, above))
    chosen = sorted(likely[np.argsort(-lift[likely], kind="stable")][:MOST_CHAINS])
    drawn = [_alike(rate[i], doubt) for i in chosen]
    others = [parts[name] / many for name in ("gaps", "first", "last")]
    goals = [*(goal for goal, _ in drawn), *others]
    margins = [*(error for _, error in drawn), np.full(sum(map(len, others)), sigma / many)]
    asked = [
        [*pair, round(float(n), 6), round(float(o), 6)]
        for pair, n, o in zip(key.pairs, near, other)
    ]
    described: dict[str, Any] = {
        "columns": list(key.order),
        "pairs": asked,
        "standard_error": error,
    }
    described["chains"] = [list(key.pairs[i]) for i in chosen]
    pairs = tuple(key.pairs[i] for i in chosen)
    kept = Succession(key.order, pairs, key.gaps, key.ends, key.edges)
    goal = Goal(np.concatenate(goals), np.concatenate(margins))
    return Order(kept, sizes, np.zeros(len(goal.rates)), described), goal

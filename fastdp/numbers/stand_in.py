"""Expected widths of numbers, before anything is spent: the estimators run on a public stand-in.

The stand-in population has log-normal amounts (sigma 1), four rows per user on average, and groups
of about equal size. It says how wide intervals are at this mu and this many users where people are
about as unequal as that. No private data enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist, median
from typing import Literal

import numpy as np
from msgspec import Struct

from . import allocation
from .asking import NumberResult
from .declared import Declared
from .measure_numbers import measure_numbers
from .public_bounds import most_rows
from .sums_plan import SumsPlan
from .typed import TypedNumber
from .user_values import UserValues

PEOPLE = 4_000
"""Stand-in users; each stands for users / PEOPLE."""
ROWS_EACH = 4
"""Rows of a stand-in user, on average."""
RUNS = 5
MEDIAN_STEPS = 5_000
"""The median amount of a stand-in user, in whole units: 50.00 where the unit is a cent."""
MOST_GROUPS_EACH = 3
HOPELESS = 0.2
"""Relative half-width above which a number is marked as hopeless even with all of mu."""
HOPELESS_POINTS = 0.1
"""The same of a share: a half-width of 10 percentage points."""


class Vector(Struct, frozen=True, eq=False):
    """A noisy answer, as a session gives it."""

    values: np.ndarray
    sigma: float


class Simulated:
    """A stand-in for a session: it answers from values that are public, with noise of a generator.
    `times`: how many users each user stands for."""

    def __init__(
        self, values: Mapping[str, UserValues], rng: np.random.Generator, times: float = 1.0
    ):
        self.values = values
        self.rng = rng
        self.times = times
        self.sums: dict[tuple[str, str], np.ndarray] = {}

    def user_vector(self, plan: SumsPlan, *, mu: float, label: str) -> Vector:
        """The sums that a session would release for this plan at mu."""
        encoding = plan.encoding
        key = (plan.number.text, encoding.digest())  # type: ignore[attr-defined]
        if key not in self.sums:
            self.sums[key] = encoding.add_up(self.values[plan.number.text])
        sigma = encoding.norm2**0.5 / mu  # type: ignore[attr-defined]
        exact = self.sums[key] / encoding.unit * self.times  # type: ignore[attr-defined]
        return Vector(exact + sigma * self.rng.standard_normal(len(exact)), sigma)


class Expected(Struct, frozen=True):
    """What a number is expected to look like: its share of the numbers' mu^2, and how far the
    interval reaches below and above the estimate (relative, or in points for shares). With groups:
    of the median group. capped: half-width of the capped sum, where there is one."""

    number: int
    share: float
    low: float
    high: float
    unit: Literal["relative", "points"]
    hopeless: bool
    note: str
    capped: float | None = None


def expected_widths(
    numbers: Sequence[TypedNumber],
    declared: Sequence[Declared],
    users: float,
    mu: float,
    whole: float | None = None,
) -> list[Expected]:
    """Widths of all numbers at mu in all, for about this many users. whole: mu of the run; a
    number is hopeless if it would be too wide with all of it (default: mu)."""
    shares = allocation.shares(numbers, declared, users, mu)
    values = {n.text: population(n, facts) for n, facts in zip(numbers, declared, strict=True)}
    found = _runs(numbers, declared, values, users, mu)
    out = []
    for i, number in enumerate(numbers):
        points = number.aggregate == "share"
        low, high, capped = _widths([r for run in found for r in run if r.number == i], points)
        alone = _runs([number], [declared[i]], values, users, whole or mu)
        least, most, _ = _widths([r for run in alone for r in run], points)
        hopeless = (least + most) / 2 > (HOPELESS_POINTS if points else HOPELESS)
        share = shares.numbers[i] or shares.users
        unit: Literal["relative", "points"] = "points" if points else "relative"
        note = _advice(number, declared[i]) if hopeless else ""
        expected = Expected(
            number=i,
            share=share,
            low=low,
            high=high,
            unit=unit,
            hopeless=hopeless,
            note=note,
            capped=capped,
        )
        out.append(expected)
    return out


def _runs(
    numbers: Sequence[TypedNumber],
    declared: Sequence[Declared],
    values: Mapping[str, UserValues],
    users: float,
    mu: float,
) -> list[list[NumberResult]]:
    """The results of all numbers, measured RUNS times with independent noise."""
    session = Simulated(values, np.random.Generator(np.random.Philox(key=[8, 55])), users / PEOPLE)
    return [
        measure_numbers(session, numbers, declared, mu=mu, seed=run, users=users)
        for run in range(RUNS)
    ]


def _widths(results: Sequence[NumberResult], points: bool) -> tuple[float, float, float | None]:
    """Median reach below and above, and of capped sums; withheld groups count as infinite."""
    low = []
    high = []
    capped = []
    for r in results:
        if r.estimate is None or r.low is None or r.high is None:
            low.append(np.inf)
            high.append(np.inf)
        else:
            size = 1.0 if points else max(abs(r.estimate), 1e-12)
            low.append((r.estimate - r.low) / size)
            high.append((r.high - r.estimate) / size)
        if r.capped is not None and r.capped_high is not None:
            capped.append((r.capped_high - r.capped) / max(abs(r.capped), 1e-12))
    return median(low), median(high), median(capped) if capped else None


def _advice(number: TypedNumber, facts: Declared) -> str:
    """What to ask or declare instead of a number that would be too wide at any share."""
    if number.by:
        return "no share gives ±20 % of a group: group by fewer or coarser values"
    if number.family == "sum":
        if facts.maximum is None:
            return (
                "no share gives ±20 %: declare a maximum per user, or ask for the capped sum "
                "(it is printed beside the total)"
            )
        return "no share gives ±20 %: declare a lower maximum per user"
    if number.aggregate == "mean":
        return "no share gives ±20 %: declare a maximum per user, or ask for a median per user"
    return "no share gives ±20 %: there are too few users for this budget"


def population(number: TypedNumber, facts: Declared) -> UserValues:
    """Stand-in users: log-normal amounts at even quantiles, in an order that mixes them."""
    places = (np.arange(PEOPLE) + 0.5) / PEOPLE
    normal = NormalDist()
    scores = np.array([normal.inv_cdf(p) for p in places])
    rng = np.random.Generator(np.random.Philox(key=[7, 55]))
    groups = number.groups
    each = 1 if number.one_group else min(groups, MOST_GROUPS_EACH)
    entries = PEOPLE * each
    offsets = np.arange(0, entries + 1, each, dtype=np.int64)
    first = rng.integers(0, groups, PEOPLE)
    apart = max(1, groups // max(each, 1))
    group = np.sort((first[:, None] + apart * np.arange(each)) % groups, axis=1)
    rows = 1 + np.floor(-np.log(rng.random(entries)) * (ROWS_EACH - 1)).astype(np.int64)
    rows = np.minimum(rows, most_rows(number) or rows)
    amount = np.exp(np.repeat(scores, each)) * MEDIAN_STEPS * rng.gamma(4.0, 0.25, entries)
    value = np.maximum(amount.astype(np.int64), 1)
    if number.kind in ("truth", "count"):
        value = rows
        if number.family == "people":
            value = (rng.random(entries) < 0.4).astype(np.int64)
            if number.aggregate == "count" and number.by:
                value = np.ones(entries, np.int64)
        elif number.aggregate == "share":
            value = rng.binomial(rows, 0.4)
    weight = np.ones(entries, np.int64) if number.of == "users" else rows
    if facts.maximum is not None:
        # an owner declares a maximum that few users reach
        value = value * facts.maximum // max(int(np.quantile(value, 0.999)), 1)
    elif facts.allowed is not None and value.max() > facts.allowed:
        value = np.minimum(value * facts.allowed // int(np.quantile(value, 0.999)), facts.allowed)
    return UserValues(offsets, group.reshape(-1).astype(np.int32), value, weight)

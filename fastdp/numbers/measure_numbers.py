"""Measures the numbers that were asked for before a run, one after the other.

`measure_numbers` divides the numbers' mu^2, asks the session for vectors of users, and turns each
into an estimate with a 95 % interval. All choices between two releases (cap, rough mean, ranges,
withheld groups) follow from released values, public declarations and a public seed. The order of
releases and their mu depend on nothing else, so a run that is resumed asks the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ..errors import UsageError
from . import allocation, asked_means, asked_people, asked_quantile, asked_sums
from .adding_up import consistent, total_of
from .asking import Asking, Line, NumberResult, Releases
from .declared import Declared
from .people_encodings import Users
from .sums_plan import SumsPlan
from .typed import TypedNumber


def check_numbers(numbers: Sequence[TypedNumber]) -> None:
    """UsageError for a number that no mechanism measures; before anything is charged."""
    for number in numbers:
        if number.family == "quantile" and number.by:
            raise UsageError(
                f"{number.text!r}: quantiles are not measured by group; ask for a mean by group, "
                "or for the share of users above a value"
            )


def measure_numbers(
    session: Releases,
    numbers: Sequence[TypedNumber],
    declared: Sequence[Declared],
    *,
    mu: float,
    seed: int,
    users: float | None = None,
) -> list[NumberResult]:
    """All numbers, for mu in all (sum of squares). `users`: a public guess of their number, by
    which mu^2 is divided; None: `allocation.USERS`. `seed`: of the draws inside estimators."""
    check_numbers(numbers)
    shares = allocation.shares(numbers, declared, users or allocation.USERS, mu)
    mus = [mu * math.sqrt(share) for share in shares.numbers]
    counted = None
    if shares.users:
        plan = SumsPlan(numbers[shares.first], Users())
        spent = mu * math.sqrt(shares.users) * (1 - 1e-12)
        found = session.user_vector(plan, mu=spent, label="number of users")
        counted = (float(found.values[0]), float(found.sigma))
    lines: dict[int, list[Line]] = {}
    signs: dict[str, float] = {}
    for i in sorted(range(len(numbers)), key=lambda i: bool(numbers[i].by)):  # totals first
        ask = Asking(session, numbers[i], mus[i], seed, i)
        lines[i] = _measured(ask, numbers[i], declared[i], counted, signs)
    results = [
        _result(i, number, mus[i], line) for i, number in enumerate(numbers) for line in lines[i]
    ]
    return consistent(numbers, declared, results)


def _measured(
    ask: Asking,
    number: TypedNumber,
    facts: Declared,
    users: tuple[float, float] | None,
    signs: dict[str, float],
) -> list[Line]:
    """Lines of one number. `users`: the measured number of users and its noise; `signs`: of each total
    measured so far, the amount that users have of whom it shows signs."""
    if number.family == "people":
        if number.by:
            return asked_people.people_by_group(ask, number)
        assert users is not None
        return [asked_people.people(ask, number, users)]
    if number.family == "quantile":
        return [asked_quantile.quantile(ask, number, facts)]
    if number.family == "mean":
        if number.by:
            return asked_means.mean_by_group(ask, number, facts)
        return [asked_means.mean(ask, facts)]
    total = total_of(number)
    if number.by:
        return asked_sums.sum_by_group(ask, number, facts, signs.get(total, 0.0))
    line, signs[total] = asked_sums.sum_of(ask, facts)
    return [line]


def _result(index: int, number: TypedNumber, mu: float, line: Line) -> NumberResult:
    group, found, capped, note = line
    share = number.aggregate == "share"
    unit = 1.0 if share or number.aggregate == "count" else float(number.unit)
    result = NumberResult(index, group, None, None, None, mu=mu, note=note)
    if found is not None:
        values = (found.estimate, found.low, found.high)
        middle, low, high = (min(max(v, 0.0), 1.0) if share else v * unit for v in values)
        result = msgspec.structs.replace(result, estimate=middle, low=low, high=high)
    if capped is not None:
        cap, cut = capped
        result = msgspec.structs.replace(
            result,
            cap=cap * unit,
            capped=cut.estimate * unit,
            capped_low=cut.low * unit,
            capped_high=cut.high * unit,
        )
    return result

"""Totals and their groups, made to add up.

Each number by groups whose total was asked as well is a condition: the total is the sum of the
groups. Least squares by precision, one condition after the other until all hold. Intervals move with
their estimates, which keeps their width; the variance after the step is smaller.

A withheld group is not given, but it is part of the total. Its capped sum leaves out what lies above
the cap. So it enters larger, as much as the groups that are given are larger than their capped sums.
That step is its error. A maximum cuts a total and a user's groups differently. Where they differ by
more than noise, they are not the same thing, and both stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from ..significance import SURE
from . import number_text, sum_estimates as sums
from .asking import NumberResult, at_least
from .declared import Declared
from .sum_estimates import Interval
from .typed import TypedNumber

ROUNDS = 30
"""Each condition is met so often. One number by groups needs one round."""


def consistent(
    numbers: Sequence[TypedNumber], declared: Sequence[Declared], results: list[NumberResult]
) -> list[NumberResult]:
    """The results with totals and groups that add up."""
    value = np.zeros(len(results))
    variance = np.zeros(len(results))
    conditions = []
    for total, groups in _conditions(numbers, results):
        known = _known_groups(results[total], [results[place] for place in groups])
        value[[total, *groups]] = [v for v, _ in known]
        variance[[total, *groups]] = [v for _, v in known]
        conditions.append(np.array([total, *groups]))
    conditions = [c for c in conditions if _same(value[c], variance[c])]
    moved = value.copy()
    for lines in conditions * (ROUNDS if len(conditions) > 1 else 1):
        rest = moved[lines[0]] - moved[lines[1:]].sum()
        step = variance[lines] * rest / max(variance[lines].sum(), 1e-300)
        step[0] = -step[0]
        moved[lines] += step
    out = list(results)
    for place, by in enumerate((moved - value).tolist()):
        if by and out[place].estimate is not None:
            out[place] = _moved(out[place], by, declared[out[place].number].signed)
    return out


def _conditions(
    numbers: Sequence[TypedNumber], results: Sequence[NumberResult]
) -> list[tuple[int, list[int]]]:
    """Places of a total that is given, and of its groups."""
    places: dict[int, list[int]] = {}
    for place, result in enumerate(results):
        places.setdefault(result.number, []).append(place)
    totals = {total_of(n): places[i][0] for i, n in enumerate(numbers) if not n.by and _adds_up(n)}
    found = []
    for i, number in enumerate(numbers):
        total = totals.get(total_of(number)) if number.by and _adds_up(number) else None
        if total is not None and results[total].estimate is not None:
            found.append((total, places[i]))
    return found


def _same(value: np.ndarray, variance: np.ndarray) -> bool:
    """Whether a total and its groups may be the same thing: they differ by no more than SURE."""
    return bool((value[0] - value[1:].sum()) ** 2 <= SURE**2 * variance.sum())


def total_of(number: TypedNumber) -> str:
    """The question without its groups."""
    return number_text.render(msgspec.structs.replace(number.number, by=(), pick=()))


def _adds_up(number: TypedNumber) -> bool:
    """Whether the groups of a number add up to its total: sums and counts of rows, and of users
    where each is in one group."""
    sums_up = number.aggregate in ("sum", "count")
    return sums_up and (number.of == "rows" or number.one_group)


def _known_groups(total: NumberResult, groups: Sequence[NumberResult]) -> list[tuple[float, float]]:
    """(value, variance) of a total and of its groups; of withheld ones what their capped sums
    stand for."""
    given = [g for g in groups if g.estimate is not None and g.capped is not None]
    whole = sum(g.estimate or 0.0 for g in given) if given else total.estimate or 0.0
    capped = sum(g.capped or 0.0 for g in given or groups)
    larger = max(1.0, whole / capped) if capped > 0 else 1.0
    known = [_known(total)]
    for group in groups:
        if group.estimate is not None:
            known.append(_known(group))
            continue
        value = group.capped or 0.0
        high = group.capped_high or 0.0
        noise = larger * (high - value) / sums.Z
        known.append((larger * value, noise**2 + ((larger - 1) * value) ** 2))
    return known


def _known(result: NumberResult) -> tuple[float, float]:
    """(value, variance) of a line that is given; its lower side is the one that noise makes. Where
    that was cut at 0, noise is at least that of the capped sum, or of the upper side of a count."""
    assert result.estimate is not None and result.low is not None and result.high is not None
    reach = result.estimate - result.low
    if result.low == 0.0:
        whole = (result.estimate, result.high)
        value, high = whole if result.capped is None else (result.capped, result.capped_high or 0.0)
        reach = max(reach, high - value)
    return result.estimate, (reach / sums.Z) ** 2


def _moved(result: NumberResult, by: float, signed: bool) -> NumberResult:
    assert result.estimate is not None and result.low is not None and result.high is not None
    moved = Interval(result.estimate + by, result.low + by, result.high + by)
    if not signed:
        moved = at_least(moved, 0.0)
    least = 0.0 if result.capped_low is None else result.capped_low
    if not signed and result.low <= least:  # an end that does not come from the estimate stays
        moved = msgspec.structs.replace(moved, low=min(result.low, moved.estimate))
    return msgspec.structs.replace(result, estimate=moved.estimate, low=moved.low, high=moved.high)

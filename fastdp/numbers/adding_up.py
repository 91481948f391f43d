"""Totals and their groups, made to add up."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from . import language, sum_estimates as sums
from .asking import NumberResult
from .declared import Declared
from .typed import TypedNumber


def consistent(
    numbers: Sequence[TypedNumber], declared: Sequence[Declared], results: list[NumberResult]
) -> list[NumberResult]:
    """Totals and their groups add up: least squares by precision, where each user's groups are
    parts of its total. Intervals move with their estimates, which keeps their width; the variance
    after the step is smaller. Withheld groups enter with their capped sums."""
    out = list(results)
    totals = {_key(n): i for i, n in enumerate(numbers) if not n.by and _adds_up(n)}
    places: dict[int, list[int]] = {}
    for place, result in enumerate(results):
        places.setdefault(result.number, []).append(place)
    for i, number in enumerate(numbers):
        if not number.by or not _adds_up(number) or _key(number) not in totals:
            continue
        lines = places[totals[_key(number)]] + places[i]
        known = [_known(out[place]) for place in lines]
        signs = np.array([1.0] + [-1.0] * (len(lines) - 1))
        value, variance = (np.array(column) for column in zip(*known, strict=True))
        moves = -signs * variance * (signs @ value) / max(variance.sum(), 1e-300)
        for place, move in zip(lines, moves.tolist(), strict=True):
            if out[place].estimate is not None:
                out[place] = _moved(out[place], move, declared[i].signed)
    return out


def _key(number: TypedNumber) -> str:
    return language.render(msgspec.structs.replace(number.number, by=(), pick=()))


def _adds_up(number: TypedNumber) -> bool:
    """Whether the groups of a number add up to its total: sums and counts of rows, and of users
    where each is in one group."""
    sums_up = number.aggregate in ("sum", "count")
    return sums_up and (number.of == "rows" or number.one_group)


def _known(result: NumberResult) -> tuple[float, float]:
    """(value, variance) of a line; of a withheld one the capped sum."""
    value, low = result.estimate, result.low
    if value is None or low is None:
        value, low = result.capped or 0.0, result.capped_low or 0.0
    return value, ((value - low) / sums.Z) ** 2


def _moved(result: NumberResult, by: float, signed: bool) -> NumberResult:
    assert result.estimate is not None and result.low is not None and result.high is not None
    values = [v + by for v in (result.estimate, result.low, result.high)]
    estimate, low, high = values if signed else [max(v, 0.0) for v in values]
    return msgspec.structs.replace(result, estimate=estimate, low=low, high=high)

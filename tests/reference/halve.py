"""Balanced halving as its law says it: both choices are tried, and the sum of squares counted
afresh."""

from collections import Counter
from collections.abc import Sequence


def imbalance(rows: Sequence[Sequence[int]], signs: Sequence[int], items, weights) -> int:
    """Sum over items and cells of weight * (rows kept - rows not kept)^2; items: column numbers."""
    total = 0
    for item, weight in zip(items, weights, strict=True):
        counts: Counter = Counter()
        for row, sign in zip(rows, signs, strict=True):
            counts[tuple(row[c] for c in item)] += sign
        total += weight * sum(n * n for n in counts.values())
    return total


def halve(rows, order, items, weights, bits, sweeps) -> list[int]:
    """The kept row of every pair of `order`."""
    signs = [0] * len(rows)
    for sweep in range(sweeps + 1):
        for i in range(len(order) // 2):
            first = order[2 * i]
            second = order[2 * i + 1]
            was = signs[first]
            made = []
            for side in (1, -1):
                signs[first] = side
                signs[second] = -side
                made.append(imbalance(rows, signs, items, weights))
            side = was
            if made[0] != made[1]:
                side = 1 if made[0] < made[1] else -1
            if sweep == 0 and side == 0:
                side = 1 if bits[i] else -1
            signs[first] = side
            signs[second] = -side
    return [
        order[2 * i] if signs[order[2 * i]] > 0 else order[2 * i + 1]
        for i in range(len(order) // 2)
    ]


def exchange(rows, own, groups, target, items, weights, scale, step) -> None:
    """Rows of a group exchange their codes of column `own`, in place, where the sum over items and
    cells of weight * (scale * rows - target rows)^2 falls; each with the one `step` places behind
    it."""
    signs = [scale] * len(rows) + [-1] * len(target)
    for group in groups:
        for i, j in zip(group, group[step:]):
            before = imbalance([*rows, *target], signs, items, weights)
            rows[i][own], rows[j][own] = rows[j][own], rows[i][own]
            if imbalance([*rows, *target], signs, items, weights) >= before:
                rows[i][own], rows[j][own] = rows[j][own], rows[i][own]

"""Balanced halving as its law says it: both choices are tried, and the sum of squares counted afresh."""

from __future__ import annotations

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
            first, second = order[2 * i], order[2 * i + 1]
            was = signs[first]
            made = []
            for side in (1, -1):
                signs[first], signs[second] = side, -side
                made.append(imbalance(rows, signs, items, weights))
            side = 1 if made[0] < made[1] else -1 if made[0] > made[1] else was
            if sweep == 0 and side == 0:
                side = 1 if bits[i] else -1
            signs[first], signs[second] = side, -side
    return [order[2 * i] if signs[order[2 * i]] > 0 else order[2 * i + 1] for i in range(len(order) // 2)]

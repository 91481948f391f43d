"""Columns of a dense table that are tied to each other beyond what hidden factors or classes say.

Given the class, columns of a model of hidden factors are independent. But a date has a year, a city its
state, a code and its copy are the same: such pairs the tree knows, and the hidden column cannot say them. A
column that is tied to another depends on the class and on that column:

    p(b | class, a)    with the tables of (class, a), of (class, b) and of (a, b) that are known,

as far as these three agree: first raking to all of them, then to (class, a) and (a, b) alone, which
always agree. So what the tree says about (a, b) holds exactly. Ties are a forest, so each column has at
most one other before it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..._util.disjoint import DisjointSets
from ...domain import Clique
from ...significance import threshold
from ..shared.screening import AskedPairs, Follows

RAKING = 20
"""Steps of each raking."""


def ties(
    pairs: Sequence[Clique],
    away: np.ndarray,
    distances: np.ndarray,
    noise: np.ndarray,
    cells: Sequence[int],
    room: int,
    follows: Follows,
) -> list[Clique]:
    """The pairs that are tied: a forest, the largest differences first, while their `cells` are within the
    `room`.

    away: how far the hidden column's table is from the tree's; distances: released ones of the tree from the
    rows, with this `noise`. Of a triangle no side is longer than both others. So the hidden column is
    farther from the rows than the tree is, if it is more than twice as far from the tree as the tree is from
    the rows. Where a tied pair explains a difference, since columns follow from its columns, that is
    taken off it, as squares (`screening.unexplained`): of a column and its copy, the copy is not tied to all
    that depends on the column."""
    surely = 2 * np.maximum(distances + threshold(len(pairs)) * noise, 0.0)
    joined = DisjointSets({a for pair in pairs for a in pair})
    tied = AskedPairs(follows)
    out = []
    for i in np.argsort(-away, kind="stable"):
        left = math.sqrt(max(0.0, float(away[i]) ** 2 - tied.of(pairs[i]) ** 2))
        if left > surely[i] and cells[i] <= room and joined.merge(*pairs[i]):
            room -= cells[i]
            tied.ask(pairs[i], float(away[i]))
            out.append(pairs[i])
    return out


def in_order(names: Sequence[str], tied: Sequence[Clique]) -> list[tuple[str | None, str]]:
    """(the column before it, if any, column), each after the one that it depends on. Of columns that are tied
    to each other, the first of `names` depends on the hidden column alone."""
    next_to: dict[str, list[str]] = {a: [] for a in names}
    for a, b in tied:
        next_to[a].append(b)
        next_to[b].append(a)
    out: list[tuple[str | None, str]] = []
    known: set[str] = set()
    for root in names:
        waiting: list[tuple[str | None, str]] = [(None, root)] if root not in known else []
        while waiting:
            before, name = waiting.pop()
            known.add(name)
            out.append((before, name))
            waiting += [(name, other) for other in next_to[name] if other != before]
    return out


def by_misfit(names: Sequence[str], pairs: Sequence[Clique], away: np.ndarray) -> list[str]:
    """The columns, those first of which the hidden column says what the tree does."""
    misfit = dict.fromkeys(names, 0.0)
    for pair, one in zip(pairs, away.tolist()):
        for a in pair:
            misfit[a] += one
    return sorted(names, key=misfit.__getitem__)


def given_both(by_a: np.ndarray, by_b: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Rows by (class, a) and b, [classes * codes of a, codes of b]. by_a, by_b: [classes, codes], rows;
    `pair`: [codes of a, codes of b], whose sums are those of by_a and by_b."""
    least = 1e-300
    rows = by_a.sum(axis=1)
    made = by_a[:, :, None] * (by_b / np.maximum(rows, least)[:, None])[:, None, :]
    for step in range(2 * RAKING):
        made *= (pair / np.maximum(made.sum(axis=0), least))[None, :, :]
        if step < RAKING:
            made *= (by_b / np.maximum(made.sum(axis=1), least))[:, None, :]
        made *= (by_a / np.maximum(made.sum(axis=2), least))[:, :, None]
    return made.reshape(-1, by_b.shape[1])

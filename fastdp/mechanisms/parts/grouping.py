"""Values that a set is too large to tell apart: measured together in that set, though apart elsewhere.

In a set measured with noise sigma, a value of one of its columns is kept apart if some cell of its row may
hold at least `STANDS_OUT` sigma: if the model's marginals with one column less, each of which bounds the
cell, are all that large somewhere in the row. The other values of the column share one code in this set.
Which values those are follows the order of the 1-way, and their number is rounded up to one of few levels, so
that the groupings of a column are nested in each other: the fit then has few distinct partitions to
reconcile. A grouped marginal is a partition of the table like the plain one, of the same sensitivity.
Everything here is a function of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...domain import Clique, Domain
from ...queries import Binned

STANDS_OUT = 5.0
LEVEL = 1.5
"""Numbers of values kept apart are those of the column divided by powers of this."""


def row_bounds(clique: Clique, domain: Domain, children: Mapping[Clique, np.ndarray]) -> list[np.ndarray]:
    """Of every column of the clique: the most that a cell in each value's row may hold, by the marginals of
    the subsets with one column less."""
    shape = domain.shape(clique)
    bound = np.full(shape, np.inf)
    for child, estimate in children.items():
        laid = np.asarray(estimate).reshape([n if a in child else 1 for a, n in zip(clique, shape)])
        np.minimum(bound, laid, out=bound)
    axes = range(len(clique))
    return [bound.max(axis=tuple(j for j in axes if j != i)) for i in axes]


def grouped(
    clique: Clique,
    domain: Domain,
    bounds: Sequence[np.ndarray],
    ones: Mapping[str, np.ndarray],
    sigma: float,
) -> Binned | None:
    """The query that asks for this clique with grouped values; None where every value stands out."""
    maps: list[np.ndarray | None] = []
    for a, bound in zip(clique, bounds, strict=True):
        size = domain[a]
        apart = level(int((bound >= STANDS_OUT * sigma).sum()), size)
        if apart >= size - 1:
            maps.append(None)
            continue
        codes = np.full(size, apart)
        largest = np.sort(np.argsort(-ones[a], kind="stable")[:apart])
        codes[largest] = np.arange(apart)
        maps.append(codes)
    return None if all(m is None for m in maps) else Binned(domain.shape(clique), maps)


def level(apart: int, size: int) -> int:
    """The least of size, size / LEVEL, size / LEVEL^2, ... that keeps `apart` values, at least one."""
    levels, x = [size], float(size)
    while x > 1:
        x /= LEVEL
        levels.append(math.ceil(x))
    return min(n for n in levels if n >= max(1, apart))

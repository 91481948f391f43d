"""Grouping: values that noise would make indistinguishable in one marginal share a code in that
marginal.

In a marginal measured with noise sigma, a value keeps a code of its own if some cell with it may
hold at least `STANDS_OUT` sigma rows. The model's marginals with one column less bound a cell from
above; for some such cell all of them must be that large. The other values of the column share one
code in this marginal. Values keep their codes in the order of the 1-way's counts, and the number of
those that do is rounded up to one of few levels. So the groupings of a column are nested, and the
fit has few distinct partitions to reconcile. A grouped marginal is a partition of the rows like the
plain one and has the same sensitivity. Everything here is a function of released numbers."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...domain import Clique, Domain
from ..shared.code_partitions import CODES, Partition

STANDS_OUT = 5.0
"""A value of a set keeps a code of its own where its rows may be above so many standard errors."""
LEVEL = 1.5
"""The number of values that keep a code of their own is the column's size divided by a power of
LEVEL."""


def row_bounds(
    clique: Clique, domain: Domain, children: Mapping[Clique, np.ndarray]
) -> list[np.ndarray]:
    """For every column of the clique, an array over its values. It has the most rows that a cell
    with that value may hold, by the marginals of the subsets with one column less."""
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
    blank: Mapping[str, np.ndarray] | None = None,
) -> Partition:
    """The codes of this clique with grouped values; those of a column where every value stands out
    stay. `blank`: codes without a number, by column of numbers; they share no code with numbers."""
    maps: dict[str, np.ndarray] = {}
    for a, bound in zip(clique, bounds, strict=True):
        size = domain[a]
        apart = level(int((bound >= STANDS_OUT * sigma).sum()), size)
        if apart >= size - 1:
            continue
        codes = np.full(size, apart)
        largest = np.sort(np.argsort(-ones[a], kind="stable")[:apart])
        codes[largest] = np.arange(apart)
        together = codes == apart
        apart_from_numbers = together & (blank or {}).get(a, np.zeros(size, bool))
        if apart_from_numbers.any() and not np.array_equal(apart_from_numbers, together):
            codes[apart_from_numbers] = apart + 1
        maps[a] = codes
    return Partition("frequent values", maps) if maps else CODES


def level(apart: int, size: int) -> int:
    """The least of size, size / LEVEL, size / LEVEL^2, ... that is at least `apart` and at least
    1."""
    levels = [size]
    x = float(size)
    while x > 1:
        x /= LEVEL
        levels.append(math.ceil(x))
    return min(n for n in levels if n >= max(1, apart))

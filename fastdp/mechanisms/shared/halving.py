"""Rows whose marginals, of a workload or of all pairs, are closer to the model's than independent rows are.

More rows than wanted are drawn, 2^levels times as many, and halved as often. A halving sorts the rows by the
columns that matter most, so that neighbours are alike, and keeps one row of each two neighbours: the one with
which the counts of kept and of other rows differ less over the items (the sum of weight * difference^2 over
items and cells, csrc/halve.h).

Every row is kept with probability exactly 1/2 in a halving, whatever the others are: where both choices are
as good a fair bit decides, and with all bits the other way round every pair keeps its other row. So expected
counts are the model's; only their spread is less. The number of rows in a run of neighbours, as those that
agree in the leading columns are, is half of it to within one. Everything here is a function of the
model, of public facts and of the sample's own randomness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..._core.halve import halve
from ...domain import Clique, Domain

LEVELS = 3
"""The most halvings. In each but the first, each pair of rows is decided again once all are decided: what one
halving leaves uneven weighs half as much after the next, and the first has the most rows."""
MOST_LEVELS, MOST_WORK = 6, 1 << 26
"""The most halvings, and (rows drawn) * (pairs of columns), where all pairs are balanced: with more rows
there are fewer halvings, or none, and chance matters less. Three halvings of adult. Every halving leaves
0.7 of the chance that is left. Chosen on adult, the generated tables of `bench.tables` and `bench.small`."""
MAX_COUNTS = 1 << 23
"""The most counts that a halving keeps (32 MB); cells of items that would need more share them."""
MAX_ITEMS = 1 << 10
"""The most items that are balanced: those of the largest weight."""
WEIGHT = 1 << 20
"""The largest weight as an integer: sums of integers do not depend on how a processor rounds."""


class Halving:
    """`items`: marginals to balance, of two columns or more, and their weights; `order`: their columns, those
    to sort by first; `levels`: the number of halvings."""

    def __init__(
        self, domain: Domain, items: Mapping[Clique, float], order: Sequence[str], levels: int = LEVELS
    ):
        self.levels = levels
        largest = sorted(items, key=lambda c: -items[c])[:MAX_ITEMS]
        named = {a for clique in largest for a in clique}
        self.columns = [a for a in order if a in named]
        self._shape = domain.shape(self.columns)
        number = {a: i for i, a in enumerate(self.columns)}
        room = MAX_COUNTS // max(1, len(largest))
        self._items, sizes, weights = [], [], []
        for clique in largest:
            # Cells of rows that are neighbours are neighbours too: leading columns have the largest strides.
            item, stride = [], 1
            for a in sorted(clique, key=lambda a: -number[a]):
                item.append((number[a], stride % (1 << 64)))
                stride *= domain[a]
            self._items.append(item)
            sizes.append(min(stride, room))
            weights.append(round(WEIGHT * items[clique] / items[largest[0]]))
        self._size, self._weight = np.array(sizes, np.uint64), np.array(weights, np.int64)

    def __call__(self, rows: Mapping[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """One in 2^levels of the rows, whose number is a multiple of that, in the order they had."""
        kept = self._sorted(rows)
        codes = np.column_stack([np.asarray(rows[a], np.uint32) for a in self.columns])
        for level in range(self.levels if len(kept) else 0):
            bits = rng.integers(0, 2, len(kept) // 2, np.uint8)
            kept = halve(kept, codes, self._items, self._size, self._weight, bits, int(level > 0))
        kept = np.sort(kept)
        return {a: values[kept] for a, values in rows.items()}

    def _sorted(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """int64: the rows sorted by the leading columns, as many of these as a key of 62 bits can hold."""
        key, size = np.zeros(len(rows[self.columns[0]]), np.int64), 1
        for a, n in zip(self.columns, self._shape):
            if size * n >= 1 << 62:
                break
            key, size = key * n + rows[a], size * n
        return np.argsort(key, kind="stable")


@dataclass(frozen=True)
class HalvingRule:
    """How a number of rows is halved: `named`, for a workload, or else over all pairs of columns that this
    many rows can fill, as often as `MOST_WORK` allows (None: never). Of very many pairs, every second or
    third is balanced, and so on. Pairs weigh by their cells: counts of independent rows are off by as much in
    squares over every pair, and the more cells share it, the more that is in total variation."""

    domain: Domain
    named: Halving | None = None

    def __call__(self, rows: int) -> Halving | None:
        if self.named is not None:
            return self.named
        domain = self.domain
        pairs: list[Clique] = [p for p in combinations(domain, 2) if domain.cells(p) <= rows << LEVELS]
        pairs = pairs[:: max(1, -(-len(pairs) // MAX_ITEMS))]
        levels = min(MOST_LEVELS, (MOST_WORK // max(1, rows * len(pairs))).bit_length() - 1)
        if not pairs or levels < 1:
            return None
        weights = {p: float(domain.cells(p)) for p in pairs}
        return Halving(domain, weights, sorted(domain, key=lambda a: domain[a]), levels)

"""Rows whose marginals, of a workload or of all pairs, are closer to the model's than independent
rows are.

More rows than wanted are drawn, 2^levels times as many, and halved as often. A halving sorts the
rows by the columns that matter most, so that neighbours are alike. It keeps one row of each two
neighbours: the one with which the counts of kept and of other rows differ less. The difference is
the sum of weight * difference^2 over items and cells (csrc/halve.h).

Every row is kept with probability exactly 1/2 in a halving, whatever the others are. Where both
choices are as good, a fair bit decides. With all bits the other way round, every pair keeps its
other row. So expected counts are the model's; only their spread is less. The number of rows in a
run of neighbours, as those that agree in the leading columns are, is half of it to within one.

Then rows exchange codes, column by column, where that brings the counts of all pairs closer to
those of the rows drawn at first. Only rows that agree in all columns next to it in the model's
cliques exchange. Given these, the model draws the column independently of all others. So rows with
and without the exchange are equally likely, and counts of the model's own cliques stay as they are.
Everything here is a function of the model, of public facts and of the sample's own randomness.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct, field

from ..._core.halve import Items
from ...domain import Clique, Domain
from .code_compression import row_keys

LEVELS = 3
"""The most halvings. In each but the first, each pair of rows is decided again once all are
decided. What one halving leaves uneven weighs half as much after the next, and the first has the
most rows."""
MOST_LEVELS = 6
"""The most halvings where all pairs are balanced. Each leaves 0.7 of the chance that is left. Chosen
on adult, the generated tables of `bench/tables.py` and `bench.small`."""
MOST_WORK = 1 << 26
"""The most (rows drawn) * (pairs of columns) of these halvings together. With more rows there are
fewer halvings, or none, and chance matters less. Adult gets three. Chosen on the same tables."""
EXCHANGE_STRIDES = (1, 2)
"""Rows are offered an exchange with the next row of their group, then with the one after it. Two
passes over all columns take less time than the last halving. After a single halving there are no
exchanges: counts of twice as many rows are too rough a target. Chosen on the tables of
`bench/tables.py`."""
MAX_COUNTS = 1 << 23
"""The most counts that a halving keeps (32 MB); cells of items that would need more share them."""
MAX_ITEMS = 1 << 10
"""The most items that are balanced: those of the largest weight."""
WEIGHT = 1 << 20
"""The largest weight as an integer: sums of integers do not depend on how a processor rounds."""


Groups = Callable[[str, Mapping[str, np.ndarray]], tuple[np.ndarray, np.ndarray] | None]
"""For a column, the rows in an order in which those that may exchange codes of it are side by side,
and where each group of them ends; None: no rows may."""


class Halving:
    """`items`: marginals to balance, of two columns or more, and their weights; `order`: their
    columns, those to sort by first; `levels`: the number of halvings."""

    def __init__(
        self,
        domain: Domain,
        items: Mapping[Clique, float],
        order: Sequence[str],
        levels: int = LEVELS,
    ):
        self.levels = levels
        self._pairs = all(len(clique) == 2 for clique in items)
        largest = sorted(items, key=lambda c: -items[c])[:MAX_ITEMS]
        named = {a for clique in largest for a in clique}
        self.columns = [a for a in order if a in named]
        self._shape = domain.shape(self.columns)
        # Cells of rows that are neighbours are neighbours too: leading columns have the largest
        # strides.
        cliques = [sorted(map(self.columns.index, clique), reverse=True) for clique in largest]
        weight = np.array([round(WEIGHT * items[c] / items[largest[0]]) for c in largest], np.int64)
        self._items = Items(self._shape, cliques, weight, MAX_COUNTS // max(1, len(largest)))

    def __call__(
        self, rows: Mapping[str, np.ndarray], rng: np.random.Generator, groups: Groups | None = None
    ) -> dict[str, np.ndarray]:
        """One in 2^levels of the rows, in the order they had; the number of rows is a multiple of
        that. With `groups`, and if all items are pairs, exchanges follow."""
        columns = [np.asarray(rows[a]) for a in self.columns]
        kept = np.argsort(row_keys(columns, self._shape, len(columns[0])), kind="stable")
        codes = np.column_stack([codes.astype(np.uint32) for codes in columns])
        for level in range(self.levels if len(kept) else 0):
            bits = rng.integers(0, 2, len(kept) // 2, np.uint8)
            kept = self._items.halve(kept, codes, bits, int(level > 0))
        kept = np.sort(kept)
        made = {a: values[kept] for a, values in rows.items()}
        if groups is None or not self._pairs or self.levels < 2 or not len(kept):
            return made
        return made | self._items.exchanged(
            codes, kept, 1 << self.levels, EXCHANGE_STRIDES, self.columns, made, groups
        )


class HalvingRule(Struct, frozen=True):
    """How a number of rows is halved: `named`, for a workload, or else over all pairs of columns
    that this many rows can fill, as often as `MOST_WORK` allows (None: never). Of very many pairs,
    every second or third is balanced, and so on. Pairs weigh by their cells. Over every pair,
    counts of independent rows are off by the same sum of squares. The more cells share it, the more
    it is in total variation."""

    domain: Domain
    named: Halving | None = None
    _made: dict[int, Halving | None] = field(default_factory=dict)

    def __call__(self, rows: int) -> Halving | None:
        if self.named is not None:
            return self.named
        if rows not in self._made:
            self._made[rows] = self._of_all_pairs(rows)
        return self._made[rows]

    def _of_all_pairs(self, rows: int) -> Halving | None:
        cells = self.domain.cells
        pairs: list[Clique] = [
            p for p in combinations(self.domain, 2) if cells(p) <= rows << LEVELS
        ]
        pairs = pairs[:: max(1, -(-len(pairs) // MAX_ITEMS))]
        levels = min(MOST_LEVELS, (MOST_WORK // max(1, rows * len(pairs))).bit_length() - 1)
        if not pairs or levels < 1:
            return None
        order = sorted(self.domain, key=self.domain.__getitem__)
        return Halving(self.domain, {p: float(cells(p)) for p in pairs}, order, levels)

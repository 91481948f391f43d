"""Rows of a model over merged codes, in the schema's codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Self

import numpy as np

from ...model.graphical_model import Model
from ...model.row_facts import RowFacts
from .code_compression import Expansion, equal_rows
from .halving import Halving
from .model_rows import ModelRows
from .steering import Steering

HALVING = 1 << 31
"""The stream of randomness that halvings use, in addition to those of `Expansion`, one per column.
"""


class ExpandedRows(ModelRows):
    """Rows of a model of merged codes, in the schema's codes. `steering`: trends that they follow
    besides. `halving`: how many rows are drawn several times over and halved, shard by shard, so
    that the marginals of a workload, or all pairs, are closer to the model's (see `halving`); None:
    no halving. Rows do not have the model's hidden columns."""

    def __init__(
        self,
        model: Model,
        total: int,
        seed: int,
        expansion: Expansion,
        halving: Callable[[int], Halving | None] | None = None,
        steering: Steering | None = None,
    ):
        super().__init__(model, total, seed)
        self._expansion = expansion
        self._halving_of = halving
        self._steering = steering or Steering()

    @property
    def facts(self) -> RowFacts:
        scores = self._steering.scores
        trends = self._steering.changes
        within = self._expansion.within()
        drawn = self._expansion.drawn_columns()
        return RowFacts(within, drawn, scores=scores, trends=trends)

    def again(self, total: int, seed: int) -> Self:
        other = super().again(total, seed)
        other._expansion = self._expansion.reseeded(seed)
        return other

    def given(self, known: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        merged = {name: self._expansion.code_map(name)[codes] for name, codes in known.items()}
        drawn = super().given(merged, seed)
        made = self._expansion.reseeded(seed)(drawn, 0, known)
        return self._shown({name: made[name] for name in drawn})

    def _shown(self, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The rows without hidden columns."""
        return {name: codes for name, codes in rows.items() if name not in self.model.hidden}

    def plain(self) -> Self:
        other = super().plain()
        other._halving_of = None
        return other

    @property
    def halving(self) -> Halving | None:
        return None if self._halving_of is None else self._halving_of(self.total)

    @property
    def shard_rows(self) -> int:
        """Several times as many rows are in memory at once."""
        return super().shard_rows if self.halving is None else 1 << 18

    def shard(self, i: int) -> dict[str, np.ndarray]:
        halving = self.halving
        levels = 0 if halving is None else halving.levels
        shard_rows = self.shard_rows << levels
        drawn = self.model.sample(
            self.total << levels, seed=self._seed, shard=i, shard_rows=shard_rows
        )
        rng = np.random.Generator(
            np.random.Philox(np.random.SeedSequence([self._seed, i, HALVING]))
        )
        rows = self._expansion(self._steering(self.model, drawn, rng), i)
        return self._shown(rows if halving is None else halving(rows, rng, self._exchanging))

    def _exchanging(
        self, name: str, rows: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """See `halving.Groups`."""
        if name in self._expansion.fixed:
            return None
        near = sorted({a for q in self.model.cliques if name in q for a in q} - {name})
        codes = [self._expansion.code_map(a)[rows[a]] for a in near] or [
            np.zeros_like(rows[name], np.int64)
        ]
        return equal_rows(codes, self.model.domain.shape(near) or (1,))

    def some(self, count: int, seed: int) -> dict[str, np.ndarray]:
        """Independent rows: they serve trials, or are chosen from, and 2^levels times as many cost
        time."""
        plain = copy(self)
        plain._halving_of = None
        return super(ExpandedRows, plain).some(count, seed)

"""Synthetic rows drawn from a fitted model."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Self

from ...model import Model
from ...model.sampler import rows_of_shard

if TYPE_CHECKING:
    import numpy as np


class ModelRows:
    """Rows of a model in shards, each from its own part of one stream of randomness."""

    columns: tuple[str, ...] | None = None

    def __init__(self, model: Model, total: int, seed: int):
        self.model, self.total, self._seed = model, total, seed
        model.sample(0, seed=seed)  # the model's tables are made ready here, once, not in every thread

    @property
    def shard_rows(self) -> int:
        return rows_of_shard(self.total)

    def shard(self, i: int) -> dict[str, np.ndarray]:
        return self.model.sample(self.total, seed=self._seed, shard=i, shard_rows=self.shard_rows)

    def again(self, total: int, seed: int) -> Self:
        """Other rows of the same model: `total` of them, from the stream of `seed`."""
        other = copy(self)
        other.total, other._seed = total, seed
        return other

"""What mechanisms share: rows drawn from a model, and the private histogram that user ids can come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .base import Ids, Job
from .tree import part_mu

if TYPE_CHECKING:
    from ..measure import Door
    from ..measurement import Measurement
    from ..model import Model


def ids_share(ids: Ids, *, public: bool, user: bool) -> float:
    """The share of mu^2 that ids cost: nothing without a user column, with public data, or where none are wanted."""
    private = ids.source == "private" or (ids.source == "auto" and not public)
    return ids.share if user and private else 0.0


def size_edges(bound: int) -> tuple[int, ...]:
    """Lower edges of the rows-per-user bins up to the bound: 1, 2, 3, 4, 6, 8, 12, 16, ... (two per octave)."""
    edges, step = [1, 2, 3], 4
    while step <= bound:
        edges += [step, step + step // 2]
        step *= 2
    return tuple(e for e in edges if e <= bound)


def measure_users(ids: Ids, door: Door, job: Job) -> tuple[Measurement | None, float]:
    """The noisy histogram of rows per user, where ids are to come from one, and the share of mu^2 it took."""
    share = ids_share(ids, public=job.public is not None, user=door.schema.user is not None)
    bound = door.schema.max_rows_per_user
    if not share or bound is None:
        return None, 0.0
    from ..userkeys import RowsPerUser

    key = RowsPerUser(size_edges(bound))
    measured = door.user_histogram(key, cap=1, mu=part_mu(door, share), label="rows per user")
    return measured, share


class ModelRows:
    """Rows of a model in shards, each from its own part of one stream of randomness."""

    shard_rows = 1 << 20

    def __init__(self, model: Model, total: int, seed: int):
        self.model, self.total, self._seed = model, total, seed
        model.sample(0, seed=seed)  # the model's tables are made ready here, once, not in every thread

    def shard(self, i: int) -> dict[str, np.ndarray]:
        return self.model.sample(self.total, seed=self._seed, shard=i, shard_rows=self.shard_rows)

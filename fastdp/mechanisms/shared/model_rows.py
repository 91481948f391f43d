"""Synthetic rows drawn from a fitted model."""

import math
from collections.abc import Mapping
from copy import copy
from typing import Self

import numpy as np
from msgspec.structs import replace

from ...model.given import sample_given
from ...model.graphical_model import Model
from ...model.row_facts import RowFacts
from ...model.sampler import default_shard_rows
from .halving import LEVELS, Halving

MORE = 1.1
"""Rows that are drawn for one that is missing of its group, at the rate at which they were found. With
fewer there is more often a further draw; results do not depend on it but for chance."""


class ModelRows:
    """Rows of a model in shards, each from its own part of one stream of randomness."""

    columns: tuple[str, ...] | None = None

    def __init__(self, model: Model, total: int, seed: int):
        self.model = model
        self.total = total
        self._seed = seed
        # Make the model's tables ready once, here, and not in every thread.
        model.sample(0, seed=seed)

    @property
    def shard_rows(self) -> int:
        return default_shard_rows(self.total)

    @property
    def halving(self) -> Halving | None:
        """How rows that were drawn several times over are halved; None: not at all."""
        return None

    @property
    def facts(self) -> RowFacts:
        """What leads from the model's codes to these rows."""
        return RowFacts()

    def shard(self, i: int) -> dict[str, np.ndarray]:
        return self.model.sample(self.total, seed=self._seed, shard=i, shard_rows=self.shard_rows)

    def again(self, total: int, seed: int) -> Self:
        """Other rows of the same model: `total` of them, from the stream of `seed`."""
        other = copy(self)
        other.total = total
        other._seed = seed
        return other

    def plain(self) -> Self:
        """The same rows drawn once each: none is left out by halving."""
        return copy(self)

    def tilted(self, name: str, shares: np.ndarray) -> Self:
        """Rows of the model in which a column has these shares, so that few have to be left out to
        have exactly so many of each code. The same where the model merges codes of the column."""
        other = copy(self)
        if self.model.domain.get(name) == len(shares):
            other.model = self.model.tilted(name, shares)
            other.model.sample(0, seed=self._seed)
        return other

    def some(self, count: int, seed: int) -> dict[str, np.ndarray]:
        """The codes of `count` other rows of the same model; none if `count` is 0."""
        other = self.again(max(1, count), seed)  # a model of no rows has no shard
        shards = [other.shard(i) for i in range(-(-other.total // other.shard_rows))]
        drawn = {name: np.concatenate([codes[name] for codes in shards]) for name in shards[0]}
        return {name: codes[:count] for name, codes in drawn.items()}

    def given(self, known: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """Codes of the other columns, for rows with these known codes."""
        return sample_given(self.model, known, seed)


class RowsOfRows(ModelRows):
    """Rows that are made of those of another, `rows`."""

    def __init__(self, rows: ModelRows):
        self.rows = rows
        self.model = rows.model
        self.total = rows.total
        self._seed = rows._seed

    @property
    def facts(self) -> RowFacts:
        return self.rows.facts

    @property
    def shard_rows(self) -> int:
        return self.rows.shard_rows

    def again(self, total: int, seed: int) -> Self:
        other = super().again(total, seed)
        other.rows = self.rows.again(total, seed)
        return other


class GroupedRows(RowsOfRows):
    """Rows of a model with a column `name` of groups ("": all are one group): of each group the
    part that `shares` says. Without shares, rows as the model has them, without that column."""

    most_draws = 16
    """How many times a shard's rows are drawn to find enough of each group."""

    def __init__(self, rows: ModelRows, name: str, shares: np.ndarray | None):
        super().__init__(rows)
        if shares is not None:
            self.rows = rows.tilted(name, shares)
        self.name = name
        self.shares = shares

    @property
    def facts(self) -> RowFacts:
        return replace(self.rows.facts, group=self.name, shares=self.shares)

    def plain(self) -> Self:
        other = super().plain()
        other.rows = self.rows.plain()
        return other

    def shard(self, i: int) -> dict[str, np.ndarray]:
        if self.shares is None:
            return {
                name: column for name, column in self.rows.shard(i).items() if name != self.name
            }
        halving = copy(self.rows.halving)
        if halving is not None and self.name:
            halving.levels = min(halving.levels, LEVELS)  # rare groups need many draws
        size = min(self.shard_rows, self.total - i * self.shard_rows) << (
            halving.levels if halving else 0
        )
        left = np.diff(
            np.rint(np.append(0.0, np.cumsum(self.shares) / self.shares.sum()) * size)
        ).astype(int)
        seeds = np.random.SeedSequence(self._seed, spawn_key=(i,)).generate_state(
            self.most_draws, np.uint64
        )
        parts: list[dict[str, np.ndarray]] = []
        drawn: dict[str, np.ndarray] = {}
        count = size
        for seed in seeds >> np.uint64(1):
            drawn = self.rows.some(count, int(seed))
            group = drawn.get(self.name, np.zeros(count, np.uint32))
            take = _first_of_each(group, left)
            parts.append({name: column[take] for name, column in drawn.items()})
            left = left - np.bincount(group[take], minlength=len(left))
            if not left.any():
                break
            found = np.bincount(group, minlength=len(left)) / count
            count = min(size, math.ceil(MORE * float((left / np.maximum(found, 1e-9)).max())) + 64)
        missing = np.repeat(np.arange(len(left)), left).astype(np.uint32)
        own = {self.name: missing} if self.name else {}
        parts.append({name: column[: len(missing)] for name, column in drawn.items()} | own)
        rows = {name: np.concatenate([part[name] for part in parts]) for name in drawn}
        return rows if halving is None else halving(rows, np.random.default_rng(seeds[0]))


class PoolRows(RowsOfRows):
    """Shards with `times` times as many rows as `total` says, of which a dealer keeps one in
    `times` (`users.user_choice`). It keeps counts of rows as they are in the pool, so these are drawn
    without halving."""

    def __init__(self, rows: ModelRows, times: int):
        super().__init__(rows)
        self.times = times

    def given(self, known: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        return self.rows.given(known, seed)

    def some(self, count: int, seed: int) -> dict[str, np.ndarray]:
        return self.rows.some(count, seed)

    def shard(self, i: int) -> dict[str, np.ndarray]:
        size = min(self.shard_rows, self.total - i * self.shard_rows)
        stream = np.random.SeedSequence(self._seed, spawn_key=(1, i)).generate_state(1, np.uint64)
        return self.rows.plain().some(self.times * size, int(stream[0] >> np.uint64(1)))


def _first_of_each(group: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The places of the first wanted[g] rows of each group g, in their order."""
    order = np.argsort(group, kind="stable")
    start = np.searchsorted(group[order], np.arange(len(wanted)))
    rank = np.arange(len(group)) - start[group[order]]
    return np.sort(order[rank < wanted[group[order]]])

"""Synthetic users drawn from the model of a released table of users: rows per user and constant columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from ..measurement import Measurement

BINS_PER_OCTAVE = 3
PRESENT = 3.0
"""The last bin of rows per user is the last whose noisy number of users exceeds this many standard errors:
the noise of empty bins beyond it makes no users."""


class Source(Protocol):
    """Rows of the table of users, drawn from its model."""

    def again(self, total: int, seed: int) -> Self: ...
    def shard(self, i: int) -> Mapping[str, np.ndarray]: ...


def size_bins(bound: int) -> tuple[int, ...]:
    """Lower edges of bins of rows per user, three to the octave, up to the public bound."""
    octaves = max(1, int(bound).bit_length())
    edges = np.unique(
        np.round(2 ** (np.arange(BINS_PER_OCTAVE * octaves) / BINS_PER_OCTAVE)).astype(np.int64)
    )
    return tuple(int(e) for e in edges if e <= max(bound, 1))


def last_bin(counts: Measurement) -> int:
    """The last bin that has users for sure, by the noisy histogram of the bins; 0 where none has. Large users
    are spread thinly over bins, so a bin with some users also counts where up to two bins below it belong to
    one sum that is large enough."""
    values, sigma, last = counts.values, float(np.max(counts.sigma)), 0
    for width in (1, 2, 3):
        sums = np.convolve(values, np.ones(width))[: len(values)]  # of a bin and the width - 1 below it
        present = np.flatnonzero((sums > PRESENT * sigma * width**0.5) & (values > sigma))
        last = max(last, int(present[-1]) if len(present) else 0)
    return last


def total_rows(counts: Measurement, edges: tuple[int, ...], bound: int) -> tuple[float, float]:
    """(number of rows, its standard error) by the noisy histogram of bins, up to the last bin with users: an
    unbiased sum, which negative counts enter as they are."""
    upper = np.append(np.array(edges[1:], np.int64), bound + 1)
    means = np.array([_mean_rows(low, high) for low, high in zip(edges, upper.tolist())])
    means[last_bin(counts) + 1 :] = 0.0
    return float(counts.values @ means), float(np.max(counts.sigma) * np.sqrt(means @ means))


def _mean_rows(low: int, high: int) -> float:
    """The mean of whole numbers low..high - 1, drawn evenly in the logarithm."""
    rows = np.arange(low, max(high, low + 1), dtype=np.float64)
    weight = np.log1p(1 / rows)
    return float(rows @ weight / weight.sum())


@dataclass(frozen=True, eq=False)
class People:
    """`source`: rows of the table of users; `name`: its column of bins, with the lower `edges`; `last`: the
    last bin that is used; `bound`: the most rows of a user; `constant`: its other columns."""

    source: Source
    name: str
    edges: tuple[int, ...]
    last: int
    bound: int
    constant: tuple[str, ...]

    @property
    def most_rows(self) -> int:
        """The most rows that a user can have."""
        return [*self.edges, self.bound + 1][self.last + 1] - 1

    def draw(self, rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """(rows of each user, the codes of its constant columns), users whose rows add up to `rows`; the last
        user may have fewer rows than it was drawn with."""
        sizes: list[np.ndarray] = []
        codes: list[Mapping[str, np.ndarray]] = []
        have, batch = 0, max(256, rows // 16)
        generator = np.random.Generator(np.random.Philox(key=[seed, 1]))
        while have < rows:
            drawn = self.source.again(batch, int(generator.integers(1 << 62))).shard(0)
            there = drawn[self.name] <= self.last
            drawn = {name: column[there] for name, column in drawn.items()}
            size = self._rows(drawn[self.name], generator)
            keep = int(np.searchsorted(np.cumsum(size), rows - have)) + 1
            sizes.append(size[:keep])
            codes.append({name: drawn[name][:keep] for name in self.constant})
            have += int(sizes[-1].sum())
            mean = max(1.0, have / max(sum(map(len, sizes)), 1))
            batch = min(1 << 20, int(1.1 * max(rows - have, 0) / mean) + 256)
        wanted = np.concatenate([np.empty(0, np.int64), *sizes])
        if len(wanted):
            wanted[-1] -= have - rows
        return wanted, {
            n: np.concatenate([np.empty(0, np.uint32), *(c[n] for c in codes)]) for n in self.constant
        }

    def _rows(self, bins: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """A number of rows in each bin, evenly in the logarithm."""
        edges = np.append(np.array(self.edges, np.int64), self.bound + 1)
        low, high = edges[bins], np.maximum(edges[bins + 1], edges[bins] + 1)
        return np.minimum(low * (high / low) ** generator.random(len(bins)), high - 1).astype(np.int64)

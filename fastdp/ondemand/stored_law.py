"""Rows given evidence, of a run that made its rows without a model: some of its own rows that agree.

Such a run's distribution is that of its synthetic rows. Given what is known of a row, one of those
that agree with it is chosen at random. Where none agrees, columns are given up one after the other,
those that tell least first, until one does. What the caller gave stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..mechanisms.shared.code_compression import row_keys
from ..schema import Schema
from .known_rows import Codes, Known, uniform_of


class StoredLaw:
    """A run's synthetic rows, by column in the schema's codes; `weights`: how many rows each stands
    for. It draws like a `RowLaw`."""

    def __init__(self, schema: Schema, codes: Mapping[str, np.ndarray], weights: np.ndarray):
        self.schema = schema
        self.columns = tuple(a for a in schema.modelled if a in codes)
        self._codes = {a: codes[a].astype(np.int64) for a in self.columns}
        self._weights = weights.astype(np.float64)

    def draw(
        self,
        known: Known,
        seed: int,
        stream: str = "",
        threads: int | None = None,
        soften: bool = True,
    ) -> tuple[Codes, np.ndarray]:
        """(codes of all columns, the logarithm of the share of stored rows that agree).

        Row i depends on what is known of it, on (seed, stream) and on its number alone. Where no
        stored row agrees, columns are given up, and the share is that of the rows that then agree.
        Without `soften` no column is given up, and such a row has -inf.
        """
        uniform = uniform_of(seed, f"{stream} stored", known)
        chosen = np.full(known.rows, -1, np.int64)
        logs = np.full(known.rows, -np.inf)
        given = {a: known.codes.get(a, np.full(known.rows, -1)) for a in self.columns}
        there = np.stack([given[a] >= 0 for a in self.columns], axis=1)
        limits = {a: known.likelihood[a] for a in self.columns if a in known.likelihood}
        for rows, kinds in _alike(there, [ids for ids, _ in limits.values()]):
            held = self._possible(
                {a: m[i] for (a, (_, m)), i in zip(limits.items(), kinds) if i >= 0}
            )
            asked = [a for a, one in zip(self.columns, there[rows[0]]) if one]
            asked.sort(key=self._tells, reverse=True)
            left = rows
            while len(left) and len(held):
                found, share = self._agreeing(held, asked, given, left, uniform)
                new = found >= 0
                chosen[left[new]] = found[new]
                logs[left[new]] = np.log(share[new])
                left = left[~new]
                if not soften or not asked:
                    break
                asked = asked[:-1]
        out = {a: self._codes[a][np.maximum(chosen, 0)] for a in self.columns}
        out = {a: np.where(given[a] >= 0, given[a], c).astype(np.int32) for a, c in out.items()}
        return out, logs

    def group(
        self, known: Known, seed: int, stream: str = "", threads: int | None = None
    ) -> np.ndarray | None:
        """None: stored rows are not told apart by groups of users."""
        return None

    def _tells(self, column: str) -> float:
        """The entropy of a column: how much it says about a row."""
        share = np.bincount(self._codes[column], self._weights) / self._weights.sum()
        share = share[share > 0]
        return float(-(share * np.log(share)).sum())

    def _possible(self, limits: Mapping[str, np.ndarray]) -> np.ndarray:
        """The rows whose codes have a likelihood above 0."""
        good = self._weights > 0
        for a, likelihood in limits.items():
            good &= likelihood[self._codes[a]] > 0
        return np.flatnonzero(good)

    def _agreeing(
        self,
        held: np.ndarray,
        asked: list[str],
        given: Mapping[str, np.ndarray],
        rows: np.ndarray,
        uniform: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(one of the held rows that agrees with each row in the asked columns, or -1; the share of
        those that agree)."""
        shape = [self.schema.domain[a] for a in asked]
        own = [np.concatenate([self._codes[a][held], given[a][rows]]) for a in asked]
        keys = row_keys(own, shape, len(held) + len(rows))
        have = keys[: len(held)]
        want = keys[len(held) :]
        order = np.argsort(have, kind="stable")
        total = np.append(0.0, np.cumsum(self._weights[held[order]]))
        low = np.searchsorted(have[order], want, "left")
        high = np.searchsorted(have[order], want, "right")
        at = total[low] + uniform[rows] * (total[high] - total[low])
        place = np.clip(np.searchsorted(total, at, "right") - 1, low, np.maximum(high - 1, low))
        found = np.where(high > low, held[order[np.minimum(place, len(held) - 1)]], -1)
        return found, (total[high] - total[low]) / self._weights.sum()


def _alike(there: np.ndarray, kinds: list[np.ndarray]) -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """Rows of which the same columns are known, with the same likelihoods: (rows, numbers of the
    likelihoods)."""
    table = np.column_stack([there.astype(np.int64), *kinds])
    distinct, of_row = np.unique(table, axis=0, return_inverse=True)
    of_row = of_row.reshape(-1)
    first = there.shape[1]
    return [
        (np.flatnonzero(of_row == k), tuple(int(x) for x in distinct[k, first:]))
        for k in range(len(distinct))
    ]

"""Rows of columns of two codes, 64 rows in a word, and their marginals over many sets of columns.

Marginals of a hundred thousand sets of four or five columns take seconds. The kernel (csrc/bits.c)
counts the rows in which all columns of a set are 1. Subtraction gives all other cells."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from .._core import bits

MOST_WIDTH = 8
"""Columns of a set, at most (`FDP_BITS_WIDTH` of csrc/bits.h)."""


def told_apart(columns: int, width: int) -> bool:
    """Whether each set of so many of the columns has an int64 of its own, by which `BitRows` knows
    it. All sets have one up to 234 columns, and sets of five up to 6,208."""
    return columns**width < 1 << 63


class BitRows:
    """Rows by bits. `columns`: 0 or 1 of every row, column after column. `weights`: what each row
    counts, whole numbers; 1 without them. Rows of equal weight stand together, so that all rows of
    a word have the same weight."""

    def __init__(self, columns: Iterable[np.ndarray], rows: int, weights: np.ndarray | None = None):
        if weights is None:
            self._weight = np.ones(-(-rows // 64), np.int64)
            self._total = rows
            place = None
        else:
            self._weight, place = _by_weight(np.asarray(weights, np.int64))
            self._total = int(np.asarray(weights, np.int64).sum())
        packed = [_packed(column, len(self._weight), place) for column in columns]
        self._words = np.array(packed, np.uint64).reshape(len(packed), len(self._weight))

    def tables(self, sets: np.ndarray, threads: int) -> np.ndarray:
        """int64 [sets, 2^width]: the marginals of these sets (columns by number, [sets, width]),
        cells in C order."""
        sets = np.asarray(sets, np.int64)
        count, width = sets.shape
        if width > MOST_WIDTH or (sets.size and not 0 <= sets.min() <= sets.max() < len(self)):
            raise ValueError(f"expected sets of at most {MOST_WIDTH} of the columns")
        if not told_apart(len(self), width):
            raise ValueError(f"too many columns for sets of {width}")
        out = np.empty((count, 1 << width), np.int64)
        for chosen in range(width + 1):
            at = list(combinations(range(width), chosen))
            found = self._ones(np.concatenate([sets[:, list(p)] for p in at]), threads)
            for places, ones in zip(at, found.reshape(len(at), count)):
                out[:, sum(1 << (width - 1 - p) for p in places)] = ones
        cells = out.reshape(count, *(2,) * width)
        for axis in range(1, width + 1):
            zero, one = (np.moveaxis(cells, axis, 0)[code] for code in (0, 1))
            zero -= one
        return out

    def __len__(self) -> int:
        return len(self._words)

    def _ones(self, sets: np.ndarray, threads: int) -> np.ndarray:
        """The weighted rows in which all columns of a set are 1. Each different set is counted
        once, in an order in which sets share what they begin with."""
        if not sets.shape[1]:
            return np.full(len(sets), self._total)
        base = len(self) ** np.arange(sets.shape[1] - 1, -1, -1)
        _, first, which = np.unique(sets @ base, return_index=True, return_inverse=True)
        asked = np.ascontiguousarray(sets[first], np.int32)
        return bits.ones(self._words, self._weight, asked, threads)[which]


def _by_weight(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(weight of each word, place of each row): rows of one weight follow each other, and fill
    their last word with zeros."""
    distinct, group = np.unique(weights, return_inverse=True)
    rows = np.bincount(group, minlength=len(distinct))
    words = -(-rows // 64)
    first = 64 * (np.cumsum(words) - words) - (np.cumsum(rows) - rows)
    place = np.empty(len(weights), np.int64)
    place[np.argsort(group, kind="stable")] = np.arange(len(weights)) + np.repeat(first, rows)
    return np.repeat(distinct, words), place


def _packed(column: np.ndarray, words: int, place: np.ndarray | None) -> np.ndarray:
    """Bits, 64 in a word; places without a row are zero."""
    spread = np.zeros(64 * words, np.uint8)
    spread[: len(column)] = column if place is None else 0
    if place is not None:
        spread[place] = column
    return np.packbits(spread).view(np.uint64)

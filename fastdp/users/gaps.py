"""Gaps between a user's rows in order of time: what was released of them, and those of a pool's users."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from .people import Codes


class Gaps(Struct, frozen=True, eq=False):
    """Gaps between a user's rows in the order of these columns: the mean over users, with two rows
    or more, of their shares in each bin, and the standard error."""

    order: tuple[str, ...]
    shares: np.ndarray
    error: float

    @property
    def edges(self) -> np.ndarray:
        """The least gap of each bin but the first, which is 0: powers of 2."""
        return np.int64(1) << np.arange(min(len(self.shares) - 1, 62), dtype=np.int64)

    def bins(self, codes: Codes, sizes: Mapping[str, int], start: np.ndarray) -> np.ndarray:
        """The bin of each row's gap from the row before it; a bin more for users' first rows."""
        cells = math.prod(sizes[name] for name in self.order)
        narrow = cells < 1 << 31
        time = np.zeros(1, np.int32 if narrow else np.int64)
        for name in self.order:
            time = time * sizes[name] + codes[name].astype(time.dtype)
        gap = np.abs(np.diff(time, prepend=time[:1]))
        if cells <= len(gap):
            bins = np.minimum(_digits(np.arange(cells)), len(self.shares) - 1)[gap]
        else:
            bins = np.minimum(_digits(gap), len(self.shares) - 1)
        bins[start[:-1]] = len(self.shares)
        return bins

    def of_users(self, codes: Codes, sizes: Mapping[str, int], start: np.ndarray) -> np.ndarray:
        """[bins, users]: the share of each user's gaps that lies in each bin."""
        users = len(start) - 1
        bins = len(self.shares)
        cells = self.bins(codes, sizes, start) * users
        cells += np.repeat(np.arange(users), np.diff(start))
        counts = np.bincount(cells, minlength=(bins + 1) * users).reshape(bins + 1, users)[:bins]
        return counts / np.maximum(np.diff(start) - 1.0, 1.0)


def _digits(numbers: np.ndarray) -> np.ndarray:
    """The number of binary digits: 0 of 0, 1 of 1, 2 of 2 and 3, 3 of 4 to 7, ..."""
    return np.frexp(numbers.astype(float))[1].astype(np.int64)

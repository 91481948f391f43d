"""The obvious twin of bounded counting: Python dictionaries and whole numbers, one row at a time."""

from collections import Counter
from itertools import product

import numpy as np

SCALE = 2**20


def marginal(rows, users, attributes, sizes, clip):
    """int64 marginal over `attributes` (indices into a row), in units of 2^-20 rows.

    rows: tuples of codes; users: their ids, None for a row that is its own user.
    """
    own = Counter(u for u in users if u is not None)
    cells = Counter()
    for row, user in zip(rows, users, strict=True):
        weight = SCALE if user is None else min(SCALE, clip * SCALE // own[user])
        cells[tuple(row[a] for a in attributes)] += weight
    shape = tuple(sizes[a] for a in attributes)
    return np.array([cells[c] for c in product(*map(range, shape))], np.int64).reshape(shape)

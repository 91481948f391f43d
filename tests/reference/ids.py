"""Slow, obvious twins for user ids: the pairing, the published join, the higher-order conjunction score."""

from collections import Counter

import numpy as np


def pairs_left(row_key, unit_key):
    """(rows, units) left over when equal keys are paired one to one."""
    rows, units = Counter(row_key.tolist()), Counter(unit_key.tolist())
    return (rows - units).total(), (units - rows).total()


def join_heuristic(synthetic, public, public_user, columns, shape, seed):
    """The published way: a synthetic row gets the id of a random public row with the same pickup and
    shift."""
    rng = np.random.default_rng(seed)
    where = {}
    keys = np.ravel_multi_index([public[c].astype(int) for c in columns], shape)
    for i, key in enumerate(keys.tolist()):
        where.setdefault(key, []).append(i)
    asked = np.ravel_multi_index([synthetic[c].astype(int) for c in columns], shape)
    everyone = np.arange(len(keys))
    return np.array([public_user[rng.choice(where.get(key, everyone))] for key in asked.tolist()])


def profiles(user, codes):
    """One line per user that has rows: counts by shift (21), then by pickup area (78)."""
    table = np.zeros((int(user.max()) + 1, 99), int)
    np.add.at(table, (user, codes["shift"].astype(int)), 1)
    np.add.at(table, (user, 21 + codes["pickup_community_area"].astype(int)), 1)
    return table[table.sum(axis=1) > 0]


def conjunction(truth_user, truth, user, synthetic):
    """1 - mean absolute difference of the shares of users within tolerances of 50 random users of the
    truth."""
    a, b = profiles(truth_user, truth), profiles(user, synthetic)
    rng = np.random.RandomState(123456)  # the score is defined by this generator
    gaps = []
    for _ in range(50):
        target = a[rng.randint(0, len(a))]
        tolerance = rng.randint(5, 51, size=99)
        near = [(np.abs(x - target) <= tolerance).all(axis=1).mean() for x in (a, b)]
        gaps.append(abs(near[0] - near[1]))
    return 1 - float(np.mean(gaps))

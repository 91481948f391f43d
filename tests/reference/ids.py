"""Slow, obvious twins for user ids: the pairing, the published join, the higher-order conjunction score."""

from collections import Counter


def pairs_left(row_key, unit_key):
    """(rows, units) left over when equal keys are paired one to one."""
    rows, units = Counter(row_key.tolist()), Counter(unit_key.tolist())
    return (rows - units).total(), (units - rows).total()

"""Higher-order conjunction, one part of the sprint 3 score: how many taxis are similar to a drawn
taxi.

Each taxi has 99 counts: its trips by shift (0..20) and by pickup area (-1, 1..77). Fifty times,
numpy's RandomState(123456) draws a taxi of the truth (in ascending order of ids) and 99 tolerances
from 5..50. A taxi is similar if each of its counts differs from that of the drawn taxi by at most
the tolerance. The score is 1 minus the mean over the fifty draws of |share of similar taxis in the
truth - share of similar taxis in the synthetic table|.
"""

import numpy as np

from ..._util.threads import each

SHIFTS = tuple(range(21))
AREAS = (-1, *range(1, 78))
WIDTH = len(SHIFTS) + len(AREAS)
QUERIES = 50
"""Random queries that are scored; the challenge fixes their number."""
SEED = 123456
"""The challenge's own seed of these queries."""
BLOCK = 1024
"""Taxis compared at a time: their counts (400 kB) stay in a processor's own cache."""


def habits(
    taxi: np.ndarray, shift: np.ndarray, area: np.ndarray, shifts: list, areas: list
) -> np.ndarray:
    """int32 [taxis, 99]: trips of each taxi by shift and by area. `shift` and `area` hold codes,
    which are positions in the lists of values `shifts` and `areas`.

    Values outside the official 21 shifts and 78 areas have no column and are not counted.
    """
    taxis = int(taxi.max()) + 1 if len(taxi) else 0
    out = np.zeros(taxis * WIDTH, np.int64)
    for codes, values, columns in ((shift, shifts, SHIFTS), (area, areas, AREAS)):
        first = 0 if columns is SHIFTS else len(SHIFTS)
        where = {v: first + i for i, v in enumerate(columns)}
        column = np.array([where.get(v, -1) for v in values] or [-1], np.int64)[codes]
        there = column >= 0
        out += np.bincount(taxi[there].astype(np.int64) * WIDTH + column[there], minlength=len(out))
    return out.astype(np.int32).reshape(taxis, WIDTH)


def score(truth: np.ndarray, synthetic: np.ndarray, threads: int = 1) -> float:
    """1 - mean |share of similar taxis in the truth - the same share in the synthetic table|; 0 if
    exactly one of the tables has no taxi, 1 if both have none."""
    if len(truth) == 0 or len(synthetic) == 0:
        return float(len(truth) == len(synthetic))
    rng = np.random.RandomState(SEED)
    low = np.empty((QUERIES, WIDTH), np.int32)
    high = np.empty((QUERIES, WIDTH), np.int32)
    for q in range(QUERIES):
        centre = truth[rng.randint(0, len(truth))]
        tolerance = rng.randint(5, 51, size=WIDTH)
        low[q] = centre - tolerance
        high[q] = centre + tolerance
    shares = [_shares(side, low, high, threads) for side in (truth, synthetic)]
    return float(1.0 - np.abs(shares[0] - shares[1]).mean())


def _shares(counts: np.ndarray, low: np.ndarray, high: np.ndarray, threads: int) -> np.ndarray:
    """float64 [queries]: the share of taxis whose every count lies between `low` and `high`."""
    spans = (high - low).astype(np.uint32)[:, :, None]

    def similar(begin: int) -> np.ndarray:
        block = np.ascontiguousarray(counts[begin : begin + BLOCK].T)
        # A difference below 0 becomes a huge number.
        above = ((block - least[:, None]).view(np.uint32) for least in low)
        return np.array([(a <= span).all(axis=0).sum() for a, span in zip(above, spans)])

    return np.sum(each(similar, range(0, len(counts), BLOCK), threads), axis=0) / len(counts)

"""Higher-order conjunction, one part of the sprint 3 score: how many taxis are similar to a drawn taxi.

Each taxi has 99 counts: its trips by shift (0..20) and by pickup area (-1, 1..77). Fifty times, with numpy's
RandomState(123456), a taxi of the truth (in ascending order of ids) and then 99 tolerances from 5..50 are
drawn; a taxi is similar if each of its counts differs from that of the drawn taxi by at most the tolerance.
The score is 1 minus the mean over the fifty draws of |share of similar taxis in the truth - share of similar
taxis in the synthetic table|. numba compiles the loops, so that a user can change the rule and keep the
speed; where numba is not installed, numpy computes the same counts more slowly.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

SHIFTS = tuple(range(21))
AREAS = (-1, *range(1, 78))
WIDTH = len(SHIFTS) + len(AREAS)
QUERIES, SEED = 50, 123456


@cache
def _loops():
    """The functions (count, alike): compiled by numba if it is installed, else the numpy versions below.

    numba is imported only when this function is called."""
    try:
        import numba
    except ImportError:
        return _count, _alike

    jit = numba.njit(cache=True, nogil=True)

    @jit
    def count(taxi, shift, area, shift_column, area_column, out):
        for i in range(len(taxi)):
            s, a = shift_column[shift[i]], area_column[area[i]]
            if s >= 0:
                out[taxi[i], s] += 1
            if a >= 0:
                out[taxi[i], a] += 1

    @jit
    def alike(counts, low, high, begin, end):
        inside = np.zeros(len(low), np.int64)
        for i in range(begin, end):
            row = counts[i]
            for q in range(len(low)):
                # No early exit: a loop without branches runs on vector units and is faster.
                outside = 0
                for j in range(len(row)):
                    outside |= (row[j] < low[q, j]) | (row[j] > high[q, j])
                inside[q] += outside == 0
        return inside

    return count, alike


def _count(taxi, shift, area, shift_column, area_column, out) -> None:
    """Adds 1 to `out` for the shift and for the area of each trip, in the row of its taxi; a column number of
    -1 is not counted."""
    for column in (shift_column[shift], area_column[area]):
        there = column >= 0
        np.add.at(out, (taxi[there], column[there]), 1)


def _alike(counts, low, high, begin: int, end: int) -> np.ndarray:
    """int64 [queries]: how many of the taxis begin..end-1 have every count between `low` and `high`."""
    rows = counts[begin:end]
    inside = [((rows >= lowest) & (rows <= highest)).all(axis=1).sum() for lowest, highest in zip(low, high)]
    return np.array(inside, np.int64)


def habits(taxi: np.ndarray, shift: np.ndarray, area: np.ndarray, shifts: list, areas: list) -> np.ndarray:
    """int32 [taxis, 99]: trips of each taxi by shift and by area. `shift` and `area` hold codes, which are
    positions in the lists of values `shifts` and `areas`.

    Values outside the official 21 shifts and 78 areas have no column and are not counted.
    """
    taxis = int(taxi.max()) + 1 if len(taxi) else 0
    out = np.zeros((taxis, WIDTH), np.int32)
    where = {v: i for i, v in enumerate(SHIFTS)}
    shift_column = np.array([where.get(v, -1) for v in shifts] or [-1], np.int64)
    where = {v: len(SHIFTS) + i for i, v in enumerate(AREAS)}
    area_column = np.array([where.get(v, -1) for v in areas] or [-1], np.int64)
    _loops()[0](taxi, shift, area, shift_column, area_column, out)
    return out


def score(truth: np.ndarray, synthetic: np.ndarray, threads: int = 1) -> float:
    """1 - mean |share of similar taxis in the truth - the same share in the synthetic table|; 0 if exactly
    one of the tables has no taxi, 1 if both have none."""
    if len(truth) == 0 or len(synthetic) == 0:
        return float(len(truth) == len(synthetic))
    rng = np.random.RandomState(SEED)
    low = np.empty((QUERIES, WIDTH), np.int32)
    high = np.empty((QUERIES, WIDTH), np.int32)
    for q in range(QUERIES):
        centre = truth[rng.randint(0, len(truth))]
        tolerance = rng.randint(5, 51, size=WIDTH)
        low[q], high[q] = centre - tolerance, centre + tolerance
    shares = [_shares(side, low, high, threads) for side in (truth, synthetic)]
    return float(1.0 - np.abs(shares[0] - shares[1]).mean())


def _shares(counts: np.ndarray, low: np.ndarray, high: np.ndarray, threads: int) -> np.ndarray:
    alike = _loops()[1]
    edges = np.linspace(0, len(counts), max(1, threads) * 4 + 1).astype(np.int64)
    with ThreadPoolExecutor(max(1, threads)) as pool:
        parts = list(pool.map(lambda b, e: alike(counts, low, high, b, e), edges[:-1], edges[1:]))
    return np.sum(parts, axis=0) / len(counts)

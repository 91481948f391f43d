"""Tails of columns of numbers in bins: counts of bins beyond those that stand out of noise.

Few rows, or none, have the largest numbers. Noise has the same size in every bin, so in the last bins
it counts rows that are not there, and one such row weighs as much as its number. Then a sum, a mean or
the part that the largest have is noise. So, from the last bin on in which rows are there for sure,
counts are taken to fall from bin to bin by one factor. All factors below 1 are as likely before looking.
The estimate is the mean over all of them, each weighed by how likely it makes the noisy counts. Bins
that grow in proportion have Pareto tails by that, and equal bins exponential ones. The same holds below
the first bin for sure. Everything here is a function of released numbers.
"""

from __future__ import annotations

import numpy as np

from ...rows_per_user import last_run
from ...schema import Schema
from .code_compression import numberless

FACTORS = np.arange(64) / 64
"""Factors by which a count is that of the bin before it."""


def numbers_in_bins(schema: Schema) -> dict[str, np.ndarray]:
    """By column whose codes are bins of numbers, or whose numbers are amounts: which codes are numbers."""
    columns = schema.columns
    names = [n for n in columns if columns[n].binned or n in schema.user_amounts]
    return {n: ~numberless(columns[n]) for n in names if not columns[n].temporal}


def with_tails(values: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Noisy counts of bins in the order of their numbers, with the tails at both ends. Where no bin
    stands out they stay as they are."""
    upper = _with_tail(values, errors)
    return _with_tail(upper[::-1], errors[::-1])[::-1]


def _with_tail(values: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """The counts, those after the last run of bins that stands out as a tail that starts at its mean."""
    first, last = last_run(values, errors)
    if last < 0 or last + 1 == values.size:
        return values
    level = float(values[first : last + 1].mean())
    counts = values[last + 1 :]
    noise = errors[last + 1 :]
    tails = level * FACTORS[:, None] ** (1 + np.arange(counts.size))
    misfit = np.square((counts - tails) / noise).sum(axis=1) / 2
    likely = np.exp(misfit.min() - misfit)
    return np.append(values[: last + 1], likely @ tails / likely.sum())

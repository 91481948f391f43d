"""Numbers that a session releases (`Measurement`), and requests for them (`Request`).

A `Measurement` is a noisy answer that may be released. No private count can become one: counts are
integers, and the type takes only floating-point values together with a positive standard error.
This module imports nothing that can reach private data, so the estimator and the mechanisms may
import it freely.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .domain import Clique
from .errors import MeasurementError, UsageError

SCALE = 1 << 20
"""Grid units per row (and per user): weights, exact answers and noise are whole numbers of 1/SCALE.
"""
MOST = 1 << 61
"""Exact sums are cut off here, so that no number of rows makes one wrap or fail: docs/explain/bounds.md.
"""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy answer about one marginal: `values[i]` is row i of `query` applied to it, plus
    noise of std `sigma`.

    clique
        The marginal's attributes; cells in C order, the last attribute fastest.
    values
        float64, in rows (or in users, for a histogram of users), one per query row, flattened. Arrays of
        integers are refused: an integer array is what a private count looks like.
    sigma
        Standard error of the values, positive and finite: one number for all, or float64 of `values`' length.
    query
        None (each single cell), a query of `fastdp.queries`, or a `scipy.sparse` matrix (rows x cells).
        For queries of `fastdp.queries` the values are those of `query.product`, without the rows' scalars.
    label
        Where it comes from, for people.
    """

    clique: Clique
    values: np.ndarray
    sigma: float | np.ndarray
    query: Any = None
    label: str = field(default="", kw_only=True)

    def __post_init__(self):
        clique = (self.clique,) if isinstance(self.clique, str) else tuple(self.clique)
        if not all(isinstance(a, str) and a for a in clique):
            raise MeasurementError(
                f"measurement of {clique!r}: attributes must be non-empty strings"
            )
        if len(set(clique)) != len(clique):
            raise MeasurementError(
                f"measurement of {clique!r}: an attribute is named twice; name each once"
            )
        object.__setattr__(self, "clique", clique)
        values = self._floats(self.values, "values").reshape(-1)
        object.__setattr__(self, "values", values)
        sigma = self._floats(self.sigma, "sigma")
        if sigma.ndim == 0:
            sigma = float(sigma)
        elif sigma.size != values.size:
            raise MeasurementError(
                f"measurement of {clique!r}: expected one sigma or {values.size} (one per "
                f"value), got {sigma.size}"
            )
        else:
            sigma = sigma.reshape(-1)
        if not np.all(np.asarray(sigma) > 0):
            raise MeasurementError(f"measurement of {clique!r}: sigma must be positive and finite")
        object.__setattr__(self, "sigma", sigma)
        if self.query is not None:
            rows = int(self.query.rows if hasattr(self.query, "product") else self.query.shape[0])
            if rows != values.size:
                raise MeasurementError(
                    f"measurement of {clique!r}: expected {rows} values, one for each row of the "
                    f"query, got {values.size}"
                )

    def _floats(self, numbers, what: str) -> np.ndarray:
        """Read-only float64: the array given where it is already both, else a copy; integers are
        taken from plain Python numbers and lists only."""
        array = np.asarray(numbers)
        ours = isinstance(numbers, np.ndarray | np.generic) or hasattr(numbers, "__array__")
        if array.dtype.kind in "iub" and ours and not (what == "sigma" and array.ndim == 0):
            raise MeasurementError(
                f"measurement of {self.clique!r}: {what} are integers, but noisy answers are "
                "float64; if these numbers may be released, convert them with astype(float)"
            )
        if array.dtype.kind not in "iubf":
            raise MeasurementError(f"measurement of {self.clique!r}: {what} must be numbers")
        array = np.array(
            array, dtype=np.float64, order="C", copy=True if array.flags.writeable else None
        )
        if not np.isfinite(array).all():
            raise MeasurementError(
                f"measurement of {self.clique!r}: {what} contain NaN or infinity"
            )
        array.flags.writeable = False
        return array

    @property
    def variances(self) -> np.ndarray:
        """Squared standard error per value (a read-only view where sigma is one number)."""
        return np.broadcast_to(np.square(self.sigma), self.values.shape)

    def __repr__(self) -> str:
        low = np.min(self.sigma, initial=np.inf)
        high = np.max(self.sigma, initial=0.0)
        noise = f"{low:.4g}" if low >= high else f"{low:.4g}..{high:.4g}"
        query = "" if self.query is None else f", query={self.query!r}"
        return f"Measurement({self.clique!r}, {self.values.size} values, sigma={noise}{query})"


@dataclass(frozen=True, eq=False)
class Request:
    """Ask the session for one marginal: `mu` is the Gaussian-DP parameter this one measurement may
    cost per user.

    Its noise is `clip / mu` rows on the scaled query rows; of a budget `session.mu`, a share s of
    it is `session.mu * sqrt(s)`.
    """

    clique: Clique
    mu: float
    query: Any = None

    def __post_init__(self):
        clique = (self.clique,) if isinstance(self.clique, str) else tuple(self.clique)
        object.__setattr__(self, "clique", clique)
        mu = float(self.mu)
        if not (math.isfinite(mu) and mu > 0):
            raise UsageError(
                f"request for {clique!r}: mu must be positive and finite, got {self.mu!r}"
            )
        object.__setattr__(self, "mu", mu)

"""How one request is answered: its sensitivity, its noise, and how it is described in the statement.

Only public facts come in: domain, clip, query and mu. Nothing here can reach the data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..domain import Clique, Domain
from ..errors import MeasurementError, PrivacyError, UsageError
from ..measurement import SCALE, Request
from ..privacy import scale
from ..privacy.accountant import Event, Gaussian, Pure
from ..privacy.budget import to_dict
from ..queries import AdaGrid, Binned, Identity, Sparse, Weighted, fresh

# A query's `product` runs behind the session, on private counts; so no other class, nor a subclass, is let
# in.
DOOR_QUERIES = (Identity, Weighted, Sparse, Binned, AdaGrid)

SCORE_LIMIT = 1 << 61
WEIGHT_UNITS = 1 << 10


@dataclass(frozen=True, eq=False)
class MarginalPlan:
    """A request with its noise worked out: `sigma` in grid units of 1/SCALE rows, per unscaled query row."""

    clique: Clique
    query: Any
    rows: int
    mu: float
    clip: int
    sensitivity2: int
    coef2: scale.Coef2 | None
    sigma: float | np.ndarray
    question: dict

    @property
    def sigma_rows(self) -> float | np.ndarray:
        """The noise in rows; exact, since SCALE is a power of two."""
        return self.sigma / SCALE

    def describe(self, label: str) -> dict:
        """The release as the statement lists it."""
        release = release_of(
            label,
            "marginal",
            self.clique,
            "gaussian",
            Gaussian(self.mu),
            self.clip,
            self.sigma_rows,
            self.rows,
        )
        return release if self.query is None else release | {"query": type(self.query).__name__}


def plan_marginal(
    domain: Domain, clip: int, request: Request, rebuilt: dict[int, tuple] | None = None
) -> MarginalPlan:
    """Sensitivity and noise of one request, or PrivacyError if its query is not bounded by 1.

    The query is made anew from its data (`rebuilt`: queries made so before), so that it cannot change once it
    was checked.

    A user's rows weigh at most clip * SCALE in all, so the weighted cell vector they add has L1 norm at most
    that; every column of the scaled query has L2 norm at most 1 (checked here, exactly), so by the triangle
    inequality the scaled answers change by at most clip * SCALE in L2.
    """
    clique, mu, query = domain.check(request.clique), float(request.mu), request.query
    cells = domain.cells(clique)
    coef2, rows = None, cells
    if query is not None:
        if type(query) not in DOOR_QUERIES:
            raise PrivacyError(f"request for {clique!r}: the session takes queries of fastdp.queries only")
        query = fresh(query, {} if rebuilt is None else rebuilt)
        if query.cells != cells:
            raise MeasurementError(
                f"request for {clique!r}: the query is over {query.cells} cells, not {cells}"
            )
        norm2 = query.column_norm2()
        if not isinstance(norm2, Fraction | int) or norm2 > 1:
            raise PrivacyError(
                f"request for {clique!r}: a column of its query has an L2 norm above 1; nothing was drawn"
            )
        rows, coef2 = int(query.rows), query.coef2
        check_columns(query, clique)
    sensitivity2 = (clip * SCALE) ** 2
    sigma = scale.row_sigmas(scale.gaussian_sigma(sensitivity2, mu), coef2)
    scale.check_gaussian(sigma, coef2, sensitivity2, mu)
    question = {
        "clique": list(clique),
        "cells": cells,
        "mu": mu,
        "query": None if query is None else query_digest(query),
    }
    return MarginalPlan(clique, query, rows, mu, clip, sensitivity2, coef2, sigma, question)


def plan_users(bound: int, mu: float | None, epsilon: float | None) -> tuple[Event, float, float, int]:
    """(charge, width of the noise in grid units, its standard deviation in users, grid units per user) of a
    histogram in which a user is counted at most `bound` times, once in a key: Gaussian noise with `mu`, else
    discrete Laplace noise with `epsilon`."""
    if mu is not None:
        cost, sensitivity2 = positive(mu, "mu"), bound * SCALE * SCALE
        width = scale.gaussian_sigma(sensitivity2, cost)
        scale.check_gaussian(width, None, sensitivity2, cost)
        return Gaussian(cost), width, width / SCALE, SCALE
    cost = positive(epsilon, "epsilon")
    width = scale.laplace_scale(bound, cost)
    scale.check_laplace(width, bound, cost)
    return Pure(cost), width, scale.laplace_std(width), 1


def check_columns(query, clique: Clique) -> None:
    """A second look at the column norms, in floats and by the transpose, in case a query's own claim is
    wrong."""
    num, den = query.coef2
    if len(num) != query.rows or len(den) != query.rows:
        raise PrivacyError(f"request for {clique!r}: the query does not know the scalar of every row")
    if not query.rows:
        return
    columns = query.transpose(np.asarray(num, np.float64) / np.asarray(den, np.float64))
    if not np.max(columns, initial=0.0) <= 1 + 1e-9:
        raise PrivacyError(f"request for {clique!r}: its query claims a smaller column norm than it has")


def query_digest(query) -> str:
    """A digest of what the query asks: its scalars, and its answer to a fixed pseudo-random vector."""
    probe = np.random.Generator(np.random.Philox(20)).integers(0, 1 << 20, query.cells, np.int64)
    num, den = query.coef2
    return array_digest(np.asarray(num), np.asarray(den), np.asarray(query.product(probe)))


def array_digest(*arrays: np.ndarray) -> str:
    h = hashlib.sha256()
    for array in arrays:
        h.update(f"{array.dtype.str}{array.shape}".encode())
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()


def release_of(
    label: str,
    kind: str,
    about: Sequence[str],
    law: str,
    event: Event,
    sensitivity: float,
    sigma: float | np.ndarray | None,
    count: int,
) -> dict:
    """One line of the statement. `sensitivity` and `sigma` are in rows (or users): L2 for Gaussian noise, L1
    for Laplace, change of the score for a selection."""
    release = {
        "label": label,
        "kind": kind,
        "attributes": list(about),
        "law": law,
        "event": to_dict(event),
        "sensitivity": sensitivity,
        "count": int(count),
    }
    if sigma is not None:
        release["sigma"] = float(np.min(sigma))
        if np.max(sigma) > np.min(sigma):
            release["sigma_max"] = float(np.max(sigma))
    return release


def score_weights(weights: Sequence[float] | None, count: int, label: str) -> list[int]:
    """Weights in whole units of 1/WEIGHT_UNITS, at least one unit each."""
    if weights is None:
        return [WEIGHT_UNITS] * count
    if len(weights) != count or not all(0 < float(w) < 2**20 for w in weights):
        raise UsageError(f"{label!r}: one positive weight per clique, below 2^20")
    return [max(1, round(float(w) * WEIGHT_UNITS)) for w in weights]


def score_grid(domain: Domain, clique: Clique, estimates: Mapping, label: str) -> np.ndarray:
    """A public estimate rounded to the grid, so that the distance to it is a whole number."""
    if clique not in estimates:
        raise UsageError(f"{label!r}: no estimate for {clique!r}")
    estimate = np.asarray(estimates[clique], np.float64).reshape(-1)
    if estimate.size != domain.cells(clique) or not np.isfinite(estimate).all():
        raise MeasurementError(f"{label!r}: the estimate of {clique!r} must be finite, one number per cell")
    if float(np.abs(estimate).sum()) * SCALE >= SCORE_LIMIT:
        raise UsageError(f"{label!r}: the estimate of {clique!r} is too large to compare exactly")
    return np.rint(estimate * SCALE).astype(np.int64)


def score_grid_number(value: float, label: str) -> int:
    value = float(value)
    if not abs(value) * SCALE < SCORE_LIMIT:
        raise UsageError(f"{label!r}: a penalty is not finite or too large")
    return round(value * SCALE)


def require_int64(array: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An int64 array of this shape, or PrivacyError: sums of floats are not exact, so no proof would hold for
    them."""
    if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.shape != shape:
        raise PrivacyError(
            "the engine did not return int64 counts of the marginal's shape; nothing was released"
        )
    return array


def positive(value: Any, what: str) -> float:
    value = float(value)
    if not 0 < value < np.inf:
        raise UsageError(f"{what} must be positive and finite, got {value!r}")
    return value

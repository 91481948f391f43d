"""How one request is answered: its sensitivity, its noise, and how it is described in the
statement.

Only public facts come in: domain, clip, query and mu. Nothing here can reach the data.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec import Struct

from ..domain import Clique, Domain
from ..errors import MeasurementError, PrivacyError, UsageError, is_whole
from ..measurement import SCALE, Request
from ..privacy import scale
from ..privacy.accountant import Event, Gaussian, Pure, Threshold
from ..queries import AdaGrid, Binned, Identity, Sparse, Weighted, fresh
from ..userkeys import (
    KEYS,
    Agreement,
    Disagreement,
    Groups,
    RowsUpTo,
    Succession,
    UserKey,
    WithoutId,
)

# A query's `product` runs inside the session, on private counts: only these classes are accepted,
# and no subclasses of them.
SESSION_QUERIES = (Identity, Weighted, Sparse, Binned, AdaGrid)

NEEDS_GAUSSIAN = (Agreement, Disagreement, RowsUpTo, Succession, WithoutId)
"""Keys whose sensitivity is proved in L2 only."""
SCORE_LIMIT = 1 << 61
"""Largest L1 distance in units of 1/SCALE rows: two of them can be added in 64 bits."""
WEIGHT_UNITS = 1 << 10
"""Weights of candidates are whole multiples of 1 / WEIGHT_UNITS, so weighted scores are whole."""


TINY = 1e-300
PARTS_PER_COLUMN = 16
"""Bounds the noise of any step of a run: it is at most this times the columns (at least
LEAST_COLUMNS) times the noise of one marginal with the whole budget. The largest noise of all
mechanisms is that of distances of all pairs of n columns in a screening round of `cliquetree`. 16 n
covers it by a factor of 3 (8 columns) to 2 (300)."""
LEAST_COLUMNS = 8
"""Fewer columns count as this many."""


def check_affordable(clip: int, cap: Event, columns: int) -> None:
    """Raise PrivacyError, before anything is charged, if a step of a run could need more noise than
    the sampler draws exactly."""
    if isinstance(cap, Gaussian | Threshold):
        whole = clip * SCALE / max(cap.mu, TINY)
    else:
        whole = 1 / max(cap.epsilon, TINY)
    worst = whole * PARTS_PER_COLUMN * max(columns, LEAST_COLUMNS)
    if worst > scale.MAX_SCALE:
        raise PrivacyError(
            f"the noise of a clip of {clip:,} rows per user at this epsilon and delta could be"
            " larger than fastdp draws exactly; choose a smaller clip or a larger epsilon. Nothing"
            " was charged"
        )


class MarginalPlan(Struct, frozen=True, eq=False):
    """A request with its noise worked out: `sigma` in grid units of 1/SCALE rows, per unscaled
    query row."""

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
        event = Gaussian(self.mu)
        sigma = self.sigma_rows
        release = release_of(
            label=label,
            kind="marginal",
            about=self.clique,
            law="gaussian",
            event=event,
            sensitivity=self.clip,
            sigma=sigma,
            count=self.rows,
        )
        return release if self.query is None else release | {"query": type(self.query).__name__}


def plan_marginal(
    domain: Domain, clip: int, request: Request, rebuilt: dict[int, tuple] | None = None
) -> MarginalPlan:
    """Sensitivity and noise of one request, or PrivacyError if its query is not bounded by 1.

    The query is rebuilt from its data, so that its owner cannot change it after the check.
    `rebuilt`: queries rebuilt before, for reuse.

    A user's rows weigh at most clip * SCALE in all, so the weighted cell vector they add has L1
    norm at most that. Every column of the scaled query has L2 norm at most 1, which is checked here
    exactly. So, by the triangle inequality, the scaled answers change by at most clip * SCALE in
    L2."""
    clique = domain.check(request.clique)
    mu = float(request.mu)
    query = request.query
    cells = domain.cells(clique)
    coef2 = None
    rows = cells
    if query is not None:
        if type(query) not in SESSION_QUERIES:
            raise PrivacyError(f"request for {clique!r}: expected a query of fastdp.queries")
        query = fresh(query, {} if rebuilt is None else rebuilt)
        if query.cells != cells:
            raise MeasurementError(
                f"{clique!r} has {cells} cells, but its query is over {query.cells}"
            )
        norm2 = query.column_norm2()
        if not isinstance(norm2, Fraction | int) or norm2 > 1:
            raise PrivacyError(
                f"request for {clique!r}: a column of its query has an L2 norm above 1; "
                "nothing was drawn"
            )
        rows = int(query.rows)
        coef2 = query.coef2
        check_columns(query, clique)
    sensitivity2 = (clip * SCALE) ** 2
    sigma = scale.row_sigmas(scale.gaussian_sigma(sensitivity2, mu), coef2)
    scale.check_gaussian(sigma, coef2, sensitivity2, mu)
    asked = None if query is None else query_digest(query)
    question = {"clique": list(clique), "cells": cells, "mu": mu, "query": asked}
    return MarginalPlan(
        clique=clique,
        query=query,
        rows=rows,
        mu=mu,
        clip=clip,
        sensitivity2=sensitivity2,
        coef2=coef2,
        sigma=sigma,
        question=question,
    )


class HistogramPlan(Struct, frozen=True, eq=False):
    """A histogram of users with its noise worked out: each adds at most 1 to each of at most `cap`
    keys. `bound`: keys whose counts one unit of privacy can change, by at most one each; `width` of
    the noise in grid units (`grid` of them are one user); `sigma`: its standard deviation in users.
    """

    key: UserKey
    size: int
    cap: int
    bound: int
    event: Event
    width: float
    sigma: float
    grid: int

    @property
    def gaussian(self) -> bool:
        return isinstance(self.event, Gaussian)

    @property
    def question(self) -> dict:
        asked = {"kind": "users", "key": self.key.digest(), "size": self.size}
        return asked | {"cap": self.cap, "event": self.event.to_dict()}

    def describe(self, label: str) -> dict:
        """The release as the statement lists it: L2 sensitivity for Gaussian noise, L1 for Laplace
        noise."""
        law = "gaussian" if self.gaussian else "discrete-laplace"
        sensitivity = math.sqrt(self.bound) if self.gaussian else self.bound
        about = [type(self.key).__name__]
        line = release_of(
            label=label,
            kind="user_histogram",
            about=about,
            law=law,
            event=self.event,
            sensitivity=sensitivity,
            sigma=self.sigma,
            count=self.size,
        )
        return line | {"cap": self.bound}


def plan_histogram(
    domain: Domain,
    unit: str,
    key: UserKey,
    cap: int,
    mu: float | None,
    epsilon: float | None,
    label: str,
) -> HistogramPlan:
    """Sensitivity and noise of one histogram of users, or an error where an argument has the wrong
    form.

    With unit "event" the unit is one user's rows of one key: the cap is off and one key's count
    changes.
    """
    if (mu is None) == (epsilon is None):
        raise UsageError(f"{label!r}: give mu (Gaussian noise) or epsilon (Laplace noise)")
    if not is_whole(cap, 1):
        raise UsageError(f"{label!r}: cap must be a whole number >= 1, got {cap!r}")
    if type(key) not in KEYS:
        raise PrivacyError(f"{label!r}: expected a user key of fastdp.userkeys")
    key = key.bind(domain)
    size = int(key.size)
    if isinstance(key, NEEDS_GAUSSIAN) and mu is None:
        raise UsageError(
            f"{label!r}: {type(key).__name__} needs Gaussian noise; give mu instead of epsilon"
        )
    if unit == "event":
        if not isinstance(key, Groups):
            raise UsageError(
                f"{label!r}: {type(key).__name__} is not defined per event; use unit 'user'"
            )
        bound = 1
        cap = size
    else:
        bound = cap = _most_keys(key, int(cap))
    return HistogramPlan(key, size, cap, bound, *plan_users(bound, mu, epsilon))


def _most_keys(key: UserKey, cap: int) -> int:
    """To how many keys one user adds, between -1 and 1 each; or the square of the L2 norm of what
    it adds."""
    if isinstance(key, Agreement | Disagreement | Succession):
        return key.numbers
    return min(cap, key.size) if isinstance(key, Groups) else 1


def plan_users(
    bound: int, mu: float | None, epsilon: float | None
) -> tuple[Event, float, float, int]:
    """(charge, width of the noise in grid units, its standard deviation in users, grid units per
    user) of a histogram in which a user is counted at most `bound` times, once in a key. With `mu`
    the noise is Gaussian, with `epsilon` discrete Laplace."""
    if mu is not None:
        cost = positive(mu, "mu")
        sensitivity2 = bound * SCALE * SCALE
        width = scale.gaussian_sigma(sensitivity2, cost)
        scale.check_gaussian(width, None, sensitivity2, cost)
        return Gaussian(cost), width, width / SCALE, SCALE
    cost = positive(epsilon, "epsilon")
    width = scale.laplace_scale(bound, cost)
    scale.check_laplace(width, bound, cost)
    return Pure(cost), width, scale.laplace_std(width), 1


def check_columns(query, clique: Clique) -> None:
    """Check the column norms a second time, in floats and by the transpose, in case the norms that
    the query itself states are wrong."""
    num, den = query.coef2
    if len(num) != query.rows or len(den) != query.rows:
        raise PrivacyError(
            f"request for {clique!r}: the query does not state the weight of every row"
        )
    if not query.rows:
        return
    scalars = np.asarray(num, np.float64) / np.asarray(den, np.float64)
    columns = query.squared().T @ scalars if type(query) is Sparse else query.transpose(scalars)
    if not np.max(columns, initial=0.0) <= 1 + 1e-9:
        raise PrivacyError(
            f"request for {clique!r}: its query claims a smaller column norm than it has"
        )


def query_digest(query) -> str:
    """A digest of what the query asks: its scalars, and its answer to a fixed pseudo-random
    vector."""
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
    """One line of the statement. `sensitivity` and `sigma` are in rows (or users): L2 for Gaussian
    noise, L1 for Laplace, change of the score for a selection."""
    release: dict[str, Any] = {
        "label": label,
        "kind": kind,
        "attributes": list(about),
        "law": law,
        "event": event.to_dict(),
        "sensitivity": sensitivity,
        "count": int(count),
    }
    if sigma is not None:
        release["sigma"] = float(np.min(sigma))
        if np.max(sigma) > np.min(sigma):
            release["sigma_max"] = float(np.max(sigma))
    return release


def score_grid(domain: Domain, clique: Clique, estimates: Mapping, label: str) -> np.ndarray:
    """A public estimate rounded to the grid, so that the distance to it is a whole number."""
    if clique not in estimates:
        raise UsageError(f"{label!r}: the estimate of {clique!r} is missing")
    estimate = np.asarray(estimates[clique], np.float64).reshape(-1)
    if estimate.size != domain.cells(clique) or not np.isfinite(estimate).all():
        raise MeasurementError(
            f"{label!r}: the estimate of {clique!r} must have one finite number per cell"
        )
    if float(np.abs(estimate).sum()) * SCALE >= SCORE_LIMIT:
        raise UsageError(f"{label!r}: the estimate of {clique!r} is too large to compare exactly")
    return np.rint(estimate * SCALE).astype(np.int64)


def l1_distance(counts: np.ndarray, grid: np.ndarray) -> int:
    """The L1 distance of a marginal from an estimate, both int64 in units of 1/SCALE rows. It is
    cut off at SCORE_LIMIT, which cannot raise how much one user changes it."""
    apart = np.abs(counts.reshape(-1) - grid)
    if apart.sum(dtype=np.float64) > 2 * SCORE_LIMIT:  # the exact sum is above it, and might wrap
        return SCORE_LIMIT
    return min(SCORE_LIMIT, int(apart.sum(dtype=np.int64)))


def recoded(
    domain: Domain, recode: Mapping[str, np.ndarray] | None
) -> tuple[dict[str, np.ndarray], Domain, dict]:
    """(array code -> new code of each recoded column, the domain after recoding, the recoding's
    entry in the step's digest)."""
    codes = {name: np.array(column) for name, column in sorted((recode or {}).items())}
    for name, column in codes.items():
        if column.ndim != 1 or column.dtype.kind not in "iu":
            raise UsageError(f"recoding {name!r}: expected codes as a 1-D array of whole numbers")
    if not codes:
        return {}, domain, {}
    domain = domain.recoded(codes)
    codes = {name: column.astype(np.int64) for name, column in codes.items()}
    digests = {name: array_digest(column) for name, column in codes.items()}
    return codes, domain, {"recode": digests}


def require_int64(array: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An int64 array of this shape, or PrivacyError: sums of floats are not exact, so no proof
    would hold for them."""
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

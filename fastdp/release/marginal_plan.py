"""Marginals with Gaussian noise: sensitivity and noise of each request, and its line in the
statement."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec import Struct

from ..domain import Clique, Domain
from ..errors import MeasurementError, PrivacyError
from ..measurement import SCALE, Measurement, Request
from ..privacy import noise, scale
from ..privacy.accountant import Gaussian
from ..queries import AdaGrid, Binned, Identity, Sparse, Weighted, fresh
from .counts import Counts, require_int64
from .planned_release import Recoded, Seeds, array_digest, release_of

# A query's `product` runs inside the session, on private counts: only these classes are accepted,
# and no subclasses of them.
SESSION_QUERIES = (Identity, Weighted, Sparse, Binned, AdaGrid)


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

    def noisy(self, table: np.ndarray, seed: int | None) -> np.ndarray:
        """The integer answers plus integer noise, on the grid of 1/SCALE rows."""
        exact = table.reshape(-1)
        if self.query is not None:
            exact = require_int64(self.query.product(exact), (self.rows,))
        scale.check_gaussian(self.sigma, self.coef2, self.sensitivity2, self.mu)
        return exact + noise.gaussian(self.sigma, self.rows, seed=seed)


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


class MarginalsPlan(Struct, frozen=True, eq=False):
    """The requests of one step, in their order. `recoded`: the sizes of the columns whose codes are
    merged."""

    requests: Sequence[Request]
    plans: list[MarginalPlan]
    clip: int
    recoded: Mapping[str, int]

    @property
    def question(self) -> dict:
        asked = [p.question for p in self.plans]
        return {"kind": "marginals", "clip": self.clip, "asked": asked}

    @property
    def events(self) -> list[Gaussian]:
        return [Gaussian(p.mu) for p in self.plans]

    @property
    def draws(self) -> int:
        return sum(p.rows for p in self.plans)

    def count(self, counts: Counts) -> dict[Clique, np.ndarray]:
        return counts.marginals(list(dict.fromkeys(p.clique for p in self.plans)))

    def noisy(self, exact: Mapping[Clique, np.ndarray], seed: Seeds) -> list[np.ndarray]:
        return [p.noisy(exact[p.clique], seed(i)) for i, p in enumerate(self.plans)]

    def lines(self, label: str) -> list[dict]:
        out = []
        for p in self.plans:
            merged = {name: self.recoded[name] for name in p.clique if name in self.recoded}
            out.append(p.describe(label) | ({"recoded": merged} if merged else {}))
        return out

    def released(self, arrays: Sequence[np.ndarray], label: str) -> list[Measurement]:
        return [
            Measurement(p.clique, a.astype(np.float64) / SCALE, p.sigma_rows, r.query, label=label)
            for p, a, r in zip(self.plans, arrays, self.requests, strict=True)
        ]


def plan_marginals(recoded: Recoded, clip: int, requests: Sequence[Request]) -> MarginalsPlan:
    """Sensitivity and noise of all requests (`plan_marginal`)."""
    rebuilt: dict[int, tuple] = {}
    plans = [plan_marginal(recoded.domain, clip, r, rebuilt) for r in requests]
    sizes = {name: recoded.domain[name] for name in recoded.codes}
    return MarginalsPlan(requests, plans, clip, sizes)


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

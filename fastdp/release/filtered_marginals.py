"""Filtered marginals: only their cells above a threshold are released. Distribution and
proof: docs/explain/wide-pairs.md."""

import math
from typing import Any

import numpy as np
from msgspec import Struct

from ..domain import Clique, Domain
from ..errors import UsageError
from ..measurement import SCALE
from ..privacy import noise, scale, tail
from ..privacy.accountant import Gaussian
from ..significance import LIKELY, threshold as least_of
from .counts import Counts
from .planned_release import Seeds, positive, release_of

MOST_CELLS = 1 << 42
"""Cells of the largest filtered marginal: each counts as a number drawn
(`privacy.sampler_distance`)."""
DENSE_CELLS = 1 << 27
"""The same for engines that count every cell (1 GiB of int64)."""


class Filtered(Struct, frozen=True, eq=False):
    """The noisy cells of a marginal that are above a threshold: `cells` (ascending int64 numbers in
    C order) and `values` (float64, in rows); all others are not. `shape` of the whole marginal;
    `sigma` and `threshold` in rows."""

    clique: Clique
    shape: tuple[int, ...]
    cells: np.ndarray
    values: np.ndarray
    sigma: float
    threshold: float


class FilterPlan(Struct, frozen=True, eq=False):
    """A filtered marginal with its noise: `size` cells, `sigma` and `threshold` in grid units.

    The release is that of a marginal with Gaussian noise on every cell. Only the cells above a
    public threshold are kept: post-processing of a mu-GDP release. `noisy` draws from the same
    distribution without drawing noise for empty cells that are dropped (proof:
    docs/explain/wide-pairs.md)."""

    clique: Clique
    shape: tuple[int, ...]
    size: int
    mu: float
    clip: int
    sensitivity2: int
    sigma: float
    threshold: int

    @property
    def events(self) -> list[Gaussian]:
        return [Gaussian(self.mu)]

    @property
    def draws(self) -> int:
        return self.size

    def check(self) -> None:
        scale.check_gaussian(self.sigma, None, self.sensitivity2, self.mu)

    @property
    def question(self) -> dict:
        about: dict[str, Any] = {"kind": "filtered", "clip": self.clip, "mu": self.mu}
        return about | {
            "clique": list(self.clique),
            "cells": self.size,
            "threshold": self.threshold,
        }

    def count(self, counts: Counts) -> tuple[np.ndarray, np.ndarray]:
        return counts.cells(self.clique)

    def released(self, cells: np.ndarray, array: np.ndarray) -> Filtered:
        sigma = self.sigma / SCALE
        threshold = self.threshold / SCALE
        return Filtered(self.clique, self.shape, cells, array / SCALE, sigma, threshold)

    def lines(self, label: str) -> list[dict]:
        rows = self.sigma / SCALE
        about = list(self.clique)
        line = release_of(
            label=label,
            kind="filtered",
            about=about,
            law="gaussian",
            event=Gaussian(self.mu),
            sensitivity=self.clip,
            sigma=rows,
            count=self.size,
        )
        return [line | {"threshold": self.threshold / SCALE}]

    def noisy(self, exact: tuple[np.ndarray, np.ndarray], seed: Seeds) -> list[np.ndarray]:
        """[cells, noisy sums] above the threshold, by cell. `exact`: (cells, sums) of every cell that
        is not empty; their number is private too."""
        cells, sums = exact
        self.check()
        counted = sums + noise.gaussian(self.sigma, len(sums), seed=seed(0))
        kept = np.flatnonzero(counted > self.threshold)
        lifted = tail.exceeding(self.sigma, self.threshold, self.size - len(cells), seed=seed(1))
        placed = tail.places(self.size, cells, len(lifted), seed=seed(2))
        where = np.concatenate([cells[kept], placed])
        values = np.concatenate([counted[kept], lifted])
        order = np.argsort(where, kind="stable")
        return [where[order], values[order]]


def plan_filtered(
    domain: Domain, clip: int, clique: Clique, mu: float, lifted: float, most: int, label: str
) -> FilterPlan:
    """The plan of a filtered marginal, from public facts alone. If all its cells were empty, about
    `lifted` would pass its threshold, which is at least `LIKELY` standard deviations."""
    clique = domain.check(clique)
    cost = positive(mu, "mu")
    size = domain.cells(clique)
    if size > most:
        raise UsageError(
            f"{label!r}: {size:,} cells, the limit for a filtered marginal is {most:,}"
        )
    sensitivity2 = (clip * SCALE) ** 2
    sigma = scale.gaussian_sigma(sensitivity2, cost)
    bar = max(LIKELY, least_of(size, lifted))
    threshold = math.ceil(sigma * round(bar, 3))
    plan = FilterPlan(
        clique=clique,
        shape=domain.shape(clique),
        size=size,
        mu=cost,
        clip=clip,
        sensitivity2=sensitivity2,
        sigma=sigma,
        threshold=threshold,
    )
    plan.check()
    return plan

"""The model learnt from public data: archetypes of users, the rows of each, and the chain of
conditionals. All of it is public."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...domain import Clique, Domain
from ...public.ids import Habits
from .conditional import Groups, Link
from .mixture import Mixture
from .options import Options


@dataclass(frozen=True, eq=False)
class PublicModel:
    """Archetypes 0..k-1 and their public users.

    labels : int64, the archetype of a row in each cell of the features (C order), by `mixture`, which
        includes its scaling
    archetype : int64 for each public user, the most common label of its rows
    trait : int64 for each public user, its most common value of the trait
    habits : counts of each public user's rows over the habit columns
    places : by archetype, counts of the cells of the features; of all users, if no public user has
        that archetype
    links : the chain
    prior : cells and counts of the public marginals that `refine` starts from
    evidence : held-out likelihoods by k
    """

    options: Options
    schema_digest: str
    domain: Domain
    mixture: Mixture
    labels: np.ndarray
    archetype: np.ndarray
    trait: np.ndarray | None
    habits: Habits
    places: Groups
    links: tuple[Link, ...]
    prior: dict[Clique, tuple[np.ndarray, np.ndarray]]
    evidence: tuple[dict[str, Any], ...] = field(default=())

    @property
    def size(self) -> int:
        """Number of archetypes."""
        return self.mixture.size

    @cached_property
    def members(self) -> np.ndarray:
        """Number of public users of each archetype."""
        return np.bincount(self.archetype, minlength=self.size)

    @cached_property
    def rows_per_user(self) -> np.ndarray:
        return self.habits.rows_per_user()

    @cached_property
    def users(self) -> np.ndarray:
        """int64 [k, codes of the trait]: number of public users by archetype and trait; [k, 1]
        without a trait."""
        width = 1 if self.trait is None else self.domain[str(self.options.trait)]
        trait = 0 if self.trait is None else self.trait
        flat = np.bincount(self.archetype * width + trait, minlength=self.size * width)
        return flat.reshape(self.size, width)

    @cached_property
    def mean_rows(self) -> np.ndarray:
        """Mean rows per user of each archetype (mean over all users, if an archetype has no public
        user)."""
        rows = np.bincount(self.archetype, self.rows_per_user, minlength=self.size)
        overall = rows.sum() / max(1, self.members.sum())
        return np.where(self.members > 0, rows / np.maximum(self.members, 1), overall)

    @cached_property
    def sizes(self) -> Groups:
        """For each archetype, the number of public users with each number of rows."""
        width = int(self.rows_per_user.max(initial=0)) + 1
        table = np.bincount(
            self.archetype * width + self.rows_per_user, minlength=self.size * width
        )
        table = table.reshape(self.size, width)
        table[self.members == 0] = table.sum(axis=0)
        return Groups.of(np.arange(table.size), table.ravel(), width)

    def clip_factor(self, clip: int) -> float:
        """Public rows divided by the public rows that remain if each user counts with at most
        `clip` rows."""
        rows = self.rows_per_user
        return float(rows.sum() / np.minimum(rows, clip).sum())

    def digest(self) -> str:
        """SHA-256 of the model's whole content, for privacy statements."""
        state = hashlib.sha256(self.schema_digest.encode())
        for name, array in sorted(self.arrays().items()):
            state.update(
                name.encode() + str(array.dtype).encode() + np.ascontiguousarray(array).tobytes()
            )
        return state.hexdigest()

    def arrays(self) -> dict[str, np.ndarray]:
        """Every array by name."""
        m = self.mixture
        h = self.habits
        mixture = {
            k: getattr(m, k) for k in ("centre", "spread", "weights", "means", "covariances")
        }
        out = {f"mixture-{k}": array for k, array in mixture.items()} | {
            "labels": self.labels,
            "user-archetype": self.archetype,
        }
        out |= {f"habits-{k}": getattr(h, k) for k in ("indptr", "cells", "counts")}
        if self.trait is not None:
            out["user-trait"] = self.trait
        out |= {f"places-{k}": a for k, a in self.places.arrays().items()}
        for i, link in enumerate(self.links):
            for j, table in enumerate(link.tables):
                out |= {f"chain-{i}-{j}-{k}": a for k, a in table.arrays().items()}
        for i, (cells, counts) in enumerate(self.prior.values()):
            out |= {f"prior-{i}-cells": cells, f"prior-{i}-counts": counts}
        return out

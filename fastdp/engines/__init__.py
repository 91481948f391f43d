"""Engines count private tables for the sessions of `release`; `truth` counts tables that are
public, or that the caller hands over as the truth.

`counting_plan` says what to count, `local` counts it on this machine, and `user_histograms` counts
users. `partitioned` adds up the counts of partitions, which `spark` has made on a cluster. An
engine never decides what is released. It returns exact integers, and all engines agree to the bit.

Engines import `tables` and the kernels. Only `release`, `run`, `metrics`, `report` and the fits on
public data import engines.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ..domain import Clique
from ..numbers.sums_plan import SumsPlan
from ..schema import Schema
from ..user_views import View
from ..userkeys import UserKey


class Counter(Protocol):
    """What every engine offers."""

    schema: Schema

    @property
    def has_users(self) -> bool:
        """Whether the engine has user numbers, which say which rows belong to one user; else each
        row counts as a user of its own. A run that protects users is refused where this is False.
        """
        ...

    def marginals(
        self,
        cliques: Sequence[Clique],
        clip: int | None,
        *,
        recode: Mapping[str, np.ndarray] | None = None,
        view: View | None = None,
    ) -> dict[Clique, np.ndarray]:
        """int64 arrays of shape `domain.shape(clique)`, in units of 1/SCALE rows; each row of a
        user with R rows weighs min(SCALE, floor(clip * SCALE / R)). clip=None: plain counts, in
        rows. `recode`: count rows whose code c of the named column became recode[name][c]; shapes
        are then those of `domain.recoded(recode)`. `view`: count the table that this view makes of
        the private one, with its columns (`user_views.View`); recoding follows."""
        ...

    def user_histogram(self, key: UserKey, cap: int) -> np.ndarray:
        """int64 [key.size]: number of users per key, in units of 1/key.units users. Each user adds
        at most 1 to each of at most `cap` keys (for `Agreement`: to each of `key.numbers`)."""
        ...

    def user_sums(self, plan: SumsPlan) -> np.ndarray:
        """int64 [plan.size]: the sum over users of the vectors that the plan's encoding makes of
        their values in the plan's number."""
        ...

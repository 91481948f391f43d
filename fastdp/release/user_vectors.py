"""Noisy sums of users' vectors: the numbers that an owner asked for before the run.

Planned from public facts alone: a plan (a number and the encoding of its users' values) and mu.

Unit user, add or remove. A user's vector depends on that user's rows and on public facts alone. So
the sum changes by one vector, of L2 norm at most sqrt(`sensitivity2`) grid units. Gaussian noise of
standard deviation at least sqrt(sensitivity2) / mu makes it mu-GDP; `check_gaussian` checks that in
exact arithmetic. Proof of every encoding: docs/explain/numbers.md.
"""

import math
from typing import Any

import numpy as np
from msgspec import Struct

from ..errors import PrivacyError, UsageError
from ..numbers.encodings import PROVED
from ..numbers.sums_plan import SumsPlan
from ..numbers.user_encoding import UserEncoding
from ..privacy import noise, scale
from ..privacy.accountant import Gaussian
from .counts import Counts
from .planned_release import Seeds, positive, release_of

KIND = "user_vector"


class UserVector(Struct, frozen=True, eq=False):
    """Released answers of an encoding, in its own units (users, or whole amounts of the number's
    unit), and the standard deviation of their noise."""

    values: np.ndarray
    sigma: float


class VectorPlan(Struct, frozen=True, eq=False):
    """A vector with its noise worked out: `sigma` in grid units."""

    plan: SumsPlan
    encoding: UserEncoding
    mu: float
    sigma: float

    @property
    def question(self) -> dict[str, Any]:
        asked = {"kind": KIND, "number": self.plan.digest(), "encoding": self.encoding.digest()}
        return asked | {"size": self.encoding.size, "mu": self.mu}

    @property
    def events(self) -> list[Gaussian]:
        return [Gaussian(self.mu)]

    @property
    def draws(self) -> int:
        return self.encoding.size

    def check(self) -> None:
        """PrivacyError unless the noise about to be drawn covers the sensitivity."""
        scale.check_gaussian(self.sigma, None, self.encoding.sensitivity2, self.mu)

    def count(self, counts: Counts) -> np.ndarray:
        return counts.user_sums(self.plan)

    def noisy(self, exact: np.ndarray, seed: Seeds) -> list[np.ndarray]:
        self.check()
        return [exact + noise.gaussian(self.sigma, self.draws, seed=seed(0))]

    def lines(self, label: str) -> list[dict[str, Any]]:
        """`norm2`: the squared sensitivity, exact."""
        encoding = self.encoding
        line = release_of(
            label=label,
            kind=KIND,
            about=[self.plan.number.text],
            law="gaussian",
            event=Gaussian(self.mu),
            sensitivity=math.sqrt(encoding.norm2),
            sigma=self.sigma / encoding.unit,
            count=encoding.size,
        )
        line["encoding"] = type(encoding).__name__
        line["norm2"] = encoding.norm2
        bound = getattr(encoding, "cap", None) or getattr(encoding, "most", None)
        return [line if bound is None else line | {"cap": bound}]

    def released(self, array: np.ndarray) -> UserVector:
        unit = self.encoding.unit
        return UserVector(array.astype(np.float64) / unit, self.sigma / unit)


def plan_vector(unit: str, plan: SumsPlan, mu: float, label: str) -> VectorPlan:
    """Sensitivity and noise of one vector, or an error where it has no proof."""
    encoding = plan.encoding
    if unit != "user":
        raise UsageError(f"{label!r}: numbers are measured per user; use unit 'user'")
    if type(encoding) not in PROVED:
        raise PrivacyError(f"{label!r}: expected an encoding of fastdp.numbers.encodings")
    assert isinstance(encoding, UserEncoding)
    mu = positive(mu, "mu")
    planned = VectorPlan(plan, encoding, mu, scale.gaussian_sigma(encoding.sensitivity2, mu))
    planned.check()
    return planned

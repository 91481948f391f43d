"""Histograms of users: what one user adds, the noise, and the line in the statement."""

import math

import numpy as np
from msgspec import Struct

from ..domain import Domain
from ..errors import PrivacyError, UsageError, is_whole
from ..measurement import SCALE, Measurement
from ..privacy import noise, scale
from ..privacy.accountant import Event, Gaussian, Pure
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
from .counts import Counts
from .planned_release import Seeds, positive, release_of

NEEDS_GAUSSIAN = (Agreement, Disagreement, RowsUpTo, Succession, WithoutId)
"""Keys whose sensitivity is proved in L2 only."""


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

    @property
    def events(self) -> list[Event]:
        return [self.event]

    @property
    def draws(self) -> int:
        return self.size

    def count(self, counts: Counts) -> np.ndarray:
        return counts.users(self.key, self.cap)

    def noisy(self, exact: np.ndarray, seed: Seeds) -> list[np.ndarray]:
        draw = noise.gaussian if self.gaussian else noise.laplace
        return [exact * (self.grid // self.key.units) + draw(self.width, self.size, seed=seed(0))]

    def released(self, array: np.ndarray, label: str) -> Measurement:
        name = f"users by {type(self.key).__name__}"
        return Measurement((name,), array.astype(np.float64) / self.grid, self.sigma, label=label)

    def lines(self, label: str) -> list[dict]:
        """L2 sensitivity for Gaussian noise, L1 for Laplace noise."""
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
        return [line | {"cap": self.bound}]


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
    """Charge and noise of a histogram in which a user is counted at most `bound` times, once in a key.

    (charge, width of the noise in grid units, its standard deviation in users, grid units per user). With
    `mu` the noise is Gaussian, with `epsilon` discrete Laplace."""
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

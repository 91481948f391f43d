"""Budgets as privacy filters: which sequences of events a data set, or one run, still admits.

Events keep their kind (`Gaussian`, `Pure`, `BoundedRange` of `accountant`). Later events may be
chosen by what earlier ones released. So "the composed epsilon is still small enough" is not a sound
rule for mixed kinds. Three rules are sound, and an event is admitted if one of them holds (proofs
in docs/guide/ledger.md):

* all-mu: the sum of mu^2 over all events, pure ones at their Gaussian equivalent, is at most the
  budget's mu^2;
* pure: every event is pure, and their epsilons add up to at most the budget's epsilon;
* split: the budget set a part `pure` of epsilon aside when it was opened. The pure events fit in
  that part, and the Gaussian events in the mu of the rest.

Whether an event counts as pure or as Gaussian is fixed when its run reserves. An event that a
Gaussian part pays for counts as Gaussian for ever. A `Threshold` event counts with its mu among the
Gaussian ones. Its delta must fit in the part `keys` of delta that the budget set aside when it was
opened. The budget's mu is that of the remaining delta. All sums are exact, so no rounding error can
admit an event.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ..errors import LedgerError, UsageError
from . import accountant, gdp
from .accountant import GAUSSIAN, Event, Gaussian, Threshold, mu_of


def from_dict(entry: Mapping) -> Event:
    """The event; LedgerError if this version does not know its kind."""
    try:
        return accountant.event_from_dict(entry)
    except UsageError as error:
        raise LedgerError(f"an event in the ledger is malformed: {error}") from None


def mu2(events: Iterable[Event]) -> Fraction:
    """Exact sum of mu^2, each pure or bounded-range event at its Gaussian equivalent (rounded
    up)."""
    return sum((Fraction(mu_of(e)) ** 2 for e in events), Fraction(0))


def pure_epsilon(events: Iterable[Event]) -> Fraction | None:
    """Exact sum of epsilons, or None if one event is not pure.

    Each float is read as the shortest decimal that denotes it, so that ten times 0.1 is 1. Noise
    and selections are calibrated to the smaller of the two readings (`least`).
    """
    total = Fraction(0)
    for event in events:
        if isinstance(event, GAUSSIAN):
            return None
        total += decimal(event.epsilon)
    return total


def decimal(value: float) -> Fraction:
    return Fraction(repr(float(value)))


def epsilon_at(events: Sequence[Event], delta: float) -> float:
    """The epsilon that these events compose to at this delta (infinite where delta 0 meets a
    Gaussian)."""
    return 0.0 if not events else float(accountant.compose(events).epsilon(delta))


def combined_mu(events: Sequence[Event]) -> float:
    """The mu that covers all the events, rounded up."""
    return root_up(mu2(events))


def root_up(square: Fraction) -> float:
    """A float whose square is at least `square`, at most a few roundings above the root."""
    root = _near_root(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def root_down(square: Fraction) -> float:
    root = _near_root(square)
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    return root


def _near_root(square: Fraction) -> float:
    """The root to a few roundings, also where the square is below the smallest float."""
    if square >= Fraction(1, 2**900):
        return math.sqrt(square)
    return math.sqrt(square * 2**1200) * 2.0**-600


@dataclass(frozen=True)
class Totals:
    """Exact sums over events, which are all that a filter needs; a long history is not added up
    again.

    `mu2` is over all events, pure ones at their Gaussian equivalent; `gaussian2` is over the
    Gaussian ones. `pure` is the sum of the epsilons of the others, `delta` that of the thresholds'
    deltas.
    """

    mu2: Fraction = Fraction(0)
    gaussian2: Fraction = Fraction(0)
    pure: Fraction = Fraction(0)
    gaussians: int = 0
    delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Totals:
        events = list(events)
        gaussian = [e for e in events if isinstance(e, GAUSSIAN)]
        pure = sum((decimal(e.epsilon) for e in events if not isinstance(e, GAUSSIAN)), Fraction(0))
        delta = sum((Fraction(e.delta) for e in events if isinstance(e, Threshold)), Fraction(0))
        return cls(mu2(events), mu2(gaussian), pure, len(gaussian), delta)

    def all_gaussian(self) -> Totals:
        """The same events, all counted by their mu among the Gaussian ones: how a Gaussian part of
        a reservation pays for pure and bounded-range events."""
        events = self.gaussians + (1 if self.pure else 0)
        return Totals(self.mu2, self.mu2, Fraction(0), events, self.delta)

    def plus(self, other: Totals, sign: Literal[1, -1] = 1) -> Totals:
        join = operator.add if sign == 1 else operator.sub
        return Totals(
            join(self.mu2, other.mu2),
            join(self.gaussian2, other.gaussian2),
            join(self.pure, other.pure),
            join(self.gaussians, other.gaussians),
            join(self.delta, other.delta),
        )


@dataclass(frozen=True)
class Budget:
    """What may be spent: (epsilon, delta), or mu, or no limit. Parts may be set aside: `pure` of
    epsilon for pure releases, `keys` of delta for thresholds."""

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    pure: float = 0.0
    keys: float = 0.0

    def __post_init__(self):
        if self.epsilon is None:
            if self.delta is not None or self.pure:
                raise UsageError("a budget needs epsilon and delta, or mu")
            if self.mu is not None and not 0 < self.mu < math.inf:
                raise UsageError(f"a budget's mu must be positive and finite, got {self.mu!r}")
            if not 0 <= self.keys < 1 or (self.keys and self.mu is None):
                raise UsageError(
                    "the part of delta for keys must be in [0, 1), and a budget must cover it"
                )
            return
        if not 0 < self.epsilon < math.inf:
            raise UsageError(f"epsilon must be positive and finite, got {self.epsilon!r}")
        if self.delta is None or not 0 <= self.delta < 1:
            raise UsageError(f"delta must be in [0, 1), got {self.delta!r}")
        if not 0 <= self.pure < self.epsilon:
            raise UsageError("the pure part of epsilon must be at least 0 and less than epsilon")
        if not (self.keys == 0 or 0 < self.keys < self.delta):
            raise UsageError("the part of delta for keys must be at least 0 and less than delta")
        if self.delta == 0 and (self.mu is not None or self.pure):
            raise UsageError(
                "a budget with delta 0 covers pure events only; it has neither mu nor a pure part"
            )

    @classmethod
    def of(cls, epsilon=None, delta=None, mu=None, pure=0.0, keys=0.0) -> Budget:
        """A budget from the user's numbers; the mu of (epsilon - pure, delta - keys) is computed
        here, once."""
        if (epsilon is None) == (mu is None):
            raise UsageError("give a budget as epsilon and delta, or as mu, not both")
        if mu is not None:
            if delta is not None:
                raise UsageError("a budget given as mu has no delta; leave delta out")
            return cls(mu=float(mu), keys=float(keys))
        epsilon = float(epsilon)
        delta = float(0.0 if delta is None else delta)
        pure = float(pure)
        keys = float(keys)
        checked = cls(epsilon=epsilon, delta=delta, pure=pure, keys=keys)
        if delta == 0:
            return checked
        rest = math.nextafter(delta - keys, 0.0) if keys else delta
        return cls(epsilon, delta, gdp.mu_from(epsilon - pure, rest), pure, keys)

    @property
    def unlimited(self) -> bool:
        return self.epsilon is None and self.mu is None

    def admits(self, events: Totals | Sequence[Event]) -> bool:
        """Whether all these events together stay within the budget, however they were chosen."""
        total = events if isinstance(events, Totals) else Totals.of(events)
        if self.unlimited:
            return True
        if total.delta > Fraction(self.keys):
            return False
        if self.pure and self.mu is not None:
            within = total.pure <= decimal(self.pure)
            return within and total.gaussian2 <= Fraction(self.mu) ** 2
        if self.epsilon is not None and not total.gaussians and total.pure <= decimal(self.epsilon):
            return True
        return self.mu is not None and total.mu2 <= Fraction(self.mu) ** 2

    def left(self, events: Totals | Sequence[Event]) -> dict:
        """What further events may still cost: mu (Gaussian), pure epsilon; None if there is no
        limit."""
        if self.unlimited:
            return {"mu": None, "pure_epsilon": None, "epsilon": None, "delta": None}
        total = events if isinstance(events, Totals) else Totals.of(events)
        mu = pure = 0.0
        if self.mu is not None:
            used = total.gaussian2 if self.pure else total.mu2
            mu = root_down(max(Fraction(0), Fraction(self.mu) ** 2 - used))
        if self.pure:
            pure = float(max(Fraction(0), decimal(self.pure) - total.pure))
        elif self.epsilon is not None and not total.gaussians:
            pure = float(max(Fraction(0), decimal(self.epsilon) - total.pure))
        elif mu > 0:
            pure = gdp.pure_epsilon_from(mu)
        rest = self.delta - self.keys if self.delta else self.delta
        epsilon = epsilon_at([Gaussian(mu)], rest) if mu > 0 and rest else pure
        figures = {"mu": mu, "pure_epsilon": pure, "epsilon": epsilon, "delta": self.delta}
        return figures | (
            {"keys_delta": float(Fraction(self.keys) - total.delta)} if self.keys else {}
        )

    def to_dict(self) -> dict:
        fields = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mu": self.mu,
            "pure": self.pure or None,
            "keys": self.keys or None,
        }
        return {k: v for k, v in fields.items() if v is not None}

    @classmethod
    def from_dict(cls, entry: Mapping) -> Budget:
        try:
            return cls(**entry)
        except (TypeError, ValueError):
            raise LedgerError("a budget in the ledger is malformed") from None

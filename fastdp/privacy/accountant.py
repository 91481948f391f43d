"""Privacy events and what they cost together.

An event is the privacy cost of one release, frozen. It is `Gaussian(mu)`, `Pure(epsilon)`,
`BoundedRange(epsilon)` (a selection) or `Threshold(mu, delta)` (keys taken from the data).
`compose` adds them up. What a composition costs at delta is the smaller of two bounds:

- the sum of the pure epsilons (a bounded range counts with its full epsilon), plus the epsilon at
  delta of the Gaussian events' mu = sqrt(sum mu_i^2);
- the epsilon at delta of sqrt(sum mu_i^2) over all events, a pure epsilon being mu-GDP with mu = -2
  Phi^-1(1/(1+e^epsilon)) and an epsilon-bounded range with mu = -2 Phi^-1(1/(1+e^(epsilon/2))).

Deltas of thresholds are taken off delta first. Sums are rounded up. docs/explain/accounting.md has
the proofs. Where later runs may be chosen by earlier answers, the budget is kept by the rules of
`budget`, not by comparing it with this epsilon.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from fastdp.errors import UsageError
from fastdp.privacy import gdp

_U = 2.0**-53
_ROUTES = ("pure+gaussian", "all-mu")


@dataclass(frozen=True)
class _Event:
    """Parameters that are finite and not negative, under the name of its kind."""

    law: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):
            value = gdp.nonnegative(
                f"{type(self).__name__} {field.name}", getattr(self, field.name)
            )
            object.__setattr__(self, field.name, _delta(value) if field.name == "delta" else value)

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON values."""
        return {"law": self.law, **asdict(self)}


@dataclass(frozen=True)
class Gaussian(_Event):
    """A mu-GDP release: Gaussian noise with sensitivity / sigma = mu, or several of them
    together."""

    law = "gaussian"
    mu: float


@dataclass(frozen=True)
class Pure(_Event):
    """An epsilon-DP release: (discrete) Laplace noise."""

    law = "pure"
    epsilon: float


@dataclass(frozen=True)
class BoundedRange(_Event):
    """An epsilon-bounded-range release: one selection by the exponential mechanism with parameter
    epsilon."""

    law = "bounded-range"
    epsilon: float


@dataclass(frozen=True)
class Threshold(_Event):
    """A release within total variation delta of a mu-GDP one: keys of unknown range, kept by a
    noisy threshold."""

    law = "threshold"
    mu: float
    delta: float


Event = Gaussian | Pure | BoundedRange | Threshold
GAUSSIAN = (Gaussian, Threshold)
"""Events whose privacy loss is that of Gaussian noise (for a threshold, apart from its delta)."""
_LAWS = {kind.law: kind for kind in (Gaussian, Pure, BoundedRange, Threshold)}


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """The event that `to_dict` wrote; anything else is a `UsageError`."""
    law = data.get("law") if isinstance(data, Mapping) else None
    if not isinstance(law, str) or law not in _LAWS:
        raise UsageError(
            f"unknown kind of privacy event {law!r}; this version knows {', '.join(_LAWS)}"
        )
    names = [field.name for field in fields(_LAWS[law])]
    if set(data) != {"law", *names}:
        raise UsageError(
            f"a {law} event must have exactly the fields law and {' and '.join(names)}"
        )
    return _LAWS[law](*(data[name] for name in names))


def mu_of(event: Event) -> float:
    """The GDP parameter that bounds one event, rounded up."""
    if isinstance(event, GAUSSIAN):
        return event.mu
    if isinstance(event, Pure):
        return gdp.mu_of_pure(event.epsilon)
    if isinstance(event, BoundedRange):
        return gdp.mu_of_range(event.epsilon)
    raise UsageError(f"expected a privacy event, got a {type(event).__name__}")


@dataclass(frozen=True)
class Composition:
    """Sums over events, each rounded up.

    `gaussian_mu` covers the Gaussian events, `pure_epsilon` the others, `mu` all of them, `lost`
    the thresholds' deltas.
    """

    events: int
    gaussian_mu: float
    pure_epsilon: float
    mu: float
    lost: float = 0.0

    def routes(self, delta: float) -> dict[str, float]:
        """Epsilon at delta by each bound; a delta of 0 is infinite unless nothing is Gaussian."""
        delta = _delta(delta)
        if self.lost:
            delta = math.nextafter(delta - self.lost, -math.inf)
            if delta <= 0.0:
                return dict.fromkeys(_ROUTES, math.inf)
        if delta == 0.0:
            pure = self.pure_epsilon if self.gaussian_mu == 0.0 else math.inf
            return dict(zip(_ROUTES, (pure, 0.0 if self.mu == 0.0 else math.inf), strict=True))
        split = _sum_up([self.pure_epsilon, gdp.epsilon_of(self.gaussian_mu, delta)])
        joint = gdp.epsilon_of(self.mu, delta)
        return dict(zip(_ROUTES, (split, joint), strict=True))

    def epsilon(self, delta: float) -> float:
        """The smallest proven epsilon at delta, rounded up."""
        return min(self.routes(delta).values())


def compose(events: Iterable[Event]) -> Composition:
    """The cost of all events together (adaptive choice of the queries is covered)."""
    listed = list(events)
    every = [mu_of(event) for event in listed]
    gaussian = [event.mu for event in listed if isinstance(event, GAUSSIAN)]
    pure = [event.epsilon for event in listed if not isinstance(event, GAUSSIAN)]
    lost = [event.delta for event in listed if isinstance(event, Threshold)]
    return Composition(
        len(listed), _norm_up(gaussian), _sum_up(pure), _norm_up(every), _sum_up(lost)
    )


def spent(events: Iterable[Event], delta: float) -> float:
    """`compose(events).epsilon(delta)`: what the events cost at delta."""
    return compose(events).epsilon(delta)


def _sum_up(values: list[float]) -> float:
    """An upper bound of the sum, each double read as the shortest decimal that denotes it.

    So ten times 0.1 is 1, not 1 + 2^-52. It is sound because noise and selections are calibrated to
    the smaller of the double and that decimal (`gdp.least`).
    """
    exact = sum((Fraction(repr(x)) for x in values), Fraction(0))
    total = float(exact)
    while Fraction(repr(total)) < exact:
        total = math.nextafter(total, math.inf)
    return total


def _norm_up(values: list[float]) -> float:
    """An upper bound of sqrt(sum x^2), the value itself for a single one."""
    present = [x for x in values if x > 0.0]
    if len(present) <= 1:
        return present[0] if present else 0.0
    scale = max(present)
    squares = math.fsum((x / scale) ** 2 for x in present)
    # Quotient, square, sum, root and product each have at most one rounding error; those of the
    # quotient count twice in its square. 16 units cover them all.
    return scale * math.sqrt(squares) * (1.0 + 16.0 * _U)


def _delta(delta: float) -> float:
    delta = gdp.nonnegative("delta", delta)
    if delta >= 1.0:
        raise UsageError(f"delta must be below 1, got {delta!r}")
    return delta

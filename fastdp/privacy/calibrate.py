"""The noise that an (epsilon, delta) requires, and the reverse.

`calibrate` gives the standard deviation (or Laplace scale) for `count` measurements of the same
sensitivity. Sigma is rounded up: mu comes rounded down from `gdp.mu_from`, and the division is
checked in exact rational arithmetic, sigma^2 mu^2 >= count sensitivity^2.
docs/explain/calibration.md has formulas and proofs.
"""

import math
from fractions import Fraction

from ..errors import UsageError, is_whole
from .gdp import as_number, least, mu_from, mu_of_pure

METHODS = ("gdp", "classic-rdp", "classic-gaussian", "laplace", "pure")
# The textbook Gaussian mechanism is proved for epsilon < 1 only; the archetypes authors cap it
# here.
CLASSIC_EPSILON_MAX = 0.999999999
_SAFE = 2.0**-48  # covers the handful of roundings in a closed form
_BACK = 2.0**-39  # more than the 1e-12 by which `mu_of_pure` is above the true value


def calibrate(
    epsilon: float, delta: float, sensitivity: float = 1.0, count: int = 1, method: str = "gdp"
) -> float:
    """The noise scale with which `count` measurements together are (epsilon, delta)-DP, rounded up.

    `sensitivity` is each measurement's L2 bound (L1 for "laplace"), in the unit the result is
    wanted in.

    - "gdp": tight, sigma = sensitivity sqrt(count) / mu(epsilon, delta).
    - "classic-rdp": epsilon = rho + 2 sqrt(rho log(1/delta)), rho = count sensitivity^2 / (2
      sigma^2).
    - "classic-gaussian": each measurement gets epsilon/count and delta/count, with epsilon capped
      below 1, and sigma = sensitivity sqrt(2 log(1.25 count/delta)) count/epsilon.
    - "laplace" (also "pure"): the scale count sensitivity / epsilon of (discrete) Laplace noise;
      delta is not used.
    """
    if method not in METHODS:
        raise UsageError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    sensitivity = positive("sensitivity", sensitivity)
    count = _count(count)
    if method in ("laplace", "pure"):
        epsilon = positive("epsilon", epsilon)
        _delta(delta, zero=True)
        bound = Fraction(sensitivity) * count / least(epsilon)
        return _round_up(bound, lambda scale: scale, sensitivity * count / epsilon)
    if method == "classic-gaussian":
        epsilon = min(positive("epsilon", epsilon), CLASSIC_EPSILON_MAX)
        delta = _delta(delta)
        factor = math.sqrt(2.0 * math.log(1.25 * count / delta))
        return sensitivity * factor * count / epsilon * (1.0 + _SAFE)
    return sigma_from_mu(mu_of_method(epsilon, delta, method), sensitivity, count)


def mu_of_method(epsilon: float, delta: float, method: str = "gdp") -> float:
    """The GDP parameter that the whole budget amounts to under `method`, rounded down.

    With "classic-gaussian" it is that of a single measurement; with "laplace" that of the pure
    guarantee.
    """
    epsilon = positive("epsilon", epsilon)
    if method in ("laplace", "pure"):
        _delta(delta, zero=True)
        return mu_of_pure(epsilon) * (1.0 - _BACK)
    delta = _delta(delta)
    if method == "gdp":
        return mu_from(epsilon, delta)
    if method == "classic-rdp":
        log = -math.log(delta)
        return (
            math.sqrt(2.0) * epsilon / (math.sqrt(log + epsilon) + math.sqrt(log)) * (1.0 - _SAFE)
        )
    return 1.0 / calibrate(epsilon, delta, method=method) * (1.0 - _SAFE)


def sigma_from_mu(mu: float, sensitivity: float = 1.0, count: int = 1) -> float:
    """sensitivity sqrt(count) / mu, rounded up: the noise of each of `count` measurements that
    share mu."""
    mu = positive("mu", mu)
    sensitivity = positive("sensitivity", sensitivity)
    count = _count(count)
    square = count * (Fraction(sensitivity) / Fraction(mu)) ** 2
    return _round_up(square, lambda sigma: sigma * sigma, sensitivity * math.sqrt(count) / mu)


def _round_up(bound: Fraction, measure, start: float) -> float:
    """The first double from `start` (an approximation) upward whose `measure` is at least
    `bound`."""
    if not (math.isfinite(start) and start > 0.0):
        raise UsageError(
            "the noise scale exceeds the range of floating point; check epsilon and sensitivity"
        )
    x = math.nextafter(math.nextafter(start, 0.0), 0.0)
    while measure(Fraction(x)) < bound:
        x = math.nextafter(x, math.inf)
    return x


def positive(name: str, value: float) -> float:
    """The value as a finite float > 0; UsageError names it otherwise."""
    number = as_number(name, value)
    if not (math.isfinite(number) and number > 0.0):
        raise UsageError(f"{name} must be finite and positive, got {value!r}")
    return number


def _count(count: int) -> int:
    if not is_whole(count, 1):
        raise UsageError(f"count must be a whole number >= 1, got {count!r}")
    return int(count)


def _delta(delta: float, zero: bool = False) -> float:
    number = as_number("delta", delta)
    if zero and number == 0.0:
        return number
    if not 0.0 < number < 1.0:
        raise UsageError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    return number

"""Gaussian differential privacy: conversions between mu, (epsilon, delta) and pure epsilon.

A mechanism is mu-GDP if telling two neighbours apart is at least as hard as telling N(0, 1) from
N(mu, 1). Its exact curve is

    delta(mu, epsilon) = Phi(-a) - e^epsilon Phi(-b),   a = epsilon/mu - mu/2,   b = a + mu.

Since b^2 - a^2 = 2 epsilon this equals phi(a) (M(a) - M(b)) with Mills' ratio M, and

    M(a) - M(b) = integral over t > 0 of exp(-t^2/2 - a t) (1 - exp(-mu t)) dt,

a sum of positive terms: nothing cancels, however small epsilon and delta are.
docs/explain/calibration.md has the proofs.

Directed rounding. `_log_delta` returns log delta and a bound on its absolute error, a few dozen
roundings of the inputs' magnitude. Tests compare it with 60-digit arithmetic over the whole range.
The public functions search for the root, then step to the safe side until the bound holds, error
included. `epsilon_of` and the `mu_of_*` never lie below the true value; `mu_from` and the
`*_epsilon_from` never lie above it.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from fastdp.errors import UsageError

_U = 2.0**-53
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
# `mu_from` stays this far below the true value, so that a budget split into many parts and composed
# again, each sum rounded up, still fits; 1e-9 relative is what is promised.
_HEADROOM = 2.0**-42
_MU_MAX = 1e6  # beyond it nothing is protected
_LEAST = 1e-300  # the smallest delta, and mu above 0
_ABOVE = 1.0 + 1e-9  # of a bound in closed form, which its rounding must not cross
_FINEST = 1.0 - 2.0**-50  # epsilon is lowered by this factor until its mu fits
_REMEMBERED = 4096  # conversions: a run asks for the same ones in its ledger, plan and statement
_FARTHEST = 1e-6  # relative, that a root may be off: what delta near 1 leaves of it


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up."""
    return _epsilon_of(_mu(mu), _delta(delta))


@lru_cache(_REMEMBERED)
def _epsilon_of(mu: float, delta: float) -> float:
    target = _log_down(delta)
    if mu == 0.0 or _log_delta_up(mu, 0.0) <= target:
        return 0.0

    # epsilon <= mu^2/2 + mu sqrt(2 log(1/delta)), the concentrated-DP bound
    high = 0.5 * mu * mu + mu * math.sqrt(-2.0 * target)
    epsilon = _root(lambda e: target - _log_delta(mu, e)[0], 0.0, high * _ABOVE)
    return _settle(epsilon, 1.0, lambda e: _log_delta_up(mu, e) <= target)


def mu_from(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP, rounded down (by 2^-42
    relative)."""
    return _mu_from(nonnegative("epsilon", epsilon), _delta(delta))


@lru_cache(_REMEMBERED)
def _mu_from(epsilon: float, delta: float) -> float:
    target = _log_down(delta)

    # The same bound, solved for mu; and delta(mu, epsilon) <= delta(mu, 0) <= mu / sqrt(2 pi).
    away = math.sqrt(-2.0 * target)
    low = max(2.0 * epsilon / (away + math.hypot(away, math.sqrt(2.0 * epsilon))), delta)
    if low > _MU_MAX or _log_delta(_MU_MAX, epsilon)[0] < target:
        raise UsageError("epsilon is too large for a Gaussian calibration")
    mu = _root(lambda m: _log_delta(m, epsilon)[0] - target, low, _MU_MAX) * (1.0 - _HEADROOM)
    return _settle(mu, -1.0, lambda m: _log_delta_up(m, epsilon) <= target)


def mu_of_pure(epsilon: float) -> float:
    """mu = -2 Phi^-1(1 / (1 + e^epsilon)): every epsilon-DP mechanism is mu-GDP. Rounded up."""
    return _mu_of_pure(nonnegative("epsilon", epsilon))


@lru_cache(_REMEMBERED)
def _mu_of_pure(epsilon: float) -> float:
    if epsilon == 0.0:
        return 0.0

    # Phi(-h) <= e^(-h^2/2) / 2 gives mu^2/8 <= epsilon, and the logit is convex with slope
    # sqrt(2/pi) at 0
    high = min(math.sqrt(8.0 * epsilon), epsilon * _SQRT_HALF_PI)
    mu = _root(lambda m: _logit(m) - epsilon, 0.0, high * _ABOVE)
    return _settle(mu, 1.0, lambda m: _logit_down(m) >= epsilon)


def mu_of_range(epsilon: float) -> float:
    """mu = -2 Phi^-1(1 / (1 + e^(epsilon/2))): every epsilon-bounded-range mechanism is mu-GDP.
    Rounded up."""
    return mu_of_pure(0.5 * nonnegative("epsilon", epsilon))


def pure_epsilon_from(mu: float) -> float:
    """The largest epsilon with `mu_of_pure(epsilon) <= mu`, rounded down."""
    mu = _mu(mu)
    epsilon = max(0.0, _logit_down(mu))
    while epsilon > 0.0 and mu_of_pure(epsilon) > mu:
        epsilon *= _FINEST
    return epsilon


def range_epsilon_from(mu: float) -> float:
    """The largest epsilon with `mu_of_range(epsilon) <= mu`, rounded down: what a selection may
    use."""
    return 2.0 * pure_epsilon_from(mu)


def _log_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """log delta(mu, epsilon) and a bound of its absolute error."""
    ratio = epsilon / mu
    a = ratio - 0.5 * mu
    if a < -8.0:  # delta near 1: Phi(-a) dominates and nothing cancels
        tail = math.exp(-0.5 * a * a - _LOG_SQRT_2PI) * _mills(a + mu)
        return math.log1p(-(0.5 * math.erfc(-a * _SQRT_HALF) + tail)), 64.0 * _U
    value = -0.5 * a * a - _LOG_SQRT_2PI + math.log(_mills_gap(a, mu))
    error = _U * (64.0 + 8.0 * abs(a) * (ratio + 0.5 * mu + abs(a)) + 4.0 * abs(value))
    return value, error


def _log_delta_up(mu: float, epsilon: float) -> float:
    value, error = _log_delta(mu, epsilon)
    return value + error


def _mills(x: float) -> float:
    """Phi(-x) / phi(x), to about 8 roundings, for x > -35.

    Up to 10 it is sqrt(pi/2) e^(y^2) erfc(y) with y = x/sqrt(2); below 0, sqrt(2 pi) e^(x^2/2) less
    its value at -x. Squares are split so that no rounding of them is magnified (`_exp_square`).
    From 10 on 40 terms of 1/(x + 1/(x + 2/(x + 3/(x + ...)))), all positive, leave less than a
    rounding. scipy has it as erfcx, in a module that takes a quarter of a second to import.
    """
    if x < 10.0:
        if x < 0.0:
            return 2.0 * _SQRT_HALF_PI * _exp_square(x, 0.5) - _mills(-x)
        y = x * _SQRT_HALF
        return _SQRT_HALF_PI * _exp_square(y, 1.0) * math.erfc(y)
    fraction = x
    for k in range(40, 0, -1):
        fraction = x + k / fraction
    return 1.0 / fraction


def _exp_square(x: float, half: float) -> float:
    """exp(half x^2); `head` has at most 22 bits, so its square is exact."""
    head = math.ldexp(round(math.ldexp(x, 16)), -16)
    return math.exp(half * head * head) * math.exp(half * (x - head) * (x + head))


def _mills_gap(a: float, mu: float) -> float:
    """M(a) - M(a + mu) > 0 to about 20 roundings, for a > -9.

    Where the two differ by a factor of 2 they are subtracted. Else mu t stays moderate where the
    integrand counts, and 80 Gauss-Legendre nodes on [0, T] leave an error far below a rounding. The
    integrand is entire, and beyond T it is below e^-42 of its scale.
    """
    upper = _mills(a)
    lower = _mills(a + mu)
    if lower < 0.5 * upper:
        return upper - lower
    nodes, weights = _legendre()
    end = -a + math.sqrt(a * a + 84.0) if a < 0.0 else 84.0 / (a + math.sqrt(a * a + 84.0))
    t = end * nodes
    return end * float(np.dot(weights, np.exp(-t * (0.5 * t + a)) * -np.expm1(-mu * t)))


@cache
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(80)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def _logit_down(mu: float) -> float:
    """log(Phi(mu/2) / Phi(-mu/2)), rounded down: the epsilon of the pure mechanism that is
    mu-GDP."""
    return _logit(mu) * (1.0 - _U * (64.0 + mu))


def _logit(mu: float) -> float:
    half = 0.5 * mu
    if half < 1.0:
        return 2.0 * math.atanh(math.erf(half * _SQRT_HALF))  # of Phi(half) - Phi(-half)
    below = math.log1p(-0.5 * math.erfc(half * _SQRT_HALF))
    return below + 0.5 * half * half + _LOG_SQRT_2PI - math.log(_mills(half))


def _root(value: Callable[[float], float], low: float, high: float) -> float:
    """Root of an increasing function in [low, high], halved until no float lies between."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if value(middle) > 0.0 else (middle, high)
    return high


def _settle(x: float, direction: float, holds: Callable[[float], bool]) -> float:
    """The first of x, x (1 +- 2^-52), x (1 +- 2^-51), ... for which `holds` is true."""
    moved = x
    distance = 2.0 * _U
    while not holds(moved):
        if distance > _FARTHEST:
            raise UsageError("delta is too close to 1 to calibrate noise; choose a smaller delta")
        moved = x * (1.0 + direction * distance)
        distance *= 2.0
    return moved


def least(x: float) -> Fraction:
    """The smaller of a double and the shortest decimal that denotes it: noise is calibrated to this
    epsilon."""
    return min(Fraction(x), Fraction(repr(float(x))))


def _log_down(delta: float) -> float:
    return math.nextafter(math.log(delta), -math.inf) - 2.0 * _U


def _mu(mu: float) -> float:
    mu = nonnegative("mu", mu)
    if mu > _MU_MAX or 0.0 < mu < _LEAST:
        raise UsageError(f"mu must be 0 or between 1e-300 and {_MU_MAX:g}, got {mu}")
    return mu


def as_number(name: str, value: float) -> float:
    """The value as a float; UsageError names it where it is not a number."""
    try:
        if not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise UsageError(f"{name} must be a number, got {value!r}")


def nonnegative(name: str, value: float) -> float:
    """The value as a finite float >= 0; UsageError names it otherwise."""
    number = as_number(name, value)
    if not (math.isfinite(number) and number >= 0.0):
        raise UsageError(f"{name} must be finite and not negative, got {value!r}")
    return number


def _delta(delta: float) -> float:
    delta = nonnegative("delta", delta)
    if not _LEAST <= delta < 1.0:
        raise UsageError(
            f"delta must lie strictly between 0 and 1 for Gaussian noise, got {delta!r}"
        )
    return delta

"""The noise sampler's error, and what it adds to delta.

A drawn number is within eta = 2^-117 of its distribution in total variation
(docs/explain/noise.md). So n numbers are within n eta of what the accountant assumes. For
neighbours P and Q and any set S of outputs

    P'(S) - e^epsilon Q'(S) <= P(S) + n eta - e^epsilon (Q(S) - n eta) <= delta + (1 + e^epsilon) n
    eta.

The last term matters where epsilon is large. Gaussian noise is cut at 14 standard deviations; at
epsilon 100 and delta 1e-5, an output beyond the cut has probability 29 delta. So the term is kept
below `SHARE` of delta (below `PURE` where delta is 0). A run is given the number of draws that it
may make. A run that could make fewer than `FEWEST` is refused before anything is charged.
"""

import math

from ..errors import PrivacyError
from . import noise

SHARE = 2.0**-10
"""The samplers' distance may add at most this part of delta; the stated delta does not include it.
"""
PURE = 2.0**-60
"""The most that the samplers' distance may add where delta is stated as 0."""
FEWEST = 1 << 24
"""A run must be able to make at least this many draws: as many as a few hundred large marginals
need."""
MOST = 1 << 62
"""Where a bound on the number of draws is larger, this is given: it fits into 64 bits."""
_SAFE = 1.0 - 1e-9  # more than the roundings of the few operations here


def added_delta(epsilon: float, draws: int) -> float:
    """(1 + e^epsilon) * draws * eta, rounded up; infinite where it leaves the range of floating
    point."""
    log2 = _log2_factor(epsilon) + noise.LOG2_DISTANCE + math.log2(max(1, draws))
    return math.inf if log2 > 1000 else 2.0**log2 / _SAFE


def allowed_draws(epsilon: float, delta: float) -> int:
    """The most numbers whose distance adds at most the allowed part to delta at this epsilon; may
    be 0."""
    limit = delta * SHARE if delta > 0 else PURE
    log2 = math.log2(limit) - _log2_factor(epsilon) - noise.LOG2_DISTANCE
    if log2 < 0:
        return 0
    return MOST if log2 >= 62 else int(2.0**log2 * _SAFE)


def largest_epsilon(delta: float) -> float:
    """The largest epsilon at which FEWEST numbers stay within what is allowed (0 if there is
    none)."""
    limit = delta * SHARE if delta > 0 else PURE
    log2 = math.log2(limit) - noise.LOG2_DISTANCE - math.log2(FEWEST)
    return 0.0 if log2 <= 1 else math.log(2.0**log2 - 1) * _SAFE


def check_sampler(epsilon: float, delta: float, what: str = "this run") -> int:
    """The draws that a run of this joint epsilon and delta may make; PrivacyError if they are too
    few."""
    draws = allowed_draws(epsilon, delta)
    if draws >= FEWEST:
        return draws
    largest = largest_epsilon(delta)
    if largest >= 0.1:
        advice = f"at this delta ask for an epsilon of at most {math.floor(largest * 10) / 10:g}"
    else:
        needed = _up_to_a_digit(added_delta(min(epsilon, 30.0), FEWEST + 1) / SHARE)
        smaller = "an epsilon of at most 30 and " if epsilon > 30.0 else ""
        advice = f"ask for {smaller}a larger delta (from {needed:g})"
    raise PrivacyError(
        f"{what}: at epsilon {epsilon:.6g} the noise sampler's error (2^{noise.LOG2_DISTANCE} "
        f"per number, times e^epsilon) is not far below delta {delta:g}, so the guarantee "
        f"would not hold; {advice}. Nothing was read or drawn"
    )


def _log2_factor(epsilon: float) -> float:
    """log2(1 + e^epsilon)."""
    return (epsilon + math.log1p(math.exp(-epsilon))) / math.log(2.0)


def _up_to_a_digit(value: float) -> float:
    """The least number of one decimal digit that is not below `value`."""
    step = 10.0 ** math.floor(math.log10(value))
    return float(f"{math.ceil(value / step) * step:.0e}")

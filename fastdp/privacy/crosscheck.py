"""The cost of a composition computed a second time, by an independent accountant, before any noise
is drawn.

The cost is recomputed here at 60 digits straight from the textbook formulas, sharing no code with
`gdp`. Where autodp is installed (`fastdp[verify]`), its analytic Gaussian curve answers for
Gaussian-only compositions. It is used where tests find it sound: epsilon from 1e-4 to 100 and delta
from 1e-15 to 0.1. `agree` returns the name of the accountant that answered; the privacy statement
repeats it.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from fastdp.errors import PrivacyError
from fastdp.privacy import accountant
from fastdp.privacy.accountant import GAUSSIAN, BoundedRange, Event, Pure, Threshold

TOLERANCE = 1e-6
"""Relative difference of the two accountants that counts as agreement."""
OVER = 1e-9
"""Relative excess of the first accountant over the stated epsilon that is still rounding."""
AUTODP_EPSILON = (1e-4, 100.0)
AUTODP_DELTA = (1e-15, 0.1)
"""Ranges of epsilon and delta in which autodp answers (docs/explain/accounting.md)."""
_DIGITS = 60
"""Decimal digits of the arithmetic by which fastdp itself computes the cost a second time."""


def agree(events: Sequence[Event], epsilon: float, delta: float) -> str:
    """Check that a second accountant finds the same cost, and that it is within `epsilon`.

    Returns the accountant's name ("autodp 0.2.3" or "mpmath 1.4.1, 60 digits"). Raises
    `PrivacyError` if the two differ by more than 1e-6 relative, or the cost exceeds epsilon.
    """
    first = accountant.spent(events, delta)
    name, second = evaluate(events, delta, expected=first)
    if not (math.isfinite(first) and math.isfinite(second)):
        raise PrivacyError(
            "delta is 0, which covers pure events only; set a delta above 0. Nothing was drawn"
        )
    if abs(first - second) > TOLERANCE * max(first, second):
        raise PrivacyError(
            f"the accountants disagree: fastdp finds epsilon {first!r} and {name} finds {second!r} "
            f"at delta {delta!r}; nothing was drawn"
        )
    if first > epsilon * (1.0 + OVER) or second > epsilon * (1.0 + TOLERANCE):
        raise PrivacyError(
            f"the cost is epsilon {first!r} ({name}: {second!r}) at delta {delta!r}, more than the"
            f" stated {epsilon!r}; nothing was drawn"
        )
    return name


def evaluate(
    events: Sequence[Event], delta: float, expected: float | None = None
) -> tuple[str, float]:
    """The second accountant's name and its epsilon at delta.

    The deltas of thresholds are taken off delta first; epsilon is that of the noise at the rest.
    `expected` (the first accountant's figure) only decides whether autodp's range covers the case.
    """
    delta -= sum(event.delta for event in events if isinstance(event, Threshold))
    mus = [event.mu for event in events if isinstance(event, GAUSSIAN)]
    covered = (
        len(mus) == len(events)
        and any(mus)
        and AUTODP_DELTA[0] <= delta <= AUTODP_DELTA[1]
        and expected is not None
        and AUTODP_EPSILON[0] * 0.99 <= expected <= AUTODP_EPSILON[1] * 1.01
    )
    if covered:
        answer = _autodp(math.hypot(*mus), delta)
        if answer is not None:
            return answer
    return _mpmath(events, delta)


def _autodp(mu: float, delta: float) -> tuple[str, float] | None:
    """autodp's name and its epsilon of a Gaussian event `mu` at `delta`; None if it is not
    installed."""
    try:
        import autodp.rdp_acct  # noqa: F401  must come first: autodp's own imports are circular otherwise
        from autodp import dp_bank
    except ImportError:
        return None
    from importlib.metadata import version

    try:
        value = float(dp_bank.get_eps_ana_gaussian(1.0 / mu, delta))
    except (RuntimeError, ValueError, AssertionError) as error:
        raise PrivacyError(
            "the second accountant (autodp) did not answer; nothing was drawn"
        ) from error
    return f"autodp {version('autodp')}", value


def _mpmath(events: Sequence[Event], delta: float) -> tuple[str, float]:
    """mpmath's name, and epsilon at 60 digits: the smaller of two bounds.

    One adds the pure epsilons to the epsilon of the Gaussian events. The other takes all events as
    Gaussian ones, each at its equivalent mu.
    """
    import mpmath as mp

    name = f"mpmath {mp.__version__}, {_DIGITS} digits"
    with mp.workdps(_DIGITS):
        gaussian = joint = pure = mp.mpf(0)
        for event in events:
            if isinstance(event, GAUSSIAN):
                square = mp.mpf(event.mu) ** 2
                gaussian += square
            elif isinstance(event, Pure | BoundedRange):
                epsilon = mp.mpf(repr(event.epsilon))
                pure += epsilon
                half = epsilon / 2 if isinstance(event, Pure) else epsilon / 4
                # -2 Phi^-1(1/(1+e^x)) = 2 sqrt(2) erfinv(tanh(x/2))
                square = 8 * _erfinv(mp.tanh(half), mp.exp(-2 * half)) ** 2
            else:
                raise PrivacyError(f"expected a privacy event, got a {type(event).__name__}")
            joint += square
        if delta < 0.0:
            return name, math.inf
        if delta == 0.0:
            return name, float(pure) if gaussian == 0 else math.inf
        split = pure + _epsilon(mp.sqrt(gaussian), mp.mpf(delta))
        return name, float(min(split, _epsilon(mp.sqrt(joint), mp.mpf(delta))))


def _erfinv(skew, gap):
    """x with erf(x) = skew, by bisection on erfc, which does not cancel where skew is near 1. `gap`
    is (1 - skew) / (1 + skew), given apart for the same reason."""
    import mpmath as mp

    tail = 2 * gap / (1 + gap)  # 1 - skew without cancellation
    low, high = mp.mpf(0), mp.mpf(1)
    while mp.erfc(high) > tail:
        high *= 2
    if skew < mp.mpf("0.5"):
        return mp.erfinv(skew)
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if mp.erfc(middle) > tail else (low, middle)
    return high


@lru_cache(maxsize=256)
def _epsilon(mu, delta):
    """The root of Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2) = delta in e, by bisection."""
    import mpmath as mp

    def curve(epsilon):
        return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)

    if mu == 0 or curve(mp.mpf(0)) <= delta:
        return mp.mpf(0)
    low = mp.mpf(0)
    high = mu * mu / 2 + mu * mp.sqrt(2 * mp.log(1 / delta))
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
        if high - low <= high * mp.mpf("1e-12"):
            break
    return high

"""The exponential mechanism, exact on the integer grid of its scores.

Distribution: P(j) = w_j / sum w, w_j = exp(-epsilon (max score - score_j) / (2 sensitivity)).
Scores are integers, and one user changes each by at most `sensitivity` in the same grid. One draw
is charged `BoundedRange(epsilon)`.

Sampling is inversion with lazy precision. Every w_j is enclosed between two integers in units of
2^-p, and a uniform U gets p random bits. If the enclosures do not decide which interval of the
cumulative sum holds U, both get more bits. A floating-point pass with wide margins answers nearly
always. The answer is the one that infinitely many bits would give, so the distribution is exact.
With p = 128 and n candidates, a second round is needed with probability below 5 n^2 2^-128.
docs/explain/selection.md has the proof.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastdp.errors import UsageError
from fastdp.privacy.calibrate import positive
from fastdp.privacy.gdp import least
from fastdp.privacy.noise import Bits

_FIRST_BITS = 128  # of U at first; more are taken only where these do not decide
_GUARD = 40  # extra bits of the inner arithmetic
_FAST_MARGIN = 5e-10  # relative, of the floating-point shortcut
_FAST_TINY = 1e-37  # of the total: the bits of U beyond 128, and weights that underflow
_FAST_MOST = 100_000  # candidates


def exponential(
    scores: ArrayLike, epsilon: float, sensitivity: int, *, seed: int | None = None
) -> int:
    """The index drawn with probability proportional to exp(epsilon score / (2 sensitivity)).

    `scores` are int64 (or a list of Python ints), `sensitivity` a positive int in the same unit:
    how much one *user* can change any score. `seed` is for tests only.
    """
    gaps = _gaps(scores)
    rate = _rate(epsilon, sensitivity)
    bits = Bits(seed)
    precision = _FIRST_BITS
    uniform = bits.take(_FIRST_BITS)
    index = _locate_fast(gaps, rate, uniform / (1 << precision))
    if index is not None:
        return index
    distinct, which = np.unique(gaps, return_inverse=True)
    while True:
        enclosures = [exp_enclosure(rate * int(gap), precision) for gap in distinct]
        index = _locate([enclosures[i] for i in which], uniform, precision)
        if index is not None:
            return index
        uniform = uniform << precision | bits.take(precision)
        precision *= 2


def _locate_fast(gaps: NDArray[np.uint64], rate: Fraction, uniform: float) -> int | None:
    """`_locate` in floating point: the same answer, or None if rounding might change it.

    Exponents that matter are below 750 and off by a few roundings of their size. exp is off by a
    few units in the last place, sums of up to 10^5 terms by as many roundings. So all is right to
    2e-11 relative, and U to 2^-53 relative and its unseen bits, 2^-128. The margins are wider than
    that by a factor of 25 and more.
    """
    if gaps.size > _FAST_MOST:
        return None
    sums = np.cumsum(np.exp(-(gaps.astype(np.float64) * float(rate))))
    point = uniform * sums[-1]
    j = int(np.searchsorted(sums, point, side="right"))
    if j == gaps.size:
        return None
    below = sums[j - 1] if j else 0.0
    slack = _FAST_MARGIN * point + _FAST_TINY * sums[-1]
    return j if (j == 0 or below + slack < point) and point + slack < sums[j] else None


def exp_enclosure(x: Fraction, precision: int) -> tuple[int, int]:
    """Integers low <= exp(-x) 2^precision <= high with high - low <= 2, for x >= 0."""
    if x == 0:
        return 1 << precision, 1 << precision
    if x > precision:  # exp(-x) < 2^-precision
        return 0, 1
    halvings = max(8, x.numerator.bit_length() - x.denominator.bit_length() + 9)
    work = precision + _GUARD + halvings
    low = _taylor(-((-x.numerator << work) // (x.denominator << halvings)), work, up=False)
    high = _taylor((x.numerator << work) // (x.denominator << halvings), work, up=True)
    for _ in range(halvings):
        low = low * low >> work
        high = -(-(high * high) >> work)
    shift = work - precision
    return low >> shift, min(1 << precision, -(-high >> shift))


def _taylor(x: int, work: int, up: bool) -> int:
    """A bound of exp(-x / 2^work) 2^work from above or below, 0 <= x <= 2^work.

    The terms fall and alternate, so partial sums enclose the value. Each term is rounded by less
    than one unit, so the number of terms is added or subtracted at the end.
    """
    total = 0
    term = 1 << work
    k = 0
    while term:
        total += -term if k & 1 else term
        k += 1
        term = (term * x >> work) // k
    slack = 4 * (k + 1)
    return total + slack if up else max(0, total - slack)


def _locate(enclosures: list[tuple[int, int]], uniform: int, precision: int) -> int | None:
    """The index whose part of the cumulative sum surely holds U times the total, or None.

    U lies in [uniform, uniform + 1) / 2^precision.
    """
    total_low = sum(low for low, _ in enclosures)
    total_high = sum(high for _, high in enclosures)
    point_low = uniform * total_low  # in units of 2^-(2 precision), as the bounds below
    point_high = (uniform + 1) * total_high
    below_low = below_high = 0
    for j, (low, high) in enumerate(enclosures):
        # the part of j is surely [below_high, below_low + low) and possibly [below_low, below_high
        # + high)
        if point_low >= below_high << precision and point_high <= (below_low + low) << precision:
            return j
        below_low += low
        below_high += high
    return None


def _gaps(scores: ArrayLike) -> NDArray[np.uint64]:
    """How far each score lies below the best one, without overflow."""
    array = np.asarray(scores)
    if array.ndim != 1 or array.size == 0:
        raise UsageError(
            f"scores must be a non-empty one-dimensional array, got shape {array.shape}"
        )
    if array.dtype.kind not in "iu":
        raise UsageError(f"scores must be integers (grid units), got {array.dtype}")
    wide = array.astype(np.uint64)  # modulo 2^64; so is the difference, which lies below 2^64
    return wide[np.argmax(array)] - wide


def _rate(epsilon: float, sensitivity: int) -> Fraction:
    """epsilon / (2 sensitivity) as a rational."""
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int | np.integer):
        raise UsageError(
            f"sensitivity must be an int in the scores' grid units, got {sensitivity!r}"
        )
    if sensitivity < 1:
        raise UsageError(f"sensitivity must be at least 1, got {sensitivity}")
    return least(positive("epsilon", epsilon)) / (2 * int(sensitivity))

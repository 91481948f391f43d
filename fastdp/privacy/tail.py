"""Noise of many cells of which only those above a threshold are asked for, without drawing the
others.

`exceeding` draws those of `cells` independent draws of round(sigma * N(0, 1)) that are above an
integer threshold. Let p = P(round(sigma N) > threshold) = erfc((threshold + 1/2) / (sigma sqrt(2)))
/ 2. The number left is Binomial(cells, p). Each of them has, independently, the distribution of
round(sigma N) given that it is above the threshold. Both are drawn by inversion of `BITS` random
bits at a higher working precision; a floating-point pass with wide margins decides nearly all of
them. The distribution function is off by less than 2^-BITS at every point, and the uniform number
has BITS bits. Together they change the distribution by at most 2^(1 - BITS) times the number of
points. There are fewer than 2^40 points, so each number is within 2^-117 of its distribution in
total variation, as in `noise`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import noise

BITS = 160
MARGIN = 1e-10
"""Relative, of the floating-point shortcut: scipy's normal distribution function and the few
roundings here are right to 1e-13."""


def exceeding(sigma: float, threshold: int, cells: int, *, seed: int | None = None) -> np.ndarray:
    """int64: the draws above `threshold` (>= 0, in grid units) among `cells` draws of round(sigma
    N(0, 1)). Their order says nothing about which cells they belong to."""
    from mpmath.ctx_mp import MPContext
    from scipy.special import ndtr, ndtri

    mp = MPContext()
    mp.prec = BITS + 96
    width = mp.mpf(sigma) * mp.sqrt(2)

    def tail(k: int) -> Any:
        return mp.erfc((k + mp.mpf(0.5)) / width) / 2

    bits = noise.Bits(seed)
    p = tail(threshold)
    count = _binomial(mp, cells, p, bits)
    drawn = bits.take(BITS * count).to_bytes(BITS // 8 * count, "little") if count else b""
    units = [
        int.from_bytes(drawn[i : i + BITS // 8], "little") + 1
        for i in range(0, len(drawn), BITS // 8)
    ]
    point = float(p) * np.array([u / (1 << BITS) for u in units])
    out = np.maximum(np.ceil(-sigma * ndtri(point) - 0.5).astype(np.int64), threshold + 1)
    above, at = (ndtr(-(out - k + 0.5) / sigma) for k in (1, 0))
    sure = (at * (1 + MARGIN) < point) & (point < above * (1 - MARGIN))
    for i in np.flatnonzero(~sure):
        out[i] = _inverse(tail, p * units[i] / (1 << BITS), int(out[i]), threshold)
    return out


def _binomial(mp: Any, n: int, p: Any, bits: noise.Bits) -> int:
    """A draw of Binomial(n, p) by inversion: the least k whose distribution function exceeds U.
    Takes n p steps or so."""
    uniform = mp.mpf(bits.take(BITS)) / (1 << BITS)
    k = 0
    odds = p / (1 - p)
    mass = mp.exp(n * mp.log1p(-p))
    below = mass
    while below <= uniform and k < n:
        mass *= odds * (n - k) / (k + 1)
        k += 1
        below += mass
    return k


def _inverse(tail: Callable[[int], Any], point: Any, guess: int, threshold: int) -> int:
    """The least k above the threshold with tail(k) < point; `guess` is near it."""
    k = max(guess, threshold + 1)
    while tail(k) >= point:
        k += 1
    while k > threshold + 1 and tail(k - 1) < point:
        k -= 1
    return k


def places(cells: int, taken: np.ndarray, count: int, *, seed: int | None = None) -> np.ndarray:
    """int64: `count` different cells of 0..cells-1, none of them in `taken` (ascending). Every such
    set has the same probability: uniform cells are drawn, and those that are taken or were drawn
    before are refused."""
    bits = noise.Bits(seed)
    size = (cells - 1).bit_length()
    found: dict[int, None] = {}
    while len(found) < count:
        cell = bits.take(size)
        at = int(np.searchsorted(taken, cell))
        if cell < cells and not (at < len(taken) and taken[at] == cell):
            found[cell] = None
    return np.array(list(found), np.int64)

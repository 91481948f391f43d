"""The minimum of a smooth convex function by L-BFGS.

It sums without BLAS, whose threads add up in an order of their own. So results do not depend on the
number of threads, and vectors of some thousand numbers gain nothing by threads that wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

PAIRS = 20
"""Steps that are remembered."""
ENOUGH = 1e-4
"""A step is taken where it lowers the function by this part of what its slope says, at least."""
SHORTER = 30
"""How often a step is shortened, at most."""
CURVED = 1e-12
"""A step along which the slope changes by less than this part of the change's square is not remembered."""

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


def minimum(function: Function, at: np.ndarray, near: float, flat: float, steps: int) -> np.ndarray:
    """Where `function`, which gives its value and its slope, is least.

    A step is the last if it is a full one and lowers the value by no more than `near`. It is also the last
    if it leads to a slope of no more than `flat` anywhere. `steps`: the most steps."""
    value, slope = function(at)
    known: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=PAIRS)
    for _ in range(steps):
        if np.abs(slope).max(initial=0.0) <= flat:
            break
        way = _direction(slope, known)
        down = _inner(way, slope)
        length = 1.0 if known else 1 / max(1.0, _inner(slope, slope) ** 0.5)
        for _ in range(SHORTER):
            there, new_slope = function(at + length * way)
            rise = there - value
            if rise <= ENOUGH * length * down:
                break
            # the minimum of the parabola with this slope and these values
            fitted = -0.5 * length * down / max(rise - length * down, 1e-300)
            length *= min(max(fitted, 0.1), 0.5)
        else:
            break
        step = length * way
        change = new_slope - slope
        curved = _inner(step, change)
        if curved > CURVED * _inner(change, change):
            known.append((step, change, 1 / curved))
        at = at + step
        value = there
        slope = new_slope
        if length == 1.0 and -rise <= near:
            break
    return at


def _direction(slope: np.ndarray, known: deque[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """Minus the slope, times the inverse Hessian as far as steps tell it. `known`: steps, changes of
    the slope along them, and the inverse of the product of both."""
    way = -slope
    parts = []
    for step, change, inverse in reversed(known):
        part = inverse * _inner(step, way)
        parts.append(part)
        way = way - part * change
    if known:
        _, change, inverse = known[-1]
        way = way / (inverse * _inner(change, change))
    for (step, change, inverse), part in zip(known, reversed(parts)):
        way = way + (part - inverse * _inner(change, way)) * step
    return way


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum())

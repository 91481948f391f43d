"""Counts, sums, shares and means per group of cells, with the parts of their errors.

A *group* is a combination of positions on the axes that `by` names. Every number is linear in the
cells, or a ratio of two such numbers that is linearised, so noise has an exact variance. Some cells
are selected only in part: a bin that `where` cuts, a value inside a merged code. They are bounded
from both sides, as are bins that hold many numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .._util.lazy import sp
from ..significance import SURE
from .cell_layout import Layout
from .values import numbers_of

MIXED = "rows without a number were counted together with numbers: the interval allows for both"
SHOWN = 5.0
"""A mean is given for groups whose rows are this many standard errors or more. Below, the ratio of
two noisy numbers is far from normal (chosen on adult and an ACS extract)."""


@dataclass(eq=False)
class End:
    """One end of what cells that are partly selected allow: its estimate and standard error."""

    estimate: np.ndarray
    error: np.ndarray


@dataclass(eq=False)
class Groups:
    """Numbers per group. `noise` and `clipping` (down, up) are standard errors, `bins` a bound.
    `linear`, `less`: the estimate as weights of cells minus `less` times the sum of all cells.
    `inside`: standard error by where rows lie inside bins, in place of `bins`. `low`, `high`: the
    ends of what bins and cells that are partly selected allow. `floor`: another lower end, of rows
    that count and of numbers that stand out of the noise. `shown`: the number to show instead of
    `estimate`, which is unbiased. `hidden`: groups without an
    interval, `notes` says why. `additive`: the number of a part of a group lies between 0 and that
    of the group. `possible`: no number lies outside."""

    estimate: np.ndarray
    noise: np.ndarray
    clipping: tuple[np.ndarray, np.ndarray]
    bins: np.ndarray
    linear: sp.csr_array
    less: np.ndarray | None = None
    inside: np.ndarray = field(default_factory=lambda: np.zeros(()))
    low: End = field(init=False)
    high: End = field(init=False)
    floor: End | None = None
    hidden: np.ndarray | None = None
    shown: np.ndarray | None = None
    additive: bool = True
    possible: tuple[float, float] = (0.0, math.inf)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.inside = np.broadcast_to(self.inside, self.estimate.shape)
        noise = np.hypot(self.noise, self.inside)
        self.low = End(self.estimate - self.bins, np.hypot(noise, self.clipping[0]))
        self.high = End(self.estimate + self.bins, np.hypot(noise, self.clipping[1]))

    def showing(self) -> Groups:
        """The groups with an upper end that is not below that of the number that is shown. The
        numbers left out of it have 0 rows or more."""
        if self.shown is not None:
            self.high = End(np.maximum(self.high.estimate, self.shown), self.high.error)
        return self

    def placed_inside(self, error: np.ndarray) -> None:
        """Sets both ends by a standard error of places inside bins, in place of bounds."""
        self.inside = error
        self.bins = np.zeros(len(error))
        self.__post_init__()

    def bounded_by(self, low: End, high: End) -> None:
        """Sets both ends, where cells are partly selected or their numbers lie in bins."""
        self.low, self.high = low, high
        self.bins = np.maximum(0.0, (high.estimate - low.estimate) / 2)


def counts(a: Layout) -> Groups:
    """Numbers of rows."""
    x = a.table.x
    clip = a.facts.clipping
    factor = clip.factor
    weights = a.weights("part", None)
    error = a.error(weights)
    counted = np.hypot(abs(weights) @ np.maximum(x, 0.0), error)  # as for the variance of a product
    allowance = clip.allowance(counted, float(x.sum()), list(a.table.axes))
    groups = Groups(
        factor * (weights @ x),
        factor * error,
        allowance,
        np.zeros(a.count),
        factor * weights,
        hidden=a.unknown(weights),
    )
    if factor > 1:
        groups.floor = _surely(a, None)
    if not a.exact:
        groups.bounded_by(*_bounds(a, weights, allowance, None, None))
    return groups.showing()


def sums(a: Layout) -> Groups:
    """Sums of a column's numbers."""
    x = a.table.x
    value = a.asked.value
    assert value is not None
    clip = a.facts.clipping
    factor = clip.factor
    low, middle, high, valid = a.numbers()
    mixed = (valid > 0) & (valid < 1)
    low = np.where(mixed, np.minimum(low, 0.0), low)
    high = np.where(mixed, np.maximum(high, 0.0), high)
    notes = _about_numbers(a) + [MIXED] * bool(mixed.any())
    bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
    if not bounded:
        notes.append(a.facts.no_limit(value.name))
        low = high = middle
    weights = a.weights("part", middle * valid)
    n, mean, off = a.moments(middle, valid)
    columns = [c for c in a.table.axes if c != value.name or c in a.asked.where]
    down, up = clip.allowance(n, float(x.sum()), columns)
    # A sum is a number of rows times a mean, and both may be off to one side.
    allowance = abs(mean) * down + factor * n * off, abs(mean) * up + factor * n * off
    positive = bool((low >= 0).all())
    groups = Groups(
        factor * (weights @ x),
        factor * a.error(weights),
        allowance,
        np.zeros(a.count),
        factor * weights,
        hidden=a.unknown(weights) | (not bounded),
        possible=(0.0 if positive else -math.inf, math.inf),
        notes=notes,
    )
    if positive:
        clear = a.standing_out(middle, valid)
        hides = bool((clear == 0).any())
        if factor > 1 or hides:
            groups.floor = _surely(a, low * clear if hides else low)
        if hides:
            groups.shown = factor * (a.weights("part", middle * valid * clear) @ x)
            groups.notes.append(_hidden_tail(a, middle, clear))
    if a.exact and np.array_equal(low, high):
        return groups.showing()
    inside = a.inside(low, middle, high, valid) if bounded else None
    if inside is not None:
        groups.placed_inside(factor * inside)
    else:
        groups.bounded_by(*_bounds(a, weights, allowance, low, high))
    return groups.showing()


def _surely(a: Layout, numbers: np.ndarray | None) -> End:
    """The number over rows that were counted and are surely selected."""
    counting = sp.csr_array(a.weights("sure", numbers) / a.table.scale)
    return End(counting @ a.table.x, a.error(counting))


def _bounds(
    a: Layout,
    weights: sp.csr_array,
    allowance: tuple[np.ndarray, np.ndarray],
    low: np.ndarray | None,
    high: np.ndarray | None,
) -> tuple[End, End]:
    """The ends of what cells allow that are partly selected, with their numbers between `low` and
    `high`."""
    x = a.table.x
    factor = a.facts.clipping.factor
    size = abs(weights) @ np.maximum(x, 0.0)

    def end(own: str, other: str, numbers: np.ndarray | None, clipping: np.ndarray) -> End:
        w = a.weights(own, numbers)
        if numbers is not None:  # negative numbers of partly selected cells count at the other end
            negative = np.minimum(numbers, 0.0)
            w = sp.csr_array(w + a.weights(other, negative) - a.weights(own, negative))
        # Cells have 0 rows or more. What a cell may add to the estimate is therefore at least 0:
        # the upper end does not fall below the estimate where noise makes a count negative.
        moved = weights @ x + (w - weights) @ np.maximum(x, 0.0)
        allowed = clipping * (abs(w) @ np.maximum(x, 0.0)) / np.maximum(size, 1e-300)
        return End(factor * moved, np.hypot(factor * a.error(w), allowed))

    return end("sure", "touched", low, allowance[0]), end("touched", "sure", high, allowance[1])


def shares(a: Layout) -> Groups:
    """Shares of all rows: ratios of two sums over one table."""
    x = a.table.x
    total = float(x.sum())
    every = sp.csr_array(np.ones((1, x.size)))
    drowned = not total >= SHOWN * float(a.error(every)[0]) or not total > 0

    def ratio(
        which: str,
    ) -> tuple[np.ndarray, sp.csr_array, np.ndarray, tuple[np.ndarray, np.ndarray]]:
        w = a.weights(which) / (total if total > 0 else 1.0)
        p = w @ x
        less = p / (total if total > 0 else 1.0)
        size = np.minimum(np.hypot(np.maximum(p, 0.0), a.error(w, less)), 1.0)
        return p, w, less, a.facts.clipping.divided(size, 1.0, a.table.axes)

    def end(which: str, side: int) -> End:
        p, w, less, allowed = ratio(which)
        return End(p, np.hypot(a.error(w, less), allowed[side]))

    p, w, less, allowed = ratio("part")
    hidden = a.unknown(w) | drowned
    groups = Groups(
        p, a.error(w, less), allowed, np.zeros(a.count), w, less, hidden=hidden, possible=(0.0, 1.0)
    )
    if drowned:
        groups.notes.append("the number of rows is smaller than its noise")
    if not a.exact:
        groups.bounded_by(end("sure", 0), end("touched", 1))
    return groups


def means(a: Layout) -> Groups:
    """Means per group: ratios of sums, linearised."""
    x = a.table.x
    value = a.asked.value
    assert value is not None
    low, middle, high, valid = a.numbers()
    count = a.weights("part", valid.astype(float))
    total = a.weights("part", middle * valid)
    n = count @ x
    notes = _about_numbers(a)
    small = ~(n >= SHOWN * a.error(count))
    if small.any():
        notes.append("no mean for groups with fewer rows than 5 standard errors")
    kept, _, off = a.moments(middle, valid)
    with np.errstate(all="ignore"):
        mean = (total @ x) / n
        inverse = np.where(small, 0.0, 1 / n)
        linear = _ratio_weights(total, count, inverse, np.where(small, 0.0, mean))
        reach = np.where(valid > 0, np.maximum(high - middle, middle - low), 0.0)
        bins = np.zeros(a.count)
        if np.isfinite(reach).all():
            bins = (a.weights("part", reach * valid) @ np.maximum(x, 0.0)) / kept
            bins = bins + _mixed(a, middle, reach, valid)
    mean[small] = np.nan
    hidden = a.unknown(count) | ~np.isfinite(mean)
    if ((valid > 0) & (valid < 1)).any():
        notes.append(MIXED)
        hidden |= ~np.isfinite(bins)
        bins = np.where(np.isfinite(bins), bins, 0.0)
    if not np.isfinite(reach).all():
        hidden[:] = True
        notes.append(a.facts.no_limit(value.name))
    if not a.exact:
        hidden[:] = True
        notes.append("`where` selects part of a bin or of merged values: nothing bounds the mean")
    numbers = numbers_of(value)
    groups = Groups(
        mean,
        a.error(linear, kind="mean"),
        (off, off),
        bins,
        linear,
        hidden=hidden,
        additive=False,
        possible=(
            float(numbers.low[numbers.valid].min()) / a.unit,
            float(numbers.high[numbers.valid].max()) / a.unit,
        ),
        notes=notes,
    )
    inside = None if hidden.all() else a.inside(low, middle, high, valid)
    if inside is not None:
        groups.placed_inside(np.where(small, 0.0, inside / np.maximum(kept, 1e-300)))
    clear = a.standing_out(low, valid) if (low >= 0).all() else np.ones(low.size)
    if (clear == 0).any() and not hidden.all():
        shown = a.weights("part", middle * valid * clear)
        groups.shown = np.where(small, np.nan, (shown @ x) * inverse)
        surely = a.weights("part", low * valid * clear)
        floor = (surely @ x) * inverse
        of_floor = _ratio_weights(surely, count, inverse, floor)
        groups.floor = End(floor, np.hypot(a.error(of_floor, kind="mean"), off))
        groups.notes.append(_hidden_tail(a, middle, clear))
    return groups.showing()


def _ratio_weights(
    total: sp.csr_array, count: sp.csr_array, inverse: np.ndarray, ratio: np.ndarray
) -> sp.csr_array:
    """Weights of cells by which total / count changes around `ratio`; `inverse`: 1 / count."""
    return sp.csr_array(sp.diags_array(inverse) @ (total - sp.diags_array(ratio) @ count))


def _mixed(a: Layout, middle: np.ndarray, reach: np.ndarray, part: np.ndarray) -> np.ndarray:
    """How far the mean of a group may move by positions where rows without a number were counted
    together with numbers. It is infinite where more than half of the rows lie in such.

    Let m rows lie in them and n in others, of mean b. Any of the m may have a number, with a mean
    within `reach` of `middle`. So their weight in the mean of all is from 0 to m / (n + m), and so
    is that in the estimate. The two differ by at most m / (n + m) (|b - middle| + reach)."""
    positions = np.flatnonzero((part > 0) & (part < 1))
    if not len(positions):
        return np.zeros(a.count)
    rows = np.maximum(a.table.x, 0.0)
    sure = (part == 1).astype(float)
    n = a.weights("part", sure) @ rows
    mean = (a.weights("part", sure * middle) @ rows) / np.maximum(n, 1e-300)
    every = n
    moved = np.zeros(a.count)
    for i in positions:
        m = a.weights("part", (np.arange(part.size) == i).astype(float)) @ rows
        every = every + m
        moved = moved + m * (abs(mean - middle[i]) + reach[i])
    return np.where(n >= every / 2, moved / np.maximum(every, 1e-300), np.inf)


COMPUTE = {"count": counts, "sum": sums, "share": shares, "mean": means}


def _about_numbers(a: Layout) -> list[str]:
    """What a reader must know of the numbers that a mean or sum is over."""
    column = a.asked.value
    notes = []
    if column is not None and column.size > column.base:
        notes.append(f"rows without a number in {column.name} are left out")
    if column is not None and column.overflow.action == "clamp":
        share, error = a.facts.missing.get(column.name, (0.0, 0.0))
        told = f"; about {share:.0%} of the rows lie there" if share > SURE * error else ""
        numbers = numbers_of(column)
        low, high = (
            float(numbers.low[numbers.valid].min()),
            float(numbers.high[numbers.valid].max()),
        )
        notes.append(
            f"of {column.name} cut to {low:.6g} to {high:.6g}, not of {column.name} itself: values beyond"
            f" the bounds count as the nearest one{told}"
        )
    if column is not None and column.name in a.facts.sums and len(a.table.axes) > 1:
        notes.append(
            f"sums inside the bins of {column.name} were released for all rows only: rows of a"
            " group count at the mean of their bin"
        )
    return notes


def _hidden_tail(a: Layout, middle: np.ndarray, clear: np.ndarray) -> str:
    name = "" if a.asked.value is None else a.asked.value.name
    most = float(middle[clear > 0].max(initial=0.0)) * a.unit
    return (
        f"numbers of {name} above about {most:.4g} do not stand out of the noise: the estimate"
        " leaves them out, the upper end allows for them"
    )

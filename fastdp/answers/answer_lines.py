"""The lines of an answer: for every combination of values, the numbers of the group of cells that it
lies in, and the same compared with another line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.lazy import sp
from ..errors import UsageError
from .cell_layout import Layout
from .groups import SHOWN, Groups
from .values import select


class Lines(Struct, eq=False):
    """The lines of the answer: a code of each column of `by`, and the group it lies in. Then the
    expected part of the group that it is, and whether it is all of the group."""

    codes: list[np.ndarray]
    group: np.ndarray
    part: np.ndarray
    whole: np.ndarray

    @classmethod
    def of(cls, a: Layout) -> Lines:
        if not a.asked.by:
            return cls([], np.zeros(1, np.int64), np.ones(1), np.ones(1, bool))
        axes = []
        for axis, column in enumerate(a.asked.by):
            codes = a.table.maps[axis]
            weight = a.facts.weight(column.name)
            selection = a.asked.where.get(column.name)
            taken = (
                np.arange(column.size) if selection is None else np.flatnonzero(selection.touched)
            )
            alone = np.bincount(codes)[codes] == 1
            within = np.where(alone, 1.0, weight / np.bincount(codes, weight)[codes])
            if selection is not None:
                within = within * selection.part
                alone = alone & selection.sure
            axes.append((taken, codes[taken], within[taken], alone[taken]))
        flat = [
            [g.reshape(-1) for g in np.meshgrid(*x, indexing="ij")] for x in zip(*axes, strict=True)
        ]
        group = np.ravel_multi_index(flat[1], a.shape)
        return cls(flat[0], group, np.prod(flat[2], axis=0), np.all(flat[3], axis=0))


class Numbers(Struct, eq=False):
    """Per line. `low`, `high` with their errors: the ends before the interval is added to them.
    `floor`, `possible` and `inside`: as in `Groups`. `sampling`: the standard error of a sample of
    users."""

    estimate: np.ndarray
    noise: np.ndarray
    clipping: np.ndarray
    bins: np.ndarray
    low: np.ndarray
    low_error: np.ndarray
    high: np.ndarray
    high_error: np.ndarray
    hidden: np.ndarray
    sampling: np.ndarray
    inside: np.ndarray
    possible: tuple[float, float]
    notes: list[str]
    floor: tuple[np.ndarray, np.ndarray] | None = None


def numbers_of_lines(a: Layout, groups: Groups, lines: Lines) -> Numbers:
    at = lines.group
    whole = lines.whole
    shown = groups.estimate if groups.shown is None else groups.shown
    estimate = shown[at] * (lines.part if groups.additive else 1.0)
    noise, bins = groups.noise[at], groups.bins[at]
    hidden = np.zeros(at.size, bool) if groups.hidden is None else groups.hidden[at]
    low, high = groups.low.estimate[at], groups.high.estimate[at]
    low_error, high_error = groups.low.error[at], groups.high.error[at]
    if not whole.all():
        low = np.where(whole, low, np.minimum(low, 0.0))
        low_error = np.where(whole, low_error, 0.0)
        high = np.where(whole, high, np.maximum(high, 0.0))
        bins = np.where(whole, bins, np.maximum(high - low, 0.0) / 2)
        if not groups.additive:
            hidden = hidden | ~whole
    floor = None
    if groups.floor is not None:
        floor = (
            np.where(whole, groups.floor.estimate[at], 0.0),
            np.where(whole, groups.floor.error[at], 0.0),
        )
    sampling = a.sampled(groups.linear, groups.less)[at]
    inside = np.where(whole, groups.inside[at], 0.0)
    return Numbers(
        estimate=estimate,
        noise=noise,
        clipping=np.maximum(*groups.clipping)[at],
        bins=bins,
        low=low,
        low_error=low_error,
        high=high,
        high_error=high_error,
        hidden=hidden,
        sampling=sampling,
        inside=inside,
        possible=groups.possible,
        notes=groups.notes,
        floor=floor,
    )


def _reference(a: Layout, lines: Lines, named: Any, what: str) -> int:
    """The line that `minus` or `over` names."""
    by = a.asked.by
    if not by or not isinstance(named, Mapping) or set(named) != {c.name for c in by}:
        raise UsageError(f"{what}: expected one value for each column of `by`, got {named!r}")
    chosen = np.ones(lines.group.size, bool)
    for column, codes in zip(by, lines.codes, strict=True):
        chosen &= select(column, named[column.name]).sure[codes]
    if chosen.sum() != 1:
        raise UsageError(
            f"{what}: expected a single group, but {named!r} selects {int(chosen.sum())}"
        )
    return int(np.flatnonzero(chosen)[0])


def compared_lines(
    a: Layout, groups: Groups, lines: Lines, numbers: Numbers, minus: Any, over: Any
) -> Numbers:
    """Each line minus the line that `minus` names, or over that of `over`, with the covariance of
    the two. A ratio is linearised; it needs a denominator of 5 standard errors."""
    ref = _reference(a, lines, *((minus, "minus") if over is None else (over, "over")))
    at = lines.group
    one = np.full(at.size, at[ref])
    x, y = groups.estimate[at], groups.estimate[one]
    hidden = numbers.hidden | numbers.hidden[ref]
    scale = np.ones(at.size)
    times = np.ones(at.size)
    estimate = x - y
    if over is not None:
        clear = y[0] != 0 and abs(y[0]) >= SHOWN * float(groups.noise[one][0])
        hidden = hidden | (not clear)
        scale = np.full(at.size, 1 / y[0] if clear else 0.0)
        times = x * scale
        estimate = times if clear else np.full(at.size, np.nan)
    weigh = sp.diags_array
    linear = sp.csr_array(weigh(scale) @ (groups.linear[at] - weigh(times) @ groups.linear[one]))
    less = None if groups.less is None else scale * (groups.less[at] - times * groups.less[one])
    noise = a.error(linear, less, a.asked.kind)
    sampling = a.sampled(linear, less)
    (down, up), (down_one, up_one) = ([part[i] for part in groups.clipping] for i in (at, one))
    sides = ((down, up_one), (up, down_one))
    less_clip, more_clip = (abs(scale) * np.hypot(mine, times * other) for mine, other in sides)
    bins = abs(scale) * (groups.bins[at] + abs(times) * groups.bins[one])
    # Two groups that make up a bin are off by opposite amounts: errors inside bins add up.
    inside = abs(scale) * (groups.inside[at] + abs(times) * groups.inside[one])
    split = ~lines.whole | ~lines.whole[ref]
    compared = ["values that were counted together are not compared"] if split.any() else []
    notes = [*numbers.notes, *compared]
    same = np.arange(at.size) == ref
    noise, bins, inside, less_clip, more_clip = (
        np.where(same, 0.0, v) for v in (noise, bins, inside, less_clip, more_clip)
    )
    return Numbers(
        estimate=estimate,
        noise=noise,
        clipping=np.maximum(less_clip, more_clip),
        bins=bins,
        low=estimate - bins,
        low_error=np.hypot(np.hypot(noise, inside), less_clip),
        high=estimate + bins,
        high_error=np.hypot(np.hypot(noise, inside), more_clip),
        hidden=hidden | split,
        sampling=sampling,
        inside=inside,
        possible=(-math.inf, math.inf),
        notes=notes,
    )

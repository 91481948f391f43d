"""A table of noisy cells as a question sees it: which cells belong to which group, the numbers of
their positions, and their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from .._util.lazy import sp
from ..rows_per_user import last_bin
from .best_linear import Table
from .bin_means import bin_means
from .clipping import Z95
from .facts import Facts
from .inside_bins import Bins, sum_errors
from .question import Question
from .values import Numbers, numbers_of

SQUARES = 300
"""Numbers from 2^-300 to 2^300 have squares, and sums of these over 2^400 rows, that a float holds."""
TAILS = 3.0
"""Allowance for the sum of an outer bin, in standard errors of a row at its far end. Rows of a tail
that do not stand out of the noise count as none (`release/sums`)."""


@dataclass(eq=False)
class Layout:
    """A table as the question sees it: the first axes are those of `by`. `bounds`: rows may lie
    anywhere in their bins, and intervals are as wide as that."""

    facts: Facts
    asked: Question
    table: Table
    bounds: bool = False

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Positions of each axis of `by`."""
        return self.table.shape[: len(self.asked.by)]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def others(self) -> range:
        return range(len(self.asked.by), len(self.table.axes))

    @cached_property
    def exact(self) -> bool:
        """Whether `where` selects whole cells."""
        return all(
            np.array_equal(self.along(i, "sure"), self.along(i, "touched")) for i in self.others
        )

    def along(self, axis: int, which: str) -> np.ndarray:
        """What `where` selects along an axis: per position the expected `part`, or 1 if it selects
        all codes (`sure`) or any (`touched`) of the position."""
        name = self.table.axes[axis]
        codes = self.table.maps[axis]
        size = self.table.shape[axis]
        selection = self.asked.where.get(name)
        if selection is None:
            return np.ones(size)
        if which == "part":
            weight = self.facts.weight(name)
            return np.bincount(codes, weight * selection.part, size) / np.bincount(
                codes, weight, size
            )
        chosen = np.bincount(codes, getattr(selection, which), size)
        return (
            chosen == np.bincount(codes, minlength=size) if which == "sure" else chosen > 0
        ).astype(float)

    @cached_property
    def unit(self) -> float:
        """What the numbers of the value are counted in. Sums, means and their errors are in it.

        It is 1, or a power of 2 near the largest number where squares would be too large or too small for a
        float."""
        if self.asked.value is None:
            return 1.0
        numbers = numbers_of(self.asked.value)
        ends = np.abs(np.concatenate([numbers.low, numbers.middle, numbers.high]))
        largest = float(ends.max(where=np.isfinite(ends), initial=0.0))
        power = math.frexp(largest)[1] - 1
        return 1.0 if abs(power) <= SQUARES or largest == 0 else math.ldexp(1.0, power)

    def weights(self, which: str, numbers: np.ndarray | None = None) -> sp.csr_array:
        """Groups x cells: what `where` selects, times a number per position of the value's axis."""
        rest: np.ndarray = np.ones(())
        for axis in self.others:
            along = self.along(axis, which)
            if numbers is not None and self.asked.value is not None:
                along = along * numbers if self.table.axes[axis] == self.asked.value.name else along
            rest = np.multiply.outer(rest, along)
        rest = rest.reshape(-1)
        used = np.flatnonzero(rest)
        columns = (np.arange(self.count)[:, None] * rest.size + used).reshape(-1)
        ends = np.arange(self.count + 1) * used.size
        shape = (self.count, self.table.x.size)
        return sp.csr_array((np.tile(rest[used], self.count), columns, ends), shape=shape)

    def error(
        self, w: sp.csr_array, less: np.ndarray | None = None, kind: str = "count"
    ) -> np.ndarray:
        """Standard error of each row of `w`, from noise or from the model's misfit."""
        return np.sqrt(self.table.variances(w, less)) * self.table.inflation.get(kind, 1.0)

    def sampled(self, linear: sp.csr_array, less: np.ndarray | None = None) -> np.ndarray:
        """Standard error of numbers with these weights if the users of the table were drawn from a
        population. Rows of one user are taken as alike, so it is an upper bound where they differ.
        """
        clip = self.facts.clipping
        rows = clip.factor * np.maximum(self.table.x, 0.0)
        total = max(float(rows.sum()), 1.0)
        first = linear @ rows
        second = linear.power(2) @ rows
        if less is not None:
            second = second - 2 * less * first + less * less * total
            first = first - less * total
        spread = np.maximum(second - np.square(first) / total, 0.0)
        return np.sqrt(clip.cluster * spread) / clip.factor

    def unknown(self, weights: sp.csr_array) -> np.ndarray:
        """Groups of which some cell has no estimate, or counts mostly numbers that lie elsewhere."""
        if any(map(self.facts.mostly_clamped, self.asked.columns)):
            return np.ones(self.count, bool)
        if self.table.known is None:
            return np.zeros(self.count, bool)
        return (abs(weights) @ (~self.table.known).astype(float)) > 0

    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(low, middle, high, part) per position of the value's axis. The first three are, in `unit`,
        the least, expected and largest mean of its rows that have a number. The last is the expected
        part of its rows that have one. It is 0 or 1 in all runs whose codes of nulls and of values
        outside the domain stand apart from numbers. In others nothing bounds it."""
        assert self.asked.value is not None
        name = self.asked.value.name
        axis = self.table.axes.index(name)
        codes = self.table.maps[axis]
        size = self.table.shape[axis]
        numbers = numbers_of(self.asked.value)
        if self.unit != 1.0:
            ends = (numbers.low, numbers.middle, numbers.high)
            numbers = Numbers(*(end / self.unit for end in ends))
        if name in self.facts.sums and len(self.table.axes) == 1:
            numbers = self._measured(numbers)
        valid = numbers.valid
        low = np.full(size, np.inf)
        high = np.full(size, -np.inf)
        np.minimum.at(low, codes[valid], numbers.low[valid])
        np.maximum.at(high, codes[valid], numbers.high[valid])
        weight = np.where(valid, self.facts.weight(name), 0.0)
        total = np.bincount(codes, weight, size)
        some = np.bincount(codes, valid, size) > 0
        pure = np.bincount(codes, ~valid, size) == 0
        every = np.bincount(codes, self.facts.weight(name), size)
        part = np.where(some & ~pure, total / np.where(every > 0, every, 1.0), some)
        low, high = np.where(some, low, 0.0), np.where(some, high, 0.0)
        each = np.where(valid, numbers.middle, 0.0)
        if self._places_by_neighbours(low, high, part):
            each = self._placed(numbers, each)
        middle = np.bincount(codes, weight * each, size)
        # A single number is not moved by the last bit of a quotient: its group would count as a
        # bin.
        middle = np.clip(middle / np.where(total > 0, total, 1.0), low, high)
        return low, middle, high, part

    def _placed(self, numbers: Numbers, middle: np.ndarray) -> np.ndarray:
        """The expected number of each code, by the neighbours of its bin. A bin is what the column alone
        was counted by. Measurements of several columns may put rare values together that are no
        neighbours; rows of these count at the mean that their own bins have. Where not even bins are
        apart, nothing is moved."""
        assert self.asked.value is not None
        one = self.facts.table((self.asked.value.name,)) or self.table
        codes = one.maps[one.axes.index(self.asked.value.name)]
        valid = numbers.valid
        size = int(codes.max()) + 1
        low = np.full(size, np.inf)
        high = np.full(size, -np.inf)
        np.minimum.at(low, codes[valid], numbers.low[valid])
        np.maximum.at(high, codes[valid], numbers.high[valid])
        bins = np.flatnonzero(np.bincount(codes[valid], minlength=size))
        order = bins[np.argsort(low[bins] + high[bins], kind="stable")]
        if not (high[order[:-1]] <= low[order[1:]]).all():
            return middle
        weight = np.where(valid, self.facts.weight(self.asked.value.name), 0.0)
        rows = np.bincount(codes, weight, size)
        means = np.zeros(size)
        means[bins] = bin_means(low[bins], high[bins], rows[bins], self._noise_of_bins())
        return np.where(valid, means[codes], middle)

    def _places_by_neighbours(self, low: np.ndarray, high: np.ndarray, part: np.ndarray) -> bool:
        """Whether rows count where neighbouring bins say that they lie."""
        closed = bool(np.isfinite(high - low).all())
        return closed and not self.released_means and self.assumes(low, high, part)

    def assumes(self, low: np.ndarray, high: np.ndarray, part: np.ndarray) -> bool:
        """Whether places inside bins are assumed. Bounds are used where they are asked for, and
        where means of all rows were released. They are also used where `where` cuts bins, or rows
        without a number share a bin with others."""
        mixed = bool(((part > 0) & (part < 1)).any())
        whole = self.released_means and len(self.table.axes) == 1
        return not (self.bounds or whole or mixed or not self.exact or np.array_equal(low, high))

    def _noise_of_bins(self) -> float:
        """Standard error of the rows of one bin in all groups."""
        assert self.asked.value is not None
        one = self.facts.table((self.asked.value.name,))
        return float(np.sqrt(np.median((one or self.table).cell_variances())))

    def standing_out(self, numbers: np.ndarray, part: np.ndarray) -> np.ndarray:
        """1 for positions of the value's axis up to the largest number that stands out of the
        noise, else 0. Its rows count together with those of the numbers next to it. Noise in the
        count of a number is multiplied by the number. In a heavy tail, the noise of the largest
        numbers exceeds the sum of all others many times."""
        assert self.asked.value is not None
        axis = self.table.axes.index(self.asked.value.name)
        shape = self.table.shape
        size = part.size
        if (numbers[part > 0] < 0).any() or self.table.known is not None:
            return np.ones(size)
        cells = np.indices(shape)[axis].reshape(-1)
        sums = sp.csr_array(
            (np.ones(cells.size), (cells, np.arange(cells.size))), shape=(size, cells.size)
        )
        order = np.argsort(np.where(part > 0, numbers, -math.inf), kind="stable")
        order = order[np.count_nonzero(part == 0) :]
        last = last_bin((sums @ self.table.x)[order], self.error(sums)[order])
        out = np.ones(size)
        out[order[last + 1 :]] = 0.0
        return out

    def moments(
        self, numbers: np.ndarray, valid: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows that count and have a number, its mean, and the standard error that clipping causes
        in it, of each group."""
        rows = np.maximum(self.table.x, 0.0)
        column = self.asked.value
        n, first, second = (self.weights("part", numbers**p * valid) @ rows for p in range(3))
        mean = first / np.maximum(n, 1e-300)
        square = second / np.maximum(n, 1e-300)
        clip = self.facts.clipping
        share = n / max(float(rows.sum()), 1.0)
        if column is None:
            off = clip.relative(share, [])
        else:
            all_alike = math.hypot(clip.drifts.get(column.name, 0.0), self._division_error())
            off = np.hypot(clip.relative(share, [column.name]), all_alike)
        return n, mean, np.sqrt(np.maximum(square - mean**2, 0.0)) * off

    def _division_error(self) -> float:
        """Standard error of the mean of all rows, in standard deviations of its numbers, where noise
        divided the rows of the value's codes among groups of users (`Facts.table`). That division
        scales tables of several columns as well. Its noise is spread over their cells, but moves the
        means of all groups to one side."""
        assert self.asked.value is not None
        name = self.asked.value.name
        one = self.facts.table((name,))
        divided = name in self.facts.clipping.apart and len(self.facts.clipping.factors) > 1
        if len(self.table.axes) == 1 or not divided or one is None or one.known is not None:
            return 0.0
        numbers = numbers_of(self.asked.value)
        (codes,) = one.maps
        count = np.bincount(codes, numbers.valid)
        total = np.bincount(codes, np.where(numbers.valid, numbers.middle / self.unit, 0.0))
        there = count > 0
        x = np.where(there, np.maximum(one.x, 0.0), 0.0)
        rows = max(float(x.sum()), 1.0)
        place = np.where(there, total / np.maximum(count, 1), 0.0)
        away = np.where(there, place - float(x @ place) / rows, 0.0)
        deviation = math.sqrt(float(x @ np.square(away)) / rows)
        error = math.sqrt(float(one.variances(sp.csr_array(away[None] / rows))[0]))
        return error / deviation if deviation > 0 else 0.0

    @property
    def released_means(self) -> bool:
        """Whether the run released means inside the bins of the value, for all rows."""
        return self.asked.value is not None and self.asked.value.name in self.facts.sums

    def inside(
        self, low: np.ndarray, middle: np.ndarray, high: np.ndarray, part: np.ndarray
    ) -> np.ndarray | None:
        """Standard error of the sum of each group from places inside bins; None where nothing is
        assumed of them. The interval is never wider than by the bound."""
        if not self.assumes(low, high, part):
            return None
        assert self.asked.value is not None
        name = self.asked.value.name
        axis = self.table.axes.index(name)
        every = np.bincount(self.table.maps[axis], self.facts.weight(name), len(low))
        bins = Bins(low, middle, high, self._outer(axis), every)
        if self.released_means:
            error = self._mean_noise(high - low, bins.outer) / np.maximum(every, 1.0)
            bins = msgspec.structs.replace(bins, error=error)
        clip = self.facts.clipping
        rows = self._rows_by_bin(axis)
        noise = float(np.sqrt(np.median(self.table.cell_variances())))
        error = sum_errors(rows, bins, noise, max(clip.cluster / clip.factor, 1.0))
        bound = np.maximum(rows, 0.0) @ np.maximum(high - middle, middle - low)
        return np.minimum(error, bound / Z95)

    def _rows_by_bin(self, axis: int) -> np.ndarray:
        """Rows that `where` selects, [groups, positions of the axis]."""
        rows = self.table.x.reshape(self.table.shape)
        for other in reversed(self.others):
            along = self.along(other, "part")
            if other == axis:
                shape = [1] * rows.ndim
                shape[other] = -1
                rows = rows * along.reshape(shape)
            else:
                rows = np.tensordot(rows, along, axes=(other, 0))
        return rows.reshape(self.count, -1)

    def _outer(self, axis: int) -> np.ndarray:
        """Positions that hold the first or the last bin of the value's column."""
        column = self.asked.value
        assert column is not None
        codes = self.table.maps[axis]
        outer = np.zeros(self.table.shape[axis], bool)
        outer[codes[[0, column.base - 1]]] = True
        return outer

    def _mean_noise(self, width: np.ndarray, outer: np.ndarray) -> np.ndarray:
        """Noise of the released sums inside bins."""
        assert self.asked.value is not None
        noise = self.facts.sums[self.asked.value.name]
        return noise * width * np.where(outer, TAILS, math.sqrt(0.5))

    def _measured(self, numbers: Numbers) -> Numbers:
        """The numbers with the means that the run released and limits from their noise. The limits
        of all bins together are those of a sum at 95 %. Only for all rows: those of a group may lie
        elsewhere in their bins. Beyond the outer edges, stretches with few rows were left out: see
        `TAILS`."""
        assert self.asked.value is not None
        name = self.asked.value.name
        gap = numbers.high - numbers.low
        width = np.where(numbers.valid & np.isfinite(gap), gap, 0.0)
        outer = np.arange(len(width)) % max(self.asked.value.base - 1, 1) == 0
        noise = self._mean_noise(width, outer)
        reach = Z95 * noise * (np.linalg.norm(noise) / max(float(noise.sum()), 1e-300))
        reach /= np.maximum(self.facts.weight(name), 1.0)
        low = np.where(width > 0, numbers.middle - reach, numbers.low)
        high = np.where(width > 0, numbers.middle + reach, numbers.high)
        return Numbers(np.maximum(low, numbers.low), numbers.middle, np.minimum(high, numbers.high))

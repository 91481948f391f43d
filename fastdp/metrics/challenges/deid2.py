"""The scores of the 2020-21 de-identification challenge, sprint 3 (taxi), on full data.

k-marginal: a group is a combination (pickup, shift) that occurs in either table. In each group, the
L1 distance between the normalised counts of both tables is taken for every pair of the other eight
columns. It is 2 where one table has no row in the group. The distances are averaged over pairs,
then over groups, and the score is (2 - mean) / 2. Pickup-dropoff: the same for the counts of the
pair (pickup, dropoff), without groups. Higher-order conjunction: see `conjunction`. The overall
score is 1000 times the mean of the three.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from msgspec import Struct

from ..._core import score as kernel
from ..._core.score import recode
from ..._util.lazy import pa
from ..._util.threads import resolve
from ...errors import DataError
from ..compare import Comparison
from ..inputs import codes_of_pair, kernel_ready, numbers, with_columns
from ..metric import metric
from . import conjunction

PICKUP = "pickup_community_area"
DROPOFF = "dropoff_community_area"
SHIFT = "shift"
TAXI = "taxi_id"
CATEGORIES = ("company_id", DROPOFF, "payment_type")
BIN_WIDTHS = {"fare": 10, "tips": 10, "trip_total": 10, "trip_seconds": 200, "trip_miles": 10}
PAIRED = (*CATEGORIES, *BIN_WIDTHS)
COLUMNS = (PICKUP, SHIFT, *PAIRED)
BINS = 11
"""Codes of a number. Code 0: below 0. Codes 1 to 10: ten steps from 0 on, the last without upper
end."""


def score(
    truth: Any, synthetic: Any, *, threads: int | None = None, detail: bool = True
) -> dict[str, Any]:
    """The scores of `synthetic` against `truth`: sources with the challenge's columns, in values
    (not codes).

    Keys: k_marginal_score, pickup_dropoff_score, higher_order_conjunction in 0..1 (the last is None
    without taxi ids), and overall in 0..1000 (1000 times the mean of those that are not None). With
    `detail` also `areas`, `shifts`, `grid` [area][shift], which is the k-marginal score of each
    group (None if neither table has a row), and the means of `grid`: `by_area` and `by_shift`.
    """
    return prepared(truth, synthetic, resolve(threads)).score(detail)


class Prepared(Struct):
    """Two tables encoded once; every list of two entries holds (truth, synthetic).

    pickups, shifts: the values that codes stand for; columns: one-byte codes of the eight paired
    columns; taxi: dense numbers in ascending order of ids, or None.
    """

    pickups: list
    shifts: list
    pickup: Sequence[np.ndarray]
    shift: Sequence[np.ndarray]
    dropoff: Sequence[np.ndarray]
    columns: Sequence[list[np.ndarray]]
    sizes: np.ndarray
    taxi: Sequence[np.ndarray | None]
    threads: int

    @property
    def groups(self) -> int:
        return len(self.pickups) * len(self.shifts)

    def score(self, detail: bool = True, sample: np.ndarray | None = None) -> dict[str, Any]:
        """The scores of the synthetic table or, if `sample` is given, of the rows of the truth with
        these row numbers."""

        truth = self._side(0, None)
        other = self._side(1 if sample is None else 0, sample)
        starts = [kernel.group_rows(s["group"], s["columns"], self.groups) for s in (truth, other)]
        distances = kernel.grouped_pairs(*starts[0], *starts[1], self.sizes, self.threads)
        present = (np.diff(starts[0][0]) > 0) | (np.diff(starts[1][0]) > 0)
        means = distances.mean(axis=1)
        mean = float(means[present].mean()) if present.any() else 0.0
        out: dict[str, Any] = {"k_marginal_score": (2.0 - mean) / 2.0}
        out["pickup_dropoff_score"] = self._pickup_dropoff(truth, other)
        out["higher_order_conjunction"] = self._conjunction(truth, other)
        scored = [v for v in out.values() if v is not None]
        out["overall"] = 1000.0 * sum(scored) / len(scored)
        if detail:
            grid = np.where(present, (2.0 - means) / 2.0, np.nan).reshape(
                len(self.pickups), len(self.shifts)
            )
            cells = [[None if np.isnan(v) else float(v) for v in row] for row in grid]
            out |= {"areas": self.pickups, "shifts": self.shifts, "grid": cells}
            out |= {
                "by_area": [_mean(row) for row in grid],
                "by_shift": [_mean(row) for row in grid.T],
            }
        return out

    def _side(self, side: int, sample: np.ndarray | None) -> dict[str, Any]:
        """The columns of one table, of the sampled rows alone if there is a sample."""

        def cut(values: np.ndarray) -> np.ndarray:
            return values if sample is None else values[sample]

        taxi = self.taxi[side]
        pickup = cut(self.pickup[side])
        shift = cut(self.shift[side])
        group = pickup.astype(np.uint32)
        group *= np.uint32(max(1, len(self.shifts)))
        group += shift
        made = {
            "group": group,
            "pickup": pickup,
            "shift": shift,
            "dropoff": cut(self.dropoff[side]),
        }
        columns = [cut(c) for c in self.columns[side]]
        return {**made, "columns": columns, "taxi": None if taxi is None else cut(taxi)}

    def _pickup_dropoff(self, truth: dict, other: dict) -> float:
        size = 1 + max(
            (int(s["dropoff"].max()) for s in (truth, other) if len(s["dropoff"])), default=0
        )

        def cells(side: dict) -> np.ndarray:
            cell = side["pickup"].astype(np.uint32)
            cell *= np.uint32(size)
            cell += side["dropoff"]
            return cell

        return (
            2.0 - kernel.distance(cells(truth), cells(other), max(1, len(self.pickups)) * size)
        ) / 2.0

    def _conjunction(self, truth: dict, other: dict) -> float | None:
        if truth["taxi"] is None or other["taxi"] is None:
            return None
        truth_habits, other_habits = (
            conjunction.habits(
                side["taxi"], side["shift"], side["pickup"], self.shifts, self.pickups
            )
            for side in (truth, other)
        )
        return conjunction.score(truth_habits, other_habits, threads=self.threads)


def prepared(truth: Any, synthetic: Any, threads: int | None) -> Prepared:
    """Both tables of values, encoded. Codes are positions in the union of both tables' values, or
    official bins."""
    sources = {"truth": truth, "synthetic": synthetic}
    truth, synthetic = (
        with_columns(s, what, "deid2", COLUMNS, TAXI) for what, s in sources.items()
    )
    with ThreadPoolExecutor(threads) as pool:
        names = (PICKUP, SHIFT, *CATEGORIES)
        both = truth, synthetic
        coded = dict(zip(names, pool.map(lambda n: codes_of_pair(truth[n], synthetic[n]), names)))
        bins = list(pool.map(lambda n: [binned(t[n], BIN_WIDTHS[n], n) for t in both], BIN_WIDTHS))
        taxi = list(pool.map(lambda t: taxi_numbers(t) if TAXI in t.column_names else None, both))
    pairs = [
        *(_narrow(*coded[name][:2], name) for name in CATEGORIES),
        *((a, b, BINS) for a, b in bins),
    ]
    columns = [a for a, _, _ in pairs], [b for _, b, _ in pairs]
    sizes = np.array([size for _, _, size in pairs], np.int32)
    pickup = coded[PICKUP]
    shift = coded[SHIFT]
    return Prepared(
        pickups=pickup[2].to_pylist(),
        shifts=shift[2].to_pylist(),
        pickup=pickup[:2],
        shift=shift[:2],
        dropoff=coded[DROPOFF][:2],
        columns=columns,
        sizes=sizes,
        taxi=taxi,
        threads=resolve(threads),
    )


def binned(column: pa.ChunkedArray, step: int, name: str) -> np.ndarray:
    """Codes of (-inf, 0), [0, step), ... [9 step, inf): 0..10. Nulls and NaN count as below 0, like
    -1."""

    values = numbers(column)
    if values is None:
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise DataError(f"column {name!r}: this score needs numbers, got {column.type}")
        values = column.fill_null(-1).to_numpy()
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < 1 << 20 and high < 1 << 62:
            table = np.clip(np.arange(low, high + 1) // step + 1, 0, BINS - 1).astype(np.uint8)
            return recode(kernel_ready(values), low, table)
    with np.errstate(invalid="ignore"):
        scaled = np.floor(values / step) + 1.0
    return np.clip(np.nan_to_num(scaled, nan=0.0), 0, BINS - 1).astype(np.uint8)


def _narrow(a: np.ndarray, b: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Both arrays of codes in one byte, and the number of codes. With more than 256 codes, the
    values that occur only in `a` are merged into one code. So are those that occur only in `b`.
    This leaves every L1 distance as it was, since the counts of merged cells are zero in the other
    table."""
    size = 1 + max((int(c.max()) for c in (a, b) if len(c)), default=0)
    if size <= 256:
        return a.astype(np.uint8, copy=False), b.astype(np.uint8, copy=False), size
    seen = [np.bincount(c, minlength=size) > 0 for c in (a, b)]
    shared = seen[0] & seen[1]
    if shared.sum() > 254:
        raise DataError(
            f"column {name!r}: this score takes at most 254 categories; pass the column as codes"
        )
    table = np.full(size, 255, dtype=np.uint8)
    table[seen[0] & ~seen[1]] = 254
    table[shared] = np.arange(shared.sum())
    return table[a], table[b], 256


def taxi_numbers(table: pa.Table) -> np.ndarray:
    """Taxi of each row as a dense number in ascending order of ids."""
    column = table[TAXI]
    values = numbers(column)
    if values is not None and values.dtype.kind in "iu" and len(values):
        low = int(values.min())
        span = int(values.max()) - int(values.min()) + 1
        if span <= max(1 << 24, 4 * len(values)):
            index = values - low
            seen = np.zeros(span, dtype=bool)
            seen[index] = True
            return (np.cumsum(seen, dtype=np.uint32) - np.uint32(1)).take(index)
    return codes_of_pair(column, column.slice(0, 0))[0].astype(np.uint32)


def _mean(values: np.ndarray) -> float | None:
    seen = values[~np.isnan(values)]
    return float(seen.mean()) if len(seen) else None


def _has_columns(comparison: Comparison) -> bool:
    return comparison.has(COLUMNS)


def _prepared(comparison: Comparison) -> Prepared:
    def make() -> Prepared:
        truth, synthetic = comparison.values(COLUMNS)
        return prepared(truth, synthetic, comparison.threads)

    return comparison.once("deid2", make)


def _of_sample(comparison: Comparison, rows: np.ndarray) -> dict[str, Any]:
    return _prepared(comparison).score(detail=False, sample=rows)


@metric("deid2", applies=_has_columns, default="yes", of_sample=_of_sample, in_values=True, rank=10)
def of_tables(comparison: Comparison) -> dict[str, Any]:
    return _prepared(comparison).score()

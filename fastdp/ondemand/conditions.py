"""Conditions and designs as evidence: which codes rows may have, and within which numbers.

A condition is a value, a list of values, a range (low, high) with low <= value < high, or None for
null. A range that ends inside a bin takes its part of the bin's rows, and numbers are then drawn in
that part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from .._util.arrow import of_numpy
from .._util.lazy import pa
from ..answers.values import number_limits, select
from ..codec.code_values import stored_per_number
from ..codec.possible import compiled_constraints
from ..errors import UsageError, did_you_mean
from ..schema import Schema, dtypes
from ..schema.bins import BinColumn, bins_of, digits, on_grid
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.epoch import DAY_SECONDS
from .frames import Given
from .known_rows import Codes, Known, uniform_of
from .row_law import RowLaw

EQUAL = "equal"
"""A design of all values of a column, with equal shares."""


class Condition:
    """One condition on one column.

    `weights`: for each code of `column`, the part of its rows that match. Of a column of bins, rows
    then have one of `numbers`, or a number in `span`. `exact`: the codes and numbers alone decide
    whether a row matches; else written values are checked. `column` is None where the codes say
    nothing.
    """

    def __init__(self, schema: Schema, name: str, condition: Any, what: str = "where"):
        self.column: Column | None = None
        self.weights = np.ones(0)
        self.span: tuple[float, float] | None = None
        self.numbers: tuple[float, ...] = ()
        self.exact = True
        field = next((f for f in schema.fields.values() if name in (f.name, f.source)), None)
        if field is not None and not isinstance(field, Derived):
            self._of_column(schema, field, condition)  # type: ignore[arg-type]
        elif name in schema.columns:
            self._of_column(schema, schema.columns[name], condition)
        elif field is not None and field.calendar:
            self._of_times(field, condition)
        elif field is None:
            have = [f.source for f in schema.fields.values()]
            more = did_you_mean(name, have)
            if name == schema.user:
                more = ": it is the user column, whose ids have no meaning"
            raise UsageError(f"{what}: there is no column {name!r}{more}")

    @classmethod
    def of_code(cls, column: Any, code: int) -> Condition:
        """The rows that have one code of a column."""
        one = cls.__new__(cls)
        one.column = column
        one.span = None
        one.numbers = ()
        one.exact = True
        one.weights = (np.arange(column.size) == code).astype(float)
        return one

    def _of_column(self, schema: Schema, column: Column, condition: Any) -> None:
        """Weights of a column's codes; of bins, the numbers or the range that rows may have."""
        if column.binned and not isinstance(condition, tuple | range):
            several = isinstance(condition, list | set | frozenset | Sequence)
            several = several and not isinstance(condition, str | bytes)
            values = list(condition) if several else [condition]
            if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
                self._of_numbers(column, [float(v) for v in values])
                self._move_to_source(schema)
                return
        chosen = select(column, _as_texts(condition))
        self.column = column
        self.weights = chosen.part
        if column.binned and isinstance(condition, tuple | range):
            limits = (
                (condition.start, condition.stop) if isinstance(condition, range) else condition
            )
            self.span = number_limits(column, limits)
        self._move_to_source(schema)

    def _of_numbers(self, column: Column, values: list[float]) -> None:
        """Single numbers of a column of bins: each has its part of its bin, and is then written."""
        binned = column.in_bins
        assert binned is not None
        bins, _ = bins_of(binned)
        weights = np.zeros(column.size)
        for value in values:
            code = column.code_of(value)
            if code is None or code >= column.base:
                raise UsageError(
                    f"where, column {column.name!r}: {value!r} is outside its bins, "
                    f"{binned.edges[0]:g} to {binned.edges[-1]:g}"
                )
            width = float(bins.high[code] - bins.low[code]) + 1.0
            weights[code] += 1.0 if not math.isfinite(width) else 1.0 / max(width, 1.0)
        self.column = column
        self.weights = weights
        self.numbers = tuple(values)

    def _move_to_source(self, schema: Schema) -> None:
        """Of a derived column, make it a condition on the column that it follows from. If it follows from
        several, the codes say nothing, and written values are checked."""
        column = self.column
        if column is None or column.name in schema.modelled:
            return
        self.column = None
        weights = self.weights
        self.span = None
        self.numbers = ()
        self.exact = False
        for item in compiled_constraints(schema).derived:
            if item.column == column.name and len(item.sources) == 1:
                self.column = schema.columns[item.sources[0]]
                self.weights = weights[item.table]

    def _of_times(self, field: Derived, condition: Any) -> None:
        """Of a range of times, take the days that it touches. Written times are checked, and of other
        conditions they alone decide."""
        self.exact = False
        days = next((p for p in field.parts if p.part == "date"), None)
        if days is None or not isinstance(condition, tuple) or len(condition) != 2:
            return
        low, high = (_day(x, end) for x, end in zip(condition, (False, True)))
        first = int(days.code_values()[0].astype(np.int64))
        code = np.arange(days.size)
        inside = (code + first >= low) & (code + first < high) & (code < days.base)
        self.column = days
        self.weights = inside.astype(float)


def _as_texts(condition: Any) -> Any:
    """The condition with bytes, which binary columns have, as the texts that the schema lists."""
    if isinstance(condition, list | set | frozenset):
        return [_as_texts(value) for value in condition]
    if isinstance(condition, bytes | bytearray | memoryview):
        return bytes(condition).decode("utf-8", "surrogateescape")
    return condition


def _day(value: Any, end: bool) -> float:
    """The number of a date or time's day since 1970; for the end of a range, that of the first day
    after it."""
    if value is None:
        return math.inf if end else -math.inf
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        day = moment.date() if isinstance(moment, datetime) else moment
        whole = not isinstance(moment, datetime) or moment.time() == datetime.min.time()
        return (day - date(1970, 1, 1)).days + (0 if whole or not end else 1)
    except (ValueError, TypeError, AttributeError):
        raise UsageError(f"where: {value!r} is not a date or time; write 2026-03-31") from None


def conditioned(law: RowLaw, rows: int, where: Mapping[str, Any]) -> Given:
    """Rows of which only the conditions are known. UsageError if the model has no such rows."""
    made = Given(Known(rows))
    if not isinstance(where, Mapping):
        raise UsageError(f"where: expected a mapping from column to condition, got {where!r}")
    for name, condition in where.items():
        one = Condition(law.schema, name, condition)
        every = np.zeros(rows, np.int32)
        _add(made, every, [one])
        if one.column is not None and not _possible(law, [one]):
            raise UsageError(
                f"where, column {name!r}: no row of this run's model matches {condition!r}; choose another "
                "condition"
            )
    if made.known.likelihood and not _possible(
        law, [Condition(law.schema, name, condition) for name, condition in where.items()]
    ):
        raise UsageError(
            f"where: no row of this run's model has {', '.join(where)} as asked, all at once; each condition "
            "alone is possible"
        )
    return made


def add_design(
    law: RowLaw, made: Given, weights: Mapping[str, Mapping[Any, float] | Sequence[Any]], seed: int
) -> None:
    """Give each row its place in a design: for every column the stated shares of its values, as
    whole counts in random order, columns crossed."""
    if not isinstance(weights, Mapping):
        raise UsageError(
            f"weights: expected a mapping from column to the shares of its values, got {weights!r}"
        )
    rows = made.known.rows
    for name, shares in weights.items():
        if shares == EQUAL:
            shares = _equal_shares(law, name)
        elif not isinstance(shares, Mapping):
            several = isinstance(shares, list | tuple | set | frozenset)
            shares = dict.fromkeys(shares, 1.0) if several else {}
        parts = np.array([x if _is_number(x) else math.nan for x in shares.values()], float)
        if not len(parts) or not np.isfinite(parts).all() or (parts < 0).any() or parts.sum() <= 0:
            raise UsageError(
                f"weights, column {name!r}: expected values with shares >= 0, such as "
                "{'a': 1, 'b': 1}, or a list of values"
            )
        ends = np.rint(np.cumsum(parts) / parts.sum() * rows).astype(np.int64)
        place = np.searchsorted(ends, np.arange(rows), side="right")
        turn = np.argsort(uniform_of(seed, f"design {name}", made.known), kind="stable")
        ids = np.empty(rows, np.int32)
        ids[turn] = place
        kinds = [
            value if isinstance(value, Condition) else Condition(law.schema, name, value, "weights")
            for value in shares
        ]
        if any(kind.column is None for kind in kinds):
            raise UsageError(
                f"weights, column {name!r}: it is not a column of the model; use the columns that it "
                "is made from"
            )
        for value, kind, part in zip(shares, kinds, parts):
            if part > 0 and not _possible(law, [kind]):
                raise UsageError(
                    f"weights, column {name!r}: no row of this run's model has {value!r}"
                )
        _add(made, ids, kinds)


def _equal_shares(law: RowLaw, name: str) -> dict[Condition, float]:
    """Each value of a column that the model has, with equal shares; of numbers, each bin."""
    column = Condition(law.schema, name, [], "weights").column
    out: dict[Condition, float] = {}
    for code in range(0 if column is None else column.base):
        one = Condition.of_code(column, code)
        if _possible(law, [one]):
            out[one] = 1.0
    return out


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | np.number) and not isinstance(x, bool)


def _add(made: Given, ids: np.ndarray, kinds: Sequence[Condition]) -> None:
    """Make condition `kinds[ids[i]]` part of what is known of row i. All are on one column."""
    column = kinds[0].column
    if column is None:
        return
    made.known.multiply_rows(column.name, ids, np.stack([kind.weights for kind in kinds]))
    if any(kind.span is not None for kind in kinds):
        spans = np.array([kind.span or (-math.inf, math.inf) for kind in kinds])[ids]
        low, high = made.spans.get(column.name, (spans[:, 0], spans[:, 1]))
        made.spans[column.name] = (np.maximum(low, spans[:, 0]), np.minimum(high, spans[:, 1]))
    if any(kind.numbers for kind in kinds):
        made.listed[column.name] = (ids, [kind.numbers for kind in kinds])


def _possible(law: RowLaw, conditions: Sequence[Condition]) -> bool:
    """Whether the model has rows that match all conditions."""
    made = Given(Known(1))
    for one in conditions:
        _add(made, np.zeros(1, np.int32), [one])
    return bool(np.isfinite(law.log_probability(made.known)[0]))


def conditions_to_check(law: RowLaw, where: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions that codes do not decide: written values must be compared with them."""
    return {a: c for a, c in where.items() if not Condition(law.schema, a, c).exact}


def probability(law: RowLaw, where: Mapping[str, Any]) -> float:
    """The share of the model's rows that conditions select."""
    made = conditioned(law, 1, where)
    return float(np.exp(law.log_probability(made.known)[0]))


def pin_numbers(schema: Schema, given: Given, codes: Codes, seed: int) -> None:
    """Fix the numbers that conditions ask for, in bins that were drawn. In a bin that reaches beyond the
    range of its row they are drawn from the range; of listed numbers, one in the bin is taken."""
    for name, (low, high) in given.spans.items():
        column = schema.columns[name].in_bins
        assert column is not None
        uniform = uniform_of(seed, f"inside {name}", given.known)
        numbers, beyond = _numbers_in_range(column, codes[name], low, high, uniform)
        _pin(given, column, numbers, beyond)
    for name, (ids, kinds) in given.listed.items():
        column = schema.columns[name].in_bins
        assert column is not None
        numbers = np.full(given.known.rows, np.nan)
        uniform = uniform_of(seed, f"listed {name}", given.known)
        for kind, values in enumerate(kinds):
            own = np.array([column.code_of(v) for v in values])
            for code in np.unique(own):
                rows = np.flatnonzero((ids == kind) & (codes[name] == code))
                among = np.array(values)[own == code]
                numbers[rows] = among[(uniform[rows] * len(among)).astype(int)]
        _pin(given, column, numbers, ~np.isnan(numbers))


def _numbers_in_range(
    column: BinColumn, codes: np.ndarray, low: np.ndarray, high: np.ndarray, uniform: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(a number of each row's bin that is in its range, whether the bin reaches beyond the
    range)."""
    bins, _ = bins_of(column)
    step = 1 / bins.unit if on_grid(column) else 0.0
    least, most = bins.low[codes] / bins.unit, bins.high[codes] / bins.unit
    part = (codes < column.base) & ((low > least) | (high <= most))
    from_ = np.maximum(low, least)
    to = np.minimum(high, most + step)
    if step:
        unit = bins.unit
        first = np.ceil(from_ * unit - 1e-9)
        last = np.ceil(to * unit - 1e-9) - 1
        finite = np.isfinite(last - first)
        count = np.where(finite, np.maximum(last - first + 1, 1), 1)
        numbers = (first + np.floor(uniform * count)) / unit
    else:
        finite = np.isfinite(to - from_)
        numbers = np.where(finite, from_ + uniform * (np.where(finite, to, 0) - from_), from_)
        numbers = np.where(finite, np.minimum(numbers, np.nextafter(to, -np.inf)), numbers)
    open_ = part & ~finite
    if open_.any():  # beyond the last edge: the tail's mean above the lower limit
        mean = np.abs(bins.mean[codes]) / bins.unit
        drawn = from_ - np.log1p(-uniform) * np.where(mean > 0, mean, 1.0)
        drawn = np.where(np.isfinite(from_), drawn, to + np.log1p(-uniform) * np.maximum(mean, 1.0))
        grid = 10.0 ** digits(column) if step else 0.0
        drawn = np.floor(drawn * grid) / grid if grid else drawn
        numbers = np.where(open_, drawn, numbers)
    return numbers, part


def _pin(given: Given, column: BinColumn, numbers: np.ndarray, where: np.ndarray) -> None:
    """Fix the numbers of the rows `where`: for the decoder, and as values that are written."""
    if not where.any():
        return
    day = DAY_SECONDS if column.temporal and dtypes.family(column.dtype) == "date" else 1
    given.pinned[column.name] = np.where(where, numbers * day, np.nan)
    plain = np.where(where, numbers, 0.0)
    if column.temporal:
        stored = np.rint(plain * day * stored_per_number(column)).astype(np.int64)
        kind = dtypes.arrow(column.dtype)
        width = pa.int32() if column.dtype == "date32" else pa.int64()
        values = pa.array(stored).cast(width).cast(kind)
    else:
        values = of_numpy(np.rint(plain).astype(np.int64) if column.whole else plain)
    given.values[column.source] = (values, where)

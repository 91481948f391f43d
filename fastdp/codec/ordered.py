"""Constraints of order between columns: which pairs of codes are possible, and how values are drawn
in order.

Every code of an ordered column stands for the numbers from `low` to `high` that may be written for
it. Two codes are possible together if some of their numbers are in order. When rows are decoded,
numbers are first drawn bin by bin, independently. Rows that came out of order are drawn again, up
to `TRIES` times, each time from another random stream. So the distribution is that of independent
draws, conditioned on being in order. Rows that are still out of order get numbers from the ends of
their bins.
"""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from ..domain import Clique, Columns
from ..errors import SchemaError
from ..schema import Schema, dtypes
from ..schema.bins import bins_of, on_grid
from ..schema.constraints import after_sources, ordered_columns
from ..schema.derived import Derived
from ..schema.epoch import DAY_SECONDS
from ..schema.expression import column_values

TRIES = 16
MAX_CODES = 1 << 22
WIDEST = 2.0**52
"""Ends of bins beyond this size are limits of a type: no number that is written is derived from
them."""
_ALMOST_ONE = math.nextafter(1.0, 0.0)


class Item(Struct, frozen=True, eq=False):
    """What one name of an `order` constraint stands for: a column, or a timestamp of several code
    columns.

    `low`, `high`: arrays over the codes of `columns`, the least and the largest number written for
    them; nan where a null is written. `step`: the step of the grid of written numbers, 0 if there
    is none; `fixed`: each code is one number; `whole_span`: every number of the grid between low
    and high may be written.
    """

    name: str
    columns: Clique
    low: np.ndarray
    high: np.ndarray
    kind: str
    step: float = 0.0
    fixed: bool = False
    whole_span: bool = True

    def ends(self, codes: Columns) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest number of each row, by its codes."""
        at = tuple(codes[c] for c in self.columns)
        return self.low[at], self.high[at]


class OrderGroup(Struct, frozen=True, eq=False):
    """Items that `order` constraints connect, sorted so that each follows the items it is never
    below. `before[i]`: {j: strict} for all items j ordered before item i, directly or through
    others; strict: they may not be equal."""

    items: tuple[Item, ...]
    before: tuple[Mapping[int, bool], ...]
    numbers: tuple[int, ...]

    def pairs(self, most: int) -> Iterator[tuple[Clique, int, int]]:
        """(code columns, earlier item, later item) of every pair in order."""
        for b, earlier in enumerate(self.before):
            for a in earlier:
                first = self.items[a]
                second = self.items[b]
                if first.low.size * second.low.size > most:
                    size = (
                        f"{first.low.size * second.low.size:,} combinations, the limit is {most:,}"
                    )
                    how = "use fewer values or bins in one of them (for times, order the dates)"
                    raise SchemaError(f"order of {first.name} and {second.name}: {size}; {how}")
                yield (*first.columns, *second.columns), a, b

    def impossible(self, a: int, b: int) -> np.ndarray:
        """bool over the codes of items a and b: True if no two of their numbers are in order. A
        null is in order with everything."""
        low, high = self.items[a].low, self.items[b].high
        low = low.reshape(low.shape + (1,) * high.ndim)
        return low >= high if self.before[b][a] else low > high

    def broken(self, values: list[np.ndarray]) -> np.ndarray:
        """bool per row: whether some pair is out of order; nan (null) never is."""
        out = np.zeros(len(values[0]), bool)
        for b, earlier in enumerate(self.before):
            for a, strict in earlier.items():
                out |= values[a] >= values[b] if strict else values[a] > values[b]
        return out

    def settle(
        self,
        codes: Columns,
        draw: Callable[[Item, int], np.ndarray],
        pinned: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        """The numbers of all items that are not `fixed`, float64 with nan for nulls, in order in
        every row. draw(item, attempt): numbers of the item for all rows, as they would be written.
        pinned: numbers of items that stay as they are, nan where there are none.
        """
        ends = []
        for item in self.items:
            low, high = item.ends(codes)
            pins = (pinned or {}).get(item.name)
            if pins is not None:
                low = np.where(np.isnan(pins), low, pins)
                high = np.where(np.isnan(pins), high, pins)
            ends.append((low, high))

        def drawn(attempt: int) -> list[np.ndarray]:
            """The items' numbers, out of order yet: fixed and pinned ones, and draws for the others."""
            values = []
            for item, (low, _) in zip(self.items, ends):
                value = low
                if not item.fixed:
                    value = np.where(np.isnan(low), np.nan, draw(item, attempt))
                pins = (pinned or {}).get(item.name)
                if pins is not None:
                    value = np.where(np.isnan(pins), value, pins)
                values.append(value)
            return values

        values = drawn(0)
        broken = self.broken(values)
        for attempt in range(1, TRIES + 1):
            if not broken.any():
                break
            values = [np.where(broken, new, old) for new, old in zip(drawn(attempt), values)]
            broken = self.broken(values)
        if broken.any():
            rows = np.flatnonzero(broken)
            last = self._ends_in_order([(low[rows], high[rows]) for low, high in ends])
            for value, new in zip(values, last):
                value[rows] = new
        return {item.name: v for item, v in zip(self.items, values) if not item.fixed}

    def _ends_in_order(self, ends: list[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
        """Numbers in order, made from the ends of the bins. With two items: the lower end of the
        first and the upper end of the second. With more: each item gets the largest lower end among
        itself and all items before it."""
        finite = np.array([np.where(np.abs(e) < WIDEST, e, np.nan) for pair in ends for e in pair])
        with np.errstate(all="ignore"):
            least, most = np.fmin.reduce(finite), np.fmax.reduce(finite)
        lows = []
        for item, (low, _) in zip(self.items, ends):
            lows.append(np.where(np.isneginf(low), -_ceil(-least, item.step) - 1, low))
        if len(self.items) == 2:
            item = self.items[1]
            low, high = ends[1]
            return [
                lows[0],
                np.where(np.isposinf(high), _ceil(np.fmax(low, most), item.step) + 1, high),
            ]
        out = []
        for b, earlier in enumerate(self.before):
            highest = lows[b]
            for a in earlier:
                highest = np.where(np.isnan(lows[b]), np.nan, np.fmax(highest, lows[a]))
            out.append(highest)
        return out


def order_groups(schema: Schema) -> tuple[OrderGroup, ...]:
    """The `order` constraints of a schema as groups of connected items, closed under
    transitivity."""
    strict: dict[tuple[str, str], bool] = {}
    numbers: dict[str, set[int]] = {}
    for number, constraint in enumerate(schema.constraints):
        names = constraint.order
        for i, a in enumerate(names):
            numbers.setdefault(a, set()).add(number)
            for b in names[i + 1 :]:
                strict[a, b] = strict.get((a, b), False) or constraint.strict
    if not strict:
        return ()
    ranked = after_sources({n: [a for a, b in strict if b == n] for n in numbers}, "are ordered")
    for c in ranked:
        for a in ranked:
            for b in ranked:
                if (a, c) in strict and (c, b) in strict:
                    strict[a, b] = strict.get((a, b), False) or strict[a, c] or strict[c, b]
    groups = []
    left = set(ranked)
    while left:
        group = {next(n for n in ranked if n in left)}
        grown = True
        while grown:
            more = {x for pair in strict for x in pair if group & set(pair)} - group
            group = group | more
            grown = bool(more)
        left -= group
        members = [n for n in ranked if n in group]
        items = tuple(ordered_item(schema, n) for n in members)
        before = tuple(
            {i: strict[a, b] for i, a in enumerate(members) if (a, b) in strict} for b in members
        )
        constraint_numbers = tuple(sorted({k for n in members for k in numbers[n]}))
        groups.append(_checked(OrderGroup(items, before, constraint_numbers)))
    return tuple(groups)


def _checked(group: OrderGroup) -> OrderGroup:
    """The group. SchemaError if its items cannot be compared, or if possible pairs of codes do not
    guarantee that all items can be in order at once."""
    names = ", ".join(item.name for item in group.items)
    if len({item.kind for item in group.items}) > 1:
        raise SchemaError(
            f"order of {names}: numbers cannot be compared with times, nor times of two "
            "time zones with each other"
        )
    columns = [c for item in group.items for c in item.columns]
    if len(set(columns)) != len(columns):
        raise SchemaError(
            f"order of {names}: a timestamp cannot be ordered against one of its own parts; "
            "name one of them"
        )
    free = [item for item in group.items if not item.fixed]
    if len(group.items) > 2 and free:
        steps = {item.step for item in free}
        ends = [item.low[np.isfinite(item.low)] for item in group.items]
        (step,) = steps if len(steps) == 1 else (math.nan,)
        aligned = not math.isnan(step) and all((_ceil(e, step) == e).all() for e in ends)
        strict = any(s for earlier in group.before for s in earlier.values())
        if strict or not aligned or not all(item.whole_span for item in free):
            need = (
                "the same grid (digits, step), bins that contain all their numbers, and strict ="
                " false"
            )
            raise SchemaError(
                f"order of {names}: three or more columns drawn within bins need {need}"
            )
    return group


def ordered_item(schema: Schema, name: str) -> Item:
    """What a name in `order` stands for."""
    columns = ordered_columns(schema, name)
    field = schema.fields.get(name)
    if isinstance(field, Derived) and field.is_moment:
        return _timestamp(field, columns)
    column = schema.columns[name]
    if column.in_bins is not None:
        bins, without = bins_of(column.in_bins)
        if bins.base is not None:
            raise SchemaError(
                f"order: column {name!r} has bins beyond 2^53, where floating point cannot "
                "order numbers exactly"
            )
        low, high = bins.low / bins.unit, bins.high / bins.unit
        step = 1 / bins.unit if on_grid(column.in_bins) else 0.0
        kind = "number"
        if column.temporal:
            step = float(DAY_SECONDS if dtypes.family(column.dtype) == "date" else 1)
            low, high = low * step, high * step
            if getattr(dtypes.arrow(column.dtype), "tz", None) is None:
                kind = "time None"
            else:
                kind = "time in UTC"
        low[without] = high[without] = np.nan
        return Item(
            name=name,
            columns=columns,
            low=low,
            high=high,
            kind=kind,
            step=step,
            fixed=bool(np.array_equal(low, high, equal_nan=True)),
        )
    values = column_values(schema, name)
    kind = "number"
    if values.dtype.kind == "M":
        owner = schema.fields.get(getattr(column, "of", name), column)
        zone = getattr(dtypes.arrow(owner.dtype), "tz", None)
        kind = f"time {zone}"
        values = values.astype("datetime64[us]").astype(np.int64) / 1e6
    elif values.dtype.kind not in "if":
        raise SchemaError(
            f"order: column {name!r} holds texts, which have no public order; list the "
            "allowed combinations instead"
        )
    numbers = np.full(column.size, np.nan)
    numbers[: column.base] = values
    return Item(name, columns, numbers, numbers, kind, fixed=True)


def _timestamp(field: Derived, columns: Clique) -> Item:
    """The item of a time of several code columns, with the ends of each combination of codes."""
    sizes = [p.size for p in field.parts]
    if math.prod(sizes) > MAX_CODES:
        raise SchemaError(
            f"order: {field.name!r} has {math.prod(sizes):,} combinations of parts; order "
            "its date instead"
        )
    codes = np.indices(sizes).reshape(len(sizes), -1)
    none = np.any([c >= p.base for c, p in zip(codes, field.parts)], axis=0)
    inside = [np.where(c < p.base, c, 0) for c, p in zip(codes, field.parts)]
    day = dtypes.family(field.dtype) == "date"

    def end(u: float) -> np.ndarray:
        seconds = field.join(inside, lambda _: np.full(codes.shape[1], u)).astype(np.float64)
        return np.where(
            none, np.nan, seconds // DAY_SECONDS * DAY_SECONDS if day else seconds
        ).reshape(sizes)

    low = end(0.0)
    high = end(_ALMOST_ONE)
    zone = getattr(dtypes.arrow(field.dtype), "tz", None)
    step = float(DAY_SECONDS if day else field.moment_step)
    fixed = bool(np.array_equal(low, high, equal_nan=True))
    return Item(
        name=field.name,
        columns=columns,
        low=low,
        high=high,
        kind=f"time {zone}",
        step=step,
        fixed=fixed,
        whole_span=field.one_interval,
    )


def _ceil(values: np.ndarray, step: float) -> np.ndarray:
    """The smallest numbers of the grid that are at least `values`; as k / unit where step = 1 /
    unit < 1."""
    if not step:
        return values
    unit = round(1 / step)
    return np.ceil(values * unit) / unit if step < 1 else np.ceil(values / step) * step

"""A schema's constraints in codes: masks of impossible combinations, and the columns that follow
from others.

All of it is public and exact: a combination of codes is impossible if no row that is written for it
satisfies the constraint. No private row is read here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce

import numpy as np
from msgspec import Struct

from ..domain import Clique
from ..errors import SchemaError
from ..schema import Schema
from ..schema.columns import Column
from ..schema.constraints import (
    Constraint,
    after_sources,
    code_of,
    columns_of,
    is_computed,
    sources_of,
)
from ..schema.derived import Derived
from ..schema.expression import Expression, column_values
from .code_values import drawn_overflow
from .ordered import OrderGroup, order_groups

MAX_MASK = 50_000_000
"""The most cells of a mask over combinations of codes: 50 MB, a byte each."""


class Follows(Struct, frozen=True, eq=False):
    """`table[codes of sources]` is the code of `column`; `numbers`, of a column of bins, the number
    in its bin (nan if nothing follows)."""

    column: str
    sources: Clique
    table: np.ndarray
    numbers: np.ndarray | None = None

    def codes(self, codes: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.table[tuple(codes[s] for s in self.sources)]

    def written(self, codes: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """The numbers to write where they are not those of a code; None of columns without bins."""
        return None if self.numbers is None else self.numbers[tuple(codes[s] for s in self.sources)]


class Mask(Struct, frozen=True, eq=False):
    """`impossible[codes of clique]`: bool, and the numbers (from 0) of the constraints that rule
    these out. No numbers: the parts of one timestamp rule each other out, or a code is never
    written."""

    clique: Clique
    impossible: np.ndarray
    numbers: tuple[int, ...] = ()


class CompiledConstraints:
    """What a schema's constraints say. `masks`: over modelled columns only. `follows`: one entry
    for every column that follows from others, modelled or not; each stands after the columns that
    it follows from."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self.follows, self._follows_number = self._following()
        self.orders: tuple[OrderGroup, ...] = order_groups(schema)
        self.masks: tuple[Mask, ...] = tuple(self._masks())

    @cached_property
    def impossible(self) -> dict[Clique, np.ndarray]:
        """One mask for each set of columns: True if any constraint rules the combination out."""
        return merged_masks([(m.clique, m.impossible) for m in self.masks])

    @cached_property
    def computed(self) -> dict[str, Expression]:
        """The numbers that are computed from a row's other values when it is written, by column."""
        own = [c for c in self.schema.constraints if is_computed(self.schema, c)]
        return {c.column or "": Expression(self.schema, c.follows or "") for c in own}

    @cached_property
    def derived(self) -> tuple[Follows, ...]:
        """The columns that are not part of the model."""
        return tuple(f for f in self.follows if f.column not in self.schema.modelled)

    def complete(self, codes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The codes, and those of every derived column all of whose source columns are in
        `codes`."""
        out = dict(codes)
        for item in self.derived:
            if item.column not in out and all(s in out for s in item.sources):
                out[item.column] = item.codes(out)
        return out

    def _following(self) -> tuple[tuple[Follows, ...], dict[str, int]]:
        made = {}
        number_of = {}
        for number, constraint in enumerate(self.schema.constraints):
            if constraint.column is not None and not is_computed(self.schema, constraint):
                with _blame(number, constraint):
                    made[constraint.column] = _follows(self.schema, constraint)
                number_of[constraint.column] = number
        turn = after_sources({name: item.sources for name, item in made.items()})
        return tuple(made[name] for name in turn), number_of

    def _masks(self) -> list[Mask]:
        """Cells that no row can have: by each constraint, and codes that are never written."""
        schema = self.schema
        out = []
        for number, constraint in enumerate(schema.constraints):
            if constraint.column is None and not constraint.order:
                with _blame(number, constraint):
                    mask = impossible(schema, constraint)
                    out.append(Mask(columns_of(schema, constraint), mask, (number,)))
        for group in self.orders:
            out += [
                Mask(c, group.impossible(a, b), group.numbers) for c, a, b in group.pairs(MAX_MASK)
            ]
        for item in self.follows:
            if item.column in schema.modelled:
                clique = (*item.sources, item.column)
                _check_size(schema, clique)
                back = schema.columns[item.column].read_back()
                mask = back != back[item.table][..., None]
                out.append(Mask(clique, mask, (self._follows_number[item.column],)))
        named = {c for m in out for c in m.clique} | {s for f in self.follows for s in f.sources}
        named &= set(schema.modelled)
        out += [m for name in sorted(named) for m in _never_written(schema.columns[name])]
        sources = {s for f in self.follows if f.column in schema.modelled for s in f.sources}
        for field in schema.fields.values():
            if isinstance(field, Derived) and field.output == "value":
                parts = {p.name for p in field.parts}
                if named & parts:
                    out += _parts_masks(schema, field, whole=bool(sources & parts))
                else:
                    out += _outside_mask(field)
        return [m for m in out if m.impossible.any()]


def compiled_constraints(schema: Schema) -> CompiledConstraints:
    """The `CompiledConstraints` of a schema; computed once per schema."""
    cache = schema.__dict__
    if "_compiled_constraints" not in cache:
        cache["_compiled_constraints"] = CompiledConstraints(schema)
    return cache["_compiled_constraints"]


def impossible(schema: Schema, constraint: Constraint) -> np.ndarray:
    """bool over the codes of the constraint's columns, for a constraint that lists, divides or
    requires: True where it rules a combination out."""
    names = columns_of(schema, constraint)
    _check_size(schema, names)
    columns = [schema.columns[name] for name in names]
    mask = np.zeros(schema.domain.shape(names), bool)
    if constraint.divide is not None:
        general, detailed = (_whole_numbers(schema, name) for name in names)
        fits = general[:, None] == detailed[None, :] // constraint.divide
        mask[: general.size, : detailed.size] = ~fits & fits.any(axis=0)
    elif constraint.require is not None:
        values = Expression(schema, constraint.require).values()
        if values.dtype != bool:
            raise SchemaError("require: expected an expression that is true or false")
        mask[tuple(slice(c.base) for c in columns)] = ~values
    else:
        for combination in constraint.allowed or constraint.forbidden or ():
            listed = [value if isinstance(value, tuple) else (value,) for value in combination]
            codes = [[code_of(c, v) for v in values] for c, values in zip(columns, listed)]
            mask[np.ix_(*codes)] = True
        if constraint.allowed is not None:
            for axis, column in enumerate(columns):
                np.moveaxis(mask, axis, 0)[column.base :] = True
            mask = ~mask
    return mask[np.ix_(*(c.read_back() for c in columns))]


def merged_masks(masks: Sequence[tuple[Clique, np.ndarray]]) -> dict[Clique, np.ndarray]:
    """One mask per set of columns: True if any of the given masks is."""
    out: dict[Clique, np.ndarray] = {}
    for clique, mask in masks:
        same = next((c for c in out if set(c) == set(clique)), None)
        if same is None:
            out[clique] = mask
        else:
            out[same] = out[same] | mask.transpose([clique.index(a) for a in same])
    return out


@contextmanager
def _blame(number: int, constraint: Constraint) -> Iterator[None]:
    """A context that puts the constraint's number and text before the message of an error raised in
    it."""
    try:
        yield
    except SchemaError as error:
        raise SchemaError(f"constraint {number + 1} ({constraint.text}): {error}") from None


def _check_size(schema: Schema, names: Clique) -> None:
    if (cells := schema.domain.cells(names)) > MAX_MASK:
        raise SchemaError(
            f"{cells:,} combinations of {', '.join(names)}; the limit is {MAX_MASK:,}: "
            "use fewer columns or coarser bins"
        )


def _whole_numbers(schema: Schema, name: str) -> np.ndarray:
    values = column_values(schema, name)
    if values.dtype.kind != "i":
        raise SchemaError(f"column {name!r}: 'divide' needs a column of whole numbers")
    return values


def _follows(schema: Schema, constraint: Constraint) -> Follows:
    """The code of the derived column for each combination of its sources' codes."""
    sources = sources_of(schema, constraint)
    _check_size(schema, sources)
    target = schema.columns[constraint.column or ""]
    columns = [schema.columns[s] for s in sources]
    table = np.full(schema.domain.shape(sources), -1, np.int64)
    numbers = np.full(table.shape, np.nan)
    if constraint.follows is not None:
        values = Expression(schema, constraint.follows).values()
        distinct, at = np.unique(values, return_inverse=True)
        codes = np.array([_code(target, v) for v in distinct], np.int64)
        own = tuple(slice(c.base) for c in columns)
        table[own] = codes[at].reshape(values.shape)
        if target.binned:
            numbers[own] = values
    else:
        for row in constraint.table or ():
            place = tuple(code_of(c, v) for c, v in zip(columns, row))
            table[place] = code_of(target, row[-1])
            if target.binned:
                numbers[place] = _number(target, row[-1])
    for axis, column in enumerate(columns):  # a code that no row is written with needs no result
        if (never := drawn_overflow(column)) is not None:
            np.moveaxis(table, axis, 0)[never] = 0
    missing = target.null_code
    stands_in = not target.binned and target.writes_overflow
    if missing is None and target.overflow_code is not None and stands_in:
        missing = target.overflow_code
    if missing is None and (table < 0).any():
        shown = ", ".join(
            f"{c.name} = {c.labels()[i]}" for c, i in zip(columns, np.argwhere(table < 0)[0])
        )
        raise SchemaError(
            f"column {target.name!r}: no value is defined for {shown}, and the column has no "
            "code for a missing value; set null = 'code' in it, or null = 'drop' and "
            "overflow = 'drop' in the columns that it follows from"
        )
    table[table < 0] = -1 if missing is None else missing
    back = np.ix_(*(c.read_back() for c in columns))
    exact = numbers[back] if target.binned else None
    return Follows(target.name, sources, table[back].astype(target.code_dtype), exact)


def _number(target: Column, value: object) -> float:
    if target.temporal or isinstance(value, str | bool):
        raise SchemaError(
            f"column {target.name!r}: expected a number as its computed value, got {value!r}"
        )
    return float(value)  # type: ignore[arg-type]


def _code(target: Column, value: np.generic) -> int:
    """The code of a computed value, -1 if it is not in the column's domain."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and plain % 1 == 0:
        plain = int(plain)
    code = target.code_of(plain if isinstance(plain, int | float | str | bool) else str(plain))
    return -1 if code is None else code


def _never_written(column: Column) -> list[Mask]:
    """A mask that rules out the code of values outside the domain, if it would be written as a
    value of the domain drawn at random. Otherwise there is none."""
    overflow = drawn_overflow(column)
    return [] if overflow is None else [Mask((column.name,), np.arange(column.size) == overflow)]


def _outside_mask(field: Derived) -> list[Mask]:
    """A mask of combinations of parts outside a field's span, as months after its last day. Rows of
    the model that had them would be written as other times, at random over the whole span."""
    outside = field.outside()
    if outside is None:
        return []
    parts, beyond = outside
    mask = np.zeros([part.size for part in parts], bool)
    mask[tuple(slice(part.base) for part in parts)] = beyond
    return [Mask(tuple(part.name for part in parts), mask)]


def _parts_masks(schema: Schema, field: Derived, whole: bool) -> list[Mask]:
    """Masks of the combinations of a derived field's parts that no value has. Without these
    combinations, what is written reads back as the same codes. `whole`: also rules out combinations
    of which only some parts are null, since they would be written as null."""
    parts = list(field.parts) if whole else field.tied_parts()
    clique = tuple(p.name for p in parts)
    if len(parts) < 2:
        return []
    _check_size(schema, clique)
    mask = np.zeros([p.size for p in parts], bool)
    if whole:
        places = np.ix_(*(np.arange(p.size) for p in parts))
        beyond = [place >= p.base for place, p in zip(places, parts)]
        mask = reduce(np.logical_or, beyond) & ~reduce(np.logical_and, beyond)
    own = tuple(slice(p.base) for p in parts)
    mask[own] = ~field.possible_parts(parts)
    return [Mask(clique, mask)]

"""Public knowledge about which combinations of values can occur, in the words of a recipe.

Nothing here looks at data: code books say that the general code of a birthplace is its detailed code without
the last two digits, that a city lies in one state. What comes out are masks over codes, True where a
combination is impossible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ...domain import Clique
from ...errors import UsageError, did_you_mean
from ...measurement import Measurement

if TYPE_CHECKING:
    from ...schema import Schema
    from ...schema.columns import Column

MAX_MASK = 50_000_000

Value = int | float | str | bool


class Constraint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Valid combinations of `columns`, one of: `allowed` (the only ones), `forbidden` (all but these), or
    `divide`, for a pair (general, detailed) of whole numbers with general = floor(detailed / divide) where
    the code book has that general value. Nulls and the code of values outside the domain combine with
    everything."""

    columns: tuple[str, ...]
    allowed: tuple[tuple[Value, ...], ...] | None = None
    forbidden: tuple[tuple[Value, ...], ...] | None = None
    divide: int | None = None

    def __post_init__(self):
        if sum(x is not None for x in (self.allowed, self.forbidden, self.divide)) != 1:
            raise ValueError("give one of allowed, forbidden, divide")
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ValueError("columns: name at least one, each once")
        if self.divide is not None and (len(self.columns) != 2 or self.divide < 1):
            raise ValueError("divide: a number >= 1, for two columns (general, detailed)")
        for combination in (*(self.allowed or ()), *(self.forbidden or ())):
            if len(combination) != len(self.columns):
                raise ValueError("each combination has one value per column")

    def impossible(self, schema: Schema) -> np.ndarray:
        """bool over the columns' codes; UsageError where a value is not in its column's public domain."""
        columns = [column_of(schema, name, "constraints") for name in self.columns]
        shape = schema.domain.shape(self.columns)
        if schema.domain.cells(self.columns) > MAX_MASK:
            raise UsageError(f"constraint on {self.columns}: more than {MAX_MASK:,} combinations")
        if self.divide is not None:
            general, detailed = (_numbers(c) for c in columns)
            mask = np.zeros(shape, bool)
            fits = general[:, None] == detailed[None, :] // self.divide
            mask[: general.size, : detailed.size] = ~fits & fits.any(axis=0)
            return mask
        listed = np.zeros(shape, bool)
        for combination in self.allowed or self.forbidden or ():
            listed[tuple(code_of(c, v) for c, v in zip(columns, combination))] = True
        if self.forbidden is not None:
            return listed
        for axis, column in enumerate(columns):
            beyond = np.moveaxis(listed, axis, 0)
            beyond[column.base :] = True
        return ~listed


class Region(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column whose values lie in one of several public groups, the table being about one group only: which
    one is inferred from the noisy counts. `groups`: name -> values; `always`: values that occur in any group
    (and nulls always may)."""

    column: str
    groups: dict[str, tuple[Value, ...]]
    always: tuple[Value, ...] = ()

    def __post_init__(self):
        if not self.groups or not all(self.groups.values()):
            raise ValueError("groups: at least one, each with values")

    def infer(self, schema: Schema, measured: Measurement) -> tuple[str, np.ndarray]:
        """(the group whose noisy total stands out most, in its standard errors; bool per code: outside of
        it)."""
        column = column_of(schema, self.column, "regions")
        codes = {name: [code_of(column, v) for v in values] for name, values in self.groups.items()}

        def standing(name: str) -> float:
            state_codes = codes[name]
            return float(measured.values[state_codes].sum() / np.sqrt(measured.variances[state_codes].sum()))

        state = max(codes, key=standing)
        outside = np.ones(schema.domain[self.column], bool)
        outside[codes[state]] = False
        outside[[code_of(column, v) for v in self.always]] = False
        outside[column.base :] = False
        return state, outside


def column_of(schema: Schema, name: str, field: str) -> Column:
    """The code column, or UsageError that names the recipe's field."""
    if name not in schema.columns:
        raise UsageError(
            f"tworound, field {field!r}: the schema has no column {name!r}"
            f"{did_you_mean(name, schema.columns)}"
        )
    return schema.columns[name]


def code_of(column: Column, value: Any) -> int:
    code = column.code_of(value)
    if code is None:
        raise UsageError(f"column {column.name!r}: {value!r} is not in its public domain")
    return code


def merged_masks(masks: list[tuple[Clique, np.ndarray]]) -> dict[Clique, np.ndarray]:
    """One mask per set of columns: impossible where any constraint says so."""
    out: dict[Clique, np.ndarray] = {}
    for clique, mask in masks:
        same = next((c for c in out if set(c) == set(clique)), None)
        if same is None:
            out[clique] = mask
        else:
            out[same] = out[same] | mask.transpose([clique.index(a) for a in same])
    return out


def _numbers(column: Column) -> np.ndarray:
    """The whole number behind each code of a column's own domain."""
    values = getattr(column, "values", None)
    if values is None:
        first = getattr(column, "first", getattr(column, "min", None))
        if column.kind not in ("integer", "part") or first is None:
            raise UsageError(f"column {column.name!r}: 'divide' is for whole numbers")
        return np.arange(column.base) + int(first)
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        raise UsageError(f"column {column.name!r}: 'divide' is for whole numbers")
    return np.array(values, np.int64)

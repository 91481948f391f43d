"""Regions of a recipe: public groups of a column's values (such as the cities of each state), of
which the table holds only one. Which one is inferred from noisy counts."""

import msgspec
import numpy as np

from ...errors import UsageError, did_you_mean
from ...measurement import Measurement
from ...schema import Schema
from ...schema.columns import Column
from ...schema.constraints import Value, code_of


class Region(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column whose values in this table all lie in one of several public groups, which is
    inferred from noisy counts. `groups`: name -> values; `always`: values that may occur with any
    group (as nulls may)."""

    column: str
    groups: dict[str, tuple[Value, ...]]
    always: tuple[Value, ...] = ()

    def __post_init__(self):
        if not self.groups or not all(self.groups.values()):
            raise ValueError("groups: expected at least one, each with values")

    def infer(self, schema: Schema, measured: Measurement) -> tuple[str, np.ndarray]:
        """(name of the group whose noisy total is the most standard errors above 0, bool per code:
        whether it lies outside that group)."""
        column = column_of(schema, self.column, "regions")
        codes = {name: [code_of(column, v) for v in values] for name, values in self.groups.items()}

        def standing(name: str) -> float:
            state_codes = codes[name]
            return float(
                measured.values[state_codes].sum() / np.sqrt(measured.variances[state_codes].sum())
            )

        state = max(codes, key=standing)
        outside = np.ones(schema.domain[self.column], bool)
        outside[codes[state]] = False
        outside[[code_of(column, v) for v in self.always]] = False
        outside[column.base :] = False
        return state, outside


def column_of(schema: Schema, name: str, field: str) -> Column:
    """The code column, or UsageError that names the recipe's field."""
    if name not in schema.columns:
        near = did_you_mean(name, schema.columns)
        raise UsageError(f"tworound, field {field!r}: the schema has no column {name!r}{near}")
    return schema.columns[name]

"""Constraints of a schema the slow way: row by row, on the values that are written."""

import re

from fastdp.schema.constraints import Constraint

FUNCTIONS = {
    "year": lambda d: d.year,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "hour": lambda d: d.hour,
    "day_of_week": lambda d: d.weekday(),
    "min": min,
    "max": max,
    "abs": abs,
    "__builtins__": {},
}


def listed(columns, combination):
    """Every combination of single values that a line with lists of values stands for."""
    out = [()]
    for value in combination:
        options = value if isinstance(value, list | tuple) else [value]
        out = [(*head, option) for head in out for option in options]
    return out


def names_in(text, row):
    return [name for name in row if re.search(rf"\b{name}\b(?!\s*\()", text)]


def holds(constraint: Constraint, row: dict, inside=lambda name, value: value is not None) -> bool:
    """Whether a row satisfies a constraint. `inside`: whether a value counts: nulls and values
    outside the domain satisfy everything, but what follows from them is null."""
    if constraint.order:
        known = [row[n] for n in constraint.order if row[n] is not None and inside(n, row[n])]
        pairs = [(a, b) for i, a in enumerate(known) for b in known[i + 1 :]]
        return all(a < b if constraint.strict else a <= b for a, b in pairs)
    if constraint.require is not None:
        if not all(inside(n, row[n]) for n in names_in(constraint.require, row)):
            return True
        return bool(eval(constraint.require, {**row, **FUNCTIONS}))
    if constraint.column is not None:
        if not all(inside(n, row[n]) for n in names_in(constraint.follows, row)):
            return row[constraint.column] is None
        value = eval(constraint.follows, {**row, **FUNCTIONS})
        return row[constraint.column] == (value if inside(constraint.column, value) else None)
    if not all(inside(n, row[n]) for n in constraint.columns):
        return True
    given = tuple(row[n] for n in constraint.columns)
    if constraint.divide is not None:
        return given[0] == given[1] // constraint.divide
    lines = constraint.allowed if constraint.allowed is not None else constraint.forbidden
    among = any(given in listed(constraint.columns, line) for line in lines)
    return among == (constraint.allowed is not None)


def broken(schema, table, inside=lambda name, value: value is not None) -> list[int]:
    """Rows of an Arrow table that break each of the schema's constraints."""
    rows = table.to_pylist()
    return [sum(not holds(c, row, inside) for row in rows) for c in schema.constraints]

"""Which columns hold amounts: numbers of which a mean or a total says something."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..schema import Schema

FEW_VALUES = 20
"""Whole numbers with at most so many values are taken for codes: nobody adds them up."""
PERIOD_WORDS = ("date", "day", "month", "quarter", "week", "year")


def amounts(schema: Schema) -> list[str]:
    """The columns of amounts, in the schema's order."""
    return [name for name in schema.modelled if is_amount(schema.columns[name])]


def is_amount(column: Any) -> bool:
    """Whether a mean says something: not of codes of a few groups, nor of periods."""
    few = column.kind != "numeric" and column.size <= FEW_VALUES
    return column.quantity and not few and not is_period(column)


def adds_up(column: Any) -> bool:
    """Whether a total says more than the number of rows: not where every value is about as large as
    every other one, as of years and coordinates."""
    numbers = column.code_numbers()
    if numbers is None:
        return False
    ends = np.array([np.nanmin(numbers[0]), np.nanmax(numbers[2])])
    smallest = 0.0 if ends[0] < 0 < ends[1] else np.abs(ends).min()
    return bool(np.abs(ends).max() > 2 * smallest)


def is_period(column: Any) -> bool:
    """Whether a column's codes are spans of time, by its type or its name."""
    words = set(f"{column.name} {getattr(column, 'part', '')}".lower().replace("_", " ").split())
    return column.temporal or not words.isdisjoint(PERIOD_WORDS)


def bounded(column: Any) -> bool:
    """Whether values beyond the column's bounds count as the nearest one. Its mean is then that of
    bounded values."""
    return column.overflow.action == "clamp"

"""Codes by a column's policies: of nulls, of NaNs and of values outside the domain; or DROP."""

from .._core import codes as core
from ..schema.columns import Column


def null_code(column: Column) -> int:
    """The code of a null, or DROP."""
    null = column.null
    target = column.code_of(null.value) if null.action == "value" else column.null_code
    return core.DROP if target is None else target


def other_code(column: Column) -> int:
    """The code of a value that is outside the domain on neither side (no number, not whole), or
    DROP. Where overflow has no code to go to, it counts as missing."""
    if column.overflow.action == "drop":
        return core.DROP
    target = column.overflow_target
    return null_code(column) if target is None else target


def nan_code(column: Column) -> int:
    """The code of a NaN, or DROP."""
    return null_code(column) if column.nan == "null" else other_code(column)


def ends(column: Column) -> tuple[int, int]:
    """Codes of numbers below and above the domain."""
    if column.overflow.action == "clamp":
        return 0, column.base - 1
    other = other_code(column)
    return other, other

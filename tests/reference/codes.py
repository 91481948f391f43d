"""Slow twins of the encoder and of the decoder's draws: one value at a time, in plain Python."""

import math
from decimal import Decimal

from fastdp.schema.columns import Column
from fastdp.schema.kinds.categorical import Categorical
from fastdp.schema.kinds.integer import Integer
from fastdp.schema.kinds.numeric import Numeric
from tests.reference.sample import GOLDEN, mix

DROP = None


def encode_value(column: Column, value) -> int | None:
    """The code of one value as a Python object, DROP (None) where its row is left out."""
    if value is None:
        return _null(column)
    if isinstance(value, float) and math.isnan(value):
        return _null(column) if column.nan == "null" else _other(column)
    if isinstance(column, Categorical):
        for code, listed in enumerate(column.values):
            listed = Decimal(listed) if isinstance(value, Decimal) else listed
            if type(listed) is not str and listed == value:
                return code
            if isinstance(listed, str) and listed == str(value):
                return code
        return _other(column)
    if isinstance(column, Integer):
        if column.min <= value <= column.max and value == math.floor(value):
            return int(value) - column.min
        inside = column.min < value < column.max
        return _other(column) if inside else _side(column, value < column.min)
    assert isinstance(column, Numeric)
    if value == math.inf and column.edges[-1] == math.inf:
        return column.base - 1
    for code in range(column.base):
        low = column.edges[code]
        high = column.edges[code + 1]
        if low <= value < high:
            return code
    return _side(column, value < column.edges[0])


def _side(column: Column, below: bool) -> int | None:
    if column.overflow.action == "clamp":
        return 0 if below else column.base - 1
    return _other(column)


def _null(column: Column) -> int | None:
    if column.null.action == "drop":
        return DROP
    return (
        encode_value(column, column.null.value)
        if column.null.action == "value"
        else column.size - 1
    )


def _other(column: Column) -> int | None:
    if column.overflow.action == "drop":
        return DROP
    if column.overflow.action == "value":
        return encode_value(column, column.overflow.value)
    return (
        column.base if column.overflow.action == "code" and column.can_overflow else _null(column)
    )


def uniform(key: int, row: int) -> float:
    """SplitMix64 of the stream `key` at position `row`, as a number in [0, 1)."""
    return (mix(key + (row + 1) * GOLDEN) >> 11) * 2.0**-53


def draw(bins, code: int, key: int, row: int) -> float:
    """One number drawn in the bin of a code (`fastdp.bins.Bins`)."""
    u = uniform(key, row)
    lo, hi, mean = bins.lo[code], bins.hi[code], bins.mean[code]
    if mean == 0:
        x = lo + u * (hi - lo)
    elif mean > 0:
        x = lo + _beyond(u, mean, hi - lo)
    else:
        x = hi - _beyond(1 - u - 2.0**-53, -mean, hi - lo)
    if bins.whole:
        x = math.floor(x)
    return min(max(x, bins.low[code]), bins.high[code]) / bins.unit


def _beyond(u: float, mean: float, width: float) -> float:
    if math.isinf(width):
        return -mean * math.log1p(-u)
    return -mean * math.log1p(u * math.expm1(-width / mean))

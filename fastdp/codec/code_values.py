"""What is written for the codes of a column, as far as constraints depend on it."""

from __future__ import annotations

import math

import numpy as np

from .._util.lazy import pa, pc
from ..schema import dtypes
from ..schema.columns import Categorical, Column, Numeric
from ..schema.epoch import per_unit
from .bins import bins_of, has_tail


def has_stand_in(column: Column) -> bool:
    """Whether values outside the domain decode to a value of their own: `other`, or a tail."""
    if isinstance(column, Categorical):
        return column.other is not None
    return isinstance(column, Numeric) and (column.overflow_code is None or has_tail(column))


def drawn_overflow(column: Column) -> int | None:
    """The code of values outside the domain, if it is written as a value of the domain drawn
    uniformly. This happens if the column has neither a null code nor a value written in their
    place. Else None."""
    return None if column.null_code is not None or has_stand_in(column) else column.overflow_code


def read_back(column: Column) -> np.ndarray:
    """Array code -> the code that the written value is encoded as. It is another code in two cases.
    One is the overflow code of a column whose `other` is one of its own values. The other is a bin
    beyond `min` or `max`, which is written as `min` or `max`."""
    out = np.arange(column.size)
    if (
        isinstance(column, Categorical)
        and column.overflow_code is not None
        and column.other is not None
    ):
        code = column.code_of(column.other)
        out[column.overflow_code] = column.overflow_code if code is None else code
    if isinstance(column, Numeric):
        bins, _ = bins_of(column)
        for code in range(column.base):
            low = float(bins.low[code] / bins.unit)
            if bins.base is not None:
                low = min(
                    max(low, column.edges[code]), math.nextafter(column.edges[code + 1], -math.inf)
                )
            other = column.code_of(low) if math.isfinite(low) else None
            out[code] = code if other is None else other
    return out


def stored_per_number(column: Numeric) -> float:
    """How many units of the stored Arrow number make 1; for dates and times, one second."""
    if column.timely:
        return per_unit(column.dtype) / (86_400 if dtypes.family(column.dtype) == "date" else 1)
    return 10.0 ** dtypes.decimal_scale(column.dtype)


def as_numbers(column: Column, array: pa.Array) -> np.ndarray:
    """A column of written values as float64 numbers, nan for nulls; dates and times in seconds."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(column, Numeric) and column.timely:
        stored = pc.cast(array, dtypes.arrow(column.dtype), safe=False)
        stored = stored.view(pa.int32() if column.dtype == "date32" else pa.int64())
        numbers = pc.cast(pc.cast(stored, pa.int64()), pa.float64(), safe=False)
        array = pc.divide(numbers, stored_per_number(column))
    elif not pa.types.is_floating(array.type):
        array = pc.cast(array, pa.float64(), safe=False)
    return array.to_numpy(zero_copy_only=False).astype(np.float64)

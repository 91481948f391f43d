"""What is written for the codes of a column, as far as constraints depend on it."""

from __future__ import annotations

import numpy as np

from .._util.lazy import pa, pc
from ..schema import dtypes
from ..schema.bins import BinColumn
from ..schema.columns import Column, SourceColumn
from ..schema.epoch import DAY_SECONDS, per_unit


def drawn_overflow(column: Column) -> int | None:
    """The code of values outside the domain, if it is written as a value of the domain drawn
    uniformly. This happens if the column has neither a null code nor a value written in their
    place. Else None."""
    return None if column.null_code is not None or column.writes_overflow else column.overflow_code


def stored_per_number(column: SourceColumn | BinColumn) -> float:
    """How many units of the stored Arrow number make 1; for dates and times, one second."""
    if column.temporal:
        return per_unit(column.dtype) / (
            DAY_SECONDS if dtypes.family(column.dtype) == "date" else 1
        )
    return 10.0 ** dtypes.decimal_scale(column.dtype)


def as_numbers(column: SourceColumn, array: pa.Array) -> np.ndarray:
    """A column of written values as float64 numbers, nan for nulls; dates and times in seconds."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if column.temporal:
        stored = pc.cast(array, dtypes.arrow(column.dtype), safe=False)
        stored = stored.view(pa.int32() if column.dtype == "date32" else pa.int64())
        numbers = pc.cast(pc.cast(stored, pa.int64()), pa.float64(), safe=False)
        array = pc.divide(numbers, stored_per_number(column))
    elif not pa.types.is_floating(array.type):
        array = pc.cast(array, pa.float64(), safe=False)
    return array.to_numpy(zero_copy_only=False).astype(np.float64)

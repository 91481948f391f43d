"""In which period a row is: the number of its day, week, month or year in the unit's public zone.

The number depends on the row's own time and on the public unit alone. No value raises: a time that
is null, cannot be read, or lies outside the years 1 to 9999, is the period `NO_TIME_CODE`. So every
row of a user is in exactly one period.
"""

from __future__ import annotations

import numpy as np

from .._util.arrow import decoded
from .._util.lazy import pa, pl
from ..errors import DataError
from ..schema import dtypes
from ..schema.epoch import DAY_SECONDS
from ..schema.periods import MONDAY, NO_TIME_CODE, Period, code_of
from . import idvalues, textvalues

FIRST_DAY = -719_162
LAST_DAY = 2_932_896
"""1 January of the year 1 and 31 December 9999, in days since 1970."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def check_type(kind: pa.DataType, period: Period, where: str) -> None:
    """Raise DataError unless times can be read from a column of this type."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    t = pa.types
    views = t.is_string_view(inner) or t.is_binary_view(inner)
    texts = idvalues.is_text(inner) or views or t.is_null(inner)
    if not (t.is_date(inner) or t.is_timestamp(inner) or texts):
        raise DataError(
            f"{where}: column {period.of!r}, by which the unit divides users' rows into periods, "
            f"is {kind}; expected dates, times, or texts of them"
        )


def row_periods(array: pa.Array, period: Period) -> np.ndarray:
    """int64: the number of the period of each row, by its time."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = decoded(array)
    if pa.types.is_null(array.type):
        return np.full(len(array), NO_TIME_CODE, np.int64)
    if not pa.types.is_date(array.type) and not pa.types.is_timestamp(array.type):
        array = textvalues.parse(array.cast(pa.large_binary()), period.dtype)
    days, good = _local_days(array, period)
    return np.where(good, _numbers(np.where(good, days, 0), period.length), NO_TIME_CODE)


def taking_part(codes: np.ndarray, period: Period) -> np.ndarray | None:
    """Which rows are in the one period that takes part; None: all of them."""
    return None if period.only is None else codes == code_of(period.length, period.only)


def of_one_period(table: pa.Table, period: Period) -> pa.Table:
    """The rows of a table that take part; all of them where the table has no such times."""
    if period.only is None or period.of not in table.column_names:
        return table
    chunks = [row_periods(chunk, period) for chunk in table[period.of].chunks]
    codes = np.concatenate([np.empty(0, np.int64), *chunks])
    return table.filter(pa.array(taking_part(codes, period)))


def _local_days(array: pa.Array, period: Period) -> tuple[np.ndarray, np.ndarray]:
    """(days since 1970 in the unit's zone, which of them are valid)."""
    kind = array.type
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_date32(kind):
        days = np.asarray(array.view(pa.int32()).fill_null(0)).astype(np.int64)
        return days, valid & (days >= FIRST_DAY) & (days <= LAST_DAY)
    numbers = np.asarray(array.view(pa.int64()).fill_null(0))
    seconds = numbers // (_PER_SECOND["ms"] if pa.types.is_date64(kind) else _PER_SECOND[kind.unit])
    good = valid & (seconds >= FIRST_DAY * DAY_SECONDS) & (seconds < (LAST_DAY + 1) * DAY_SECONDS)
    seconds = np.where(good, seconds, 0)
    if getattr(kind, "tz", None) is not None:
        seconds = _local(seconds, period.zone)
        good &= (seconds >= FIRST_DAY * DAY_SECONDS) & (seconds < (LAST_DAY + 1) * DAY_SECONDS)
    return seconds // DAY_SECONDS, good


def _local(seconds: np.ndarray, zone: str) -> np.ndarray:
    """Seconds since 1970 of UTC, on the clock of the zone."""
    fixed = dtypes.zone(zone).utcoffset(None)
    if fixed is not None:
        return seconds + int(fixed.total_seconds())
    times = pl.Series(seconds * 10**6).cast(pl.Datetime("us", "UTC"))
    local = times.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return local.to_physical().to_numpy() // 10**6


def _numbers(days: np.ndarray, length: str) -> np.ndarray:
    if length == "day":
        return days
    if length == "week":
        return (days + MONDAY) // 7
    unit = "M" if length == "month" else "Y"
    return days.astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64)

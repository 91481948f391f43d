"""Text to values, for sources that have only text (CSV, Hive folders): by the schema's types, never by guessing.

Text that is no value of its column's type reads as null and follows the column's null policy; whole numbers too large for 64
bits read as floats, and so end up outside the domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import dtypes

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_TIMES = (
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
)
_TRUE, _FALSE = ("true", "t", "1", "yes", "y"), ("false", "f", "0", "no", "n")


def to_text(raw: pa.Array) -> pa.Array:
    """Binary as UTF-8; bytes that are not UTF-8 become the replacement character."""
    import pyarrow as pa

    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        mended = [None if b is None else b.decode("utf-8", "replace") for b in raw.to_pylist()]
        return pa.array(mended, pa.large_string())


def parse(raw: pa.Array, dtype: str) -> pa.Array:
    """The values of a column of the given type (`dtypes`), leniently."""
    import polars as pl

    text = to_text(raw)
    family = dtypes.family(dtype)
    if family == "string":
        return text
    column = pl.Series(pl.from_arrow(text)).str.strip_chars()
    return _parse(column, family, dtype).to_arrow()


def _parse(text: pl.Series, family: str, dtype: str) -> pl.Series:
    import polars as pl

    if family == "int":
        whole = text.cast(pl.Int64, strict=False)
        if (whole.is_null() & text.is_not_null()).any():
            return text.cast(pl.Float64, strict=False)
        return whole
    if family == "float":
        return text.cast(pl.Float64, strict=False)
    if family == "decimal":
        scale = dtypes.decimal_scale(dtype)
        return text.cast(pl.Decimal(38, scale), strict=False)
    if family == "bool":
        low = text.str.to_lowercase()
        yes, no = low.is_in(_TRUE), low.is_in(_FALSE)
        return pl.select(pl.when(yes).then(True).when(no).then(False).otherwise(None)).to_series()
    zone = "tz=" in dtype
    found = text.str.strptime(pl.Date, "%Y-%m-%d", strict=False, exact=True).cast(pl.Datetime("us"))
    for form in _TIMES:
        here = text.str.strptime(pl.Datetime("us"), form, strict=False)
        found = found.zip_with(found.is_not_null(), here)
    if zone:
        name = dtype.split("tz=")[1].rstrip("]")
        offset = text.str.strptime(
            pl.Datetime("us", "UTC"), "%Y-%m-%dT%H:%M:%S%.f%#z", strict=False
        ).dt.convert_time_zone(name)
        local = found.dt.replace_time_zone(name, ambiguous="earliest", non_existent="null")
        return offset.zip_with(offset.is_not_null(), local)
    return found

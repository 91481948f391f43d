"""Values of every source type that try a column's coding, and columns of every kind that read them."""

import math
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa

WHOLE = [-(1 << 63), -(1 << 31), -129, -128, -2, -1, 0, 1, 2, 3, 9, 10, 11, 126, 127, 128, 255]
WHOLE += [256, 32_767, (1 << 31) - 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1]
REALS = [*map(float, WHOLE), 0.1, 0.3, 0.30000000000000004, -0.0, 2.5, 0.7, 2.675, -1.5, 1.0000001]
REALS += [math.nan, math.inf, -math.inf, 1e300, 5e-324, 9.999999999999998, 10.000000000000002, 2e38]
DECIMALS = [
    "0.1",
    "0.3",
    "0.31",
    "2.5",
    "2.6",
    "0.7",
    "-1.5",
    "7",
    "10",
    "9.99",
    "127",
    "128",
    "-2",
]
TEXTS = ["a", "A", "a ", "", "b\u00e9", "be\u0301", "NULL", "\\x61", "'", '"', "\u00df", "SS"]
TEXTS += ["7", "07", "1", "0", "true", "\U0001f600", "\0", "a\0"]
MOMENTS = [datetime(1970, 1, 1) + timedelta(seconds=s) for s in (-1, 0, 86_399, 86_400)]
MOMENTS += [datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2022, 1, 1), datetime(2023, 1, 1)]
MOMENTS += [datetime(2022, 3, 13, 2, 30), datetime(2022, 12, 31, 23, 59, 59, 999_999)]
MOMENTS += [
    datetime(2024, 2, 29, 8),
    datetime(1900, 2, 28, 16, 15),
    datetime(2022, 6, 5, 7, 59, 59),
]
AGES = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)]


def whole(kind: pa.DataType) -> pa.Array:
    info = np.iinfo(kind.to_pandas_dtype())
    ends = [int(info.min), int(info.max)]
    return pa.array([*(n for n in WHOLE if ends[0] <= n <= ends[1]), *ends, None], kind)


def beyond(kind: pa.DataType, ticks: list[int], array: list) -> pa.Array:
    """Values of Python, and numbers of units since 1970 that Python has no value for."""
    extra = pa.array(ticks, pa.int32() if pa.types.is_date32(kind) else pa.int64()).view(kind)
    return pa.concat_arrays([pa.array([*array, None], kind), extra])


def sources() -> dict[str, pa.Array]:
    """A column of each type, with a null."""
    out = {f"int{n}": whole(getattr(pa, f"int{n}")()) for n in (8, 16, 32, 64)} | {
        f"uint{n}": whole(getattr(pa, f"uint{n}")()) for n in (8, 16, 32, 64)
    }
    with np.errstate(over="ignore"):
        narrow = np.array(REALS, np.float64).astype(np.float32)
    out["float32"] = pa.array([*narrow.tolist(), None], pa.float32())
    out["float64"] = pa.array([*REALS, None], pa.float64())
    for digits, places in ((4, 1), (9, 2), (18, 4), (38, 10), (38, 0)):
        step = Decimal(1).scaleb(-places)
        listed = [Decimal(text).quantize(step) for text in DECIMALS if abs(Decimal(text)) < 100]
        most = Decimal((0, (9,) * digits, -places))
        kind = pa.decimal128(digits, places)
        out[str(kind)] = pa.array([*listed, most, most.copy_negate(), None], kind)
    out["bool"] = pa.array([True, False, None])
    days = [moment.date() for moment in (*MOMENTS, *AGES)]
    far = [2_932_897, -719_163, (1 << 31) - 2, -(1 << 31) + 2]
    out["date32"] = beyond(pa.date32(), far, [*days, date(2000, 2, 29)])
    for unit, per in (("s", 1), ("ms", 10**3), ("us", 10**6)):
        far = [253_402_300_800 * per, -62_135_596_801 * per]
        out[f"timestamp[{unit}]"] = beyond(pa.timestamp(unit), far, [*MOMENTS, *AGES])
    out["timestamp[ns]"] = pa.array([*MOMENTS, None], pa.timestamp("ns"))
    utc = [moment for moment in (*MOMENTS, *AGES)]
    out["timestamp[us, UTC]"] = pa.array([*utc, None], pa.timestamp("us", tz="UTC"))
    out["string"] = pa.array([*TEXTS, None])
    out["binary"] = pa.array([*(text.encode() for text in TEXTS), b"\xff\xfe", None], pa.binary())
    out["dictionary"] = pa.array([*TEXTS, "a", None]).dictionary_encode()
    return out


INFINITE = float("inf")
EDGES = ["1970-01-01", "2022-01-01", "2023-01-01"]
SPAN = {"min": "2022-01-01", "max": "2022-12-31"}
DAYS = ["2022-01-01", "1970-01-01", "2024-02-29", "9999-12-31"]
ZONED = ["2022-01-01T00:00:00+00:00", "2022-03-13T02:30:00+00:00"]
PARTS = {"hour": "h", "minute": "mi", "day_of_week": "w", "month": "mo"}
TIME = {"kind": "timestamp", "dtype": "timestamp[us]"}
COLUMNS = {
    "numeric": {"kind": "numeric", "dtype": "float64", "edges": [0, 0.1, 0.3, 0.7, 2.5, 10, 128]},
    "open": {"kind": "numeric", "dtype": "float64", "edges": [-INFINITE, -1.5, 0, 2.675, INFINITE]},
    "many": {"kind": "numeric", "dtype": "float64", "edges": [i / 10 for i in range(-20, 20)]},
    "large": {"kind": "numeric", "dtype": "int64", "edges": [-128, 0, 3, 1 << 53, 1 << 62]},
    "integer": {"kind": "integer", "dtype": "int64", "min": -2, "max": 11},
    "low": {"kind": "integer", "dtype": "int64", "min": -(1 << 63), "max": -(1 << 63) + 3},
    "high": {"kind": "integer", "dtype": "int64", "min": (1 << 63) - 4, "max": (1 << 63) - 1},
    "listed": {"kind": "categorical", "dtype": "int64", "values": [3, -1, 0, 10, 127, 1 << 53]},
    "spread": {"kind": "categorical", "dtype": "int64", "values": [*range(0, 60, 3), 1 << 40]},
    "reals": {
        "kind": "categorical",
        "dtype": "float64",
        "values": [0.1, 2.5, -1.5, 0.0, 0.7, 10.0],
    },
    "decimals": {"kind": "categorical", "dtype": "decimal128(10, 2)", "values": ["0.10", "2.50"]},
    "texts": {
        "kind": "categorical",
        "dtype": "string",
        "values": ["A", "b\u00e9", "7", "", "'", "0"],
    },
    "truth": {"kind": "categorical", "dtype": "bool", "values": [True, False]},
    "days": {"kind": "categorical", "dtype": "date32", "values": DAYS},
    "moments": {"kind": "categorical", "dtype": "timestamp[s]", "values": ["2022-03-13T02:30:00"]},
    "dates": {"kind": "numeric", "dtype": "date32", "edges": EDGES},
    "times": {"kind": "numeric", "dtype": "timestamp[s]", "edges": EDGES},
    "zoned": {"kind": "numeric", "dtype": "timestamp[us, tz=UTC]", "edges": ZONED},
    "shift": {**TIME, "parts": {"shift": "s"}, "output": "parts"},
    "calendar": {**TIME, "week_start": "sunday", "output": "parts", "parts": PARTS, "step": 900},
    "spanned": {**TIME, **SPAN, "parts": {"year": "y", "month": "m", "day": "d"}, "step": 86400},
    "date": {**TIME, **SPAN, "parts": {"date": "da", "hour": "ho"}},
    "divmod": {"kind": "derived", "dtype": "int64", "transform": "divmod", "parts": ["q", "rest"]}
    | {"by": 10, "max": 127},
    "clock": {"kind": "derived", "dtype": "int64", "transform": "hhmm", "parts": ["hh"]},
    "digits": {"kind": "places", "dtype": "float64"},
    "prices": {"kind": "places", "dtype": "float64"}
    | {"grids": [{"step": 10.0, "at": 5.0}, {"step": 1.0, "at": 0.99}, {"step": 0.25}]},
    "steps": {"kind": "derived", "dtype": "timestamp[us]", "transform": "step", "parts": ["st"]},
}
POLICIES = [
    {"null": "code", "overflow": "code"},
    {"null": "drop", "overflow": "code"},
    {"null": "code", "overflow": "drop"},
    {"null": "code", "overflow": "clamp"},
    {"null": "code", "overflow": "code", "nan": "overflow"},
]
QUICK = ("int64", "float32", "decimal128(9, 2)", "timestamp[us]", "string")
"""The source types of the quick suite, which has policies 1 to 3."""
DROPPED = ("int64", "timestamp[us]")
"""The source types whose values are also dropped where they overflow."""
TIMELY = ("days", "moments", "dates", "times", "zoned", "shift", "calendar", "spanned", "date")
TIMELY += ("steps",)
"""Columns of dates and times."""

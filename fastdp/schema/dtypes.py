"""Output types by name: the Arrow spelling, e.g. `int8`, `string`, `decimal128(10, 2)`,
`timestamp[us, tz=America/Chicago]`, `dictionary<string>`.

A type's *family* says which values it can hold and which source columns it may be read from.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from .._util.lazy import pa

_ALIASES = {
    "str": "string",
    "object": "string",
    "float": "float64",
    "double": "float64",
    "int": "int64",
    "boolean": "bool",
    "date": "date32",
    "enum": "dictionary<string>",
    "category": "dictionary<string>",
}
_INT = re.compile(r"u?int(8|16|32|64)$")
_DECIMAL = re.compile(r"decimal(?:128)?\(\s*(\d+)\s*,\s*(-?\d+)\s*\)$")
_TIME = re.compile(r"timestamp\[(s|ms|us|ns)(?:,\s*tz=([\w/+:\-]+))?\]$")
_PLAIN = {
    "bool",
    "float32",
    "float64",
    "date32",
    "date64",
    "binary",
    "string",
    "large_string",
    "string_view",
    "dictionary<string>",
}


def canonical(text: str) -> str | None:
    """The canonical spelling of a type's name; None if fastdp cannot write such a type."""
    text = _ALIASES.get(text.strip(), text.strip())
    if text in _PLAIN or _INT.match(text):
        return text
    if parts := _DECIMAL.match(text):
        precision = int(parts[1])
        scale = int(parts[2])
        if 1 <= precision <= 38 and 0 <= scale <= precision:
            return f"decimal128({precision}, {scale})"
        return None
    if parts := _TIME.match(text):
        try:
            return f"timestamp[{parts[1]}, tz={parts[2]}]" if parts[2] and zone(parts[2]) else text
        except (ValueError, KeyError, OSError):
            pass
    return None


@lru_cache(maxsize=64)
def zone(name: str) -> tzinfo:
    """The zone of a name, or of an offset such as +05:30."""
    if name[0] in "+-":
        return datetime.fromisoformat(f"1970-01-01T00:00{name}").tzinfo or UTC
    return ZoneInfo(name)


@lru_cache(maxsize=256)
def machine_dtype(kind: pa.DataType) -> str:
    """The numpy dtype of an Arrow integer or float type. (`to_pandas_dtype` imports pandas, half a
    second, wherever it is installed.)"""
    if pa.types.is_floating(kind):
        letter = "f"
    elif pa.types.is_signed_integer(kind):
        letter = "i"
    else:
        letter = "u"
    return f"{letter}{kind.bit_width // 8}"


@lru_cache(maxsize=256)
def family(text: str) -> str:
    """`int`, `float`, `decimal`, `bool`, `string`, `date` or `timestamp` of a canonical name."""
    if _INT.match(text):
        return "int"
    for start in ("float", "decimal", "bool", "date", "timestamp"):
        if text.startswith(start):
            return start
    return "string"


@lru_cache(maxsize=256)
def int_range(text: str) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits = int(re.sub(r"\D", "", text))
    return (0, 2**bits - 1) if text.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def whole_range(text: str) -> tuple[float, float]:
    """Smallest and largest of the whole numbers that a type holds exactly."""
    kind = family(text)
    scale = decimal_scale(text)
    if kind == "int":
        return int_range(text)
    high: float = math.inf
    if kind == "float":
        high = 1 << (24 if text == "float32" else 53)  # beyond, not every whole number is a float
    elif kind == "decimal":
        high = min(10 ** (decimal_precision(text) - scale), (1 << 63) // 10**scale) - 1
    return -high, high


def decimal_scale(text: str) -> int:
    """Digits after the point of a decimal type, 0 for any other."""
    parts = _DECIMAL.match(text)
    return int(parts[2]) if parts else 0


def decimal_precision(text: str) -> int:
    """Total number of digits of a decimal type."""
    parts = _DECIMAL.match(text)
    return int(parts[1]) if parts else 0


@lru_cache(maxsize=256)
def arrow(text: str) -> pa.DataType:
    """The Arrow type of a canonical name."""

    if text.startswith("dictionary"):
        return pa.dictionary(pa.int32(), pa.string())
    if parts := _DECIMAL.match(text):
        return pa.decimal128(int(parts[1]), int(parts[2]))
    if parts := _TIME.match(text):
        return pa.timestamp(parts[1], tz=parts[2])
    return pa.type_for_alias(text)


def name_of(kind: pa.DataType) -> str | None:
    """The canonical name of an Arrow type, None if fastdp cannot write it."""

    if pa.types.is_dictionary(kind):
        inner = name_of(kind.value_type)
        return "dictionary<string>" if inner in ("string", "large_string", "string_view") else None
    if pa.types.is_decimal(kind):
        return canonical(f"decimal128({min(kind.precision, 38)}, {kind.scale})")
    if pa.types.is_floating(kind):
        return "float64" if kind.bit_width == 64 else "float32"
    return canonical(str(kind).split("[day]")[0].replace("date64[ms]", "date64"))

"""The value of a user id: every source passes its ids through `normal`, so that one value is one
user.

Numbers are compared by value, whatever their type and spelling: 7, 7.0 and Decimal("7.00") are one
id, and so are 0 and -0. Times with a zone are compared as points in time; a date is the start of
its day. Null and NaN are not ids. Texts are compared byte by byte. If the schema gives the user
column a type of numbers or times, they are compared by what they spell.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import re
from typing import Any

import numpy as np

from .._core import lines
from .._util.arrow import decoded
from .._util.lazy import pa, pc
from ..schema import dtypes
from ..schema.epoch import DAY_MILLISECONDS
from .textvalues import buffers_of

_NUMBER = re.compile(rb"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4000}))?")
_PLAIN_DIGITS = 38
"""Whole numbers of at most this many digits are written without an exponent; `fdp_lines_shortest`
in csrc/lines.c has the same limit."""
_MOST_BITS = 14_000
"""Python does not write larger whole numbers in decimal (its limit is 4,300 digits)."""
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def normal(ids: pa.Array, dtype: str | None = None) -> pa.Array:
    """Ids of any source in the form in which they are hashed; null if there is no id. `dtype`: the
    type of the user column in the schema. The value of one id never depends on the others."""

    t = pa.types
    if isinstance(ids, pa.ExtensionArray):
        ids = ids.storage
    if t.is_dictionary(ids.type):
        values = normal(ids.dictionary, dtype)
        ids = pa.DictionaryArray.from_arrays(ids.indices, values, safe=False)
        return ids if is_text(values.type) and not values.null_count else decoded(ids)
    kind = ids.type
    if t.is_floating(kind):
        return pc.if_else(pc.is_nan(ids), pa.scalar(None, kind), ids)
    # The type allows milliseconds within a day, which are not part of the date.
    if t.is_date64(kind):
        whole = np.asarray(ids.view(pa.int64()).fill_null(0))
        return pc.subtract(ids.view(pa.int64()), pa.array(whole % DAY_MILLISECONDS)).view(kind)
    if t.is_string_view(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind):
        ids = ids.cast(pa.large_binary())  # Arrow cannot filter arrays of view types
    elif not is_text(kind):
        return ids
    family = "string" if dtype is None else dtypes.family(dtype)
    return ids if family in ("string", "bool") else _spelled(ids, family)


def has_id(ids: pa.Array) -> np.ndarray | None:
    """Mask of the ids, as `normal` returns them, that are not null; None if none is null."""
    return ids.is_valid().to_numpy(zero_copy_only=False) if ids.null_count else None


def is_text(kind: pa.DataType) -> bool:

    t = pa.types
    return (
        t.is_string(kind) or t.is_large_string(kind) or t.is_binary(kind) or t.is_large_binary(kind)
    )


def _spelled(ids: pa.Array, family: str) -> pa.Array:
    """Texts by the numbers or times that they spell, as bytes; each distinct text is parsed
    once."""

    if family == "int":
        plain = ids.view(pa.binary()) if pa.types.is_string(ids.type) else ids
        buffers = buffers_of(plain)
        if buffers is not None:
            starts, content, valid = buffers
            if lines.shortest(starts, content, valid):
                return plain
    value = time_spelled if family in ("date", "timestamp") else number_spelled
    coded = ids.cast(pa.large_binary()).dictionary_encode()
    values = pa.array([value(text) for text in coded.dictionary.to_pylist()], pa.large_binary())
    return values.take(coded.indices)


def number_spelled(text: bytes) -> bytes | None:
    """The one spelling of the number that a text spells; None for NaN. A text that is not a number
    is returned unchanged."""
    body = text.strip()
    if body.isdigit() and len(body) <= _PLAIN_DIGITS:
        return body.lstrip(b"0") or b"0"
    match = _NUMBER.fullmatch(body)
    sign, whole, fraction, exponent = (
        (part or b"" for part in match.groups()) if match else [b""] * 4
    )
    if not whole and not fraction:
        word = body.lower().lstrip(b"+-")
        if word in (b"inf", b"infinity"):
            return b"-inf" if body.startswith(b"-") else b"inf"
        return None if word in (b"nan", b"snan") else text
    digits = (whole + fraction).lstrip(b"0")
    if not digits:
        return b"0"
    power = int(exponent or 0) - len(fraction)
    short = digits.rstrip(b"0")
    power += len(digits) - len(short)
    if 0 <= power <= _PLAIN_DIGITS - len(short):
        short += b"0" * power
    else:
        short += b"e%d" % power
    return b"-" + short if sign == b"-" else short


def time_spelled(text: bytes) -> bytes | None:
    """The one spelling of the date or time that a text spells (ISO 8601, at most microseconds). A
    text that is neither is returned unchanged."""
    try:
        moment = datetime.datetime.fromisoformat(text.decode("ascii").strip())
    except ValueError:
        return text
    fraction = re.search(rb"[.,]([0-9]+)", text)
    return text if fraction and len(fraction[1]) > 6 else _moment(moment)


def _moment(moment: datetime.date) -> bytes:
    """Nanoseconds since 1970; with a zone, in UTC and marked as such."""
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    offset = moment.utcoffset()
    passed = (moment.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    if offset is not None:
        passed -= offset // _MICROSECOND
    passed = passed * 1000 + getattr(moment, "nanosecond", 0)
    return b"%d ns%s" % (passed, b"" if offset is None else b" UTC")


def of_object(value: Any) -> bytes | None:
    """The id that a Python object is; None for null and NaN. Never raises for objects of database
    drivers."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return b"%#x" % whole if whole.bit_length() > _MOST_BITS else number_spelled(b"%d" % whole)
    if isinstance(value, decimal.Decimal):
        return None if value.is_nan() else number_spelled(str(value).encode())
    if isinstance(value, float):
        return number_spelled(b"%d" % value if value.is_integer() else repr(value).encode())
    if isinstance(value, datetime.date):
        # NaT of pandas is a date that is not equal to itself.
        return _moment(value) if value == value else None
    return str(value).encode("utf-8", "surrogatepass")

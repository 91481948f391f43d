"""Source values as whole numbers of a public step (`schema.amounts`).

No value raises. Numbers are rounded to the step, a half to the even neighbour, by the decimal that
a float is written as. They are cut off at LARGEST steps. What is null, NaN or no number is MISSING.
A value depends on itself alone, so engines and batches agree to the bit.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np

from .._util.lazy import pa
from ..errors import DataError
from ..schema.amounts import LARGEST, MISSING, Amount
from ..schema.epoch import DAY_SECONDS
from ..schema.kind_of_text import is_missing
from . import maps
from .text import local_moment

_TIE = {np.dtype(np.float32): 2.0**-20, np.dtype(np.float64): 2.0**-48}
"""How near to a half the product of a float and a power of ten may be, as a part of the product.
Nearer ones are rounded by their decimals: float and product are each off by at most 2^-24 or
2^-53."""


def exact_numbers(amount: Amount, array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """int64: each value in steps, MISSING where there is none."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    parts = [_chunk(amount, chunk) for chunk in chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _chunk(amount: Amount, array: pa.Array) -> np.ndarray:
    """Exact whole numbers of one chunk, in units of the amount; MISSING for nulls."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_null(array.type):
        return np.full(len(array), MISSING)
    if pa.types.is_dictionary(array.type):
        inner = _chunk(amount, array.dictionary)
        values = np.append(inner, MISSING)
        at = np.asarray(array.indices.fill_null(len(inner)))
        return values[at.astype(np.int64)]
    source = maps.Source.of(amount.dtype, array.type)
    if source is None:
        raise DataError(f"column {amount.source!r} is {array.type}, not {amount.dtype}; cast it")
    if source.form == "text":
        encoded = source.binary(array).dictionary_encode()
        texts = [_of_text(amount, text) for text in encoded.dictionary.to_pylist()]
        values = np.array([*texts, MISSING], np.int64)
        return values[np.asarray(encoded.indices.fill_null(len(texts))).astype(np.int64)]
    if amount.kind in ("date", "time"):
        values = _times(amount, array)
    elif source.form == "float":
        plain = np.asarray(source.plain(array).fill_null(np.nan))
        values = of_floats(plain, amount.places)
    elif source.form == "decimal":
        values = _of_decimals(array, source.plain(array), amount.places)
    else:
        values = _of_whole(np.asarray(source.plain(array).fill_null(0)), amount.places)
    if array.null_count:
        values[np.asarray(array.is_null())] = MISSING
    return values


def _times(amount: Amount, array: pa.Array) -> np.ndarray:
    """Days, or seconds on the local clock; times beyond the calendar are missing."""
    seconds, beyond = maps.local_seconds(array, maps.zone_of(amount.dtype))
    values = seconds // DAY_SECONDS if amount.kind == "date" else seconds.copy()
    values[beyond] = MISSING
    return values


def _of_whole(numbers: np.ndarray, places: int) -> np.ndarray:
    times = 10**places
    most = LARGEST // times
    if numbers.dtype == np.uint64:
        kept = np.minimum(numbers, np.uint64(most + 1)).astype(np.int64)
    else:
        kept = np.clip(numbers.astype(np.int64), -most - 1, most + 1)
    return np.clip(kept * times, -LARGEST, LARGEST)


def of_floats(numbers: np.ndarray, places: int) -> np.ndarray:
    """Floats in steps of 10^-places, a half of the decimal that each is written as to even."""
    with np.errstate(all="ignore"):
        product = numbers.astype(np.float64) * 10.0**places
        rounded = np.rint(product)
        tie = np.abs(np.abs(product - rounded) - 0.5) <= np.abs(product) * _TIE[numbers.dtype]
        near = np.flatnonzero(tie & (np.abs(product) <= LARGEST))
        out = np.clip(np.nan_to_num(rounded, nan=0.0), -LARGEST, LARGEST).astype(np.int64)
    if near.size:
        values, back = np.unique(numbers[near], return_inverse=True)
        exact = [_rounded(Decimal(str(value)), places) for value in values]
        out[near] = np.array(exact, np.int64)[back]
    out[np.isnan(numbers)] = MISSING
    return out


def _rounded(number: Decimal, places: int) -> int:
    """A decimal in steps of 10^-places."""
    if number.is_nan():
        return MISSING
    if number.is_infinite() or abs(number) >= LARGEST:
        return LARGEST if number > 0 else -LARGEST
    steps = int(number.scaleb(places).to_integral_value(rounding=ROUND_HALF_EVEN))
    return min(max(steps, -LARGEST), LARGEST)


def _of_decimals(array: pa.Array, plain: pa.Array, places: int) -> np.ndarray:
    """Decimals, also given as int64 multiples of their last digit (the ends of int64: beyond it)."""
    numbers = np.asarray(plain.fill_null(0))
    scale = array.type.scale
    if scale <= places:
        times = 10 ** min(places - scale, 18)
        most = LARGEST // times + 1
        out = np.clip(np.clip(numbers, -most, most) * times, -LARGEST, LARGEST)
    elif scale - places > 18:
        out = np.zeros(len(numbers), np.int64)
    else:
        by = 10 ** (scale - places)
        whole, rest = np.divmod(numbers, by)
        up = (rest * 2 > by) | ((rest * 2 == by) & (whole % 2 == 1))
        out = np.clip(whole + up, -LARGEST, LARGEST)
    for row in maps.wide(array, numbers).tolist():
        out[row] = _rounded(array[row].as_py(), places)
    return out


def _of_text(amount: Amount, text: bytes | None) -> int:
    """The exact number that a text spells; MISSING if it spells none."""
    if text is None or is_missing(text):
        return MISSING
    if amount.kind in ("date", "time"):
        seconds = local_moment(text, maps.zone_of(amount.dtype))
        if seconds is None:
            return MISSING
        return seconds // DAY_SECONDS if amount.kind == "date" else seconds
    if b"_" in text:
        return MISSING
    try:
        return _rounded(Decimal(text.decode().strip()), amount.places)
    except (ArithmeticError, ValueError):  # no decimal, no text, or an exponent without end
        return MISSING

"""Pieces of SQL from which codes are written: searches, runs of neighbouring keys, bytes of texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.codes import DROP
from .._util.lazy import pa
from ..codec.rules import Rule
from ..errors import DataError
from .sql_dialects import Dialect


def text_bytes(
    x: str, kind: pa.DataType, own: str, dialect: Dialect, refused: Callable[[str], DataError]
) -> str:
    """Texts or bytes of a column as bytes."""
    t = pa.types
    inner = kind.value_type if t.is_dictionary(kind) else kind
    if t.is_binary(inner) or t.is_large_binary(inner):
        return x
    if not (t.is_string(inner) or t.is_large_string(inner)):
        raise refused(f"texts of {inner}")
    return dialect.bytes_of(dialect.text_of(x, own))


def plain_code(code: int) -> int:
    """A code of a rule as SQL writes it: -1 drops the row."""
    return -1 if code == DROP else int(code)


def search(at_least: Callable[[Any], str], keys: Sequence[Any], codes: Sequence[Any]) -> str:
    """codes[number of keys that x is at least], as a binary search of nested CASEs."""
    if not keys or len(set(codes)) == 1:
        return str(codes[0])
    half = len(keys) // 2
    low = search(at_least, keys[:half], codes[: half + 1])
    high = search(at_least, keys[half + 1 :], codes[half + 1 :])
    return f"CASE WHEN {at_least(keys[half])} THEN {high} ELSE {low} END"


def neighbours(rule: Rule) -> list[tuple[int, int, int]]:
    """(first key, last key, code of the first) of runs of keys that rise by 1 as their codes do."""
    runs: list[tuple[int, int, int]] = []
    for key, code in zip(rule.keys, map(plain_code, rule.codes), strict=True):
        if (
            runs
            and code >= 0
            and key == runs[-1][1] + 1
            and code == runs[-1][2] + key - runs[-1][0]
        ):
            runs[-1] = (runs[-1][0], key, runs[-1][2])
        else:
            runs.append((key, key, code))
    return runs


def as_bins(rule: Rule, one: int | None) -> tuple[list[Any], list[int]]:
    """A rule of listed keys as bins: each key holds up to `one` above it, or (None) is a float."""
    other = plain_code(rule.other)
    keys: list[Any] = []
    codes = [other]
    for key, code in zip(rule.keys, rule.codes):
        end = math.nextafter(key, math.inf) if one is None else key + one
        if keys and keys[-1] == key:
            codes[-1] = plain_code(code)
        else:
            keys.append(key)
            codes.append(plain_code(code))
        keys.append(end)
        codes.append(other)
    return keys, codes


def float_ends(first: int, last: int) -> tuple[float, float]:
    """The floats nearest to the ends of a range, inside of it."""
    low, high = float(first), float(last)
    if int(low) < first:
        low = math.nextafter(low, math.inf)
    if high >= 2.0**63 or int(high) > last:
        high = math.nextafter(high, -math.inf)
    return low, high

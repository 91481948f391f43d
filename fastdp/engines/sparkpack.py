"""Narrow columns of a Spark DataFrame, several in one 64-bit word.

Spark hands rows to Python value by value, at a cost that does not depend on a value's width, so small whole
numbers, booleans and dates travel as fields of words. A field has the bits of its type and one bit for null.
Law: `unpacked` gives the values, nulls and Arrow types that the columns have without packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._util.lazy import pa

BITS = {"bool": 1, "int8": 8, "int16": 16, "int32": 32, "date32[day]": 32}
"""Bits of the Arrow types that are packed."""

Word = list[tuple[int, int]]
"""The fields of a word: (number of the column, lowest bit)."""


def words(kinds: Sequence[str]) -> list[Word]:
    """Which columns of these Arrow types share a word: the widest first, each in the first word with room. A
    column that would be alone in its word is not packed."""
    filled: list[tuple[Word, int]] = []
    for number in sorted((n for n, kind in enumerate(kinds) if kind in BITS), key=lambda n: -BITS[kinds[n]]):
        bits = BITS[kinds[number]] + 1
        for i, (word, used) in enumerate(filled):
            if used + bits <= 64:
                filled[i] = ([*word, (number, used)], used + bits)
                break
        else:
            filled.append(([(number, 0)], bits))
    return [word for word, _ in filled if len(word) > 1]


def alone(count: int, packed: Sequence[Word]) -> list[int]:
    """Numbers of the columns, of `count`, that are in no word."""
    inside = {number for word in packed for number, _ in word}
    return [number for number in range(count) if number not in inside]


def expressions(columns: Sequence[str], kinds: Sequence[str], packed: Sequence[Word]) -> list[str]:
    """What Spark selects of columns with these names: those that are alone, then the words."""
    out = [columns[number] for number in alone(len(columns), packed)]
    for word in packed:
        out.append(" | ".join(_field(columns[number], kinds[number], low) for number, low in word))
    return out


def _field(column: str, kind: str, low: int) -> str:
    whole = f"unix_date({column})" if kind.startswith("date") else column
    value = f"shiftleft(cast({whole} as bigint) & {(1 << BITS[kind]) - 1}L, {low})"
    return f"if({column} is null, shiftleft(1L, {low + BITS[kind]}), {value})"


def unpacked(
    batch: pa.RecordBatch, names: Sequence[str], kinds: Sequence[str], packed: Sequence[Word]
) -> pa.RecordBatch:
    """The columns of `expressions`, as Spark's tasks receive them, under their names and in their order."""

    columns: list[Any] = [None] * len(names)
    plain = alone(len(names), packed)
    for number, column in zip(plain, batch.columns, strict=False):
        columns[number] = column
    for word, column in zip(packed, batch.columns[len(plain) :], strict=True):
        values = column.to_numpy(zero_copy_only=False).view(np.uint64)
        present = int(np.bitwise_or.reduce(values)) if len(values) else 0
        for number, low in word:
            columns[number] = _array(values, kinds[number], low, present)
    return pa.record_batch(columns, names=list(names))


def _array(values: np.ndarray, kind: str, low: int, present: int) -> pa.Array:
    """One field of words; present: the bits that are set in any of them."""

    bits = BITS[kind]
    field = (values >> np.uint64(low)) & np.uint64((1 << bits) - 1)
    null = None
    if present >> (low + bits) & 1:
        null = ((values >> np.uint64(low + bits)) & np.uint64(1)).astype(bool)
    if kind == "bool":
        return pa.array(field.astype(bool), mask=null)
    whole = pa.array(field.astype(f"u{bits // 8}").view(f"i{bits // 8}"), mask=null)
    return whole.view(pa.date32()) if kind.startswith("date") else whole
